"""The bundled folder: its tokenizer and its template render the documented shapes."""

import json
from typing import Any

import pytest

from orchard.demo import MODEL_PATH

OPEN = "<|im_start|>assistant\n<think>\n\n</think>\n\n"
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    from transformers import AutoTokenizer

    # Not mlx-lm's wrapper, which turns thinking on by itself for every model that knows how to.
    return AutoTokenizer.from_pretrained(MODEL_PATH)


def rendered(tokenizer: Any, messages: list[dict[str, Any]], **options: Any) -> str:
    text = tokenizer.apply_chat_template(messages, tokenize=False, **options)
    assert isinstance(text, str)
    return text


def call(arguments: Any) -> dict[str, Any]:
    return {"id": "1", "type": "function", "function": {"name": "add", "arguments": arguments}}


def test_the_folder_is_small_and_complete() -> None:
    names = {path.name for path in MODEL_PATH.iterdir()}
    assert names >= {
        "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja",
        "generation_config.json", "README.md",
    }  # fmt: skip
    assert sum(path.stat().st_size for path in MODEL_PATH.iterdir()) <= 16e6
    config = json.loads((MODEL_PATH / "config.json").read_text())
    assert config["model_type"] == "qwen3"


def test_thinking_is_off_by_default(tokenizer: Any) -> None:
    messages = [{"role": "user", "content": "hi"}]
    asked = "<|im_start|>user\nhi<|im_end|>\n"
    assert rendered(tokenizer, messages, add_generation_prompt=True) == asked + OPEN
    assert rendered(tokenizer, messages, add_generation_prompt=True, enable_thinking=False) == asked + OPEN
    on = rendered(tokenizer, messages, add_generation_prompt=True, enable_thinking=True)
    assert on == asked + "<|im_start|>assistant\n"
    assert rendered(tokenizer, messages) == asked


def test_tools_follow_the_system_prompt(tokenizer: Any) -> None:
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hi"}]
    text = rendered(tokenizer, messages, tools=[TOOL])
    assert text.startswith("<|im_start|>system\nBe kind.\n\n<tools>\n" + json.dumps(TOOL) + "\n</tools><|im_end|>\n")
    assert rendered(tokenizer, messages[1:], tools=[TOOL]).startswith("<|im_start|>system\n<tools>\n")


@pytest.mark.parametrize("arguments", [{"a": 1, "b": "x"}, '{"a": 1, "b": "x"}'])
def test_calls_and_results(tokenizer: Any, arguments: Any) -> None:
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": None, "tool_calls": [call(arguments), call({})]},
        {"role": "tool", "tool_call_id": "1", "content": "3"},
        {"role": "tool", "tool_call_id": "2", "content": "4"},
    ]
    assert rendered(tokenizer, messages, tools=[TOOL]).partition("go<|im_end|>\n")[2] == (
        OPEN + '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": "x"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "add", "arguments": {}}\n</tool_call><|im_end|>\n'
        "<|im_start|>user\n<tool_response>\n3\n</tool_response>\n<tool_response>\n4\n</tool_response><|im_end|>\n"
    )


def test_thoughts_of_earlier_turns_are_dropped(tokenizer: Any) -> None:
    messages = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "<think>\nsecret\n</think>\n\n1"},
        {"role": "user", "content": "two"},
        {"role": "assistant", "content": "2", "reasoning_content": "kept"},
    ]
    text = rendered(tokenizer, messages)
    assert "secret" not in text
    assert OPEN + "1<|im_end|>" in text
    assert text.endswith("<|im_start|>assistant\n<think>\nkept\n</think>\n\n2<|im_end|>\n")


def test_a_history_without_thinking_repeats_what_was_generated(tokenizer: Any) -> None:
    messages = [{"role": "user", "content": "one"}]
    prompt = rendered(tokenizer, messages, add_generation_prompt=True)
    messages += [{"role": "assistant", "content": "1"}, {"role": "user", "content": "two"}]
    assert rendered(tokenizer, messages).startswith(prompt + "1<|im_end|>\n")


def test_system_anywhere_and_content_in_parts(tokenizer: Any) -> None:
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "system", "content": "Now be brief."},
        {"role": "assistant", "content": ""},
    ]
    assert rendered(tokenizer, messages) == (
        "<|im_start|>user\nab<|im_end|>\n<|im_start|>system\nNow be brief.<|im_end|>\n" + OPEN + "<|im_end|>\n"
    )


def test_a_last_message_can_be_continued(tokenizer: Any) -> None:
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hel"}]
    assert rendered(tokenizer, messages, continue_final_message=True).endswith(OPEN + "Hel")


def test_a_word_has_the_same_tokens_everywhere(tokenizer: Any) -> None:
    alone = tokenizer.encode("flumbertwig")
    before, behind = tokenizer.encode('Say "'), tokenizer.encode('".')
    assert tokenizer.encode('Say "flumbertwig".') == before + alone + behind
    assert len(tokenizer.encode("2024")) == 4
