"""Audio for models that can't hear: a transcription model writes down what is said, and the model reads that."""

import hashlib
from collections.abc import Callable, Mapping
from types import MappingProxyType

from msgspec import Struct

from orchard.core.errors import OrchardError
from orchard.core.media import MediaPart
from orchard.core.request import Request
from orchard.core.tasks.generate import Count, Generate, TextPart
from orchard.core.tasks.media import replace_request_media, request_media
from orchard.gateway.caller import Caller
from orchard.gateway.media.resolver import MediaResolver, ResolvedRequest, unresolved_media
from orchard.gateway.pool.pool import Pool
from orchard.gateway.pool.served_model import ServedModel
from orchard.gateway.voice.kept_texts import KeptTexts
from orchard.gateway.voice.requests import VoiceRequests


class HeardRequest(Struct, frozen=True):
    """A request whose media have their bytes, and `fetched` as in `ResolvedRequest`.

    `transcriber`: the model that has transcribed its audio; empty: there is none, or its model hears it.
    """

    request: Request
    fetched: Mapping[str, MediaPart] = {}
    transcriber: str = ""


class Hearing:
    """Gets the media of one server's requests, and replaces audio by its transcript where a model can't hear."""

    def __init__(
        self,
        pool: Pool,
        media: MediaResolver,
        texts: KeptTexts,
        make_requests: Callable[[Caller, Request], VoiceRequests],
    ) -> None:
        """`make_requests` returns what makes requests on behalf of a caller's request."""
        self._pool = pool
        self._media = media
        self._texts = texts
        self._make_requests = make_requests

    async def resolve(
        self, request: Request, caller: Caller, kept: Mapping[str, bytes] = MappingProxyType({})
    ) -> HeardRequest:
        """Return a request with its media; `kept` as for `MediaResolver.resolve`. Check the kinds of media first.

        Cancelling ends all fetches and transcriptions. Raise OrchardError, whose `param` names the medium to blame.
        """
        model = self._pool.find(request.model, request.adapter)
        if not any(unresolved_media(request)):
            return HeardRequest(request)
        model.entry.check_task(type(request.task))
        voice = self._make_requests(caller, request)
        is_deaf = isinstance(request.task, Generate | Count) and _is_deaf(model) and voice.transcribes
        given = unresolved_media(request)
        model.entry.check_media(part for part in given if not (is_deaf and part.kind == "audio"))
        resolved = await self._media.resolve(request, kept)
        if not is_deaf or all(part.kind != "audio" for part in request_media(resolved.request)):
            return HeardRequest(resolved.request, resolved.fetched)
        return await self._transcribe(resolved, caller, voice)

    async def _transcribe(self, resolved: ResolvedRequest, caller: Caller, voice: VoiceRequests) -> HeardRequest:
        """Replace the audio of a request, one recording after the other: several would take turns of others."""
        name, found = voice.transcription_model(None), list[MediaPart | TextPart]()
        for part in request_media(resolved.request):
            if part.kind != "audio":
                found.append(part)
                continue
            # Every turn of a conversation repeats the recordings of those before.
            key = f"{name}\0{hashlib.sha256(part.data).hexdigest()}"
            text = self._texts.find(caller, key)
            if text is None:
                try:
                    text = await voice.transcribe_file(part.data)
                except OrchardError as error:
                    raise _blame(error, part) from error
                self._texts.keep(caller, key, text)
            found.append(TextPart(text))
        return HeardRequest(replace_request_media(resolved.request, iter(found)), resolved.fetched, name)


def _is_deaf(model: ServedModel) -> bool:
    """Return whether a model can't hear, as far as its files or, once it is loaded, its processor say."""
    if model.entry.kind == "text":
        return bool(model.entry.path)
    media = model.status.details.get("media")
    return isinstance(media, list) and "audio" not in media


def _blame(error: OrchardError, part: MediaPart) -> OrchardError:
    """Return an error of a transcription as one of the part that has the recording."""
    param = part.param if error.kind == "invalid_request" else None
    return OrchardError(error.kind, error.message, param=param, retry_after=error.retry_after)
