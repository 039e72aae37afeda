"""Anthropic's errors, and the classes that its SDK makes of them."""

import json
from typing import get_args

import anthropic
import pytest
from anthropic.types import ErrorResponse

from orchard.core.errors import FailureKind, OrchardError
from orchard.dialects.anthropic.errors import anthropic_error_answer


@pytest.mark.parametrize("kind", get_args(FailureKind))
def test_every_kind_has_the_shape(kind: FailureKind) -> None:
    status, headers, body = anthropic_error_answer(OrchardError(kind, "It \udcff broke."), "req_1")
    assert 400 <= status < 600
    assert headers["content-type"] == "application/json"
    error = json.loads(body)
    if kind != "payload_too_large":  # the docs have its type, the SDK has not
        ErrorResponse.model_validate(error)
    assert set(error) == {"type", "error", "request_id"}
    assert set(error["error"]) - {"details"} == {"type", "message"}
    assert (error["type"], error["request_id"]) == ("error", "req_1")
    assert error["error"]["message"].endswith("It ? broke.")


@pytest.mark.parametrize(
    ("message", "param", "told"),
    [
        ("It broke.", "messages[0].content[1].source.data", "`messages[0].content[1].source.data`: It broke."),
        ("`messages[0].role` is wrong.", "messages[0].role", "`messages[0].role` is wrong."),
        ("It is wrong.", "max_tokens", "It is wrong."),
        ("It is wrong.", None, "It is wrong."),
    ],
)
def test_the_message_names_the_block(message: str, param: str | None, told: str) -> None:
    _, _, body = anthropic_error_answer(OrchardError("invalid_request", message, param=param), "req_1")
    assert json.loads(body)["error"]["message"] == told


@pytest.mark.parametrize(
    ("kind", "status", "name", "error"),
    [
        ("invalid_request", 400, "invalid_request_error", anthropic.BadRequestError),
        ("unauthorized", 401, "authentication_error", anthropic.AuthenticationError),
        ("forbidden", 403, "permission_error", anthropic.PermissionDeniedError),
        ("not_found", 404, "not_found_error", anthropic.NotFoundError),
        ("model_not_found", 404, "not_found_error", anthropic.NotFoundError),
        ("payload_too_large", 413, "request_too_large", anthropic.APIStatusError),
        ("context_length_exceeded", 400, "invalid_request_error", anthropic.BadRequestError),
        ("overloaded", 529, "overloaded_error", anthropic.InternalServerError),
        ("insufficient_memory", 503, "api_error", anthropic.InternalServerError),
        ("worker_crashed", 503, "api_error", anthropic.InternalServerError),
        ("internal", 500, "api_error", anthropic.InternalServerError),
    ],
)
def test_the_sdk_knows_them(kind: FailureKind, status: int, name: str, error: type[anthropic.APIStatusError]) -> None:
    found, _, body = anthropic_error_answer(OrchardError(kind, "broken"), "req_1")
    assert found == status
    assert json.loads(body)["error"]["type"] == name
    assert getattr(error, "status_code", status) == status


def test_a_prompt_that_is_too_long_is_called_so() -> None:
    _, _, body = anthropic_error_answer(OrchardError("context_length_exceeded", "The window has 5 tokens."), "req_1")
    assert json.loads(body)["error"]["message"] == "prompt is too long: The window has 5 tokens."


def test_a_thread_that_is_not_here_is_called_so() -> None:
    _, _, body = anthropic_error_answer(OrchardError("response_not_found", "no"), "req_1")
    assert json.loads(body)["error"]["details"] == {"error_code": "thread_not_found"}


def test_when_to_try_again() -> None:
    assert anthropic_error_answer(OrchardError("overloaded", "full"), "r")[1]["retry-after"] == "1"
    assert anthropic_error_answer(OrchardError("shutting_down", "bye", retry_after=5), "r")[1]["retry-after"] == "5"
    assert "retry-after" not in anthropic_error_answer(OrchardError("internal", "a bug"), "r")[1]
    assert anthropic_error_answer(OrchardError("model_failed", "no"), "r")[1]["x-should-retry"] == "false"
