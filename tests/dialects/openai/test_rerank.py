import json
from typing import Any

import pytest

from orchard.core.errors import OrchardError
from orchard.core.events import Collected, Output, Usage
from orchard.core.tasks.rerank import Relevance, Rerank
from orchard.dialects.openai.rerank import RerankCall, parse

RESULT = Collected(
    [], Usage(9, 0), outputs=[Output.of(Relevance(score), at) for at, score in ((2, 0.5), (0, 0.1), (1, 0.5))]
)


def read(**fields: Any) -> RerankCall:
    return parse(json.dumps({"model": "m", "query": "q", "documents": ["a", "b", "c"]} | fields).encode(), "req_1")


@pytest.mark.parametrize(
    ("fields", "task"),
    [
        ({}, Rerank("q", ("a", "b", "c"))),
        ({"documents": ["a", {"text": "b", "title": 7}]}, Rerank("q", ("a", "b"))),
        ({"instruction": "find", "truncate": True}, Rerank("q", ("a", "b", "c"), "find", True)),
    ],
)
def test_what_is_asked(fields: dict[str, Any], task: Rerank) -> None:
    assert read(**fields).request.task == task


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"query": None}, "query", "is required"),
        ({"query": ""}, "query", ""),
        ({"documents": None}, "documents", "is required"),
        ({"documents": []}, "documents", ""),
        ({"documents": ["a", ""]}, "documents[1]", "must not be empty"),
        ({"documents": [{"title": "a"}]}, "documents[0]", "an object with a string `text`"),
        ({"documents": [7]}, "documents[0]", ""),
        ({"documents": ["x"] * 2049}, "documents", "2048"),
        ({"top_n": 0}, "top_n", "an integer from 1"),
        ({"rank_fields": ["a"]}, "rank_fields", "is not supported"),
        ({"max_tokens_per_doc": 5}, "max_tokens_per_doc", "is not supported"),
    ],
)
def test_bad_fields(fields: dict[str, Any], param: str, words: str) -> None:
    with pytest.raises(OrchardError) as caught:
        read(**fields)
    assert (caught.value.kind, caught.value.param) == ("invalid_request", param)
    assert words in caught.value.message


def test_the_most_relevant_come_first_and_equals_as_they_came() -> None:
    body = json.loads(read().complete(RESULT))
    assert [(one["index"], one["relevance_score"]) for one in body["results"]] == [(1, 0.5), (2, 0.5), (0, 0.1)]
    assert (body["model"], body["usage"]) == ("m", {"prompt_tokens": 9, "total_tokens": 9})
    assert body["id"].startswith("rerank-")
    assert "document" not in body["results"][0]


def test_as_many_as_wanted_with_their_documents() -> None:
    call = read(top_n=2, return_documents=True, documents=["a", {"text": "b", "title": 7}, "c"])
    body = json.loads(call.complete(RESULT))
    assert [one["document"] for one in body["results"]] == [{"text": "b", "title": 7}, {"text": "c"}]
