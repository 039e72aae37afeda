"""The transcripts of a realtime session: of what was said in its items, and of a turn that may be over."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress

from msgspec import Struct
from starlette.websockets import WebSocketDisconnect

from orchard.core.errors import OrchardError
from orchard.dialects.openai.errors import openai_error_body
from orchard.dialects.openai.realtime.items import RealtimeItem
from orchard.dialects.openai.realtime.schema import Transcription
from orchard.gateway.realtime.response import Send
from orchard.gateway.voice.requests import VoiceRequests

log = logging.getLogger("orchard.gateway.realtime.transcripts")

MOST_TRANSCRIPTIONS = 16
"""The parts of a session's items that are transcribed or wait for it."""
_EVENT = "conversation.item.input_audio_transcription"


class _EarlyTranscript(Struct, frozen=True):
    """The transcription of a turn that may be over: used if the turn ends and the session still asks for `asked`."""

    asked: Transcription
    task: asyncio.Task[str]


class Speech(Struct, frozen=True):
    """What is said in a part of an item, in samples of 16 bits, and how it is to be transcribed.

    `tells`: whether the client gets events of it.
    """

    audio: bytes
    rate: int
    asked: Transcription
    tells: bool

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return len(self.audio) / 2 / self.rate


class Transcripts:
    """Transcribes what is said in one session. `nbytes` are those of the audio that waits for it.

    `log_work` counts and logs a piece of work, and `count_items` is called when an item has its transcript.
    """

    def __init__(
        self,
        requests: VoiceRequests,
        send: Send,
        log_work: Callable[[str], AbstractContextManager[None]],
        count_items: Callable[[], None],
    ) -> None:
        self.nbytes = 0
        self._requests = requests
        self._send = send
        self._log_work = log_work
        self._count_items = count_items
        self._tasks: dict[asyncio.Task[None], RealtimeItem] = {}
        self._early: _EarlyTranscript | None = None
        self._failures: dict[str, OrchardError] = {}  # of transcriptions, by the ids of items

    async def close(self) -> None:
        """End everything that runs."""
        self.drop_early()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def check_room(self, more: int) -> None:
        """Raise OrchardError if so many more parts would be too many."""
        if len(self._tasks) + more > MOST_TRANSCRIPTIONS:
            message = f"{MOST_TRANSCRIPTIONS} turns of this session wait to be transcribed: send no more for a moment"
            raise OrchardError("overloaded", message)

    def begin_early(self, speech: Speech) -> None:
        """Begin to transcribe a turn that may be over."""

        async def transcribe() -> str:
            with self._log_work("early transcription"):
                return (await self._requests.transcribe(speech.audio, speech.rate, speech.asked))[0]

        def end(task: asyncio.Task[str]) -> None:
            self.nbytes -= len(speech.audio)
            if not task.cancelled():
                task.exception()  # asyncio would log it otherwise

        self.nbytes += len(speech.audio)
        self._early = _EarlyTranscript(speech.asked, asyncio.create_task(transcribe()))
        self._early.task.add_done_callback(end)

    def drop_early(self) -> None:
        """Forget what was begun early."""
        if self._early:
            self._early.task.cancel()
            self._early = None

    def begin(self, item: RealtimeItem, at: int, speech: Speech, *, is_turn: bool = False) -> None:
        """Begin to transcribe a part of an item. `is_turn`: what was begun early is of this turn."""
        early = self._early if is_turn else None
        if is_turn:
            self._early = None
        self.nbytes += len(speech.audio)
        task = asyncio.create_task(self._transcribe(item, at, speech, early))
        self._tasks[task] = item

        def end(task: asyncio.Task[None]) -> None:
            del self._tasks[task]
            self.nbytes -= len(speech.audio)

        task.add_done_callback(end)

    async def wait(self, items: Sequence[RealtimeItem]) -> OrchardError | None:
        """Wait for the transcripts of items; return an error of the last turn that no response has reported."""
        ids = {item.id for item in items}
        pending = [task for task, item in self._tasks.items() if item.id in ids]
        await asyncio.gather(*map(asyncio.shield, pending))
        for item in reversed(items):
            if item.role == "assistant":
                break
            if error := self._failures.pop(item.id, None):
                return error
        return None

    def keep_failures(self, ids: Iterable[str]) -> None:
        """Forget the failures of all items but these."""
        kept = set(ids)
        self._failures = {id_: error for id_, error in self._failures.items() if id_ in kept}

    async def _transcribe(self, item: RealtimeItem, at: int, speech: Speech, early: _EarlyTranscript | None) -> None:
        """Transcribe, and tell the client if the session says so."""
        where = {"item_id": item.id, "content_index": at}

        async def tell(delta: str) -> None:
            if speech.tells and delta:
                await self._send(f"{_EVENT}.delta", **where, delta=delta)

        try:
            text, seconds = await _early_text(early, speech.asked), speech.seconds
            if text is None:
                with self._log_work("transcription"):
                    text, seconds = await self._requests.transcribe(speech.audio, speech.rate, speech.asked, tell)
            else:
                await tell(text)
            item.content[at].transcript = text
            item.measure()
            self._count_items()
            if speech.tells:
                usage = {"type": "duration", "seconds": round(seconds, 3)}
                await self._send(f"{_EVENT}.completed", **where, transcript=text, usage=usage)
            return
        except WebSocketDisconnect:
            return
        except OrchardError as failure:
            error = failure
        except Exception as bug:
            log.exception("a realtime transcription broke")
            error = OrchardError("internal", f"the server failed: {type(bug).__name__}")
        self._failures[item.id] = error
        if speech.tells:
            with suppress(WebSocketDisconnect):
                await self._send(f"{_EVENT}.failed", **where, error=openai_error_body(error)["error"])


async def _early_text(early: _EarlyTranscript | None, asked: Transcription) -> str | None:
    """Return the text of an early transcription; None if there is none, it failed, or something else is asked now."""
    if early and early.asked == asked:
        with suppress(OrchardError):
            return await early.task
    if early:
        early.task.cancel()
    return None
