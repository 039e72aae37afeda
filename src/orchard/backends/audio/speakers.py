"""mlx-audio's speech models: what each accepts, and how it speaks a passage."""

import contextlib
import inspect
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
from orchard.core.errors import OrchardError
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


class SampleVoice(NamedTuple):
    """A voice to copy: its sound, in [-1, 1] at `RATE`, and what it says, if known."""

    sound: NDArray[np.float32]
    transcript: str | None


class Speaker(Protocol):
    """A loaded speech model. Only the thread that owns MLX uses it."""

    voices: Sequence[str]
    """The first voice is the default. If there are none, it only copies voices."""
    instructions: Instructions
    copies: bool
    """Whether it copies voices of recordings."""

    def count_tokens(self, text: str) -> int:
        """Return the number of a text's tokens."""
        ...

    def say(self, passage: str, voice: str | SampleVoice, instructions: str | None) -> Generator[SpeechPiece]:
        """Yield the audio of a passage; make each piece when the caller asks for it."""
        ...


class _Qwen3Tts:
    """Qwen3-TTS, with its own voices, with a description of the voice, or (Base) with the voice of a recording."""

    def __init__(self, network: Any, voices: Sequence[str]) -> None:
        config = network.config
        if network.tokenizer is None or network.speech_tokenizer is None:
            raise ValueError("its tokenizer, or the folder speech_tokenizer, is missing or broken")
        self.copies = config.tts_model_type == "base"
        if self.copies and network.speaker_encoder is None:
            raise ValueError("the weights of its speaker encoder are missing")
        designs = config.tts_model_type == "voice_design"
        self._network = network
        self.voices = voices
        self.instructions: Instructions = (
            "voice" if designs else "refused" if self.copies or config.tts_model_size == "0b6" else "optional"
        )
        if not designs and not self.copies and not network.get_supported_speakers():
            raise ValueError("its config.json names no voices (talker_config.spk_id)")
        self._frame_rate = network.sample_rate / network.speech_tokenizer.decode_upsample_rate

    def count_tokens(self, text: str) -> int:
        return len(self._network.tokenizer.encode(text))

    def say(self, passage: str, voice: str | SampleVoice, instructions: str | None) -> Generator[SpeechPiece]:
        options: dict[str, Any] = {"instruct": instructions, "max_tokens": _max_frames(passage, self._frame_rate)}
        if isinstance(voice, SampleVoice):
            options |= {"ref_audio": mx.array(voice.sound), "ref_text": voice.transcript}
        else:
            options["voice"] = voice
        for result in self._network.generate(passage, **options, stream=True, streaming_interval=_PIECE_SECONDS):
            yield SpeechPiece(_sound_of_result(result), result.token_count)


class _Soprano:
    """Soprano, which has one voice, and returns the audio of a passage all at once."""

    instructions: Instructions = "refused"
    copies = False

    def __init__(self, network: Any, voices: Sequence[str]) -> None:
        self._network = network
        self.voices = voices
        self._frame_rate = network.sample_rate / network.config.decoder_config.token_size

    def count_tokens(self, text: str) -> int:
        return len(self._network.tokenizer.encode(text, add_special_tokens=False))

    def say(self, passage: str, voice: str | SampleVoice, instructions: str | None) -> Generator[SpeechPiece]:
        for result in self._network.generate(passage, max_tokens=_max_frames(passage, self._frame_rate)):
            yield SpeechPiece(_sound_of_result(result), result.token_count)


class _UntestedModel:
    """Any other model of mlx-audio: the parameters of its `generate` show what it takes."""

    def __init__(self, network: Any, voices: Sequence[str]) -> None:
        parameters = inspect.signature(network.generate).parameters
        self._network = network
        self._takes = parameters.keys()
        self.voices = voices
        self.instructions: Instructions = "optional" if "instruct" in parameters else "refused"
        # Some read the recording from a file.
        self.copies = "ref_audio" in parameters and "array" in str(parameters["ref_audio"].annotation)

    def count_tokens(self, text: str) -> int:
        """Return the number of a text's tokens; that of its words if the model shows no tokenizer."""
        encode = getattr(getattr(self._network, "tokenizer", None), "encode", str.split)
        return len(encode(text))

    def say(self, passage: str, voice: str | SampleVoice, instructions: str | None) -> Generator[SpeechPiece]:
        options: dict[str, Any] = {"verbose": False, "instruct": instructions}
        if isinstance(voice, SampleVoice):
            if "ref_text" in self._takes and voice.transcript is None:
                message = "this model copies a voice only if the `transcript` of its sample was given"
                raise OrchardError("invalid_request", message, param="voice")
            sound = _resample(voice.sound, RATE, self._network.sample_rate)
            options |= {"ref_audio": mx.array(sound), "ref_text": voice.transcript}
        given = {name: value for name, value in options.items() if name in self._takes and value is not None}
        results = iter(self._network.generate(passage, **given))
        while True:
            with contextlib.redirect_stdout(io.StringIO()):
                result = next(results, None)
            if result is None:
                return
            yield SpeechPiece(_sound_of_result(result), int(result.token_count))


