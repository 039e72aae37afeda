"""mlx-audio's diarizers: models that tell who speaks when in a recording, chunk by chunk."""

import contextlib
import dataclasses
import io
import logging
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
import mlx_audio.vad.utils
import numpy as np
from mlx.utils import tree_flatten

from orchard.backends.audio.decode import RATE
from orchard.backends.model_folder import evaluate_weights, explain_load_errors, forbid_code, read_config
from orchard.backends.resampling import Samples
from orchard.core.model_config import DIARIZER_KINDS
from orchard.device.out_of_memory import retry_once

log = logging.getLogger("orchard.worker")

_LIBRARY = "mlx-audio"
# Of a chunk of Sortformer. A longer one would take more memory, and have more frames than the model has positions.
_MOST_CHUNK_SECONDS = 30


class SpeakerTurn(NamedTuple):
    """Somebody speaks from `start` to `end`, in seconds. `speaker` is a number from 0, the same in all of it."""

    start: float
    end: float
    speaker: int


class HeardChunk(NamedTuple):
    """The turns of the next chunk of a recording, and up to which second they are complete."""

    turns: list[SpeakerTurn]
    end: float


class Diarizer:
    """A model of one of `DIARIZER_KINDS`. Its state tells speakers from chunk to chunk, in bounded memory."""

    def __init__(self, kind: str, model: Any) -> None:
        """Raise ValueError if the model reads no samples at `RATE`."""
        if (rate := model.config.processor_config.sampling_rate) != RATE:
            raise ValueError(f"it reads {rate:,} samples per second, and {RATE:,} are served")
        self._model = model
        self._hear = self._hear_sortformer if kind == "sortformer" else self._hear_nemotron
        self.weights_bytes = sum(array.nbytes for _, array in tree_flatten(model.parameters()))

    def hear(self, blocks: Iterable[Samples]) -> Iterator[HeardChunk]:
        """Yield the turns of samples in [-1, 1] at `RATE`, in order of their chunks."""
        for chunk in self._hear(iter(blocks)):
            mx.clear_cache()
            yield chunk

    def _hear_sortformer(self, blocks: Iterator[Samples]) -> Iterator[HeardChunk]:
        """Yield chunks of as many frames as the model's cache of speakers takes up."""
        modules, processor = self._model.config.modules_config, self._model.config.processor_config
        frame = processor.hop_length * self._model.config.fc_encoder_config.subsampling_factor
        frames = min(modules.chunk_len, modules.spkcache_update_period, _MOST_CHUNK_SECONDS * RATE // frame)
        options = {"spkcache_max": modules.spkcache_len}
        options |= {"fifo_max": modules.fifo_len} if modules.fifo_len > 0 else {}
        state, begin = self._model.init_streaming_state(), 0
        for chunk in _cut_chunks(blocks, max(1, frames) * frame):
            before = state.frames_processed
            # The spectrogram of a whole chunk has one frame too many, so the times of the next chunk would be wrong.
            result, state = self._feed(chunk[:-1], state, **options)
            shift = (begin - before * frame) / RATE
            begin += len(chunk)
            yield HeardChunk(_turns_of_result(result, shift), begin / RATE)

    def _hear_nemotron(self, blocks: Iterator[Samples]) -> Iterator[HeardChunk]:
        """Yield the turns that are certain after each block. The model looks ahead, so they lag behind it."""
        state = self._model.init_streaming_state()
        hop = self._model.config.processor_config.hop_length
        for block in blocks:
            result, state = self._feed(block, state)
            yield HeardChunk(_turns_of_result(result), state.frames_processed * hop / RATE)
        result, state = self._feed(np.zeros(0, np.float32), state, final=True)
        yield HeardChunk(_turns_of_result(result), state.samples_received / RATE)

    def _feed(self, samples: Samples, state: Any, **options: Any) -> tuple[Any, Any]:
        """Return the library's result for samples, and its next state; if memory runs out, try once more."""
        # Nemotron changes the state that it is given.
        heard: tuple[Any, Any] = retry_once(
            lambda: self._model.feed(mx.array(samples), dataclasses.replace(state), **options)
        )
        return heard


def _turns_of_result(result: Any, shift: float = 0.0) -> list[SpeakerTurn]:
    return [SpeakerTurn(one.start + shift, one.end + shift, one.speaker) for one in result.segments]


def _cut_chunks(blocks: Iterator[Samples], size: int) -> Iterator[Samples]:
    """Yield the samples of the blocks in chunks of `size`. The last may be shorter; a single sample is dropped."""
    held = np.zeros(0, np.float32)
    for block in blocks:
        held = np.concatenate([held, block])
        for begin in range(0, len(held) - size + 1, size):
            yield held[begin : begin + size]
        held = held[len(held) // size * size :]
    if len(held) > 1:
        yield held


def load_diarizer(folder: Path, progress: Callable[[float], None]) -> Diarizer:
    """Load a diarizer; download nothing and run no code in its folder. Raise OrchardError("model_failed")."""
    config = read_config(folder, _LIBRARY)
    with explain_load_errors(folder, _LIBRARY), forbid_code():
        kind = str(config.get("model_type"))
        if kind not in DIARIZER_KINDS:
            raise ValueError(f"a diarizer is of the type {' or '.join(DIARIZER_KINDS)}, and it is a {kind}")
        with contextlib.redirect_stdout(io.StringIO()) as said:  # the library prints what it does
            model = mlx_audio.vad.utils.load_model(folder, lazy=True, strict=True)
        log.debug("%s says: %s", _LIBRARY, said.getvalue())
        found = Diarizer(kind, model)
    evaluate_weights(folder, model, progress, _LIBRARY)
    with explain_load_errors(folder, _LIBRARY):  # weights with wrong shapes only fail now
        list(found.hear([np.zeros(RATE, np.float32)]))
    return found
