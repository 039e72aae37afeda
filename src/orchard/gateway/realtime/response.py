"""One response of a session: its text is generated, and spoken clause by clause meanwhile."""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, Literal

from msgspec import Struct
from starlette.websockets import WebSocketDisconnect

from orchard.core.errors import OrchardError
from orchard.core.events import Event, Finished, Text, ToolArgs, ToolStart, Usage
from orchard.core.tasks.speak import RATE
from orchard.dialects.common.output import hex_id
from orchard.dialects.openai.output import Fields
from orchard.dialects.openai.realtime.encode import failure_details, response_usage_fields
from orchard.dialects.openai.realtime.items import RealtimeItem, conversation_messages
from orchard.dialects.openai.realtime.options import AnswerOptions, format_fields
from orchard.dialects.openai.realtime.schema import ContentPart
from orchard.gateway.realtime.conversation import RealtimeConversation
from orchard.gateway.realtime.samples import FORMATS, SpeechConverter
from orchard.gateway.voice.requests import VoiceRequests
from orchard.gateway.voice.spoken_text import Clause, SpokenText

Send = Callable[..., Awaitable[None]]
Status = Literal["in_progress", "completed", "cancelled", "failed", "incomplete"]


class ResponsePlan(Struct, frozen=True, kw_only=True):
    """What a response is made of. `conversation` None: its items are added to none.

    `drops`: the oldest items may be dropped if all are too many for the model.
    """

    id: str
    options: AnswerOptions
    conversation: RealtimeConversation | None
    conversation_id: str
    metadata: dict[str, str] | None = None
    drops: bool = True


class _OutputItem(Struct):
    """An item that is being made, and its place in the response."""

    item: RealtimeItem
    index: int
    text: SpokenText
    previous: str | None
    ended: bool = False

    @property
    def part(self) -> ContentPart:
        return self.item.content[0]

    def shown_part(self) -> Fields:
        """Return the part as events show it, which name its type in another way than items."""
        if self.part.type == "output_audio":
            return {"type": "audio", "transcript": self.part.transcript}
        return {"type": "text", "text": self.part.text}


