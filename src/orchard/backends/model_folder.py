"""Loads model folders, reads their files, and explains what is wrong with them."""

import hashlib
import inspect
import json
import math
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import mlx.core as mx
import mlx_lm.utils
from mlx.utils import tree_flatten
from mlx_lm.models.pipeline import PipelineMixin
from transformers import dynamic_module_utils

from orchard import folder_files
from orchard.backends.checkpoint import UnusableWeightsError
from orchard.backends.hidden_weights import find_files_of_others, find_weights, hide_weights
from orchard.backends.kernels import cpu, fused, gated_delta, quantized
from orchard.backends.output_layer import OutputLayer
from orchard.core.errors import OrchardError, catch_panics
from orchard.core.model_config import absurd_size, context_window
from orchard.core.tasks.text_options import SamplingDefaults, TextOptions
from orchard.device.out_of_memory import is_out_of_memory
from orchard.engine import memory
from orchard.engine.batching import attention
from orchard.engine.batching.model import LanguageModel
from orchard.engine.ranks.group import RankGroup

Progress = Callable[[float], None]

_UNKNOWN_WINDOW = 32_768
_MOST_TEXT_BYTES = 2**20
_NO_LIMIT = 10**9  # tokens
_UNPACKED_SHARE = 8  # unpacked weights on a slow CPU may take an eighth of the memory
_CONFIGURATIONS = ("config.json", "adapter_config.json")
# Equal pixels or samples only give equal embeddings if these files are the same, too.
_PROCESSOR_FILES = ("preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json")
_MOST_REASON_CHARS = 400
_WEIGHT_GROUPS = 32  # weights are read in this many groups, with a report of progress after each


@dataclass(frozen=True, kw_only=True)
class FolderModel:
    """A model that was loaded from a folder, and what the rest of the worker must know about it.

    `tokenizer` is mlx-lm's wrapper, `context_window` the most tokens of prompt and answer together. `defaults` and
    `max_new_tokens` come from its generation_config.json. `max_kv_size`: the tokens that a cache holds (None: all).
    `output`: the layer that computes the logits (None: it was not found). `group`: the ranks that
    have the other parts of the network (None: there are none).
    """

    network: Any
    tokenizer: Any
    eos_token_ids: frozenset[int]
    context_window: int
    defaults: SamplingDefaults
    fingerprint: str
    max_new_tokens: int | None
    max_kv_size: int | None
    output: OutputLayer | None = None
    group: RankGroup | None = None


class LoadedModel(LanguageModel, Protocol):
    """A loaded model whose next tokens a draft model or an MTP head may guess."""

    @property
    def network(self) -> Any:
        """The library's network."""

    @property
    def tokenizer(self) -> Any:
        """See `FolderModel`."""


class Library(NamedTuple):
    """A library that loads networks.

    `load` returns a folder's network, with weights that are not read yet, and its configuration. `run` lets a network
    read one token and returns its logits. `apply_adapter` applies an adapter's weights to a network and returns their
    names; `adapter_weights` are the files that may contain them.
    """

    name: str
    load: Callable[[Path], tuple[Any, dict[str, Any]]]
    run: Callable[[Any], mx.array]
    apply_adapter: Callable[[Any, Path], set[str]]
    adapter_weights: tuple[str, ...] = ("adapters.safetensors",)


