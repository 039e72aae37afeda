from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.core import model_config
from orchard.core.model_config import absurd_size, architecture, capabilities, context_window, layer_bits, weight_format

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}


@pytest.mark.parametrize(
    ("config", "window"),
    [
        ({"max_position_embeddings": 40960}, 40960),
        ({"n_positions": 1024}, 1024),
        ({"seq_length": 131072}, 131072),  # ChatGLM
        ({"max_sequence_length": 2048}, 2048),  # OLMo
        ({"max_seq_len": 4096}, 4096),  # DBRX
        ({"text_config": {"max_position_embeddings": 8192}}, 8192),
        ({"llm_config": {"max_position_embeddings": 8192}, "max_position_embeddings": 100}, 8192),  # InternVL
        ({"thinker_config": {"text_config": {"max_position_embeddings": 32768}}}, 32768),  # Qwen-Omni
        ({"text_config": {"hidden_size": 1}, "max_position_embeddings": 512}, 512),
        # As Google's own config.json of gemma-3-4b-it has it.
        ({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text"}}, 131072),
        ({"max_position_embeddings": None}, None),
        ({"max_position_embeddings": True}, None),
        ({"max_position_embeddings": -1, "n_ctx": 77}, 77),
        ({"model_max_length": 10**30}, None),
        ({"text_config": [1]}, None),
        ({}, None),
    ],
)
def test_context_window(config: dict[str, Any], window: int | None) -> None:
    assert context_window(config) == window


@pytest.mark.parametrize(
    ("said", "rope", "window"),
    [
        (32768, YARN, 131072),  # Qwen2.5, as its model card says to change it
        (40960, YARN, 131072),  # Qwen3: there are 8192 for the answer in the number
        (163840, {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096}, 163840),  # DeepSeek-V3
        (32768, {"rope_type": "yarn", "factor": 4.0}, 32768),
        (131072, {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}, 131072),  # Llama 3.1
        (131072, {"type": "longrope", "factor": 32.0, "original_max_position_embeddings": 4096}, 131072),  # Phi-3
        (16384, {"type": "linear", "factor": 4.0}, 16384),  # DeepSeek-Coder: the number is what the stretch reached
        (4096, {"type": "linear", "factor": 4.0, "original_max_position_embeddings": 4096}, 16384),
        (32768, {"type": "dynamic", "factor": 2.0}, 65536),  # InternLM2
        (131072, {"full_attention": {"rope_type": "linear", "factor": 8.0}, "sliding_attention": {}}, 131072),  # Gemma
        (4096, {"rope_type": "default", "factor": 9}, 4096),
        (4096, {"rope_type": "dynamic", "factor": 0.5}, 4096),
        (4096, {"rope_type": "dynamic", "factor": float("inf")}, 4096),
        (4096, {"rope_type": "dynamic", "factor": 10**9}, 4096),
        (4096, {"rope_type": ["yarn"]}, 4096),
        (4096, "yarn", 4096),
    ],
)
@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
def test_a_stretched_window(said: int, rope: object, window: int, key: str) -> None:
    assert context_window({"max_position_embeddings": said, key: rope}) == window


@pytest.mark.parametrize(
    ("kind", "template", "able"),
    [
        ("text", "{% for m in messages %}{{ m.content }}{% endfor %}", ()),
        ("text", "{% if tools %}...", ("tools",)),
        ("text", "{% if enable_thinking %}", ("thinking",)),
        ("vision", "{{ tools }}<think>", ("vision", "tools", "thinking")),
    ],
)
def test_capabilities(kind: str, template: str, able: tuple[str, ...]) -> None:
    assert capabilities(kind, template) == able


def test_without_the_extra_no_model_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_config, "find_spec", lambda name: None if name == "mlx_vlm" else object())
    assert capabilities("vision", "{{ tools }}") == ("tools",)


_NAMES = st.sampled_from(
    [
        *model_config._WINDOW_KEYS,
        *model_config._TEXT_PARTS,
        *model_config._MAX_SIZES,
        "rope_scaling",
        "rope_parameters",
        "full_attention",
        "rope_type",
        "type",
        "factor",
        "original_max_position_embeddings",
        "model_type",
    ]
)
_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["yarn", "linear", "dynamic", "gemma3", ""])
)
_JSON = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=5), max_leaves=20
)


@given(st.dictionaries(_NAMES, _JSON))
def test_no_json_object_makes_it_raise(config: dict[str, Any]) -> None:
    window = context_window(config)
    assert window is None or 0 < window < 2**31
    assert absurd_size(config) is None or " is " in str(absurd_size(config))


@pytest.mark.parametrize("key", sorted(model_config._MAX_SIZES))
def test_a_size_that_no_model_has_is_named(key: str) -> None:
    most = model_config._MAX_SIZES[key]
    assert absurd_size({key: most, "other": 10**12}) is None
    said = f"{key} is {most + 1:,}, and models have at most {most:,}"
    for config in ({key: most + 1}, {"text_config": {key: most + 1}}, {key: [1, most + 1]}, {key: most + 1.0}):
        assert str(absurd_size(config)).replace(".0,", ",") == said


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"quantization": {"bits": 4, "group_size": 64}}, ("4bit", 4)),
        ({"quantization_config": {"bits": 8}, "torch_dtype": "float16"}, ("8bit", 8)),
        ({"quantization": {"bits": "4"}, "dtype": "float32"}, ("f32", 32)),
        ({"text_config": {"torch_dtype": "float16"}}, ("f16", 16)),
        ({"torch_dtype": "bfloat16"}, ("bf16", 16)),
        ({"quantization": [4], "dtype": 16}, ("", 16)),
        ({"quantization": {"bits": True}}, ("", 16)),
    ],
)
def test_the_format_of_weights(config: dict[str, Any], expected: tuple[str, int]) -> None:
    assert weight_format(config) == expected


def test_layers_may_have_bits_of_their_own() -> None:
    odd = {"bits": 4, "group_size": 32, "a": {"bits": 8}, "b": {"bits": True}, "c": False, "d": {"bits": 0}, "e": {}}
    assert layer_bits({"quantization": odd, "quantization_config": None}) == {"a": 8}
    assert layer_bits({}) == {}


def test_the_architecture() -> None:
    assert architecture({"model_type": "qwen3"}) == "qwen3"
    assert architecture({"model_type": ["qwen3"]}) == architecture({}) == ""
