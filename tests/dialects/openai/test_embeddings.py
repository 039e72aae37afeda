import base64
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.core.errors import OrchardError
from orchard.core.events import Collected, Output, Usage
from orchard.core.tasks.embed import Embed, Embedding
from orchard.dialects.openai.embeddings import EmbeddingsCall, parse


def read(**fields: Any) -> EmbeddingsCall:
    return parse(json.dumps({"model": "m", "input": "a"} | fields).encode(), "req_1")


@pytest.mark.parametrize(
    ("fields", "task"),
    [
        ({}, Embed(("a",))),
        ({"input": ["a", "b"]}, Embed(("a", "b"))),
        ({"input": [5, 6]}, Embed(((5, 6),))),
        ({"input": [[5], [6, 7]]}, Embed(((5,), (6, 7)))),
        ({"input": ["x"] * 2048}, Embed(("x",) * 2048)),
        ({"dimensions": 4, "prompt_name": "q", "truncate": True}, Embed(("a",), 4, "q", True)),
        ({"user": 7, "unknown": [1]}, Embed(("a",))),
    ],
)
def test_what_is_asked(fields: dict[str, Any], task: Embed) -> None:
    call = read(**fields)
    assert (call.request.task, call.request.model, call.base64) == (task, "m", False)


def test_how_it_is_served() -> None:
    call = parse(b'{"input": "a", "priority": "background", "ttl": 9}', "req_1", "interactive", default="only")
    assert (call.request.model, call.request.priority, call.request.ttl) == ("only", "background", 9)
    call = parse(b'{"input": "a", "model": 7}', "req_1", "interactive", model="deployed")
    assert (call.request.model, call.request.priority) == ("deployed", "interactive")


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"input": None}, "input", "`input` is required: a string, up to 2048 strings, a list of token ids, or"),
        ({"input": ""}, "input", "must not be empty"),
        ({"input": []}, "input", "`input` must be a string, up to 2048 strings, a list of token ids, or up to 2048 l"),
        ({"input": [""]}, "input", "must not be empty"),
        ({"input": ["a", ""]}, "input[1]", "must not be empty"),
        ({"input": [[5], []]}, "input[1]", "must not be empty"),
        ({"input": ["a", 5]}, "input", "lists of token ids; its items must be of one type"),
        ({"input": ["a", [5]]}, "input", "lists of token ids; its items must be of one type"),
        ({"input": [-1]}, "input[0]", "must be a string, a token id, or a list of token ids."),
        ({"input": [1.5]}, "input[0]", "must be a string, a token id, or a list of token ids, got a number with"),
        ({"input": [[-1]]}, "input[0][0]", "an integer from 0"),
        ({"input": {"text": "a"}}, "input", "or up to 2048 lists of token ids, got an object."),
        ({"input": 5}, "input", "`input` must be a string, up to 2048 strings,"),
        ({"input": ["x"] * 2049}, "input", "holds 2049 inputs; at most 2048"),
        ({"encoding_format": "int8"}, "encoding_format", "'base64', 'float'"),
        ({"dimensions": 0}, "dimensions", "an integer from 1"),
        ({"truncate": "END"}, "truncate", "true or false"),
        ({"prompt_name": ""}, "prompt_name", "a non-empty string"),
    ],
)
def test_bad_fields(fields: dict[str, Any], param: str, words: str) -> None:
    with pytest.raises(OrchardError) as caught:
        read(**fields)
    assert (caught.value.kind, caught.value.param) == ("invalid_request", param)
    assert words in caught.value.message


VECTORS = st.lists(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=3, max_size=3))


@given(VECTORS)
def test_vectors_are_the_same_in_both_formats(vectors: list[list[float]]) -> None:
    made = [Output.of(Embedding(np.array(one, "<f4").tobytes()), index) for index, one in enumerate(vectors)]
    result = Collected([], Usage(7, 0), outputs=made[::-1])  # batches end in any order
    plain = json.loads(read(encoding_format="float").complete(result))
    coded = json.loads(read(encoding_format="base64").complete(result))
    assert (plain["object"], plain["model"], plain["usage"]) == ("list", "m", {"prompt_tokens": 7, "total_tokens": 7})
    assert [(one["object"], one["index"]) for one in plain["data"]] == [("embedding", at) for at in range(len(vectors))]
    assert [one["embedding"] for one in plain["data"]] == vectors
    decoded = [np.frombuffer(base64.b64decode(one["embedding"]), "<f4").tolist() for one in coded["data"]]
    assert decoded == vectors
