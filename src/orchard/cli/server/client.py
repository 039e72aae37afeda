"""The part of a server's API that these commands use."""

from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import msgspec
from msgspec import Struct, field

from orchard.cli.endpoint import CONNECT_SECONDS, ServerError, http_options, refusal_text, root_url
from orchard.cli.serve import local_url

S = TypeVar("S", bound=Struct)


class Quantiles(Struct):
    """The median of some values."""

    median: float | None


class MemorySizes(Struct):
    """Bytes of memory: what the models hold, and the most that all of them may."""

    mlx_bytes: int | None
    weights_bytes: int | None
    limit_bytes: int | None = None


class RankStats(Struct):
    """Another rank of a split model, in the body of /v1/stats."""

    rank: int
    host: str
    percent: int
    mlx_bytes: int
    free_bytes: int


class ModelStats(Struct):
    """A model in the body of /v1/stats."""

    state: str
    note: str | None
    processor: str | None
    unload_at: int | None
    context_window: int | None
    running: int
    waiting: int
    tokens_per_second: float
    cached_share: float | None
    first_token_ms: Quantiles
    memory: MemorySizes
    ranks: list[RankStats] = field(default_factory=list)


class ServerStats(Struct):
    """The body of /v1/stats."""

    version: str
    uptime_seconds: float
    tokens_per_second: float
    running: int
    waiting: int
    memory: MemorySizes
    models: dict[str, ModelStats]


class ListedRequest(Struct):
    """A request in the body of /v1/requests."""

    model: str
    dialect: str
    state: str
    created_at: int
    prompt_tokens: int | None
    read_tokens: int | None
    cached_tokens: int | None
    generated_tokens: int
    tokens_per_second: float | None


class RequestList(Struct):
    """The body of /v1/requests."""

    data: list[ListedRequest]


class LogRecord(Struct):
    """A line in the body of /v1/logs."""

    id: int
    time: float
    level: str
    logger: str
    text: str


class LogPage(Struct):
    """The body of /v1/logs."""

    data: list[LogRecord]
    has_more: bool


class LoadAnswer(Struct):
    """The answer to a load."""

    model: str


class UnloadedModels(Struct):
    """The ids of the models that were unloaded."""

    models: list[str] = field(default_factory=list)


class UnloadAnswer(Struct):
    """The answer to an unload."""

    unloaded: UnloadedModels = field(default_factory=UnloadedModels)


class ServerClient:
    """One Orchard server. Every failure is a ServerError with one sentence."""

    def __init__(self, url: str | None, api_key: str | None) -> None:
        """`url` None: the server on this machine, at the address that the environment names, else the default one.

        Raise ServerError if it is no URL.
        """
        self.url = root_url(url or local_url())
        try:
            self._http = httpx.Client(**http_options(self.url, api_key))
        except httpx.InvalidURL as error:
            raise ServerError(f"{self.url} is no address ({error})") from error

    def __enter__(self) -> "ServerClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def stats(self) -> ServerStats:
        """Return the server's statistics."""
        return self._ask("GET", "/v1/stats", ServerStats, timeout=CONNECT_SECONDS)

    def requests(self) -> list[ListedRequest]:
        """Return the requests that have not ended."""
        return self._ask("GET", "/v1/requests", RequestList, timeout=CONNECT_SECONDS).data

    def logs(self, level: str, limit: int, after: int | None = None) -> LogPage:
        """Return the last lines of the log, or those after the one with id `after`."""
        params = {"level": level, "limit": limit} | ({} if after is None else {"after": after})
        return self._ask("GET", "/v1/logs", LogPage, params=params, timeout=CONNECT_SECONDS)

    def load(self, model: str) -> str:
        """Load a model, wait until it is ready, and return its id."""
        return self._ask("POST", f"/v1/models/{quote(model)}/load", LoadAnswer).model

    def unload(self, model: str) -> list[str]:
        """Unload a model, wait until its memory is free, and return the ids of what was unloaded."""
        return self._ask("POST", f"/v1/models/{quote(model)}/unload", UnloadAnswer).unloaded.models

    def _ask(self, method: str, path: str, body: type[S], **options: Any) -> S:
        """Return the body of a response."""
        try:
            response = self._http.request(method, path, **options)
            if response.is_error:
                raise ServerError(refusal_text(response))
            return msgspec.json.decode(response.content, type=body)
        except httpx.ConnectError as error:
            message = f"no server answers at {self.url}: 'orchard serve' starts one, and --url names another"
            raise ServerError(message) from error
        except httpx.HTTPError as error:
            raise ServerError(f"the connection to {self.url} failed ({error or type(error).__name__})") from error
        except msgspec.DecodeError as error:
            raise ServerError(f"the server at {self.url} is of another version of Orchard ({error})") from error
