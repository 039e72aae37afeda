"""Audio for models that can't hear, with scripted transcriptions in place of a pool."""

import base64
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from orchard.config import Settings
from orchard.core.errors import OrchardError
from orchard.core.media import MediaPart
from orchard.core.request import Request
from orchard.core.tasks.generate import Count, Generate, Message, Part, TextPart, ToolCallPart, ToolResultPart
from orchard.core.tasks.media import request_media
from orchard.gateway.caller import ANYONE
from orchard.gateway.http.budget import Budget
from orchard.gateway.media.resolver import MediaResolver
from orchard.gateway.models.entry import ModelEntry
from orchard.gateway.voice.hearing import HeardRequest, Hearing
from orchard.gateway.voice.kept_texts import KeptTexts

ANN, BOB = (replace(ANYONE, user=user) for user in ("a", "b"))
TEXT_MODEL = ModelEntry("chat", "/models/chat", 1000)
VISION_MODEL = replace(TEXT_MODEL, kind="vision")


def audio(data: bytes, param: str = "p", kind: Any = "audio") -> MediaPart:
    media_type = "audio/wav" if kind == "audio" else "image/png"
    return MediaPart(kind, f"data:{media_type};base64,{base64.b64encode(data).decode()}", param)


def request(*parts: Part) -> Request:
    return Request("req_1", "chat", Generate((Message("user", parts),)))


class Ears:
    """Hears the bytes of a recording as text."""

    def __init__(self, entry: ModelEntry = TEXT_MODEL, media: Sequence[str] | None = None) -> None:
        self.heard: list[bytes] = []
        self.transcribes = True
        self.fails: OrchardError | None = None
        status = SimpleNamespace(details={} if media is None else {"media": list(media)})
        pool: Any = SimpleNamespace(find=lambda name, adapter: SimpleNamespace(entry=entry, status=status))
        requests: Any = self
        resolver = MediaResolver(Settings(), Budget(10**8, "media"))
        self.hearing = Hearing(pool, resolver, KeptTexts(), lambda caller, origin: requests)

    def transcription_model(self, name: str | None) -> str:
        return "ears"

    async def transcribe_file(self, data: bytes) -> str:
        self.heard.append(data)
        if self.fails:
            raise self.fails
        return data.decode()

    async def resolve(self, *parts: Part, caller: Any = ANN) -> HeardRequest:
        return await self.hearing.resolve(request(*parts), caller)


async def test_recordings_are_read_where_they_stand() -> None:
    ears = Ears()
    result = ToolResultPart("c", (audio(b"three", "t"),))
    heard = await ears.resolve(TextPart("Hi"), audio(b"one"), audio(b"two"), ToolCallPart("c", "look", "{}"), result)
    assert heard.transcriber == "ears"
    assert heard.request == request(
        TextPart("Hi"),
        TextPart("one"),
        TextPart("two"),
        ToolCallPart("c", "look", "{}"),
        ToolResultPart("c", (TextPart("three"),)),
    )


async def test_a_recording_is_transcribed_once_for_each_key() -> None:
    ears = Ears()
    for caller in (ANN, ANN, BOB):
        await ears.resolve(audio(b"one"), audio(b"one"), caller=caller)
    assert ears.heard == [b"one", b"one"]


async def test_a_count_of_tokens_reads_the_same() -> None:
    counted = request(audio(b"one"))
    task: Any = counted.task
    heard = await Ears().hearing.resolve(replace(counted, task=Count(task)), ANN)
    assert isinstance(heard.request.task, Count)
    assert heard.request.task.of == request(TextPart("one")).task


@pytest.mark.parametrize("media", [None, ["image", "audio"]])
async def test_a_model_that_may_hear_hears(media: Sequence[str] | None) -> None:
    ears = Ears(VISION_MODEL, media)
    heard = await ears.resolve(audio(b"one"))
    assert (heard.transcriber, ears.heard) == ("", [])
    assert [part.data for part in request_media(heard.request)] == [b"one"]


@pytest.mark.parametrize("media", [[], ["image"]])
async def test_a_vision_model_without_ears_reads(media: Sequence[str]) -> None:
    heard = await Ears(VISION_MODEL, media).resolve(audio(b"one"), audio(b"\x89PNG", kind="image"))
    assert heard.transcriber == "ears"
    assert [part.kind for part in request_media(heard.request)] == ["image"]


async def test_what_nothing_can_read_is_refused_before_anything_is_transcribed() -> None:
    ears = Ears()
    with pytest.raises(OrchardError, match="Images can't be read by this model"):
        await ears.resolve(audio(b"one"), audio(b"\x89PNG", "image", kind="image"))
    assert ears.heard == []
    ears.transcribes = False
    with pytest.raises(OrchardError, match="Audio can't be read by this model") as refused:
        await ears.resolve(audio(b"one"))
    assert refused.value.param == "p"


@pytest.mark.parametrize(("kind", "param"), [("invalid_request", "second"), ("overloaded", None)])
async def test_a_recording_that_fails_is_named(kind: Any, param: str | None) -> None:
    ears = Ears()
    await ears.resolve(audio(b"one", "first"))
    ears.fails = OrchardError(kind, "why", param="file", retry_after=3)
    with pytest.raises(OrchardError, match="why") as failed:
        await ears.resolve(audio(b"one", "first"), audio(b"two", "second"))
    assert (failed.value.kind, failed.value.param, failed.value.retry_after) == (kind, param, 3)
    ears.fails = None
    assert (await ears.resolve(audio(b"two"))).request == request(TextPart("two"))
