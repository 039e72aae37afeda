"""The ordinary requests of which a spoken conversation consists: to transcribe, to generate and to speak."""

import asyncio
import itertools
import os
import uuid
import wave
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from orchard.config import Settings, VoiceModels
from orchard.core.errors import OrchardError
from orchard.core.events import Event, Failed, Finished, Output, Usage
from orchard.core.request import Request, Task
from orchard.core.tasks.generate import Generate
from orchard.core.tasks.judge_turn import JudgeTurn, TurnJudgement
from orchard.core.tasks.speak import Sound, SoundFormat, Speak
from orchard.core.tasks.transcribe import Recording, Transcribe, decode_transcription
from orchard.core.voices import OPENAI_VOICES
from orchard.dialects.common.json_body import invalid_field
from orchard.dialects.openai.realtime.schema import Transcription
from orchard.gateway.caller import Caller, Callers
from orchard.gateway.media.resolver import MediaResolver, unresolved_media
from orchard.gateway.media.upload_folder import UploadFolder
from orchard.gateway.pool.pool import Pool
from orchard.gateway.voice.first_sound import FirstSound
from orchard.gateway.voices import VoiceStore

_WAIT_SECONDS = 60.0
_GONE = Failed("cancelled", "the client closed the connection, or cancelled the response")


