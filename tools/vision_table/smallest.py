"""The smallest configuration of an architecture that its module constructs a model from."""

import itertools
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.support.vision_families import VisionFamily
from tests.support.vision_models import model_config

from tools.vision_table.architectures import Architecture
from tools.vision_table.by_hand import ADDITIONS
from tools.vision_table.shrink import VOCABULARY, tiny

_TEXTS = (None, "llama", "qwen2", "mistral")  # types that a part's configuration may have to name
_VISIONS = (None, "siglip_vision_model", "clip_vision_model", "{}", "{}_vision", "llama4_vision_model")


def configuration(architecture: Architecture) -> dict[str, Any]:
    """Return the smallest configuration; a part's fields stand at the top, too, where some architectures want them."""
    config = tiny(architecture.module.ModelConfig, architecture.module)
    return _merged((config.get("text_config") or {}) | config, ADDITIONS.get(architecture.name, {}))


def family(architecture: Architecture, by_hand: VisionFamily) -> VisionFamily:
    """Return a family of the smallest configuration, to which its own is added."""
    config = _merged(configuration(architecture), by_hand.config) | {"model_type": architecture.name}
    _, typed = network(architecture, _numbered(config, by_hand.tokens))
    for part in ("text_config", "vision_config"):
        if "model_type" in (typed.get(part) or {}):
            config[part]["model_type"] = typed[part]["model_type"]
    return replace(by_hand, config=config)


def network(architecture: Architecture, config: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Construct a model, with the first types of its parts that it knows, and return its configuration, too."""
    first: Exception | None = None
    for text, vision in itertools.product(_TEXTS, _VISIONS):
        tried = json.loads(json.dumps(config))
        for part, named in (("text_config", text), ("vision_config", vision)):
            if named is not None and isinstance(tried.get(part), dict):
                tried[part]["model_type"] = named.format(architecture.name)
        try:
            return architecture.module.Model(model_config(architecture.module, json.loads(json.dumps(tried)))), tried
        except ValueError as error:
            if "not supported" not in str(error) and "nsupported model type" not in str(error):
                raise
            first = first or error
    assert first is not None
    raise first


def _merged(config: dict[str, Any], additions: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(config)
    for key, value in additions.items():
        old = merged.get(key)
        merged[key] = _merged(old, value) if isinstance(value, dict) and isinstance(old, dict) else value
    return merged


def _numbered(value: Any, tokens: tuple[str, ...]) -> Any:
    """Return a configuration with numbers in place of tokens."""
    if isinstance(value, dict):
        return {key: _numbered(one, tokens) for key, one in value.items()}
    if value == "VOCABULARY":
        return VOCABULARY
    return tokens.index(value) if isinstance(value, str) and value in tokens else value