# By mlx-audio's names. These models need no phonemiser, no torch, and no files outside their folder.
_SPEAKERS: dict[str, Callable[[Any, Sequence[str]], Speaker]] = {"qwen3_tts": _Qwen3Tts, "soprano": _Soprano}
# What can't be installed beside Orchard's libraries.
_PHONEMISERS = {"kitten": "phonemizer-fork", "kokoro": "misaki"}
# The other repositories whose files mlx-audio reads; workers find them only in the Hugging Face cache.
_OTHER_REPOS = {
    "chatterbox": ("mlx-community/S3TokenizerV2",),
    "chatterbox_turbo": ("mlx-community/S3TokenizerV2",),
    "dia": ("mlx-community/descript-audio-codec-44khz",),
    "echo_tts": ("jordand/fish-s1-dac-min",),
    "irodori_tts": ("Aratako/Semantic-DACVAE-Japanese-32dim",),
    "llama": ("mlx-community/snac_24khz",),
    "outetts": ("mlx-community/dac-speech-24khz-1.5kbps",),
    "qwen3": ("mlx-community/snac_24khz",),
    "sesame": ("kyutai/moshiko-pytorch-bf16", "unsloth/Llama-3.2-1B"),
    "vibevoice": ("Qwen/Qwen2.5-0.5B",),
}


def load_speaker(folder: Path, progress: Progress) -> Speaker:
    """Load a speech model; download nothing and run no code in its folder.

    `progress` is called with the fraction that has been read. Raise OrchardError("model_failed") with the reason.
    """
    config = read_config(folder, _LIBRARY)
    with explain_load_errors(folder, _LIBRARY), forbid_code():
        kind = config.get("model_type")
        if phonemiser := _PHONEMISERS.get(str(kind)):
            raise ValueError(f"it needs the phonemiser {phonemiser}, which Orchard doesn't run")
        with contextlib.redirect_stdout(io.StringIO()) as said:  # the library prints what it does
            network = _load_network(folder, str(kind))
        log.debug("%s says: %s", _LIBRARY, said.getvalue())
        if kind not in _SPEAKERS:
            log.warning("speech models of the type %s were not tested with Orchard", kind)
        speaker = _SPEAKERS.get(str(kind), _UntestedModel)(network, voices(config))
    evaluate_weights(folder, network, progress, _LIBRARY)
    return speaker


def _load_network(folder: Path, kind: str) -> Any:
    try:
        return mlx_audio.tts.utils.load_model(folder, lazy=True, model_type=kind)
    except Exception as error:
        if repos := _OTHER_REPOS.get(kind):
            commands = " and ".join(f"'hf download {repo}'" for repo in repos)
            advice = f"it also needs files of other repositories: if the cache lacks them, {commands} fetches them"
            raise ValueError(f"{advice} ({_first_line(error)})") from error
        raise


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)[:200]


def _max_frames(passage: str, frame_rate: float) -> int:
    """Return the most frames of audio for a passage."""
    return int(frame_rate * max(_LEAST_SECONDS, _SECONDS_PER_CHAR * len(passage)))


def _sound_of_result(result: Any) -> NDArray[np.float32]:
    sound: NDArray[np.float32] = np.nan_to_num(np.array(result.audio.astype(mx.float32)).reshape(-1))
    return _resample(sound, result.sample_rate, RATE)


def _resample(sound: NDArray[np.float32], rate: int, to: int) -> NDArray[np.float32]:
    if rate == to:
        return sound
    from scipy.signal import resample_poly  # this import takes seconds

    common = gcd(rate, to)
    resampled: NDArray[np.float32] = resample_poly(sound, to // common, rate // common)
    return resampled
