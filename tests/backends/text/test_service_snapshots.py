"""Conversations with models that need snapshots: a turn reads only what comes after the last unchanged message."""

import asyncio
import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from orchard.backends.text.model import load_text_model
from orchard.core.tasks.generate import (
    Generate,
    Message,
    ReasoningPart,
    Role,
    Sampling,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from orchard.core.tasks.text_options import TextOptions
from tests.support.engine_driver import store_calibration
from tests.support.models import make_architecture
from tests.support.worker_caller import Caller, serving

# The roles have tokens of their own, as those of Mistral, DeepSeek, GLM, Phi and Kimi have.
BY_ROLE = """\
{%- for m in messages %}{% if m.role == 'assistant' %}{{ '<|im_start|>' + m.content + '<|im_end|>' }}
{%- else %}{{ '<|endoftext|>' + m.content }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}<|im_start|>{% endif %}"""
# Reasoning before the last question is dropped, as by Qwen's templates.
DROPPING = """\
{%- set ns = namespace(last=0) %}
{%- for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}
{%- for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}
{%- if m.role == 'assistant' and loop.index0 > ns.last %}{{ '<think>' + (m.reasoning_content or '') + '</think>' }}
{%- endif %}{{ m.content or '' }}
{%- for call in m.tool_calls or [] %}{{ '<tool_call>' + (call.function | tojson) + '</tool_call>' }}{% endfor %}
{{- '<|im_end|>\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n<think>' }}{% endif %}"""
_SOON = 8  # tokens, fewer of which are read again


def said(role: Role, text: str) -> Message:
    return Message(role, (TextPart(text),))


def agent(questions: Sequence[str], calls: int) -> list[Message]:
    """Questions, each with so many calls, their results, and an answer."""
    messages = [said("system", "Use the tools.")]
    for number, question in enumerate(questions):
        messages.append(said("user", question))
        for turn in range(calls):
            id_ = f"c{number}{turn}"
            messages.append(Message("assistant", (ReasoningPart("Hm."), ToolCallPart(id_, "f", "{}"))))
            messages.append(Message("tool", (ToolResultPart(id_, (TextPart(f"{turn} is blue"),)),)))
        messages.append(Message("assistant", (ReasoningPart("So."), TextPart("It is blue."))))
    return messages


class Conversation:
    """Asks for answers, and knows where each prompt begins to differ from all earlier ones."""

    def __init__(self, caller: Caller, earlier: "Conversation | None" = None) -> None:
        self._caller = caller
        self._prompts: list[list[int]] = earlier._prompts if earlier else []

    async def ask(self, messages: Sequence[Message]) -> None:
        """Ask, and see that nothing of an unchanged message is read again."""
        prompter = self._caller.service._prompter
        assert prompter
        task = Generate(tuple(messages), sampling=Sampling(temperature=0.0), max_tokens=3)
        tokens = prompter.prepare(task).tokens
        same = max(
            (len([*itertools.takewhile(is_same, zip(tokens, p, strict=False))]) for p in self._prompts), default=0
        )
        ends = [0, *(place for place, token in enumerate(tokens) if token in prompter.template.message_ends)]
        unchanged = max(place for place in ends if place <= same)
        found = await self._caller.ask(str(len(self._prompts)), task)
        assert found.usage.cached_tokens > unchanged - _SOON, (unchanged, same, len(tokens))
        self._prompts.append(tokens)


def is_same(pair: tuple[int, int]) -> bool:
    return pair[0] == pair[1]


def folder_of(base: Path, kind: str, template: str) -> Path:
    folder = base / "model"
    folder.mkdir()
    make_architecture(folder, kind)
    for name, changes in (
        ("tokenizer_config", {"chat_template": template}),
        ("config", {"max_position_embeddings": 2048}),
    ):
        file = folder / f"{name}.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    store_calibration(load_text_model(str(folder)), TextOptions())
    return folder


@pytest.mark.parametrize("kind", ["gemma3_text", "lfm2"])
async def test_a_chat_whose_roles_have_their_own_tokens(tmp_path: Path, kind: str) -> None:
    """Turns, an edited question, the same question again, and two branches."""
    async with serving(folder_of(tmp_path, kind, BY_ROLE)) as caller:
        talk = Conversation(caller)
        messages = [said("system", "The sky is blue and the sea is blue too.")]
        for turn in range(5):
            messages.append(said("user", f"Is {turn} blue, and how blue is it?"))
            await talk.ask(messages)
            messages.append(said("assistant", f"Hello, {turn} is fine, thank you."))
        for text in ("Is the sea blue, then?", "Is the sky blue, then?", "Is the sea blue, then?"):
            await talk.ask([*messages[:-2], said("user", text)])
        for branch in (messages[:5], messages[:7]):
            await talk.ask([*branch, said("user", "Is this another way?")])


@pytest.mark.parametrize("kind", ["gemma3_text", "qwen3_next"])
async def test_an_agent_whose_reasoning_is_dropped(tmp_path: Path, kind: str) -> None:
    """All turns of a question, then the next one: from the end of the last question on, the text is another one."""
    messages = agent(["Is the sea blue?", "And the sky?"], 4)
    async with serving(folder_of(tmp_path, kind, DROPPING)) as caller:
        talk = Conversation(caller)
        for place, message in enumerate(messages):
            if message.role in ("user", "tool"):
                await talk.ask(messages[: place + 1])


@pytest.mark.parametrize("kind", ["gemma3_text", "qwen3_next"])
async def test_an_agents_long_turn_that_was_read_at_once(tmp_path: Path, kind: str) -> None:
    """After a restart or an eviction there are no snapshots of its single turns, but that of the question is there."""
    messages = agent(["Is the sea blue?"], 11)
    folder = folder_of(tmp_path, kind, DROPPING)
    async with serving(folder, prompt_cache_dir=str(tmp_path / "prompts")) as caller:
        talk = Conversation(caller)
        await talk.ask(messages[:-1])
    async with serving(folder, prompt_cache_dir=str(tmp_path / "prompts")) as caller:
        talk = Conversation(caller, talk)
        await talk.ask([*messages, said("user", "And the sky?")])
        await talk.ask([*messages[:-2], messages[-4]])


async def test_agents_at_once_share_the_system_message(tmp_path: Path) -> None:
    async with serving(folder_of(tmp_path, "lfm2", BY_ROLE)) as caller:
        talk = Conversation(caller)
        system = said("system", "The sky is blue and the sea is blue too.")
        await talk.ask([system, said("user", "Hello")])
        await asyncio.gather(*(talk.ask([system, said("user", f"{number} is fine")]) for number in range(4)))
