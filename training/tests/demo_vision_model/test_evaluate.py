"""What is measured, how it is counted, the model card, and the export."""

import io
from pathlib import Path

import pytest
from orchard.core.media import MediaPart
from orchard.core.tasks.generate import TextPart
from PIL import Image

from demo_vision_model import evaluate, export
from demo_vision_model.card import KINDS, card, table
from demo_vision_model.config import VISION
from demo_vision_model.questions import DOUBLE, SINGLE

FIGURES = {"count": {"questions": 4, "seen": 0.75, "held": 0.25}}


@pytest.mark.parametrize("kind", list(KINDS))
def test_questions_of_a_kind(kind: str) -> None:
    found = evaluate.cases(kind, 1)
    assert [one.split for one in found] == ["seen", "held"]
    for one in found:
        files = [part.data for message in one.messages for part in message.parts if isinstance(part, MediaPart)]
        assert len(files) == (0 if kind == "text" else 1 if kind in SINGLE else 2)
        assert one.messages[-1].role == "user"
        assert any(isinstance(part, TextPart) and part.text for part in one.messages[-1].parts)
        assert one.answer
        for file in files:
            image = Image.open(io.BytesIO(file))
            assert image.format in ("PNG", "JPEG")
            assert 90 <= min(image.size) <= max(image.size) <= 1200


def test_questions_are_the_same_every_time() -> None:
    found = evaluate.cases("shape", 3)
    assert found == evaluate.cases("shape", 3)
    assert len({one.messages for one in found}) == 4


def test_every_kind_is_measured() -> None:
    assert KINDS.keys() == {*SINGLE, *DOUBLE, "one of two", "text"}


def test_right_answers_are_counted() -> None:
    todo = evaluate.cases("count", 3)
    given = [f" {todo[0].answer}\n", todo[1].answer, "There are 9 shapes.", ""]
    assert evaluate.figures(todo, given) == {"count": {"questions": 3, "seen": 2 / 3, "held": 0.0}}


def test_the_card() -> None:
    row = f"| count: {KINDS['count']} | 4 | 75.0% | 25.0% |"
    assert table(FIGURES).splitlines()[-1] == row
    measured = card(FIGURES)
    assert row in measured
    assert "--questions 4`" in measured
    assert "not been measured" in card({})
    assert "|---|---|---|---|" not in card({})


def test_weights_are_exported() -> None:
    import mlx.core as mx

    size = VISION["patch_size"]
    name = "model.visual.patch_embed.proj.weight"
    frame = mx.random.normal((VISION["hidden_size"], 3 * size * size)).astype(mx.bfloat16).astype(mx.float32)
    made = export.exported({name: frame, "other": mx.ones((2, 3))})
    assert made[name].shape == (VISION["hidden_size"], 3, 2, size, size)
    assert {value.dtype for value in made.values()} == {mx.bfloat16}
    # A picture is the same frame twice, so that the two must add up to what was trained.
    assert mx.array_equal(made[name].astype(mx.float32).sum(2).reshape(frame.shape), frame)
    assert mx.array_equal(made["other"], mx.ones((2, 3)))


def test_a_folder_may_not_be_too_big(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.truncate(export.MOST_BYTES - 2)
        assert export.stored(tmp_path) == export.MOST_BYTES
        file.truncate(export.MOST_BYTES - 1)
    with pytest.raises(ValueError, match="at most 8,000,000"):
        export.stored(tmp_path)
