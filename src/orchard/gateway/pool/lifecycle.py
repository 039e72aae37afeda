"""The states of a served model and their transitions. The diagram in docs/architecture.md is made from this table."""

from enum import Enum

from orchard.gateway.model_status import ShownState


class ModelState(Enum):
    """What a served model does: its name in the diagram, and its name in /health, /v1/models and the metrics."""

    UNLOADED = "unloaded", "unloaded"
    FAILED = "failed", "failed"
    """It rejects requests until its pause is over. Then the next request loads it again."""
    DOWNLOADING = "downloading", "queued"
    RESTARTING = "restarting", "queued"
    """Its process has died. It waits before it queues again."""
    QUEUED = "queued", "queued"
    """It waits for memory or a process."""
    STARTING = "starting", "loading"
    """It has a process, which still imports its libraries."""
    LOADING = "loading", "loading"
    READY = "ready", "ready"
    HELD = "held", "ready"
    """Another model needs its memory: it finishes its requests, and new ones wait."""
    LEAVING = "leaving", "ready"
    """A client has asked to unload it: it finishes its requests. A new one keeps it in memory."""
    UNLOADING = "unloading", "unloading"
    """Its process frees it, and may then load another model."""
    ENDING = "ending", "unloading"
    """Its process ends or has died; its memory is not free yet."""

    def __init__(self, label: str, shown: ShownState) -> None:
        self.label = label
        self.shown = shown


_S = ModelState
# For each state, the states that may follow, and when.
TRANSITIONS: dict[ModelState, dict[ModelState, str]] = {
    _S.UNLOADED: {_S.QUEUED: "wanted", _S.DOWNLOADING: "wanted, not on disk"},
    _S.FAILED: {_S.QUEUED: "tried again", _S.DOWNLOADING: "tried again, not on disk"},
    _S.DOWNLOADING: {
        _S.QUEUED: "downloaded",
        _S.UNLOADED: "download failed or cancelled",
        _S.FAILED: "download failed or cancelled",
    },
    _S.RESTARTING: {
        _S.QUEUED: "pause over",
        _S.DOWNLOADING: "pause over, not on disk",
        _S.UNLOADED: "unload asked",
    },
    _S.QUEUED: {
        _S.STARTING: "memory found",
        _S.DOWNLOADING: "not on disk",
        _S.UNLOADED: "refused or no longer wanted",
        _S.FAILED: "refused or no longer wanted",
    },
    _S.STARTING: {
        _S.LOADING: "process idle",
        _S.UNLOADED: "too large",
        _S.FAILED: "too large",
        _S.ENDING: "unload asked or crash",
    },
    _S.LOADING: {_S.READY: "loaded", _S.ENDING: "load failed, unload asked or crash"},
    _S.READY: {
        _S.HELD: "another model needs its memory",
        _S.LEAVING: "unload asked",
        _S.UNLOADING: "evicted or idle too long",
        _S.ENDING: "idle too long or crash",
    },
    _S.HELD: {
        _S.READY: "memory no longer needed",
        _S.LEAVING: "unload asked",
        _S.UNLOADING: "evicted",
        _S.ENDING: "crash",
    },
    _S.LEAVING: {_S.HELD: "wanted again", _S.ENDING: "requests finished or crash"},
    _S.UNLOADING: {_S.UNLOADED: "freed", _S.QUEUED: "freed, wanted again", _S.ENDING: "crash"},
    _S.ENDING: {
        _S.UNLOADED: "gone",
        _S.FAILED: "gone, too many failures",
        _S.RESTARTING: "gone by a crash",
        _S.QUEUED: "gone, wanted again",
    },
}


def step(old: ModelState, new: ModelState) -> ModelState:
    """Return `new`. Raise RuntimeError if it may not follow `old`."""
    if new not in TRANSITIONS[old]:
        raise RuntimeError(f"a model can't go from {old.label} to {new.label}")
    return new
