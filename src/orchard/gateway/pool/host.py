"""The pool as its models see it."""

from typing import TYPE_CHECKING, Protocol

from orchard.gateway.metrics.counters import Metrics
from orchard.gateway.models.registry import Registry
from orchard.gateway.pool.budget import MemoryBudget
from orchard.gateway.pool.processes import Processes

if TYPE_CHECKING:
    from orchard.gateway.pool.served_model import ServedModel


class Host(Protocol):
    """What a model needs of the pool: its processes and counters, and its plans."""

    processes: Processes
    memory: MemoryBudget
    metrics: Metrics
    registry: Registry

    def plan_for(self, model: "ServedModel") -> None:
        """Plan soon, because this model waits or no longer waits, or memory may have become free."""

    def is_next(self, request_id: str) -> bool:
        """Whether a starved request gets its memory next. Requests that can't run even alone are to end first."""

    def plan_after_release(self) -> None:
        """Plan soon if a model or a starved request waits, because another request has ended."""
