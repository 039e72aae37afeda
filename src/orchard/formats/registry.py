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
Made = TypeVar("Made")


class FamilyRow(Struct, Generic[Made], frozen=True):
    """A way to write calls or reasoning, and how to recognise a model that uses it."""

    known_as: str
    """Its names for users, its own name first, separated by spaces."""
    fits: Fits
    made: Made
    """Calls: a syntax for the common state machine, or a family with a machine of its own, which no tags of reasoning
    change. Reasoning: its tags; None where none is told apart."""
    of_checkpoint: Callable[[str, Collection[str]], Made] | None = None
    """Makes it from the template and the tokens, where checkpoints differ."""

    @property
    def names(self) -> list[str]:
        """Its names for users."""
        return self.known_as.split()


def has(*texts: str, tokenizer: str = "") -> Fits:
    """Fit a template that has one of these texts, or a tokenizer that has this token.

    Without any, fit none: such a row is for those who ask for it.
    """
    return lambda template, tokens: any(text in template for text in texts) or (tokenizer != "" and tokenizer in tokens)


def has_all(*texts: str) -> Fits:
    """Fit a template that has all of these texts; without texts, every one."""
    return lambda template, tokens: all(text in template for text in texts)


def tagged(start: str, end: str) -> Fits:
    """Fit a template that has one of these tags, or a tokenizer that has both as tokens of their own."""
    return lambda template, tokens: start in template or end in template or (start in tokens and end in tokens)


def named_in_mistral(template: str, tokens: Collection[str]) -> bool:
    """Fit Mistral's models that write a call's name and its arguments one after the other."""
    return "[ARGS]" in template or ("[TOOL_CALLS]" not in template and {"[TOOL_CALLS]", "[ARGS]"} <= set(tokens))


def xtml(template: str, tokens: Collection[str]) -> bool:
    """Fit Kimi K3, whose tags are put together from these; its tokenizer may come without a template."""
    return {"<|open|>", "<|close|>", "<|sep|>"} <= set(tokens) or "'<|open|>' + tag" in template


_HUNYUAN_TAG = re.compile(r"<tool_calls(:[^\s<>{}]+)>")
_HUNYUAN_TEMPLATE = "'<tool_calls{}>'.format("  # it puts its tags together
_HUNYUAN_SUFFIX = re.compile("HYTK = '(.*?)'")
_HY3, _HY4 = ":opensource", ":6124c78e"


def hunyuan(template: str, tokens: Collection[str]) -> bool:
    """Fit Hy3 and Hy4."""
    return _HUNYUAN_TEMPLATE in template or bool(_HUNYUAN_TAG.search("\n".join((*tokens, template))))


def hy3(template: str, tokens: Collection[str]) -> bool:
    """Fit Hy3, which has a tag between a call's name and its arguments."""
    return hunyuan(template, tokens) and any("<tool_sep" in text for text in (*tokens, template))


def suffixed(made: Callable[[str], Made], default: str) -> Callable[[str, Collection[str]], Made]:
    """Return what makes Hy3's and Hy4's rows with the suffix of a checkpoint's tags; `default` where none shows."""

    def of_checkpoint(template: str, tokens: Collection[str]) -> Made:
        found = _HUNYUAN_TAG.search("\n".join((*tokens, template)))
        if not found and _HUNYUAN_TEMPLATE in template:
            found = _HUNYUAN_SUFFIX.search(template)
        return made(found[1] if found else "" if "<tool_calls>" in tokens else default)

    return of_checkpoint


def deepseek_v41(template: str, tokens: Collection[str]) -> bool:
    """Fit DeepSeek-V4.1, whose tags have a space behind their mark; templates may put them together."""
    return "｜DSML｜" in template and any(text in template for text in ("｜ calls>", "' calls", '" calls'))


