"""Public chat templates that write placeholders of media, and conversations in the form that transformers takes."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "backends" / "text" / "prompt" / "vision_templates"
RECORDS = FOLDER / "records.json"
PAGE = Path(__file__).parents[2] / "docs" / "vision-models.md"

Said = dict[str, Any]
_LLAMA = "llama.cpp, in llama-cpp-python 0.3.36 (MIT)"
_VLLM, _TRANSFORMERS = "vLLM 0.33.0 (Apache-2.0)", "transformers (Apache-2.0)"


@dataclass(frozen=True)
class PublicTemplate:
    """A template in FOLDER, where it is from, and the tokens that it writes for media, "" where it takes none.

    `around`: the other special tokens beside them. `serves`: the architectures of mlx-vlm whose models have it.
    `dated`: it writes today's date if there is no system message.
    """

    source: str
    serves: tuple[str, ...]
    image: str = ""
    audio: str = ""
    video: str = ""
    around: tuple[str, ...] = ()
    dated: bool = False

    @property
    def tokens(self) -> dict[str, str]:
        """The tokens by the kind of medium."""
        return {kind: token for kind in ("image", "audio", "video") if (token := getattr(self, kind))}


_QWEN: dict[str, Any] = {
    "image": "<|image_pad|>",
    "video": "<|video_pad|>",
    "around": ("<|vision_start|>", "<|vision_end|>"),
}
TEMPLATES: dict[str, PublicTemplate] = {
    "gemma3": PublicTemplate(f"{_VLLM}: tool_chat_template_gemma3_pythonic", ("gemma3",), "<start_of_image>"),
    "gemma4": PublicTemplate(
        f"{_VLLM}: tool_chat_template_gemma4", ("gemma4", "gemma4_unified"), "<|image|>", "<|audio|>", "<|video|>"
    ),
    "gemma4_31b": PublicTemplate(
        f"{_LLAMA}: google-gemma-4-31B-it", ("gemma4",), "<|image|>", "<|audio|>", "<|video|>"
    ),
    "idefics2": PublicTemplate("processor_config.json of idefics2-8b (Apache-2.0)", ("idefics2",), "<image>"),
    "idefics3": PublicTemplate(f"{_TRANSFORMERS}: modular_modernvbert", ("idefics3",), "<image>"),
    "internvl": PublicTemplate(f"{_TRANSFORMERS}: convert_internvl_weights_to_hf", ("internvl",), "<IMG_CONTEXT>"),
    "kimi_k3": PublicTemplate(f"{_LLAMA}: Kimi-K3", ("kimi_k3",), "<|kimi_image_placeholder|>"),
    "llama4": PublicTemplate(f"{_VLLM}: tool_chat_template_llama4_json", ("llama4",), "<|image|>"),
    "llava": PublicTemplate("chat_template.json of llava-1.5-7b-hf (Apache-2.0)", ("llava", "llava_next"), "<image>"),
    "llava_onevision": PublicTemplate(
        f"{_TRANSFORMERS}: convert_llava_onevision_weights_to_hf", ("llava_onevision",), "<image>", video="<video>"
    ),
    "minimax_m3_vl": PublicTemplate(f"{_LLAMA}: MiniMax-M3", ("minimax_m3_vl",), "]<]image[>[", video="]<]video[>["),
    "ministral3": PublicTemplate(f"{_LLAMA}: Ministral-3-14B-Reasoning-2512", ("mistral3",), "[IMG]"),
    "mistral3": PublicTemplate(f"{_VLLM}: tool_chat_template_mistral3", ("mistral3",), "[IMG]", dated=True),
    "muse_glimmer": PublicTemplate(
        f"{_VLLM}: tool_chat_template_muse_glimmer", ("muse_glimmer",), "<|image|>", video="<|video|>", dated=True
    ),
    "paddleocr_vl": PublicTemplate(
        "chat_template.jinja of PaddleOCR-VL (Apache-2.0)",
        ("paddleocr_vl",),
        "<|IMAGE_PLACEHOLDER|>",
        around=("<|IMAGE_START|>", "<|IMAGE_END|>"),
    ),
    "pixtral": PublicTemplate("vLLM 0.6 (Apache-2.0): template_pixtral_hf", ("pixtral",), "[IMG]"),
    "qwen2_5_omni": PublicTemplate(
        "chat_template.jinja of Qwen2.5-Omni (Apache-2.0)",
        ("qwen3_omni_moe",),
        "<|IMAGE|>",
        "<|AUDIO|>",
        "<|VIDEO|>",
        ("<|vision_bos|>", "<|vision_eos|>", "<|audio_bos|>", "<|audio_eos|>"),
    ),
    "qwen2_5_vl": PublicTemplate(f"{_TRANSFORMERS}: test_processor_qwen2_vl", ("qwen2_vl", "qwen2_5_vl"), **_QWEN),
    "qwen3_5": PublicTemplate(f"{_VLLM}: tests/templates/qwen35", ("qwen3_5", "qwen3_5_moe"), **_QWEN),
    "smolvlm": PublicTemplate(f"{_TRANSFORMERS}: processing_smolvlm", ("smolvlm",), "<image>", video="<video>"),
    # These take texts only: placeholders are put into the text.
    "deepseek_vl_v2": PublicTemplate(f"{_VLLM}: template_deepseek_vl2", ("deepseek_vl_v2",), "<image>"),
    "minicpmo": PublicTemplate(f"{_VLLM}: template_minicpmv45", ("minicpmo",), "<image>"),
}
SPECIAL_TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
PROCESSORS = ("gemma3", "idefics3", "llava", "qwen2_5_vl", "qwen3_5")
"""The tiny models (`vision_families.FAMILIES`) whose processors transformers has, too."""
SIZES = [(64, 48), (40, 72)]
"""The sizes of the images that their records are of, in pixels: black ones."""
IMAGE, AUDIO, VIDEO = ({"type": kind} for kind in ("image", "audio", "video"))
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {}}},
}
_CALL = {"id": "call00001", "type": "function", "function": {"name": "look", "arguments": {}}}


def _text(text: str) -> Said:
    return {"type": "text", "text": text}


def _said(role: str, *content: Said | str) -> Said:
    return {"role": role, "content": [_text(one) if isinstance(one, str) else one for one in content]}


_LOOKED: list[Said] = [_said("user", "Look."), _said("assistant") | {"tool_calls": [_CALL]}]
_RESULT: Said = {"role": "tool", "tool_call_id": "call00001", "name": "look"}
CONVERSATIONS: dict[str, list[Said]] = {
    "text": [_said("user", "What is blue?")],
    "text first": [_said("user", "What is blue?", IMAGE)],
    "image first": [_said("user", IMAGE, "What is blue?")],
    "space around": [_said("user", " This\n", IMAGE, "\n is it? ")],
    "two images": [_said("user", IMAGE, "or", IMAGE, "?")],
    "images in a row": [_said("user", "Which?", IMAGE, IMAGE)],
    "two turns": [_said("user", IMAGE, "What?"), _said("assistant", "The sea."), _said("user", "And", IMAGE)],
    "system": [_said("system", "Be brief."), _said("user", IMAGE, "What is blue?")],
    "result": [*_LOOKED, _RESULT | _said("tool", "There:", IMAGE)],
    "image alone in a result": [*_LOOKED, _RESULT | _said("tool", IMAGE)],
    "video": [_said("user", VIDEO, "What moves?")],
    "audio": [_said("user", "What sounds?", AUDIO)],
    "all": [_said("user", AUDIO, "then", VIDEO, "and", IMAGE, "?")],
}
NUMBERED = {"add_vision_id": True}
"""Qwen's argument for a template that numbers images and videos."""


