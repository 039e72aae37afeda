"""Which options can't be combined."""

import msgspec
import pytest

from orchard.core.tasks.text_options import TextOptions


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"kv_bits": 4, "max_kv_size": 64}, "kv_bits and max_kv_size can't be combined"),
        ({"prompt_cache_dir": "a", "prompt_cache_bytes": 0}, "prompt_cache_dir needs prompt_cache_bytes above 0"),
        ({"enable_thinking": True, "thinking_budget": 0}, "can't be combined with a thinking_budget of 0"),
        ({"defaults": {"temperature": 2.1}}, "defaults.temperature"),
        ({"defaults": {"temprature": 1}}, "temprature"),
        ({"context_length": 0}, "context_length"),
        ({"ranks": 0}, "ranks"),
        ({"parallel": "tensor"}, "parallel needs hosts, or ranks above 1"),
        ({"ranks": 2, "adapter_path": "a"}, "adapter_path can't be combined with ranks above 1"),
        ({"ranks": 2, "draft_model_path": "a"}, "draft_model_path can't be combined with ranks above 1"),
        ({"ranks": 2, "kv_bits": 4}, "kv_bits can't be combined with ranks above 1"),
    ],
)
def test_what_is_refused(fields: dict[str, object], words: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=words):
        msgspec.convert(fields, TextOptions)


def test_a_budget_of_nothing_goes_with_no_thinking() -> None:
    TextOptions(enable_thinking=False, thinking_budget=0)
    TextOptions(enable_thinking=True, thinking_budget=1)


def test_ranks_guess_nothing() -> None:
    assert TextOptions().speculates
    assert not TextOptions(ranks=2).speculates
    assert not TextOptions(speculation="off").speculates
