"""Encode OpenAI's Transcriptions and Translations: turn events into a response in each format, or into its stream."""

import itertools
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from orchard.core.events import Collected, Event, Failed, Finished, Output, Progressed, TokenLogprob
from orchard.core.request import Request
from orchard.core.tasks.transcribe import Recording, Segment, Transcribe, Word, decode_transcription
from orchard.dialects.common.output import escape_line_ends
from orchard.dialects.openai.errors import openai_error_body

_json = msgspec.json.Encoder().encode


class TranscriptionCall(Struct, frozen=True):
    """A parsed form. `granularities`: whether verbose_json has the times of words, segments or both."""

    request: Request
    stream: bool
    format: str
    translate: bool
    granularities: tuple[str, ...] = ("segment",)

    @property
    def media_type(self) -> str:
        """The content type of a non-streamed response."""
        return "application/json" if self.format.endswith("json") else "text/plain"

    def complete(self, result: Collected) -> bytes:
        """Return the body of a non-streamed response."""
        found = [decode_transcription(output) for output in result.outputs]
        segments = [one for one in found if isinstance(one, Segment)]
        (recording,) = (one for one in found if isinstance(one, Recording))
        text = "".join(one.text for one in segments).strip()
        match self.format:
            case "text":
                return f"{text}\n".encode()
            case "srt":
                return "".join(_subtitle(one, ",", f"{number}\n") for number, one in enumerate(segments, 1)).encode()
            case "vtt":
                return ("WEBVTT\n\n" + "".join(_subtitle(one, ".") for one in segments)).encode()
            case "verbose_json":
                return _json(self._verbose_fields(text, recording, segments))
            case "diarized_json":
                return _json(_diarized_fields(text, recording, segments))
        usage = {"usage": _transcription_usage(recording.seconds)}
        return _json({"text": text, **self.logprobs_of(segments), **usage})

    def logprobs_of(self, segments: Sequence[Segment]) -> dict[str, Any]:
        """Return the field with the log-probabilities of the segments' tokens; no field if they aren't asked for."""
        task = self.request.task
        if not isinstance(task, Transcribe) or not task.logprobs:
            return {}
        return {"logprobs": [_logprob_fields(token) for one in segments for token in one.logprobs]}

    def _verbose_fields(self, text: str, recording: Recording, segments: Sequence[Segment]) -> dict[str, Any]:
        whole: dict[str, Any] = {
            "task": "translate" if self.translate else "transcribe",
            "language": recording.language,
            "duration": round(recording.seconds, 3),
            "text": text,
        }
        if "segment" in self.granularities:
            whole["segments"] = [_segment_fields(number, one) for number, one in enumerate(segments)]
        if "word" in self.granularities:
            whole["words"] = [_word_fields(word) for one in segments for word in one.words]
        return whole | {"usage": _transcription_usage(recording.seconds)}


class TranscriptionEncoder:
    """Encodes one stream of events as server-sent events, with progress in comments."""

    def __init__(self, call: TranscriptionCall) -> None:
        self._call = call
        self._text = ""
        self._segments: list[Segment] = []
        """Those that are told again at the end, for their log-probabilities."""
        self._numbers = itertools.count()

    def encode(self, events: Sequence[Event]) -> bytes:
        """Return the server-sent events for these events."""
        return b"".join(map(self._encode_event, events))

    def _encode_event(self, event: Event) -> bytes:
        match event:
            case Output():
                return self._encode_output(decode_transcription(event))
            case Progressed(done, total):
                return f": {done:.1f} of {total:.1f} seconds\n\n".encode()
            case Finished():
                # Its usage can only be in tokens.
                told = self._call.logprobs_of(self._segments)
                return _encode_sse(type="transcript.text.done", text=self._text, **told)
            case Failed():
                return _encode_sse(**openai_error_body(event.error()))
        return b""

    def _encode_output(self, one: Segment | Recording) -> bytes:
        if isinstance(one, Recording):
            return b""
        delta = one.text if self._text else one.text.lstrip()
        self._text += delta
        told = self._call.logprobs_of([one])
        if told:
            self._segments.append(one)
        if self._call.format != "diarized_json":
            return _encode_sse(type="transcript.text.delta", delta=delta, **told) if delta else b""
        segment = _diarized_segment_fields(next(self._numbers), one)
        return _encode_sse(type="transcript.text.delta", delta=delta, segment_id=segment["id"]) + _encode_sse(**segment)


def _transcription_usage(seconds: float) -> dict[str, Any]:
    return {"type": "duration", "seconds": round(seconds, 3)}


def _encode_sse(**fields: Any) -> bytes:
    return b"data: " + escape_line_ends(_json(fields)) + b"\n\n"


def _segment_fields(number: int, one: Segment) -> dict[str, Any]:
    return {
        "id": number,
        "seek": round(one.seek * 100),
        "start": round(one.start, 3),
        "end": round(one.end, 3),
        "text": one.text,
        "tokens": one.tokens,
        "temperature": one.temperature,
        "avg_logprob": one.avg_logprob,
        "compression_ratio": one.compression_ratio,
        "no_speech_prob": one.no_speech_prob,
    }


def _diarized_fields(text: str, recording: Recording, segments: Sequence[Segment]) -> dict[str, Any]:
    return {
        "task": "transcribe",
        "duration": round(recording.seconds, 3),
        "text": text,
        "segments": [_diarized_segment_fields(number, one) for number, one in enumerate(segments)],
        "usage": _transcription_usage(recording.seconds),
    }


def _diarized_segment_fields(number: int, one: Segment) -> dict[str, Any]:
    return {
        "type": "transcript.text.segment",
        "id": f"seg_{number:03}",
        "start": round(one.start, 3),
        "end": round(one.end, 3),
        "text": one.text.strip(),
        "speaker": one.speaker,
    }


def _logprob_fields(token: TokenLogprob) -> dict[str, Any]:
    return {"token": token.text, "bytes": list(token.bytes), "logprob": token.logprob}


def _word_fields(one: Word) -> dict[str, Any]:
    return {"word": one.text.strip(), "start": round(one.start, 3), "end": round(one.end, 3)}


def _subtitle(one: Segment, point: str, number: str = "") -> str:
    """Return a subtitle. In a WebVTT file, break up text that would end it or look like its times."""
    lines = [line for line in one.text.strip().replace("-->", "->").splitlines() if line.strip()]
    if point == ".":
        lines = [line.replace("&", "&amp;").replace("<", "&lt;") for line in lines]
    return (
        f"{number}{_subtitle_time(one.start, point)} --> {_subtitle_time(one.end, point)}\n" + "\n".join(lines) + "\n\n"
    )


def _subtitle_time(seconds: float, point: str) -> str:
    thousandths = round(seconds * 1000)
    minutes, rest = divmod(thousandths, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{rest // 1000:02}{point}{rest % 1000:03}"
