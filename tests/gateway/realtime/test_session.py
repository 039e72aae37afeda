"""Sessions without processes: requests that are scripted, and events that are checked against OpenAI's types."""

import asyncio
import base64
import contextlib
import json
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchard.config import VoiceModels
from orchard.core.errors import OrchardError
from orchard.core.events import Event, Finished, Started, Text, ToolArgs, ToolStart, Usage
from orchard.core.request import Task
from orchard.core.tasks.generate import Generate, TextPart, ToolResultPart
from orchard.dialects.openai.realtime.encode import EventWriter
from orchard.dialects.openai.realtime.options import SessionOptions
from orchard.dialects.openai.realtime.parse import parse
from orchard.dialects.openai.realtime.schema import EVENTS, SemanticVad, Transcription
from orchard.gateway.caller import ANYONE
from orchard.gateway.http.budget import Budget, Share
from orchard.gateway.http.request_context import RequestLimit
from orchard.gateway.media import data_urls
from orchard.gateway.metrics.counters import SoundPart
from orchard.gateway.realtime import microphone, session
from orchard.gateway.realtime.session import RealtimeSession
from orchard.gateway.realtime.transcripts import MOST_TRANSCRIPTIONS
from orchard.gateway.voice.first_sound import FirstSound
from tests.support.realtime_events import SESSION_RATE, appends, check_event, pcm, spoken

SUM = pcm(spoken("two", "four"))
HALVES = pcm(spoken("two", after=0.3)), pcm(spoken("four", before=0.0))
SECOND = bytes(2 * SESSION_RATE)
TOOL = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}


class Script:
    """Stands in for `VoiceRequests`: what is heard, what is answered, and 10 ms of sound for each character."""

    def __init__(self) -> None:
        self.models = VoiceModels(chat="chat")
        self.speaks = True
        self.heard: list[str | OrchardError] = []
        self.answers: list[list[Event] | OrchardError] = []
        self.tasks: list[Generate] = []
        self.spoken: list[tuple[str, str | None, float]] = []
        self.transcribed: list[tuple[int, int, Transcription]] = []
        self.first_sounds: list[Mapping[SoundPart, float]] = []
        self.judgements: list[bool | OrchardError] = []
        self.judged: list[tuple[int, int]] = []
        self.may_judge = asyncio.Event()
        self.may_judge.set()
        self.may_hear, self.may_speak = asyncio.Event(), asyncio.Event()
        self.may_hear.set()
        self.may_speak.set()
        self.open = 0

    def first_sound(self) -> FirstSound:
        return FirstSound(self.first_sounds.append)

    def speech_model(self) -> str:
        if not self.speaks:
            raise OrchardError("invalid_request", "no speech", param="output_modalities")
        return "speech"

    def turn_detection_model(self) -> str:
        if not self.judgements:
            raise OrchardError("invalid_request", "no judge", param="session.audio.input.turn_detection.type")
        return "judge"

    async def judge_turn(self, sound: bytes, rate: int) -> bool:
        self.judged.append((len(sound), rate))
        await self.may_judge.wait()
        judgement = self.judgements.pop(0)
        if isinstance(judgement, OrchardError):
            raise judgement
        return judgement

    def transcription_model(self, name: str | None) -> str:
        return name or "ears"

    async def transcribe(
        self, audio: bytes, rate: int, asked: Transcription, tell: Callable[[str], Awaitable[None]] | None = None
    ) -> tuple[str, float]:
        self.transcribed.append((len(audio), rate, asked))
        heard = self.heard.pop(0) if self.heard else "hello"
        await self.may_hear.wait()
        if isinstance(heard, OrchardError):
            raise heard
        if tell:
            await tell(heard)
        return heard, len(audio) / 2 / rate

    async def speak(
        self, text: str, voice: str | None, speed: float, count: Callable[[Usage], None]
    ) -> AsyncGenerator[bytes, None]:
        self.spoken.append((text, voice, speed))
        self.open += 1
        try:
            for _ in text:
                yield bytes(480)
            await self.may_speak.wait()
            count(Usage(1, len(text)))
        finally:
            self.open -= 1

    async def stream(self, model: str, task: Task) -> AsyncGenerator[Event, None]:
        assert isinstance(task, Generate)
        self.tasks.append(task)
        answer = self.answers.pop(0) if self.answers else [Text("Hi there. "), Text("Bye.")]
        self.open += 1
        try:
            if isinstance(answer, OrchardError):
                raise answer
            yield Started(3)
            for event in answer:
                yield event
            if not isinstance(answer[-1], Finished):
                yield Finished(("stop",), Usage(3, 2))
        finally:
            self.open -= 1


