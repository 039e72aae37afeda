"""Finds a model's family by its chat template, its tokenizer's tokens, or a name that is given.

The first row that fits is used, so more specific rows come first. The names of converters, which say how a chat
template takes earlier calls, are at the end.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from orchard.formats.calls import CallSyntax
from orchard.formats.families import hermes, json_calls, literal_calls, named_calls, typed_calls, xml_calls
from orchard.formats.families.addressed import FUNCTIONARY_3_2, MUSE, AddressedFamily
from orchard.formats.families.blocks import BlocksFamily
from orchard.formats.families.harmony import HarmonyFamily
from orchard.formats.families.tagged import ReasoningTags, TaggedFamily

Family = TaggedFamily | AddressedFamily | HarmonyFamily | BlocksFamily
"""How one model writes. It makes the format of each of its answers."""
Fits = Callable[[str, Collection[str]], bool]
Value = TypeVar("Value")


class FamilyRow(Struct, Generic[Value], frozen=True):
    """A way to write calls or reasoning, and how to recognise a model that uses it."""

    spaced_names: str
    """Its names for users, its own name first, separated by spaces."""
    fits: Fits
    value: Value
    """Calls: a syntax for the common state machine, or a family with a machine of its own, which no tags of reasoning
    change. Reasoning: its tags; None if the format has none."""
    read_value: Callable[[str, Collection[str]], Value] | None = None
    """Makes it from the template and the tokens, where checkpoints differ."""

    @property
    def names(self) -> list[str]:
        """Its names for users."""
        return self.spaced_names.split()


def has_any_text(*texts: str, tokenizer: str = "") -> Fits:
    """Fit a template that has one of these texts, or a tokenizer that has this token.

    Without a text or a token, fit no model: such a row is only chosen by name.
    """
    return lambda template, tokens: any(text in template for text in texts) or (tokenizer != "" and tokenizer in tokens)


def has_all_texts(*texts: str) -> Fits:
    """Fit a template that has all of these texts; without texts, fit every template."""
    return lambda template, tokens: all(text in template for text in texts)


def has_tags(start: str, end: str) -> Fits:
    """Fit a template that has one of these tags, or a tokenizer that has both as tokens of their own."""
    return lambda template, tokens: start in template or end in template or (start in tokens and end in tokens)


def is_mistral_with_names(template: str, tokens: Collection[str]) -> bool:
    """Fit Mistral's models that write a call's name and its arguments one after the other."""
    return "[ARGS]" in template or ("[TOOL_CALLS]" not in template and {"[TOOL_CALLS]", "[ARGS]"} <= set(tokens))


def is_kimi_k3(template: str, tokens: Collection[str]) -> bool:
    """Fit Kimi K3, whose tags are put together from these; its tokenizer may come without a template."""
    return {"<|open|>", "<|close|>", "<|sep|>"} <= set(tokens) or "'<|open|>' + tag" in template


_HUNYUAN_TAG = re.compile(r"<tool_calls(:[^\s<>{}]+)>")
_HUNYUAN_TEMPLATE = "'<tool_calls{}>'.format("  # it puts its tags together
_HUNYUAN_SUFFIX = re.compile("HYTK = '(.*?)'")
_HY3, _HY4 = ":opensource", ":6124c78e"


def is_hunyuan(template: str, tokens: Collection[str]) -> bool:
    """Fit Hy3 and Hy4."""
    return _HUNYUAN_TEMPLATE in template or bool(_HUNYUAN_TAG.search("\n".join((*tokens, template))))


def is_hy3(template: str, tokens: Collection[str]) -> bool:
    """Fit Hy3, which has a tag between a call's name and its arguments."""
    return is_hunyuan(template, tokens) and any("<tool_sep" in text for text in (*tokens, template))


def suffix_reader(made: Callable[[str], Value], default: str) -> Callable[[str, Collection[str]], Value]:
    """Return what makes Hy3's and Hy4's rows with the suffix of a checkpoint's tags; `default` where none shows."""

    def of_checkpoint(template: str, tokens: Collection[str]) -> Value:
        found = _HUNYUAN_TAG.search("\n".join((*tokens, template)))
        if not found and _HUNYUAN_TEMPLATE in template:
            found = _HUNYUAN_SUFFIX.search(template)
        return made(found[1] if found else "" if "<tool_calls>" in tokens else default)

    return of_checkpoint


