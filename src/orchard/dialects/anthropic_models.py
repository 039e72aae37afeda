"""Anthropic's list of models: https://platform.claude.com/docs/en/api/models/list."""

from collections.abc import Mapping, Sequence
from typing import Any

from orchard.dialects.decoding import invalid

MAX_LIMIT = 1000
_DEFAULT_LIMIT = 20
_UNKNOWN_DATE = "1970-01-01T00:00:00Z"


def describe(model_id: str, context_window: int | None) -> dict[str, Any]:
    """Give one model; `context_window` in tokens, None where it isn't known."""
    return {
        "type": "model",
        "id": model_id,
        "display_name": model_id,
        "created_at": _UNKNOWN_DATE,
        "lifecycle": "active",
        "max_input_tokens": context_window,
        "max_tokens": context_window,
        "capabilities": None,
    }


def page(models: Sequence[dict[str, Any]], query: Mapping[str, str]) -> dict[str, Any]:
    """Give the part of the list that a query asks for. Raises OrchardError (invalid_request)."""
    limit = _limit(query.get("limit"))
    after, before = query.get("after_id"), query.get("before_id")
    if after and before:
        raise invalid("before_id", "`before_id` and `after_id` don't go together.")
    begin, end = 0, len(models)
    if after:
        begin = _place(models, after, "after_id") + 1
    if before:
        end = _place(models, before, "before_id")
        shown, more = models[max(0, end - limit) : end], end > limit
    else:
        shown, more = models[begin : begin + limit], end - begin > limit
    return {
        "data": shown,
        "has_more": more,
        "first_id": shown[0]["id"] if shown else None,
        "last_id": shown[-1]["id"] if shown else None,
    }


def _limit(text: str | None) -> int:
    if text is None:
        return _DEFAULT_LIMIT
    if not (text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= MAX_LIMIT):
        raise invalid("limit", f"`limit` must be an integer from 1 to {MAX_LIMIT}.")
    return int(text)


def _place(models: Sequence[dict[str, Any]], model_id: str, param: str) -> int:
    for place, model in enumerate(models):
        if model["id"] == model_id:
            return place
    raise invalid(param, f"`{param}` must be the id of a model in the list.")
