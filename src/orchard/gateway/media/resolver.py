"""Replace the URLs of a request's media by bytes, before a worker gets the request."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from orchard.config import Settings
from orchard.core.errors import OrchardError
from orchard.core.media import MediaPart, is_data_url
from orchard.core.request import Request
from orchard.core.tasks.generate import Generate, Message, TextPart
from orchard.core.tasks.media import replace_request_media, request_media
from orchard.dialects.common.json_body import invalid_field
from orchard.dialects.common.media import NOT_A_URL, MediaReference, media_kind
from orchard.gateway.http.budget import Budget, Share
from orchard.gateway.media import data_urls, local_files
from orchard.gateway.media.documents import document_as_text
from orchard.gateway.media.errors import MAX_REQUEST_BYTES, media_too_large
from orchard.gateway.media.fetch import Fetcher

MAX_URLS = 256
"""The most different http, https and file URLs of the media of a request."""
_AT_ONCE = 8  # of one request
_SMALL_CHARS = 64 * 1024  # decoding this many is quicker than using a thread


class ResolvedRequest(Struct, frozen=True):
    """A request whose media have their bytes. `fetched` are the media from http, https and file URLs, by URL."""

    request: Request
    fetched: Mapping[str, MediaPart] = {}


class MediaResolver:
    """Resolves the media of one server's requests.

    Bytes that arrive from the network or from files count in `budget` until all are there, like request bodies.
    """

    def __init__(self, settings: Settings, budget: Budget, fetcher: Fetcher | None = None) -> None:
        self._settings = settings
        self._budget = budget
        self._fetcher = fetcher or Fetcher(settings.allow_private_media)

    async def resolve(self, request: Request, kept: Mapping[str, bytes] = MappingProxyType({})) -> ResolvedRequest:
        """Return a request whose media have their bytes in `data`, with documents of plain text replaced by texts.

        `kept` are the media of stored items by digest (`MediaReference`). Cancelling ends all fetches. Raise
        OrchardError, whose `param` names the medium to blame: invalid_request, payload_too_large, overloaded if too
        many bytes are arriving already.
        """
        parts = list(unresolved_media(request))
        if not parts:
            return ResolvedRequest(request)
        arrival = _Arrival(self._settings, self._fetcher, Share(self._budget), kept)
        try:
            async with asyncio.TaskGroup() as tasks:
                found = [tasks.create_task(task) for task in map(arrival.resolve_part, parts)]
        except ExceptionGroup as group:
            # The task group has cancelled the others.
            raise next((one for one in group.exceptions if isinstance(one, OrchardError)), group) from None
        finally:
            arrival.share.take(0)
        results = iter([task.result() for task in found])
        media = (next(results) if part.url else part for part in request_media(request))
        return ResolvedRequest(replace_request_media(request, media), arrival.media_by_url())

    async def fetch(self, media: Sequence[MediaPart]) -> Mapping[str, MediaPart]:
        """Return the media from http, https and file URLs, by URL. Raise as `resolve` does."""
        request = Request("", "", Generate((Message("user", tuple(media)),)))
        return (await self.resolve(request)).fetched

    def close(self) -> None:
        """Cancel pending work."""
        self._fetcher.close()


class _Arrival:
    """Gets the media of one request, each URL only once."""

    def __init__(self, settings: Settings, fetcher: Fetcher, share: Share, kept: Mapping[str, bytes]) -> None:
        self.share = share
        self._settings = settings
        self._fetcher = fetcher
        self._kept = kept
        self._deadline = asyncio.get_running_loop().time() + settings.body_timeout
        self._few = asyncio.Semaphore(_AT_ONCE)
        self._found: dict[tuple[str, str], asyncio.Future[MediaPart]] = {}
        self._bytes = self._arrived = 0

    async def resolve_part(self, part: MediaPart) -> MediaPart | TextPart:
        """Return a part with its bytes, or the text of a document. Raise OrchardError."""
        if kept := MediaReference.parse(part.url):
            found = self._take_stored(part, kept)
        elif is_data_url(part.url):
            small = len(part.url) <= _SMALL_CHARS
            found = (
                data_urls.decode_data_url(part) if small else await asyncio.to_thread(data_urls.decode_data_url, part)
            )
            self._count_bytes(part, len(found.data))
        else:
            found = await self._load_once(part)
        if found.kind != "document":
            return found
        return (
            document_as_text(found)
            if len(found.data) <= _SMALL_CHARS
            else await asyncio.to_thread(document_as_text, found)
        )

    def media_by_url(self) -> dict[str, MediaPart]:
        """Return the medium from each URL, once all have arrived."""
        return {url: found.result() for (_, url), found in self._found.items()}

    def _take_stored(self, part: MediaPart, kept: MediaReference) -> MediaPart:
        data = self._kept.get(kept.digest)
        if data is None:
            raise invalid_field(part.param, NOT_A_URL)
        self._count_bytes(part, len(data))
        media_type = kept.media_type or part.media_type
        kind = media_kind(media_type, part.name) if part.kind == "document" else part.kind
        return replace(part, kind=kind, url="", data=data, media_type=media_type)

    async def _load_once(self, part: MediaPart) -> MediaPart:
        key = part.kind, part.url
        if (known := self._found.get(key)) is None:
            if len(self._found) >= MAX_URLS:
                raise invalid_field(part.param, f"is one URL too many: a request may have {MAX_URLS}.")
            known = self._found[key] = asyncio.ensure_future(self._load_url(part))
        found = await known
        return replace(part, kind=found.kind, url="", data=found.data, media_type=found.media_type)

    async def _load_url(self, part: MediaPart) -> MediaPart:
        async with self._few:
            if part.url[:5].lower() == "file:":
                file, size = await asyncio.to_thread(
                    local_files.open_local_file, part, self._settings.allowed_local_media
                )
                with file:
                    self._hold_bytes(part, size)
                    return await asyncio.to_thread(local_files.read_local_file, part, file, size)
            try:
                async with asyncio.timeout_at(self._deadline):
                    return await self._fetcher.fetch(part, lambda size: self._hold_bytes(part, size))
            except TimeoutError:
                seconds = f"{self._settings.body_timeout:g} seconds"
                raise invalid_field(part.param, f"can't be fetched: it did not arrive within {seconds}.") from None

    def _hold_bytes(self, part: MediaPart, size: int) -> None:
        self._arrived += size
        self._count_bytes(part, size)
        self.share.take(self._arrived, part.param)

    def _count_bytes(self, part: MediaPart, size: int) -> None:
        self._bytes += size
        if self._bytes > MAX_REQUEST_BYTES:
            raise media_too_large(part)


def unresolved_media(request: Request) -> Iterator[MediaPart]:
    """Yield the media of a request that still need their bytes, in order."""
    yield from (part for part in request_media(request) if part.url)
