"""The status of a model, as /health and the metrics show it."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from orchard.core.device_memory import RankReport
from orchard.core.speculation_report import SpeculationReport

ShownState = Literal["unloaded", "queued", "loading", "ready", "unloading", "failed"]


MEMORY_KINDS = ("mlx", "rss", "weights", "rows", "prompts", "cache", "peak")
"""What a worker's memory is for: the fields of `ModelStatus` without `_bytes`."""


class ModelStatus(Struct, frozen=True, kw_only=True):
    """The status of one model.

    `reason`: why it failed last, or why it gets less memory than its share. `note`: in a few words, what it waits for
    (also a load or a download), or how much of its requests is done. `progress`, from 0 to 1: how much of it is loaded,
    or how much of its requests is done; None: it isn't loading, and its requests report no progress. Sizes are in
    bytes; None if there is no process, or it has not reported them: what MLX holds (`mlx_bytes`), the process's
    resident memory (`rss_bytes`), weights, KV caches of rows, cached prompts, MLX's own buffer cache, and the most that
    MLX's arrays have taken. `speculation`: the totals of its guesses since the load. `ranks`: what is known of its
    other ranks. `restarts`: how often its process died. `processor`: what it computes with, "gpu" or "cpu". `pinned`:
    it is never unloaded to make room for another. `unload_at`: when its time to live ends, in seconds since the epoch;
    None: it doesn't run. `context_window`: in tokens; None: unknown. `details`: facts from the service of a ready
    model.
    """

    state: ShownState
    reason: str | None = None
    note: str = ""
    progress: float | None = None
    running: int = 0
    waiting: int = 0
    mlx_bytes: int | None = None
    rss_bytes: int | None = None
    weights_bytes: int | None = None
    rows_bytes: int | None = None
    prompts_bytes: int | None = None
    cache_bytes: int | None = None
    peak_bytes: int | None = None
    speculation: SpeculationReport = {}
    ranks: Sequence[RankReport] = ()
    pid: int | None = None
    processor: str | None = None
    restarts: int = 0
    pinned: bool = False
    unload_at: int | None = None
    context_window: int | None = None
    details: Mapping[str, str | bool | list[str]] = {}

    def memory_sizes(self) -> dict[str, int]:
        """Return the sizes that are known, in bytes, by their kinds."""
        sizes = {kind: getattr(self, f"{kind}_bytes") for kind in MEMORY_KINDS}
        return {kind: size for kind, size in sizes.items() if size is not None}

    def rank_rows(self) -> list[dict[str, Any]]:
        """Return what /health and /v1/stats show of the other ranks: progress in percent, memory in bytes."""
        return [
            {
                "rank": one.rank,
                "host": one.host,
                "percent": round(100 * one.loaded),
                "mlx_bytes": one.mlx_bytes,
                "free_bytes": one.free_bytes,
            }
            for one in self.ranks
        ]

    def usable_capabilities(self, capabilities: Sequence[str]) -> list[str]:
        """Return the capabilities without vision if the loaded model takes no media."""
        return [one for one in capabilities if one != "vision" or self.details.get("media") != []]

    def health_report(self) -> dict[str, Any]:
        """Return what GET /health shows of the model."""
        return {
            "state": self.state,
            "percent": None if self.progress is None else round(100 * self.progress),
            "reason": self.reason,
            "pid": self.pid,
            "processor": self.processor,
            "running": self.running,
            "waiting": self.waiting,
            "restarts": self.restarts,
            "pinned": self.pinned,
            "unload_at": self.unload_at,
            "warming_up": False,
            "batching": None,
            "media": None,
            "memory": self.memory_sizes(),
            "ranks": self.rank_rows(),
            **self.details,
        }
