"""Transcription models other than Whisper: mlx-audio transcribes a recording window by window.

The signature of a model's `generate` shows its options. The tables below have what the signature doesn't show.
"""

import contextlib
import inspect
import io
import itertools
import json
import logging
import math
import unicodedata
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_audio.stt.utils
import numpy as np
from mlx.utils import tree_flatten
from mlx_audio.lm.sample_utils import make_sampler
from mlx_audio.stt.models.base import STTOutput
from mlx_audio.stt.models.fun_asr_nano.fun_asr_nano import SUPPORTED_ISO_LANGUAGES
from mlx_audio.stt.models.whisper.tokenizer import LANGUAGES, TO_LANGUAGE_CODE

from orchard import folder_files
from orchard.backends.audio.decode import RATE, SilentError, decode_recording
from orchard.backends.audio.diarization.recognizer import SpeakerNames
from orchard.backends.audio.recognizer import Advance, Beat
from orchard.backends.audio.vocabulary.tokenizer import token_bytes
from orchard.backends.model_folder import evaluate_weights, explain_load_errors, forbid_code, read_config
from orchard.backends.resampling import Samples
from orchard.core.errors import OrchardError
from orchard.core.events import TokenLogprob
from orchard.core.model_config import DIARIZER_KINDS, transcription_kind
from orchard.core.tasks.transcribe import Recording, Segment, Transcribe, Word
from orchard.device.out_of_memory import run_in_parts

log = logging.getLogger("orchard.worker")

_LIBRARY = "mlx-audio"
_WINDOW_SECONDS = 30
# A longer recording is cut at the quietest place in this range, in seconds. So at least 2 s are left over.
_CUT_BEGIN, _CUT_END = 20, 28
_MOST_WINDOW_TOKENS = 400  # per window: twice as many as fast speech needs; else a model may never stop

# The parameter that takes the text before a recording, and the languages that a model knows.
_PROMPTS = {"fun_asr_nano": "context", "qwen3_asr": "system_prompt", "vibevoice_asr": "context"}
_LANGUAGES: Mapping[str, Callable[[Any], Collection[str]]] = {
    "canary": lambda model: model.config.supported_languages,
    "cohere_asr": lambda model: model.config.supported_languages,
    "fun_asr_nano": lambda model: SUPPORTED_ISO_LANGUAGES.split(", "),
    "nemotron_asr": lambda model: model.prompt_dictionary,
    "qwen3_asr": lambda model: model.config.support_languages or (),
    "sensevoice": lambda model: model.lid_dict,
}
_RATES = {"vibevoice_asr": 24_000}  # of samples, where it isn't `RATE`
_KINDS_WITH_SPEAKERS = {"moss_transcribe_diarize", "vibevoice_asr"}
"""The kinds that return the time and the speaker of each sentence, but no words. They only know the speakers of what
they hear at once."""
_KINDS_WITH_TIMES = {"nemotron_asr", "parakeet", *_KINDS_WITH_SPEAKERS}
_KINDS_WITH_WORDS = _KINDS_WITH_TIMES - _KINDS_WITH_SPEAKERS
_MOST_AT_ONCE_SECONDS = 600
# What VibeVoice-ASR reads if its folder has no tokenizer.
_QWEN = "hf download Qwen/Qwen2.5-7B config.json tokenizer.json tokenizer_config.json"


