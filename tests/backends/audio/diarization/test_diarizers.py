from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from orchard.backends.audio.decode import RATE
from orchard.backends.audio.diarization.diarizers import Diarizer, load_diarizer
from orchard.backends.audio.listeners import load_listener
from orchard.backends.resampling import Samples
from orchard.core.errors import OrchardError
from tests.support.diarizer_models import make_nemotron_diarizer, make_sortformer
from tests.support.sounds import noise

CHUNK = 2 * RATE  # of the tiny Sortformer
SOUND = noise(11.3).astype(np.float32) / np.float32(32768)

MAKERS: dict[str, Callable[[Path], Path]] = {
    "sortformer 2.1": make_sortformer,
    "sortformer 1": lambda folder: make_sortformer(folder, streams=False),
    "nemotron": make_nemotron_diarizer,
}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Diarizer]:
    folder = tmp_path_factory.mktemp("diarizers")
    return {name: load_diarizer(make(folder / name), lambda fraction: None) for name, make in MAKERS.items()}


def frames(turns: Iterable[Any]) -> set[tuple[int, int]]:
    """The speakers of each hundredth of a second: a border between chunks may cut a turn."""
    return {(one.speaker, at) for one in turns for at in range(round(one.start * 100), round(one.end * 100))}


def heard_frames(model: Diarizer, blocks: Iterable[Samples]) -> set[tuple[int, int]]:
    return frames(turn for chunk in model.hear(blocks) for turn in chunk.turns)


def library_frames(name: str, network: Any) -> set[tuple[int, int]]:
    """What mlx-audio hears, and Sortformer in the same chunks."""
    if name == "nemotron":
        return frames(network.generate(mx.array(SOUND)).segments)
    chunks = [SOUND[at : at + CHUNK][:-1] for at in range(0, len(SOUND), CHUNK)]
    results = network.generate_stream(iter(chunks), spkcache_max=40, fifo_max=25)
    return frames(one for result in results for one in result.segments)


@pytest.mark.parametrize("name", MAKERS)
def test_turns_are_those_of_the_library(models: dict[str, Diarizer], name: str) -> None:
    found = heard_frames(models[name], [SOUND])
    assert found == library_frames(name, models[name]._model)
    assert len({speaker for speaker, _ in found}) > 1


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("size", [RATE // 3, CHUNK + 1])
def test_it_doesnt_matter_how_the_sound_arrives(models: dict[str, Diarizer], name: str, size: int) -> None:
    blocks = [SOUND[at : at + size] for at in range(0, len(SOUND), size)]
    assert heard_frames(models[name], blocks) == heard_frames(models[name], [SOUND])
    ends = [chunk.end for chunk in models[name].hear(blocks)]
    assert ends == sorted(ends)
    assert ends[-1] == pytest.approx(len(SOUND) / RATE)


@pytest.mark.parametrize("name", ["sortformer 2.1", "sortformer 1"])
def test_times_stay_right_in_long_recordings(models: dict[str, Diarizer], name: str) -> None:
    """The library's own frames run ahead by one in each chunk."""
    for at, chunk in enumerate(models[name].hear([np.tile(SOUND, 6)])):
        assert chunk.end <= (at + 1) * 2 + 1e-6
        assert all(2 * at - 1e-6 <= turn.start < turn.end <= 2 * at + 2.0001 for turn in chunk.turns)


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("count", [0, 1, 2, 159, CHUNK + 1, CHUNK + 161])
def test_any_length_is_heard(models: dict[str, Diarizer], name: str, count: int) -> None:
    chunks = list(models[name].hear([SOUND[:count]]))
    assert all(np.isfinite(turn).all() for chunk in chunks for turn in chunk.turns)


@pytest.mark.parametrize("name", ["sortformer 2.1", "nemotron"])
def test_a_chunk_for_which_memory_is_short_is_heard_once_more(
    models: dict[str, Diarizer], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, network = heard_frames(models[name], [SOUND]), models[name]._model
    feed, fails = type(network).feed, [True, False, False, True]

    def short(self: Any, *args: Any, **options: Any) -> Any:
        result = feed(self, *args, **options)
        if fails and fails.pop():
            raise RuntimeError("[malloc] Unable to allocate 8 bytes.")
        return result

    monkeypatch.setattr(type(network), "feed", short)
    blocks = [SOUND[: 5 * RATE], SOUND[5 * RATE :]]
    assert heard_frames(models[name], blocks) == expected
    assert not fails
    fails += [True, True]
    with pytest.raises(OrchardError) as raised:
        list(models[name].hear(blocks))
    assert raised.value.kind == "insufficient_memory"


def test_other_models_are_refused(tmp_path: Path) -> None:
    folder = make_sortformer(tmp_path / "who")
    with pytest.raises(OrchardError, match="name it as the `diarizer` of a transcription model"):
        load_listener(folder, lambda fraction: None)
    text = (folder / "config.json").read_text()
    (folder / "config.json").write_text(text.replace('"sortformer"', '"silero_vad"'))
    with pytest.raises(OrchardError, match="a diarizer is of the type nemotron_diarization or sortformer, and it is a"):
        load_diarizer(folder, lambda fraction: None)
    (folder / "config.json").write_text(
        text.replace('"processor_config": {', '"processor_config": {"sampling_rate": 8')
    )
    with pytest.raises(OrchardError, match="it reads 8 samples per second, and 16,000 are served"):
        load_diarizer(folder, lambda fraction: None)
