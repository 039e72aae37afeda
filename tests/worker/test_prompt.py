import time
from types import SimpleNamespace
from typing import Any

import pytest

from orchard.backends.text import GenerationDefaults, TextModel
from orchard.core.errors import OrchardError
from orchard.core.request import (
    Generate,
    Message,
    Part,
    ReasoningPart,
    Role,
    Sampling,
    TextPart,
    Tool,
    ToolCallPart,
    ToolResultPart,
)
from orchard.worker.output import Vocabulary
from orchard.worker.prompt import Prompter, _conversation
from tests.models import WINDOW


def prompter(model: TextModel, window: int = WINDOW) -> Prompter:
    return Prompter(model.tokenizer, Vocabulary(model.tokenizer), window, model.vocab_size, model.defaults)


def said(role: Role, *parts: Part | str, name: str | None = None) -> Message:
    return Message(role, tuple(TextPart(part) if isinstance(part, str) else part for part in parts), name)


def ask(*messages: Message | str, **fields: Any) -> Generate:
    return Generate(tuple(said("user", m) if isinstance(m, str) else m for m in messages), **fields)


def refusal(model: TextModel, task: Generate, window: int = WINDOW) -> OrchardError:
    with pytest.raises(OrchardError) as caught:
        prompter(model, window).prepare(task)
    return caught.value


def test_the_template_is_rendered_and_tokenised(model: TextModel) -> None:
    prepared = prompter(model).prepare(ask("Hi"))
    assert prepared.text == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert model.tokenizer.decode(prepared.tokens) == prepared.text
    assert prepared.max_tokens == WINDOW - len(prepared.tokens)


def test_max_tokens_ends_at_the_window(model: TextModel) -> None:
    assert prompter(model).prepare(ask("Hi", max_tokens=7)).max_tokens == 7
    prepared = prompter(model).prepare(ask("Hi", max_tokens=10**9))
    assert prepared.max_tokens == WINDOW - len(prepared.tokens)


def test_messages_take_the_form_that_templates_expect() -> None:
    conversation = _conversation(
        (
            said("system", "Be", "brief"),
            said("user", "Hi", name="Ada"),
            said(
                "assistant",
                ReasoningPart("Hm."),
                ToolCallPart("c1", "f", '{"a": 1}'),
                ToolCallPart("c2", "g", "nonsense"),
                ToolCallPart("c3", "h", ""),
            ),
            said("tool", ToolResultPart("c1", "one"), ToolResultPart("other", "two")),
            said("user"),
        )
    )
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}},
        {"id": "c2", "type": "function", "function": {"name": "g", "arguments": "nonsense"}},
        {"id": "c3", "type": "function", "function": {"name": "h", "arguments": {}}},
    ]
    assert conversation == [
        {"role": "system", "content": "Be\nbrief"},
        {"role": "user", "content": "Hi", "name": "Ada"},
        {"role": "assistant", "content": "", "reasoning_content": "Hm.", "tool_calls": calls},
        {"role": "tool", "content": "one", "tool_call_id": "c1", "name": "f"},
        {"role": "tool", "content": "two", "tool_call_id": "other"},
        {"role": "user", "content": ""},
    ]


def test_tools_are_given_as_openai_writes_them(model: TextModel) -> None:
    tools = (Tool("f", "does f", {"type": "object", "properties": {"a": {}}}), Tool("g"))
    text = prompter(model).prepare(ask("Hi", tools=tools)).text
    assert '{"type": "function", "function": {"name": "f", "description": "does f", "parameters": ' in text
    assert '"name": "g", "parameters": {"type": "object", "properties": {}}' in text


@pytest.mark.parametrize(
    ("arguments", "tail"),
    [
        ({}, "assistant\n"),
        ({"enable_thinking": True}, "<think>\n"),
        ({"enable_thinking": False}, "</think>\n\n"),
        ({"unknown": [1]}, "assistant\n"),
    ],
)
def test_template_arguments(model: TextModel, arguments: dict[str, Any], tail: str) -> None:
    assert prompter(model).prepare(ask("Hi", template_args=arguments)).text.endswith(tail)


@pytest.mark.parametrize(
    "name",
    ["messages", "tools", "add_generation_prompt", "chat_template", "tokenize", "conversation", "return_dict", "self"],
)
def test_reserved_template_arguments_are_refused(model: TextModel, name: str) -> None:
    error = refusal(model, ask("Hi", template_args={name: "x"}))
    assert (error.kind, error.param) == ("invalid_request", "chat_template_kwargs")
    assert name in error.message


def test_what_the_template_refuses(model: TextModel) -> None:
    error = refusal(model, ask("Hi", said("system", "late")))
    assert (error.kind, error.param) == ("invalid_request", "messages")
    assert "a system message must come first" in error.message


@pytest.mark.parametrize("name", ["namespace", "raise_exception"])
def test_a_variable_that_breaks_the_template_is_to_blame(model: TextModel, name: str) -> None:
    error = refusal(model, ask("Hi", said("system", "late"), template_args={name: 1, "enable_thinking": True}))
    assert (error.kind, error.param) == ("invalid_request", "chat_template_kwargs")
    assert f"with {name} set" in error.message
    error = refusal(model, ask("Hi", said("system", "late"), template_args={"enable_thinking": True}))
    assert error.param == "messages"


