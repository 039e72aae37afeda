"""Prompts with media are those that transformers' processors make: the texts of public templates, and the tokens."""

import io
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from mlx_lm.tokenizer_utils import TokenizerWrapper
from msgspec.structs import replace
from PIL import Image
from tokenizers import AddedToken
from transformers import PreTrainedTokenizerFast

from orchard.backends.text.output import Vocabulary
from orchard.backends.text.prompt.chat_template import ChatTemplate
from orchard.backends.text.prompt.documents import DocumentReader
from orchard.backends.text.prompt.media import PromptMedia, mark_media
from orchard.backends.text.prompt.prompter import Prompter
from orchard.backends.vision.model import load_vision_model
from orchard.core.media import MediaKind, MediaPart
from orchard.core.tasks.generate import Generate, Message, TextPart, Tool, ToolCallPart, ToolResultPart
from orchard.core.tasks.text_options import TextOptions
from tests.support.models import make_tokenizer
from tests.support.vision_prompts import (
    FOLDER,
    PAGE,
    PROCESSORS,
    RECORDS,
    SIZES,
    SPECIAL_TOKENS,
    TEMPLATES,
    TOOL,
    Said,
    conversations,
    served,
    text_of,
)

RECORDED = json.loads(RECORDS.read_text("utf-8"))
DOCUMENTS = DocumentReader()  # it starts no process
TOOLS = (Tool("look", "Looks.", TOOL["function"]["parameters"]),)


def task_of(messages: list[Said], media: Iterator[bytes], variables: dict[str, Any]) -> Generate:
    """Return a conversation as Orchard's dialects give it."""

    def parts(message: Said) -> tuple[TextPart | MediaPart, ...]:
        return tuple(
            TextPart(part["text"])
            if part["type"] == "text"
            else MediaPart(part["type"], "", "messages", data=next(media))
            for part in message["content"]
        )

    def said(message: Said) -> Message:
        calls = (ToolCallPart(call["id"], call["function"]["name"], "{}") for call in message.get("tool_calls", ()))
        if message["role"] == "tool":
            return Message("tool", (ToolResultPart(message["tool_call_id"], parts(message)),))
        return Message(message["role"], (*parts(message), *calls))

    arguments = {name: value for name, value in variables.items() if name != "tools"}
    tools = TOOLS if "tools" in variables else ()
    return Generate(tuple(map(said, messages)), tools=tools, template_args=arguments)


class Reader:
    """Reads each medium as three of its template's token for it."""

    feature_ids = frozenset[int]()

    def __init__(self, tokens: dict[str, str]) -> None:
        self._tokens = tokens
        self.kinds = frozenset(tokens)

    def expand_placeholder(self, kind: MediaKind, placeholder: str) -> str | None:
        token = self._tokens[kind]
        return placeholder.replace(token, token * 3) if token in placeholder else None

    def usual_placeholders(self, kind: MediaKind) -> Iterator[str]:
        yield self._tokens[kind]

    def read(self, part: MediaPart, placeholder: str, check: Any, salt: bytes) -> Any:
        return SimpleNamespace(text=self.expand_placeholder(part.kind, placeholder), tokens=[], bytes=0)


class Model:
    """Encodes at no cost."""

    cost = SimpleNamespace(encoding_seconds=lambda medium: 0.0, encoding_bytes=lambda medium: 0)

    def __init__(self, reader: Reader, tokenizer: Any) -> None:
        self.reader = reader
        self.tokenizer = tokenizer


class Prompts:
    """Makes prompts with a template that writes these tokens for media."""

    def __init__(self, template: str, tokens: dict[str, str], around: tuple[str, ...] = ()) -> None:
        tokenizer = make_tokenizer()
        tokenizer.add_special_tokens([AddedToken(token, special=True) for token in (*tokens.values(), *around)])
        wrapped = TokenizerWrapper(
            PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL_TOKENS, chat_template=template)
        )
        self.template = ChatTemplate(wrapped, None)
        model: Any = Model(Reader(tokens), wrapped)
        self.media = PromptMedia(model, self.template, lambda: 2**30)
        self._model = model  # `media` doesn't keep it

    def __call__(self, task: Generate) -> tuple[str, str]:
        """Return a prompt with placeholders, and with what is put into their places."""
        read = self.media.read(mark_media(task, DOCUMENTS), lambda tokens: None)
        text = self.media.render(read, partial(self.template.render, read.task, lambda prompt: False))
        return self.media.show_placeholders(read, text), self.media.expand_markers(read, text)[0]


