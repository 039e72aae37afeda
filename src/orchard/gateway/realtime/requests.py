"""The ordinary requests of which a session consists: to transcribe, to generate and to speak."""

import asyncio
import os
import uuid
import wave
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

from orchard.config import Settings, VoiceModels
from orchard.core.errors import OrchardError
from orchard.core.events import Event, Failed, Finished, Output, Usage
from orchard.core.request import Request, Task
from orchard.core.tasks.generate import Generate
from orchard.core.tasks.speak import Sound, Speak
from orchard.core.tasks.transcribe import Recording, Transcribe, decode_transcription
from orchard.dialects.openai.realtime.schema import Transcription
from orchard.gateway.caller import Caller, Callers
from orchard.gateway.media.resolver import MediaResolver, unresolved_media
from orchard.gateway.media.upload_folder import UploadFolder
from orchard.gateway.pool.pool import Pool

_WAIT_SECONDS = 60.0
_GONE = Failed("cancelled", "the client closed the connection, or cancelled the response")


class VoiceRequests:
    """Makes the requests of one session for its caller, with the priority `interactive`."""

    def __init__(
        self,
        pool: Pool,
        settings: Settings,
        media: MediaResolver,
        folder: UploadFolder,
        *,
        callers: Callers,
        caller: Caller,
    ) -> None:
        self._pool = pool
        self._media = media
        self._folder = folder
        self._callers = callers
        self._caller = caller
        self._named = settings.realtime
        self.models = VoiceModels(chat="")

    def choose_models(self, name: str | None, *, chats: bool = True) -> str:
        """Choose the models that the configuration has under a name, or the chat model of this name; return the name.

        `chats` False: the session only transcribes, so that the name is that of a transcription model. Raise
        OrchardError if there is no such model.
        """
        if not chats and name not in self._named:
            self.models = VoiceModels(chat="", transcription=name)
            return self.transcription_model(None)
        default = next(iter(self._named)) if len(self._named) == 1 else self._pool.only_model()
        if (chosen := name or default) is None:
            message = "is required: name a text model, or an entry of `realtime` in the configuration, as ?model=NAME"
            raise OrchardError("invalid_request", f"`model` {message}", param="model")
        self.models = self._named.get(chosen) or VoiceModels(chat=chosen)
        self._pool.find(self.models.chat).entry.check_task(Generate)
        return chosen

    @property
    def speaks(self) -> bool:
        """Whether a model is there that speaks."""
        return bool(self.models.speech or self._pool.only_model(Speak))

    def speech_model(self) -> str:
        """Return the model that speaks. Raise OrchardError if there is none."""
        return self._require(self.models.speech, Speak, "speech", "output_modalities")

    def transcription_model(self, name: str | None) -> str:
        """Return the model that transcribes: that of this name, else the session's. Raise OrchardError."""
        return self._require(
            name or self.models.transcription, Transcribe, "transcription", "audio.input.transcription"
        )

    def _require(self, name: str | None, task: type[Task], what: str, param: str) -> str:
        found = name or self._pool.only_model(task)
        if found is None:
            message = f"this session has no {what} model: name one in an entry of `realtime` in the configuration"
            raise OrchardError("invalid_request", message, param=param)
        self._pool.find(found).entry.check_task(task)
        return found

    async def transcribe(
        self,
        audio: bytes,
        rate: int,
        asked: Transcription,
        tell: Callable[[str], Awaitable[None]],
    ) -> tuple[str, float]:
        """Return the text of samples of 16 bits, and how many seconds they last; `tell` gets each piece of the text.

        Raise OrchardError.
        """
        name = self.transcription_model(asked.model)
        number, path = self._folder.new_file()
        os.close(number)
        text, seconds = "", 0.0
        try:
            await asyncio.to_thread(_write_recording, path, audio, rate)
            async with aclosing(
                self.stream(name, Transcribe(str(path), asked.language, prompt=asked.prompt or ""))
            ) as events:
                async for event in events:
                    found = decode_transcription(event) if isinstance(event, Output) else None
                    if isinstance(found, Recording):
                        seconds = found.seconds
                    elif found:
                        piece = found.text if text else found.text.lstrip()
                        text += piece
                        await tell(piece)
        finally:
            path.unlink(missing_ok=True)
        return text.strip(), seconds

    async def speak(
        self, text: str, voice: str | None, speed: float, count: Callable[[Usage], None]
    ) -> AsyncGenerator[bytes, None]:
        """Yield the sound of a text, in pieces of samples of 16 bits; `count` gets the usage. Raise OrchardError."""
        async with aclosing(self.stream(self.speech_model(), Speak(text, voice, None, speed, "pcm"))) as events:
            async for event in events:
                if isinstance(event, Output):
                    yield event.read(Sound).data
                elif isinstance(event, Finished):
                    count(event.usage)

    async def stream(self, model: str, task: Task) -> AsyncGenerator[Event, None]:
        """Yield the events of a request up to `Finished`. Raise OrchardError if it fails."""
        request_id = f"req_{uuid.uuid4().hex}"
        self._callers.remember(request_id, self._caller)
        request = self._caller.sign(Request(request_id, model, task, "interactive", overflow="error"))
        if any(unresolved_media(request)):
            self._pool.find(request.model).entry.check_media(unresolved_media(request))
            request = (await self._media.resolve(request)).request
        stream = self._pool.stream(request)
        try:
            while True:
                for event in await stream.next(_WAIT_SECONDS):
                    if isinstance(event, Failed):
                        raise event.error()
                    yield event
                    if isinstance(event, Finished):
                        return
        finally:
            stream.close(_GONE)


def _write_recording(path: Path, audio: bytes, rate: int) -> None:
    """Write samples of 16 bits into a file that is there; one that was deleted meanwhile is not made again."""
    with path.open("r+b") as raw, wave.open(raw, "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        file.writeframes(audio)
