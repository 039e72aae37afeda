"""Completions: what a body becomes, and how answers look, streamed and whole."""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types import Completion

from orchard import __version__
from orchard.core.errors import OrchardError
from orchard.core.events import Event, Failed, Finished, Logprob, Started, Text, TokenLogprob, Usage, collect
from orchard.core.tasks.generate import Generate, Grammar, Sampling, generate_task
from orchard.dialects.openai.completions.encode import CompletionCall, CompletionEncoder
from orchard.dialects.openai.completions.parse import parse
from orchard.dialects.openai.completions.schema import BODY, IGNORED
from tests.support.crossing import crossed
from tests.support.examples import examples
from tests.support.mutation import json_values, mutated
from tests.support.streams import lawful_streams

USAGE = Usage(5, 7, 2, 3)


def read(**fields: Any) -> CompletionCall:
    return parse(json.dumps({"model": "demo", "prompt": "Once", **fields}).encode(), "req_12ab-34cd")


def tasks(**fields: Any) -> list[Generate]:
    return [generate_task(request) for request in read(**fields).requests]


def test_the_least_body() -> None:
    call = read()
    (request,) = call.requests
    assert (request.id, request.model, request.priority) == ("req_12ab-34cd", "demo", "normal")
    assert request.task == Generate(prompt="Once", max_tokens=16)
    assert (call.stream, call.include_usage, call.wanted, call.id) == (False, False, 1, "cmpl-12ab34cd")


def test_everything_at_once() -> None:
    call = read(
        prompt=["a", "b"],
        suffix="z",
        echo=True,
        max_tokens=0,
        n=2,
        best_of=3,
        temperature=0,
        top_p=0.5,
        top_k=5,
        min_p=0.1,
        presence_penalty=1,
        frequency_penalty=2,
        repetition_penalty=1.5,
        logit_bias={"1": 2},
        seed=3,
        stop=["x"],
        guided_regex="a+",
        priority="background",
        user="ann",
        made_up=[1],
    )
    sampling = Sampling(
        temperature=0.0,
        top_p=0.5,
        top_k=5,
        min_p=0.1,
        repetition_penalty=1.5,
        presence_penalty=1.0,
        frequency_penalty=2.0,
        logit_bias={1: 2.0},
        seed=3,
    )
    expected = Generate(
        prompt="a",
        suffix="z",
        echo=True,
        grammar=Grammar("regex", "a+", "guided_regex"),
        sampling=sampling,
        max_tokens=0,
        stop=("x",),
        n=3,
        top_logprobs=0,
    )
    assert [request.id for request in call.requests] == ["req_12ab-34cd-0", "req_12ab-34cd-1"]
    assert call.requests[0].task == expected
    assert generate_task(call.requests[1]).prompt == "b"
    assert call.requests[1].priority == "background"
    assert all(crossed(request) == request for request in call.requests)


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("Hi", ["Hi"]),
        ("", [""]),
        (None, [""]),
        (["Hi"], ["Hi"]),
        (["a", ""], ["a", ""]),
        ([1, 2, 0], [(1, 2, 0)]),
        ([[1], [2, 3], []], [(1,), (2, 3), ()]),
    ],
)
def test_prompts(prompt: Any, expected: list[Any]) -> None:
    assert [task.prompt for task in tasks(prompt=prompt)] == expected


def test_fields() -> None:
    assert tasks(suffix="")[0].suffix is None
    assert [tasks(max_tokens=limit)[0].max_tokens for limit in (-1, 0, 5)] == [None, 0, 5]
    assert tasks(stop="")[0].stop == ()
    assert tasks(logprobs=0)[0].top_logprobs == 0
    assert tasks(logprobs=5, best_of=2)[0].top_logprobs == 5
    assert tasks(n=2, best_of=2)[0].top_logprobs is None
    call = read(stream=True, stream_options={"include_usage": True}, n=2, best_of=2)
    assert (call.stream, call.include_usage) == (True, True)
    assert parse(b'{"model": 5, "prompt": "Once"}', "req_12ab-34cd", model="demo") == read()


def test_null_means_absent_everywhere_and_ignored_fields_change_nothing() -> None:
    fields = [name for name in BODY.schema()["properties"] if name not in ("model", "prompt")]
    assert read(**dict.fromkeys(fields)) == read(**dict.fromkeys(IGNORED, 5)) == read()