def is_deepseek_v41(template: str, tokens: Collection[str]) -> bool:
    """Fit DeepSeek-V4.1, whose tags have a space behind their mark; templates may put them together."""
    return "｜DSML｜" in template and any(text in template for text in ("｜ calls>", "' calls", '" calls'))


CALLS: tuple[FamilyRow[CallSyntax | Family], ...] = (
    FamilyRow("minimax_m3", has_any_text("]<]minimax[>["), xml_calls.MINIMAX_M3),
    FamilyRow("minimax_m2", has_any_text("<minimax:tool_call>"), xml_calls.MINIMAX),
    FamilyRow("longcat longcat_flash_lite", has_any_text("<longcat_tool_call>"), xml_calls.LONGCAT),
    FamilyRow("hy_v3 hy3", is_hy3, xml_calls.hy3_syntax(_HY3), suffix_reader(xml_calls.hy3_syntax, _HY3)),
    FamilyRow("hy_v4 hy4", is_hunyuan, xml_calls.hy4_syntax(_HY4), suffix_reader(xml_calls.hy4_syntax, _HY4)),
    FamilyRow("k2_horizon", has_any_text("<ifm|tool_call"), xml_calls.K2),
    FamilyRow("glm47 glm4_7 glm47_flash ling3", has_any_text("</arg_key><arg_value>"), xml_calls.GLM_4_7),
    FamilyRow("glm45 glm4_moe glm4 glm46 poolside_v1", has_any_text("<arg_key>"), xml_calls.GLM),
    FamilyRow("seed_oss", has_any_text("<seed:tool_call>"), xml_calls.SEED),
    FamilyRow("muse_glimmer muse_spark muse musespark1x", has_any_text("<atem:function_calls>"), MUSE),
    FamilyRow("minicpm5", has_any_text("<param name="), xml_calls.MINICPM),
    FamilyRow("step3", has_tags("<｜tool_calls_begin｜>", "<｜tool_calls_end｜>"), xml_calls.STEP),
    FamilyRow("functionary_v3_1", has_any_text("<{start_tag}={function_name}>"), named_calls.FUNCTIONARY),
    FamilyRow("functionary_v3_2", has_any_text(">>>all"), FUNCTIONARY_3_2),
    FamilyRow("granite_20b_fc", has_any_text("<function_call>"), json_calls.GRANITE_20B),
    FamilyRow(
        "qwen3_coder qwen3_5 qwen3_5_moe qwen3_xml nemotron3_nano nemotron_v3 step3p5 step_35 step5 mimo",
        has_any_text("<parameter="),
        xml_calls.QWEN,
    ),
    FamilyRow("nemotron nemotron_json", has_any_text("<TOOLCALL>"), json_calls.NEMOTRON),
    FamilyRow("mistral devstral", is_mistral_with_names, named_calls.MISTRAL),
    FamilyRow("mistral_list", has_any_text("[TOOL_CALLS]"), named_calls.MISTRAL_LIST),
    FamilyRow("hunyuan", has_any_text("<tool_call>function_name"), named_calls.HUNYUAN),
    FamilyRow("hunyuan_a13b jamba minimax", has_any_text("<tool_calls>"), named_calls.HUNYUAN_LIST),
    # Its own template doesn't show how it writes calls.
    FamilyRow("phi4_mini_json", has_any_text("functools[", tokenizer="<|/tool_call|>"), json_calls.PHI),
    FamilyRow(
        "cohere command_r cohere_command3 cohere_command4",
        has_tags("<|START_ACTION|>", "<|END_ACTION|>"),
        json_calls.COHERE,
    ),
    FamilyRow("command_r_plus", has_any_text("Write 'Action:'", r"Write \'Action:\'"), json_calls.COMMAND_R),
    FamilyRow("internlm internlm2", has_tags("<|action_start|>", "<|action_end|>"), json_calls.INTERN),
    FamilyRow("solar_open", has_any_text("<|tool_call:begin|>"), named_calls.SOLAR),
    FamilyRow("apertus", has_tags("<|tools_prefix|>", "<|tools_suffix|>"), json_calls.APERTUS),
    FamilyRow("plamo3", has_any_text("<|plamo:begin_tool_request"), named_calls.PLAMO),
    FamilyRow("gigachat35 gigachat3_5", has_any_text("｜GCML｜"), typed_calls.GIGACHAT_3_5),
    FamilyRow("gigachat31 gigachat3_1", has_any_text("<|function_call|>"), json_calls.GIGACHAT_3_1),
    FamilyRow("gigachat3", has_all_texts("function call", "<|role_sep|>"), json_calls.GIGACHAT),
    FamilyRow("granite", has_any_text("<|tool_call|>"), json_calls.GRANITE),
    FamilyRow("harmony openai_gptoss openai gpt_oss", has_any_text("<|channel|>"), HarmonyFamily()),
    FamilyRow(
        "inkling",
        has_any_text("<|content_invoke_tool_json|>", tokenizer="<|content_invoke_tool_json|>"),
        BlocksFamily(),
    ),
    FamilyRow("deepseek_v41 deepseek_v4_1", is_deepseek_v41, typed_calls.V41),
    FamilyRow("deepseek_v4", has_all_texts("｜DSML｜", "tool_calls>"), typed_calls.V4),
    FamilyRow("deepseek_v32 deepseek_v3_2", has_all_texts("｜DSML｜", "function_calls"), typed_calls.V32),
    FamilyRow("deepseek_v3 deepseek_r1", has_all_texts("<｜tool▁calls▁begin｜>", "```json"), named_calls.V3),
    FamilyRow(
        "deepseek_v31 deepseek_v3_1", has_tags("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"), named_calls.V31
    ),
    FamilyRow("kimi_k3", is_kimi_k3, typed_calls.KIMI_K3),
    FamilyRow("kimi_k2", has_tags("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"), named_calls.KIMI),
    FamilyRow(
        "functiongemma function_gemma",
        has_tags("<start_function_call>", "<end_function_call>"),
        literal_calls.FUNCTION_GEMMA,
    ),
    FamilyRow("gemma4", has_tags("<|tool_call>", "<tool_call|>"), literal_calls.GEMMA4),
    FamilyRow("olmo3", has_any_text("<function_calls>"), literal_calls.OLMO),
    FamilyRow("lfm2", has_tags("<|tool_call_start|>", "<|tool_call_end|>"), literal_calls.LFM),
    FamilyRow("pythonic llama4_pythonic", has_any_text("[func_name1("), literal_calls.PYTHONIC),
    FamilyRow("gemma3", has_any_text("<start_of_turn>"), literal_calls.GEMMA3),
    FamilyRow(
        "hermes qwen qwen2_5 qwen3 qwen3_moe qwen3_next qwen3_vl qwen3_json ernie45 granite4 iquest_coder_v1 "
        "mixed_think_tool_handoff",
        has_tags("<tool_call>", "</tool_call>"),
        hermes.HERMES,
    ),
    FamilyRow(
        "llama3_json llama4_json llama", has_any_text("<|python_tag|>", '"parameters": dictionary'), json_calls.LLAMA
    ),
    FamilyRow("json xlam", has_all_texts(), json_calls.BARE),
)

