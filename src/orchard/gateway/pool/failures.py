"""How requests fail because of their model: what callers are told."""

from orchard.core.events import Failed

SHUTTING_DOWN = Failed("shutting_down", "the server is shutting down", None, 5)


def not_begun(model: str, seconds: float) -> Failed:
    """Return that a request has waited too long for its turn in a model that is ready."""
    text = f"model '{model}' did not begin this request within {seconds:g} seconds: too many are before it"
    return Failed("overloaded", text, None, 5)


def not_ready(model: str, seconds: float, note: str) -> Failed:
    """Return that a request has waited too long for its model; `note` says what that waits for itself."""
    return Failed("unavailable", f"model '{model}' was not ready within {seconds:g} seconds: {note}", None, 5)


def not_loadable(model: str, reason: str | None) -> Failed:
    """Return that a model can't be loaded."""
    return Failed("model_failed", f"model '{model}' can't be loaded: {reason}")


def no_room(model: str) -> Failed:
    """Return that there is no room for a model that makes no other go."""
    text = f"there is no room for model '{model}' beside those in memory, and it makes none of them go"
    return Failed("unavailable", text, None, 5)


def crashed(model: str, failure: str | None) -> Failed:
    """Return that a model's process has ended with the request in it; `failure`: why, as far as that is known."""
    how = f"is ended: {failure}" if failure else "died"
    return Failed("worker_crashed", f"the process of model '{model}' {how}; it is started again", None, 1)
