"""OpenAI's Realtime API: sessions over a WebSocket."""

import asyncio
from functools import cache

from fastapi import APIRouter
from starlette.websockets import WebSocket

from orchard.gateway.routes.app_state import AppState


@cache
def _load_detector() -> None:
    """Import numpy, which takes a moment, and which no other request needs."""
    from orchard.gateway.realtime.silero.network import use_one_thread

    use_one_thread()


def add_realtime_routes(routes: APIRouter, site: AppState) -> None:
    """Add the routes."""

    @routes.websocket("/realtime")
    async def hold_session(socket: WebSocket) -> None:
        """Listen, think and speak: https://developers.openai.com/api/docs/guides/realtime-websocket."""
        await asyncio.to_thread(_load_detector)
        from orchard.gateway.realtime.socket import RealtimeSocket

        await RealtimeSocket(socket, site.voice_requests(socket.scope["state"]["caller"])).run()
