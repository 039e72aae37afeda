"""Which family a model belongs to: by its chat template, by its tokenizer's tokens, or by a name that somebody gave.

The first row that fits is taken, so rows that look for more stand before those that look for less.
"""

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

from orchard.formats.calls import CallSyntax
from orchard.formats.families import json_calls, named_calls, pair_calls, pythonic, xml_calls
from orchard.formats.families.addressed import FUNCTIONARY_3_2, MUSE
from orchard.formats.families.apertus import APERTUS
from orchard.formats.families.deepseek import V4, V32
from orchard.formats.families.gemma import FUNCTION_GEMMA, GEMMA4
from orchard.formats.families.harmony import HarmonyFamily
from orchard.formats.families.kimi_k3 import KIMI_K3
from orchard.formats.families.minimax_m3 import MINIMAX_M3
from orchard.formats.families.mistral import MISTRAL, MISTRAL_LIST
from orchard.formats.families.tagged import ReasoningTags, TaggedFamily
from orchard.formats.format_events import Family

Fits = Callable[[str, Collection[str]], bool]


class FamilyRow(Struct, frozen=True):
    """What a model of a family is known by. `known_as`: the names to ask for it by, its own first, between spaces."""

    known_as: str
    fits: Fits

    @property
    def names(self) -> list[str]:
        """The names to ask for it by."""
        return self.known_as.split()


class CallRow(FamilyRow, frozen=True):
    """A way to write calls.

    `made`: a syntax for the common state machine, or a family with a machine of its own, which no tags of reasoning
    change.
    """

    made: CallSyntax | Family


class ReasoningRow(FamilyRow, frozen=True):
    """A way to write reasoning; `tags` None: none is told apart."""

    tags: ReasoningTags | None


def has(*texts: str) -> Fits:
    """Fit a template that has one of these texts; without texts, none: such a row is for those who ask for it."""
    return lambda template, tokens: any(text in template for text in texts)


def tagged(start: str, end: str) -> Fits:
    """Fit a template that has one of these tags, or a tokenizer that has both as tokens of their own."""
    return lambda template, tokens: start in template or end in template or (start in tokens and end in tokens)


def named_in_mistral(template: str, tokens: Collection[str]) -> bool:
    """Fit Mistral's models that write a call's name and its arguments one after the other."""
    return "[ARGS]" in template or ("[TOOL_CALLS]" not in template and {"[TOOL_CALLS]", "[ARGS]"} <= set(tokens))


def fenced_in_deepseek(template: str, tokens: Collection[str]) -> bool:
    """Fit DeepSeek's models that write a call's arguments in a fenced block."""
    return "<｜tool▁calls▁begin｜>" in template and "```json" in template


def newer_dsml(template: str, tokens: Collection[str]) -> bool:
    """Fit DeepSeek-V4."""
    return "｜DSML｜" in template and "tool_calls>" in template


def xtml(template: str, tokens: Collection[str]) -> bool:
    """Fit Kimi K3, whose tags are put together from these; its tokenizer may come without a template."""
    return {"<|open|>", "<|close|>", "<|sep|>"} <= set(tokens) or "'<|open|>' + tag" in template


def phi(template: str, tokens: Collection[str]) -> bool:
    """Fit Phi-4-mini, whose own template doesn't show how it writes calls."""
    return "functools[" in template or "<|/tool_call|>" in tokens


def action_in_fence(template: str, tokens: Collection[str]) -> bool:
    """Fit Command R and R+, which write their calls in a fenced block behind a word."""
    return "Write 'Action:'" in template.replace("\\'", "'")


def hunyuan(template: str, tokens: Collection[str]) -> bool:
    """Fit Hunyuan's models, whose templates take earlier answers out of their tags."""
    return "think>" in template and "<answer>" in template


def hy3(template: str, tokens: Collection[str]) -> bool:
    """Fit Hy3, whose template puts its tags together."""
    return "'<tool_calls{}>'.format(" in template or "<tool_calls:opensource>" in tokens


def ernie(template: str, tokens: Collection[str]) -> bool:
    """Fit ERNIE 4.5's models that think; MiniMax's templates have <response> as well."""
    return "<global_setting>" in template and "<response>" in template


def always(template: str, tokens: Collection[str]) -> bool:
    """Fit what no row before has fitted."""
    return True


