"""Whisper: loads each of its file layouts, and transcribes a recording window by window.

The rules for windows are those of Whisper's paper (https://arxiv.org/abs/2212.04356, 3.8 and 4.5): 30 s at a time,
from the end of the last complete segment on. Bad text is decoded again at a higher temperature.
"""

import functools
import itertools
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten
from mlx_audio.stt.models.whisper.audio import HOP_LENGTH, N_FRAMES, SAMPLE_RATE
from mlx_audio.stt.models.whisper.decoding import DecodingOptions, DecodingResult, DecodingTask, LogitFilter
from mlx_audio.stt.models.whisper.tokenizer import LANGUAGES, TO_LANGUAGE_CODE
from mlx_audio.stt.models.whisper.whisper import Model, ModelDimensions
from mlx_audio.utils import apply_quantization
from transformers import AutoTokenizer

from orchard import folder_files
from orchard.backends.audio import decode, whisper_cpu
from orchard.backends.audio.detection import speech_frames
from orchard.backends.audio.mel import FRAMES_PER_SECOND, MelFile
from orchard.backends.audio.recognizer import Advance, Beat
from orchard.backends.audio.vocabulary.tokenizer import SIZES, make_tokenizer, token_bytes
from orchard.backends.audio.word_times import time_words
from orchard.backends.kernels import cpu
from orchard.backends.model_folder import evaluate_weights, explain_load_errors, read_config
from orchard.core.errors import OrchardError
from orchard.core.events import TokenLogprob
from orchard.core.tasks.transcribe import Recording, Segment, Transcribe, Word
from orchard.device.out_of_memory import retry_once

_TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
_MOST_COMPRESSION = 2.4  # text that compresses better repeats itself
_LEAST_LOGPROB = -1.0
_SILENCE_PROB = 0.6
_LEAST_TOKEN_LOGPROB = -9999.0  # JSON has no infinity; OpenAI writes this number, too
_HOT_TEMPERATURE = 0.5  # text that was sampled at a higher temperature is no context for the next window


class Whisper:
    """A model of the Whisper family."""

    tells_speakers = False

    def __init__(self, model: Any) -> None:
        self._model = model
        self.weights_bytes = sum(array.nbytes for _, array in tree_flatten(model.parameters()))

    def transcribe(self, task: Transcribe, beat: Beat) -> Generator[Advance, None, None]:
        """Decode a recording and transcribe it: see `Recognizer`."""
        language = self._language(task)
        mel = MelFile(self._model.dims.n_mels, str(Path(task.path).parent))
        try:
            for samples in decode.decode_recording(task.path, "file"):
                mel.add(samples)
                yield Advance([])
            mel.end()
            language = language or retry_once(partial(self._detect_language, mel))
            yield Advance([Recording(mel.seconds, LANGUAGES[language])])
            windows = _Windows(self._model, mel, task, language, beat)
            while not windows.is_over:
                made = windows.transcribe_next()
                mx.clear_cache()
                yield Advance(list(made), windows.done_seconds)
        except decode.SilentError as silent:
            yield Advance([Recording(silent.seconds, language and LANGUAGES[language])], silent.seconds)
        finally:
            mel.close()

    def _language(self, task: Transcribe) -> str | None:
        """Return the code of the language that a request names. Raise OrchardError if the model can't serve it."""
        given = task.language.lower() if task.language else None
        code: str | None = TO_LANGUAGE_CODE.get(given, given)
        if not self._model.is_multilingual:
            if task.translate:
                message = "this model knows only English and can't translate"
                raise OrchardError("invalid_request", message, param="model")
            if code not in (None, "en"):
                message = "`language` must be 'en': this model knows only English"
                raise OrchardError("invalid_request", message, param="language")
            return "en"
        known = list(LANGUAGES)[: self._model.num_languages]
        if code is not None and code not in known:
            message = f"`language` must be one of {', '.join(known)}, not '{task.language}'"
            raise OrchardError("invalid_request", message, param="language")
        return code

    def _detect_language(self, mel: MelFile) -> str:
        _, probabilities = self._model.detect_language(mel.beginning().astype(self._model.dtype))
        return str(max(probabilities, key=probabilities.get))


