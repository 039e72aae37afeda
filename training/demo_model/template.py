"""The model's chat template, and the same rendering in Python for the data generator.

The template is Qwen3's in short: ChatML, tools listed in the first system turn, calls in ``<tool_call>``, results in
``<tool_response>`` inside a user turn. Two things differ. Thinking is off unless ``enable_thinking`` is true. And each
assistant turn starts with a think block, an empty one when there is nothing to show (earlier turns drop theirs), so
that a conversation without thinking renders to exactly the tokens that were generated and a prefix cache can reuse them.
"""

# ruff: noqa: E501 - phrases read best unbroken

import json
from collections.abc import Sequence
from typing import Any

Message = dict[str, Any]
Tool = dict[str, Any]

TEMPLATE = r"""{%- macro text(content) -%}
{%- if content is string -%}{{- content -}}
{%- elif content -%}{%- for part in content -%}{%- if part is string -%}{{- part -}}{%- elif part.text is defined -%}{{- part.text -}}{%- endif -%}{%- endfor -%}
{%- endif -%}
{%- endmacro -%}
{%- set ns = namespace(last=-1) -%}
{%- for m in messages -%}{%- if m.role == 'user' -%}{%- set ns.last = loop.index0 -%}{%- endif -%}{%- endfor -%}
{%- set lead = messages and messages[0].role in ['system', 'developer'] -%}
{%- if tools or lead -%}
{{- '<|im_start|>system\n' -}}
{%- if lead -%}{{- text(messages[0].content) -}}{%- if tools -%}{{- '\n\n' -}}{%- endif -%}{%- endif -%}
{%- if tools -%}
{{- '<tools>\n' -}}
{%- for tool in tools -%}{{- (tool | tojson) + '\n' -}}{%- endfor -%}
{{- '</tools>' -}}
{%- endif -%}
{{- '<|im_end|>\n' -}}
{%- endif -%}
{%- for m in messages -%}
{%- if m.role in ['system', 'developer'] -%}
{%- if not loop.first -%}{{- '<|im_start|>system\n' + text(m.content) + '<|im_end|>\n' -}}{%- endif -%}
{%- elif m.role == 'assistant' -%}
{%- set body = text(m.content) -%}
{%- set thought = '' -%}
{%- if m.reasoning_content is string -%}{%- set thought = m.reasoning_content -%}
{%- elif '</think>' in body -%}
{%- set thought = body.split('</think>')[0].split('<think>')[-1].strip('\n') -%}
{%- endif -%}
{%- if '</think>' in body -%}{%- set body = body.split('</think>')[-1].lstrip('\n') -%}{%- endif -%}
{%- if thought and loop.index0 > ns.last -%}
{{- '<|im_start|>assistant\n<think>\n' + thought.strip('\n') + '\n</think>\n\n' -}}
{%- else -%}
{{- '<|im_start|>assistant\n<think>\n\n</think>\n\n' -}}
{%- endif -%}
{{- body -}}
{%- for call in m.tool_calls or [] -%}
{%- if body or not loop.first -%}{{- '\n' -}}{%- endif -%}
{%- set f = call.function if call.function else call -%}
{{- '<tool_call>\n{"name": "' + f.name + '", "arguments": ' -}}
{%- if f.arguments is string -%}{{- f.arguments -}}{%- else -%}{{- f.arguments | tojson -}}{%- endif -%}
{{- '}\n</tool_call>' -}}
{%- endfor -%}
{%- if not (loop.last and continue_final_message) -%}{{- '<|im_end|>\n' -}}{%- endif -%}
{%- elif m.role == 'tool' -%}
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' -%}{{- '<|im_start|>user' -}}{%- endif -%}
{{- '\n<tool_response>\n' + text(m.content) + '\n</tool_response>' -}}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' -%}{{- '<|im_end|>\n' -}}{%- endif -%}
{%- else -%}
{{- '<|im_start|>' + m.role + '\n' + text(m.content) + '<|im_end|>\n' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|im_start|>assistant\n' -}}
{%- if not enable_thinking -%}{{- '<think>\n\n</think>\n\n' -}}{%- endif -%}
{%- endif -%}
"""

NO_THOUGHT = "<think>\n\n</think>\n\n"


def calls_text(calls: Sequence[Message]) -> str:
    """Write tool calls (OpenAI shape, arguments as a dict) as the model must write them."""
    blocks = []
    for call in calls:
        function = call["function"]
        arguments = json.dumps(function["arguments"], ensure_ascii=False)
        blocks.append(f'<tool_call>\n{{"name": "{function["name"]}", "arguments": {arguments}}}\n</tool_call>')
    return "\n".join(blocks)


def reply_text(message: Message) -> str:
    """Return the body of an assistant turn: its text, then its calls."""
    parts = [part for part in (message.get("content") or "", calls_text(message.get("tool_calls") or [])) if part]
    return "\n".join(parts)


def render(messages: Sequence[Message], tools: Sequence[Tool], thinking: bool) -> list[tuple[str, bool]]:
    """Render a conversation as (text, is it learnt) segments; joined, they equal what the template gives.

    Learnt are the assistant's words and the end of its turn. A think block is learnt only where the model itself
    would write it: with thinking on, after the last user message, and not where the thought was left out.
    A turn with ``learn`` set to False, which another model wrote, is read only; ``parts`` says it for each part of a turn.
    """
    out: list[tuple[str, bool]] = []
    last = max((index for index, m in enumerate(messages) if m["role"] == "user"), default=-1)
    lead = messages[0]["role"] == "system"
    if tools or lead:
        parts = [messages[0]["content"]] if lead else []
        if tools:
            listed = "".join(json.dumps(tool, ensure_ascii=False) + "\n" for tool in tools)
            parts.append(f"<tools>\n{listed}</tools>")
        out.append(("<|im_start|>system\n" + "\n\n".join(parts) + "<|im_end|>\n", False))
    for index, message in enumerate(messages):
        role = message["role"]
        if role == "assistant":
            out.append(("<|im_start|>assistant\n", False))
            thought = message.get("reasoning_content") if index > last else None
            shown = f"<think>\n{thought}\n</think>\n\n" if thought else NO_THOUGHT
            out.append((shown, bool(thought) and thinking))
            learn = message.get("learn", True)
            if "parts" in message:
                out += [*message["parts"], ("<|im_end|>", learn)]
            else:
                out.append((reply_text(message) + "<|im_end|>", learn))
            out.append(("\n", False))
        elif role == "tool":
            first, final = messages[index - 1]["role"] != "tool", index + 1 == len(messages)
            final = final or messages[index + 1]["role"] != "tool"
            text = f"\n<tool_response>\n{message['content']}\n</tool_response>"
            out.append((("<|im_start|>user" if first else "") + text + ("<|im_end|>\n" if final else ""), False))
        elif index or not lead:
            out.append((f"<|im_start|>{role}\n{message['content']}<|im_end|>\n", False))
    return out
