"""Events of realtime sessions, checked against OpenAI's own types, and speech for them."""

import base64
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from openai.types.realtime.realtime_server_event import RealtimeServerEvent
from pydantic import BaseModel, TypeAdapter

from tests.support.spoken_words import RATE, clips

_EVENTS: TypeAdapter[Any] = TypeAdapter(RealtimeServerEvent)
# OpenAI's server sends these, although the types of requests, which stand for sessions, don't have them.
_MORE = {"id", "object", "expires_at"}
SESSION_RATE = 24_000


def check_event(event: dict[str, Any]) -> None:
    """Fail unless an event is one of the API's, with no field that the API doesn't have."""
    parsed = _EVENTS.validate_python(event, strict=True)
    assert parsed.type == event["type"]
    assert list(_unknown_fields(parsed)) == []


def _unknown_fields(found: Any, path: str = "") -> Iterator[str]:
    if isinstance(found, BaseModel):
        more = set(found.model_extra or ())
        more -= _MORE if path == ".session" else {"message"} if path.endswith(".status_details.error") else set()
        yield from (f"{path}.{name}" for name in more)
        for name in type(found).model_fields:
            yield from _unknown_fields(getattr(found, name), f"{path}.{name}")
    elif isinstance(found, list):
        for one in found:
            yield from _unknown_fields(one, path)


def spoken(*words: str, voice: int = 0, before: float = 0.4, after: float = 1.2) -> NDArray[np.float32]:
    """Return words, as far as possible in one voice, at the rate of sessions, with silence around them (seconds)."""
    known = {word: clip for one in reversed(clips()) for word, clip in one} | dict(clips()[voice])
    gap = np.zeros(int(RATE * 0.12), np.float32)
    pieces = [piece for word in words for piece in (known[word] * 0.7, gap)]
    sound = np.concatenate([np.zeros(int(RATE * before), np.float32), *pieces, np.zeros(int(RATE * after), np.float32)])
    places = np.arange(len(sound) * SESSION_RATE // RATE) * RATE / SESSION_RATE
    changed: NDArray[np.float32] = np.interp(places, np.arange(len(sound)), sound).astype(np.float32)
    return changed


def pcm(sound: NDArray[np.float32]) -> bytes:
    """Return samples of 16 bits."""
    data: bytes = (sound * 32767).clip(-32768, 32767).astype("<i2").tobytes()
    return data


def appends(audio: bytes, size: int = 4800) -> Iterator[dict[str, Any]]:
    """Yield the events that send audio, in pieces of `size` bytes."""
    for begin in range(0, len(audio), size):
        piece = base64.b64encode(audio[begin : begin + size]).decode()
        yield {"type": "input_audio_buffer.append", "audio": piece}
