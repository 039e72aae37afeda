"""Embeddings in Ollama's forms."""

import json
from array import array
from typing import Any

import pytest

from orchard.core.errors import OrchardError
from orchard.core.events import Event, Finished, Output, Started, Usage, collect
from orchard.core.tasks.embed import Embed, Embedding
from orchard.dialects.ollama.embed import EmbedCall, parse, parse_old


def vector(*numbers: float, choice: int = 0) -> Output:
    return Output.from_struct(Embedding(array("f", numbers).tobytes()), choice)


def make_call(**fields: Any) -> EmbedCall:
    return parse(json.dumps({"model": "m", **fields}).encode(), "r")


def test_inputs() -> None:
    assert make_call(input="a").request.task == Embed(("a",), truncate=True)
    found = make_call(input=["a", "b"], truncate=False, dimensions=2).request.task
    assert found == Embed(("a", "b"), dimensions=2, truncate=False)
    assert make_call(input="").only_loads
    assert make_call().only_loads
    with pytest.raises(OrchardError, match=r"`input\[1\]` must not be empty"):
        make_call(input=["a", ""])


def test_answers() -> None:
    events: list[Event] = [Started(3), vector(3, 4, choice=1), vector(1, 2), Finished((), Usage(3, 0))]
    found = json.loads(make_call(input=["a", "b"]).complete(collect(events)))
    assert (found["model"], found["embeddings"], found["prompt_eval_count"]) == ("m", [[1, 2], [3, 4]], 3)
    assert found["total_duration"] >= found["load_duration"] >= 0
    assert json.loads(make_call().report_load("load")) == {"model": "m", "embeddings": []}


def test_the_old_form() -> None:
    call = parse_old(b'{"model": "m", "prompt": "a", "keep_alive": 5}', "r")
    assert (call.request.task, call.request.ttl) == (Embed(("a",), truncate=True), 5)
    assert json.loads(call.complete(collect([Started(3), vector(1, 2), Finished((), Usage(3, 0))]))) == {
        "embedding": [1, 2]
    }
    assert json.loads(parse_old(b'{"model": "m"}', "r").report_load("load")) == {"embedding": []}
