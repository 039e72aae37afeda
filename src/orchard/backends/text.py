"""Text models in mlx-lm's format."""

import hashlib
import json
import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm.utils
from mlx.utils import tree_flatten
from mlx_lm.models.cache import make_prompt_cache

from orchard.backends import cuda, fused
from orchard.core.errors import OrchardError
from orchard.core.model_config import absurd_size, context_window
from orchard.core.tasks.text_options import SamplingDefaults, TextOptions

_UNKNOWN_WINDOW = 32_768
_DEFAULTS = TextOptions()
_MOST_TEMPLATE_BYTES = 2**20
_NO_LIMIT = 10**9  # tokens
_GROUPS = 32  # in which weights are read, with a call of progress in between


@dataclass(frozen=True)
class TextModel:
    """A loaded model: the engine's `LanguageModel`, and what the rest of the worker must know about it.

    `tokenizer` is mlx-lm's wrapper, `context_window` the tokens that prompt and answer share. `defaults` and
    `max_new_tokens` come from its generation_config.json. `max_kv_size`: the tokens that a cache holds (None: all).
    """

    network: Any
    tokenizer: Any
    eos_token_ids: frozenset[int]
    context_window: int
    vocab_size: int
    defaults: SamplingDefaults
    fingerprint: str
    max_new_tokens: int | None = None
    max_kv_size: int | None = None

    def new_cache(self) -> list[Any]:
        """Return an empty cache, one entry a layer."""
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
        """Read tokens (rows, n), append them to the cache, and return lazy logits (rows, n, vocab_size).

        `embeddings` (rows, n, width) are read in place of the tokens' own, where mlx-lm's model takes them. ValueError
        for `positions`: a text model's are its cache's lengths.
        """
        if positions is not None:
            raise ValueError("a text model counts its positions itself")
        given = {} if embeddings is None else {"input_embeddings": embeddings}
        logits: mx.array = self.network(tokens, cache=cache, **given)
        return logits


