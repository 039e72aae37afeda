"""The tokens that open and end a model's reasoning."""

from types import SimpleNamespace
from typing import Any

import pytest
from mlx_lm.chat_templates import deepseek_v32

from orchard.backends.text.prompt.special_tokens import template_source, thinking_tags
from orchard.formats.registry import choose_family


def tokenizer(start: tuple[int, ...], end: tuple[int, ...], *added: int) -> Any:
    """One whose reasoning stands in Gemma 4's tags."""
    return SimpleNamespace(
        chat_template="<|channel>thought",
        _chat_template=None,
        think_start="<|channel>thought",
        think_end="<channel|>",
        think_start_tokens=start,
        think_end_tokens=end,
        added_tokens_decoder=dict.fromkeys(added),
        encode=lambda text, add_special_tokens: list(text.encode()),
    )


@pytest.mark.parametrize(
    ("start", "end", "added", "known"),
    [
        ((7,), (9,), (), (7, 9)),
        ((7, 8), (9,), (7, 9), (7, 9)),
        ((7, 8), (9,), (9,), None),  # "Here is my" opens other things too
        ((7,), (8, 9), (7, 8, 9), None),
        ((), (), (), None),
    ],
)
def test_the_tokens_that_a_budget_needs(
    start: tuple[int, ...], end: tuple[int, ...], added: tuple[int, ...], known: tuple[int, int] | None
) -> None:
    found = thinking_tags(tokenizer(start, end, *added), choose_family("<|channel>thought"))
    assert (found and (found.start_id, found.end_id)) == known
    assert not found or found.blank == (10, 32)


def test_the_family_is_found_by_a_template_that_is_python_code() -> None:
    source = template_source(SimpleNamespace(_chat_template=deepseek_v32.apply_chat_template, chat_template=None))
    assert choose_family(source).name == "deepseek_v32"
