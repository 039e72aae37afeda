"""Small templates, each with one habit of a real one."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast
from transformers.utils.chat_template_utils import render_jinja_template

from orchard.backends.text.prompt.chat_messages import EFFORTS, Efforts, Switch, TemplateCapabilities
from orchard.backends.text.prompt.template_probe import probe_template, unread_parts
from orchard.formats.registry import choose_family, template_converter

TOOLS = "{% if tools %}{% for t in tools %}{{ t | tojson }}{% endfor %}{% endif %}"
CALLS = "{% for c in m.tool_calls or [] %}{{ c.function.name + c.function.arguments | tojson }}{% endfor %}"


def each(body: str) -> str:
    return "{% for m in messages %}" + body + "{% endfor %}"


def plain(calls: str = CALLS) -> str:
    return TOOLS + each(
        "[{{ m.role }}]{{ m.reasoning_content if m.reasoning_content }}{{ m.content if m.content }}" + calls
    )


ALTERNATING = (
    "{% set ns = namespace(last='assistant') %}"
    + each(
        "{% if m.role == 'system' and loop.first %}{{ m.content }}"
        "{% elif m.role == ns.last or m.role not in ('user', 'assistant') %}{{ raise_exception('must alternate') }}"
        "{% else %}{% set ns.last = m.role %}{{ m.content }}{% endif %}"
    )
)  # fmt: skip
NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}" + plain()
HOISTING = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}{% endif %}{% endfor %}"
    + TOOLS
    + each("{% if m.role != 'system' %}[{{ m.role }}]{{ m.reasoning_content }}{{ m.content }}" + CALLS + "{% endif %}")
)
CONCATENATING = plain("{% for c in m.tool_calls or [] %}{{ c.function.name + ' ' + c.function.arguments }}{% endfor %}")
AS_PYTHON = plain("{% for c in m.tool_calls or [] %}{{ c.function.name ~ c.function.arguments }}{% endfor %}")
NINE = plain(
    "{% for c in m.tool_calls or [] %}{% if c.id | length != 9 %}{{ raise_exception('9 characters') }}{% endif %}"
    "{{ c.function | tojson }}{% endfor %}"
)
FIRST_ONLY = plain("{% if m.tool_calls %}{{ m.tool_calls[0].function | tojson }}{% endif %}")
EITHER = TOOLS + each(
    "[{{ m.role }}]{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% else %}{{ m.content }}{% endif %}"
)
THINKING = TOOLS + each(
    "{% if m.tool_calls and m.content and m.thinking %}{{ raise_exception('not both') }}{% endif %}"
    "[{{ m.role }}]{{ m.thinking if m.thinking }}{{ m.content }}" + CALLS
)
WITHIN = TOOLS + each(
    "{% if m.role != 'tool' %}[{{ m.role }}]{{ m.content if m.content }}" + CALLS
    + "{% for r in m.tool_responses or [] %}response:{{ r.name }}{{ r.response }}{% endfor %}{% endif %}"
)  # fmt: skip
TOOLS_AS_PYTHON = "{{ tools }}" + each("[{{ m.role }}]{{ m.content if m.content }}" + CALLS)
FORGETFUL = TOOLS + each(
    "{% if loop.last and m.role == 'user' and messages[0].role == 'system' %}{{ messages[0].content }}{% endif %}"
    "{% if m.role != 'system' %}[{{ m.role }}]{{ m.content if m.content }}" + CALLS + "{% endif %}"
)
NEEDS_A_USER = "{% if messages[-1].role == 'system' %}{{ raise_exception('no user') }}{% endif %}" + plain()
NO_CALLS = TOOLS + each("[{{ m.role }}]{{ m.content }}")
NO_RESULTS = TOOLS + each("{% if m.role != 'tool' %}[{{ m.role }}]{{ m.content }}{% endif %}")
RESPONSES = plain() + "{# <tool_responses> #}"
NO_TOOLS = each("[{{ m.role }}]{{ m.content }}")
BLOCKS = TOOLS + each(
    "[{{ m.role }}]{% if m.content is string %}{{ m.content }}{% else %}{% for b in m.content %}"
    "{{ b.thinking if b.type == 'thinking' else b.text }}{% endfor %}{% endif %}" + CALLS
)
PRINTED = TOOLS + each("[{{ m.role }}]{{ m.content }}" + CALLS)
SWITCHED = "{% if thinking %}think{% endif %}" + plain()
BOTH = "{% if thinking or enable_thinking %}think{% endif %}" + plain()
MAPPED = "{{ reasoning_effort if reasoning_effort in ['low', 'high'] else 'max' }}" + plain()
ALWAYS_THINKS = "{% if enable_thinking is false %}{{ raise_exception('it thinks') }}{% endif %}" + plain()
MODES = "{{ {'on': 'think', 'off': ''}[thinking_mode] if thinking_mode }}" + plain()
WITHOUT_RULES = "{% if thinking and messages[0].role == 'user' %}think{% endif %}" + plain()


def picky(variable: str, *taken: str) -> str:
    refusal = "{{ raise_exception('what effort?') }}"
    return (
        f"{{% if {variable} and {variable} not in {list(taken)} %}}{refusal}{{% endif %}}{{{{ {variable} }}}}" + plain()
    )


EACH_TOOL = "{% for t in tools or [] %}{{ t.function.name + BODY }}{% endfor %}" + each(
    "[{{ m.role }}]{{ m.content if m.content }}" + CALLS
)
DESCRIBED = EACH_TOOL.replace("BODY", "t.function.description")
LISTED = EACH_TOOL.replace("BODY", "(t.function.parameters.properties.keys() | list | string)")
ONE_TYPE = (
    "{% macro type(t) %}{% if t != 'string' %}{% for one in t %}{{ type(one) }}{% endfor %}{% endif %}{% endmacro %}"
    "{% for t in tools or [] %}{{ t.function.name }}{% for _, p in t.function.parameters.properties | items %}"
    "{{ type(p.type) if p.type is defined }}{% endfor %}{% endfor %}"
) + PRINTED


def renderer(source: str) -> Callable[..., str]:
    hf = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), clean_up_tokenization_spaces=False)

    def render(turns: list[dict[str, Any]], **variables: Any) -> str:
        text: str
        (text,), _ = render_jinja_template([turns], chat_template=source, **hf.special_tokens_map | variables)
        return text

    return render


def takes(source: str) -> TemplateCapabilities:
    return probe_template(renderer(source), source)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (plain(), TemplateCapabilities()),
        (ALTERNATING, TemplateCapabilities(later_system=False, repeated_roles=False, tools=False, calls=False)),
        (NO_SYSTEM, TemplateCapabilities(system=False, later_system=False)),
        (HOISTING, TemplateCapabilities(later_system=False)),
        (CONCATENATING, TemplateCapabilities(text_arguments=True)),
        (AS_PYTHON, TemplateCapabilities(text_arguments=True)),
        (NINE, TemplateCapabilities(ids="short")),
        (FIRST_ONLY, TemplateCapabilities(several_calls=False)),
        (EITHER, TemplateCapabilities(text_beside_calls=False)),
        (THINKING, TemplateCapabilities(reasoning_beside_text=False)),
        (WITHIN, TemplateCapabilities(results_beside_calls=True)),
        (plain() + "{# <|tool_calls_section_begin|> #}", TemplateCapabilities(ids="numbered")),
        (TOOLS_AS_PYTHON, TemplateCapabilities()),
        (FORGETFUL, TemplateCapabilities(system=False, lone_system=False, later_system=False)),
        (NEEDS_A_USER, TemplateCapabilities(lone_system=False)),
        (NO_CALLS, TemplateCapabilities(calls=False, lone_results=True)),
        (NO_RESULTS, TemplateCapabilities(calls=False)),
        (RESPONSES, TemplateCapabilities()),
        (NO_TOOLS, TemplateCapabilities(tools=False, calls=False)),
        (BLOCKS, TemplateCapabilities(thinking_blocks=True)),
        (PRINTED, TemplateCapabilities()),
        (PRINTED + "{# 'thinking' #}", TemplateCapabilities()),
        (PRINTED.replace("m.content", "(m.content | tojson)") + "{# 'thinking' #}", TemplateCapabilities()),
        (SWITCHED, TemplateCapabilities(switch=Switch("thinking", True, False))),
        (BOTH, TemplateCapabilities()),
        (MODES, TemplateCapabilities(switch=Switch("thinking_mode", "on", "off"))),
        (WITHOUT_RULES, TemplateCapabilities(switch=Switch("thinking", True, False))),
        ("{{ reasoning_effort }}" + plain(), TemplateCapabilities()),
        (
            picky("reasoning_effort", "xhigh", "low"),
            TemplateCapabilities(efforts=Efforts("reasoning_effort", ("low", "xhigh"))),
        ),
        (
            picky("reasoning_effort", "high", "no_think"),
            TemplateCapabilities(
                switch=Switch("reasoning_effort", "high", "no_think"), efforts=Efforts("reasoning_effort", ("high",))
            ),
        ),
        (picky("thinking_effort", *EFFORTS), TemplateCapabilities(efforts=Efforts("thinking_effort", EFFORTS))),
        (MAPPED, TemplateCapabilities(efforts=Efforts("reasoning_effort", ("low", "high", "max")))),
        ("{{ 'much' if reasoning_effort == 'max' }}" + plain(), TemplateCapabilities()),
        (
            "{{ 'little' if reasoning_effort in ['minimal', 'low'] }}{# 'high' #}" + plain(),
            TemplateCapabilities(
                switch=Switch("reasoning_effort", "high", "minimal"),
                efforts=Efforts("reasoning_effort", ("minimal", "low", "high")),
            ),
        ),
        (
            "{{ 'not' if thinking_budget == 0 }}" + plain(),
            TemplateCapabilities(switch=Switch("thinking_budget", None, 0)),
        ),
        (
            "{% if reasoning_effort or thinking_budget %}{{ raise_exception('what?') }}{% endif %}" + plain(),
            TemplateCapabilities(thinking_budget=False, efforts=Efforts("reasoning_effort", ())),
        ),
        (ALWAYS_THINKS, TemplateCapabilities(thinking_off=False)),
        (DESCRIBED, TemplateCapabilities(missing_descriptions=False)),
        (LISTED, TemplateCapabilities(missing_properties=False)),
        (ONE_TYPE, TemplateCapabilities(null_in_type_lists=False)),
        ("{{ messages[7].content.x }}", None),
    ],
)
def test_what_a_template_takes(source: str, expected: TemplateCapabilities | None) -> None:
    nothing = TemplateCapabilities(system=False, later_system=False, repeated_roles=False, tools=False, calls=False)
    assert takes(source) == (expected or nothing)


def test_a_named_converter_goes_before_what_was_found_out() -> None:
    found = TemplateCapabilities(tools=True, calls=False, text_arguments=True)
    assert replace(found, **template_converter("GLM4-MoE")) == TemplateCapabilities()
    assert replace(found, **template_converter("mistral")) == TemplateCapabilities(ids="short")


def answering(thought: str, call: str, prompt: str = "") -> str:
    """A template that writes reasoning and calls in this way, and a prompt for an answer."""
    reasoning = f"{{% if m.reasoning_content %}}{thought.format('{{ m.reasoning_content }}')}{{% endif %}}"
    called = call.format("{{ c.function.name }}", "{{ c.function.arguments | tojson }}")
    calls = f"{{% for c in m.tool_calls or [] %}}{called}{{% endfor %}}"
    message = f"<|{{{{ m.role }}}}|>{reasoning}{{{{ m.content if m.content }}}}{calls}<|end|>"
    return f"{TOOLS}{each(message)}{{% if add_generation_prompt %}}<|assistant|>{prompt}{{% endif %}}"


THINK, HERMES_CALL = "<think>{}</think>", '<tool_call>{{"name": "{}", "arguments": {}}}</tool_call>'


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (answering(THINK, HERMES_CALL), []),
        (answering(THINK, HERMES_CALL, "<think>\n"), []),
        (answering(THINK, HERMES_CALL, "<think></think>"), []),
        (answering("", HERMES_CALL), []),
        (answering("", HERMES_CALL, "<|START_THINKING|><|END_THINKING|>"), []),
        (answering("[THINK]{}[/THINK]", "[TOOL_CALLS]{}[ARGS]{}"), []),
        (answering("<ifm|think>{}</ifm|think>", "<ifm|tool_calls><ifm|tool_call>{}</ifm|tool_call>"), []),
        (answering("<new_think>{}</new_think>", HERMES_CALL), ["reasoning"]),
        (answering("", HERMES_CALL, "<new_think>\n"), ["reasoning"]),
        (answering(THINK, "<|new_call|>{}<|with|>{}<|new_end|>"), ["tool calls"]),
        # As Qwen's tokens, which another template doesn't use.
        (answering("<|muse|>{}<|/muse|>", "<｜NEW｜tool_calls>{} {}</｜NEW｜tool_calls>"), ["reasoning", "tool calls"]),
        (NO_TOOLS, []),
    ],
)
def test_what_no_family_reads_is_found(source: str, expected: list[str]) -> None:
    family = choose_family(source, {"<tool_call>", "</tool_call>"})
    assert unread_parts(renderer(source), takes(source), family) == expected
