"""Anthropic's list of models: https://platform.claude.com/docs/en/api/models/list."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from orchard.dialects.common.json_body import invalid_field

MAX_LIMIT = 1000
_DEFAULT_LIMIT = 20


def describe_model(
    model_id: str, context_window: int | None, created: int = 0, capabilities: Collection[str] = ()
) -> dict[str, Any]:
    """Return one model.

    `context_window` is in tokens, None if unknown; `created` is in seconds since the epoch, 0 if unknown. Of the
    `capabilities`, only "thinking" and "vision" matter here.
    """
    yes, no = {"supported": True}, {"supported": False}
    thinks = {"supported": "thinking" in capabilities}
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
            "image_input": {"supported": "vision" in capabilities},
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


def page_of_models(models: Sequence[dict[str, Any]], query: Mapping[str, str]) -> dict[str, Any]:
    """Return the page of the list that a query requests. Raise OrchardError (invalid_request)."""
    asked = query.get("limit", str(_DEFAULT_LIMIT))
    if not (asked.isascii() and asked.isdigit() and len(asked) <= 4 and 1 <= int(asked) <= MAX_LIMIT):
        raise invalid_field("limit", f"must be an integer from 1 to {MAX_LIMIT}.")
    limit, after, before = int(asked), query.get("after_id"), query.get("before_id")
    if after and before:
        raise invalid_field("before_id", "and `after_id` can't be used together.")
    if before:
        rest = models[: _find_model(models, before, "before_id")]
        shown = rest[-limit:]
    else:
        rest = models[_find_model(models, after, "after_id") + 1 :] if after else models
        shown = rest[:limit]
    return {
        "data": shown,
        "has_more": len(rest) > limit,
        "first_id": shown[0]["id"] if shown else None,
        "last_id": shown[-1]["id"] if shown else None,
    }


def _find_model(models: Sequence[dict[str, Any]], model_id: str, param: str) -> int:
    for place, model in enumerate(models):
        if model["id"] == model_id:
            return place
    raise invalid_field(param, "must be the id of a model in the list.")
