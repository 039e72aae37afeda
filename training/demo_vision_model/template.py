"""The model's chat template, and the same rendering in Python for the data generator.

A short form of Qwen3-VL's: ChatML, an image as a pad token between two marks (the processor repeats it), no thinking.
"""

# ruff: noqa: E501 - phrases read best unbroken

from collections.abc import Sequence
from typing import Any

Message = dict[str, Any]

START, PAD, VIDEO, END = "<|vision_start|>", "<|image_pad|>", "<|video_pad|>", "<|vision_end|>"
PICTURE = START + PAD + END

TEMPLATE = r"""{%- macro parts(content) -%}
{%- if content is string -%}{{- content -}}
{%- elif content -%}{%- for part in content -%}
{%- if part is string -%}{{- part -}}
{%- elif part.type == 'video' or 'video' in part or part.type == 'video_url' -%}{{- '<|vision_start|><|video_pad|><|vision_end|>' -}}
{%- elif part.type in ['image', 'image_url', 'input_image'] or 'image' in part or 'image_url' in part -%}{{- '<|vision_start|><|image_pad|><|vision_end|>' -}}
{%- elif part.text is defined -%}{{- part.text -}}
{%- endif -%}{%- endfor -%}
{%- endif -%}
{%- endmacro -%}
{%- for m in messages -%}
{%- if m.role == 'assistant' -%}
{{- '<|im_start|>assistant\n' + parts(m.content) -}}
{%- if not (loop.last and continue_final_message) -%}{{- '<|im_end|>\n' -}}{%- endif -%}
{%- elif m.role == 'tool' -%}
{{- '<|im_start|>user\n' + parts(m.content) + '<|im_end|>\n' -}}
{%- else -%}
{{- '<|im_start|>' + ('system' if m.role == 'developer' else m.role) + '\n' + parts(m.content) + '<|im_end|>\n' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}
"""


def content(message: Message) -> str:
    """Return a message's content as the template writes it: a string, or a list of picture and text parts."""
    if isinstance(message["content"], str):
        return message["content"]
    return "".join(PICTURE if part["type"] == "image" else part["text"] for part in message["content"])


def render(messages: Sequence[Message]) -> list[tuple[str, bool]]:
    """Render a conversation as (text, is it learnt) segments; joined, they equal what the template gives.

    Learnt are the assistant's words and the end of its turn.
    """
    out: list[tuple[str, bool]] = []
    for message in messages:
        out.append((f"<|im_start|>{message['role']}\n", False))
        if message["role"] == "assistant":
            out.extend(((content(message) + "<|im_end|>", True), ("\n", False)))
        else:
            out.append((content(message) + "<|im_end|>\n", False))
    return out