# openai-python 3.52, types/completion_create_params.py
OPENAI_FIELDS = """best_of echo frequency_penalty logit_bias logprobs max_tokens model n presence_penalty prompt seed
    stop stream stream_options suffix temperature top_p user"""


def test_every_field_of_openai_is_known() -> None:
    assert set(OPENAI_FIELDS.split()) <= set(BODY.schema()["properties"])


BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"model": None}, "model", "`model` is required, unless"),
    ({"prompt": None, "messages": []}, "messages", "send them to /v1/chat/completions"),
    ({"prompt": []}, "prompt", "non-empty array"),
    ({"prompt": 5}, "prompt", "a string or a non-empty array"),
    ({"prompt": ["a", 1]}, "prompt", "an array of strings, of token ids, or of arrays of token ids"),
    ({"prompt": [1, [2]]}, "prompt", "an array of strings, of token ids, or of arrays of token ids"),
    ({"prompt": [-1]}, "prompt[0]", "an integer from 0"),
    ({"prompt": [[1.5]]}, "prompt[0][0]", "an integer from 0"),
    ({"prompt": ["a"] * 129}, "prompt", "129 prompts; at most 128"),
    ({"max_tokens": -2}, "max_tokens", "an integer from -1"),
    ({"n": 17}, "n", "from 1 to 16"),
    ({"logprobs": 6}, "logprobs", "from 0 to 5"),
    ({"logprobs": True}, "logprobs", "got a boolean"),
    ({"n": 3, "best_of": 2}, "best_of", "at least `n`"),
    ({"best_of": 2, "stream": True}, "best_of", "can't be streamed"),
    ({"echo": True, "logprobs": 0, "suffix": "b"}, "suffix", "along with `echo` and `logprobs`"),
    ({"stream_options": {}}, "stream_options", "when `stream` is true"),
    ({"guided_regex": "a", "guided_json": {}}, "guided_regex", "both set the form of the answer"),
]


@pytest.mark.parametrize(("fields", "param", "words"), BAD)
def test_bad_fields_are_named(fields: dict[str, Any], param: str, words: str) -> None:
    with pytest.raises(OrchardError) as caught:
        read(**fields)
    assert (caught.value.kind, caught.value.param) == ("invalid_request", param)
    assert words in caught.value.message


def whole(call: CompletionCall, *events: Event) -> Any:
    body = json.loads(call.complete(collect(events)))
    Completion.model_validate(body, strict=True)
    return body


def stream(call: CompletionCall, batches: Sequence[Sequence[Event]]) -> list[Any]:
    encoder = CompletionEncoder(call)
    data = b"".join(encoder.encode(batch) for batch in batches)
    assert data.endswith(b"\n\ndata: [DONE]\n\n")
    return [json.loads(line.removeprefix("data: ")) for line in data.decode().splitlines()[:-2:2]]


def token(text: bytes, logprob: float) -> TokenLogprob:
    return TokenLogprob(text.decode(errors="replace"), text, logprob)


def test_a_whole_answer() -> None:
    body = whole(read(), Started(5), Text("Hel"), Text('lo "Ann"\n'), Finished(("tool_calls",), USAGE))
    assert isinstance(body.pop("created"), int)
    usage = body.pop("usage")
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (5, 7, 12)
    assert body == {
        "id": "cmpl-12ab34cd",
        "object": "text_completion",
        "model": "demo",
        "choices": [{"text": 'Hello "Ann"\n', "index": 0, "logprobs": None, "finish_reason": "stop"}],
        "system_fingerprint": f"fp_orchard_{__version__}",
    }