class Listener:
    """A model of one of the kinds that `core.model_config.transcription_kind` knows."""

    def __init__(self, kind: str, model: Any) -> None:
        self._kind = kind
        self.tells_speakers = kind in _KINDS_WITH_SPEAKERS
        self._model = model
        self._rate = _RATES.get(kind, RATE)
        self._parameters = inspect.signature(model.generate).parameters
        if "text" in self._parameters:
            raise ValueError("it only tells when the words of a given text were said")
        if getattr(model, "is_streaming_model", False):
            raise ValueError("VibeVoice-ASR-Streaming tells no times and is not served; VibeVoice-ASR is")
        self.weights_bytes = sum(array.nbytes for _, array in tree_flatten(model.parameters()))

    def transcribe(self, task: Transcribe, beat: Beat) -> Generator[Advance, None, None]:
        """Transcribe a recording: see `Recognizer`. It is decoded twice, so that no samples are kept."""
        options, rate = self._options(task), self._rate
        count = 0
        try:
            for block in decode_recording(task.path, "file", rate):
                count += len(block)
                yield Advance([])
        except SilentError as silent:
            yield Advance([Recording(silent.seconds, options.get("language"))], silent.seconds)
            return
        if task.speakers and count > _MOST_AT_ONCE_SECONDS * rate:
            longest = f"at most {_MOST_AT_ONCE_SECONDS // 60} minutes"
            raise self._refusal("response_format", f"tell speakers apart in recordings of {longest}")
        yield Advance([Recording(count / rate, options.get("language"))])
        names, begin = SpeakerNames(), 0
        blocks = decode_recording(task.path, "file", rate)
        for window in [np.concatenate(list(blocks))] if task.speakers else _cut_windows(blocks, count, rate):
            beat()
            # The speakers of several parts could not be told apart.
            halve: Callable[[Samples], list[Samples]] = (
                (lambda whole: []) if task.speakers else partial(_halve_window, rate=rate)
            )
            for part, result in run_in_parts(lambda heard: self.hear(heard, options, beat), window, halve):
                if isinstance(result, OrchardError):
                    raise result
                end = begin + len(part)
                if self.tells_speakers:
                    segments = _segments_with_speakers(result.segments, names, begin / rate, end / rate)
                else:
                    segments = _segments_of_result(result, begin / rate, end / rate)
                yield Advance(list(segments), end / rate)
                begin = end

    def hear(self, window: Samples, options: Mapping[str, Any], beat: Beat = lambda: None) -> Any:
        """Return the library's result for a window; call `beat` for each token of one that may be long."""
        # Shorter audio is padded with silence, since not all models can read it.
        heard = mx.array(np.pad(window, (0, max(0, self._rate // 2 - len(window)))))
        if self.tells_speakers:
            hear = self._hear_vibevoice if self._kind == "vibevoice_asr" else self._hear_moss
            result: Any = hear(heard, options, beat)
        else:
            result = self._model.generate(heard, verbose=False, **options)
        mx.clear_cache()
        return result

    def _hear_moss(self, heard: mx.array, options: Mapping[str, Any], beat: Beat) -> STTOutput:
        model, seconds = self._model, len(heard) / self._rate
        tokens = model.stream_generate(heard, **_token_options(options, seconds))
        text, told = _write(model._tokenizer, tokens, options, beat)
        segments = model._parse_segments(text, seconds)
        for one in segments:
            one["text"] = one["text"].removeprefix(f"[{one.get('speaker_id')}] ").strip()
        return STTOutput(text, _add_logprobs(segments, told, str))

    def _hear_vibevoice(self, heard: mx.array, options: Mapping[str, Any], beat: Beat) -> STTOutput:
        """Read the JSON that it writes. If its tokens end within a sentence, those before it count."""
        model, seconds = self._model, len(heard) / self._rate
        features = model.encode_speech(model._preprocess_audio(heard))
        beat()
        ids, mask = model._build_prompt_tokens(features, seconds, options.get("context"))
        given = {"speech_features": features, "acoustic_input_mask": mask, **_token_options(options, seconds)}
        text, told = _write(model.tokenizer, model.stream_generate(ids, **given), options, beat)
        found = model.parse_transcription(text) or model.parse_transcription(text[: text.rfind("}") + 1] + "]")
        segments = list(_sentences_of_json(found, seconds))
        if not segments:
            return STTOutput(text, _add_logprobs([{"start": 0.0, "end": seconds, "text": text}], told, str))
        return STTOutput(text, _add_logprobs(segments, told, lambda words: json.dumps(words, ensure_ascii=False)[1:-1]))

    def _options(self, task: Transcribe) -> dict[str, Any]:
        """Return the library's options. Raise OrchardError for a parameter that the model can't serve."""
        if task.translate:
            raise self._refusal("model", "can't translate")
        if task.known_speakers:
            raise self._refusal("known_speaker_names", "don't know speakers by their voices; leave them out")
        if task.words and self._kind not in _KINDS_WITH_WORDS and self._kind in _KINDS_WITH_TIMES:
            raise self._refusal("timestamp_granularities", "tell the times of sentences only; 'segment' is served")
        if task.timed and self._kind not in _KINDS_WITH_TIMES:
            raise self._refusal("response_format", "don't say when something was said; 'json' and 'text' are served")
        if task.logprobs and not self.tells_speakers:
            raise self._refusal("include", "tell no log-probabilities; leave it out")
        if task.detection:
            raise self._refusal("chunking_strategy", "are given the whole recording; 'auto' is served")
        options: dict[str, Any] = {"logprobs": True} if task.logprobs else {}
        if "max_tokens" in self._parameters and not self.tells_speakers:
            options["max_tokens"] = _MOST_WINDOW_TOKENS
        if task.temperature:
            if "temperature" not in self._parameters:
                raise self._refusal("temperature", "always take the most likely token; 0 is served")
            options["temperature"] = task.temperature
        if task.prompt:
            if self._kind not in _PROMPTS:
                raise self._refusal("prompt", "read no text; leave it out")
            options[_PROMPTS[self._kind]] = task.prompt
        if task.language:
            options["language"] = self._language(task.language)
        return options

    def _language(self, given: str) -> str:
        """Return the model's name of a language. Raise OrchardError if it takes none or doesn't know this one."""
        if self._kind not in _LANGUAGES:
            raise self._refusal("language", "find it out, or know only one; leave it out")
        known = {name.lower(): name for name in _LANGUAGES[self._kind](self._model)}
        code = TO_LANGUAGE_CODE.get(given.lower(), given.lower())
        names = (given.lower(), code, LANGUAGES.get(code))
        if found := next((known[name] for name in names if name in known), None):
            return found
        message = f"`language` must be one of {', '.join(known.values())}, not '{given}'"
        raise OrchardError("invalid_request", message, param="language")

    def _refusal(self, param: str, why: str) -> OrchardError:
        message = f"`{param}` can't be served: models of the kind {self._kind} {why}"
        return OrchardError("invalid_request", message, param=param)


def _token_options(options: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Return how the tokens for so much audio are drawn, and how many."""
    most = options.get("max_tokens", _MOST_WINDOW_TOKENS * math.ceil(seconds / _WINDOW_SECONDS))
    return {"max_tokens": most, "sampler": make_sampler(options.get("temperature", 0.0))}


def _write(
    tokenizer: Any, tokens: Iterable[tuple[mx.array, mx.array]], options: Mapping[str, Any], beat: Beat
) -> tuple[str, list[TokenLogprob]]:
    """Return the text of generated tokens and, if the options ask, their log-probabilities; call `beat` for each."""
    found: list[int] = []
    told: list[TokenLogprob] = []
    for token, logprobs in tokens:
        beat()
        found.append(int(token))
        if "logprobs" in options:
            data = token_bytes(tokenizer, found[-1])
            told.append(TokenLogprob(data.decode("utf-8", "replace"), data, float(logprobs[found[-1]])))
    text: str = tokenizer.decode(found, skip_special_tokens=True)
    return text.strip(), told


def _add_logprobs(
    sentences: list[dict[str, Any]], told: Collection[TokenLogprob], spell: Callable[[str], str]
) -> list[dict[str, Any]]:
    """Return sentences with the log-probabilities of the tokens that their texts, as `spell` spells them, lie in."""
    written, begin = b"".join(one.bytes for one in told), 0
    ends = list(itertools.accumulate(len(one.bytes) for one in told))
    for one in sentences:
        spelling = spell(one["text"]).encode()
        if told and (start := written.find(spelling, begin)) >= 0:
            begin = start + len(spelling)
            inside = zip(told, ends, strict=True)
            one["logprobs"] = [token for token, end in inside if start < end and end - len(token.bytes) < begin]
    return sentences


def _sentences_of_json(found: Iterable[Mapping[str, Any]], seconds: float) -> Iterator[dict[str, Any]]:
    """Yield the sentences that VibeVoice has written, as MOSS's are, whatever it wrote for times and speakers.

    It writes sounds, such as [Silence], without a speaker: they are of who spoke before.
    """
    speaker = 0.0
    for one in found:
        start, end = _number(one.get("start"), 0.0), _number(one.get("end"), seconds)
        speaker = _number(one.get("speaker_id"), speaker)
        if text := str(one.get("text", "")).strip():
            yield {"start": start, "end": max(start, end), "text": text, "speaker_id": f"S{int(speaker)}"}


def _number(value: object, default: float) -> float:
    try:
        number = float(str(value))
    except ValueError:
        return default
    return max(0.0, number) if math.isfinite(number) else default


def _cut_windows(blocks: Iterator[Samples], count: int, rate: int) -> Iterator[Samples]:
    """Yield the `count` samples of the blocks as windows of at most 30 s."""
    held = np.zeros(0, np.float32)
    most, begin, end = (seconds * rate for seconds in (_WINDOW_SECONDS, _CUT_BEGIN, _CUT_END))
    while count:
        while len(held) < min(count, most):
            held = np.concatenate([held, next(blocks)])
        size = count if count <= most else begin + _quietest_place(held[begin:end], rate)
        yield held[:size]
        held = held[size:]
        count -= size


def _halve_window(window: Samples, rate: int) -> list[Samples]:
    """Cut a window at the quietest place of its middle third; return no parts if it is too short."""
    third = len(window) // 3
    if third < rate // 2:
        return []
    place = third + _quietest_place(window[third : 2 * third], rate)
    return [window[:place], window[place:]]


def _quietest_place(samples: Samples, rate: int) -> int:
    """Return the middle of the quietest tenth of a second."""
    size = rate // 10
    parts = samples[: len(samples) // size * size].reshape(-1, size)
    return int(np.square(parts).sum(1).argmin()) * size + size // 2


def _segments_of_result(result: Any, begin: float, end: float) -> Iterator[Segment]:
    """Yield the segments of a window from `begin` to `end`, in seconds of the recording."""
    if not hasattr(result, "sentences"):
        if text := str(result.text).strip():
            yield Segment(begin, end, _prepend_space(text), seek=begin)
        return
    for number, one in enumerate(result.sentences):
        words = tuple(_words_of_tokens(one.tokens, begin, end))
        text = one.text if number else _prepend_space(one.text)
        yield Segment(words[0].start, words[-1].end, text, seek=begin, words=words)


def _segments_with_speakers(
    sentences: Collection[Mapping[str, Any]], names: SpeakerNames, begin: float, end: float
) -> Iterator[Segment]:
    """Yield the sentences of a window from `begin` to `end`, in seconds of the recording, with their speakers."""
    for one in sentences:
        label = str(one.get("speaker_id", "S0"))
        start, stop = (min(begin + float(one[name]), end) for name in ("start", "end"))
        speaker, logprobs = names[int(label[1:])], tuple(one.get("logprobs", ()))
        yield Segment(start, stop, _prepend_space(one["text"]), seek=begin, speaker=speaker, logprobs=logprobs)


def _prepend_space(text: str) -> str:
    """Return the first text of a window with a space before it, unless its script has no spaces between words."""
    text = text.lstrip()
    return text if unicodedata.east_asian_width(text[:1] or " ") in "WF" else f" {text}"


def _words_of_tokens(tokens: Collection[Any], begin: float, end: float) -> Iterator[Word]:
    """Yield the words of tokens: each word begins with a space, except perhaps the first."""
    text, start, stop = "", 0.0, 0.0
    for token in tokens:
        if text.strip() and token.text.startswith(" "):
            yield Word(text, start, stop)
            text = ""
        start = start if text else min(begin + token.start, end)
        text, stop = text + token.text, min(begin + token.end, end)
    yield Word(text, start, stop)


def _load_network(folder: Path, kind: str) -> Any:
    try:
        return mlx_audio.stt.utils.load_model(folder, lazy=True, model_type=kind)
    except OSError as error:
        if kind == "vibevoice_asr" and not folder_files.has_tokenizer(folder_files.list_names(folder)):
            raise ValueError(
                f"it has no tokenizer, and the cache lacks that of Qwen2.5-7B: '{_QWEN}' fetches it"
            ) from error
        raise


def load_listener(folder: Path, progress: Callable[[float], None]) -> Listener:
    """Load a model; download nothing and run no code in its folder. Raise OrchardError("model_failed")."""
    config = read_config(folder, _LIBRARY)
    with explain_load_errors(folder, _LIBRARY), forbid_code():
        kind = transcription_kind(config)
        if config.get("model_type") in DIARIZER_KINDS:
            raise ValueError("it only tells who speaks: name it as the `diarizer` of a transcription model")
        if kind is None:
            raise ValueError(f"models of the type {config.get('model_type')} are not served for transcription")
        with contextlib.redirect_stdout(io.StringIO()) as said:  # the library prints what it does
            model = _load_network(folder, kind)
        log.debug("%s says: %s", _LIBRARY, said.getvalue())
        found = Listener(kind, model)
        if getattr(model, "_tokenizer", True) is None and getattr(model, "_token_list", None) is None:
            raise ValueError("its tokenizer is missing or broken")
    evaluate_weights(folder, model, progress, _LIBRARY)
    with explain_load_errors(folder, _LIBRARY):  # weights with wrong shapes only fail now
        found.hear(np.zeros(RATE, np.float32), {"max_tokens": 1})
    return found
