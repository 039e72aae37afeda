"""How fast an answer was, as LM Studio's API says it."""

import time

from msgspec import Struct

from orchard.core.events import Finished


class Speed(Struct, frozen=True):
    """Times in seconds. `first_token`: from the request to the first token; None: several prompts have none in common.

    `generation`: from there to the last token.
    """

    tokens_per_second: float
    first_token: float | None
    generation: float


def measure_speed(end: Finished, begun_at: float) -> Speed:
    """Return the speed of an answer that has just ended; `begun_at`: the monotonic clock's time of the request."""
    total = time.monotonic() - begun_at
    # Several prompts of one request run beside each other, so that they have no first token in common.
    is_one = bool(end.first_token_seconds)
    generation = end.later_seconds + end.first_token_seconds.get("decode", 0.0) if is_one else total
    rate = end.usage.completion_tokens / generation if generation > 0 else 0.0
    return Speed(rate, max(0.0, total - end.later_seconds) if is_one else None, generation)