class Client:
    """The client's end of a session."""

    def __init__(self, script: Script, **options: Any) -> None:
        self.script = script
        self.told: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.held = Share(Budget(10**8, "messages"))
        writer = EventWriter("0" * 32)

        async def send(kind: str, **fields: Any) -> None:
            event = json.loads(writer.write(kind, **fields))
            check_event(event)
            self.told.put_nowait(event)

        requests: Any = script
        self.connection = SimpleNamespace(
            stay_open=contextlib.nullcontext, expect_audio=lambda: None, message_budget=Budget(10**8, "messages")
        )
        self.state = {"caller": ANYONE, "socket": self.connection, "in_hand": RequestLimit(2 * MOST_TRANSCRIPTIONS)}
        begin = SessionOptions(id="sess_1", model="chat", expires_at=9, **options)
        self.session = RealtimeSession(requests, send, begin, self.held, self.state)

    async def send(self, kind: str, **fields: Any) -> None:
        await self.session.handle(parse(json.dumps({"type": kind, **fields}).encode()))

    async def update(self, audio: Any = None, kind: str = "realtime", **fields: Any) -> None:
        await self.send("session.update", session={"type": kind, **fields, **({"audio": audio} if audio else {})})

    async def say(self, audio: bytes) -> None:
        for event in appends(audio, 48_000):
            await self.send(**{"kind": event.pop("type"), **event})

    async def write(self, text: str, **fields: Any) -> None:
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
        await self.send("conversation.item.create", item=item, **fields)

    async def until(self, kind: str) -> list[dict[str, Any]]:
        """Return the events up to one of this type."""
        events: list[dict[str, Any]] = []
        while not events or events[-1]["type"] != kind:
            events.append(await asyncio.wait_for(self.told.get(), 10))
        return events

    def rest(self) -> list[dict[str, Any]]:
        return [self.told.get_nowait() for _ in range(self.told.qsize())]


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    made = Client(Script())
    await made.session.begin()
    assert [event["type"] for event in made.rest()] == ["session.created", "conversation.created"]
    yield made
    await made.session.close()
    assert made.script.open == 0


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(event["type"] for event in events))


async def refused(client: Client, kind: str, match: str, **fields: Any) -> OrchardError:
    with pytest.raises(OrchardError, match=match) as error:
        await client.send(kind, **fields)
    return error.value


async def test_a_turn_is_heard_answered_and_spoken(client: Client) -> None:
    await client.update({"input": {"transcription": {"model": "ears", "language": "en"}}}, instructions="Add up.")
    client.script.heard = ["two plus four"]
    await client.say(SUM)
    events = await client.until("response.done")
    assert kinds(events) == [
        "session.updated",
        "input_audio_buffer.speech_started",
        "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
        "conversation.item.input_audio_transcription.delta",
        "conversation.item.input_audio_transcription.completed",
        "response.created",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_audio_transcript.delta",
        "response.output_audio.delta",
        "response.output_audio.done",
        "response.output_audio_transcript.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.done",
    ]
    assert len({event["event_id"] for event in events}) == len(events)
    ((size, rate, asked),) = client.script.transcribed
    assert (rate, asked.language) == (SESSION_RATE, "en")
    assert 2 * SESSION_RATE < size < len(SUM)
    (task,) = client.script.tasks
    assert [(one.role, one.parts) for one in task.messages] == [
        ("system", (TextPart("Add up."),)),
        ("user", (TextPart("two plus four"),)),
    ]
    assert [text for text, _, _ in client.script.spoken] == ["Hi there.", "Bye."]
    sound = b"".join(base64.b64decode(one["delta"]) for one in events if one["type"] == "response.output_audio.delta")
    assert len(sound) == 480 * len("Hi there.Bye.")
    response = events[-1]["response"]
    assert response["status"] == "completed"
    assert response["output"][0]["content"] == [{"type": "output_audio", "transcript": "Hi there. Bye."}]
    assert response["usage"]["output_token_details"] == {"text_tokens": 2, "audio_tokens": 13}
    (parts,) = client.script.first_sounds
    assert list(parts) == ["transcription", "text", "clause", "sound"]


async def test_twenty_sessions_hear_their_own_turns() -> None:
    async def hold(number: int) -> None:
        client = Client(Script())
        client.script.heard = [f"turn of {number}"]
        await client.say(SUM)
        events = await client.until("response.done")
        assert events[-1]["response"]["status"] == "completed"
        assert client.script.tasks[0].messages[-1].parts == (TextPart(f"turn of {number}"),)
        await client.session.close()

    await asyncio.gather(*map(hold, range(20)))


