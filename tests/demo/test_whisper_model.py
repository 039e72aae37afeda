"""The bundled model that transcribes: voices that training never heard, by OpenAI's SDK, against a real server."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from openai import OpenAI
from tools.demo_whisper_model.clips import RATE, Clips
from tools.demo_whisper_model.config import CONFIG
from tools.demo_whisper_model.evaluate import Heard, figures, recording
from tools.demo_whisper_model.utterances import Utterance, utterance, with_noise, word_errors
from tools.demo_whisper_model.words import WORDS

from orchard.demo import WHISPER_MODEL_PATH
from orchard.gateway.models.registry import resolve
from tests.support.examples import is_deep
from tests.support.serving import Server, serve
from tests.support.sounds import encoded, wav
from tools.demo_whisper_model import export, samples

ROOT = Path(__file__).parents[2]
MODEL = "demo-whisper"
DEEP = is_deep()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve([resolve(MODEL)], spare=False) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=600) as client:
        yield client


@pytest.fixture(scope="module")
def clips() -> Clips:
    return Clips(samples.CLIPS, "held")


def file_of(sound: NDArray[Any]) -> bytes:
    return wav((sound.clip(-1, 1) * 32_767).astype(np.int16), RATE)


def heard(client: OpenAI, made: Utterance, *coded: str, **fields: Any) -> list[Heard]:
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
    return [Heard(word.word, word.start) for word in answer.words]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("lengths", "coded", "fields"),
    [
        ((1, 30), (), {}),
        ((5,), ("-f", "mp3"), {}),
        ((20,), ("-f", "mp3"), {"chunking_strategy": {"type": "server_vad"}}),
    ],
    ids=["wav", "mp3", "speech that is found first"],
)
def test_it_hears_voices_that_training_never_heard(
    client: OpenAI, clips: Clips, lengths: Sequence[float], coded: Sequence[str], fields: dict[str, Any]
) -> None:
    """At most 5% of the words are wrong, and 95% of those that are right begin within 0.15 s of the truth."""
    made = [recording(1, clips, seconds) for seconds in (*lengths, *((600,) if DEEP else ()))]
    assert all(one.segments for one in made)
    found = figures([(one, heard(client, one, *coded, **fields)) for one in made])
    assert (found["errors"] <= 0.05, found["near"] >= 0.95) == (True, True), found


def test_where_nobody_speaks_it_hears_nothing(client: OpenAI, clips: Clips) -> None:
    rng = np.random.default_rng(1)
    silent = utterance(rng, clips, 3, speech=0.0)
    silent.sound = with_noise(rng, silent.sound, 20, 20)
    assert heard(client, silent) == []


def test_between_speech_it_hears_nothing_in_hiss_and_silence(client: OpenAI, clips: Clips) -> None:
    """And the text is the same, whether the times of words are asked for or not."""
    rng = np.random.default_rng(6)
    spoken = [utterance(rng, clips, 5, speech=1.0) for _ in range(3)]
    hiss, silence = rng.standard_normal(27 * RATE) * 0.001, np.zeros(27 * RATE)
    sound = np.concatenate([spoken[0].sound, hiss, spoken[1].sound, silence, spoken[2].sound])
    words = heard(client, Utterance(sound.astype(np.float32)))
    said = [WORDS[word.word] for made in spoken for segment in made.segments for word in segment]
    assert word_errors(said, [one.word for one in words]) <= 0.1 * len(said)
    plain = client.audio.transcriptions.create(model=MODEL, file=("sound", file_of(sound)))
    assert plain.text.split() == [one.word for one in words]


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
    assert re.findall("[a-z]+", printed) == samples.SAID.split()
    if "# " in example:
        assert printed.strip() == example.rpartition("# ")[2].strip()


def test_the_folder_is_small_and_complete() -> None:
    assert export.stored(WHISPER_MODEL_PATH) <= export.MOST_BYTES
    files = {path.name for path in WHISPER_MODEL_PATH.iterdir()}
    assert files >= {"config.json", "model.safetensors", "tokenizer.json", "generation_config.json", "README.md"}
    assert json.loads((WHISPER_MODEL_PATH / "config.json").read_text()) == CONFIG
    assert "has not been measured" not in (WHISPER_MODEL_PATH / "README.md").read_text()
