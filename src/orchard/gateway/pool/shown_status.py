"""What clients are shown of a served model."""

import time
from typing import TYPE_CHECKING

from orchard.gateway.model_status import ModelStatus
from orchard.gateway.models.download import Downloads
from orchard.gateway.pool.lifecycle import ModelState

if TYPE_CHECKING:
    from orchard.gateway.pool.served_model import ServedModel


def status(model: "ServedModel", note: str) -> ModelStatus:
    """Return a model's status, for the metrics and /health; `note`: what its requests wait for."""
    worker, state = model.worker, model.state.shown
    note = note if state in ("queued", "loading") else ""
    progress = worker.progress if worker and state == "loading" else None
    if worker and state == "ready" and (report := worker.total_progress):
        units = " and ".join(dict.fromkeys(task.progress_unit or task.unit for task in model.entry.tasks))
        note = f"{report.done:.0f} of {report.total:.0f} {units}".rstrip()
        progress = min(1.0, report.done / report.total)
    restarts, waiting = model.restarts, model.requests.waiting_count
    left = model.unload_seconds
    shown = ModelStatus(
        state=state,
        reason=restarts.explanation,
        note=note,
        progress=progress,
        waiting=waiting,
        restarts=restarts.count,
        pinned=model.is_pinned,
        unload_at=None if left is None else round(time.time() + left),
        context_window=model.entry.context_window,
    )
    return worker.complete_status(shown) if worker else shown


def note(model: "ServedModel", downloads: Downloads) -> str:
    """Return what a model's requests wait for."""
    match model.state:
        case ModelState.STARTING | ModelState.LOADING if model.worker:
            return f"loading {round(100 * model.worker.progress)}%"
        case ModelState.DOWNLOADING:
            return downloads.progress(model.entry.repo, model.entry.revision)
        case ModelState.RESTARTING:
            return "waiting for a restart"
    return "waiting for room"