async def test_a_pause_is_transcribed_and_that_is_used_if_nothing_follows(client: Client) -> None:
    await client.update({"input": {"transcription": {"model": "ears"}}})
    client.script.heard = ["two", "two four", "unused"]
    for half in HALVES:
        await client.say(half)
        await asyncio.sleep(0)
    events = await client.until("response.done")
    sizes = [size for size, _, _ in client.script.transcribed]
    assert len(sizes) == 2  # the first pause, after which somebody spoke on, and the one that ended the turn
    assert sizes[0] < sizes[1] < len(b"".join(HALVES))
    completed = next(one for one in events if one["type"].endswith("transcription.completed"))
    assert completed["transcript"] == "two four"
    assert completed["usage"]["seconds"] > sizes[1] / 2 / SESSION_RATE
    assert [one["delta"] for one in events if one["type"].endswith("transcription.delta")] == ["two four"]
    committed = kinds(events).index("input_audio_buffer.committed")
    assert committed < kinds(events).index("conversation.item.input_audio_transcription.delta")


async def judged_by_model(client: Client, *judgements: bool | OrchardError, **fields: Any) -> None:
    client.script.judgements = list(judgements)
    await client.update({"input": {"turn_detection": {"type": "semantic_vad", **fields}}})
    shown = client.rest()[-1]["session"]["audio"]["input"]["turn_detection"]
    expected = {"type": "semantic_vad", "eagerness": "auto", "create_response": True, "interrupt_response": True}
    assert shown == expected | fields


async def test_a_model_ends_a_turn_where_somebody_has_finished(client: Client) -> None:
    await judged_by_model(client, False, True)
    client.script.heard = ["two", "two four"]
    for half in HALVES:
        await client.say(half)
    events = await client.until("response.done")
    assert kinds(events)[:3] == [
        f"input_audio_buffer.{kind}" for kind in ("speech_started", "speech_stopped", "committed")
    ]
    assert client.script.judged[0][0] < client.script.judged[1][0]
    assert client.script.judged[0][1] == SESSION_RATE
    # The transcription began at the pause, and was used.
    assert [size for size, _, _ in client.script.transcribed] == [size for size, _ in client.script.judged]
    assert client.script.tasks[0].messages[-1].parts == (TextPart("two four"),)


async def test_a_turn_that_no_model_ends_ends_after_the_longest_silence(client: Client) -> None:
    await judged_by_model(client, False, eagerness="high")
    await client.say(SUM)
    assert "input_audio_buffer.speech_stopped" not in kinds(client.rest())
    await client.say(SECOND)
    await client.until("response.done")
    assert len(client.script.judged) == 1