class _Windows:
    """The windows of one recording, one after the other."""

    def __init__(self, model: Any, mel: MelFile, task: Transcribe, language: str, beat: Beat) -> None:
        self._model = model
        self._mel = mel
        self._task = task
        self._language = language
        self._tokenizer = model.get_tokenizer(language=language, task="translate" if task.translate else "transcribe")
        self._filter = _BeatFilter(beat)
        self._temperatures = (task.temperature,) if task.temperature else _TEMPERATURES
        self._logprobs: list[float] = []
        """The log-probabilities of the current window's tokens, if they are asked for."""
        self._context: list[int] = self._tokenizer.encode(" " + task.prompt.strip()) if task.prompt.strip() else []
        self._stride = int(N_FRAMES // model.dims.n_audio_ctx)
        self._last_speech = 0.0
        self._clips = speech_frames(mel.levels(), task.detection) if task.detection else [(0, mel.frames)]
        self._seek = 0
        self._find_clip()

    @property
    def is_over(self) -> bool:
        """Whether the whole recording has been transcribed."""
        return not self._clips

    @property
    def done_seconds(self) -> float:
        """How many seconds have been transcribed."""
        return self._mel.seconds if self.is_over else self._seek / FRAMES_PER_SECOND

    def transcribe_next(self) -> list[Segment]:
        """Transcribe the next window, and return its segments."""
        begin = self._seek
        size = min(N_FRAMES, self._clips[0][1] - begin)
        window = self._mel.window(begin, size).astype(self._model.dtype)
        result = retry_once(partial(self._decode, window))
        if result.no_speech_prob > _SILENCE_PROB and result.avg_logprob <= _LEAST_LOGPROB:
            self._seek = begin + size
            self._find_clip()
            return []
        segments, self._seek = self._split_segments(result, size)
        if self._seek <= begin:  # a bad model may time everything at 0 s forever
            self._seek = begin + size
        spoken = [one for one in segments if _is_spoken(one, result.no_speech_prob)]
        if self._task.words and spoken:
            given = _AlignmentModel(self._model), self._tokenizer, result.audio_features, size
            retry_once(partial(time_words, spoken, *given, last_speech=self._last_speech))
            self._last_speech = spoken[-1]["end"]
        self._context += [token for one in spoken for token in one["tokens"]]
        if result.temperature > _HOT_TEMPERATURE:
            self._context.clear()
        del self._context[: -self._model.dims.n_text_ctx]
        self._find_clip()
        return [_segment_of_dict(one, result, tuple(self._token_logprobs(one))) for one in spoken]

    def _token_logprobs(self, segment: dict[str, Any]) -> Iterator[TokenLogprob]:
        """Yield the tokens of a segment's text with their log-probabilities, if these are asked for."""
        for token, logprob in zip(segment["tokens"], segment["logprobs"], strict=False):
            if token < self._tokenizer.eot:
                data = token_bytes(self._tokenizer.hf_tokenizer, token)
                yield TokenLogprob(data.decode("utf-8", "replace"), data, max(logprob, _LEAST_TOKEN_LOGPROB))

    def _find_clip(self) -> None:
        """Go to the next stretch of speech if the current one is finished."""
        while self._clips and self._seek >= self._clips[0][1]:
            self._clips.pop(0)
        if self._clips:
            self._seek = max(self._seek, self._clips[0][0])

    def _decode(self, window: mx.array) -> DecodingResult:
        """Return the text of a window, sampled at the lowest temperature that gives a good text."""
        features = self._model.encoder(window[None])
        if not self._task.temperature:
            mx.random.seed(self._seek)  # the same recording gets the same text, whatever was sampled before
        result = None
        for temperature in self._temperatures:
            options = DecodingOptions(
                task="translate" if self._task.translate else "transcribe",
                language=self._language,
                temperature=temperature,
                prompt=list(self._context),
                fp16=self._model.dtype == mx.float16,
            )
            work = DecodingTask(self._model, options)
            work.logit_filters[:0] = [self._filter, _TimestampOrder(self._tokenizer.timestamp_begin, work.sample_begin)]
            recorder = _LogprobRecorder(work.decoder)
            if self._task.logprobs:
                work.decoder = recorder
            (result,) = work.run(features)
            self._logprobs = recorder.read(len(result.tokens))
            is_silent = result.no_speech_prob > _SILENCE_PROB and result.avg_logprob < _LEAST_LOGPROB
            is_bad = result.compression_ratio > _MOST_COMPRESSION or result.avg_logprob < _LEAST_LOGPROB
            if is_silent or not is_bad:
                break
        return result

    def _split_segments(self, result: DecodingResult, size: int) -> tuple[list[dict[str, Any]], int]:
        """Split a window's tokens between two successive timestamps. Timestamps after frame `size` are its end.

        Return the segments, and the frame at which the next window begins. Unless a single timestamp ends the tokens,
        the next window reads what follows the last pair of timestamps again. OpenAI's code also uses the times of
        words, so its text depends on them.
        """
        first: int = self._tokenizer.timestamp_begin
        tokens = result.tokens
        timed = [token >= first for token in tokens]
        complete = timed[-2:] == [False, True]
        cuts = [at for at in range(1, len(tokens)) if timed[at - 1] and timed[at]]

        def frame(token: int) -> int:
            return min((token - first) * self._stride, size)

        if not cuts:
            last = next((token for token in reversed(tokens) if token >= first), first)
            return [self._make_segment(0, frame(last) or size, tokens, self._logprobs)], self._seek + size
        if complete:
            cuts.append(len(tokens))
        segments = [
            self._make_segment(frame(tokens[a]), frame(tokens[b - 1]), tokens[a:b], self._logprobs[a:b])
            for a, b in itertools.pairwise([0, *cuts])
        ]
        return segments, self._seek + (size if complete else frame(tokens[cuts[-1] - 1]))

    def _make_segment(self, start: int, end: int, tokens: list[int], logprobs: list[float]) -> dict[str, Any]:
        """Return a segment without words, from frame `start` to frame `end` of the window.

        `timestamp`: the timestamp before its text, in seconds; a window's only segment begins with the window anyway.
        """
        offset = max(0, tokens[0] - self._tokenizer.timestamp_begin) * self._stride if tokens else 0
        return {
            "seek": self._seek,
            "start": _seconds_of_frame(self._seek + start),
            "timestamp": _seconds_of_frame(self._seek + offset),
            "end": _seconds_of_frame(self._seek + end),
            "text": self._tokenizer.decode([token for token in tokens if token < self._tokenizer.eot]),
            "tokens": tokens,
            "logprobs": logprobs,
            "words": [],
        }


class _AlignmentModel:
    """A model in the form that word timing needs: it takes the encoder's output, and returns float32 attention.

    In float16, the attention of all tokens to a frame may be 0, which loses the timing.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self.alignment_heads = model.alignment_heads

    def forward_with_cross_qk(self, heard: mx.array, tokens: mx.array) -> tuple[mx.array, list[mx.array]]:
        """Return the logits, and the attention of each layer before its softmax."""
        logits, _, scores = self._model.decoder(tokens, heard)
        return logits, [one.astype(mx.float32) for one in scores]


class _BeatFilter(LogitFilter):  # type: ignore[misc]
    """Calls `beat` for each token; changes no logits."""

    def __init__(self, beat: Beat) -> None:
        self._beat = beat

    def apply(self, logits: mx.array, tokens: mx.array) -> mx.array:
        """Return the logits."""
        self._beat()
        return logits


class _LogprobRecorder:
    """A decoder that also keeps the log-probability of each token that it draws."""

    def __init__(self, decoder: Any) -> None:
        self._decoder = decoder
        self._sums: list[mx.array] = []

    def reset(self) -> None:
        self._decoder.reset()

    def update(self, tokens: mx.array, logits: mx.array, sum_logprobs: mx.array) -> Any:
        found = self._decoder.update(tokens, logits, sum_logprobs)
        self._sums.append(found[2] + 0)  # the loop adds to the same array in place
        return found

    def finalize(self, tokens: mx.array, sum_logprobs: mx.array) -> Any:
        return self._decoder.finalize(tokens, sum_logprobs)

    def read(self, count: int) -> list[float]:
        """Return the log-probabilities of the first `count` tokens; none if this decoder was not used."""
        sums = [0.0, *(float(one[0]) for one in self._sums[:count])]
        return [after - before for before, after in itertools.pairwise(sums)]


class _TimestampOrder(LogitFilter):  # type: ignore[misc]
    """Forbids segments that begin before the previous segment ends, or that end where they begin.

    mlx-audio's own rule mistakes positions of tokens for timestamps, so it forbids none. This filter runs before that
    rule, which also compares the probability of all timestamps with that of text.
    """

    def __init__(self, first: int, begin: int) -> None:
        """`first`: the first timestamp token. `begin`: the number of tokens before a window's text."""
        self._first = first
        self._begin = begin

    def apply(self, logits: mx.array, tokens: mx.array) -> mx.array:
        """Return the logits, with -inf for timestamps that are too early."""
        found = np.array(tokens[0, self._begin :])
        is_time = found >= self._first
        if not is_time.any():
            return logits
        ends_segment = is_time[-2:].tolist() == [False, True]
        least = int(found[is_time][-1]) + (not ends_segment)
        ids = mx.arange(logits.shape[-1])
        return mx.where((ids >= self._first) & (ids < least), -mx.inf, logits)


def _is_spoken(segment: dict[str, Any], no_speech_prob: float) -> bool:
    """Return whether somebody said a segment's text: some models transcribe hiss as lines of full stops."""
    heard = segment["text"] if no_speech_prob <= _SILENCE_PROB else "".join(filter(str.isalnum, segment["text"]))
    return segment["start"] != segment["end"] and bool(heard.strip())


def _seconds_of_frame(frame: int) -> float:
    return float(frame * HOP_LENGTH / SAMPLE_RATE)


def _segment_of_dict(one: dict[str, Any], result: DecodingResult, logprobs: tuple[TokenLogprob, ...]) -> Segment:
    return Segment(
        start=one["start"],
        end=one["end"],
        text=one["text"],
        seek=_seconds_of_frame(one["seek"]),
        tokens=tuple(one["tokens"]),
        temperature=result.temperature,
        avg_logprob=float(np.nan_to_num(result.avg_logprob)),
        compression_ratio=result.compression_ratio,
        no_speech_prob=float(np.nan_to_num(result.no_speech_prob)),
        words=tuple(Word(word["word"], word["start"], word["end"]) for word in one["words"]),
        logprobs=logprobs,
    )


def is_whisper(folder: Path) -> bool:
    """Return whether a folder has a Whisper model."""
    try:
        config = folder_files.read_json(folder / "config.json")
        return config.get("model_type") == "whisper" or "n_audio_state" in config
    except (OSError, ValueError, AttributeError):
        return False


def load_whisper(folder: Path, progress: Callable[[float], None]) -> Whisper:
    """Load a model in the layout of mlx-audio, of transformers or of mlx-examples (weights.npz).

    Nothing is downloaded, and no code or pickle in the folder is run. Raise OrchardError("model_failed").
    """
    config = read_config(folder, "mlx-audio")
    with explain_load_errors(folder, "mlx-audio"):
        # On a slow CPU, float16 products are even slower than others.
        model = Model(ModelDimensions.from_dict(config), mx.float32 if cpu.is_slow() else mx.float16)
        weights = _load_whisper_weights(folder, np.float32 if cpu.is_slow() else np.float16)
        heads = weights.pop("alignment_heads", None)
        weights = model.sanitize({name: value for name, value in weights.items() if not name.startswith("proj_out.")})
        apply_quantization(model, config, weights, None)
        model.load_weights(list(weights.items()), strict=True)
        del weights  # each is freed once it has been converted
        _set_alignment_heads(model, folder, heads)
    evaluate_weights(folder, model, progress, "mlx-audio")
    whisper_cpu.adapt_whisper(model)
    tokenizer = _load_whisper_tokenizer(folder, model.dims.n_vocab)
    # mlx-audio calls this four times per window, and transformers makes a new dict each time.
    tokenizer.get_vocab = functools.cache(tokenizer.get_vocab)
    model._processor = SimpleNamespace(tokenizer=tokenizer)
    model.eval()
    return Whisper(model)


def _load_whisper_weights(folder: Path, dtype: type[np.floating[Any]]) -> dict[str, mx.array]:
    """Return a folder's weights. Floats in an npz archive are read at once, and converted to `dtype`."""
    files = sorted(folder.glob("*.safetensors")) or sorted(folder.glob("weights*.npz"))
    if not files:
        raise FileNotFoundError("it has no weights")
    found: dict[str, mx.array] = {}
    for file in files:
        if file.suffix == ".npz":
            with np.load(file, allow_pickle=False) as arrays:
                for name in arrays.files:
                    array = arrays[name]
                    found[name] = mx.array(array.astype(dtype) if array.dtype.kind == "f" else array)
        else:
            found |= mx.load(str(file))  # type: ignore[arg-type]  # no metadata was asked for
    return found


def _set_alignment_heads(model: Any, folder: Path, heads: mx.array | None) -> None:
    """Set the attention heads that show when a word is spoken, if the folder names them."""
    if heads is not None:
        model.set_alignment_heads(np.array(heads).astype(np.int32))
        return
    file = folder / "generation_config.json"
    given = folder_files.read_json(file).get("alignment_heads") if file.is_file() else None
    if given:
        model.set_alignment_heads([[int(layer), int(head)] for layer, head in given])


def _load_whisper_tokenizer(folder: Path, size: int) -> Any:
    """Load the tokenizer; if the folder has none, make OpenAI's for a vocabulary of a known size.

    Raise OrchardError("model_failed") if this fails, or if the tokenizer is not Whisper's.
    """
    if not any((folder / name).is_file() for name in ("tokenizer.json", "vocab.json")):
        if size in SIZES:
            return make_tokenizer(size)
        files = "tokenizer.json and tokenizer_config.json of the model that it was converted from"
        reason = f"{folder} has no tokenizer, and OpenAI's have {min(SIZES):,} to {max(SIZES):,} tokens, not {size:,}"
        raise OrchardError("model_failed", f"{reason}. Copy into it {files}")
    try:
        found = AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False, local_files_only=True)
        known = found.get_vocab()
    except Exception as error:
        reason = f"the tokenizer in {folder} is missing or can't be loaded: {str(error).splitlines()[0][:200]}"
        raise OrchardError("model_failed", reason) from error
    needed = ("<|startoftranscript|>", "<|transcribe|>", "<|notimestamps|>", "<|0.00|>", "<|30.00|>")
    if missing := [name for name in needed if known.get(name, size) >= size]:
        raise OrchardError("model_failed", f"the tokenizer in {folder} has no token {missing[0]} that the model knows")
    return found