CALLS: tuple[FamilyRow[CallSyntax | Family], ...] = (
    FamilyRow("minimax_m3", has("]<]minimax[>["), xml_calls.MINIMAX_M3),
    FamilyRow("minimax_m2", has("<minimax:tool_call>"), xml_calls.MINIMAX),
    FamilyRow("longcat longcat_flash_lite", has("<longcat_tool_call>"), xml_calls.LONGCAT),
    FamilyRow("hy_v3 hy3", hy3, xml_calls.hy3(_HY3), suffixed(xml_calls.hy3, _HY3)),
    FamilyRow("hy_v4 hy4", hunyuan, xml_calls.hy4(_HY4), suffixed(xml_calls.hy4, _HY4)),
    FamilyRow("k2_horizon", has("<ifm|tool_call"), xml_calls.K2),
    FamilyRow("glm47 glm4_7 glm47_flash ling3", has("</arg_key><arg_value>"), xml_calls.GLM_4_7),
    FamilyRow("glm45 glm4_moe glm4 glm46 poolside_v1", has("<arg_key>"), xml_calls.GLM),
    FamilyRow("seed_oss", has("<seed:tool_call>"), xml_calls.SEED),
    FamilyRow("muse_glimmer muse_spark muse musespark1x", has("<atem:function_calls>"), MUSE),
    FamilyRow("minicpm5", has("<param name="), xml_calls.MINICPM),
    FamilyRow("step3", tagged("<｜tool_calls_begin｜>", "<｜tool_calls_end｜>"), xml_calls.STEP),
    FamilyRow("functionary_v3_1", has("<{start_tag}={function_name}>"), named_calls.FUNCTIONARY),
    FamilyRow("functionary_v3_2", has(">>>all"), FUNCTIONARY_3_2),
    FamilyRow("granite_20b_fc", has("<function_call>"), json_calls.GRANITE_20B),
    FamilyRow(
        "qwen3_coder qwen3_5 qwen3_5_moe qwen3_xml nemotron3_nano nemotron_v3 step3p5 step_35 step5 mimo",
        has("<parameter="),
        xml_calls.QWEN,
    ),
    FamilyRow("nemotron nemotron_json", has("<TOOLCALL>"), json_calls.NEMOTRON),
    FamilyRow("mistral devstral", named_in_mistral, named_calls.MISTRAL),
    FamilyRow("mistral_list", has("[TOOL_CALLS]"), named_calls.MISTRAL_LIST),
    FamilyRow("hunyuan", has("<tool_call>function_name"), named_calls.HUNYUAN),
    FamilyRow("hunyuan_a13b jamba minimax", has("<tool_calls>"), named_calls.HUNYUAN_LIST),
    # Its own template doesn't show how it writes calls.
    FamilyRow("phi4_mini_json", has("functools[", tokenizer="<|/tool_call|>"), json_calls.PHI),
    FamilyRow(
        "cohere command_r cohere_command3 cohere_command4",
        tagged("<|START_ACTION|>", "<|END_ACTION|>"),
        json_calls.COHERE,
    ),
    FamilyRow("command_r_plus", has("Write 'Action:'", r"Write \'Action:\'"), json_calls.COMMAND_R),
    FamilyRow("internlm internlm2", tagged("<|action_start|>", "<|action_end|>"), json_calls.INTERN),
    FamilyRow("solar_open", has("<|tool_call:begin|>"), named_calls.SOLAR),
    FamilyRow("apertus", tagged("<|tools_prefix|>", "<|tools_suffix|>"), json_calls.APERTUS),
    FamilyRow("plamo3", has("<|plamo:begin_tool_request"), named_calls.PLAMO),
    FamilyRow("gigachat35 gigachat3_5", has("｜GCML｜"), typed_calls.GIGACHAT_3_5),
    FamilyRow("gigachat31 gigachat3_1", has("<|function_call|>"), json_calls.GIGACHAT_3_1),
    FamilyRow("gigachat3", has_all("function call", "<|role_sep|>"), json_calls.GIGACHAT),
    FamilyRow("granite", has("<|tool_call|>"), json_calls.GRANITE),
    FamilyRow("harmony openai_gptoss openai gpt_oss", has("<|channel|>"), HarmonyFamily()),
    FamilyRow("inkling", has("<|content_invoke_tool_json|>", tokenizer="<|content_invoke_tool_json|>"), BlocksFamily()),
    FamilyRow("deepseek_v41 deepseek_v4_1", deepseek_v41, typed_calls.V41),
    FamilyRow("deepseek_v4", has_all("｜DSML｜", "tool_calls>"), typed_calls.V4),
    FamilyRow("deepseek_v32 deepseek_v3_2", has_all("｜DSML｜", "function_calls"), typed_calls.V32),
    FamilyRow("deepseek_v3 deepseek_r1", has_all("<｜tool▁calls▁begin｜>", "```json"), named_calls.V3),
    FamilyRow("deepseek_v31 deepseek_v3_1", tagged("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"), named_calls.V31),
    FamilyRow("kimi_k3", xtml, typed_calls.KIMI_K3),
    FamilyRow("kimi_k2", tagged("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"), named_calls.KIMI),
    FamilyRow(
        "functiongemma function_gemma",
        tagged("<start_function_call>", "<end_function_call>"),
        literal_calls.FUNCTION_GEMMA,
    ),
    FamilyRow("gemma4", tagged("<|tool_call>", "<tool_call|>"), literal_calls.GEMMA4),
    FamilyRow("olmo3", has("<function_calls>"), literal_calls.OLMO),
    FamilyRow("lfm2", tagged("<|tool_call_start|>", "<|tool_call_end|>"), literal_calls.LFM),
    FamilyRow("pythonic llama4_pythonic", has("[func_name1("), literal_calls.PYTHONIC),
    FamilyRow("gemma3", has("<start_of_turn>"), literal_calls.GEMMA3),
    FamilyRow(
        "hermes qwen qwen2_5 qwen3 qwen3_moe qwen3_next qwen3_vl qwen3_json ernie45 granite4 iquest_coder_v1 "
        "mixed_think_tool_handoff",
        tagged("<tool_call>", "</tool_call>"),
        hermes.HERMES,
    ),
    FamilyRow("llama3_json llama4_json llama", has("<|python_tag|>", '"parameters": dictionary'), json_calls.LLAMA),
    FamilyRow("json xlam", has_all(), json_calls.BARE),
)

