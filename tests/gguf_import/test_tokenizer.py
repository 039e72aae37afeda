"""Imported tokenizers read texts as llama.cpp does; `record.py` has asked it."""

import json
from pathlib import Path

import pytest

from orchard.gguf_import.header import read_model
from orchard.gguf_import.tokenizer import make_tokenizer
from tests.gguf_import.record import RECORD, VOCABULARIES, texts_for
from tests.gguf_import.texts import digest
from tests.gguf_import.tiny_models import write_vocabulary_file


@pytest.mark.parametrize("name", VOCABULARIES)
def test_texts_have_the_tokens_of_llama_cpp(name: str, tmp_path: Path) -> None:
    kind, pre, model = VOCABULARIES[name]
    file = write_vocabulary_file(tmp_path / "words.gguf", kind, pre=pre, name=model)
    parts = make_tokenizer(read_model([file]).metadata, 10_000, [], "")
    found = digest(parts.tokenizer.encode(text) for text in texts_for(name))
    assert found == json.loads(RECORD.read_text())[name]


def test_answers_end_where_llama_cpp_and_the_modelfile_say(tmp_path: Path) -> None:
    file = write_vocabulary_file(tmp_path / "words.gguf", "gpt2", pre="qwen2", name="")
    parts = make_tokenizer(read_model([file]).metadata, 10_000, ["<think>", "\n\n\n"], "")
    ends = parts.tokenizer.convert_ids_to_tokens(parts.end_ids)
    assert ends == ["</s>", "<|im_end|>", "<|end|>", "<|endoftext|>", "<think>"]


@pytest.mark.parametrize("system", ["You are 'Bob'.\nSay {{ hi }} {% raw %}\\n", "plain"])
def test_a_system_prompt_comes_before_a_chat_that_has_none(system: str, tmp_path: Path) -> None:
    file = write_vocabulary_file(tmp_path / "words.gguf", "gpt2", pre="qwen2", name="")
    parts = make_tokenizer(read_model([file]).metadata, 10_000, [], system)

    def prompt(*messages: tuple[str, str]) -> str:
        chat = [{"role": role, "content": content} for role, content in messages]
        rendered = parts.tokenizer.apply_chat_template(chat, tokenize=False)
        assert isinstance(rendered, str)
        return rendered

    assert prompt(("user", "Hi")) == f"<|im_start|>{system}<|im_end|><|im_start|>Hi<|im_end|>"
    assert prompt(("system", "Own"), ("user", "Hi")) == "<|im_start|>Own<|im_end|><|im_start|>Hi<|im_end|>"
