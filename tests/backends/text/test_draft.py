"""Loading a draft model: it must have the model's tokens."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from orchard.backends.text import draft as draft_module
from orchard.backends.text.draft import load_draft
from orchard.backends.text.model import TextModel, load_text_model
from orchard.core.errors import OrchardError
from orchard.core.tasks.text_options import TextOptions
from tests.support.models import make_architecture


@pytest.fixture
def draft(tmp_path: Path) -> Path:
    """Another architecture with the tokenizer of the tiny model."""
    make_architecture(tmp_path, "gemma3_text")
    return tmp_path


def options(folder: Path, **more: str) -> TextOptions:
    return TextOptions(draft_model_path=str(folder), **more)  # type: ignore[arg-type]


def test_a_draft_of_the_same_tokens(model: TextModel, draft: Path) -> None:
    loaded = load_draft("", model, options(draft))
    assert isinstance(loaded, TextModel)
    assert loaded.network.model_type == "gemma3_text"


def test_nothing_is_loaded_where_nothing_is_guessed(model: TextModel, draft: Path) -> None:
    assert load_draft("", model, TextOptions()) is None
    assert load_draft("", model, options(draft, speculation="off")) is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"Hello": None}, "is missing there"),
        ({"!": "?"}, "is number 30 there"),
    ],
)
def test_another_tokenizer_is_refused(model: TextModel, draft: Path, change: dict[str, str | None], words: str) -> None:
    file = draft / "tokenizer.json"
    tokenizer = json.loads(file.read_text())
    vocabulary = tokenizer["model"]["vocab"]
    for token, other in change.items():
        if other:
            vocabulary[token], vocabulary[other] = vocabulary[other], vocabulary[token]
        else:
            last = max(vocabulary, key=vocabulary.__getitem__)
            vocabulary["unheard of"] = vocabulary.pop(last)
            tokenizer["model"]["merges"].pop()
    file.write_text(json.dumps(tokenizer))
    with pytest.raises(
        OrchardError, match=f"can't guess for this model: it has another tokenizer: .* {words}"
    ) as found:
        load_draft("", model, options(draft))
    assert found.value.kind == "model_failed"


def test_logits_that_are_too_narrow_are_refused(model: TextModel, draft: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        draft_module, "load_text_model", lambda folder: replace(load_text_model(folder), vocab_size=300)
    )
    with pytest.raises(OrchardError, match="its logits are for 300 tokens, and the model has 319"):
        load_draft("", model, options(draft))


def test_a_folder_that_is_no_model_is_refused(model: TextModel, tmp_path: Path) -> None:
    with pytest.raises(OrchardError, match=r"its draft model can't be used: .* it has no config\.json"):
        load_draft("", model, options(tmp_path))
