"""Anthropic's list of models, page by page."""

from typing import Any

import pytest
from anthropic.types import ModelCapabilities, ModelInfo
from pydantic import TypeAdapter

from orchard.core.errors import OrchardError
from orchard.dialects.anthropic.models import describe_model, page_of_models

MODELS = [describe_model(name, 1000) for name in ("a", "org/b", "c", "d")]


def ids(found: dict[str, Any]) -> tuple[list[str], bool, str | None, str | None]:
    return [model["id"] for model in found["data"]], found["has_more"], found["first_id"], found["last_id"]


@pytest.mark.parametrize("window", [1000, None])
def test_a_model_is_what_the_sdk_expects(window: int | None) -> None:
    model = ModelInfo.model_validate(describe_model("org/b", window))
    assert (model.id, model.type, model.display_name, model.max_input_tokens) == ("org/b", "model", "org/b", window)


def test_what_a_model_can_do() -> None:
    described = describe_model("a", 1000, 1_700_000_000, ("thinking", "tools"))
    assert described["created_at"] == "2023-11-14T22:13:20Z"
    # `model_validate` of the SDK's own class takes anything; this has its fields and insists on them.
    able = TypeAdapter(ModelCapabilities).validate_python(described["capabilities"])
    assert (able.thinking.types.adaptive.supported, able.thinking.types.disabled.supported) == (True, True)
    assert (able.image_input.supported, able.structured_outputs.supported) == (False, True)
    assert set(described["capabilities"]) == set(ModelCapabilities.model_fields)
    assert describe_model("a", None, capabilities=("vision",))["capabilities"]["image_input"] == {"supported": True}
    plain = describe_model("a", None)["capabilities"]
    assert (plain["thinking"]["supported"], plain["effort"]["high"]["supported"]) == (False, False)
    assert plain["thinking"]["types"]["disabled"]["supported"]


@pytest.mark.parametrize(
    ("query", "names", "more"),
    [
        ({}, "a org/b c d", False),
        ({"limit": "1000"}, "a org/b c d", False),
        ({"limit": "4"}, "a org/b c d", False),
        ({"limit": "3"}, "a org/b c", True),
        ({"limit": "2", "after_id": "a"}, "org/b c", True),
        ({"limit": "2", "after_id": "org/b"}, "c d", False),
        ({"after_id": "d"}, "", False),
        ({"limit": "2", "before_id": "d"}, "org/b c", True),
        ({"limit": "2", "before_id": "c"}, "a org/b", False),
        ({"before_id": "a"}, "", False),
    ],
)
def test_pages(query: dict[str, str], names: str, more: bool) -> None:
    shown = names.split()
    expected = (shown, more, shown[0] if shown else None, shown[-1] if shown else None)
    assert ids(page_of_models(MODELS, query)) == expected


@pytest.mark.parametrize(
    ("query", "param"),
    [
        *(({"limit": limit}, "limit") for limit in ("", "0", "1001", "-1", "x", "1.5", "\u0663", "9" * 5000)),
        ({"after_id": "x"}, "after_id"),
        ({"before_id": "x"}, "before_id"),
        ({"before_id": "a", "after_id": "a"}, "before_id"),
    ],
)
def test_wrong_queries(query: dict[str, str], param: str) -> None:
    with pytest.raises(OrchardError) as caught:
        page_of_models(MODELS, query)
    assert (caught.value.kind, caught.value.param) == ("invalid_request", param)