def load(
    path: str, options: TextOptions = _DEFAULTS, progress: Callable[[float], None] = lambda fraction: None
) -> TextModel:
    """Load a model folder; on Metal its memory is wired, as mlx-lm does. Nothing is fetched and no code of it is run.

    `progress` is called with the fraction that has been read. Raise OrchardError("model_failed") with a sentence about
    what is wrong with the folder, the adapter's, or the chat template's file.
    """
    folder = Path(path)
    template = _template(Path(options.chat_template_file)) if options.chat_template_file else None
    with _loading(folder):
        reason = absurd_size(mlx_lm.utils.load_config(folder))
    if reason:  # reading the tokenizer would make lists of as many layers, too
        raise OrchardError("model_failed", f"the model in {folder} can't be loaded: in its config.json {reason}")
    # Reading weights and reading a large vocabulary hardly disturb each other.
    with ThreadPoolExecutor(1, "tokenizer") as aside:
        reading = aside.submit(_tokenizer, folder, template)
        network, config = _network(folder)
        if options.adapter_path is not None:
            _adapt(network, Path(options.adapter_path))
        fused.fuse(network)
        _evaluate(folder, network, progress)
        tokenizer = reading.result()
    mlx_lm.utils.maybe_set_recommended_wired_limit()  # does nothing where the device has no such limit
    cuda.adapt(network)
    probe = network(mx.array([[0]], mx.uint32))
    defaults, max_new_tokens = _generation_config(folder)
    return TextModel(
        network=network,
        tokenizer=tokenizer,
        eos_token_ids=frozenset(tokenizer.eos_token_ids),
        context_window=min(_window(config, tokenizer), options.context_length or _NO_LIMIT),
        vocab_size=probe.shape[-1],
        defaults=defaults,
        max_new_tokens=max_new_tokens,
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


@contextmanager
def _loading(folder: Path) -> Iterator[None]:
    """Raise OrchardError("model_failed") with the reason where mlx-lm can't read a model's folder."""
    try:
        yield
    except Exception as error:
        raise OrchardError("model_failed", f"the model in {folder} can't be loaded: {_why(folder, error)}") from error


def _network(folder: Path) -> tuple[Any, dict[str, Any]]:
    try:
        with _loading(folder):
            network, config = mlx_lm.utils.load_model(folder, lazy=True)
    finally:
        # A network begins with random weights that are never computed. The key would keep a record of all of them.
        mx.eval(mx.random.state)
    return network, config


def _evaluate(folder: Path, network: Any, progress: Callable[[float], None]) -> None:
    """Read a network's weights, some at a time."""
    weights: list[tuple[str, mx.array]] = tree_flatten(network.parameters())
    total = sum(array.nbytes for _, array in weights)
    group: list[mx.array] = []
    done = pending = 0
    with _loading(folder):
        for _, array in weights:
            group.append(array)
            pending += array.nbytes
            if pending * _GROUPS >= total:
                mx.eval(group)
                done, pending, group = done + pending, 0, []
                progress(done / total)
        mx.eval(group)


def _adapt(network: Any, adapter: Path) -> None:
    """Apply LoRA weights to a network. Raise OrchardError("model_failed") with the reason."""
    try:
        for name in ("adapter_config.json", "adapters.safetensors"):
            if not (adapter / name).is_file():
                raise FileNotFoundError(f"it has no {name}")
        mlx_lm.utils.load_adapters(network, str(adapter))
        network.eval()  # the layers that were added are in training mode
        names: Any = mx.load(str(adapter / "adapters.safetensors"))
        mx.eval([array for name, array in tree_flatten(network.parameters()) if name in names])
    except Exception as error:
        lines = _lines(error)
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


def _lines(error: Exception) -> list[str]:
    return str(error).strip().splitlines() or [type(error).__name__]


def _why(folder: Path, error: Exception) -> str:
    """Return, in words that a user can act on, why mlx-lm refused a folder."""
    first_line = _lines(error)[0]
    match error:
        case FileNotFoundError():
            return f"it has no {'model*.safetensors' if (folder / 'config.json').is_file() else 'config.json'}"
        case json.JSONDecodeError():
            return f"its config.json is not JSON ({first_line})"
        case _ if broken := _broken_json(folder):
            return broken
        case KeyError():
            return f"its config.json has no {first_line}"
    # Parts of mlx-lm's messages, where the exception's type alone isn't clear.
    reasons = {
        "Model type": "mlx-lm does not know its architecture",
        "custom module": "it wants to run Python code of its own, which is never done",
        "parameters": "its weights do not fit its config.json",
        "shape": "its weights do not fit its config.json",
    }
    reason = next((why for words, why in reasons.items() if words in first_line), None)
    return f"{reason or 'its files are broken or not in mlx-lm format'} ({first_line.rstrip('.')})"


def _broken_json(folder: Path) -> str | None:
    """Return a reason where one of the files that mlx-lm reads is not a JSON object in UTF-8."""
    for name in ("config.json", "generation_config.json"):
        try:
            if not isinstance(json.loads((folder / name).read_text("utf-8")), dict):
                return f"its {name} is not a JSON object"
        except UnicodeDecodeError:
            return f"its {name} is not UTF-8"
        except (OSError, json.JSONDecodeError):
            continue  # mlx-lm ignores such a generation_config.json, and names such a config.json
    return None


def _template(file: Path) -> str:
    """Read a chat template. Raise OrchardError("model_failed") with the reason."""
    try:
        with file.open("rb") as opened:
            text = opened.read(_MOST_TEMPLATE_BYTES + 1)
        if len(text) > _MOST_TEMPLATE_BYTES:
            raise ValueError(f"it has more than {_MOST_TEMPLATE_BYTES:,} bytes")
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        reason = f"it is not UTF-8 (byte {error.start})"
    except OSError as error:
        reason = error.strerror or str(error)
    except ValueError as error:
        reason = str(error)
    raise OrchardError("model_failed", f"the chat template in {file} can't be read: {reason}")


def _tokenizer(folder: Path, template: str | None) -> Any:
    """Load a tokenizer, with a chat template in place of its own where one is given."""
    try:
        eos_token_ids = mlx_lm.utils.load_config(folder).get("eos_token_id")
        # An explicit False: by default transformers asks on the terminal whether code of the folder may run.
        extra: dict[str, Any] = {"trust_remote_code": False}
        if template is not None:
            extra["chat_template"] = template
        tokenizer = mlx_lm.utils.load_tokenizer(folder, tokenizer_config_extra=extra, eos_token_ids=eos_token_ids)
        if template is not None:
            tokenizer._chat_template = None  # one that is Python code
        return tokenizer
    except Exception as error:
        reason = f"the tokenizer in {folder} is missing or can't be loaded: {_lines(error)[0]}"
        raise OrchardError("model_failed", reason) from error


def _window(config: dict[str, Any], tokenizer: Any) -> int:
    # transformers writes 10^30 where a tokenizer knows no limit.
    limit = tokenizer.model_max_length
    return context_window(config) or (int(limit) if 0 < limit < _NO_LIMIT else _UNKNOWN_WINDOW)


def _generation_config(folder: Path) -> tuple[SamplingDefaults, int | None]:
    """Return the sampling defaults of generation_config.json, and its `max_new_tokens`.

    Values that make no sense, and a file that is missing or broken, say nothing.
    """
    try:
        found = json.loads((folder / "generation_config.json").read_text("utf-8"))
    except (OSError, ValueError):
        found = {}
    found = found or {}  # mlx-lm takes other JSON where it is empty
    known: dict[str, Any] = {}
    kinds = {"temperature": float, "top_p": float, "top_k": int, "min_p": float, "repetition_penalty": float}
    for name, kind in kinds.items():
        value = found.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf:
            known[name] = kind(value)
    if known.get("repetition_penalty") == 0:
        del known["repetition_penalty"]
    if found.get("do_sample") is False:
        known["temperature"] = 0.0
    limit = found.get("max_new_tokens")
    return SamplingDefaults(**known), limit if type(limit) is int and limit > 0 else None
