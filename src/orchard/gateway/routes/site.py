"""What every route needs."""

from collections.abc import Callable

from starlette.responses import Response

from orchard.config import Settings
from orchard.core.events import Collected
from orchard.core.request import Request
from orchard.gateway.answer import Encoder, EventResponse
from orchard.gateway.body import BodyReader
from orchard.gateway.pool import Pool


class Site:
    """One server's pool and settings, and the reader of its requests' bodies."""

    def __init__(self, pool: Pool, settings: Settings) -> None:
        self.pool = pool
        self.settings = settings
        self.bodies = BodyReader(settings)

    def answer(self, request: Request, answer: Encoder | Callable[[Collected], bytes]) -> Response:
        """Begin a request, and answer with an encoder's stream or with a whole body. Raises OrchardError."""
        return EventResponse(self.pool, self.pool.open(request), answer, self.settings.keep_alive_interval)
