"""Anthropic's list of models: https://platform.claude.com/docs/en/api/models/list."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from orchard.dialects.common.json_body import invalid

MAX_LIMIT = 1000
_DEFAULT_LIMIT = 20


def describe(model_id: str, context_window: int | None, created: int = 0, able: Collection[str] = ()) -> dict[str, Any]:
    """Return one model.

    `context_window` is in tokens, None if unknown; `created` is in seconds since the epoch, 0 if unknown; `able` has
    its capabilities, of which only "thinking" and "vision" matter here.
    """
    yes, no = {"supported": True}, {"supported": False}
    thinks = {"supported": "thinking" in able}
    return {
        "type": "model",
        "id": model_id,
        "display_name": model_id,
        "created_at": datetime.fromtimestamp(created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lifecycle": "active",
        "max_input_tokens": context_window,
        "max_tokens": context_window,
        "capabilities": {
            "batch": no,
            "citations": no,
            "code_execution": no,
            "context_management": {
                **yes,
                "clear_thinking_20251015": no,
                "clear_tool_uses_20250919": no,
                "compact_20260112": yes,
            },
            "effort": {**thinks, **dict.fromkeys(("low", "medium", "high", "xhigh", "max"), thinks)},
            "image_input": {"supported": "vision" in able},
            "pdf_input": no,
            "server_tools": {**no, "code_execution": no, "web_search": no},
            "structured_outputs": yes,
            "thinking": {
                **thinks,
                # A model that does not think accepts these two as well.
                "types": {"adaptive": thinks, "enabled": thinks, "disabled": yes, "between_tools": yes},
            },
        },
    }


def page(models: Sequence[dict[str, Any]], query: Mapping[str, str]) -> dict[str, Any]:
    """Return the page of the list that a query requests. Raise OrchardError (invalid_request)."""
    asked = query.get("limit", str(_DEFAULT_LIMIT))
    if not (asked.isascii() and asked.isdigit() and len(asked) <= 4 and 1 <= int(asked) <= MAX_LIMIT):
        raise invalid("limit", f"must be an integer from 1 to {MAX_LIMIT}.")
    limit, after, before = int(asked), query.get("after_id"), query.get("before_id")
    if after and before:
        raise invalid("before_id", "and `after_id` can't be used together.")
    if before:
        rest = models[: _place(models, before, "before_id")]
        shown = rest[-limit:]
    else:
        rest = models[_place(models, after, "after_id") + 1 :] if after else models
        shown = rest[:limit]
    return {
        "data": shown,
        "has_more": len(rest) > limit,
        "first_id": shown[0]["id"] if shown else None,
        "last_id": shown[-1]["id"] if shown else None,
    }


def _place(models: Sequence[dict[str, Any]], model_id: str, param: str) -> int:
    for place, model in enumerate(models):
        if model["id"] == model_id:
            return place
    raise invalid(param, "must be the id of a model in the list.")
