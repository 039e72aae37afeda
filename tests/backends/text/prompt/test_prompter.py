import copy
import dataclasses
import itertools
import json
from types import SimpleNamespace
from typing import Any

import pytest
from mlx_lm.tokenizer_utils import TokenizerWrapper
from msgspec.structs import replace
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from orchard.backends.text.model import TextModel
from orchard.backends.text.output import Vocabulary
from orchard.backends.text.prompt.prompter import PreparedPrompt, Prompter
from orchard.core.errors import OrchardError
from orchard.core.media import MediaKind, MediaPart
from orchard.core.tasks.generate import (
    Generate,
    Grammar,
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
from orchard.core.tasks.text_options import SamplingDefaults, TextOptions
from orchard.formats.format import CallStart
from tests.support.models import WINDOW


def prompter(model: TextModel, window: int = WINDOW) -> Prompter:
    return like(model, model.tokenizer, window)


def like(model: TextModel, tokenizer: Any, window: int = WINDOW, **options: Any) -> Prompter:
    model = dataclasses.replace(model, tokenizer=tokenizer, context_window=window)
    return Prompter(model, Vocabulary(tokenizer), TextOptions(**options))


def said(role: Role, *parts: Part | str, name: str | None = None) -> Message:
    return Message(role, tuple(TextPart(part) if isinstance(part, str) else part for part in parts), name)


def ask(*messages: Message | str, **fields: Any) -> Generate:
    return Generate(tuple(said("user", m) if isinstance(m, str) else m for m in messages), **fields)


def refused(own: Prompter, task: Generate) -> OrchardError:
    with pytest.raises(OrchardError) as caught:
        own.prepare(task)
    return caught.value


def refusal(model: TextModel, task: Generate, window: int = WINDOW) -> OrchardError:
    return refused(prompter(model, window), task)


def test_the_template_is_rendered_and_tokenised(model: TextModel) -> None:
    prepared = prompter(model).prepare(ask("Hi"))
    assert prepared.text == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert model.tokenizer.decode(prepared.tokens) == prepared.text
    assert prepared.max_tokens == WINDOW - len(prepared.tokens)


def test_an_unknown_format_is_told_in_the_log(model: TextModel, caplog: pytest.LogCaptureFixture) -> None:
    prompter(model)
    assert "no format that is known" not in caplog.text
    other = copy.deepcopy(model.tokenizer._tokenizer)
    other.chat_template = other.chat_template.replace("tool_call>", "new_call>")
    unknown = TokenizerWrapper(other)
    like(model, unknown)
    (told,) = [record.getMessage() for record in caplog.records if "no format that is known" in record.getMessage()]
    assert told.startswith("the chat template writes tool calls in no format that is known")
    assert told.endswith("choose it with --tool-call-parser")
    caplog.clear()
    like(model, unknown, tool_call_parser="hermes")
    assert "no format that is known" not in caplog.text


def test_max_tokens_ends_at_the_window(model: TextModel) -> None:
    assert prompter(model).prepare(ask("Hi", max_tokens=7)).max_tokens == 7
    prepared = prompter(model).prepare(ask("Hi", max_tokens=10**9))
    assert prepared.max_tokens == WINDOW - len(prepared.tokens)


def test_tools_are_in_the_prompt(model: TextModel) -> None:
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


PICKY = "{% if messages | length > 1 %}{{ raise_exception('one message') }}{% endif %}"


def test_what_the_template_refuses(model: TextModel) -> None:
    own = like(model, retold(model, PICKY + CHATML + OPEN))
    error = refused(own, ask("Hi", said("assistant", "Hm."), "Go on"))
    assert (error.kind, error.param) == ("invalid_request", "messages")
    assert "one message" in error.message


@pytest.mark.parametrize("name", ["namespace", "raise_exception"])
def test_a_variable_that_breaks_the_template_is_to_blame(model: TextModel, name: str) -> None:
    own = like(model, retold(model, PICKY + CHATML + OPEN))
    conversation = ("Hi", said("assistant", "Hm."), "Go on")
    error = refused(own, ask(*conversation, template_args={name: 1, "enable_thinking": True}))
    assert (error.kind, error.param) == ("invalid_request", "chat_template_kwargs")
    assert f"with {name} set" in error.message
    assert refused(own, ask(*conversation, template_args={"enable_thinking": True})).param == "messages"


def test_a_late_system_message_stays_where_it_is(model: TextModel) -> None:
    text = prompter(model).prepare(ask("Hi", said("assistant", "Hm."), said("system", "late"), "Go on")).text
    assert text.index("Hm.") < text.index("late") < text.index("Go on")


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


def test_a_prediction_that_no_answer_could_hold_is_refused(model: TextModel) -> None:
    text = "word " * 20
    size = len(model.tokenizer.encode(text, add_special_tokens=False))
    assert len(prompter(model, size).prepare(ask("Hi", prediction=text)).prediction) == size
    for wanted, count in ((text, f"{size}"), (25 * text, "at least ")):
        error = refusal(model, ask("Hi", prediction=wanted), window=size - 1)
        assert (error.kind, error.param) == ("context_length_exceeded", "prediction")
        told = f"maximum context length is {size - 1} tokens. However, your prediction resulted in {count}"
        assert told in error.message


def test_what_is_only_counted_may_be_too_long(model: TextModel) -> None:
    own = prompter(model, 50)
    assert own.count_tokens(ask("word " * 20)) > 50
    with pytest.raises(OrchardError) as caught:
        own.count_tokens(ask("word " * 480_000))
    assert caught.value.kind == "context_length_exceeded"


def test_what_is_counted_and_must_fit_is_what_can_be_answered(model: TextModel) -> None:
    size = len(prompter(model).prepare(ask("Hi")).tokens)
    assert prompter(model, size + 1).count_tokens(ask("Hi"), must_fit=True) == size
    with pytest.raises(OrchardError) as caught:
        prompter(model, size).count_tokens(ask("Hi"), must_fit=True)
    expected = refusal(model, ask("Hi"), window=size)
    assert (caught.value.kind, caught.value.message) == (expected.kind, expected.message)


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
        ask("Hi", said("tool", *[ToolResultPart("c", ())] * 600_000)),
        ask("Hi", said("tool", ToolResultPart("c", (TextPart("word " * 480_000),)))),
    ],
)
@pytest.mark.parametrize("longest", [None, 10**6])
def test_a_huge_prompt_is_refused_before_all_of_it_is_tokenised(
    model: TextModel, task: Generate, longest: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = prompter(model)
    if longest:  # a token that is this long makes the cheap bounds say nothing
        monkeypatch.setattr(own, "_longest_token", longest)
        monkeypatch.setattr(own, "_most_words", longest)
    encode, encoded = own._encode, 0

    def counted(text: str) -> list[int]:
        nonlocal encoded
        encoded += len(text)
        return encode(text)

    monkeypatch.setattr(own._sections, "_encode", counted)
    with pytest.raises(OrchardError) as caught:
        own.prepare(task)
    assert caught.value.kind == "context_length_exceeded"
    assert encoded < 200_000


def test_a_huge_suffix_is_refused_before_all_of_it_is_tokenised(model: TextModel) -> None:
    error = refused(prompter(model), Generate(prompt="a", suffix="word " * 480_000))
    assert (error.kind, error.param) == ("context_length_exceeded", "suffix")


def test_of_a_text_to_embed_the_end_is_cut_off_as_if_all_were_tokenised(model: TextModel) -> None:
    text = "".join(f"{number} words, " for number in range(40_000))
    tokens = model.tokenizer.encode(text, add_special_tokens=False)
    own = prompter(model)
    assert own.input_tokens(text, "input", truncate=True).tokens == tokens[:WINDOW]
    with pytest.raises(OrchardError, match="has at least"):
        own.input_tokens(text, "input", truncate=False)


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
        assert own._fewest_text_tokens([text], 10) <= tokens
        assert own._fewest_text_tokens([text[:7], text[7:50], text[50:]], 10) <= tokens


def test_what_a_template_may_leave_out_does_not_count(model: TextModel) -> None:
    own = prompter(model, 10)
    long = "word " * 100
    left_out = ask(said("system", long), said("user", " " * 500), said("assistant", ReasoningPart(long), long))
    assert own._fewest_prompt_tokens(left_out.messages, 10) == 3
    assert own._fewest_prompt_tokens((said("user", long),), 10) > 10


def rewritten(model: TextModel, template: str) -> Prompter:
    own = prompter(model)

    def render(conversation: Any, **variables: Any) -> str:
        text: str = model.tokenizer._tokenizer.apply_chat_template(
            conversation, chat_template=template, tokenize=False, **variables
        )
        return text

    own.template._tokenizer = SimpleNamespace(_chat_template=render)
    return own


@pytest.mark.parametrize("template", ["{{% bad", "{% if x %}", "{{ messages | no_such_filter }}"])
def test_a_template_that_does_not_compile_is_no_model(model: TextModel, template: str) -> None:
    with pytest.raises(OrchardError, match="chat template is broken: line 1: ") as caught:
        rewritten(model, template).template.check()
    assert caught.value.kind == "model_failed"


@pytest.mark.parametrize("template", ["{{ raise_exception('no system message') }}", "{{ messages[7].content.x }}"])
def test_a_template_may_refuse_a_lone_message(model: TextModel, template: str) -> None:
    rewritten(model, template).template.check()


def test_sampling_is_the_requests_then_the_models(model: TextModel) -> None:
    own = prompter(model)
    assert model.defaults == SamplingDefaults(temperature=0.7, top_k=20)
    params = own.prepare(ask("Hi")).params
    assert (params.temperature, params.top_k, params.top_p) == (0.7, 20, 1.0)
    wanted = Sampling(temperature=0.0, top_k=0, top_p=0.5, min_p=0.1, repetition_penalty=1.1, seed=3)
    params = own.prepare(ask("Hi", sampling=wanted, top_logprobs=2)).params
    assert (params.temperature, params.top_k, params.top_p, params.min_p) == (0.0, 0, 0.5, 0.1)
    assert (params.repetition_penalty, params.seed, params.top_logprobs) == (1.1, 3, 2)


def test_the_options_defaults_come_between_the_models_and_the_requests(model: TextModel) -> None:
    defaults = SamplingDefaults(
        temperature=0.2,
        top_p=0.8,
        presence_penalty=0.5,
        frequency_penalty=-0.5,
        repetition_penalty=1.3,
        xtc_probability=0.1,
        xtc_threshold=0.3,
        repetition_context_size=20,
        presence_context_size=21,
        frequency_context_size=22,
        seed=7,
    )
    own = like(model, model.tokenizer, defaults=defaults)
    params = own.prepare(ask("Hi")).params
    assert params.top_k == model.defaults.top_k == 20
    given = {name: value for name in SamplingDefaults.__struct_fields__ if (value := getattr(defaults, name))}
    assert {name: getattr(params, name) for name in given} == given
    numbers = ("temperature", "presence_penalty", "frequency_penalty", "xtc_probability")
    zeros: dict[str, Any] = dict.fromkeys(numbers, 0.0)
    counts = ("repetition_context_size", "presence_context_size", "frequency_context_size", "top_k", "seed")
    whole: dict[str, Any] = dict.fromkeys(counts, 0)
    params = own.prepare(ask("Hi", sampling=Sampling(**zeros, **whole, top_p=1.0))).params
    assert {name: getattr(params, name) for name in zeros} == zeros
    assert {name: getattr(params, name) for name in whole} == whole
    assert (params.top_p, params.repetition_penalty) == (1.0, 1.3)


def test_without_a_seed_every_answer_has_its_own(model: TextModel) -> None:
    own = prompter(model)
    assert len({own.prepare(ask("Hi")).params.seed for _ in range(5)}) == 5


@pytest.mark.parametrize(
    ("default", "generation", "wanted", "expected"),
    [
        (None, None, None, "left"),
        (None, 9, None, 9),
        (7, 9, None, 7),
        (7, 9, 30, 30),
        (None, 9, 30, 30),
        (10**6, None, None, "left"),
    ],
)
def test_how_long_an_answer_becomes(
    model: TextModel, default: int | None, generation: int | None, wanted: int | None, expected: int | str
) -> None:
    own = like(dataclasses.replace(model, max_new_tokens=generation), model.tokenizer, max_tokens=default)
    prepared = own.prepare(ask("Hi", max_tokens=wanted))
    assert prepared.max_tokens == (WINDOW - len(prepared.tokens) if expected == "left" else expected)


OPENED, ENDED, NOTHING = "assistant\n<think>\n", "</think>\n\n", "assistant\n"


@pytest.mark.parametrize(
    ("options", "given", "budget", "tail"),
    [
        ({}, {}, None, NOTHING),
        ({"enable_thinking": True}, {}, None, OPENED),
        ({"enable_thinking": False}, {}, None, ENDED),
        ({"enable_thinking": True}, {"enable_thinking": False}, None, ENDED),
        ({"enable_thinking": False}, {"enable_thinking": True}, None, OPENED),
        ({"thinking_budget": 5}, {}, 5, OPENED),
        ({"thinking_budget": 5}, {"enable_thinking": False}, None, ENDED),
        ({"thinking_budget": 5, "enable_thinking": False}, {}, None, ENDED),
        ({"thinking_budget": 5, "enable_thinking": False}, {"enable_thinking": True}, 5, OPENED),
        ({"thinking_budget": 0}, {}, None, ENDED),
        ({"thinking_budget": 0}, {"enable_thinking": True}, None, OPENED),
    ],
)
def test_how_a_model_thinks_by_default(
    model: TextModel, options: dict[str, Any], given: dict[str, Any], budget: int | None, tail: str
) -> None:
    own = like(model, model.tokenizer, **options)
    prepared = own.prepare(ask("Hi", template_args=given))
    assert prepared.params.thinking_budget == budget
    assert prepared.text.endswith(tail)
    assert own.count_tokens(ask("Hi", template_args=given)) == len(prepared.tokens)


SWITCHED = "{% if add_generation_prompt %}{{ '<think>' if thinking else '</think>' }}{% endif %}"
MODES = "{% if add_generation_prompt %}{{ {'on': '<think>', 'off': '</think>'}[thinking_mode or 'on'] }}{% endif %}"


@pytest.mark.parametrize(
    ("tail", "options", "given", "budget"),
    [
        (SWITCHED, {}, {"enable_thinking": True}, "open"),
        (SWITCHED, {}, {}, None),
        (SWITCHED, {"enable_thinking": True}, {}, "open"),
        (SWITCHED, {"enable_thinking": True}, {"thinking": False}, None),
        (SWITCHED, {"thinking_budget": 5}, {}, 5),
        (SWITCHED, {"thinking_budget": 5}, {"thinking": False}, None),
        (SWITCHED, {"thinking_budget": 0}, {"thinking": True}, "open"),
        (SWITCHED, {}, {"enable_thinking": True, "thinking": False}, None),
        (MODES, {}, {"enable_thinking": False}, None),
        (MODES, {"enable_thinking": False}, {"thinking_mode": "on"}, "open"),
    ],
)
def test_a_template_with_a_switch_of_another_name(
    model: TextModel, tail: str, options: dict[str, Any], given: dict[str, Any], budget: int | str | None
) -> None:
    """The caller's own value goes before everything."""
    own = like(model, retold(model, CHATML + tail), **options)
    prepared = own.prepare(ask("Hi", template_args=given))
    assert prepared.text.endswith("</think>" if budget is None else "<think>")
    assert prepared.params.thinking_budget == (budget if budget != "open" else None)


NO_THINK = (
    "{% if reasoning_effort not in ['low', 'high', 'no_think'] %}{{ raise_exception('what effort?') }}{% endif %}"
    "{% if add_generation_prompt %}{{ '</think>' if reasoning_effort == 'no_think' else '<think>' }}{% endif %}"
).replace("reasoning_effort", "(reasoning_effort or 'high')")


@pytest.mark.parametrize("effort", ["none", "low", "medium", "high", "max"])
@pytest.mark.parametrize("options", [{}, {"enable_thinking": False}])
def test_thinking_that_is_turned_off_goes_before_an_effort(
    model: TextModel, effort: str, options: dict[str, Any]
) -> None:
    own = like(model, retold(model, CHATML + NO_THINK), **options)
    given = {"reasoning_effort": effort} | ({} if options else {"enable_thinking": False})
    assert own.prepare(ask("Hi", template_args=given)).text.endswith("</think>")
    thinking = own.prepare(ask("Hi", template_args={"reasoning_effort": effort, "enable_thinking": True}))
    assert thinking.text.endswith("<think>")


def test_what_a_switch_is_set_to_is_not_laid_to_the_caller(model: TextModel) -> None:
    own = like(model, retold(model, PICKY + CHATML + SWITCHED))
    conversation = ("Hi", said("assistant", "Hm."), "Go on")
    assert refused(own, ask(*conversation, template_args={"enable_thinking": True})).param == "messages"
    assert refused(own, ask(*conversation, template_args={"thinking": True})).param == "chat_template_kwargs"


def test_a_requests_budget_goes_before_the_options(model: TextModel) -> None:
    own = like(model, model.tokenizer, thinking_budget=5)
    assert own.prepare(ask("Hi", thinking_budget=3)).params.thinking_budget == 3
    raw = own.prepare(Generate(prompt="Hi"))
    assert (raw.params.thinking_budget, raw.text) == (None, "Hi")


def test_a_template_is_told_the_budget(model: TextModel) -> None:
    template = "{% for m in messages %}{{ m.content }}{% endfor %} {{ thinking_budget }} {{ enable_thinking }}"
    own = like(model, retold(model, template), thinking_budget=5)
    assert own.prepare(ask("Hi")).text == "Hi 5 True"


def test_every_field_of_sampling_reaches_the_engine(model: TextModel) -> None:
    wanted = Sampling(
        xtc_probability=0.5,
        xtc_threshold=0.2,
        repetition_context_size=1,
        presence_context_size=2,
        frequency_context_size=3,
    )
    params = prompter(model).prepare(ask("Hi", sampling=wanted)).params
    assert (params.xtc_probability, params.xtc_threshold) == (0.5, 0.2)
    assert (params.repetition_context_size, params.presence_context_size, params.frequency_context_size) == (1, 2, 3)
    end_of_line = model.tokenizer.encode("\n", add_special_tokens=False)
    assert set(params.xtc_keep) == {*end_of_line, *model.eos_token_ids}
    assert (params.thinking_budget, params.think_end) == (None, token(model, "</think>"))


def token(model: TextModel, text: str) -> int:
    id_: int = model.tokenizer.convert_tokens_to_ids(text)
    return id_


@pytest.mark.parametrize(
    ("arguments", "budget", "opens", "tail"),
    [
        ({"enable_thinking": True}, 5, False, "assistant\n<think>\n"),
        ({}, 5, True, "assistant\n"),
        ({"enable_thinking": False}, None, True, "</think>\n\n"),
    ],
)
def test_the_budget_of_thinking_counts_from_its_beginning(
    model: TextModel, arguments: dict[str, Any], budget: int | None, opens: bool, tail: str
) -> None:
    """A model that is left to open its reasoning itself is not made to."""
    prepared = prompter(model).prepare(ask("Hi", thinking_budget=5, template_args=arguments))
    params = prepared.params
    assert (params.thinking_budget, params.think_end) == (budget, token(model, "</think>"))
    assert params.think_start == (token(model, "<think>") if opens else -1)
    assert set(params.think_blank) >= set(model.tokenizer.encode("\n", add_special_tokens=False))
    assert prepared.text.endswith(tail)
    assert model.tokenizer.decode(prepared.tokens) == prepared.text


def test_the_budget_counts_from_the_answer_where_a_parser_assumes_that_it_thinks(model: TextModel) -> None:
    params = like(model, model.tokenizer, reasoning_parser="deepseek_r1").prepare(ask("Hi", thinking_budget=5)).params
    assert (params.thinking_budget, params.think_start) == (5, -1)


@pytest.mark.parametrize(("max_tokens", "left", "thinks"), [(5, 99, False), (99, 99, True), (None, 5, False)])
def test_a_model_begins_to_think_where_there_is_room_for_its_answer_too(
    model: TextModel, max_tokens: int | None, left: int, thinks: bool
) -> None:
    task = ask("Hi", grammar=Grammar("choice", ["yes", "no"], "guided_choice"), max_tokens=max_tokens)
    window = len(prompter(model).prepare(task).tokens) + left
    own = like(model, model.tokenizer, window)
    constraint = own.prepare(task).constraint
    assert constraint
    grammar = own.constraints.compile(constraint)
    own.grammars.close()
    assert grammar
    assert bool(grammar.reasoning) is thinks


def test_a_template_that_always_leaves_thinking_open_is_not_forced_to_think(model: TextModel) -> None:
    template = "<think></think>{% for m in messages %}<|im_start|>user\n{{ m.content }}<|im_end|>\n{% endfor %}"
    own = like(model, retold(model, template))
    prepared = own.prepare(ask("Hi", thinking_budget=5, template_args={"enable_thinking": False}))
    assert (prepared.text[-11:], prepared.params.thinking_budget) == ("<|im_end|>\n", None)


def retold(model: TextModel, template: str | None, tokenizer: Any = None) -> TokenizerWrapper:
    """A tokenizer with another chat template."""
    other = copy.deepcopy(tokenizer or model.tokenizer._tokenizer)
    other.chat_template = template
    return TokenizerWrapper(other)


CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
OPEN = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"


def test_without_a_token_that_ends_the_reasoning_a_budget_is_the_templates_affair(model: TextModel) -> None:
    prepared = like(model, retold(model, CHATML + OPEN)).prepare(ask("Hi", thinking_budget=5))
    assert (prepared.params.think_end, prepared.params.thinking_budget) == (-1, None)


@pytest.mark.parametrize("kind", ["image", "audio", "video"])
@pytest.mark.parametrize("within", [False, True])
def test_media_are_refused(model: TextModel, kind: MediaKind, within: bool) -> None:
    medium = MediaPart(kind, "", "messages[0].content[0]", data=b"x")
    error = refusal(model, ask("Hi", said("user", ToolResultPart("c", (medium,)) if within else medium)))
    assert (error.kind, error.param) == ("invalid_request", "messages[0].content[0]")
    assert "mlx-orchard[vision]" in error.message


def test_documents_are_read_by_every_model(model: TextModel) -> None:
    note = MediaPart("document", "", "messages[0].content[1]", data=b"The sea is blue.", name="note.txt")
    prepared = prompter(model).prepare(ask("Read this:", said("user", TextPart("It says:"), note)))
    assert "It says:\nnote.txt:\nThe sea is blue.<|im_end|>" in prepared.text
    broken = replace(note, data=b"\xff\xfe\x00")
    error = refusal(model, ask("Hi", said("user", broken)))
    assert (error.kind, error.param) == ("invalid_request", "messages[0].content[1]")


def test_the_last_message_is_continued(model: TextModel) -> None:
    own = prompter(model)
    prepared = own.prepare(ask("Hi", said("assistant", "Hi, I "), continue_last=True))
    assert prepared.text == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHi, I "
    fresh = own.prepare(ask("Hi", said("assistant", ""), continue_last=True))
    assert fresh.text == own.prepare(ask("Hi")).text


def test_a_last_message_of_blocks_is_continued(model: TextModel) -> None:
    blocks = "{% for b in m.content %}{{ b.thinking if b.type == 'thinking' else b.text }}|{% endfor %}"
    content = "{% if m.content is string %}{{ m.content }}{% else %}" + blocks + "{% endif %}"
    own = like(model, retold(model, CHATML.replace("{{ m.content }}", content) + OPEN))
    prepared = own.prepare(ask("Hi", said("assistant", ReasoningPart("Hm."), "Hi, I "), continue_last=True))
    assert prepared.text.endswith("assistant\nHm.|Hi, I ")


THOUGHTFUL = CHATML.replace(
    "{{ m.content }}",
    "{% if m.reasoning_content and loop.last %}<think>\n{{ m.reasoning_content.strip() }}\n</think>\n\n{% endif %}"
    "{{ m.content }}",
)


def test_a_last_message_of_reasoning_alone_is_continued_within_it(model: TextModel) -> None:
    own = like(model, retold(model, THOUGHTFUL + OPEN))
    for thought in ("Hm. Or", " Hm. Or\n"):
        conversation = ("Hm. Or", said("assistant", ReasoningPart(thought)))
        prepared = own.prepare(ask(*conversation, continue_last=True, thinking_budget=9))
        assert model.tokenizer.decode(prepared.tokens).endswith("<|im_start|>assistant\n<think>\nHm. Or")
        assert prepared.text.endswith("<|im_start|>assistant\n<think>\n")
        assert (prepared.params.thinking_budget, prepared.params.think_start) == (9, -1)
    grammar = Grammar("choice", ["yes"], "guided_choice")
    bound = own.prepare(ask(*conversation, continue_last=True, grammar=grammar)).constraint
    assert bound
    assert bound.reasoning
    assert bound.reasoning.opened
    begun = own.prepare(ask("Hi", said("assistant", ReasoningPart("Hm."), "So, "), continue_last=True))
    assert begun.text.endswith("<think>\nHm.\n</think>\n\nSo, ")


@pytest.mark.parametrize("template", [CHATML, THOUGHTFUL.replace("<think>", "<so>")])
def test_reasoning_that_a_template_does_not_show_as_such_cant_be_continued(model: TextModel, template: str) -> None:
    own = like(model, retold(model, template + OPEN))
    error = refused(own, ask("Hm.", said("assistant", ReasoningPart("Hm.")), continue_last=True))
    assert (error.kind, error.param) == ("invalid_request", "messages")
    assert "doesn't show the reasoning of the last message" in error.message


def test_a_template_that_trims_the_last_message_is_continued_at_its_last_word(model: TextModel) -> None:
    trimming = CHATML.replace("{{ m.content }}", "{{ m.content | trim }}")
    own = like(model, retold(model, trimming + OPEN))
    assert own.prepare(ask("Hi", said("assistant", "So, "), continue_last=True)).text.endswith("assistant\nSo,")


def test_a_template_that_hides_the_last_message_cant_be_continued(model: TextModel) -> None:
    own = like(model, retold(model, CHATML.replace("{{ m.content }}", "{{ m.content | upper }}") + OPEN))
    error = refused(own, ask("Hi", said("assistant", "So,"), continue_last=True))
    assert (error.kind, error.param) == ("invalid_request", "messages")


def test_a_model_without_a_template_takes_raw_prompts_only(model: TextModel) -> None:
    own = like(model, retold(model, None))
    own.template.check()
    assert own.prepare(Generate(prompt="The sea")).text == "The sea"
    error = refused(own, ask("Hi"))
    assert (error.kind, error.param) == ("invalid_request", "messages")
    assert "no chat template" in error.message
    assert "--chat-template-file" in error.message


def test_a_raw_prompt_is_taken_as_it_is(model: TextModel) -> None:
    own = prompter(model)
    prepared = own.prepare(Generate(prompt="The sea <|im_end|>"))
    assert model.tokenizer.decode(prepared.tokens) == prepared.text == "The sea <|im_end|>"
    assert (prepared.boundaries, prepared.max_tokens) == ((), WINDOW - len(prepared.tokens))
    again = own.prepare(Generate(prompt=tuple(prepared.tokens), max_tokens=0))
    assert (again.tokens, again.text, again.max_tokens) == (prepared.tokens, prepared.text, 0)
    assert own.prepare(Generate(prompt="")).tokens == [model.tokenizer.eos_token_id]


@pytest.mark.parametrize(
    ("prompt", "kind"),
    [
        ((0, 324), "invalid_request"),
        ((-1,), "invalid_request"),
        ((1,) * WINDOW, "context_length_exceeded"),
        ("word " * 480_000, "context_length_exceeded"),
    ],
)
def test_a_raw_prompt_that_is_refused(model: TextModel, prompt: str | tuple[int, ...], kind: str) -> None:
    error = refusal(model, Generate(prompt=prompt))
    assert (error.kind, error.param) == (kind, "prompt")


def parts_of(model: TextModel, prepared: PreparedPrompt) -> list[str]:
    """The prompt, cut at its boundaries."""
    places = [0, *prepared.boundaries, len(prepared.tokens)]
    return [model.tokenizer.decode(prepared.tokens[start:stop]) for start, stop in itertools.pairwise(places)]


def test_boundaries_are_where_messages_end(model: TextModel) -> None:
    conversation = (said("system", "S"), said("user", "U"), said("assistant", "A"), said("user", "V"))
    head = [
        "<|im_start|>system\nS",
        "<|im_end|>\n<|im_start|>user\nU",
        "<|im_end|>\n<|im_start|>assistant\nA",
    ]
    last, opening = "<|im_end|>\n<|im_start|>user\nV", "<|im_end|>\n<|im_start|>assistant\n"
    own = prompter(model)
    assert parts_of(model, own.prepare(ask(*conversation))) == [*head, last + opening]  # the next turn has the opening
    thinking = own.prepare(ask(*conversation, template_args={"enable_thinking": True}))
    assert parts_of(model, thinking) == [*head, last, opening + "<think>\n"]


@pytest.mark.parametrize(
    "opening",
    [
        "{% if add_generation_prompt %}assistant: {% endif %}",
        "{% if add_generation_prompt %}<tool_call>{% endif %}",
        "{% if messages[1] is not defined %}{{ raise_exception('two') }}{% endif %}" + OPEN + "<think>",
    ],
)
def test_boundaries_before_an_answer_that_is_opened_otherwise(model: TextModel, opening: str) -> None:
    own = like(model, retold(model, CHATML + opening))
    prepared = own.prepare(ask(said("user", "U"), said("assistant", "A"), said("user", "V")))
    first, answer, question, last = parts_of(model, prepared)
    assert [first, answer] == ["<|im_start|>user\nU", "<|im_end|>\n<|im_start|>assistant\nA"]
    assert question == "<|im_end|>\n<|im_start|>user\nV"
    assert last.startswith("<|im_end|>\n")


def test_a_template_that_is_all_words_has_no_boundaries(model: TextModel) -> None:
    own = like(model, retold(model, "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"))
    assert own.prepare(ask(said("user", "U"), said("assistant", "A"), said("user", "V"))).boundaries == ()


def test_a_tokenizer_without_such_tokens_has_no_boundaries(model: TextModel) -> None:
    plain = Tokenizer(models.BPE())
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = decoders.ByteLevel()
    plain.train_from_iterator(
        [], trainers.BpeTrainer(initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    )
    own = like(model, retold(model, CHATML + OPEN, PreTrainedTokenizerFast(tokenizer_object=plain)))
    prepared = own.prepare(ask("U", said("assistant", "A"), "V"))
    assert (prepared.boundaries, prepared.params.think_end) == ((), -1)


def test_without_a_seed_it_is_fresh(model: TextModel) -> None:
    own = prompter(model)
    assert own.prepare(ask("Hi")).params.seed != own.prepare(ask("Hi")).params.seed


def test_parsers_and_a_converter_can_be_named(model: TextModel) -> None:
    own = like(model, model.tokenizer, tool_call_parser="mistral", reasoning_parser="none", message_converter="mistral")
    assert (own.family.name, own.family.reasoning_tags) == ("mistral", None)
    calls = [json.loads(line) for line in own.prepare(CALLED).text.splitlines() if line.startswith("{")]
    assert calls == [{"name": "f", "arguments": {"a": 1}}]


CALLED = ask(
    "Hi", said("assistant", ToolCallPart("call_1", "f", '{"a": 1}')), said("tool", ToolResultPart("call_1", ()))
)


BARE = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
LISTING = "{{ tools | tojson if tools }}" + BARE
HERMES = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
LFM = "<|tool_call_start|>[f()]<|tool_call_end|>"
NEMOTRON = '<TOOLCALL>[{"name": "f", "arguments": {}}]</TOOLCALL>'


@pytest.mark.parametrize(
    ("template", "parser", "texts", "forced"),
    [
        (BARE, "", (HERMES,), "<tool_call>"),
        (BARE, "lfm2", (HERMES, LFM), "<tool_call>"),
        ("{# <TOOLCALL> #}" + BARE, "", (HERMES, NEMOTRON), "<tool_call>"),
        (LISTING, "lfm2", (HERMES, LFM), "<|tool_call_start|>"),
    ],
)
def test_calls_are_read_as_the_prompt_shows_them(
    model: TextModel, template: str, parser: str, texts: tuple[str, ...], forced: str
) -> None:
    own = like(model, retold(model, template), tool_call_parser=parser or None)
    tools = (Tool("f"),)
    prompt = own.prepare(replace(CALLED, tools=tools)).text
    assert '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>' in prompt
    for text in texts:
        pieces = own.family.begin(prompt, tools).feed(text)
        assert pieces[0] == CallStart("f")
    shape = own.family.calls_grammar(tools)
    assert shape
    assert (shape.prefix + shape.calls[0].begin).startswith(forced)


@pytest.mark.parametrize("option", ["tool_call_parser", "reasoning_parser", "message_converter"])
def test_a_name_that_isnt_known_fails_the_load(model: TextModel, option: str) -> None:
    with pytest.raises(OrchardError, match=f"'nobody' is not a known {option}; the known ones are .*mistral") as caught:
        like(model, model.tokenizer, WINDOW, **{option: "nobody"})
    assert caught.value.kind == "model_failed"
