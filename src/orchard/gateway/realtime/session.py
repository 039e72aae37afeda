"""A realtime session: what each event of a client does, and the turns that are heard in its audio."""

import asyncio
import logging
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from typing import Any

from msgspec.structs import replace
from starlette.websockets import WebSocketDisconnect

from orchard.core.errors import OrchardError
from orchard.dialects.common.json_body import invalid_field, require
from orchard.dialects.openai.errors import openai_error_body
from orchard.dialects.openai.realtime import schema as wire
from orchard.dialects.openai.realtime.encode import RealtimeError
from orchard.dialects.openai.realtime.items import RealtimeItem, read_item
from orchard.dialects.openai.realtime.options import (
    AnswerOptions,
    SessionOptions,
    session_fields,
    update_answer,
    update_session,
)
from orchard.gateway.caller import Caller
from orchard.gateway.http.budget import Share
from orchard.gateway.http.pace import ReadPace
from orchard.gateway.http.request_context import RequestLimit, logged_request_id
from orchard.gateway.http.websocket import Socket
from orchard.gateway.media.data_urls import decode_base64
from orchard.gateway.realtime.conversation import RealtimeConversation
from orchard.gateway.realtime.microphone import (
    MOST_SECONDS,
    Microphone,
    TurnEnd,
    TurnGoesOn,
    TurnMayEnd,
    TurnPause,
    TurnStart,
)
from orchard.gateway.realtime.response import RealtimeResponse, ResponsePlan, Send
from orchard.gateway.realtime.samples import FORMATS, SoundFormat
from orchard.gateway.realtime.transcripts import Speech, Transcripts
from orchard.gateway.voice.requests import VoiceRequests

log = logging.getLogger("orchard.access")

_LEAST_MS = 100
# Seconds of audio that are read at once, and then in a second: more would keep the event loop busy.
_AUDIO_BURST, _AUDIO_RATE = 120.0, 8.0
_WINDOWS_AT_ONCE = 32
_SMALL_CHARS = 64 * 1024  # decoding this many is quicker than using a thread