CALLS: tuple[CallRow, ...] = (
    CallRow("minimax_m3", has("]<]minimax[>["), MINIMAX_M3),
    CallRow("minimax_m2", has("<minimax:tool_call>"), xml_calls.MINIMAX),
    CallRow("longcat longcat_flash_lite", has("<longcat_tool_call>"), pair_calls.LONGCAT),
    CallRow("hy_v3 hy3", hy3, pair_calls.HY3),
    CallRow("glm47 glm4_7 glm47_flash", has("</arg_key><arg_value>"), pair_calls.GLM_4_7),
    CallRow("glm45 glm4_moe glm4 glm46", has("<arg_key>"), pair_calls.GLM),
    CallRow("seed_oss", has("<seed:tool_call>"), xml_calls.SEED),
    CallRow("muse_glimmer muse_spark", has("<atem:function_calls>"), MUSE),
    CallRow("minicpm5", has("<param name="), xml_calls.MINICPM),
    CallRow("step3", tagged("<｜tool_calls_begin｜>", "<｜tool_calls_end｜>"), xml_calls.STEP),
    CallRow("functionary_v3_1", has("<{start_tag}={function_name}>"), named_calls.FUNCTIONARY),
    CallRow("functionary_v3_2", has(">>>all"), FUNCTIONARY_3_2),
    CallRow("granite_20b_fc", has("<function_call>"), json_calls.GRANITE_20B),
    CallRow(
        "qwen3_coder qwen3_5 qwen3_5_moe qwen3_xml nemotron3_nano nemotron_v3 step3p5 step_35 mimo",
        has("<parameter="),
        xml_calls.QWEN,
    ),
    CallRow("nemotron nemotron_json", has("<TOOLCALL>"), json_calls.NEMOTRON),
    CallRow("mistral devstral", named_in_mistral, MISTRAL),
    CallRow("mistral_list", has("[TOOL_CALLS]"), MISTRAL_LIST),
    CallRow("hunyuan", has("<tool_call>function_name"), named_calls.HUNYUAN),
    CallRow("hunyuan_a13b jamba minimax", has("<tool_calls>"), named_calls.HUNYUAN_LIST),
    CallRow("phi4_mini_json", phi, json_calls.PHI),
    CallRow(
        "cohere command_r cohere_command3 cohere_command4",
        tagged("<|START_ACTION|>", "<|END_ACTION|>"),
        json_calls.COHERE,
    ),
    CallRow("command_r_plus", action_in_fence, json_calls.COMMAND_R),
    CallRow("internlm internlm2", tagged("<|action_start|>", "<|action_end|>"), json_calls.INTERN),
    CallRow("solar_open", has("<|tool_call:begin|>"), named_calls.SOLAR),
    CallRow("apertus", tagged("<|tools_prefix|>", "<|tools_suffix|>"), APERTUS),
    CallRow("gigachat31 gigachat3_1", has("<|function_call|>"), json_calls.GIGACHAT_3_1),
    CallRow("gigachat3", has("<|role_sep|>"), json_calls.GIGACHAT),
    CallRow("granite", has("<|tool_call|>"), json_calls.GRANITE),
    CallRow("harmony openai_gptoss openai gpt_oss", has("<|channel|>"), HarmonyFamily()),
    CallRow("deepseek_v4", newer_dsml, V4),
    CallRow("deepseek_v32 deepseek_v3_2", has("｜DSML｜"), V32),
    CallRow("deepseek_v3 deepseek_r1", fenced_in_deepseek, named_calls.V3),
    CallRow("deepseek_v31 deepseek_v3_1", tagged("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"), named_calls.V31),
    CallRow("kimi_k3", xtml, KIMI_K3),
    CallRow("kimi_k2", tagged("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"), named_calls.KIMI),
    CallRow("functiongemma function_gemma", tagged("<start_function_call>", "<end_function_call>"), FUNCTION_GEMMA),
    CallRow("gemma4", tagged("<|tool_call>", "<tool_call|>"), GEMMA4),
    CallRow("olmo3", has("<function_calls>"), pythonic.OLMO),
    CallRow("lfm2", tagged("<|tool_call_start|>", "<|tool_call_end|>"), pythonic.LFM),
    CallRow("pythonic llama4_pythonic", has("[func_name1("), pythonic.PYTHONIC),
    CallRow("gemma3", has("<start_of_turn>"), pythonic.GEMMA3),
    CallRow(
        "hermes qwen qwen2_5 qwen3 qwen3_moe qwen3_next qwen3_vl ernie45 granite4 iquest_coder_v1 "
        "mixed_think_tool_handoff",
        tagged("<tool_call>", "</tool_call>"),
        json_calls.HERMES,
    ),
    CallRow("llama3_json llama4_json llama", has("<|python_tag|>", '"parameters": dictionary'), json_calls.LLAMA),
    CallRow("json xlam", always, json_calls.BARE),
)

