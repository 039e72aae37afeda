"""mlx-audio's speech models: what each accepts, and how it speaks a passage."""

import inspect
import itertools
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from orchard.backends.audio.speakers.speaker import (
    PIECE_SECONDS,
    Instructions,
    SampleVoice,
    Speaker,
    SpeechPiece,
    most_frames,
    silence_library,
    sound_of_result,
)
from orchard.core.errors import OrchardError
from orchard.core.tasks.speak import RATE


class _Qwen3Tts:
    """Qwen3-TTS, with its own voices, with a description of the voice, or (Base) with the voice of a recording."""

    def __init__(self, network: Any, voices: Sequence[str], folder: Path) -> None:
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
        options: dict[str, Any] = {"instruct": instructions, "max_tokens": most_frames(passage, self._frame_rate)}
        if isinstance(voice, SampleVoice):
            options |= {"ref_audio": mx.array(voice.sound), "ref_text": voice.transcript}
        else:
            options["voice"] = voice
        for result in self._network.generate(passage, **options, stream=True, streaming_interval=PIECE_SECONDS):
            yield SpeechPiece(sound_of_result(result), result.token_count)


class _Soprano:
    """Soprano, which has one voice, and returns the audio of a passage all at once."""

    instructions: Instructions = "refused"
    copies = False

    def __init__(self, network: Any, voices: Sequence[str], folder: Path) -> None:
        self._network = network
        self.voices = voices
        self._frame_rate = network.sample_rate / network.config.decoder_config.token_size

    def count_tokens(self, text: str) -> int:
        return len(self._network.tokenizer.encode(text, add_special_tokens=False))

    def say(self, passage: str, voice: str | SampleVoice, instructions: str | None) -> Generator[SpeechPiece]:
        for result in self._network.generate(passage, max_tokens=most_frames(passage, self._frame_rate)):
            yield SpeechPiece(sound_of_result(result), result.token_count)


