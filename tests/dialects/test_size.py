import itertools
import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from orchard.core.errors import OrchardError
from orchard.core.tasks.generate import generate_task
from orchard.dialects.common import json_body
from orchard.dialects.common.json_body import MAX_VALUES, refuse_too_many_values
from orchard.dialects.openai.chat.parse import parse
from orchard.dialects.openai.chat.schema import Body

USER = {"role": "user", "content": "Hi"}
START = b'{"model":"demo","messages":[{"role":"user","content":"hi"}],'


def text(content: str) -> bytes:
    return json.dumps({"model": "demo", "messages": [{"role": "user", "content": content}]}).encode()


def filled(head: bytes, unit: bytes, tail: bytes, size: int = 6_000_000) -> bytes:
    return START + head + b",".join([unit] * (size // (len(unit) + 1))) + tail


def test_the_limit_is_exact() -> None:
    others = 7  # the body, its three fields, the message and its two

    def body(count: int) -> bytes:
        return START + b'"x":[' + b",".join([b'"[{,"'] * count) + b"]}"

    refuse_too_many_values(Body, body(MAX_VALUES - others))
    with pytest.raises(OrchardError, match=f"at most {MAX_VALUES} in all") as caught:
        refuse_too_many_values(Body, body(MAX_VALUES - others + 1))
    assert (caught.value.kind, caught.value.param) == ("invalid_request", None)


@pytest.mark.parametrize("content", ["1," * 10**6, '{"a": [1, "b,c"], "\\\\": "\\""}' * 10**5, '\\",[' * 10**6])
def test_what_stands_in_texts_does_not_count(content: str) -> None:
    assert generate_task(parse(text(content), "r").request).messages[0].parts[0].text == content  # type: ignore[union-attr]


HEAVY: dict[str, tuple[Callable[[], bytes], str | None]] = {
    "integers": (lambda: filled(b'"chat_template_kwargs":{"a":[', b"1", b"]}}"), "chat_template_kwargs"),
    "arrays": (lambda: filled(b'"chat_template_kwargs":{"a":[', b"[]", b"]}}"), "chat_template_kwargs"),
    "objects": (lambda: filled(b'"tools":[', b"{}", b"]}"), "tools"),
    "strings": (lambda: filled(b'"stop":[', b'""', b"]}"), "stop"),
    # So many that their quotes alone tell.
    "escapes": (lambda: filled(b'"stop":[', b'"\\\\\\""', b"]}", 16_000_000), "stop"),
    "refused": (lambda: filled(b'"audio":[', b"[]", b"]}"), "audio"),
    "unknown": (lambda: filled(b'"zzz":[', b"1", b"]}"), None),
    "depth": (lambda: START + b'"zzz":' + b"[" * 3_000_000, None),
    "calls": (
        lambda: filled(b'"messages":[{"role":"assistant","tool_calls":[', b'{"id":"a"}', b"]}]}"),
        "messages",
    ),
}


@pytest.mark.parametrize("name", HEAVY)
def test_too_many_values_are_refused_before_they_are_built(name: str) -> None:
    make, param = HEAVY[name]
    body = make()
    tracemalloc.start()
    try:
        with pytest.raises(OrchardError, match="too many values") as caught:
            parse(body, "r")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert caught.value.param == param
    assert peak < 3.1 * len(body)  # copies of the body, but none of its values


def test_as_many_values_as_allowed_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parameters: dict[str, Any] = {"enum": [[]] * 3000}
    tools = [{"function": {"name": f"f{n}", "parameters": parameters}} for n in range(80)]
    body = json.dumps({"model": "m", "messages": [USER], "tools": tools}).encode()
    looked = itertools.count()

    def counted(value: object, kind: Any) -> bool:
        next(looked)
        return isinstance(value, kind)

    # The check asks it twice for each value. To count by a profiler went on for ever now and then.
    monkeypatch.setattr(json_body, "isinstance", counted, raising=False)
    parse(body, "r")
    assert 0 < next(looked) < 3 * 80 * 3000
