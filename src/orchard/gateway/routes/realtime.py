"""OpenAI's Realtime API, which is not served yet: the WebSocket says so."""

import json

from fastapi import APIRouter
from starlette.websockets import WebSocket

from orchard.core.errors import OrchardError
from orchard.dialects.openai.errors import openai_error_body
from orchard.gateway.http.not_found import advise_on_path
from orchard.gateway.routes.app_state import AppState

_PROTOCOL = "realtime"
_REFUSED = 1008  # a policy violation (RFC 6455, 7.4.1)


def add_realtime_routes(routes: APIRouter, _: AppState) -> None:
    """Add the routes."""

    @routes.websocket("/realtime")
    async def refuse(socket: WebSocket) -> None:
        """Accept the socket, because clients don't show why a handshake is rejected, and close it with the reason."""
        reason = advise_on_path(socket.url.path, ())
        event = {"type": "error", "event_id": f"event_{socket.state.id}"}
        event |= openai_error_body(OrchardError("not_found", f"{reason}."))
        await socket.accept(_PROTOCOL if _PROTOCOL in socket.scope["subprotocols"] else None)
        await socket.send_text(json.dumps(event))
        await socket.close(_REFUSED, reason)