class _Chatterbox:
    """Chatterbox, with the voice of its conds.safetensors or of a recording; it returns a passage all at once."""

    instructions: Instructions = "refused"
    copies = True
    _FRAME_RATE = 25  # of its speech tokens
    _MOST_SECONDS = 40  # as in mlx-audio

    def __init__(self, network: Any, voices: Sequence[str], folder: Path) -> None:
        if network.tokenizer is None and network.mtl_tokenizer is None:
            raise ValueError("its tokenizer.json is missing")
        self._network = network
        self.voices = voices

    def count_tokens(self, text: str) -> int:
        return int(self._network._tokenize_text(text, "en").shape[1])

    def say(self, passage: str, voice: str | SampleVoice, instructions: str | None) -> Generator[SpeechPiece]:
        options: dict[str, Any] = {"max_tokens": most_frames(passage, self._FRAME_RATE, self._MOST_SECONDS)}
        if isinstance(voice, SampleVoice):
            options["ref_audio"] = voice.at_rate(self._network.sample_rate)
        for result in silence_library(self._network.generate(passage, verbose=False, **options)):
            sound = sound_of_result(result)
            yield SpeechPiece(sound, len(sound) * self._FRAME_RATE // RATE)  # its `token_count` is that of the text


class _Sesame:
    """Sesame CSM and Marvis: they speak on as a recording does, one of the folder `prompts` or the caller's."""

    instructions: Instructions = "refused"
    copies = True
    _MOST_SECONDS = 90  # as in mlx-audio; the rest of its context has the recording and the text

    def __init__(self, network: Any, voices: Sequence[str], folder: Path) -> None:
        self._network = network
        self.voices = voices
        self._prompts = {name: _read_prompt(network, folder / "prompts", name) for name in voices}

    def count_tokens(self, text: str) -> int:
        return len(self._network._text_tokenizer.encode(text))

    def say(self, passage: str, voice: str | SampleVoice, instructions: str | None) -> Generator[SpeechPiece]:
        options: dict[str, Any] = {"max_audio_length_ms": most_frames(passage, 1000, self._MOST_SECONDS)}
        if isinstance(voice, SampleVoice):
            options |= {"ref_audio": voice.at_rate(self._network.sample_rate), "ref_text": voice.words}
        else:
            options["context"] = self._prompts[voice]
        results = self._network.generate(passage, **options, stream=True, streaming_interval=PIECE_SECONDS)
        try:
            for result in silence_library(results):
                yield SpeechPiece(sound_of_result(result), result.token_count)
        except ValueError as error:
            if "too long" not in str(error):
                raise
            message = "`voice` can't be served: its recording and transcript are too long for this model"
            raise OrchardError("invalid_request", message, param="voice") from None


def _read_prompt(network: Any, folder: Path, name: str) -> list[Any]:
    """Return the recording that a voice of Sesame continues. Raise ValueError if its text is missing.

    mlx-audio knows the texts of Sesame's own recordings, which have no files of text.
    """
    library: Any = inspect.getmodule(type(network))
    original = library.hf_hub_download
    try:
        # It would look for the recording in the Hugging Face cache.
        library.hf_hub_download = lambda repo_id, filename: str(folder.parent / filename)
        found: list[Any] = network.default_speaker_prompt(name)
    except KeyError:
        raise ValueError(f"prompts/{name}.wav needs its text in prompts/{name}.txt") from None
    finally:
        library.hf_hub_download = original
    return found


class _Dia:
    """Dia, which has no voice of its own: each passage has another one, unless it copies that of a recording."""

    instructions: Instructions = "refused"
    copies = True

    def __init__(self, network: Any, voices: Sequence[str], folder: Path) -> None:
        if network.config is None:
            raise ValueError("its config.json is not complete")
        self._network = network
        self.voices = voices
        codec = network.dac_model
        self._frame_rate = codec.sample_rate / codec.hop_length
        self._most_seconds = network.config.data.audio_length / self._frame_rate

    def count_tokens(self, text: str) -> int:
        return len(text.encode())

    def say(self, passage: str, voice: str | SampleVoice, instructions: str | None) -> Generator[SpeechPiece]:
        options: dict[str, Any] = {"max_tokens": most_frames(passage, self._frame_rate, self._most_seconds)}
        if isinstance(voice, SampleVoice):
            words = _name_speaker(voice.words)
            options |= {"ref_audio": voice.at_rate(self._network.sample_rate), "ref_text": words}
        most = self._network.config.data.text_length
        for turns in split_dialogue(_name_speaker(passage)):
            if self.count_tokens(f"{options.get('ref_text', '')} {turns}") > most:  # the rest would not be spoken
                what = "the transcript of the voice and a passage" if "ref_text" in options else "a passage of `input`"
                message = f"this model reads at most {most} bytes of text at once, and {what} have more"
                raise OrchardError("invalid_request", message, param="voice" if "ref_text" in options else "input")
            for result in silence_library(self._network.generate(turns, verbose=False, **options)):
                yield SpeechPiece(sound_of_result(result), int(result.token_count))


def _name_speaker(text: str) -> str:
    """Return a text that begins with a speaker: Dia knows no other texts."""
    return text if text.lstrip().startswith(("[S1]", "[S2]")) else f"[S1] {text}"


def split_dialogue(text: str) -> list[str]:
    """Split a text for Dia: of a dialogue, mlx-audio only speaks the pairs of a turn of [S1] and one of [S2]."""
    if "[S1]" not in text or "[S2]" not in text:
        return [text]
    begin, end = text.find("[S1]"), text.rfind("[S2]")
    last = text.find("[S1]", end)
    cuts = sorted({0, begin, len(text) if last < 0 else last, len(text)})
    parts = (text[a:b].strip() for a, b in itertools.pairwise(cuts))
    return [part for part in parts if re.sub(r"\[S[12]\]", "", part).strip()]


class _Orpheus:
    """Orpheus, a Llama that writes the codes of sound.

    It doesn't copy voices: mlx-audio says that its copies are not reliable. mlx-audio's own pieces repeat a sixth of a
    second of the piece before; so the sound is made of its tokens here, with the codes on both sides of a piece.
    """

    instructions: Instructions = "refused"
    copies = False
    _CODES = 7  # of a frame
    _FRAME = 2048  # samples
    _AROUND = 3  # frames; those farther away don't change a sample
    _BEGIN, _END, _FIRST = 128_257, 128_258, 128_266
    """The tokens before and after the codes, and the first one that is a code."""

    def __init__(self, network: Any, voices: Sequence[str], folder: Path) -> None:
        self._network = network
        self._library: Any = inspect.getmodule(type(network))
        self.voices = voices

    def count_tokens(self, text: str) -> int:
        return len(self._network.tokenizer.encode(text, add_special_tokens=False))

    def say(self, passage: str, voice: str | SampleVoice, instructions: str | None) -> Generator[SpeechPiece]:
        piece = round(PIECE_SECONDS * RATE / self._FRAME)
        codes: list[int] = []
        begin = tokens = said = 0
        for token in self._write(passage, voice):
            tokens += 1
            if token == self._BEGIN:
                codes, begin = [], 0
            elif token >= self._FIRST:
                codes.append(token - self._FIRST)
            if len(codes) == self._CODES * (begin + piece + self._AROUND):
                yield SpeechPiece(self._decode(codes, begin, begin + piece), tokens - said)
                begin, said = begin + piece, tokens
        if len(codes) >= self._CODES * (begin + 1):
            yield SpeechPiece(self._decode(codes, begin, None), tokens - said)

    def _write(self, passage: str, voice: str | SampleVoice) -> Iterator[int]:
        """Yield the tokens for a passage, drawn as mlx-audio does by default."""
        library = self._library
        most = self._CODES * most_frames(passage, RATE / self._FRAME)
        responses = library.stream_generate(
            self._network,
            tokenizer=self._network.tokenizer,
            prompt=self._network.prepare_input_ids(passage, voice).squeeze(0),
            max_tokens=most,
            sampler=library.make_sampler(0.6, 0.8),
            logits_processors=library.make_logits_processors(None, 1.3, 20),
        )
        for response in responses:
            if response.token == self._END:
                return
            yield int(response.token)

    def _decode(self, codes: Sequence[int], begin: int, end: int | None) -> NDArray[np.float32]:
        """Return the sound of some frames; `end` None: up to the last. A code that can't be where it is is the nearest
        that can: to look it up would read other memory."""
        first = max(0, begin - self._AROUND)
        last = len(codes) // self._CODES if end is None else end + self._AROUND
        frames = np.array(codes[first * self._CODES : last * self._CODES]).reshape(-1, self._CODES)
        least = 4096 * np.arange(self._CODES)
        (sound,) = self._library.decode_audio_from_codes(frames.clip(least, least + 4095).reshape(-1).tolist())
        piece = slice((begin - first) * self._FRAME, None if end is None else (end - first) * self._FRAME)
        return np.nan_to_num(np.array(sound[piece], np.float32))


class UntestedModel:
    """Any other model of mlx-audio: the parameters of its `generate` show what it takes."""

    def __init__(self, network: Any, voices: Sequence[str], folder: Path) -> None:
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
        """Yield the audio of a passage: see `Speaker`."""
        options: dict[str, Any] = {"verbose": False, "instruct": instructions}
        if isinstance(voice, SampleVoice):
            text = voice.words if "ref_text" in self._takes else None
            options |= {"ref_audio": voice.at_rate(self._network.sample_rate), "ref_text": text}
        given = {name: value for name, value in options.items() if name in self._takes and value is not None}
        for result in silence_library(self._network.generate(passage, **given)):
            yield SpeechPiece(sound_of_result(result), int(result.token_count))


SPEAKERS: dict[str, Callable[[Any, Sequence[str], Path], Speaker]] = {
    "chatterbox": _Chatterbox,
    "dia": _Dia,
    "llama": _Orpheus,
    "qwen3_tts": _Qwen3Tts,
    "sesame": _Sesame,
    "soprano": _Soprano,
}
"""The models that were compared with mlx-audio, by its names. They need no phonemiser and no torch."""
