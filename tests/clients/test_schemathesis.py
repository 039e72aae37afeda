"""schemathesis: requests made from the server's own /openapi.json, and answers held against it."""

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = [
    not_a_server_error,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
]

BASICS = {
    "model": "demo",
    "messages": [{"role": "user", "content": "Hello"}],
    "input": "Hello",
    "prompt": "One,",
}
SHORT = {"max_tokens": 8, "max_completion_tokens": 8, "max_output_tokens": 8}


@pytest.mark.timeout(1200)
def test_the_description_is_kept(url: str, subtests: pytest.Subtests) -> None:
    described = schemathesis.openapi.from_url(f"{url}/openapi.json")
    for found in described.get_all_operations():
        operation = found.ok()
        modes = list(GenerationMode) if operation.body else [GenerationMode.POSITIVE]  # only bodies can be wrong
        for mode in modes:
            with subtests.test(f"{operation.label} {mode.value}"):
                _check(operation, mode)


def _check(operation: Any, mode: GenerationMode) -> None:
    @settings(max_examples=30, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(mode))
    def check(case: Any) -> None:
        # No schema says all that makes a conversation whole: half of the requests get one, so that the rest counts.
        if isinstance(case.body, dict) and len(str(case.body)) % 2:
            case.body.update({name: value for name, value in BASICS.items() if name in case.body} | SHORT)
        case.call_and_validate(checks=CHECKS, timeout=60)

    check()
