"""The service of speech models: passages of all requests take turns in the thread that owns MLX."""

import io
import logging
import wave
from collections.abc import Generator
from pathlib import Path

import mlx.core as mx
import numpy as np

from orchard.backends.audio import encode
from orchard.backends.audio.passages import split_into_passages
from orchard.backends.audio.speakers.loading import load_speaker
from orchard.backends.audio.speakers.speaker import SampleVoice, Speaker, SpeechPiece
from orchard.backends.ffmpeg import FfmpegError
from orchard.backends.service import Emit, LoadResult, Progress
from orchard.backends.turns import TurnService
from orchard.core.errors import OrchardError
from orchard.core.events import Event, Failed, Finished, Output, Started, Usage
from orchard.core.request import Request
from orchard.core.tasks.speak import RATE, Sound, Speak, SpeechOptions, VoiceSample
from orchard.core.voices import Voice, choose_description, choose_voice
from orchard.device.out_of_memory import (
    free_after_error,
    insufficient_memory,
    is_out_of_memory,
    raise_late_errors,
    wait_for_launched_work,
)

log = logging.getLogger("orchard.worker")

MAX_REQUESTS = 64
"""The most requests that are spoken or wait, see `has_place`. Each keeps its text and, once begun, an encoder."""
_RETRY_AFTER = 5
_END_PIECE = (None, True)
_LARGEST_SAMPLE = 32_767
_TRIAL_SOUND = np.random.default_rng(0).uniform(-0.1, 0.1, 3 * RATE).astype(np.float32)

# The next piece of a file, and whether a passage ends with it.
_Piece = tuple[bytes | None, bool]


class _Speech:
    """A request that has not ended. The thread that owns MLX makes its `pieces`, passage by passage."""

    def __init__(self, request: Request, task: Speak, speaker: Speaker, voice: Voice) -> None:
        """Raise OrchardError if the sample of the voice can't be read."""
        self.request = request
        self.id = request.id
        self.voice = voice
        self.paused = False
        self.begun = False
        self.text_tokens = 0
        self.tokens = 0
        self.samples = 0
        self.pieces = self._make_pieces(task, speaker, _read_sample(task.sample) if task.sample else voice.name)

    def _make_pieces(self, task: Speak, speaker: Speaker, voice: str | SampleVoice) -> Generator[_Piece]:
        self.text_tokens = speaker.count_tokens(task.text)
        encoder = encode.open_encoder(task.format, task.speed)
        instructions = self.voice.description or task.instructions
        try:
            for passage in split_into_passages(task.text):
                for sound, tokens in _say_passage(speaker, passage, voice, instructions):
                    self.samples += len(sound)
                    self.tokens += tokens
                    samples = np.round(np.clip(sound, -1, 1) * _LARGEST_SAMPLE).astype(np.int16)
                    yield encoder.feed(samples), False
                mx.clear_cache()
                yield b"", True
            yield encoder.end(), True
        finally:
            encoder.close()

    @property
    def final_event(self) -> Finished:
        return Finished(("stop",), Usage(self.text_tokens, self.tokens, units=round(self.samples / RATE, 3)))


def _say_passage(
    speaker: Speaker, passage: str, voice: str | SampleVoice, instructions: str | None, tries: int = 2
) -> Generator[SpeechPiece]:
    """Say a passage. If memory runs out before the first sound, say each half; try a single word `tries` times.

    Raise OrchardError("insufficient_memory") if that doesn't help, or if memory runs out later.
    """
    begun = False
    try:
        for spoken in speaker.say(passage, voice, instructions):
            raise_late_errors()
            begun = True
            yield spoken
        return
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        log.warning("memory ran out", exc_info=error)
        wait_for_launched_work()
        free_after_error(error)
    words = passage.split(" ")
    tries -= len(words) == 1
    if begun or not tries:
        raise insufficient_memory()
    middle = len(words) // 2
    for part in (words[:middle], words[middle:]) if middle else (words,):
        yield from _say_passage(speaker, " ".join(part), voice, instructions, tries)


def _copied_voice(task: Speak, speaker: Speaker) -> Voice:
    """Return the voice of a request that copies one. Raise OrchardError if it can't be copied, or there is none."""
    if not speaker.copies:
        why = "this model can't copy the voice of a recording; its own voices are " + ", ".join(speaker.voices)
    elif not task.sample:
        why = "this model only copies voices: name the id of one that POST /v1/audio/voices has made for this key"
    else:
        return Voice(task.voice or "")
    raise OrchardError("invalid_request", f"`voice` can't be served: {why}", param="voice")


def _read_sample(sample: VoiceSample) -> SampleVoice:
    """Return a sample, which the gateway has stored as a WAV file. Raise OrchardError if it can't be read."""
    try:
        with wave.open(io.BytesIO(sample.sound)) as file:
            if file.getparams()[:3] != (1, 2, RATE):
                raise wave.Error("its layout is another")
            samples = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    except (wave.Error, EOFError) as error:
        raise OrchardError("invalid_request", f"the sample of `voice` is broken: {error}", param="voice") from None
    return SampleVoice(samples.astype(np.float32) / np.float32(_LARGEST_SAMPLE + 1), sample.transcript)


