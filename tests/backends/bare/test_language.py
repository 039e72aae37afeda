"""The libraries' own loops over the bundled models, as the process that runs them prints it."""

import contextlib
import io
import json
import runpy
from typing import Any

import mlx.core as mx
import mlx_lm
import mlx_vlm
import pytest

from orchard.backends.bare import language
from orchard.cli.verify.media import PICTURES, draw_picture
from orchard.demo import MODEL_PATH, VISION_MODEL_PATH

CHAT = [{"role": "user", "content": "What is 17 + 25?"}]
PATHS = {"text": MODEL_PATH, "vision": VISION_MODEL_PATH}


@pytest.fixture(scope="module", params=PATHS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def result(kind: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("pictures")
    for name in PICTURES:
        (folder / name).write_bytes(draw_picture(name))
    task = {
        "path": str(PATHS[kind]),
        "kind": kind,
        "chats": [CHAT],
        "max_tokens": 30,
        "rounds": 1,
        "speed_tokens": 4,
        "question": "What do you see?",
        "pictures": [str(folder / name) for name in PICTURES],
    }
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as printed:
        patch.setattr(language, "_COPY_BYTES", 2**20)
        patch.setattr("sys.stdin", io.StringIO(json.dumps(task)))
        runpy.run_module("orchard.backends.bare")
    made: dict[str, Any] = json.loads(printed.getvalue())
    return made


def load(kind: str) -> tuple[Any, Any]:
    """Return a network and its tokenizer."""
    if kind == "text":
        network, tokenizer, *_ = mlx_lm.load(str(MODEL_PATH))
        return network, tokenizer
    model: Any
    model, processor = mlx_vlm.load(str(VISION_MODEL_PATH))
    return lambda tokens: model.language_model(tokens).logits, processor.tokenizer


def test_the_answer_is_that_of_the_most_likely_tokens(kind: str, result: dict[str, Any]) -> None:
    network, tokenizer = load(kind)
    (prompt,), (text,) = result["prompts"], result["texts"]
    assert prompt == list(tokenizer.apply_chat_template(CHAT, add_generation_prompt=True, return_dict=False))
    answer = tokenizer.encode(text, add_special_tokens=False)
    best: Any = network(mx.array([prompt + answer]))[0].argmax(axis=-1).tolist()
    assert best[len(prompt) - 1 : -1] == answer
    assert len(answer) == 30 or best[-1] == tokenizer.eos_token_id


def test_the_measurements_are_of_this_device(result: dict[str, Any]) -> None:
    assert 0 < result["rounding"] < result["spread"] < 100
    assert 7 * 10**6 < result["weights_bytes"] < 9 * 10**6
    assert len(result["rates"]) == 1
    assert min(result["rates"][0], result["load_seconds"], result["bandwidth"]) > 0


def test_pictures_have_answers_of_their_own(kind: str, result: dict[str, Any]) -> None:
    assert len(set(result["pictures"])) == (len(PICTURES) if kind == "vision" else 0)