class RealtimeSession:
    """A session, whose events `send` sends. `held` counts the audio and the conversation that it keeps."""

    def __init__(
        self, requests: VoiceRequests, send: Send, options: SessionOptions, held: Share, state: Mapping[str, Any]
    ) -> None:
        """`state` is that of the socket: its caller, its connection and the limit on requests."""
        if not requests.speaks:
            options = replace(options, answer=AnswerOptions(modality="text"))
        self._requests = requests
        self._send = send
        self._options = options
        self._held = held
        self._caller: Caller = state["caller"]
        self._connection: Socket = state["socket"]
        self._in_hand: RequestLimit = state["in_hand"]
        self._conversation = RealtimeConversation()
        self._conversation_id = f"conv_{uuid.uuid4().hex}"
        self._microphone = Microphone(FORMATS[options.input_format], options.turn_detection)
        self._pace = ReadPace(asyncio.get_running_loop().time, _AUDIO_BURST, _AUDIO_RATE)
        self._turn_id = _new_id("item")
        self._transcripts = Transcripts(requests, send, self._log, self._count_items)
        self._option_bytes = options.answer.nbytes
        self._item_bytes = 0
        self._response_bytes = 0  # of the options and items that are only for the current response
        self._response: RealtimeResponse | None = None
        self._answering: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Say what the session is set to."""
        await self._send("session.created", session=session_fields(self._options))
        await self._send(
            "conversation.created", conversation={"id": self._conversation_id, "object": "realtime.conversation"}
        )

    async def close(self) -> None:
        """End everything that runs."""
        if self._answering:
            self._answering.cancel()
            await asyncio.wait([self._answering])
        await self._transcripts.close()

    async def handle(self, event: wire.ClientEvent) -> None:
        """Do what an event of the client says. Raise OrchardError if it can't be done."""
        match event:
            case wire.SessionUpdate():
                await self._update(event.session)
            case wire.AudioAppend():
                await self._append(event.audio)
            case wire.ItemCreate():
                await self._create_item(event)
            case wire.ItemTruncate():
                self._conversation.truncate(event.item_id, event.content_index, event.audio_end_ms)
                where = {"item_id": event.item_id, "content_index": event.content_index}
                await self._send("conversation.item.truncated", **where, audio_end_ms=event.audio_end_ms)
            case wire.ItemEvent(type="conversation.item.retrieve"):
                await self._send("conversation.item.retrieved", item=self._conversation.find(event.item_id).fields())
            case wire.ItemEvent():
                self._conversation.delete(event.item_id)
                self._count_items()
                self._hold()
                await self._send("conversation.item.deleted", item_id=event.item_id)
            case wire.ResponseCreate():
                await self._create_response(event.response or wire.ResponseFields())
            case wire.ResponseCancel():
                await self._cancel_by_client(event.response_id)
            case wire.BareEvent(type="input_audio_buffer.commit"):
                await self._commit_by_client()
            case wire.BareEvent():
                self._microphone.take()
                self._transcripts.drop_early()
                self._hold()
                await self._send("input_audio_buffer.cleared")

    def _hold(self, more: int = 0) -> None:
        """Count what the session keeps and `more` bytes. Raise OrchardError if all sockets together keep too much."""
        options = self._option_bytes + self._response_bytes
        self._held.take(options + self._microphone.nbytes + self._item_bytes + self._transcripts.nbytes + more)

    def _count_items(self) -> None:
        self._item_bytes = self._conversation.nbytes
        self._transcripts.keep_failures(item.id for item in self._conversation.items)

    async def _update(self, fields: wire.SessionFields) -> None:
        options = update_session(self._options, fields)
        if fields.type != self._options.type and self._conversation.items:
            raise invalid_field("session.type", "can't be changed once the conversation has items.")
        if options.type == "realtime" and not self._requests.models.chat:
            raise invalid_field("session.type", "must be 'transcription', as in ?intent= of this session's URL.")
        if options.type == "realtime" and options.answer.modality == "audio":
            self._requests.speech_model()
        if isinstance(options.turn_detection, wire.SemanticVad):
            self._requests.turn_detection_model()
        if options.transcription and options.transcription.model:
            self._requests.transcription_model(options.transcription.model)
        option_bytes = options.answer.nbytes
        self._hold(option_bytes - self._option_bytes)
        self._option_bytes = option_bytes
        self._microphone.change_format(FORMATS[options.input_format])
        if options.turn_detection != self._options.turn_detection:
            self._microphone.detect(options.turn_detection)
        if not self._microphone.is_speaking:
            self._transcripts.drop_early()
        self._options = options
        await self._send("session.updated", session=session_fields(options))

    async def _append(self, audio: str) -> None:
        """Take audio, and do what the turns in it ask for."""
        form, microphone = self._microphone.form, self._microphone
        data = await _decode_audio(audio, form, "audio")
        seconds = len(data) / form.width / form.rate
        if not self._options.turn_detection and microphone.held_ms / 1000 + seconds > MOST_SECONDS:
            message = f"holds {MOST_SECONDS} seconds at most: commit it, or clear it."
            raise invalid_field("audio", message)
        self._hold(2 * len(data) // form.width)
        failure: OrchardError | None = None
        for number, found in enumerate(microphone.append(data), start=1):
            try:
                match found:
                    case TurnStart():
                        await self._begin_turn(found)
                    case TurnPause():
                        self._transcripts.begin_early(self._speech(found.audio))
                    case TurnGoesOn():
                        self._transcripts.drop_early()
                    case TurnMayEnd():
                        if await self._is_over(found.audio):
                            await self._end_turn(microphone.end_turn())
                    case TurnEnd():
                        await self._end_turn(found)
            except OrchardError as error:  # the rest must be heard, too, or it would be kept
                failure = error
            if number % _WINDOWS_AT_ONCE == 0:
                await asyncio.sleep(0)
        self._hold()
        if pause := self._pace.pause(seconds):
            await asyncio.sleep(pause)
        if failure:
            raise failure

    async def _begin_turn(self, turn: TurnStart) -> None:
        self._turn_id = _new_id("item")
        self._transcripts.drop_early()  # of a turn that could not be taken
        where = {"item_id": self._turn_id, "audio_start_ms": turn.milliseconds}
        await self._send("input_audio_buffer.speech_started", **where)
        detection = self._options.turn_detection
        if detection and detection.interrupt_response:
            await self._cancel("turn_detected")

    async def _is_over(self, audio: bytes) -> bool:
        """Return whether a turn is over, of which this is the end. Raise OrchardError.

        Nothing more is heard meanwhile, so that it doesn't matter how fast the client sends its audio.
        """
        assert isinstance(self._options.turn_detection, wire.SemanticVad)
        seconds = self._options.turn_detection.longest_silence_ms / 1000
        self._hold(len(audio))
        try:
            async with asyncio.timeout(seconds):
                with self._log("turn detection"):
                    return await self._requests.judge_turn(audio, self._microphone.form.rate)
        except TimeoutError:
            message = f"the model of turn detection took more than {seconds:g} s: this turn ends after a longer silence"
            raise OrchardError("unavailable", message) from None

    async def _end_turn(self, turn: TurnEnd) -> None:
        where = {"item_id": self._turn_id, "audio_end_ms": turn.milliseconds}
        await self._send("input_audio_buffer.speech_stopped", **where)
        await self._commit(turn.audio)

    async def _commit_by_client(self) -> None:
        if self._microphone.held_ms < _LEAST_MS:
            held = f"{self._microphone.held_ms:.0f} ms"
            message = f"The input audio buffer must have at least {_LEAST_MS} ms of audio; it has {held}."
            raise RealtimeError("input_audio_buffer_commit_empty", message)
        self._transcripts.check_room(1)
        if not self._microphone.is_speaking:
            self._turn_id = _new_id("item")
        self._transcripts.drop_early()
        await self._commit(self._microphone.take(), answer=False)

    async def _commit(self, audio: bytes, *, answer: bool = True) -> None:
        """Make audio an item of the conversation, and transcribe it; if the turn detection says so, answer."""
        item = RealtimeItem(id=self._turn_id, role="user", content=[wire.ContentPart("input_audio")])
        self._transcripts.check_room(1)
        previous = self._conversation.add(item)
        where = {"previous_item_id": previous, "item_id": item.id}
        await self._send("input_audio_buffer.committed", **where)
        await self._show_item(item, previous)
        self._transcripts.begin(item, 0, self._speech(audio), is_turn=True)
        detection = self._options.turn_detection
        is_realtime = self._options.type == "realtime" and not self._answering
        if answer and is_realtime and detection and detection.create_response:
            await self._answer(self._options.answer, None, turn=item)

    async def _show_item(self, item: RealtimeItem, previous: str | None) -> None:
        for kind in ("conversation.item.added", "conversation.item.done"):
            await self._send(kind, previous_item_id=previous, item=item.fields())

    async def _create_item(self, event: wire.ItemCreate) -> None:
        if self._options.type == "transcription":
            raise invalid_field("type", "can't be used in a transcription session, which has no conversation.")
        item = read_item(event.item, _new_id("item"), self._conversation.call_ids)
        sounds = await self._take_audio(item, "item")
        previous = self._conversation.add(item, event.previous_item_id)
        self._count_items()
        try:
            self._hold(sum(len(audio) for _, audio in sounds))
        except OrchardError:
            self._conversation.delete(item.id)
            self._count_items()
            raise
        await self._show_item(item, previous)
        for at, audio in sounds:
            self._transcripts.begin(item, at, self._speech(audio))

    async def _take_audio(self, item: RealtimeItem, where: str) -> list[tuple[int, bytes]]:
        """Take the audio out of an item's parts; return it with their numbers. Raise OrchardError."""
        form, found = self._microphone.form, []
        for at, part in enumerate(item.content):
            if part.type == "input_audio":
                param = f"{where}.content[{at}].audio"
                data = await _decode_audio(part.audio or "", form, param)
                if len(data) * 1000 < _LEAST_MS * form.rate * form.width:
                    raise invalid_field(param, f"must have at least {_LEAST_MS} ms of audio.")
                found.append((at, form.decode(data)))
                part.audio = None
        self._transcripts.check_room(len(found))
        return found

    def _speech(self, audio: bytes) -> Speech:
        """Return what is said in samples at the input's rate."""
        asked = self._options.transcription
        tells = asked is not None or self._options.type == "transcription"
        return Speech(audio, self._microphone.form.rate, asked or wire.Transcription(), tells)

    async def _create_response(self, fields: wire.ResponseFields) -> None:
        if self._options.type == "transcription":
            raise invalid_field("type", "can't be used in a transcription session, which answers nothing.")
        if self._answering:
            message = "A response is being made already: wait for its end, or cancel it."
            raise RealtimeError("conversation_already_has_active_response", message)
        options = update_answer(self._options.answer, fields, "response.")
        if options.modality == "audio":
            self._requests.speech_model()
        items = None
        if fields.input is not None:
            calls = self._conversation.call_ids
            items = [self._read_input(one, calls, at) for at, one in enumerate(fields.input)]
        # Options that the response has from the session are counted twice.
        given = options.nbytes + sum(item.nbytes for item in items or ())
        self._hold(given)
        self._response_bytes = given
        await self._answer(options, items, in_conversation=fields.conversation != "none", metadata=fields.metadata)

    def _read_input(self, fields: wire.ItemFields, calls: Set[str], at: int) -> RealtimeItem:
        """Return an item of a response's own input, which may refer to one of the conversation."""
        where = f"response.input[{at}]"
        if fields.type == "item_reference":
            return self._conversation.find(require(fields.id, f"{where}.id"), f"{where}.id")
        item = read_item(fields, _new_id("item"), calls, where)
        if any(part.type == "input_audio" for part in item.content):
            raise invalid_field(f"{where}.content", "can't have audio: add it to the conversation, and refer to it.")
        item.measure()
        return item

    async def _answer(
        self,
        options: AnswerOptions,
        items: Sequence[RealtimeItem] | None,
        *,
        in_conversation: bool = True,
        metadata: dict[str, str] | None = None,
        turn: RealtimeItem | None = None,
    ) -> None:
        """Begin a response to these items; None: to the conversation. `turn`: only if something was said in it."""
        plan = ResponsePlan(
            id=_new_id("resp"),
            options=options,
            conversation=self._conversation if in_conversation else None,
            conversation_id=self._conversation_id,
            metadata=metadata,
            drops=self._options.truncation == "auto",
        )
        self._response = response = RealtimeResponse(plan, self._requests, self._send)
        if turn is None:
            await response.begin()  # before the client can cancel it
        self._answering = asyncio.create_task(self._run_response(response, items, turn))

    async def _run_response(
        self, response: RealtimeResponse, items: Sequence[RealtimeItem] | None, turn: RealtimeItem | None
    ) -> None:
        with self._connection.stay_open():
            error: OrchardError | None = None
            try:
                with self._log("response"):
                    given = list(self._conversation.items if items is None else items)
                    failed = await self._transcripts.wait(given)
                    response.first_sound.end("transcription")
                    if turn and not failed and not turn.text:
                        log.info("a turn had no words, so it is not answered")
                    else:
                        if turn:
                            await response.begin()
                        if failed:
                            raise failed
                        await response.make(given)
            except OrchardError as failure:
                error = failure
            except WebSocketDisconnect:
                return
            except Exception as bug:
                log.exception("a realtime response broke")
                error = OrchardError("internal", f"the server failed: {type(bug).__name__}")
            with suppress(WebSocketDisconnect):
                await self._finish(response, error)

    async def _finish(self, response: RealtimeResponse, error: OrchardError | None = None, cancelled: str = "") -> None:
        """End a response, so that the next one may begin."""
        if response.begun:
            await response.finish(error, cancelled)
        elif error:
            await self._send("error", error=openai_error_body(error)["error"])
        self._answering = self._response = None
        self._response_bytes = 0
        self._count_items()

    async def _cancel_by_client(self, id_: str | None) -> None:
        response = self._response
        if response is None or id_ not in (None, response.id):
            raise RealtimeError("response_cancel_not_active", "There is no response to cancel.", "response_id")
        await self._cancel("client_cancelled")

    async def _cancel(self, reason: str) -> None:
        """Cancel the response that is being made, if there is one."""
        response, task = self._response, self._answering
        if response is None or task is None:
            return
        if is_running := response.status == "in_progress":
            task.cancel()
        await asyncio.wait([task])
        if is_running:
            await self._finish(response, cancelled=reason)

    @contextmanager
    def _log(self, what: str) -> Iterator[None]:
        """Count a piece of work as a request of the caller, and log it. Raise OrchardError if there are too many."""
        logged_request_id.set(f"req_{uuid.uuid4().hex}")
        begin, how = time.monotonic(), "cancelled"
        try:
            with self._in_hand.count_request(self._caller.name):
                yield
            how = "ok"
        except OrchardError as error:
            how = error.kind
            raise
        finally:
            log.info("realtime %s %s %.3f s", what, how, time.monotonic() - begin)


def _new_id(kind: str) -> str:
    return f"{kind}_{uuid.uuid4().hex[:24]}"


async def _decode_audio(audio: str, form: SoundFormat, param: str) -> bytes:
    """Return the bytes of audio in base64. Raise OrchardError (invalid_request)."""
    is_small = len(audio) <= _SMALL_CHARS
    data = decode_base64(audio) if is_small else await asyncio.to_thread(decode_base64, audio)
    if data is None:
        raise invalid_field(param, "must be base64.")
    if len(data) % form.width:
        raise invalid_field(param, f"must have whole samples of {form.width} bytes each.")
    return data