_THINK = ReasoningTags("<think>", "</think>")
_RESPONSE_TAGS = replace(_THINK, answer=("<response>", "</response>"))
_TWO_TAGS = replace(_THINK, other_starts=("<thinking>",), other_ends=("</thinking>",))
_HUNYUAN_TAGS = replace(_THINK, answer=("<answer>", "</answer>"), always_wraps=True)
_COHERE_TAGS = ReasoningTags(
    "<|START_THINKING|>", "<|END_THINKING|>", answer=("<|START_RESPONSE|>", "<|END_RESPONSE|>"), always_wraps=True
)
_COHERE_4_TAGS = replace(_COHERE_TAGS, answer=("<|START_TEXT|>", "<|END_TEXT|>"))
_GRANITE_PHRASES = ReasoningTags(
    "Here is my thought process:",
    "Here is my response:",
    other_starts=("Here's my thought process:",),
    other_ends=("Here's my response:",),
)

_APRIEL_PHRASES = ReasoningTags(
    "Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]", message_end="[END FINAL RESPONSE]"
)
_KIMI_K3_TAGS = ReasoningTags(
    "<|open|>think<|sep|>",
    "<|close|>think<|sep|>",
    answer=("<|open|>response<|sep|>", "<|close|>response<|sep|>"),
    always_wraps=True,
    message_end="<|close|>message<|sep|>",
)
_SOLAR_TAGS = ReasoningTags(
    "<|think|>", "<|end|><|begin|>assistant", answer=("<|content|>", "<|end|><|begin|>assistant"), always_wraps=True
)
_K2_TAGS = ReasoningTags(
    "<ifm|think>",
    "</ifm|think>",
    other_starts=("<ifm|think_fast>", "<ifm|think_faster>"),
    other_ends=("</ifm|think_fast>", "</ifm|think_faster>"),
)
_PLAMO_TAGS = ReasoningTags("<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>", stray_tag="<|plamo:tag|>")
_GEMMA4_TAGS = ReasoningTags("<|channel>thought", "<channel|>", stray_tag="<|channel>")