def test_no_messages(model: TextModel) -> None:
    error = refusal(model, Generate(()))
    assert (error.kind, error.param) == ("invalid_request", "messages")


@pytest.mark.parametrize("token", [-1, 324, 10**12])
def test_a_biased_token_must_exist(model: TextModel, token: int) -> None:
    error = refusal(model, ask("Hi", sampling=Sampling(logit_bias={token: 1.0})))
    assert (error.kind, error.param) == ("invalid_request", "logit_bias")
    assert "323" in error.message


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 0}, "n"),
        ({"n": 65}, "n"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"sampling": Sampling(logit_bias={1: float("nan")})}, "logit_bias"),
    ],
)
def test_what_would_break_the_engine_is_refused(model: TextModel, fields: dict[str, Any], param: str) -> None:
    error = refusal(model, ask("Hi", **fields))
    assert (error.kind, error.param) == ("invalid_request", param)


def test_a_prompt_must_leave_room_for_one_token(model: TextModel) -> None:
    size = len(prompter(model).prepare(ask("Hi")).tokens)
    assert prompter(model, size + 1).prepare(ask("Hi")).max_tokens == 1
    error = refusal(model, ask("Hi"), window=size)
    assert error.kind == "context_length_exceeded"
    assert f"maximum context length is {size} tokens" in error.message
    assert f"resulted in {size} tokens" in error.message


@pytest.mark.parametrize(
    "task",
    [
        ask("word " * 480_000),
        ask("x" * 3_000_000),
        ask("水" * 1_000_000),
        ask(" " * 3_000_000),
        ask(*["Hi"] * 10_000),
        ask(*["word " * 1000] * 480),
        ask("Hi", said("assistant", *[ToolCallPart("c", "f", "{}")] * 600_000)),
        ask("Hi", said("tool", *[ToolResultPart("c", "")] * 600_000)),
        ask("Hi", said("tool", ToolResultPart("c", "word " * 480_000))),
    ],
)
def test_a_huge_prompt_is_refused_at_once(model: TextModel, task: Generate) -> None:
    own = prompter(model)
    begin = time.perf_counter()
    with pytest.raises(OrchardError) as caught:
        own.prepare(task)
    assert caught.value.kind == "context_length_exceeded"
    assert time.perf_counter() - begin < 1


def test_the_lower_bound_is_one(model: TextModel) -> None:
    own = prompter(model, 10)
    for text in (
        "a b\n\nc" * 30,
        "thank you." * 50,
        "Hello, how are you? " * 20,
        "\t \n" * 99,
        "é" * 40,
        "x" * 200_000,
    ):
        tokens = len(model.tokenizer.encode(text, add_special_tokens=False))
        assert own._fewest_tokens([text]) <= tokens
        assert own._fewest_tokens([text[:7], text[7:50], text[50:]]) <= tokens


def test_what_a_template_may_leave_out_does_not_count(model: TextModel) -> None:
    own = prompter(model, 10)
    long = "word " * 100
    left_out = ask(said("system", long), said("user", " " * 500), said("assistant", ReasoningPart(long), long))
    assert own._fewest_of(left_out.messages) == 3
    assert own._fewest_of((said("user", long),)) > 10


def rewritten(model: TextModel, template: str) -> Prompter:
    own = prompter(model)

    def render(conversation: Any, **variables: Any) -> str:
        text: str = model.tokenizer._tokenizer.apply_chat_template(
            conversation, chat_template=template, tokenize=False, **variables
        )
        return text

    own._tokenizer = SimpleNamespace(_chat_template=render)
    return own


@pytest.mark.parametrize("template", ["{{% bad", "{% if x %}", "{{ messages | no_such_filter }}"])
def test_a_template_that_does_not_compile_is_no_model(model: TextModel, template: str) -> None:
    with pytest.raises(OrchardError, match="chat template is broken: line 1: ") as caught:
        rewritten(model, template).check_template()
    assert caught.value.kind == "model_failed"


@pytest.mark.parametrize("template", ["{{ raise_exception('no system message') }}", "{{ messages[7].content.x }}"])
def test_a_template_may_refuse_a_lone_message(model: TextModel, template: str) -> None:
    rewritten(model, template).check_template()


def test_sampling_is_the_requests_then_the_models(model: TextModel) -> None:
    own = prompter(model)
    assert model.defaults == GenerationDefaults(temperature=0.7, top_k=20)
    params = own.prepare(ask("Hi")).params
    assert (params.temperature, params.top_k, params.top_p) == (0.7, 20, 1.0)
    wanted = Sampling(temperature=0.0, top_k=0, top_p=0.5, min_p=0.1, repetition_penalty=1.1, seed=3)
    params = own.prepare(ask("Hi", sampling=wanted, top_logprobs=2)).params
    assert (params.temperature, params.top_k, params.top_p, params.min_p) == (0.0, 0, 0.5, 0.1)
    assert (params.repetition_penalty, params.seed, params.top_logprobs) == (1.1, 3, 2)


def test_without_a_seed_it_is_fresh(model: TextModel) -> None:
    own = prompter(model)
    assert own.prepare(ask("Hi")).params.seed != own.prepare(ask("Hi")).params.seed