def test_a_streamed_answer() -> None:
    call = read(n=2, stream=True, stream_options={"include_usage": True})
    events: list[Event] = [Started(5), Text("a", 1), Text("b\u2028", 0), Finished(("length", "stop"), USAGE)]
    chunks = stream(call, [[event] for event in events])
    assert [chunk["choices"] for chunk in chunks] == [
        [{"text": "a", "index": 1, "logprobs": None, "finish_reason": None}],
        [{"text": "b\u2028", "index": 0, "logprobs": None, "finish_reason": None}],
        [{"text": "", "index": 0, "logprobs": None, "finish_reason": "length"}],
        [{"text": "", "index": 1, "logprobs": None, "finish_reason": "stop"}],
        [],
    ]
    assert [chunk["usage"] and chunk["usage"]["total_tokens"] for chunk in chunks] == [None] * 4 + [12]
    for chunk in chunks:
        assert (chunk["id"], chunk["object"], chunk["model"]) == ("cmpl-12ab34cd", "text_completion", "demo")
    assert all("usage" not in chunk for chunk in stream(read(n=2), [events]))


def test_a_failure_in_the_stream_is_an_error_object() -> None:
    chunks = stream(read(), [[Started(5), Text("a"), Failed("internal", "a bug")]])
    assert chunks[-1]["error"] == {"message": "a bug", "type": "server_error", "param": None, "code": "internal_error"}


def test_log_probabilities() -> None:
    half = Logprob(token(b"\xc3", -0.5), (token(b"x", -0.25), token(b"\xc3", -0.5)))
    rest = Logprob(token(b"\xa9", -1.0), (token(b"y", -0.125), token(b"z", float("-inf"))))
    last = Logprob(token(b"ab", -2.0), ())
    events: list[Event] = [Text("", logprobs=(half,)), Text("éab", logprobs=(rest, last)), Finished(("stop",), USAGE)]
    expected = {
        "tokens": ["bytes:\\xc3", "bytes:\\xa9", "ab"],
        "token_logprobs": [-0.5, -1.0, -2.0],
        "top_logprobs": [
            {"x": -0.25, "bytes:\\xc3": -0.5},
            {"y": -0.125, "z": -9999.0, "bytes:\\xa9": -1.0},
            {"ab": -2.0},
        ],
        "text_offset": [0, 0, 1],
    }
    assert whole(read(logprobs=2), *events)["choices"][0]["logprobs"] == expected

    drawn: list[Event] = [
        Text("éab", logprobs=tuple(Logprob(one.token) for one in (half, rest, last))),
        Finished(("stop",), USAGE),
    ]
    alone = [{"bytes:\\xc3": -0.5}, {"bytes:\\xa9": -1.0}, {"ab": -2.0}]
    assert whole(read(logprobs=0), *drawn)["choices"][0]["logprobs"] == expected | {"top_logprobs": alone}
    chunks = stream(read(logprobs=2), [[event] for event in events])
    pieces = [chunk["choices"][0]["logprobs"] for chunk in chunks]
    assert {name: pieces[0][name] + pieces[1][name] for name in expected} == expected
    assert pieces[2] is None


def test_an_echoed_prompt_has_log_probabilities() -> None:
    beginning = Logprob(TokenLogprob("<s>", b"", None), prompt=True)
    a, b = (Logprob(token(text, -1.0), (token(b"x", -0.5),), prompt=True) for text in (b"a", b" b"))
    end = Logprob(TokenLogprob("<end>", b"", -0.25), (token(b"<end>", -0.25),))
    events: list[Event] = [
        Text("a b", logprobs=(beginning,)),
        Text("", logprobs=(a, b)),
        Text("c", logprobs=(Logprob(token(b"c", -2.0)),)),
        Text("", logprobs=(end,)),
        Finished(("stop",), USAGE),
    ]
    expected = {
        "tokens": ["<s>", "a", " b", "c", "<end>"],
        "token_logprobs": [None, -1.0, -1.0, -2.0, -0.25],
        "top_logprobs": [None, {"x": -0.5, "a": -1.0}, {"x": -0.5, " b": -1.0}, {"c": -2.0}, {"<end>": -0.25}],
        "text_offset": [0, 0, 1, 3, 4],
    }
    # Like OpenAI, and unlike the types of its SDK, with null where there is nothing to say.
    call = read(echo=True, logprobs=1)
    (choice,) = json.loads(call.complete(collect(events)))["choices"]
    assert (choice["text"], choice["logprobs"]) == ("a bc", expected)
    encoder = CompletionEncoder(call)
    chunks = [json.loads(encoder.encode([event]).removeprefix(b"data: ")) for event in events[:4]]
    pieces = [chunk["choices"][0]["logprobs"] for chunk in chunks]
    assert {name: [value for piece in pieces for value in piece[name]] for name in expected} == expected