_THINK = ReasoningTags("<think>", "</think>")
_RESPONSE_TAGS = replace(_THINK, answer=("<response>", "</response>"))
_TWO_TAGS = replace(_THINK, also=("<thinking>",), also_ends=("</thinking>",))
_HUNYUAN_TAGS = replace(_THINK, answer=("<answer>", "</answer>"), wraps=True)
_COHERE_TAGS = ReasoningTags(
    "<|START_THINKING|>", "<|END_THINKING|>", answer=("<|START_RESPONSE|>", "<|END_RESPONSE|>"), wraps=True
)
_COHERE_4_TAGS = replace(_COHERE_TAGS, answer=("<|START_TEXT|>", "<|END_TEXT|>"))
_GRANITE_PHRASES = ReasoningTags(
    "Here is my thought process:",
    "Here is my response:",
    also=("Here's my thought process:",),
    also_ends=("Here's my response:",),
)

_APRIEL_PHRASES = ReasoningTags("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]", over="[END FINAL RESPONSE]")
_KIMI_K3_TAGS = ReasoningTags(
    "<|open|>think<|sep|>",
    "<|close|>think<|sep|>",
    answer=("<|open|>response<|sep|>", "<|close|>response<|sep|>"),
    wraps=True,
    over="<|close|>message<|sep|>",
)
_SOLAR_TAGS = ReasoningTags(
    "<|think|>", "<|end|><|begin|>assistant", answer=("<|content|>", "<|end|><|begin|>assistant"), wraps=True
)
_K2_TAGS = ReasoningTags(
    "<ifm|think>",
    "</ifm|think>",
    also=("<ifm|think_fast>", "<ifm|think_faster>"),
    also_ends=("</ifm|think_fast>", "</ifm|think_faster>"),
)
_PLAMO_TAGS = ReasoningTags("<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>", alone="<|plamo:tag|>")
_GEMMA4_TAGS = ReasoningTags("<|channel>thought", "<channel|>", alone="<|channel>")


def _hunyuan_tags(suffix: str) -> ReasoningTags:
    return ReasoningTags(f"<think{suffix}>", f"</think{suffix}>")


def _between(known_as: str, start: str, end: str) -> FamilyRow[ReasoningTags | None]:
    """Return the row of reasoning that is known by the two tags around it."""
    return FamilyRow(known_as, tagged(start, end), ReasoningTags(start, end))


