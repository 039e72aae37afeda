"""Fields that all dialects have: the model, which may be left out, and the adapter, which has two names."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from orchard.core.errors import OrchardError
from orchard.core.request import Adapter, Request
from orchard.dialects.anthropic.messages import parse as anthropic_messages
from orchard.dialects.openai import embeddings as openai_embeddings
from orchard.dialects.openai import rerank as openai_rerank
from orchard.dialects.openai import speech as openai_speech
from orchard.dialects.openai.chat import parse as openai_chat
from orchard.dialects.openai.completions import parse as openai_completions
from orchard.dialects.openai.responses import parse as openai_responses

MESSAGES = [{"role": "user", "content": "Hi"}]


def _chat(body: bytes, default: str | None) -> Request:
    return openai_chat.parse(body, "req_1", default=default).request


def _completion(body: bytes, default: str | None) -> Request:
    return openai_completions.parse(body, "req_1", default=default).requests[0]


def _response(body: bytes, default: str | None) -> Request:
    return openai_responses.parse(body, default=default).make_call("req_1").request


def _message(body: bytes, default: str | None) -> Request:
    return anthropic_messages.parse(body, "req_1", default=default).request


def _count(body: bytes, default: str | None) -> Request:
    return anthropic_messages.parse_count(body, "req_1", default=default)


def _embedding(body: bytes, default: str | None) -> Request:
    return openai_embeddings.parse(body, "req_1", default=default).request


def _ranking(body: bytes, default: str | None) -> Request:
    return openai_rerank.parse(body, "req_1", default=default).request


def _speech(body: bytes, default: str | None) -> Request:
    return openai_speech.parse(body, "req_1", default=default).request


Read = Callable[[bytes, str | None], Request]
PARSERS = [_chat, _completion, _response, _message, _count, _embedding, _ranking, _speech]
every_dialect = pytest.mark.parametrize("parse", PARSERS)


def read(parse: Read, default: str | None = "default", **fields: Any) -> Request:
    body = {"messages": MESSAGES, "prompt": "Hi", "input": "Hi", "query": "Hi", "documents": ["Hi"], "max_tokens": 5}
    body |= fields
    del body["input" if parse is _completion else "prompt"]
    if parse is _embedding:
        del body["messages"]
    return parse(json.dumps(body).encode(), default)


def refused(parse: Read, default: str | None = "default", **fields: Any) -> OrchardError:
    with pytest.raises(OrchardError) as caught:
        read(parse, default, **fields)
    assert caught.value.kind == "invalid_request"
    return caught.value


@every_dialect
def test_the_model_may_be_left_out_where_there_is_a_default(parse: Read) -> None:
    assert read(parse).model == "default"
    assert read(parse, model=None).model == "default"
    assert read(parse, model="own").model == "own"
    for given in ({}, {"model": None}):
        error = refused(parse, None, **given)
        assert error.param == "model"
        kinds = {"_embedding": "embedding model", "_ranking": "reranker", "_speech": "speech model"}
        asked = kinds.get(parse.__name__, "text model")
        assert error.message.startswith(f"`model` is required, unless the server has exactly one {asked}. ")
        assert "`orchard serve FOLDER`" in error.message
    for wrong in ("", 5, ["own"]):
        assert "non-empty string" in refused(parse, model=wrong).message


@every_dialect
def test_an_adapter_has_two_names(parse: Read) -> None:
    assert read(parse).adapter is None
    assert read(parse, adapters="poet").adapter == Adapter("poet", "adapters")
    assert read(parse, adapter_path="lora/poet").adapter == Adapter("lora/poet", "adapter_path")
    assert read(parse, adapters="poet", adapter_path="poet").adapter == Adapter("poet", "adapters")
    assert refused(parse, adapters="poet", adapter_path="lora/poet").param == "adapter_path"
    for wrong in ("", 5, ["poet"]):
        assert refused(parse, adapter_path=wrong).param == "adapter_path"
