"""An answer of a chat that is spoken: its text is generated, and spoken clause by clause meanwhile."""

import asyncio
import logging
import sys
from collections.abc import Callable, Coroutine, Iterable
from contextlib import aclosing
from typing import Any

from msgspec.structs import replace

from orchard.core.errors import OrchardError
from orchard.core.events import Failed, Finished, Output, Text, ToolStart, Usage
from orchard.core.tasks.speak import MAX_INPUT_CHARS, Sound, SoundFormat
from orchard.gateway.metrics.counters import SoundPart
from orchard.gateway.replies.event_stream import EventStream
from orchard.gateway.voice.requests import VoiceRequests
from orchard.gateway.voice.spoken_text import Clause, SpokenText

log = logging.getLogger("orchard.gateway.voice.spoken_answer")

_WAIT_SECONDS = 60.0
_MOST_BYTES = 64 * 2**20
# The fields of a chat, by those of the request to speak.
_PARAMS = {"voice": "audio.voice", "response_format": "audio.format"}


class SpokenAnswer:
    """Speaks an answer of one choice. `stream` has the events of the answer, and an `Output` for each piece of sound.

    The sound is of clauses that are spoken while the rest is generated. With `whole`, it is one file, which is made
    once the text is complete; it has the first `MAX_INPUT_CHARS` characters at most, and then `Finished` says "length"
    in place of "stop".
    """

    def __init__(
        self,
        requests: VoiceRequests,
        answer: EventStream,
        voice: str | None,
        form: SoundFormat,
        *,
        whole: bool,
        keep: Callable[[str], None],
    ) -> None:
        """`keep` gets the text of a complete answer before its end is told."""
        self.stream = EventStream()
        self.stream.on_drop = self._close
        self.stream.on_lag = self._lag
        self.stream.waits_for = answer.waits_for
        self._requests = requests
        self._answer = answer
        self._voice = voice
        self._form = form
        self._keep = keep
        self._may_go = asyncio.Event()
        self._may_go.set()
        self._first_sound = None if whole else requests.first_sound()
        self._clauses: asyncio.Queue[Clause | None] = asyncio.Queue()
        self._text = ""
        self._end: Finished | None = None
        self._is_cut = False
        self._audio_tokens = 0
        self._bytes_left = _MOST_BYTES if whole else sys.maxsize
        self._task = asyncio.create_task(self._run(self._speak_at_once if whole else self._speak_clauses))

    def _close(self) -> None:
        self._task.cancel()
        self._answer.close()

    def _lag(self, lags: bool) -> None:
        if lags:
            self._may_go.clear()
        else:
            self._may_go.set()

    async def _run(self, speak: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._generate())
                tasks.create_task(speak())
        except ExceptionGroup as group:
            known = next((one for one in group.exceptions if isinstance(one, OrchardError)), None)
            if known is None:
                log.exception("a spoken answer broke")
            failed = Failed.from_error(known) if known else Failed("internal", "the server failed to speak the answer")
            self.stream.push([failed])
        else:
            self._finish()
        finally:
            self._answer.close()

    def _finish(self) -> None:
        assert self._end
        self._keep(self._text)
        is_short = self._is_cut and self._end.reasons == ("stop",)
        reasons = ("length",) if is_short else self._end.reasons
        usage = replace(self._end.usage, audio_tokens=self._audio_tokens)
        self.stream.push([replace(self._end, reasons=reasons, usage=usage)])

    async def _generate(self) -> None:
        text = SpokenText()
        while self._end is None:
            await self._may_go.wait()
            events = await self._answer.next(_WAIT_SECONDS)
            if shown := [event for event in events if not isinstance(event, Failed | Finished)]:
                self.stream.push(shown)
            for event in events:
                match event:
                    case Failed():
                        raise event.error()
                    case Finished():
                        self._end = event
                    case Text():
                        self._end_part("text")
                        self._text += event.text
                        self._add(text.feed(event.text))
                    case ToolStart():
                        self._add(text.finish())
        self._add(text.finish())
        self._clauses.put_nowait(None)

    def _add(self, clauses: Iterable[Clause]) -> None:
        for clause in clauses:
            self._end_part("clause")
            self._clauses.put_nowait(clause)

    def _end_part(self, part: SoundPart) -> None:
        if self._first_sound:
            self._first_sound.end(part)

    async def _speak_clauses(self) -> None:
        while clause := await self._clauses.get():
            await self._speak(clause.text)

    async def _speak_at_once(self) -> None:
        said = ""
        while clause := await self._clauses.get():
            longer = f"{said} {clause.text}".lstrip()
            self._is_cut = self._is_cut or len(longer) > MAX_INPUT_CHARS
            said = said if self._is_cut else longer
        if said:
            await self._speak(said)

    async def _speak(self, text: str) -> None:
        async with aclosing(self._requests.speak(text, self._voice, 1.0, self._count, self._form)) as sounds:
            try:
                async for data in sounds:
                    await self._may_go.wait()
                    self._bytes_left -= len(data)
                    if self._bytes_left < 0:
                        raise OrchardError("internal", "the speech model does not come to an end")
                    self._end_part("sound")
                    self.stream.push([Output.from_struct(Sound(data))])
            except OrchardError as error:
                raise _as_chat_error(error) from error

    def _count(self, usage: Usage) -> None:
        self._audio_tokens += usage.completion_tokens


def _as_chat_error(error: OrchardError) -> OrchardError:
    """Return an error of the speech model that blames a field of the chat, if any."""
    param = _PARAMS.get(error.param or "")
    return OrchardError(error.kind, error.message, param=param, retry_after=error.retry_after)