def load_folder(
    folder: Path,
    options: TextOptions,
    progress: Progress,
    library: Library,
    *,
    template: str | None = None,
    group: RankGroup | None = None,
) -> FolderModel:
    """Load a folder's network and tokenizer.

    `template`: the model's own chat template, if its tokenizer's files don't have it. Nothing is downloaded, and no
    code in the folder is run. `progress` is called with the fraction that has been read. `group`: the ranks among which
    the network is split; each of them calls this.
    Raise OrchardError("model_failed") with a sentence about what is wrong with the folder, the adapter or the chat
    template's file.
    """
    if options.chat_template_file:
        template = read_text(Path(options.chat_template_file), "the chat template")
    read_config(folder, library.name)
    # Reading weights and reading a large vocabulary hardly slow each other down.
    with ThreadPoolExecutor(1, "tokenizer") as aside:
        reading = aside.submit(_load_tokenizer, folder, template)
        hidden = _find_files_of_others(folder, library, group) if group and group.is_pipeline else ()
        network, config = _load_lazy_network(folder, library, hidden)
        part = ""
        if options.adapter_path is not None:
            _apply_adapter(network, Path(options.adapter_path), library)
        if group:
            part = _split_network(folder, network, group)
            _check_room(folder, network, options)
        unpacked = cpu.widen_to_float32(network, memory.memory_limit(options) // _UNPACKED_SHARE)
        fused.fuse_layers(network, partial(library.run, network))
        evaluate_weights(folder, network, progress, library.name, splits=group is not None)
        tokenizer = reading.result()
    quantized.adapt_quantized_layers(network)
    gated_delta.install_kernels(network)
    attention.use_prompt_kernel(cpu.numpy_attention if cpu.is_slow() else None)
    output = _find_output_layer(folder, network, library, needed=options.embeddings)
    defaults, max_new_tokens = _generation_config(folder)
    return FolderModel(
        network=network,
        tokenizer=tokenizer,
        eos_token_ids=frozenset(tokenizer.eos_token_ids),
        context_window=min(_choose_context_window(config, tokenizer), options.context_length or _NO_LIMIT),
        defaults=defaults,
        max_new_tokens=max_new_tokens,
        fingerprint=fingerprint(folder, options.adapter_path, library.name) + " unpacked" * unpacked + part,
        max_kv_size=options.max_kv_size,
        output=output,
        group=group,
    )


def read_config(folder: Path, library: str) -> dict[str, Any]:
    """Return a folder's config.json; check it, and all files that a library may read, before the library reads them.

    Raise OrchardError("model_failed").
    """
    try:
        folder_files.check_folder(folder)
    except (OSError, ValueError) as error:
        raise OrchardError("model_failed", f"the model in {folder} can't be loaded: {error}") from error
    with explain_load_errors(folder, library):
        config: dict[str, Any] = mlx_lm.utils.load_config(folder)
        reason = absurd_size(config)
        if not reason and "model_file" in config:  # some libraries would run this file
            raise ValueError(f"custom module {config['model_file']}")
    if reason:  # even reading the tokenizer would make lists of so many layers
        raise OrchardError("model_failed", f"the model in {folder} can't be loaded: in its config.json {reason}")
    return config


def _find_output_layer(folder: Path, network: Any, library: Library, *, needed: bool) -> OutputLayer | None:
    """Return the layer that computes the logits. If it can't be found, return None; if it is `needed`, raise."""
    try:
        return OutputLayer(network, lambda: library.run(network))
    except Exception as error:  # some networks can't run without what only their prompts have
        if not needed:
            return None
        message = f"the model in {folder} can't give embeddings, as the option `embeddings` says: {error}"
        raise OrchardError("model_failed", message) from error


def _load_lazy_network(folder: Path, library: Library, hidden: Collection[str] = ()) -> tuple[Any, dict[str, Any]]:
    """Load a network with weights that are not read yet; those in the `hidden` files can't be read."""
    try:
        with explain_load_errors(folder, library.name), hide_weights(folder, hidden) as shown:
            network, config = library.load(shown)
    finally:
        # A new network has random weights that are never computed; the random state would keep all of them alive.
        mx.eval(mx.random.state)
    return network, config


def _split_network(folder: Path, network: Any, group: RankGroup) -> str:
    """Keep this rank's part of a network, whose weights need not be read; return what names it in a fingerprint."""
    try:
        if group.is_pipeline:
            pipeline = _split_layers(network, group)
            return f" layers {pipeline.start_idx} to {pipeline.end_idx}"
        network.shard(group.group)
        return f" tensor {group.rank} of {group.group.size()}"
    except ValueError as error:
        reason = f"its layers can't be divided by {group.group.size()} ranks (--ranks): {_error_line(error)}"
        raise OrchardError("model_failed", f"the model in {folder} can't be loaded: {reason}") from error


def _check_room(folder: Path, network: Any, options: TextOptions) -> None:
    """Raise OrchardError("model_failed") if this rank's part can't fit on its host."""
    size, limit = _count_bytes(network), memory.memory_limit(options)
    if size > limit:
        reason = f"its part here takes {size:,} bytes, and this rank may take {limit:,}"
        raise OrchardError("model_failed", f"the model in {folder} can't be loaded: {reason}")


def _find_files_of_others(folder: Path, library: Library, group: RankGroup) -> set[str]:
    """Return the names of the files of weights that this rank of a pipeline needn't open."""
    files = find_weights(folder)
    if len(files) == 1:
        return set()
    # Which layers this rank has follows from their sizes, which the headers say.
    network, _ = _load_lazy_network(folder, library, files)
    pipeline = _find_pipeline(network)
    count = len(pipeline.layers)
    _split_network(folder, network, group)
    with explain_load_errors(folder, library.name):
        return find_files_of_others(folder, range(pipeline.start_idx, pipeline.end_idx), count)


def _find_pipeline(network: Any) -> Any:
    return next(module for module in network.modules() if isinstance(module, PipelineMixin))


def _split_layers(network: Any, group: RankGroup) -> Any:
    """Keep this rank's layers; return the module that has them."""
    pipeline = _find_pipeline(network)
    if "split" not in inspect.signature(pipeline.pipeline).parameters:  # some kinds of models are split evenly
        pipeline.pipeline(group.group)
    else:
        kept = _count_bytes(network) - sum(map(_count_bytes, pipeline.layers))
        pipeline.pipeline(group.group, split=group.split_layers(len(pipeline.layers), kept))
    return pipeline


def _count_bytes(module: Any) -> int:
    return sum(array.nbytes for _, array in tree_flatten(module.parameters()))


def _apply_adapter(network: Any, adapter: Path, library: Library) -> None:
    """Apply LoRA weights to a network. Raise OrchardError("model_failed") with the reason."""
    try:
        folder_files.check_folder(adapter)
    except (OSError, ValueError) as error:
        raise OrchardError("model_failed", f"the adapter in {adapter} can't be applied: {error}") from error
    try:
        if not (adapter / "adapter_config.json").is_file():
            raise FileNotFoundError("it has no adapter_config.json")
        if not any((adapter / name).is_file() for name in library.adapter_weights):
            raise FileNotFoundError(f"it has no {library.adapter_weights[0]}")
        names = library.apply_adapter(network, adapter)
        network.eval()  # the added layers are in training mode
        mx.eval([array for name, array in tree_flatten(network.parameters()) if name in names])
    except Exception as error:
        lines = _error_lines(error)
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


def fingerprint(folder: Path, adapter_path: str | None, library: str) -> str:
    """Return a hash of the library, and of a folder's and its adapter's configuration and weight sizes and times."""
    # mlx-lm's models take no media. Their fingerprints stay as they were before there was another library.
    files = _CONFIGURATIONS if library == "mlx-lm" else (*_CONFIGURATIONS, *_PROCESSOR_FILES)
    known = hashlib.blake2b(b"" if library == "mlx-lm" else library.encode(), digest_size=16)
    for one in [folder, *([Path(adapter_path)] if adapter_path else [])]:
        for file in sorted(one.glob("*.safetensors")):
            stat = file.stat()
            known.update(f"{file.name} {stat.st_size} {stat.st_mtime_ns}\n".encode())
        for name in files:
            if (file := one / name).is_file():
                known.update(folder_files.read_file(file))
    return known.hexdigest()


@contextmanager
def explain_load_errors(folder: Path, library: str) -> Iterator[None]:
    """Raise OrchardError("model_failed") with the reason if a library can't read a model's folder."""
    try:
        yield
    except OrchardError:
        raise
    except Exception as error:
        raise OrchardError(
            "model_failed", f"the model in {folder} can't be loaded: {_load_error_reason(folder, error, library)}"
        ) from error


@contextmanager
def forbid_code() -> Iterator[None]:
    """Prevent code in a folder from running: some libraries ask transformers to run it in any case."""
    original = dynamic_module_utils.get_cached_module_file

    def refuse(*args: Any, **named: Any) -> str:
        raise ValueError("it wants to run Python code of its own, which is never done")

    dynamic_module_utils.get_cached_module_file = refuse
    try:
        yield
    finally:
        dynamic_module_utils.get_cached_module_file = original


def evaluate_weights(folder: Path, network: Any, progress: Progress, library: str, *, splits: bool = False) -> None:
    """Read a network's weights in groups. Raise OrchardError("model_failed") if they are broken.

    `splits`: they are parts of larger ones, which are read whole. Then only one is read at a time.
    """
    weights: list[tuple[str, mx.array]] = tree_flatten(network.parameters())
    total = sum(array.nbytes for _, array in weights)
    group: list[mx.array] = []
    done = pending = 0
    with explain_load_errors(folder, library):
        for _, array in weights:
            if splits:
                mx.eval(array)
            group.append(array)
            pending += array.nbytes
            if pending * _WEIGHT_GROUPS >= total:
                mx.eval(group)
                done, pending, group = done + pending, 0, []
                progress(done / total)
        if group:
            mx.eval(group)
            progress(1.0)


def _error_lines(error: Exception) -> list[str]:
    return str(error).strip().splitlines() or [type(error).__name__]


def _error_line(error: Exception) -> str:
    """Return an error's lines in one line, which is cut off if it is very long. The first line may end with a colon."""
    line = " ".join(line.strip() for line in _error_lines(error))
    return line if len(line) <= _MOST_REASON_CHARS else f"{line[:_MOST_REASON_CHARS]}…"


def _load_error_reason(folder: Path, error: Exception, library: str) -> str:
    """Return why a library rejected a folder, in words that a user can act on."""
    first_line = _error_lines(error)[0]
    match error:
        case UnusableWeightsError():
            return str(error)
        case FileNotFoundError():
            return f"it has no {'model*.safetensors' if (folder / 'config.json').is_file() else 'config.json'}"
        case json.JSONDecodeError():
            return f"its config.json is not JSON ({first_line})"
        case _ if broken := folder_files.find_weights_problem(sorted(folder.glob("*.safetensors"))) or _json_problem(
            folder
        ):
            return broken
        case KeyError():
            return f"its config.json has no {first_line}"
    # Parts of the libraries' messages, if the exception's type alone isn't clear.
    reasons = {
        "Model type": f"{library} does not know its architecture",
        "custom module": "it wants to run Python code of its own, which is never done",
        "parameters": "its weights do not fit its config.json",
        "shape": "its weights do not fit its config.json",
    }
    reason = next((why for words, why in reasons.items() if words in first_line), None)
    reason = "memory ran out" if is_out_of_memory(error) else reason
    return f"{reason or f'its files are broken or not in {library} format'} ({_error_line(error).rstrip('.')})"


def _json_problem(folder: Path) -> str | None:
    """Return the reason if one of the files that mlx-lm reads is not a JSON object in UTF-8; else None."""
    for name in ("config.json", "generation_config.json"):
        try:
            if not isinstance(folder_files.read_json(folder / name), dict):
                return f"its {name} is not a JSON object"
        except UnicodeDecodeError:
            return f"its {name} is not UTF-8"
        except (OSError, json.JSONDecodeError):
            continue  # mlx-lm ignores a broken generation_config.json, and reports a broken config.json
        except ValueError as error:
            return f"its {name} can't be read ({error})"
    return None


def read_text(file: Path, what: str) -> str:
    """Read a text that the options name, such as a chat template. Raise OrchardError("model_failed") with the reason.

    `what` says what the file is for.
    """
    try:
        return folder_files.read_file(file, _MOST_TEXT_BYTES).decode("utf-8")
    except UnicodeDecodeError as error:
        reason = f"it is not UTF-8 (byte {error.start})"
    except OSError as error:
        reason = error.strerror or str(error)
    except ValueError as error:
        reason = str(error)
    raise OrchardError("model_failed", f"{what} in {file} can't be read: {reason}")


def _load_tokenizer(folder: Path, template: str | None) -> Any:
    """Load a tokenizer; replace its chat template if one is given."""
    try:
        with catch_panics():
            return _read_tokenizer(folder, template)
    except Exception as error:
        why = (
            _error_line(error)
            if folder_files.has_tokenizer(folder_files.list_names(folder))
            else "it has no file of tokens"
        )
        reason = f"the tokenizer in {folder} is missing or can't be loaded: {why}"
        raise OrchardError("model_failed", reason) from error


def _read_tokenizer(folder: Path, template: str | None) -> Any:
    eos_token_ids = mlx_lm.utils.load_config(folder).get("eos_token_id")
    # An explicit False: by default transformers asks on the terminal whether code of the folder may run.
    extra: dict[str, Any] = {"trust_remote_code": False}
    if template is not None:
        extra["chat_template"] = template
    tokenizer = mlx_lm.utils.load_tokenizer(folder, tokenizer_config_extra=extra, eos_token_ids=eos_token_ids)
    if not tokenizer.get_vocab().keys() - tokenizer.get_added_vocab().keys():  # transformers may make an empty one
        raise ValueError("it has no tokens")
    if template is not None:
        tokenizer._chat_template = None  # drop a template that is Python code
    return tokenizer


def _choose_context_window(config: dict[str, Any], tokenizer: Any) -> int:
    # transformers writes 10^30 if a tokenizer has no limit.
    limit = tokenizer.model_max_length
    return context_window(config) or (int(limit) if 0 < limit < _NO_LIMIT else _UNKNOWN_WINDOW)


def _generation_config(folder: Path) -> tuple[SamplingDefaults, int | None]:
    """Return the sampling defaults of generation_config.json, and its `max_new_tokens`.

    Values that make no sense, and a file that is missing or broken, are ignored.
    """
    try:
        found = folder_files.read_json(folder / "generation_config.json")
    except (OSError, ValueError):
        found = {}
    found = found or {}  # mlx-lm accepts other empty JSON, such as []
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
