"""Text models in mlx-lm's format."""

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
from msgspec import Struct

from orchard.core.errors import OrchardError
from orchard.core.model_config import context_window

_UNKNOWN_WINDOW = 32_768


class GenerationDefaults(Struct, frozen=True):
    """What generation_config.json says where a request says nothing; else the neutral values."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0


@dataclass(frozen=True)
class TextModel:
    """A loaded model: the engine's `Model`, and what the rest of the worker must know about it.

    `tokenizer` is mlx-lm's wrapper, `context_window` the tokens that prompt and answer share.
    """

    network: Any
    tokenizer: Any
    eos_token_ids: frozenset[int]
    context_window: int
    vocab_size: int
    defaults: GenerationDefaults

    def new_cache(self) -> list[Any]:
        """Give an empty cache, one entry a layer."""
        from mlx_lm.models.cache import make_prompt_cache

        cache: list[Any] = make_prompt_cache(self.network)
        return cache

    def forward(self, tokens: mx.array, cache: list[Any]) -> mx.array:
        """Read tokens (1, n), append them to the cache, and give lazy logits (1, n, vocab_size)."""
        logits: mx.array = self.network(tokens, cache=cache)
        return logits


def load(path: str) -> TextModel:
    """Load a model folder; on Metal its memory is wired, as mlx-lm does. Nothing is fetched and no code of it is run.

    Raises OrchardError("model_failed") with a sentence that says what is wrong with the folder.
    """
    # A folder is complete or broken: asking the network would only delay the answer.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from mlx_lm.utils import maybe_set_recommended_wired_limit

    folder = Path(path)
    network, config = _network(folder)
    tokenizer = _tokenizer(folder, config)
    if not tokenizer.has_chat_template:
        raise OrchardError(
            "model_failed", f"the model in {folder} has no chat template, so it can't hold a conversation"
        )
    maybe_set_recommended_wired_limit()  # does nothing where the device has no such limit
    probe = network(mx.array([[0]], mx.uint32))
    return TextModel(
        network=network,
        tokenizer=tokenizer,
        eos_token_ids=frozenset(tokenizer.eos_token_ids),
        context_window=_window(config, tokenizer),
        vocab_size=probe.shape[-1],
        defaults=_defaults(folder),
    )


def _network(folder: Path) -> tuple[Any, dict[str, Any]]:
    from mlx_lm.utils import load_model

    try:
        network, config = load_model(folder)
    except Exception as error:
        raise OrchardError("model_failed", f"the model in {folder} can't be loaded: {_why(folder, error)}") from error
    return network, config


def _why(folder: Path, error: Exception) -> str:
    """Say in words that a user can act on why mlx-lm refused a folder."""
    first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
    match error:
        case FileNotFoundError():
            return f"it has no {'model*.safetensors' if (folder / 'config.json').is_file() else 'config.json'}"
        case json.JSONDecodeError():
            return f"its config.json is not JSON ({first_line})"
        case _ if broken := _broken_json(folder):
            return broken
        case KeyError():
            return f"its config.json has no {first_line}"
    # What mlx-lm says where its exception's type says too little.
    said = {
        "Model type": "mlx-lm does not know its architecture",
        "custom module": "it wants to run Python code of its own, which is never done",
        "parameters": "its weights do not fit its config.json",
        "shape": "its weights do not fit its config.json",
    }
    reason = next((why for words, why in said.items() if words in first_line), None)
    return f"{reason or 'its files are broken or not in mlx-lm format'} ({first_line.rstrip('.')})"


def _broken_json(folder: Path) -> str | None:
    """Name the file where mlx-lm stumbled over what is no JSON object in UTF-8; none where both are."""
    for name in ("config.json", "generation_config.json"):
        try:
            if not isinstance(json.loads((folder / name).read_text("utf-8")), dict):
                return f"its {name} is not a JSON object"
        except json.JSONDecodeError:
            continue  # mlx-lm takes no offence at such a generation_config.json, and says so of a config.json
        except UnicodeDecodeError:
            return f"its {name} is not UTF-8"
        except OSError:
            continue
    return None


def _tokenizer(folder: Path, config: dict[str, Any]) -> Any:
    from mlx_lm.utils import load_tokenizer

    try:
        # An explicit False: by default transformers asks on the terminal whether code of the folder may run.
        extra = {"trust_remote_code": False}
        return load_tokenizer(folder, tokenizer_config_extra=extra, eos_token_ids=config.get("eos_token_id"))
    except Exception as error:
        first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise OrchardError(
            "model_failed", f"the tokenizer in {folder} is missing or can't be loaded: {first_line}"
        ) from error


def _window(config: dict[str, Any], tokenizer: Any) -> int:
    if known := context_window(config):
        return known
    # transformers writes 10^30 where a tokenizer knows no limit.
    limit = tokenizer.model_max_length
    return int(limit) if 0 < limit < 10**9 else _UNKNOWN_WINDOW


def _defaults(folder: Path) -> GenerationDefaults:
    """Read generation_config.json; what it lacks, or has in a form that can't be meant, stays neutral."""
    try:
        found = json.loads((folder / "generation_config.json").read_text("utf-8"))
    except (OSError, ValueError):
        found = {}
    # mlx-lm takes other JSON where it is empty.
    found = found if isinstance(found, dict) else {}
    known: dict[str, Any] = {}
    for name, neutral in (
        ("temperature", 1.0),
        ("top_p", 1.0),
        ("top_k", 0),
        ("min_p", 0.0),
        ("repetition_penalty", 1.0),
    ):
        value = found.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf:
            known[name] = type(neutral)(value)
    if known.get("repetition_penalty") == 0:
        del known["repetition_penalty"]
    if found.get("do_sample") is False:
        known["temperature"] = 0.0
    return GenerationDefaults(**known)