@pytest.mark.parametrize("name", TEMPLATES)
def test_texts_are_those_of_transformers(name: str) -> None:
    public = TEMPLATES[name]
    prompts = Prompts(text_of(public), public.tokens, public.around)
    for title, messages, variables in conversations(public):
        media = [part["type"] for message in messages for part in message["content"] if part["type"] != "text"]
        shown, expanded = prompts(task_of(messages, iter([b""] * len(media)), variables))
        if (recorded := RECORDED["texts"][name][title]) is not None:
            assert shown == recorded, title
        for token in public.tokens.values():
            shown = shown.replace(token, token * 3)
        assert shown == expanded, title
        for kind in set(media):
            assert expanded.count(public.tokens[kind] * 3) == media.count(kind), title


def spelled(value: Any, word: str, by: str) -> Any:
    """Return messages or tools in which each text has a word replaced."""
    if isinstance(value, str):
        return value.replace(word, by)
    if isinstance(value, dict):
        return {key: one if key in ("type", "role") else spelled(one, word, by) for key, one in value.items()}
    return [spelled(one, word, by) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", TEMPLATES)
def test_no_text_of_a_caller_takes_the_place_of_a_medium(name: str) -> None:
    """Whatever a user, a system message, a tool's result or its description spells."""
    public = TEMPLATES[name]
    prompts = Prompts(text_of(public), public.tokens, public.around)
    for title, messages, variables in conversations(public):
        asked: list[Said] = (
            [{"role": "system", "content": [{"type": "text", "text": "Zebra"}]}] if title == "result" else []
        )
        asked += [
            message | {"content": [{"type": "text", "text": "Zebra"}, *message["content"]]} for message in messages
            if message["role"] != "system"
        ]  # fmt: skip
        tools = (Tool("look", "Zebra", TOOL["function"]["parameters"]),) if "tools" in variables else ()
        count = len([part for message in asked for part in message["content"] if part["type"] != "text"])
        plain = replace(task_of(asked, iter([b""] * count), {}), tools=tools)
        shown, expanded = prompts(plain)
        for token in public.tokens.values():
            own = task_of(spelled(asked, "Zebra", token), iter([b""] * count), {})
            own = replace(own, tools=tuple(replace(tool, description=token) for tool in tools))
            assert prompts(own) == (shown.replace("Zebra", token), expanded.replace("Zebra", token)), title


def black(size: tuple[int, int]) -> bytes:
    written = io.BytesIO()
    Image.new("RGB", size).save(written, "PNG")
    return written.getvalue()


@pytest.mark.parametrize("name", PROCESSORS)
def test_tokens_are_those_of_transformers(name: str, vision_folder: Callable[[str], Path]) -> None:
    public = TEMPLATES[name]
    options = TextOptions(chat_template_file=str(FOLDER / f"{name}.jinja"))
    model = load_vision_model(str(vision_folder(name)), options)
    prompter = Prompter(
        model, Vocabulary(model.tokenizer), options, lambda _, template: PromptMedia(model, template, lambda: 2**30)
    )
    try:
        for title, messages, variables in conversations(public):
            if recorded := RECORDED["ids"][name].get(title):
                prepared = prompter.prepare(task_of(messages, map(black, SIZES), variables))
                assert " ".join(map(str, prepared.tokens)) == recorded, title
    finally:
        prompter.close()


def test_the_page_says_which_architectures_are_compared() -> None:
    page = PAGE.read_text("utf-8")
    for names in served():
        assert ", ".join(f"`{name}`" for name in names) in page