class RealtimeResponse:
    """Makes one response, and sends its events with `send`."""

    def __init__(self, plan: ResponsePlan, requests: VoiceRequests, send: Send) -> None:
        self.status: Status = "in_progress"
        self.begun = False
        self._plan = plan
        self._requests = requests
        self._send = send
        self._outputs: list[_OutputItem] = []
        self.first_sound = requests.first_sound()
        """The time from when the response is asked for, or a turn has ended."""
        self._clauses: asyncio.Queue[tuple[_OutputItem, Clause | None] | None] = asyncio.Queue()
        self._calls: dict[int, _OutputItem] = {}
        self._usage = Usage(0, 0)
        self._audio_tokens = 0
        self._reason = "stop"
        sound = FORMATS[plan.options.format]
        self._bytes_per_ms = sound.rate * sound.width / 1000

    @property
    def id(self) -> str:
        """Its id."""
        return self._plan.id

    async def begin(self) -> None:
        """Say that it begins."""
        await self._send("response.created", response=self._fields(None))
        self.begun = True

    async def make(self, items: Sequence[RealtimeItem]) -> None:
        """Answer these items. Raise OrchardError if that fails."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._generate(list(items)))
                if self._speaks:
                    tasks.create_task(self._speak_all())
        except ExceptionGroup as group:
            known = (OrchardError, WebSocketDisconnect)
            raise next((one for one in group.exceptions if isinstance(one, known)), group) from None

    async def finish(self, error: OrchardError | None = None, cancelled: str = "") -> None:
        """End what is not ended, and say that it is done: with an error, or cancelled for a reason of the API."""
        details: Fields | None = None
        if cancelled:
            self.status, details = "cancelled", {"type": "cancelled", "reason": cancelled}
        elif error:
            self.status, details = "failed", failure_details(error)
        elif self._reason == "length":
            self.status, details = "incomplete", {"type": "incomplete", "reason": "max_output_tokens"}
        else:
            self.status = "completed"
        for output in self._outputs:
            await self._end(output, completed=self.status == "completed")
        await self._send("response.done", response=self._fields(details))

    @property
    def _speaks(self) -> bool:
        return self._plan.options.modality == "audio"

    def _fields(self, details: Fields | None) -> Fields:
        options, is_done = self._plan.options, self.status != "in_progress"
        return {
            "id": self.id,
            "object": "realtime.response",
            "status": self.status,
            "status_details": details,
            "output": [output.item.fields() for output in self._outputs],
            "conversation_id": self._plan.conversation_id if self._plan.conversation else None,
            "output_modalities": [options.modality],
            "max_output_tokens": options.max_output_tokens or "inf",
            "audio": {"output": {"format": format_fields(options.format), "voice": options.voice}},
            "usage": response_usage_fields(self._usage, self._audio_tokens) if is_done else None,
            "metadata": self._plan.metadata,
        }

    async def _generate(self, items: list[RealtimeItem]) -> None:
        """Generate; if there is too much for the model, drop the oldest quarter of the items, as often as needed."""
        chat = self._requests.models.chat
        while True:
            task = self._plan.options.make_task(conversation_messages(items))
            if not task.messages:
                raise OrchardError("invalid_request", "there is nothing to answer: the conversation is empty.")
            try:
                async with aclosing(self._requests.stream(chat, task)) as events:
                    async for event in events:
                        await self._take(event)
                break
            except OrchardError as error:
                old = [item for item in items[:-1] if item.role != "system"]
                if error.kind != "context_length_exceeded" or not (self._plan.drops and old):
                    raise
                dropped = {item.id for item in old[: -(-len(old) // 4)]}
                items = [item for item in items if item.id not in dropped]
        for output in self._outputs:
            await self._complete(output)
        self._clauses.put_nowait(None)

    async def _take(self, event: Event) -> None:
        match event:
            case Text() if event.text:
                self.first_sound.end("text")
                last = self._outputs[-1] if self._outputs else None
                if last is None or last.item.type != "message":
                    last = await self._begin_message()
                await self._add_text(last, event.text)
            case ToolStart():
                for output in self._outputs:
                    await self._complete(output)
                item = RealtimeItem(id=self._new_id(), type="function_call", call_id=event.id, name=event.name)
                self._calls[event.index] = await self._begin_item(item)
            case ToolArgs():
                output = self._calls[event.index]
                output.item.arguments += event.json
                kind = "response.function_call_arguments.delta"
                await self._tell(kind, output, call_id=output.item.call_id, delta=event.json)
            case Finished():
                self._usage, self._reason = event.usage, event.reasons[0]

    def _new_id(self) -> str:
        return f"item_{hex_id(self.id.removeprefix('resp_'))[:20]}_{len(self._outputs)}"

    async def _begin_item(self, item: RealtimeItem) -> _OutputItem:
        """Add an item to the response, and to the conversation."""
        item.status = "in_progress"
        previous = self._plan.conversation.add(item) if self._plan.conversation else None
        output = _OutputItem(item, len(self._outputs), SpokenText(), previous)
        self._outputs.append(output)
        where: Fields = {"response_id": self.id, "output_index": output.index}
        await self._send("response.output_item.added", **where, item=item.fields())
        if self._plan.conversation:
            await self._send("conversation.item.added", previous_item_id=previous, item=item.fields())
        return output

    async def _begin_message(self) -> _OutputItem:
        item = RealtimeItem(id=self._new_id(), role="assistant")
        output = await self._begin_item(item)
        if self._speaks:
            item.content = [ContentPart("output_audio", transcript="")]
        else:
            item.content = [ContentPart("output_text", text="")]
        await self._tell("response.content_part.added", output, content_index=0, part=output.shown_part())
        return output

    async def _add_text(self, output: _OutputItem, text: str) -> None:
        kind = "response.output_audio_transcript.delta" if self._speaks else "response.output_text.delta"
        if self._speaks:
            output.part.transcript = (output.part.transcript or "") + text
            for clause in output.text.feed(text):
                self.first_sound.end("clause")
                self._clauses.put_nowait((output, clause))
        else:
            output.part.text = (output.part.text or "") + text
        await self._tell(kind, output, content_index=0, delta=text)

    async def _complete(self, output: _OutputItem) -> None:
        """End an item whose text is complete; one that is spoken ends when its last clause is."""
        if output.ended:
            return
        if self._speaks and output.item.type == "message":
            for clause in output.text.finish():
                self.first_sound.end("clause")
                self._clauses.put_nowait((output, clause))
            self._clauses.put_nowait((output, None))
        else:
            await self._end(output, completed=True)

    async def _speak_all(self) -> None:
        """Speak the clauses one after the other."""
        encoder = SpeechConverter(FORMATS[self._plan.options.format], RATE)
        while (found := await self._clauses.get()) is not None:
            output, clause = found
            if clause is None:
                await self._end(output, completed=True)
            else:
                await self._speak(output, clause, encoder)

    async def _speak(self, output: _OutputItem, clause: Clause, encoder: SpeechConverter) -> None:
        heard, options = output.item.heard, self._plan.options
        place, end = len(heard), heard[-1][1] if heard else 0.0
        speech = self._requests.speak(clause.text, options.voice, options.speed, self._count_speech)
        async with aclosing(speech) as sounds:
            async for sound in sounds:
                if data := encoder.feed(sound):
                    self.first_sound.end("sound")
                    delta = base64.b64encode(data).decode()
                    await self._tell("response.output_audio.delta", output, content_index=0, delta=delta)
                    end += len(data) / self._bytes_per_ms
                    heard[place:] = [(clause.end, end)]

    def _count_speech(self, usage: Usage) -> None:
        self._audio_tokens += usage.completion_tokens

    async def _end(self, output: _OutputItem, *, completed: bool) -> None:
        """Say that an item has ended."""
        if output.ended:
            return
        item = output.item
        if item.type == "function_call":
            kind = "response.function_call_arguments.done"
            call = {"call_id": item.call_id, "name": item.name, "arguments": item.arguments}
            if completed:
                await self._tell(kind, output, **call)
        elif item.content:
            if self._speaks:
                await self._tell("response.output_audio.done", output, content_index=0)
                kind = "response.output_audio_transcript.done"
                await self._tell(kind, output, content_index=0, transcript=output.part.transcript)
            else:
                await self._tell("response.output_text.done", output, content_index=0, text=output.part.text)
            await self._tell("response.content_part.done", output, content_index=0, part=output.shown_part())
        item.status = "completed" if completed else "incomplete"
        where: Fields = {"response_id": self.id, "output_index": output.index}
        await self._send("response.output_item.done", **where, item=item.fields())
        output.ended = True
        item.measure()
        if self._plan.conversation:
            await self._send("conversation.item.done", previous_item_id=output.previous, item=item.fields())

    async def _tell(self, kind: str, output: _OutputItem, **fields: Any) -> None:
        where: Fields = {"response_id": self.id, "item_id": output.item.id, "output_index": output.index}
        await self._send(kind, **where, **fields)