def _hunyuan_tags(suffix: str) -> ReasoningTags:
    return ReasoningTags(f"<think{suffix}>", f"</think{suffix}>")


def _tag_row(known_as: str, start: str, end: str) -> FamilyRow[ReasoningTags | None]:
    """Return the row of reasoning that is known by the two tags around it."""
    return FamilyRow(known_as, has_tags(start, end), ReasoningTags(start, end))


REASONING: tuple[FamilyRow[ReasoningTags | None], ...] = (
    _tag_row("mistral", "[THINK]", "[/THINK]"),
    # Apertus has tokens for <think> too, and doesn't write them.
    _tag_row("apertus", "<|inner_prefix|>", "<|inner_suffix|>"),
    FamilyRow("kimi_k3", is_kimi_k3, _KIMI_K3_TAGS),
    FamilyRow("solar_open", has_any_text("<|begin|>assistant<|think|>"), _SOLAR_TAGS),
    _tag_row("longcat longcat_flash_lite", "<longcat_think>", "</longcat_think>"),
    FamilyRow("hy_v3 hy3", is_hy3, _hunyuan_tags(_HY3), suffix_reader(_hunyuan_tags, _HY3)),
    FamilyRow("hy_v4 hy4", is_hunyuan, _hunyuan_tags(_HY4), suffix_reader(_hunyuan_tags, _HY4)),
    FamilyRow("k2_horizon", has_any_text("<ifm|think"), _K2_TAGS),
    FamilyRow("plamo3", has_any_text("<|plamo:begin_think:plamo|>"), _PLAMO_TAGS),
    _tag_row("seed_oss", "<seed:think>", "</seed:think>"),
    FamilyRow("apriel", has_any_text("[BEGIN FINAL RESPONSE]"), _APRIEL_PHRASES),
    FamilyRow("granite", has_any_text("Here is my thought process"), _GRANITE_PHRASES),
    FamilyRow("granite3_3", has_any_text("<response></response>", "between <response>"), _RESPONSE_TAGS),
    # MiniMax's templates have <response> as well.
    FamilyRow("ernie45", has_all_texts("<global_setting>", "<response>"), _RESPONSE_TAGS),
    # Their templates take earlier answers out of their tags.
    FamilyRow("hunyuan hunyuan_a13b", has_all_texts("think>", "<answer>"), _HUNYUAN_TAGS),
    FamilyRow("gemma4", has_tags("<|channel>", "<channel|>"), _GEMMA4_TAGS),
    FamilyRow("cohere_command4", has_any_text("<|START_TEXT|>"), _COHERE_4_TAGS),
    FamilyRow("cohere command_r cohere_command3", has_tags("<|START_THINKING|>", "<|END_THINKING|>"), _COHERE_TAGS),
    _tag_row("minimax_m3", "<mm:think>", "</mm:think>"),
    FamilyRow(
        "harmony openai_gptoss gpt_oss muse_glimmer muse musespark1x functionary_v3_2 inkling", has_any_text(), None
    ),
    FamilyRow("mixed_think_tool_handoff", has_any_text(), _TWO_TAGS),
    FamilyRow("deepseek_r1 minimax_m2 step3 step5", has_any_text(), replace(_THINK, implicit=True)),
    _tag_row(
        "think qwen3 qwen3_moe qwen3_next qwen3_vl qwen3_5 qwen3_coder iquest_coder_v1 hermes glm45 glm4_moe "
        "glm47 glm47_flash holo2 mimo nemotron nemotron_v3 nemotron3_nano step3p5 step_35 deepseek_v3 "
        "deepseek_v31 deepseek_v32 deepseek_v4 deepseek_v41 gigachat35 "
        "kimi_k2 olmo3 poolside_v1 ling3 minicpmv granite_thinking_parser",
        "<think>",
        "</think>",
    ),
    FamilyRow("none functiongemma", has_all_texts(), None),
)


