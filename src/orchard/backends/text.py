"""Text models in mlx-lm's format."""

import hashlib
import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
from msgspec import Struct

from orchard.backends import cuda
from orchard.core.errors import OrchardError
from orchard.core.model_config import context_window
from orchard.core.options import TextOptions

_UNKNOWN_WINDOW = 32_768
_DEFAULTS = TextOptions()


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

    `tokenizer` is mlx-lm's wrapper, `context_window` the tokens that prompt and answer share, `max_kv_size` the tokens
    that a cache holds (None: all of them).
    """

    network: Any
    tokenizer: Any
    eos_token_ids: frozenset[int]
    context_window: int
    vocab_size: int
    defaults: GenerationDefaults
    fingerprint: str
    max_kv_size: int | None = None

    def new_cache(self) -> list[Any]:
        """Give an empty cache, one entry a layer."""
        from mlx_lm.models.cache import make_prompt_cache

        cache: list[Any] = make_prompt_cache(self.network, self.max_kv_size)
        return cache

    def forward(
        self,
        tokens: mx.array,
        cache: list[Any],
        *,
        embeddings: mx.array | None = None,
        positions: mx.array | None = None,
    ) -> mx.array:
        """Read tokens (rows, n), append them to the cache, and give lazy logits (rows, n, vocab_size).

        `embeddings` (rows, n, width) are read in place of the tokens' own, where mlx-lm's model takes them. ValueError
        for `positions`: a text model's are its cache's lengths.
        """
        if positions is not None:
            raise ValueError("a text model counts its positions itself")
        given = {} if embeddings is None else {"input_embeddings": embeddings}
        logits: mx.array = self.network(tokens, cache=cache, **given)
        return logits


def load(path: str, options: TextOptions = _DEFAULTS) -> TextModel:
    """Load a model folder; on Metal its memory is wired, as mlx-lm does. Nothing is fetched and no code of it is run.

    Raises OrchardError("model_failed") with a sentence that says what is wrong with the folder or the adapter's.
    """
    # A folder is complete or broken: asking the network would only delay the answer.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from mlx_lm.utils import maybe_set_recommended_wired_limit

    folder = Path(path)
    network, config = _network(folder)
    if options.adapter_path is not None:
        _adapt(network, Path(options.adapter_path))
    tokenizer = _tokenizer(folder, config)
    maybe_set_recommended_wired_limit()  # does nothing where the device has no such limit
    cuda.adapt(network)
    probe = network(mx.array([[0]], mx.uint32))
    return TextModel(
        network=network,
        tokenizer=tokenizer,
        eos_token_ids=frozenset(tokenizer.eos_token_ids),
        context_window=_window(config, tokenizer),
        vocab_size=probe.shape[-1],
        defaults=_defaults(folder),
        fingerprint=_fingerprint(folder, options.adapter_path),
        max_kv_size=options.max_kv_size,
    )


def _fingerprint(folder: Path, adapter_path: str | None) -> str:
    """Tell models apart by their folders' configurations and the sizes and times of their weights."""
    known = hashlib.blake2b(digest_size=16)
    for one in [folder, *([Path(adapter_path)] if adapter_path else [])]:
        for file in sorted(one.glob("*.safetensors")):
            stat = file.stat()
            known.update(f"{file.name} {stat.st_size} {stat.st_mtime_ns}\n".encode())
        for name in ("config.json", "adapter_config.json"):
            if (file := one / name).is_file():
                known.update(file.read_bytes())
    return known.hexdigest()


def _network(folder: Path) -> tuple[Any, dict[str, Any]]:
    from mlx_lm.utils import load_model

    try:
        network, config = load_model(folder)
    except Exception as error:
        raise OrchardError("model_failed", f"the model in {folder} can't be loaded: {_why(folder, error)}") from error
    return network, config


def _adapt(network: Any, adapter: Path) -> None:
    """Lay LoRA weights over a network. Raises OrchardError("model_failed") with the reason."""
    from mlx_lm.utils import load_adapters

    try:
        for name in ("adapter_config.json", "adapters.safetensors"):
            if not (adapter / name).is_file():
                raise FileNotFoundError(f"it has no {name}")
        load_adapters(network, str(adapter))
        network.eval()  # what was laid over it is made in training mode
        mx.eval(network.parameters())
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        match error:
            case FileNotFoundError():
                reason = lines[0]
            case ValueError() if "incompatible" in lines[0]:
                reason = f"its weights do not fit the model ({lines[-1].strip()})"
            case ValueError() | TypeError() | AttributeError() | KeyError():
                reason = f"its adapter_config.json is broken ({lines[0]})"
            case _:
                reason = f"its files are broken ({lines[0]})"
        raise OrchardError("model_failed", f"the adapter in {adapter} can't be applied: {reason}") from error


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