@pytest.mark.parametrize("fails", [True, False])
async def test_a_model_that_does_not_judge_ends_no_turn(
    client: Client, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await judged_by_model(client, OrchardError("model_failed", "broken"), True)
    if not fails:
        client.script.may_judge.clear()
        monkeypatch.setattr(SemanticVad, "longest_silence_ms", 300)
    with pytest.raises(OrchardError, match="broken" if fails else "took more than 0.3 s"):
        await client.say(SUM)
    assert kinds(client.rest()) == ["input_audio_buffer.speech_started"]
    client.script.may_judge.set()
    client.script.judgements = [True]
    await client.say(SUM)  # which goes on with the same turn
    await client.until("response.done")


@pytest.mark.parametrize("language", ["en", "de"])
async def test_an_early_transcript_is_used_if_it_is_what_is_asked(client: Client, language: str) -> None:
    await client.update({"input": {"transcription": {"model": "ears", "language": "en"}}})
    client.script.heard = ["early", "late"]
    end = len(SUM) - int(0.9 * 2 * SESSION_RATE)  # 300 ms after the last word
    await client.say(SUM[:end])
    await client.update({"input": {"transcription": {"model": "ears", "language": language}}})
    await client.say(SUM[end:])
    await client.until("response.done")
    said = client.script.tasks[0].messages[-1].parts
    assert said == (TextPart("early" if language == "en" else "late"),)


async def test_an_early_transcription_ends_with_its_turn(client: Client) -> None:
    client.script.may_hear.clear()
    end = len(SUM) - int(0.9 * 2 * SESSION_RATE)
    for event in ("input_audio_buffer.clear", "input_audio_buffer.commit"):
        await client.say(SUM[:end])
        early = client.session._transcripts._early
        assert early
        await client.send(event)
        assert client.session._transcripts._early is None
        await asyncio.wait([early.task])
        assert early.task.cancelled()
    client.script.may_hear.set()


async def test_an_early_transcript_is_not_used_for_the_next_turn(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If its own turn could not be taken."""
    client.script.may_hear.clear()
    await client.update({"input": {"turn_detection": None}})
    for _ in range(MOST_TRANSCRIPTIONS):
        await client.say(SECOND)
        await client.send("input_audio_buffer.commit")
    await client.update({"input": {"turn_detection": {"type": "server_vad"}}})
    client.script.heard = ["the first turn"]
    with pytest.raises(OrchardError, match="wait to be transcribed"):
        await client.say(SUM)
    client.script.may_hear.set()
    await asyncio.gather(*client.session._transcripts._tasks)
    monkeypatch.setattr(microphone, "_MOST_BEFORE_SECONDS", 0)  # so that nothing is transcribed early
    client.script.heard = ["the second turn"]
    await client.say(SUM)
    await client.until("response.done")
    assert client.script.tasks[-1].messages[-1].parts == (TextPart("the second turn"),)


async def test_what_has_no_words_is_not_answered(client: Client) -> None:
    client.script.heard = ["", "hello"]
    await client.say(SUM + SUM)
    events = await client.until("response.done")
    assert len(client.script.transcribed) == 2
    assert [event["type"] for event in events].count("response.created") == 1


async def test_without_turn_detection_the_client_decides(client: Client) -> None:
    await client.update({"input": {"turn_detection": None}})
    await client.say(SUM)
    await client.send("input_audio_buffer.commit")
    assert kinds(client.rest())[1:] == [
        "input_audio_buffer.committed",
        "conversation.item.added",
        "conversation.item.done",
    ]
    await client.send("response.create", response={"output_modalities": ["text"]})
    events = await client.until("response.done")
    assert kinds(events)[:1] == ["response.created"]
    assert "response.output_text.delta" in kinds(events)
    assert client.script.transcribed[0][0] == len(SUM)
    assert client.script.spoken == []
    error = await refused(client, "input_audio_buffer.commit", "at least 100 ms")
    assert getattr(error, "code", None) == "input_audio_buffer_commit_empty"
    await client.say(SUM)
    await client.send("input_audio_buffer.clear")
    assert kinds(client.rest()) == ["input_audio_buffer.cleared"]
    await refused(client, "input_audio_buffer.commit", "it has 0 ms")


async def test_who_begins_to_speak_interrupts(client: Client) -> None:
    client.script.may_speak.clear()
    await client.write("Talk")
    await client.send("response.create")
    events = await client.until("response.output_audio.delta")
    await client.say(SUM[:72_000])
    done = (await client.until("response.done"))[-1]["response"]
    assert (done["status"], done["status_details"]["reason"]) == ("cancelled", "turn_detected")
    (item,) = done["output"]
    assert item["status"] == "incomplete"
    assert client.script.open == 0
    where = {"item_id": item["id"], "content_index": 0}
    most = 10 * len("Hi there.")
    await refused(client, "conversation.item.truncate", f"at most {most}", **where, audio_end_ms=most + 1)
    await client.send("conversation.item.truncate", **where, audio_end_ms=most // 2)
    await client.send("conversation.item.retrieve", item_id=item["id"])
    told = client.rest()
    assert kinds(told)[-2:] == ["conversation.item.truncated", "conversation.item.retrieved"]
    assert told[-1]["item"]["content"][0]["transcript"] == "Hi"
    assert events


async def test_interruptions_can_be_turned_off(client: Client) -> None:
    detection = {"type": "server_vad", "interrupt_response": False, "create_response": False}
    await client.update({"input": {"turn_detection": detection}})
    client.script.may_speak.clear()
    await client.write("Talk")
    await client.send("response.create")
    await client.until("response.output_audio.delta")
    await client.say(SUM)
    client.script.may_speak.set()
    done = (await client.until("response.done"))[-1]["response"]
    assert done["status"] == "completed"
    assert len(client.script.tasks) == 1


async def test_a_client_cancels(client: Client) -> None:
    client.script.may_speak.clear()
    await client.write("Talk")
    await client.send("response.create")
    await client.until("response.output_audio.delta")
    assert getattr(await refused(client, "response.create", "already"), "code", None)
    await refused(client, "response.cancel", "no response to cancel", response_id="resp_other")
    await client.send("response.cancel")
    done = (await client.until("response.done"))[-1]["response"]
    assert (done["status"], done["status_details"]["reason"]) == ("cancelled", "client_cancelled")
    await refused(client, "response.cancel", "no response to cancel")
    client.script.may_speak.set()
    await client.send("response.create")
    assert (await client.until("response.done"))[-1]["response"]["status"] == "completed"


async def test_functions_are_called(client: Client) -> None:
    call: list[Event] = [ToolStart(0, "call_1", "look"), ToolArgs(0, '{"at"'), ToolArgs(0, ": 1}")]
    client.script.answers = [[Text("Let me see."), *call, Finished(("tool_calls",), Usage(3, 2))]]
    await client.update(tools=[TOOL], tool_choice="auto")
    await client.write("Look")
    await client.send("response.create")
    events = await client.until("response.done")
    said, made = events[-1]["response"]["output"]
    assert said["content"][0]["transcript"] == "Let me see."
    assert (made["name"], made["call_id"], made["arguments"]) == ("look", "call_1", '{"at": 1}')
    assert [event["delta"] for event in events if event["type"].endswith("arguments.delta")] == ['{"at"', ": 1}"]
    output = {"type": "function_call_output", "call_id": "call_1", "output": "nothing"}
    await refused(client, "conversation.item.create", "function call", item=output | {"call_id": "other"})
    await client.send("conversation.item.create", item=output)
    await client.send("response.create")
    await client.until("response.done")
    roles = [message.role for message in client.script.tasks[-1].messages]
    assert roles == ["user", "assistant", "tool"]
    assert client.script.tasks[-1].messages[-1].parts == (ToolResultPart("call_1", (TextPart("nothing"),)),)
    assert client.script.tasks[-1].tools[0].name == "look"


async def test_a_response_may_stand_apart(client: Client) -> None:
    await client.write("Kept", previous_item_id="root")
    kept = client.rest()[-1]["item"]["id"]
    own = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Own"}]}
    given = [own, {"type": "item_reference", "id": kept}]
    fields = {"conversation": "none", "input": given, "metadata": {"a": "b"}, "instructions": "Other"}
    await client.send("response.create", response=fields)
    events = await client.until("response.done")
    assert not [event for event in events if event["type"].startswith("conversation.")]
    response = events[-1]["response"]
    assert (response["conversation_id"], response["metadata"]) == (None, {"a": "b"})
    texts = [message.parts for message in client.script.tasks[0].messages]
    assert texts == [(TextPart("Other"),), (TextPart("Own"),), (TextPart("Kept"),)]


async def test_items_have_an_order(client: Client) -> None:
    await client.write("second")
    second = client.rest()[-1]["item"]["id"]
    await client.write("first", previous_item_id="root")
    await client.write("third", previous_item_id=second)
    added = client.rest()
    assert [event["previous_item_id"] for event in added] == [None, None, second, second]
    await client.send("conversation.item.delete", item_id=second)
    await refused(client, "conversation.item.delete", "no item", item_id=second)
    await refused(client, "conversation.item.retrieve", "no item", item_id=second)
    item = {"id": added[0]["item"]["id"], "type": "message", "role": "system", "content": []}
    await refused(client, "conversation.item.create", "must be new", item=item)
    await client.send("response.create", response={"output_modalities": ["text"]})
    await client.until("response.done")
    assert [one.parts for one in client.script.tasks[0].messages] == [(TextPart("first"),), (TextPart("third"),)]


async def test_audio_in_an_item_is_transcribed(client: Client) -> None:
    client.script.heard = ["spoken"]
    part = {"type": "input_audio", "audio": base64.b64encode(SECOND).decode()}
    item = {"type": "message", "role": "user", "content": [part, {"type": "input_text", "text": "written"}]}
    await client.send("conversation.item.create", item=item)
    await client.send("response.create", response={"output_modalities": ["text"]})
    await client.until("response.done")
    assert client.script.tasks[0].messages[0].parts == (TextPart("spoken"), TextPart("written"))


async def test_audio_in_an_item_is_long_enough_to_be_heard(client: Client) -> None:
    for size, fits in ((4798, False), (4800, True)):
        part = {"type": "input_audio", "audio": base64.b64encode(SECOND[:size]).decode()}
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Listen"}, part]}
        if fits:
            await client.send("conversation.item.create", item=item)
        else:
            error = await refused(client, "conversation.item.create", "at least 100 ms", item=item)
            assert error.param == "item.content[1].audio"
    await client.send("response.create", response={"output_modalities": ["text"]})
    await client.until("response.done")
    assert [size for size, _, _ in client.script.transcribed] == [4800]


async def test_long_audio_is_decoded_beside_the_event_loop(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[bool] = []
    decode = data_urls.decode_base64

    def decode_in_any_thread(text: str) -> bytes | None:
        threads.append(threading.current_thread() is threading.main_thread())
        return decode(text)

    monkeypatch.setattr(session, "decode_base64", decode_in_any_thread)
    await client.update({"input": {"turn_detection": None}})
    for size in (48_000, 96_000):
        await client.send("input_audio_buffer.append", audio=base64.b64encode(bytes(size)).decode())
    await refused(client, "input_audio_buffer.append", "must be base64", audio="A" * 100_001)
    assert threads == [True, False, False]
    await client.send("input_audio_buffer.commit")
    await client.send("response.create", response={"output_modalities": ["text"]})
    await client.until("response.done")
    assert client.script.transcribed[0][0] == 144_000


async def test_a_transcription_that_fails_fails_the_answer(client: Client) -> None:
    await client.update({"input": {"transcription": {"model": "ears"}}})
    client.script.heard = [OrchardError("model_failed", "deaf")] * 2  # at the pause, and at the end of the turn
    await client.say(SUM)
    events = await client.until("response.done")
    failed = next(one for one in events if one["type"].endswith("transcription.failed"))
    assert failed["error"]["message"] == "deaf"
    response = events[-1]["response"]
    assert (response["status"], response["status_details"]["error"]["message"]) == ("failed", "deaf")
    await client.write("Then in writing")
    await client.send("response.create")
    assert (await client.until("response.done"))[-1]["response"]["status"] == "completed"


async def test_a_transcription_that_has_failed_is_told_by_the_next_answer(client: Client) -> None:
    client.script.heard = [OrchardError("model_failed", "deaf")]
    await client.update({"input": {"turn_detection": None, "transcription": {}}})
    await client.say(SECOND)
    await client.send("input_audio_buffer.commit")
    await client.until("conversation.item.input_audio_transcription.failed")
    await client.write("Beside it")
    for status in ("failed", "completed"):
        await client.send("response.create")
        assert (await client.until("response.done"))[-1]["response"]["status"] == status


async def test_a_model_that_fails_fails_the_answer(client: Client) -> None:
    client.script.answers = [OrchardError("overloaded", "too much")]
    await client.write("Hi")
    await client.send("response.create")
    response = (await client.until("response.done"))[-1]["response"]
    assert response["status_details"]["error"]["code"] == "rate_limit_exceeded"
    client.script.answers = [[Text("And so"), Finished(("length",), Usage(1, 1))]]
    await client.send("response.create", response={"max_output_tokens": 2})
    response = (await client.until("response.done"))[-1]["response"]
    assert (response["status"], response["status_details"]["reason"]) == ("incomplete", "max_output_tokens")
    assert client.script.tasks[-1].max_tokens == 2


async def test_old_items_are_dropped_if_all_are_too_many(client: Client) -> None:
    too_long = OrchardError("context_length_exceeded", "too long")
    for number in range(8):
        await client.write(str(number))
    client.script.answers = [too_long, too_long]
    await client.send("response.create")
    assert (await client.until("response.done"))[-1]["response"]["status"] == "completed"
    assert [len(task.messages) for task in client.script.tasks] == [8, 6, 4]
    assert client.script.tasks[-1].messages[-1].parts == (TextPart("7"),)
    await client.update(truncation="disabled")
    client.script.answers = [too_long]
    await client.send("response.create")
    response = (await client.until("response.done"))[-1]["response"]
    assert response["status_details"]["error"]["code"] == "context_length_exceeded"


async def test_g711_voice_and_speed(client: Client) -> None:
    output = {"format": {"type": "audio/pcmu"}, "voice": "ryan", "speed": 1.5}
    await client.update({"output": output, "input": {"format": {"type": "audio/pcma"}}})
    shown = client.rest()[-1]["session"]["audio"]
    assert shown["output"] == output
    await client.write("Hi")
    await client.send("response.create", response={"audio": {"output": {"voice": {"id": "vivian"}}}})
    events = await client.until("response.done")
    sound = b"".join(base64.b64decode(one["delta"]) for one in events if one["type"] == "response.output_audio.delta")
    assert len(sound) == 80 * len("Hi there.Bye.")
    assert set(sound) == {0xFF}  # silence
    assert client.script.spoken[0] == ("Hi there.", "vivian", 1.5)


async def test_a_session_may_only_transcribe() -> None:
    client = Client(Script(), type="transcription")
    await client.session.begin()
    assert "output_modalities" not in client.rest()[0]["session"]
    await client.update({"input": {"transcription": {"model": "ears"}}}, kind="transcription")
    await client.say(SUM)
    events = await client.until("conversation.item.input_audio_transcription.completed")
    assert events[-1]["transcript"] == "hello"
    assert events[-1]["usage"]["type"] == "duration"
    await refused(client, "response.create", "transcription session")
    await refused(client, "session.update", "can't be changed", session={"type": "realtime"})
    assert client.script.tasks == []


async def test_without_a_speech_model_answers_are_text() -> None:
    script = Script()
    script.speaks = False
    client = Client(script)
    await client.session.begin()
    assert client.rest()[0]["session"]["output_modalities"] == ["text"]
    session = {"type": "realtime", "output_modalities": ["audio"]}
    assert (await refused(client, "session.update", "no speech", session=session)).param == "output_modalities"
    await client.say(SUM)
    assert "response.output_text.done" in kinds(await client.until("response.done"))


async def test_what_a_session_keeps_has_limits(client: Client) -> None:
    client.script.may_hear.clear()
    await client.update({"input": {"turn_detection": None}})
    for _ in range(MOST_TRANSCRIPTIONS):
        await client.say(SECOND)
        await client.send("input_audio_buffer.commit")
    await client.say(SECOND)
    await refused(client, "input_audio_buffer.commit", "wait to be transcribed")
    few = Client(Script())
    few.held = few.session._held = Share(Budget(100_000, "messages"))
    await few.update({"input": {"turn_detection": None}})
    await few.say(SECOND)
    with pytest.raises(OrchardError, match="exceed the limit"):
        await few.say(SECOND + SECOND)
    await few.send("input_audio_buffer.clear")
    await few.say(SECOND)


async def test_audio_behind_a_turn_that_can_not_be_taken_is_heard(client: Client) -> None:
    client.script.may_hear.clear()
    await client.update({"input": {"turn_detection": None}})
    for _ in range(MOST_TRANSCRIPTIONS):
        await client.say(SECOND)
        await client.send("input_audio_buffer.commit")
    await client.update({"input": {"turn_detection": {"type": "server_vad"}}})
    client.rest()
    audio = base64.b64encode(3 * SUM).decode()
    await refused(client, "input_audio_buffer.append", "wait to be transcribed", audio=audio)
    assert [event["type"] for event in client.rest()].count("input_audio_buffer.speech_stopped") == 3
    assert client.session._microphone.nbytes < len(SUM)


async def test_all_that_a_client_gives_counts(client: Client) -> None:
    def budget(most: int) -> None:
        client.held = client.session._held = Share(Budget(most, "messages"))

    budget(100_000)
    long = "\U0001f600" + "a" * 30_000  # 4 bytes for each character
    await refused(client, "session.update", "exceed the limit", session={"type": "realtime", "instructions": long})
    tool = {**TOOL, "parameters": {"type": "object", "default": [[]] * 2000}}
    await refused(client, "session.update", "exceed the limit", session={"type": "realtime", "tools": [tool]})
    await refused(client, "response.create", "exceed the limit", response={"instructions": long})
    many = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": ""}] * 256}
    await refused(client, "response.create", "exceed the limit", response={"input": [many] * 4})
    for _ in range(3):
        await client.send("conversation.item.create", item=many)
    await refused(client, "conversation.item.create", "exceed the limit", item=many)
    client.rest()
    await client.update(instructions="a" * 1000)  # nothing was kept of what was refused
    (event,) = client.rest()
    assert (event["session"]["tools"], event["session"]["instructions"]) == ([], "a" * 1000)


async def test_parts_of_all_items_together_have_a_limit(client: Client) -> None:
    many = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": ""}] * 256}
    for _ in range(64):
        await client.send("conversation.item.create", item=many)
    await refused(client, "conversation.item.create", "16384 parts", item=many)


async def test_a_part_keeps_only_the_fields_of_its_type(client: Client) -> None:
    image = {"image_url": "data:image/png;base64,AAAA", "detail": "low"}
    stray = {"text": "a", "transcript": "b", "audio": base64.b64encode(SECOND).decode(), **image}
    types = ["input_text", "input_audio", "input_image"]
    content = [{"type": kind, **stray} for kind in types]
    await client.send("conversation.item.create", item={"type": "message", "role": "user", "content": content})
    (item,) = client.session._conversation.items
    assert [part.audio for part in item.content] == [None] * 3
    assert (await client.until("conversation.item.done"))[-1]["item"]["content"] == [
        {"type": "input_text", "text": "a"},
        {"type": "input_audio", "transcript": None},
        {"type": "input_image", **image},
    ]


async def test_an_item_with_the_id_of_a_deleted_one_is_another(client: Client) -> None:
    client.script.may_hear.clear()
    audio = base64.b64encode(SECOND).decode()
    item = {"id": "it", "type": "message", "role": "user", "content": [{"type": "input_audio", "audio": audio}]}
    for _ in range(2):
        await client.send("conversation.item.create", item=item)
        await client.send("conversation.item.delete", item_id="it")
    assert len(client.session._transcripts._tasks) == 2
    tasks = [*client.session._transcripts._tasks]
    client.script.may_hear.set()
    await asyncio.gather(*tasks)
    await asyncio.sleep(0)
    assert client.session._transcripts._tasks == {}
    assert client.session._transcripts.nbytes == 0


async def test_a_response_that_is_cancelled_at_once_has_begun_and_ends(client: Client) -> None:
    await client.write("hi")
    await client.send("response.create")
    await client.send("response.cancel")
    events = await client.until("response.done")
    assert kinds(events)[-2:] == ["response.created", "response.done"]
    assert events[-1]["response"]["status"] == "cancelled"


async def test_a_socket_stays_open_until_the_end_of_a_response_is_told(client: Client) -> None:
    told: list[dict[str, Any]] = []

    @contextlib.contextmanager
    def stay_open() -> Iterator[None]:
        yield
        told.extend(client.rest())

    client.connection.stay_open = stay_open
    await client.write("hi")
    await client.send("response.create")
    assert client.session._answering
    await client.session._answering
    assert told[-1]["type"] == "response.done"


async def test_a_session_for_transcriptions_only_can_not_answer() -> None:
    script = Script()
    script.models = VoiceModels(chat="", transcription="ears")
    client = Client(script, type="transcription")
    error = await refused(client, "session.update", "must be 'transcription'", session={"type": "realtime"})
    assert error.param == "session.type"


@pytest.mark.parametrize("kind", [[], {}, 1])
async def test_a_type_that_is_no_text_is_refused(client: Client, kind: Any) -> None:
    assert (await refused(client, kind, "must be one of")).param == "type"


async def test_a_reference_without_an_id_is_refused(client: Client) -> None:
    error = await refused(client, "response.create", "is required", response={"input": [{"type": "item_reference"}]})
    assert error.param == "response.input[0].id"


@pytest.mark.parametrize(
    ("session", "param"),
    [
        ({"audio": {"input": {"turn_detection": {"type": "semantic_vad"}}}}, "session.audio.input.turn_detection.type"),
        (
            {"audio": {"input": {"turn_detection": {"type": "server_vad", "eagerness": "low"}}}},
            "session.audio.input.turn_detection.eagerness",
        ),
        (
            {"audio": {"input": {"turn_detection": {"type": "semantic_vad", "silence_duration_ms": 200}}}},
            "session.audio.input.turn_detection.silence_duration_ms",
        ),
        (
            {"audio": {"input": {"turn_detection": {"type": "semantic_vad", "eagerness": "very"}}}},
            "session.audio.input.turn_detection.eagerness",
        ),
        ({"audio": {"input": {"turn_detection": {"type": "guess"}}}}, "session.audio.input.turn_detection.type"),
        (
            {"audio": {"input": {"turn_detection": {"type": "server_vad", "idle_timeout_ms": 6000}}}},
            "session.audio.input.turn_detection.idle_timeout_ms",
        ),
        ({"audio": {"input": {"noise_reduction": {"type": "near_field"}}}}, "session.audio.input.noise_reduction"),
        ({"audio": {"input": {"transcription": {"keywords": ["a"]}}}}, "session.audio.input.transcription.keywords"),
        ({"audio": {"input": {"format": {"type": "audio/opus"}}}}, "session.audio.input.format.type"),
        ({"audio": {"output": {"speed": 2}}}, "session.audio.output.speed"),
        ({"include": ["item.input_audio_transcription.logprobs"]}, "session.include"),
        ({"prompt": {"id": "x"}}, "session.prompt"),
        ({"model": "other"}, "session.model"),
        ({"output_modalities": ["text", "audio"]}, "session.output_modalities"),
        ({"tools": [{"type": "mcp", "server_label": "x"}]}, "session.tools[0].type"),
        ({"tool_choice": "required"}, "session.tool_choice"),
        ({"max_output_tokens": 0}, "session.max_output_tokens"),
        ({"truncation": {"type": "retention_ratio", "retention_ratio": 0.5}}, "session.truncation"),
    ],
    ids=str,
)
async def test_what_is_not_served_is_refused_by_name(client: Client, session: dict[str, Any], param: str) -> None:
    error = await refused(
        client, "session.update", r"must|can't|not supported|may only|no judge", session={"type": "realtime", **session}
    )
    assert error.param == param
    assert client.rest() == []


TEXTS = st.sampled_from(["", "audio", "root", "item_1", "resp_1", "user", "message", "AAAA", "session.update"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 10**6) | st.floats() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["type", "role", "content", "text", "audio", "input", "output", "id", "call_id", "tools"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)
FIELDS = ["session", "audio", "item", "item_id", "previous_item_id", "content_index", "audio_end_ms", "response"]


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.sampled_from(sorted(EVENTS)), st.dictionaries(st.sampled_from(FIELDS), VALUES)), max_size=6)
)
def test_garbage_gets_errors_and_nothing_else(events: list[tuple[str, dict[str, Any]]]) -> None:
    async def send_all() -> None:
        client = Client(Script())
        for kind, fields in events:
            with contextlib.suppress(OrchardError):
                await client.send(kind, **fields)
        await client.send("input_audio_buffer.clear")
        await client.session.close()
        assert client.rest()

    asyncio.run(send_all())
