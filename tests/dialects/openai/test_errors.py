import json
from typing import Any, get_args

import pytest

from orchard.core.errors import FailureKind, OrchardError
from orchard.dialects.openai.errors import openai_error_answer

STATUS = {
    "invalid_request": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "not_found": 404,
    "model_not_found": 404,
    "voice_not_found": 404,
    "request_not_found": 404,
    "response_not_found": 404,
    "completion_not_found": 404,
    "conversation_not_found": 404,
    "item_not_found": 404,
    "method_not_allowed": 405,
    "head_too_large": 431,
    "payload_too_large": 413,
    "store_full": 507,
    "context_length_exceeded": 400,
    "overloaded": 429,
    "shutting_down": 503,
    "cancelled": 499,
    "model_in_use": 409,
    "model_failed": 500,
    "insufficient_memory": 503,
    "worker_crashed": 503,
    "unavailable": 503,
    "timeout": 408,
    "internal": 500,
}


def answer(kind: FailureKind, **more: Any) -> tuple[int, dict[str, str], dict[str, Any]]:
    status, headers, body = openai_error_answer(OrchardError(kind, "What went wrong.", **more))
    return status, headers, json.loads(body)


def test_the_table_is_total() -> None:
    assert set(STATUS) == set(get_args(FailureKind))


@pytest.mark.parametrize("kind", get_args(FailureKind))
def test_every_kind_has_a_status_and_openais_body(kind: FailureKind) -> None:
    status, headers, body = answer(kind, param="model")
    assert status == STATUS[kind]
    assert headers["content-type"] == "application/json"
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert body["error"]["message"] == "What went wrong."
    assert body["error"]["param"] == "model"
    assert isinstance(body["error"]["type"], str)


def test_codes_that_clients_look_at() -> None:
    codes = {kind: answer(kind)[2]["error"]["code"] for kind in get_args(FailureKind)}
    assert codes["unauthorized"] == "invalid_api_key"
    assert codes["model_not_found"] == "model_not_found"
    assert codes["context_length_exceeded"] == "context_length_exceeded"
    assert codes["invalid_request"] is None


def test_a_prompt_that_is_too_long_blames_the_messages() -> None:
    assert answer("context_length_exceeded")[2]["error"]["param"] == "messages"
    assert answer("context_length_exceeded", param="prompt")[2]["error"]["param"] == "prompt"


def test_retrying_is_steered_by_headers() -> None:
    assert answer("overloaded")[1]["retry-after"] == "1"
    assert answer("overloaded", retry_after=7)[1]["retry-after"] == "7"
    assert answer("shutting_down", retry_after=0)[1]["retry-after"] == "0"
    assert "retry-after" not in answer("worker_crashed")[1]
    for kind in ("model_failed", "model_in_use"):
        assert answer(kind)[1]["x-should-retry"] == "false"
    assert "x-should-retry" not in answer("worker_crashed")[1]
    assert answer("unauthorized")[1]["www-authenticate"] == "Bearer"


def test_a_message_that_is_no_unicode_is_told_all_the_same() -> None:
    _, _, body = openai_error_answer(OrchardError("model_failed", "no such folder: \udcff/model"))
    assert json.loads(body)["error"]["message"] == "no such folder: ?/model"