class SpeechService(TurnService[_Speech]):
    """Serves one speech model."""

    def __init__(self, path: str, options: SpeechOptions) -> None:
        """`path`: the model's folder. `options.memory_limit`: the bytes that the model and its requests may take."""
        super().__init__(options.memory_limit)
        self._named_voices = options.voices
        self._folder = Path(path)
        self._speaker: Speaker | None = None
        self._weights_bytes = 0
        self._dropped: list[_Speech] = []
        self._speaking: _Speech | None = None
        """The request whose passage is being spoken. Others wait: the model holds its state."""

    async def start(self, emit: Emit, progress: Progress) -> LoadResult:
        """Load the model, let it say a word, and return its size.

        Raise OrchardError("model_failed", ...) with the reason.
        """
        self._emit = emit
        self._speaker = await self._load_model(self._load, progress)
        return LoadResult(self._weights_bytes, {"batching": "in_turn"})

    def _load(self, progress: Progress) -> Speaker:
        """Load the model, in the thread that owns MLX."""
        speaker = load_speaker(self._folder, progress)
        self._weights_bytes = mx.get_active_memory()
        voice = speaker.voices[0] if speaker.voices else SampleVoice(_TRIAL_SOUND, "Hello.")
        said = speaker.say("Hello.", voice, None if speaker.instructions == "refused" else "Calm.")
        next(said, None)
        said.close()
        return speaker

    def submit(self, request: Request) -> None:
        """Begin a request. If it is wrong, emit a `Failed` event."""
        task, speaker = request.task, self._speaker
        assert isinstance(task, Speak)
        assert speaker
        try:
            speech = _Speech(request, task, speaker, self._check_request(request, task, speaker))
        except OrchardError as error:
            self._tell((request.id, [Failed.from_error(error)]))
            return
        self._add(speech)
        self._tell()
        self._start_work()

    def _check_request(self, request: Request, task: Speak, speaker: Speaker) -> Voice:
        """Return the voice of a request. Raise OrchardError if the request can't be served."""
        if not self._has_place(MAX_REQUESTS, request):
            message = f"{MAX_REQUESTS} requests wait for this model already"
            raise OrchardError("overloaded", message, retry_after=_RETRY_AFTER)
        if task.sample or not speaker.voices:
            voice = _copied_voice(task, speaker)
        elif speaker.instructions == "voice":
            voice = choose_description(task.voice, self._named_voices)
            voice = Voice("", task.instructions) if task.instructions else voice
        else:
            voice = choose_voice(task.voice, speaker.voices, self._named_voices)
        if task.instructions and speaker.instructions == "refused":
            raise OrchardError("invalid_request", "this model takes no `instructions`", param="instructions")
        encode.check_sound_format(task.format, task.speed)
        return voice

    def cancel(self, request_id: str) -> None:
        """Cancel a request before its next piece of audio. Unknown ids are ignored."""
        if speech := self._forget(request_id):
            self._dropped.append(speech)
            self._tell()
            self._start_work()

    async def close(self, save_seconds: float) -> None:
        """Stop after the current piece of audio and free the model; nothing is saved."""
        await self._cancel_work()
        self._dropped += self._live.values()
        self._live.clear()
        await self._free_dropped()
        self._speaker = self._speaking = None
        await self._free()

    async def _run(self) -> None:
        """Make pieces of audio until no request needs more."""
        await self._free_dropped()
        while speech := self._next_speech():
            self._speaking = speech
            try:
                piece, ends = await self._thread.do(next, speech.pieces, _END_PIECE)
            except Exception as error:
                self._fail(speech, error)
                continue
            if self._live.get(speech.id) is speech:
                self._tell((speech.id, self._events(speech, piece)))
            if ends:
                self._speaking = None
                self._queue.charge(speech.id, 1)
            await self._free_dropped()

    def _next_speech(self) -> _Speech | None:
        """Return the request whose passage has begun, or else the request whose turn it is."""
        return self._speaking or next(iter(self._queue), None)

    def _events(self, speech: _Speech, piece: bytes | None) -> list[Event]:
        events: list[Event] = []
        if not speech.begun:
            speech.begun = True
            events.append(Started(speech.text_tokens, voice=speech.voice.name))
        if piece:
            events.append(Output.from_struct(Sound(piece)))
        elif piece is None:
            self._forget(speech.id)
            events.append(speech.final_event)
        return events

    def _fail(self, speech: _Speech, error: Exception) -> None:
        self._speaking = None
        if not self._forget(speech.id):
            return
        if isinstance(error, OrchardError):
            self._tell((speech.id, [Failed.from_error(error)]))
        else:
            log.error("speaking failed", exc_info=error)
            what = f"the sound can't be encoded: {error}" if isinstance(error, FfmpegError) else "speaking failed"
            self._tell((speech.id, [Failed("internal", what)]))

    async def _free_dropped(self) -> None:
        """Free the encoders of cancelled requests."""
        while self._dropped:
            speech = self._dropped.pop()
            if self._speaking is speech:
                self._speaking = None
            await self._thread.do(speech.pieces.close)
