"""Routes for one task each, of which a body is one request and an answer one whole body."""

from collections.abc import Callable
from typing import Any, Protocol

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from orchard.core.events import Collected
from orchard.core.request import Request, Task
from orchard.dialects.common.fields import PRIORITY_HEADER, BodyType
from orchard.gateway.routes.app_state import AppState
from orchard.gateway.routes.openapi import route_options


class TaskCall(Protocol):
    """A dialect's reading of a body."""

    @property
    def request(self) -> Request:
        """The request for the model."""

    def complete(self, result: Collected, /) -> bytes:
        """Return the body of the answer."""


class TaskParser(Protocol):
    """Reads a body: `priority` is from its header, `default` is the model if the body names none."""

    def __call__(self, body: bytes, request_id: str, priority: str | None, /, *, default: str | None) -> TaskCall:
        """Return the call. Raise OrchardError."""


def task_route(
    path: str, about: str, task: type[Task], body: BodyType[Any], parse: TaskParser
) -> Callable[[APIRouter, AppState], None]:
    """Return the function that adds a route; `about` describes it."""

    def add_task_route(routes: APIRouter, site: AppState) -> None:
        @routes.post(path, name=path.strip("/"), description=about, **route_options(body.schema()))
        async def answer(http: HttpRequest) -> Response:
            read, header = await site.bodies.read(http), http.headers.get(PRIORITY_HEADER)
            call = parse(read, http.state.id, header, default=site.pool.only_model(task))
            return await site.answer(http, call.request, call.complete)

    return add_task_route
