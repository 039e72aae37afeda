"""What a model's config.json says of it, for the gateway that lists models and for the worker that runs one."""

from typing import Any

_WINDOW_KEYS = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length", "model_max_length")


def context_window(config: dict[str, Any]) -> int | None:
    """Give the longest sequence, in tokens, that the model was made for; None where its config.json says nothing."""
    text = config.get("text_config")
    for level in (config, text if isinstance(text, dict) else {}):
        for key in _WINDOW_KEYS:
            if isinstance(value := level.get(key), int) and value > 0:
                return value
    return None
