"""The bundled model with a smaller draft of its own kind, which `demo_model.train --draft` has trained.

Its guesses are mostly right, and change no token. It has the bundled model's tokenizer.
"""

from pathlib import Path
from typing import Any

import pytest

from orchard.backends.text.draft import load_draft
from orchard.backends.text.model import TextModel, load_text_model
from orchard.core.tasks.text_options import TextOptions
from orchard.demo import MODEL_PATH
from orchard.engine.batching.job import Job
from orchard.engine.sampling.params import SamplingParams
from orchard.engine.speculation.speculation import Speculation
from tests.support.drafting import drafter
from tests.support.examples import some
from tests.support.speculation import FixedController
from tests.support.tiny_models import LOOSE, alone, make_runner, run

WEIGHTS = Path(__file__).parent / "draft"
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}
ASKED: list[tuple[list[str], list[Any]]] = [
    (["What is 17 + 25?"], []),
    (['Say "the blue lantern" back to me.'], []),
    (["My name is Ida.", "I will remember that.", "What is my name?"], []),
    (["What is the weather in Lisbon?"], [TOOL]),
    (["How do I install Orchard?"], []),
    (["Tell me a story."], []),
]


@pytest.fixture(scope="module")
def draft_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("draft")
    for path in [*WEIGHTS.iterdir(), *MODEL_PATH.glob("*tokenizer*"), MODEL_PATH / "chat_template.jinja"]:
        (folder / path.name).symlink_to(path)
    return folder


@pytest.fixture(scope="module")
def model() -> TextModel:
    return load_text_model(str(MODEL_PATH))


def jobs(model: TextModel) -> list[Job]:
    """Answers to all that is asked, the likeliest and one that is drawn."""
    found: list[Job] = []
    for number, (said, tools) in enumerate(some(ASKED, 2)):
        roles = zip(("user", "assistant") * len(said), said, strict=False)
        messages = [{"role": role, "content": text} for role, text in roles]
        prompt = model.tokenizer.apply_chat_template(
            messages, tools=tools or None, add_generation_prompt=True, enable_thinking=False
        )
        for temperature in (0.0, 0.8):
            params = SamplingParams(temperature=temperature, seed=number)
            found.append(Job(f"{number} {temperature}", prompt, params, max_tokens=24))
    return found


def speculation(model: TextModel, folder: Path, most: int) -> Speculation:
    draft = load_draft(str(MODEL_PATH), model, TextOptions(draft_model_path=str(folder)))
    assert isinstance(draft, TextModel)
    made = Speculation([], FixedController(most), model.vocab_size)
    made.adopt(drafter(draft, most))
    return made


def test_the_draft_is_small() -> None:
    assert sum(path.stat().st_size for path in WEIGHTS.iterdir()) <= 2e6


@pytest.mark.parametrize("most", [pytest.param(1, marks=pytest.mark.deep), 4])
def test_it_guesses_well_and_changes_no_token(model: TextModel, draft_folder: Path, most: int) -> None:
    asked = jobs(model)
    guesses = speculation(model, draft_folder, most)
    course = run(make_runner(model, speculation=guesses), asked)
    for job in asked:
        assert course.outcomes[job.id].tokens == alone(model, job), job.id
        assert not course.outcomes[job.id].broken
    controller = guesses.controller
    assert isinstance(controller, FixedController)
    proposed = sum(count for _, count, _ in controller.results)
    assert controller.accepted()["draft"] > 0.6 * proposed > 0


def test_rows_that_come_while_others_are_drafted_for_get_their_tokens(model: TextModel, draft_folder: Path) -> None:
    first, *others = jobs(model)
    runner = make_runner(model, LOOSE, speculation=speculation(model, draft_folder, 3))
    course = run(runner, [first], lambda course: [others.pop()] if others and len(course.steps) % 3 == 0 else [])
    for job in jobs(model):
        assert course.outcomes[job.id].tokens == alone(model, job), job.id
