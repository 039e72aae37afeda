"""What is known of the memory, as /health, /v1/stats and the metrics show it."""

from typing import Any

from msgspec import Struct
from msgspec.structs import asdict


class MemoryStatus(Struct, frozen=True, kw_only=True):
    """Sizes in bytes; `limit_bytes` and `budget_bytes` are None until a worker has said what the device offers.

    `total_bytes` and `available_bytes`: of the device that models run on, for all programs. `others_bytes`: what other
    programs use of it. `limit_bytes`: the most that all models together may ever take. `budget_bytes`: the most that
    they may take now; `reason`: why it isn't more.
    """

    total_bytes: int
    available_bytes: int
    others_bytes: int
    limit_bytes: int | None = None
    budget_bytes: int | None = None
    reason: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)
