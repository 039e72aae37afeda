"""What every route needs."""

from collections.abc import Callable

from starlette.responses import Response

from orchard.config import Settings
from orchard.core.events import Collected
from orchard.core.request import Request
from orchard.gateway.caller import Callers
from orchard.gateway.http.body import BodyReader
from orchard.gateway.pool.pool import Pool
from orchard.gateway.replies.event_response import Encoder, EventResponse
from orchard.gateway.responses.service import Responses
from orchard.gateway.summarize.overflow import Overflow


class AppState:
    """One server's pool and settings, its callers, the reader of their requests' bodies, and its responses."""

    def __init__(self, pool: Pool, settings: Settings, callers: Callers) -> None:
        self.pool = pool
        self.settings = settings
        self.callers = callers
        self.bodies = BodyReader(settings)
        self.overflow = Overflow(pool, settings)
        self.responses = Responses(pool, settings, self.overflow)

    def answer(self, request: Request, answer: Encoder | Callable[[Collected], bytes]) -> Response:
        """Begin a request, and answer with an encoder's stream or with a whole body. Raises OrchardError."""
        return EventResponse(self.overflow.open(request), answer, self.settings.keep_alive_interval)
