"""The tokens that open and end a model's reasoning, and those that end messages."""

from types import SimpleNamespace
from typing import Any

import pytest
from mlx_lm.chat_templates import deepseek_v32
from mlx_lm.tokenizer_utils import TokenizerWrapper
from tokenizers import AddedToken
from transformers import PreTrainedTokenizerFast

from orchard.backends.text.prompt.chat_template import ChatTemplate
from orchard.backends.text.prompt.special_tokens import template_source, thinking_tags
from orchard.formats.registry import choose_family
from tests.support.models import make_tokenizer
from tests.support.vision_prompts import FOLDER


def tokenizer(start: tuple[int, ...], end: tuple[int, ...], *added: int) -> Any:
    """One whose reasoning stands in Gemma 4's tags."""
    return SimpleNamespace(
        chat_template="<|channel>thought",
        _chat_template=None,
        think_start="<|channel>thought",
        think_end="<channel|>",
        think_start_tokens=start,
        think_end_tokens=end,
        added_tokens_decoder=dict.fromkeys(added),
        encode=lambda text, add_special_tokens: list(text.encode()),
    )


@pytest.mark.parametrize(
    ("start", "end", "added", "known"),
    [
        ((7,), (9,), (), (7, 9)),
        ((7, 8), (9,), (7, 9), (7, 9)),
        ((7, 8), (9,), (9,), None),  # "Here is my" opens other things too
        ((7,), (8, 9), (7, 8, 9), None),
        ((), (), (), None),
    ],
)
def test_the_tokens_that_a_budget_needs(
    start: tuple[int, ...], end: tuple[int, ...], added: tuple[int, ...], known: tuple[int, int] | None
) -> None:
    found = thinking_tags(tokenizer(start, end, *added), choose_family("<|channel>thought"))
    assert (found and (found.start_id, found.end_id)) == known
    assert not found or found.blank == (10, 32)


def test_the_family_is_found_by_a_template_that_is_python_code() -> None:
    source = template_source(SimpleNamespace(_chat_template=deepseek_v32.apply_chat_template, chat_template=None))
    assert choose_family(source).name == "deepseek_v32"


PHI = """\
{% for m in messages %}<|{{ m.role }}|>
{{ m.content }}<|end|>
{% endfor %}{% if add_generation_prompt %}<|assistant|>
{% endif %}"""
LLAMA = """\
{% for m in messages %}<|start_header_id|>{{ m.role }}<|end_header_id|>

{{ m.content }}<|eot_id|>{% endfor %}{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>

{% endif %}"""
DEEPSEEK = """\
{% for m in messages %}{% if m.role == 'user' %}<｜User｜>{{ m.content }}
{%- elif m.role == 'assistant' %}<｜Assistant｜>{{ m.content }}<｜end▁of▁sentence｜>
{%- else %}{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}<｜Assistant｜><think>
{% endif %}"""
GLM = """\
[gMASK]<sop>{% for m in messages %}{% if m.role == 'tool' %}<|observation|>
<tool_response>{{ m.content }}</tool_response>
{%- else %}<|{{ m.role }}|>
{{ m.content or '' }}{% for call in m.tool_calls or [] %}<tool_call>{{ call.function.name }}
{%- for name, value in call.function.arguments | items %}<arg_key>{{ name }}</arg_key><arg_value>{{ value }}</arg_value>
{%- endfor %}</tool_call>{% endfor %}{% endif %}{% endfor %}{{ tools | tojson if tools else '' }}
{%- if add_generation_prompt %}<|assistant|>{% endif %}"""
KIMI = """\
{% for m in messages %}<|im_{{ m.role }}|>{{ m.role }}<|im_middle|>{{ m.content }}<|im_end|>{% endfor %}
{%- if add_generation_prompt %}<|im_assistant|>assistant<|im_middle|>{% endif %}"""
GPT_OSS = """\
{% for m in messages %}<|start|>{{ m.role }}{{ '<|channel|>final' if m.role == 'assistant' else '' }}
{%- raw %}<|message|>{% endraw %}{{ m.content }}<|end|>{% endfor %}
{%- if add_generation_prompt %}<|start|>assistant{% endif %}"""


@pytest.mark.parametrize(
    ("template", "eos", "others", "ends"),
    [
        (LLAMA, "<|eot_id|>", "<|start_header_id|> <|end_header_id|>", "<|eot_id|>"),
        (GPT_OSS, "<|return|>", "<|start|> <|message|> <|channel|>", "<|end|>"),
        ("gemma3", "<end_of_turn>", "<bos> <start_of_turn>", "<end_of_turn>"),
        ("gemma4", "<turn|>", "<bos> <|turn> <|tool_call> <|tool_response>", "<turn|> <tool_call|> <tool_response|>"),
        ("qwen3_5", "<|im_end|>", "", "<|im_end|>"),
        ("llama4", "<|eot|>", "<|header_start|> <|header_end|>", "<|eot|> <|eom|>"),
        ("minimax_m3_vl", "[e~[", "]~!b[ ]~b]", "[e~["),
        (
            "mistral3",
            "</s>",
            "<s> [SYSTEM_PROMPT] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [INST] [TOOL_CALLS] [TOOL_RESULTS]",
            "[/SYSTEM_PROMPT] [/INST] [/TOOL_RESULTS] </s>",
        ),
        (PHI, "<|end|>", "<|system|> <|user|> <|assistant|>", "<|end|>"),
        (DEEPSEEK, "<｜end▁of▁sentence｜>", "", "<｜User｜> <｜Assistant｜> <｜end▁of▁sentence｜>"),
        (GLM, "<|endoftext|>", "[gMASK] <sop> <|system|> </arg_value>", "<|user|> <|assistant|> <|observation|>"),
        (KIMI, "<|im_end|>", "<|im_system|> <|im_user|> <|im_assistant|> <|im_middle|>", "<|im_end|>"),
        ("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:", "</s>", "", ""),
    ],
    ids=lambda value: value if len(value) < 20 else "",
)
def test_the_tokens_that_end_messages(template: str, eos: str, others: str, ends: str) -> None:
    """Where none does, it is the token that begins the next message."""
    tokenizer = make_tokenizer()
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in (eos, *others.split(), *ends.split())])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=eos)
    fast.chat_template = template if "{" in template else (FOLDER / f"{template}.jinja").read_text("utf-8")
    found = ChatTemplate(TokenizerWrapper(fast), None).message_ends
    assert sorted(found.values()) == sorted(ends.split())
    assert [*found] == [fast.convert_tokens_to_ids(text) for text in found.values()]