def choose_family(
    chat_template: str,
    tokens: Collection[str] = frozenset(),
    *,
    tool_call_parser: str | None = None,
    reasoning_parser: str | None = None,
) -> Family:
    """Find a model's family by the source of its chat template and the texts of its tokenizer's added tokens.

    The two names choose instead. Raise ValueError on one that isn't known.
    """
    calls = _find_row(CALLS, "tool_call_parser", tool_call_parser, chat_template, tokens)
    tags = _find_row(REASONING, "reasoning_parser", reasoning_parser, chat_template, tokens).value
    made = calls.value
    return TaggedFamily(calls.names[0], tags, made) if isinstance(made, CallSyntax) else made


def _find_row(
    rows: Sequence[FamilyRow[Value]], option: str, name: str | None, template: str, tokens: Collection[str]
) -> FamilyRow[Value]:
    if name is None:
        return _checkpoint_row(next(row for row in rows if row.fits(template, tokens)), template, tokens)
    wanted = name.lower().replace("-", "_")
    for row in rows:
        if wanted in row.names:
            return _checkpoint_row(row, template, tokens)
    known = ", ".join(sorted({name for row in rows for name in row.names}))
    raise ValueError(f"'{name}' is not a known {option}; the known ones are {known}")


def _checkpoint_row(row: FamilyRow[Value], template: str, tokens: Collection[str]) -> FamilyRow[Value]:
    return replace(row, value=row.read_value(template, tokens)) if row.read_value else row


def add_hermes(family: Family, *, described: bool = False) -> Family:
    """Let a family read Hermes' calls, too. `described`: its prompts describe tools in that way, so forced calls are
    Hermes'.

    Families with their own state machine don't change: their templates take tools and calls. If it is unknown how the
    model writes calls, it writes them as described.
    """
    if not isinstance(family, TaggedFamily) or family.syntax in (None, hermes.HERMES):
        return family
    if described and family.syntax == json_calls.BARE:
        return replace(family, name="hermes", syntax=hermes.HERMES)
    own = family.syntax
    opens = tuple(dict.fromkeys((*own.opens, *hermes.HERMES.opens)))
    writes = hermes.HERMES if described else own
    both = hermes.OwnOrHermesCalls(opens=opens, leads=own.leads, closes=own.closes, own=own, writes=writes)
    return replace(family, syntax=both)


# Names for how a chat template takes earlier calls and their results: those of mlx-openai-server and vLLM. Most convert
# arguments from JSON text to objects.
_OBJECTS: dict[str, Any] = {"calls": True, "text_arguments": False}
_NAMES = (
    "functiongemma glm4_moe hermes llama4_pythonic longcat longcat_flash_lite minimax minimax_m2 nemotron3_nano "
    "qwen3 qwen3_5 qwen3_coder qwen3_moe qwen3_next qwen3_vl step_35"
)
_CONVERTERS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(_NAMES.split(), _OBJECTS),
    "harmony": _OBJECTS | {"several_calls": False, "reasoning_beside_text": False},
    "llama3_json": _OBJECTS | {"several_calls": False, "text_beside_calls": False},
    "mistral": _OBJECTS | {"ids": "short"},
    "kimi_k2": _OBJECTS | {"ids": "numbered"},
    "gemma4": _OBJECTS | {"results_beside_calls": True},
    "deepseek_v3": {"calls": True, "text_arguments": True, "text_beside_calls": False},
    "deepseek_v31": {"calls": True, "text_arguments": True},
}


def template_converter(name: str) -> Mapping[str, Any]:
    """Return the `TemplateCapabilities` that a converter sets. Raise ValueError, which lists the known names."""
    if (wanted := _CONVERTERS.get(name.lower().replace("-", "_"))) is None:
        raise ValueError(
            f"'{name}' is not a known message_converter; the known ones are {', '.join(sorted(_CONVERTERS))}"
        )
    return wanted
