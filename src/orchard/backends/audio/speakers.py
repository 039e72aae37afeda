"""mlx-audio's speech models: what each accepts, and how it speaks a passage."""

import contextlib
import io
import logging
from collections.abc import Callable, Generator, Sequence
from math import gcd
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import mlx.core as mx
import mlx_audio.tts.utils
import numpy as np
from numpy.typing import NDArray

from orchard.backends.model_folder import evaluate_weights, explain_load_errors, forbid_code, read_config
from orchard.backends.service import Progress
from orchard.core.tasks.speak import RATE
from orchard.core.voices import voices

log = logging.getLogger("orchard.worker")

Instructions = Literal["refused", "optional", "voice"]
"""What a model does with instructions; "voice": they describe its voice, and it can't speak without them."""

_LIBRARY = "mlx-audio"
_PIECE_SECONDS = 0.5  # of audio per piece
# These limit a passage's audio: a model may never stop. The slowest speech, in Chinese, needs half as much.
_LEAST_SECONDS, _SECONDS_PER_CHAR = 8.0, 0.5


class SpeechPiece(NamedTuple):
    """A piece of audio, in [-1, 1] at `RATE`, and the number of the model's tokens that it was made from."""

    sound: NDArray[np.float32]
    tokens: int


class Speaker(Protocol):
    """A loaded speech model. Only the thread that owns MLX uses it."""

    voices: Sequence[str]
    """The first voice is the default."""
    instructions: Instructions

    def count_tokens(self, text: str) -> int:
        """Return the number of a text's tokens."""
        ...

    def say(self, passage: str, voice: str, instructions: str | None) -> Generator[SpeechPiece]:
        """Yield the audio of a passage; make each piece when the caller asks for it."""
        ...


class _Qwen3Tts:
    """Qwen3-TTS, with its own voices or with a description of the voice."""

    def __init__(self, network: Any, voices: Sequence[str]) -> None:
        config = network.config
        if network.tokenizer is None or network.speech_tokenizer is None:
            raise ValueError("its tokenizer, or the folder speech_tokenizer, is missing or broken")
        if config.tts_model_type == "base":
            raise ValueError("it only copies voices of recordings, which is not served; use a CustomVoice model")
        designs = config.tts_model_type == "voice_design"
        self._network = network
        self.voices = voices
        self.instructions: Instructions = (
            "voice" if designs else "refused" if config.tts_model_size == "0b6" else "optional"
        )
        if not designs and not network.get_supported_speakers():
            raise ValueError("its config.json names no voices (talker_config.spk_id)")
        self._frame_rate = network.sample_rate / network.speech_tokenizer.decode_upsample_rate

    def count_tokens(self, text: str) -> int:
        return len(self._network.tokenizer.encode(text))

    def say(self, passage: str, voice: str, instructions: str | None) -> Generator[SpeechPiece]:
        options = {"voice": voice, "instruct": instructions, "max_tokens": _max_frames(passage, self._frame_rate)}
        for result in self._network.generate(passage, **options, stream=True, streaming_interval=_PIECE_SECONDS):
            yield SpeechPiece(_sound_of_result(result), result.token_count)


class _Soprano:
    """Soprano, which has one voice, and returns the audio of a passage all at once."""

    instructions: Instructions = "refused"

    def __init__(self, network: Any, voices: Sequence[str]) -> None:
        self._network = network
        self.voices = voices
        self._frame_rate = network.sample_rate / network.config.decoder_config.token_size

    def count_tokens(self, text: str) -> int:
        return len(self._network.tokenizer.encode(text, add_special_tokens=False))

    def say(self, passage: str, voice: str, instructions: str | None) -> Generator[SpeechPiece]:
        for result in self._network.generate(passage, max_tokens=_max_frames(passage, self._frame_rate)):
            yield SpeechPiece(_sound_of_result(result), result.token_count)


# By mlx-audio's names. These models need no phonemiser, no torch, and no files outside their folder.
_SPEAKERS: dict[str, Callable[[Any, Sequence[str]], Speaker]] = {"qwen3_tts": _Qwen3Tts, "soprano": _Soprano}


def load_speaker(folder: Path, progress: Progress) -> Speaker:
    """Load a speech model; download nothing and run no code in its folder.

    `progress` is called with the fraction that has been read. Raise OrchardError("model_failed") with the reason.
    """
    config = read_config(folder, _LIBRARY)
    with explain_load_errors(folder, _LIBRARY), forbid_code():
        kind = config.get("model_type")
        if kind not in _SPEAKERS:
            raise ValueError(f"speech is served for models of the types {', '.join(_SPEAKERS)}, and it is a {kind}")
        with contextlib.redirect_stdout(io.StringIO()) as said:  # the library prints what it does
            network = mlx_audio.tts.utils.load_model(folder, lazy=True, model_type=kind)
        log.debug("%s says: %s", _LIBRARY, said.getvalue())
        speaker = _SPEAKERS[kind](network, voices(config))
    evaluate_weights(folder, network, progress, _LIBRARY)
    return speaker


def _max_frames(passage: str, frame_rate: float) -> int:
    """Return the most frames of audio for a passage."""
    return int(frame_rate * max(_LEAST_SECONDS, _SECONDS_PER_CHAR * len(passage)))


def _sound_of_result(result: Any) -> NDArray[np.float32]:
    sound: NDArray[np.float32] = np.nan_to_num(np.array(result.audio.astype(mx.float32)).reshape(-1))
    if result.sample_rate != RATE:
        from scipy.signal import resample_poly  # this import takes seconds

        common = gcd(result.sample_rate, RATE)
        sound = resample_poly(sound, RATE // common, result.sample_rate // common)
    return sound
