"""A dialect as a new one would be added: its body, its answer, its errors and its routes."""

import msgspec
from fastapi import APIRouter
from msgspec import Struct
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from orchard.core.errors import OrchardError
from orchard.core.events import Collected
from orchard.core.request import Request
from orchard.dialects.common.json_body import decode_body
from orchard.gateway.routes.app_state import AppState
from tests.support.toy_kind import ToyEmbed, ToyVector

_STATUSES = {"invalid_request": 400, "unauthorized": 401, "model_not_found": 404, "method_not_allowed": 405}


class Body(Struct):
    """A request of the toy dialect."""

    texts: tuple[str, ...]
    model: str | None = None


_decoder = msgspec.json.Decoder(Body)


def fail(error: OrchardError, request_id: str) -> tuple[int, dict[str, str], bytes]:
    """Tell of an error in the toy dialect's words."""
    told = {"oops": error.message, "kind": error.kind, "field": error.param}
    return _STATUSES.get(error.kind, 503), {"content-type": "application/json"}, msgspec.json.encode(told)


def add(routes: APIRouter, site: AppState) -> None:
    """Add the route."""

    @routes.post("/toy/{name:path}/vectors")
    async def vectors(http: HttpRequest, name: str) -> Response:
        body = decode_body(_decoder, await site.bodies.read(http))
        model = body.model or site.pool.only_model(ToyEmbed) or ""
        return await site.answer(http, Request(http.state.id, model, ToyEmbed(body.texts)), _complete)


def _complete(found: Collected) -> bytes:
    made = [output.read(ToyVector).values for output in sorted(found.outputs, key=lambda one: one.choice)]
    return msgspec.json.encode({"vectors": made, "tokens": found.usage.prompt_tokens})