def test_an_echoed_prompt_makes_no_answer_the_better() -> None:
    def made(choice: int, *logprobs: float) -> Text:
        drawn = tuple(Logprob(token(b"x", value)) for value in logprobs)
        return Text(str(choice), choice, (Logprob(token(b"p", -9.0), prompt=True), *drawn))

    events = made(0, -1.5, -1.5, -1.5, -1.5), made(1, -1.0), Finished(("stop", "stop"), USAGE)
    (best,) = whole(read(echo=True, logprobs=0, best_of=2), *events)["choices"]
    assert best["text"] == "1"


def test_the_best_answers_are_those_of_the_highest_logprob_per_token() -> None:
    def made(choice: int, *logprobs: float) -> Text:
        return Text(str(choice), choice, tuple(Logprob(token(b"x", value)) for value in logprobs))

    events = (
        made(0, -1.0, -1.0),
        made(1, -0.5, -0.5, -0.5, -0.5),
        Text("2", 2),
        made(3, -3.0),
        made(4, -0.75),
        made(5, -4.0),
        Finished(("stop", "length", "stop", "stop", "length", "stop"), USAGE),
    )
    choices = whole(read(prompt=["a", "b"], n=2, best_of=3), *events)["choices"]
    assert [(choice["index"], choice["text"], choice["finish_reason"]) for choice in choices] == [
        (0, "1", "length"),
        (1, "0", "stop"),
        (2, "4", "length"),
        (3, "3", "stop"),
    ]
    assert {str(choice["logprobs"]) for choice in choices} == {"None"}


@examples(150)
@given(lawful_streams(), st.sets(st.integers(1, 12), max_size=4), st.booleans())
def test_a_stream_says_what_the_whole_answer_says(events: list[Event], cuts: set[int], asked: bool) -> None:
    if isinstance(events[-1], Failed):
        return
    count = len(events[-1].reasons) if isinstance(events[-1], Finished) else 0
    call = read(n=count, stream=True, logprobs=2 if asked else None)
    edges = [0, *sorted(cut for cut in cuts if cut < len(events)), len(events)]
    chunks = stream(call, [events[start:end] for start, end in pairwise(edges)])
    gathered: list[dict[str, Any]] = [{"text": "", "tokens": [], "offsets": []} for _ in range(count)]
    for chunk in chunks:
        (piece,) = chunk["choices"]
        choice = gathered[piece["index"]]
        assert "reason" not in choice
        choice["text"] += piece["text"]
        if piece["logprobs"]:
            choice["tokens"] += piece["logprobs"]["tokens"]
            choice["offsets"] += piece["logprobs"]["text_offset"]
        if piece["finish_reason"]:
            choice["reason"] = piece["finish_reason"]
    for choice, expected in zip(gathered, whole(call, *events)["choices"], strict=True):
        found = expected["logprobs"] or {"tokens": [], "text_offset": []}
        assert choice == {
            "text": expected["text"],
            "tokens": found["tokens"],
            "offsets": found["text_offset"],
            "reason": expected["finish_reason"],
        }


REAL: dict[str, Any] = {
    "model": "demo",
    "prompt": [[1, 2], [3]],
    "suffix": "z",
    "echo": False,
    "max_tokens": 5,
    "n": 1,
    "best_of": 2,
    "logprobs": 2,
    "stream": False,
    "temperature": 0.5,
    "logit_bias": {"1": 5},
    "stop": ["x"],
    "structured_outputs": {"choice": ["a", "b"]},
}
JSON = json_values([*REAL, "guided_json", "stream_options"])


def outcome_of(value: Any) -> CompletionCall | OrchardError:
    try:
        return parse(json.dumps(value).encode(), "request")
    except OrchardError as error:
        return error


@examples(300)
@given(st.one_of(JSON, mutated(REAL, JSON)))
def test_whatever_comes_is_a_call_or_is_refused(value: Any) -> None:
    outcome = outcome_of(value)
    if isinstance(outcome, OrchardError):
        assert outcome.kind == "invalid_request"
        assert outcome.message
        return
    for request in outcome.requests:
        assert crossed(request) == request
    assert CompletionEncoder(outcome).encode([]) == b""
