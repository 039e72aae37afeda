"""Names for how a chat template takes earlier calls and their results: those of mlx-openai-server and vLLM."""

from collections.abc import Mapping
from typing import Any

# Most convert arguments from JSON text to objects.
_OBJECTS: dict[str, Any] = {"calls": True, "text_arguments": False}
_NAMES = (
    "functiongemma glm4_moe hermes llama4_pythonic longcat longcat_flash_lite minimax minimax_m2 nemotron3_nano "
    "qwen3 qwen3_5 qwen3_coder qwen3_moe qwen3_next qwen3_vl step_35"
)
_CONVERTERS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(_NAMES.split(), _OBJECTS),
    "harmony": _OBJECTS | {"several_calls": False, "reasoning_beside_text": False},
    "llama3_json": _OBJECTS | {"several_calls": False, "text_beside_calls": False},
    "mistral": _OBJECTS | {"ids": "short"},
    "kimi_k2": _OBJECTS | {"ids": "numbered"},
    "gemma4": _OBJECTS | {"results_within": True},
    "deepseek_v3": {"calls": True, "text_arguments": True, "text_beside_calls": False},
    "deepseek_v31": {"calls": True, "text_arguments": True},
}


def converter(name: str) -> Mapping[str, Any]:
    """Return the `TemplateCapabilities` that a converter sets. Raise ValueError, which lists the known names."""
    if (wanted := _CONVERTERS.get(name.lower().replace("-", "_"))) is None:
        raise ValueError(f"'{name}' is no message_converter that is known: they are {', '.join(sorted(_CONVERTERS))}")
    return wanted