def conversations(template: PublicTemplate) -> Iterator[tuple[str, list[Said], dict[str, Any]]]:
    """Yield the conversations that have only media of a template: their names, messages and variables."""
    for name, messages in CONVERSATIONS.items():
        if kinds_of(messages) <= template.tokens.keys():
            lead = [_said("system", "Be brief.")] if template.dated and messages[0]["role"] != "system" else []
            tools = {"tools": [TOOL]} if any("tool_calls" in message for message in messages) else {}
            yield name, lead + messages, tools
            if "add_vision_id" in text_of(template) and name == "two images":
                yield "numbered", messages, NUMBERED


def kinds_of(messages: list[Said]) -> set[str]:
    """Return the kinds of media in messages."""
    parts = (part for message in messages for part in message["content"])
    return {part["type"] for part in parts} - {"text"}


def text_of(template: PublicTemplate) -> str:
    """Return a template's source."""
    name = next(name for name, one in TEMPLATES.items() if one is template)
    return (FOLDER / f"{name}.jinja").read_text("utf-8")


def served() -> tuple[list[str], list[str]]:
    """Return the architectures that take media and have a public template, and those that have none."""
    rows = re.findall(r"^\| `(\w+)` \|[^|]*\| ([^|]*) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    taking = [name for name, takes in rows if takes != "texts only"]
    known = {name for template in TEMPLATES.values() for name in template.serves}
    return [name for name in taking if name in known], [name for name in taking if name not in known]
