"""The state that all routes share."""

from collections.abc import Callable, Sequence
from weakref import WeakSet

from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from orchard.config import SettingReport, Settings
from orchard.core.events import Collected
from orchard.core.request import Request
from orchard.gateway.caller import Caller, Callers
from orchard.gateway.http.body import BodyReader
from orchard.gateway.http.budget import Budget
from orchard.gateway.kept_images import KeptImages
from orchard.gateway.media.fetch import Fetcher
from orchard.gateway.media.resolver import MediaResolver, unresolved_media
from orchard.gateway.media.upload_folder import UploadFolder
from orchard.gateway.media.uploads import UploadReader
from orchard.gateway.models.entry import ModelEntry
from orchard.gateway.pool.pool import Pool
from orchard.gateway.pool.served_model import ServedModel
from orchard.gateway.replies.event_response import Encoder, EventResponse
from orchard.gateway.replies.event_stream import EventStream
from orchard.gateway.replies.file_response import FileResponse, WritesFile
from orchard.gateway.replies.warnings import transcription_warning, warn
from orchard.gateway.responses.service import Responses
from orchard.gateway.routes.disconnect import cancel_on_disconnect
from orchard.gateway.summarize.overflow import Overflow
from orchard.gateway.voice.hearing import Hearing
from orchard.gateway.voice.kept_texts import KeptTexts
from orchard.gateway.voice.requests import VoiceRequests
from orchard.gateway.voices import VoiceStore


class AppState:
    """A server's pool, settings and callers, and its readers of bodies, forms and media."""

    def __init__(
        self,
        pool: Pool,
        settings: Settings,
        callers: Callers,
        fetcher: Fetcher | None = None,
        reports: Sequence[SettingReport] = (),
    ) -> None:
        self.pool = pool
        self.settings = settings
        self.reports = reports
        self.callers = callers
        arriving = Budget(settings.max_body_bytes_in_flight, "request bodies and of their media")
        self.bodies = BodyReader(settings, arriving)
        self.upload_folder = UploadFolder()
        self.uploads = UploadReader(settings, self.upload_folder, arriving)
        self.kept_images = KeptImages()
        self.voices = VoiceStore(settings.voices_dir)
        self.media = MediaResolver(settings, arriving, fetcher)
        self.overflow = Overflow(pool, settings)
        self.kept_texts = KeptTexts()
        self.hearing = Hearing(pool, self.media, self.kept_texts, self.voice_requests)
        self.responses = Responses(pool, settings, self.overflow, self.hearing)
        self.embeds_tokens: WeakSet[ServedModel] = WeakSet()
        """The models for which the log says that token ids came in place of texts to embed."""

    def adapter_of(self, entry: ModelEntry) -> str | None:
        """Return the path of a model's adapter, as mlx_vlm.server does; only its name if the server needs keys."""
        return entry.adapter if self.settings.asks_for_keys else entry.text.adapter_path

    def voice_requests(self, caller: Caller, origin: Request | None = None) -> VoiceRequests:
        """Return what makes requests for a caller's realtime session or, with `origin`, for a request of a chat."""
        parts = self.pool, self.settings, self.media, self.upload_folder
        return VoiceRequests(*parts, voices=self.voices, callers=self.callers, caller=caller, origin=origin)

    async def open(self, http: HttpRequest, request: Request) -> EventStream:
        """Begin a request once its media have arrived, and return its stream, which the caller closes.

        The body of the HTTP request must have been read. Raise OrchardError.
        """
        request = http.state.caller.sign(request)
        if any(unresolved_media(request)):
            heard = await cancel_on_disconnect(http, self.hearing.resolve(request, http.state.caller))
            request = heard.request
            if heard.transcriber:
                warn(http.scope, transcription_warning(request.model, heard.transcriber))
        return self.overflow.wrap(request, self.pool.stream(request))

    async def answer(
        self,
        http: HttpRequest,
        request: Request,
        answer: Encoder | Callable[[Collected], bytes],
        media_type: str = "application/json",
    ) -> Response:
        """Begin a request, and return the response: an encoder's stream or file, or a whole body of `media_type`.

        Raise OrchardError.
        """
        stream, interval = await self.open(http, request), self.settings.keep_alive_interval
        if isinstance(answer, WritesFile):
            return FileResponse(stream, answer, interval)
        return EventResponse(stream, answer, interval, media_type)