class VoiceRequests:
    """Makes the requests of one realtime session for its caller, with the priority `interactive`.

    With `origin`, those for one request of a chat, with its priority, and with its id and a number as ids.
    """

    def __init__(
        self,
        pool: Pool,
        settings: Settings,
        media: MediaResolver,
        folder: UploadFolder,
        *,
        voices: VoiceStore,
        callers: Callers,
        caller: Caller,
        origin: Request | None = None,
    ) -> None:
        self._pool = pool
        self._media = media
        self._folder = folder
        self._voices = voices
        self._callers = callers
        self._caller = caller
        self._named = settings.realtime
        self._origin = origin
        self._numbers = itertools.count(1)
        self.models = self._models_of(origin.model) if origin else VoiceModels(chat="")

    def choose_models(self, name: str | None, *, chats: bool = True) -> str:
        """Choose the models that the configuration has under a name, or the chat model of this name; return the name.

        `chats` False: the session only transcribes, so that the name is that of a transcription model; if there are
        several, and no name, the client may still name one. Raise OrchardError if there is no such model.
        """
        if not chats and name not in self._named:
            self.models = VoiceModels(chat="", transcription=name)
            if name is None and sum(entry.serves(Transcribe) for entry in self._pool.registry.configured_models()) > 1:
                return ""
            return self.transcription_model(None)
        default = next(iter(self._named)) if len(self._named) == 1 else self._pool.only_model()
        if (chosen := name or default) is None:
            message = "is required: name a text model, or an entry of `realtime` in the configuration, as ?model=NAME"
            raise OrchardError("invalid_request", f"`model` {message}", param="model")
        self.models = self._models_of(chosen)
        self._pool.find(self.models.chat).entry.check_task(Generate)
        return chosen

    def _models_of(self, name: str) -> VoiceModels:
        """Return the models of the entry with a name, or with this chat model if there is only one such entry."""
        if found := self._named.get(name):
            return found
        entry = self._pool.find(name).entry if self._named else None
        own = [one for one in self._named.values() if entry and one.chat in (entry.id, *entry.aliases)]
        return replace(own[0], chat=name) if len(own) == 1 else VoiceModels(chat=name)

    @property
    def speaks(self) -> bool:
        """Whether there is a model that speaks."""
        return bool(self.models.speech or self._only_model(Speak))

    @property
    def transcribes(self) -> bool:
        """Whether there is a model that transcribes."""
        return bool(self.models.transcription or self._only_model(Transcribe))

    def speech_model(self, param: str = "output_modalities") -> str:
        """Return the model that speaks. Raise OrchardError, which blames the field `param`, if there is none."""
        return self._require(self.models.speech, Speak, "speech", param)

    def first_sound(self) -> FirstSound:
        """Return what counts the time from now to the first sound of an answer."""
        return FirstSound(self._pool.metrics.count_first_sound)

    async def check_voice(self, name: str | None, param: str) -> None:
        """Raise OrchardError, which blames the field `param`, if the files of the model that speaks lack a voice.

        The id of a voice that the caller has made is one.
        """
        known = self._pool.find(self.speech_model("modalities")).entry.voice_names
        if await self._voices.find_sample(self._caller, name):
            return
        if name and known and name.lower() not in {*map(str.lower, known), *OPENAI_VOICES}:
            listed = ", ".join(map(repr, known))
            raise invalid_field(param, f"must be one of this model's: {listed}, or one of OpenAI's names.")

    def transcription_model(self, name: str | None) -> str:
        """Return the model that transcribes: that of this name, else the session's. Raise OrchardError."""
        return self._require(
            name or self.models.transcription, Transcribe, "transcription", "audio.input.transcription"
        )

    def _require(self, name: str | None, task: type[Task], what: str, param: str) -> str:
        found = name or self._only_model(task)
        if found is None:
            message = f"no {what} model goes with this: name one in an entry of `realtime` in the configuration"
            raise OrchardError("invalid_request", message, param=param)
        self._pool.find(found).entry.check_task(task)
        return found

    def turn_detection_model(self) -> str:
        """Return the model that hears whether somebody has finished. Raise OrchardError if there is none."""
        found = self.models.turn_detection or self._only_model(JudgeTurn)
        if found is None:
            message = "must be 'server_vad', or `turn_detection` null: there is no model here that knows from what is "
            message += "said whether a turn has ended. `turn_detection` in an entry of `realtime` in the configuration "
            raise invalid_field("session.audio.input.turn_detection.type", message + "names one.")
        self._pool.find(found).entry.check_task(JudgeTurn)
        return found

    def _only_model(self, task: type[Task]) -> str | None:
        """Return the only model for a task; None if there are several or none."""
        name = self._pool.only_model(task)  # or the fallback, which may be for other tasks
        return name if name and self._pool.find(name).entry.serves(task) else None

    async def transcribe(
        self,
        audio: bytes,
        rate: int,
        asked: Transcription,
        tell: Callable[[str], Awaitable[None]] | None = None,
    ) -> tuple[str, float]:
        """Return the text of samples of 16 bits, and how many seconds they last; `tell` gets each piece of the text.

        Raise OrchardError.
        """
        name, task = self.transcription_model(asked.model), Transcribe("", asked.language, prompt=asked.prompt or "")
        return await self._transcribe(name, task, partial(_write_samples, audio=audio, rate=rate), tell)

    async def judge_turn(self, sound: bytes, rate: int) -> bool:
        """Return whether a turn is over, of which this is the end, in samples of 16 bits. Raise OrchardError."""
        is_over = False
        async with aclosing(self.stream(self.turn_detection_model(), JudgeTurn(sound, rate))) as events:
            async for event in events:
                if isinstance(event, Output):
                    is_over = event.read(TurnJudgement).is_over
        return is_over

    async def transcribe_file(self, data: bytes) -> str:
        """Return the text of a recording, of which these are the bytes of a file. Raise OrchardError."""
        text, _ = await self._transcribe(self.transcription_model(None), Transcribe(""), partial(_write, data=data))
        return text

    async def _transcribe(
        self,
        name: str,
        task: Transcribe,
        write: Callable[[Path], None],
        tell: Callable[[str], Awaitable[None]] | None = None,
    ) -> tuple[str, float]:
        """Do the task with a file that `write` fills."""
        number, path = self._folder.new_file()
        os.close(number)
        text, seconds = "", 0.0
        try:
            await asyncio.to_thread(write, path)
            async with aclosing(self.stream(name, replace(task, path=str(path)))) as events:
                async for event in events:
                    found = decode_transcription(event) if isinstance(event, Output) else None
                    if isinstance(found, Recording):
                        seconds = found.seconds
                    elif found:
                        piece = found.text if text else found.text.lstrip()
                        text += piece
                        if tell:
                            await tell(piece)
        finally:
            path.unlink(missing_ok=True)
        return text.strip(), seconds

    async def speak(
        self,
        text: str,
        voice: str | None,
        speed: float,
        count: Callable[[Usage], None],
        form: SoundFormat = "pcm",
    ) -> AsyncGenerator[bytes, None]:
        """Yield the sound of a part of an answer in pieces; `count` gets the usage. Raise OrchardError."""
        sample = await self._voices.find_sample(self._caller, voice)
        task = Speak(text, voice, None, speed, form, sample)
        async with aclosing(self.stream(self.speech_model(), task, goes_on=True)) as events:
            async for event in events:
                if isinstance(event, Output):
                    yield event.read(Sound).data
                elif isinstance(event, Finished):
                    count(event.usage)

    async def stream(self, model: str, task: Task, *, goes_on: bool = False) -> AsyncGenerator[Event, None]:
        """Yield the events of a request up to `Finished`; `goes_on` as in `Pool.stream`. Raise OrchardError."""
        if self._origin:
            request_id, priority = f"{self._origin.id}-voice{next(self._numbers)}", self._origin.priority
        else:
            request_id, priority = f"req_{uuid.uuid4().hex}", "interactive"
        self._callers.remember(request_id, self._caller)
        request = self._caller.sign(Request(request_id, model, task, priority, overflow="error"))
        if any(unresolved_media(request)):
            self._pool.find(request.model).entry.check_media(unresolved_media(request))
            request = (await self._media.resolve(request)).request
        stream = self._pool.stream(request, goes_on=goes_on)
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


def _write(path: Path, data: bytes) -> None:
    """Write into a file that is there; one that was deleted meanwhile is not made again."""
    with path.open("r+b") as file:
        file.write(data)


def _write_samples(path: Path, audio: bytes, rate: int) -> None:
    """Write samples of 16 bits into a file that is there, as `_write` does."""
    with path.open("r+b") as raw, wave.open(raw, "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        file.writeframes(audio)
