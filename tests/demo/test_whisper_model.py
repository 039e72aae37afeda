"""The bundled model that transcribes: voices that training never heard, by OpenAI's SDK, against a real server."""

import json
import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from openai import OpenAI

from orchard.demo import WHISPER_MODEL_PATH
from orchard.gateway.models.registry import resolve_model
from tests.support.examples import is_deep
from tests.support.serving import Server, serve
from tests.support.sounds import encoded, wav
from tests.support.spoken_words import RATE, Recording, SpokenWord, recording

ROOT = Path(__file__).parents[2]
MODEL = "demo-whisper"
SAID = "hello doctor please telephone four two nine zero tomorrow"  # in examples/words.mp3
DEEP = is_deep()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve([resolve_model(MODEL)], spare=False) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=600) as client:
        yield client


def file_of(sound: NDArray[Any]) -> bytes:
    return wav((sound.clip(-1, 1) * 32_767).astype(np.int16), RATE)


def heard(client: OpenAI, made: Recording, *coded: str, **fields: Any) -> list[SpokenWord]:
    """The words that the model writes of a WAV file, or of what ffmpeg makes of it with such arguments."""
    sound = file_of(made.sound)
    answer: Any = client.audio.transcriptions.create(
        model=MODEL,
        file=("sound", encoded(sound, *coded) if coded else sound),
        response_format="verbose_json",
        timestamp_granularities=["word"],
        **fields,
    )
    assert answer.duration == pytest.approx(len(made.sound) / RATE, abs=0.1)
    return [SpokenWord(word.word, word.start) for word in answer.words]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("lengths", "coded", "fields"),
    [
        ((1, 30) if DEEP else (1, 8), (), {}),
        pytest.param((5,), ("-f", "mp3"), {}, marks=pytest.mark.deep),
        ((20 if DEEP else 8,), ("-f", "mp3"), {"chunking_strategy": {"type": "server_vad"}}),
    ],
    ids=["wav", "mp3", "speech that is found first"],
)
def test_it_hears_voices_that_training_never_heard(
    client: OpenAI, lengths: Sequence[float], coded: Sequence[str], fields: dict[str, Any]
) -> None:
    """At most 5% of the words are wrong, and 95% of those that are right begin within 0.15 s of the truth."""
    said = wrong = right = near = 0
    for seconds in (*lengths, *((600,) if DEEP else ())):
        made = recording(1, seconds)
        found = heard(client, made, *coded, **fields)
        said += len(made.words)
        wrong += word_errors(made.words, found)
        for one, other in equal_words(made.words, found):
            right += 1
            near += abs(one.start - other.start) <= 0.15
    assert said > sum(lengths) / 2
    assert (wrong <= 0.05 * said, near >= 0.95 * right) == (True, True), (said, wrong, right, near)


def test_where_nobody_speaks_it_hears_nothing(client: OpenAI) -> None:
    hiss = np.random.default_rng(1).standard_normal(3 * RATE, np.float32) * np.float32(0.01)
    assert heard(client, Recording(hiss, [])) == []


@pytest.mark.deep
def test_between_speech_it_hears_nothing_in_hiss_and_silence(client: OpenAI) -> None:
    """And the text is the same, whether the times of words are asked for or not."""
    spoken = [recording(seed, 5, noise=None) for seed in range(3)]
    hiss = np.random.default_rng(6).standard_normal(27 * RATE, np.float32) * np.float32(0.001)
    silence = np.zeros(27 * RATE, np.float32)
    sound = np.concatenate([spoken[0].sound, hiss, spoken[1].sound, silence, spoken[2].sound])
    said = [word for made in spoken for word in made.words]
    found = heard(client, Recording(sound, said))
    assert word_errors(said, found) <= 0.1 * len(said)
    plain = client.audio.transcriptions.create(model=MODEL, file=("sound", file_of(sound)))
    assert plain.text.split() == [word.text for word in found]


def _blocks(said: Sequence[SpokenWord], found: Sequence[SpokenWord]) -> Sequence[tuple[str, int, int, int, int]]:
    return SequenceMatcher(None, [word.text for word in said], [word.text for word in found], False).get_opcodes()


def word_errors(said: Sequence[SpokenWord], found: Sequence[SpokenWord]) -> int:
    """How many words are missing, wrong or too many."""
    return sum(max(i2 - i1, j2 - j1) for kind, i1, i2, j1, j2 in _blocks(said, found) if kind != "equal")


def equal_words(said: Sequence[SpokenWord], found: Sequence[SpokenWord]) -> list[tuple[SpokenWord, SpokenWord]]:
    equal = [(i1, i2, j1, j2) for kind, i1, i2, j1, j2 in _blocks(said, found) if kind == "equal"]
    return [pair for i1, i2, j1, j2 in equal for pair in zip(said[i1:i2], found[j1:j2], strict=True)]


@pytest.mark.parametrize("page", ["README.md", "docs/audio.md"])
def test_the_examples_of_the_pages(
    server: Server, client: OpenAI, page: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)  # where the examples have their recording
    (example,) = re.findall(r"```python\n([^`]*demo-whisper[^`]*)```", Path(page).read_text())
    names = {"client": client}
    exec(example.replace("http://127.0.0.1:8000", server.url), names)  # noqa: S102
    if names["client"] is not client:  # the example made one
        names["client"].close()
    printed = capsys.readouterr().out
    assert re.findall("[a-z]+", printed) == SAID.split()
    if "# " in example:
        assert printed.strip() == example.rpartition("# ")[2].strip()


def test_the_folder_is_small_and_complete() -> None:
    files = {path.name: path.stat().st_size for path in WHISPER_MODEL_PATH.iterdir()}
    assert files.keys() >= {"config.json", "model.safetensors", "tokenizer.json", "generation_config.json", "README.md"}
    assert sum(files.values()) <= 7_000_000
    assert json.loads((WHISPER_MODEL_PATH / "config.json").read_text())["model_type"] == "whisper"
    assert "has not been measured" not in (WHISPER_MODEL_PATH / "README.md").read_text()
