"""The bundled model is what the generator and the template were made for."""

from typing import Any

import pytest
from orchard.demo import MODEL_PATH

from demo_model import data, evaluate, template


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    from transformers import AutoTokenizer

    # Not mlx-lm's wrapper, which turns thinking on by itself for every model that knows how to.
    return AutoTokenizer.from_pretrained(MODEL_PATH)


def test_the_folder_has_the_template() -> None:
    assert (MODEL_PATH / "chat_template.jinja").read_text() == template.TEMPLATE


def test_the_generator_renders_what_the_template_renders(tokenizer: Any) -> None:
    for made in data.training_conversations(5, 0, 60):
        fast = "".join(part for part, _ in template.render(made.messages, made.tools, made.thinking))
        assert tokenizer.apply_chat_template(made.messages, tokenize=False, tools=made.tools or None) == fast


def test_skills_in_short() -> None:
    """What it refuses has a test among the cases: the generator has kinds of it that are newer than the model."""
    found = evaluate.evaluate(MODEL_PATH, ["echo", "quiet"], 2)
    assert (found["echo"]["all"], found["quiet"]["all"]) == (1.0, 1.0)
    assert found["thinking"]["all"] >= 0.8