_THINK = ReasoningTags("<think>", "</think>")
_RESPONSE_TAGS = msgspec.structs.replace(_THINK, answer=("<response>", "</response>"))
_TWO_TAGS = msgspec.structs.replace(_THINK, also=("<thinking>",), also_end="</thinking>")
_HUNYUAN_TAGS = msgspec.structs.replace(_THINK, answer=("<answer>", "</answer>"), wraps=True)
_COHERE_TAGS = ReasoningTags(
    "<|START_THINKING|>", "<|END_THINKING|>", answer=("<|START_RESPONSE|>", "<|END_RESPONSE|>"), wraps=True
)
_COHERE_4_TAGS = msgspec.structs.replace(_COHERE_TAGS, answer=("<|START_TEXT|>", "<|END_TEXT|>"))
_GRANITE_PHRASES = ReasoningTags(
    "Here is my thought process:",
    "Here is my response:",
    also=("Here's my thought process:",),
    also_end="Here's my response:",
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
_GEMMA4_TAGS = ReasoningTags("<|channel>thought", "<channel|>", alone="<|channel>")
_APERTUS_TAGS = ReasoningTags("<|inner_prefix|>", "<|inner_suffix|>")

REASONING: tuple[ReasoningRow, ...] = (
    ReasoningRow("mistral", tagged("[THINK]", "[/THINK]"), ReasoningTags("[THINK]", "[/THINK]")),
    # Apertus has tokens for <think> too, and doesn't write them.
    ReasoningRow("apertus", tagged("<|inner_prefix|>", "<|inner_suffix|>"), _APERTUS_TAGS),
    ReasoningRow("kimi_k3", xtml, _KIMI_K3_TAGS),
    ReasoningRow("solar_open", has("<|begin|>assistant<|think|>"), _SOLAR_TAGS),
    ReasoningRow(
        "longcat longcat_flash_lite",
        tagged("<longcat_think>", "</longcat_think>"),
        ReasoningTags("<longcat_think>", "</longcat_think>"),
    ),
    ReasoningRow("hy_v3 hy3", hy3, ReasoningTags("<think:opensource>", "</think:opensource>")),
    ReasoningRow("seed_oss", tagged("<seed:think>", "</seed:think>"), ReasoningTags("<seed:think>", "</seed:think>")),
    ReasoningRow("apriel", has("[BEGIN FINAL RESPONSE]"), _APRIEL_PHRASES),
    ReasoningRow("granite", has("Here is my thought process"), _GRANITE_PHRASES),
    ReasoningRow("granite3_3", has("<response></response>", "between <response>"), _RESPONSE_TAGS),
    ReasoningRow("ernie45", ernie, _RESPONSE_TAGS),
    ReasoningRow("hunyuan hunyuan_a13b", hunyuan, _HUNYUAN_TAGS),
    ReasoningRow("gemma4", tagged("<|channel>", "<channel|>"), _GEMMA4_TAGS),
    ReasoningRow("cohere_command4", has("<|START_TEXT|>"), _COHERE_4_TAGS),
    ReasoningRow("cohere command_r cohere_command3", tagged("<|START_THINKING|>", "<|END_THINKING|>"), _COHERE_TAGS),
    ReasoningRow("minimax_m3", tagged("<mm:think>", "</mm:think>"), ReasoningTags("<mm:think>", "</mm:think>")),
    ReasoningRow("harmony openai_gptoss gpt_oss muse_glimmer functionary_v3_2", has(), None),
    ReasoningRow("mixed_think_tool_handoff", has(), _TWO_TAGS),
    ReasoningRow("deepseek_r1 minimax_m2", has(), msgspec.structs.replace(_THINK, assumed=True)),
    ReasoningRow(
        "think qwen3 qwen3_moe qwen3_next qwen3_vl qwen3_5 qwen3_coder iquest_coder_v1 hermes glm45 glm4_moe "
        "glm47 glm47_flash holo2 mimo nemotron nemotron_v3 nemotron3_nano step3p5 step_35 deepseek_v3 "
        "deepseek_v31 deepseek_v32 deepseek_v4 kimi_k2 olmo3",
        tagged("<think>", "</think>"),
        _THINK,
    ),
    ReasoningRow("none functiongemma", always, None),
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
    reasoning = _row(REASONING, "reasoning_parser", reasoning_parser, chat_template, tokens).tags
    made = calls.made
    return TaggedFamily(calls.names[0], reasoning, made) if isinstance(made, CallSyntax) else made


Row = TypeVar("Row", bound=FamilyRow)


def _row(rows: Sequence[Row], option: str, name: str | None, template: str, tokens: Collection[str]) -> Row:
    if name is None:
        return next(row for row in rows if row.fits(template, tokens))
    wanted = name.lower().replace("-", "_")
    for row in rows:
        if wanted in row.names:
            return row
    known = ", ".join(sorted({name for row in rows for name in row.names}))
    raise ValueError(f"'{name}' is no {option} that is known: they are {known}")
