import json
from typing import Any

import pytest

from orchard.core.errors import OrchardError
from orchard.core.events import Collected, Output, Usage
from orchard.core.tasks.rerank import Relevance, Rerank
from orchard.dialects.openai.rerank import RerankCall, parse

RESULT = Collected(
    [], Usage(9, 0), outputs=[Output.from_struct(Relevance(score), at) for at, score in ((2, 0.5), (0, 0.1), (1, 0.5))]
)


SCORED = {"query": None, "documents": None, "text_1": "p"}


def read(**fields: Any) -> RerankCall:
    return parse(json.dumps({"model": "m", "query": "q", "documents": ["a", "b", "c"]} | fields).encode(), "req_1")


def asked(*documents: str, query: str = "q", **fields: Any) -> Rerank:
    return Rerank((query,), documents or ("a", "b", "c"), **{"max_tokens": 4096} | fields)


@pytest.mark.parametrize(
    ("fields", "task"),
    [
        ({}, asked()),
        ({"documents": ["a", {"text": "b", "title": 7}]}, asked("a", "b")),
        ({"instruction": "find", "truncate": True}, asked(instruction="find", truncate=True)),
        ({"truncate": False}, asked(truncate=False, max_tokens=None)),
        ({"max_tokens_per_doc": 5, "truncate": False}, asked(truncate=False, max_tokens=5)),
        ({"max_tokens_per_doc": 2**40}, asked(max_tokens=2**40)),
        ({"max_chunks_per_doc": 10}, asked(max_tokens=None, pieces=10)),
        ({"max_chunks_per_doc": 10, "max_tokens_per_doc": 700}, asked(max_tokens=700, pieces=10)),
        ({"documents": None, "texts": ["a"], "raw_scores": False}, asked("a", document_param="texts")),
        ({"truncation": True, "top_k": None}, asked(truncate=True)),
        (SCORED | {"text_2": "a"}, asked("a", query="p", query_param="text_1", document_param="text_2")),
        (
            SCORED | {"text_1": ["p", "q"], "text_2": ["a", "b"], "truncate_prompt_tokens": -1},
            Rerank(("p", "q"), ("a", "b"), max_tokens=4096, query_param="text_1", document_param="text_2"),
        ),
        ({"query": None, "queries": "q", "use_activation": True}, asked(query_param="queries")),
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
        ({"max_tokens_per_query": 9}, "max_tokens_per_query", "is not supported"),
        ({"max_tokens_per_doc": 0}, "max_tokens_per_doc", "an integer from 1"),
        ({"max_chunks_per_doc": 0}, "max_chunks_per_doc", "an integer from 1 to 2048"),
        ({"max_chunks_per_doc": 2049}, "max_chunks_per_doc", "an integer from 1 to 2048"),
        ({"texts": ["a"]}, "texts", "and `documents` mean the same"),
        ({"documents": None, "texts": ["a", ""]}, "texts[1]", "must not be empty"),
        ({"top_n": 1, "top_k": 1}, "top_k", "and `top_n` mean the same"),
        ({"truncate": True, "truncation": False}, "truncation", "and `truncate` mean the same"),
        ({"return_documents": False, "return_text": True}, "return_text", "mean the same"),
        ({"raw_scores": True}, "raw_scores", "must be false: scores are always from 0 to 1"),
        ({"use_activation": False}, "use_activation", "must be true"),
        ({"truncation_direction": "Left"}, "truncation_direction", "'Right', 'right'"),
        ({"truncation_side": "left"}, "truncation_side", "'right'"),
        ({"truncate_prompt_tokens": 99}, "truncate_prompt_tokens", "must be -1"),
        ({"text_1": "a"}, "text_1", "and `query` mean the same"),
        (SCORED | {"text_1": None, "text_2": "a"}, "query", "is required"),
        (SCORED, "documents", "is required"),
        (SCORED | {"text_2": ""}, "text_2", ""),
        (SCORED | {"text_1": ["p", ""], "text_2": ["a", "b"]}, "text_1[1]", ""),
        (SCORED | {"text_1": ["p", "q"], "text_2": ["a", "b", "c"]}, "text_1", "as many as there are documents (3)"),
        (SCORED | {"text_2": "a", "top_n": 1}, "top_n", "must be left out beside `text_1`"),
        (SCORED | {"text_2": "a", "return_documents": True}, "return_documents", "must be left out"),
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


def test_coheres_meta() -> None:
    body = json.loads(read().complete(RESULT))
    assert body["meta"] == {"api_version": {"version": "1"}, "billed_units": {"search_units": 1}}
    many = Collected([], Usage(9, 0), outputs=[Output.from_struct(Relevance(0.5), at) for at in range(101)])
    given = json.dumps({"model": "m", "query": "q", "documents": ["a"] * 101}).encode()
    body = json.loads(parse(given, "req_1", version="2").complete(many))
    assert body["meta"] == {"api_version": {"version": "2"}, "billed_units": {"search_units": 2}}


def test_the_best_piece_of_a_document_counts() -> None:
    scores = ((0, 0.2), (1, 0.4), (0, 0.7), (2, 0.1), (1, 0.3))
    result = Collected([], Usage(9, 0), outputs=[Output.from_struct(Relevance(score), at) for at, score in scores])
    body = json.loads(read(max_chunks_per_doc=2).complete(result))
    assert [(one["index"], one["relevance_score"]) for one in body["results"]] == [(0, 0.7), (1, 0.4), (2, 0.1)]


def test_teis_answer() -> None:
    fields = {"documents": None, "texts": ["a", "b", "c"]}
    body = json.loads(read(**fields).complete(RESULT))
    assert body == [{"index": 1, "score": 0.5}, {"index": 2, "score": 0.5}, {"index": 0, "score": 0.1}]
    body = json.loads(read(**fields, return_text=True, top_n=1).complete(RESULT))
    assert body == [{"index": 1, "score": 0.5, "text": "b"}]


def test_voyages_answer() -> None:
    body = json.loads(read(top_k=2, return_documents=True).complete(RESULT))
    assert body["data"] == [
        {"index": 1, "relevance_score": 0.5, "document": "b"},
        {"index": 2, "relevance_score": 0.5, "document": "c"},
    ]
    assert (body["object"], body["model"], body["usage"]["total_tokens"]) == ("list", "m", 9)
    assert "document" not in json.loads(read(truncation=False).complete(RESULT))["data"][0]


def test_vllms_answer_is_in_the_order_of_the_texts() -> None:
    body = json.loads(read(**SCORED, text_2=["a", "b", "c"]).complete(RESULT))
    assert body["data"] == [
        {"index": at, "object": "score", "score": score} for at, score in enumerate((0.1, 0.5, 0.5))
    ]
    assert body["id"].startswith("score-")
    assert (body["object"], body["model"], body["usage"]) == ("list", "m", {"prompt_tokens": 9, "total_tokens": 9})
    assert body["created"] > 0