REASONING: tuple[FamilyRow[ReasoningTags | None], ...] = (
    _between("mistral", "[THINK]", "[/THINK]"),
    # Apertus has tokens for <think> too, and doesn't write them.
    _between("apertus", "<|inner_prefix|>", "<|inner_suffix|>"),
    FamilyRow("kimi_k3", xtml, _KIMI_K3_TAGS),
    FamilyRow("solar_open", has("<|begin|>assistant<|think|>"), _SOLAR_TAGS),
    _between("longcat longcat_flash_lite", "<longcat_think>", "</longcat_think>"),
    FamilyRow("hy_v3 hy3", hy3, _hunyuan_tags(_HY3), suffixed(_hunyuan_tags, _HY3)),
    FamilyRow("hy_v4 hy4", hunyuan, _hunyuan_tags(_HY4), suffixed(_hunyuan_tags, _HY4)),
    FamilyRow("k2_horizon", has("<ifm|think"), _K2_TAGS),
    FamilyRow("plamo3", has("<|plamo:begin_think:plamo|>"), _PLAMO_TAGS),
    _between("seed_oss", "<seed:think>", "</seed:think>"),
    FamilyRow("apriel", has("[BEGIN FINAL RESPONSE]"), _APRIEL_PHRASES),
    FamilyRow("granite", has("Here is my thought process"), _GRANITE_PHRASES),
    FamilyRow("granite3_3", has("<response></response>", "between <response>"), _RESPONSE_TAGS),
    # MiniMax's templates have <response> as well.
    FamilyRow("ernie45", has_all("<global_setting>", "<response>"), _RESPONSE_TAGS),
    # Their templates take earlier answers out of their tags.
    FamilyRow("hunyuan hunyuan_a13b", has_all("think>", "<answer>"), _HUNYUAN_TAGS),
    FamilyRow("gemma4", tagged("<|channel>", "<channel|>"), _GEMMA4_TAGS),
    FamilyRow("cohere_command4", has("<|START_TEXT|>"), _COHERE_4_TAGS),
    FamilyRow("cohere command_r cohere_command3", tagged("<|START_THINKING|>", "<|END_THINKING|>"), _COHERE_TAGS),
    _between("minimax_m3", "<mm:think>", "</mm:think>"),
    FamilyRow("harmony openai_gptoss gpt_oss muse_glimmer muse musespark1x functionary_v3_2 inkling", has(), None),
    FamilyRow("mixed_think_tool_handoff", has(), _TWO_TAGS),
    FamilyRow("deepseek_r1 minimax_m2 step3 step5", has(), replace(_THINK, assumed=True)),
    _between(
        "think qwen3 qwen3_moe qwen3_next qwen3_vl qwen3_5 qwen3_coder iquest_coder_v1 hermes glm45 glm4_moe "
        "glm47 glm47_flash holo2 mimo nemotron nemotron_v3 nemotron3_nano step3p5 step_35 deepseek_v3 "
        "deepseek_v31 deepseek_v32 deepseek_v4 deepseek_v41 gigachat35 "
        "kimi_k2 olmo3 poolside_v1 ling3 minicpmv granite_thinking_parser",
        "<think>",
        "</think>",
    ),
    FamilyRow("none functiongemma", has_all(), None),
)


def choose(
    chat_template: str,
    tokens: Collection[str] = frozenset(),
    *,
    tool_call_parser: str | None = None,
    reasoning_parser: str | None = None,
) -> Family:
    """Find a model's family by the source of its chat template and the texts of its tokenizer's added tokens.

    The two names choose instead. Raise ValueError on one that isn't known.
    """
    calls = _row(CALLS, "tool_call_parser", tool_call_parser, chat_template, tokens)
    tags = _row(REASONING, "reasoning_parser", reasoning_parser, chat_template, tokens).made
    made = calls.made
    return TaggedFamily(calls.names[0], tags, made) if isinstance(made, CallSyntax) else made


def _row(
    rows: Sequence[FamilyRow[Made]], option: str, name: str | None, template: str, tokens: Collection[str]
) -> FamilyRow[Made]:
    if name is None:
        return _made(next(row for row in rows if row.fits(template, tokens)), template, tokens)
    wanted = name.lower().replace("-", "_")
    for row in rows:
        if wanted in row.names:
            return _made(row, template, tokens)
    known = ", ".join(sorted({name for row in rows for name in row.names}))
    raise ValueError(f"'{name}' is not a known {option}; the known ones are {known}")


def _made(row: FamilyRow[Made], template: str, tokens: Collection[str]) -> FamilyRow[Made]:
    return replace(row, made=row.of_checkpoint(template, tokens)) if row.of_checkpoint else row


def also_hermes(family: Family, *, described: bool = False) -> Family:
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
    both = hermes.AlsoHermes(opens=opens, leads=own.leads, closes=own.closes, own=own, writes=writes)
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


def converter(name: str) -> Mapping[str, Any]:
    """Return the `TemplateCapabilities` that a converter sets. Raise ValueError, which lists the known names."""
    if (wanted := _CONVERTERS.get(name.lower().replace("-", "_"))) is None:
        raise ValueError(
            f"'{name}' is not a known message_converter; the known ones are {', '.join(sorted(_CONVERTERS))}"
        )
    return wanted
