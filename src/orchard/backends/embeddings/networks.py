"""Networks that read texts: how mlx-vlm loads each family, and how hidden states are computed from tokens.

Texts are padded at their end. The networks only compute hidden states; pooling follows the model's own files.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
from mlx import nn
from mlx_vlm.encoder_loader import load_encoder_model

from orchard.backends.kernels import cpu, quantized
from orchard.backends.model_folder import Progress, evaluate_weights, explain_load_errors
from orchard.core.errors import OrchardError

LIBRARY = "mlx-vlm"
"""The library that loads the networks."""
_VISION_TYPES = {"qwen3_vl", "qwen3_vl_embedding"}
"""Models whose vectors are last hidden states: the backend of vision models serves them."""
_EAGER_TOKENS = 2048  # passes with at least this many tokens compute their layers one by one

Hidden = Callable[[Any, mx.array, mx.array], mx.array]


class Family(NamedTuple):
    """How models of a `model_type` are loaded and used.

    `name`, `ranker`: mlx-vlm's embedding model and reranker (None: none). `hidden` returns the last hidden states
    (rows, n, width) for tokens and their mask (rows, n). `adapt` changes a config.json to mlx-vlm's form. `mend`
    corrects a loaded network. `classifies`: the reranker is a classifier of pairs. `has_dense`: the network itself has
    the dense layers after pooling.
    """

    name: str
    hidden: Hidden
    adapt: Callable[[dict[str, Any]], None] = lambda config: None
    ranker: str | None = None
    classifies: bool = False
    has_dense: bool = False
    mend: Callable[[Any], None] = lambda network: None


def _encoder_hidden(network: Any, tokens: mx.array, mask: mx.array) -> mx.array:
    hidden: mx.array = network(tokens, attention_mask=mask).last_hidden_state
    return hidden


def _causal_hidden(network: Any, tokens: mx.array, mask: mx.array) -> mx.array:
    # No token attends to the padding after it, so no mask is needed.
    hidden: mx.array = network.model(tokens)
    return hidden


def _modernbert_hidden(network: Any, tokens: mx.array, mask: mx.array) -> mx.array:
    """Read tokens; each attends to at least one token. With mlx-vlm's float16 masks, padding may attend to none."""
    everywhere, near = _bidirectional_masks(mask, network.local_attention // 2)
    hidden: mx.array = network.embeddings(tokens)
    for layer in network.layers:
        hidden = layer(hidden, everywhere, near)
    return network.final_norm(hidden)  # type: ignore[no-any-return]


def _gemma_hidden(network: Any, tokens: mx.array, mask: mx.array) -> mx.array:
    """Read tokens with bidirectional attention, and with the layers' sliding windows, which mlx-vlm 0.7.10 ignores."""
    model = network.model
    everywhere, near = _bidirectional_masks(mask, model.window_size // 2)
    hidden: mx.array = model.embed_tokens(tokens)
    hidden = hidden * mx.array(model.config.hidden_size**0.5, hidden.dtype)
    for index, layer in enumerate(model.layers):
        is_global = (index + 1) % model.sliding_window_pattern == 0
        hidden = layer(hidden, everywhere if is_global else near, None)
    return model.norm(hidden)  # type: ignore[no-any-return]


def _gemma2_hidden(network: Any, tokens: mx.array, mask: mx.array) -> mx.array:
    """Read tokens; each attends to at least one token. With mlx-vlm's masks, padding far away attends to none."""
    model = network.language_model
    everywhere, near = _bidirectional_masks(mask, model.config.sliding_window)
    hidden: mx.array = model.embed_tokens(tokens)
    hidden = hidden * mx.array(model.config.hidden_size**0.5, hidden.dtype)
    inputs = None if model.ple is None else model.ple(hidden)
    positions = mx.arange(tokens.shape[1])[None]
    for index, layer in enumerate(model.layers):
        seen = near if model.config.layer_types[index] == "sliding_attention" else everywhere
        hidden = layer(hidden, seen, positions, None if inputs is None else inputs[:, :, index])
    return model.embedding_projection(model.norm(hidden))  # type: ignore[no-any-return]


def _bidirectional_masks(mask: mx.array, window: int) -> tuple[mx.array, mx.array]:
    """Return two masks (rows, 1, n, n): for attention to all of the text, and to tokens at most `window` away.

    Padding also attends to itself, so that each token attends to at least one.
    """
    places = mx.arange(mask.shape[1])
    distance = mx.abs(places[:, None] - places[None, :])
    everywhere = mask.astype(mx.bool_)[:, None, None, :] | (distance == 0)
    return everywhere, everywhere & (distance <= window)


def _adapt_qwen3_config(config: dict[str, Any]) -> None:
    rope = config.get("rope_parameters") or {}
    config.setdefault("rope_theta", rope.get("rope_theta", 10_000.0))
    if rope.get("rope_type", "default") != "default":
        config.setdefault("rope_scaling", {key: value for key, value in rope.items() if key != "rope_theta"})


def _adapt_modernbert_config(config: dict[str, Any]) -> None:
    rope = config.get("rope_parameters") or {}
    for key, part in (("global_rope_theta", "full_attention"), ("local_rope_theta", "sliding_attention")):
        if isinstance(found := rope.get(part), dict) and "rope_theta" in found:
            config.setdefault(key, found["rope_theta"])
    config.setdefault("global_attn_every_n_layers", _attention_period(config, first=True) or 3)
    config.setdefault("num_labels", len(config.get("id2label") or {0: ""}))


def _use_exact_gelu(network: Any) -> None:
    """Replace the activation functions by the exact GELU; mlx-vlm 0.7.10 uses the tanh approximation."""
    for module in network.modules():
        if isinstance(module, nn.GELU):
            module._approx = "none"


def _adapt_gemma_config(config: dict[str, Any]) -> None:
    if not config.get("use_bidirectional_attention", True):
        raise ValueError("its text is read to the right only, and mlx-vlm reads it both ways")
    rope = config.get("rope_parameters") or {}
    for key, part in (("rope_global_base_freq", "full_attention"), ("rope_local_base_freq", "sliding_attention")):
        if isinstance(found := rope.get(part), dict) and "rope_theta" in found:
            config[key] = found["rope_theta"]
    if "rope_theta" in config:
        config.setdefault("rope_global_base_freq", config["rope_theta"])
    if "sliding_window_pattern" not in config:
        config["sliding_window_pattern"] = (
            _attention_period(config, first=False) or config.get("_sliding_window_pattern") or 6
        )


def _adapt_gemma2_config(config: dict[str, Any]) -> None:
    # So mlx-vlm leaves out the weights for images and audio.
    config |= {"vision_config": None, "audio_config": None}


def _attention_period(config: dict[str, Any], *, first: bool) -> int | None:
    """Return the period of full-attention layers in a config.json; `first`: they begin a period, else they end it."""
    types = config.get("layer_types")
    if not isinstance(types, list) or "full_attention" not in types:
        return None
    places = [index for index, kind in enumerate(types) if kind == "full_attention"]
    if first:
        return places[1] - places[0] if len(places) > 1 else len(types)
    return places[0] + 1


def _adapt_bert_config(config: dict[str, Any]) -> None:
    if config.get("hidden_act", "gelu") != "gelu":
        raise ValueError(f"mlx-vlm has no activation function {config['hidden_act']} for it")
    if config.get("position_embedding_type", "absolute") != "absolute":
        raise ValueError("mlx-vlm has only absolute positions for it")
    config.setdefault("num_labels", len(config.get("id2label") or {0: ""}))


FAMILIES = {
    "bert": Family("bert", _encoder_hidden, _adapt_bert_config, "bert", classifies=True),
    "modernbert": Family(
        "modernbert", _modernbert_hidden, _adapt_modernbert_config, "modernbert", classifies=True, mend=_use_exact_gelu
    ),
    "xlm-roberta": Family("xlm_roberta", _encoder_hidden, _adapt_bert_config, "xlm_roberta", classifies=True),
    "roberta": Family("xlm_roberta", _encoder_hidden, _adapt_bert_config, "xlm_roberta", classifies=True),
    "qwen3": Family("qwen3_embedding", _causal_hidden, _adapt_qwen3_config, "qwen3"),
    "gemma3_text": Family("gemma3_embedding", _gemma_hidden, _adapt_gemma_config, has_dense=True),
    "embedding_gemma2": Family("embedding_gemma2", _gemma2_hidden, _adapt_gemma2_config),
}
"""The families by the `model_type` of config.json."""


def text_config(config: dict[str, Any]) -> dict[str, Any]:
    """Return a config.json in which `text_config`, if any, overrides the rest."""
    part = config.get("text_config")
    return config | part | {"model_type": config["model_type"]} if isinstance(part, dict) else config


def load_encoder_network(
    folder: Path, config: dict[str, Any], progress: Progress, beat: Callable[[], None], *, is_ranker: bool = False
) -> tuple[Any, Family]:
    """Load the network of an embedding model or, if it `is_ranker`, of a reranker, and return it with its family.

    `beat` is called after each layer of a large pass. Raise OrchardError("model_failed") with the reason.
    """
    family = FAMILIES.get(str(config.get("model_type")))
    if family is None or (is_ranker and not family.ranker):
        known = ", ".join(name for name, one in FAMILIES.items() if one.ranker or not is_ranker)
        reason = f"'{config.get('model_type')}' is none of the architectures that are served for this: {known}"
        if config.get("model_type") in _VISION_TYPES and not is_ranker:
            reason += "; with `model_type: multimodal` and `embeddings: true` it is served as a vision model"
        raise OrchardError("model_failed", f"the model in {folder} can't be loaded: {reason}")
    adapted = dict(config)
    with explain_load_errors(folder, LIBRARY), _hide_subfolders(folder, everything=family.has_dense) as seen:
        family.adapt(adapted)
        adapted["model_type"] = family.ranker if is_ranker else family.name
        classifies = is_ranker and family.classifies
        name = "SequenceClassificationModel" if classifies else "Model"
        network = load_encoder_model(seen, model_remapping={}, model_class_name=name, config=adapted, lazy=True)
        mx.eval(mx.random.state)  # otherwise the random state would keep the network's initial weights
        cpu.widen_to_float32(network)
        evaluate_weights(folder, network, progress, LIBRARY)
    family.mend(network)
    quantized.adapt_quantized_layers(network)
    cpu.use_numpy(network)
    layers = network.layers
    for index, layer in enumerate(layers):
        layers[index] = _PacedLayer(layer, beat)
    return network, family


@contextmanager
def _hide_subfolders(folder: Path, *, everything: bool) -> Iterator[Path]:
    """Yield a folder without the weights of sub-folders, which mlx-vlm would read into the network."""
    if everything:
        yield folder
        return
    with tempfile.TemporaryDirectory() as seen:
        for file in folder.iterdir():
            if file.name.endswith((".safetensors", ".safetensors.index.json")):
                (Path(seen) / file.name).symlink_to(file.resolve())
        yield Path(seen)


class _PacedLayer(nn.Module):  # type: ignore[misc]
    """A layer that large passes evaluate before the next layer, so that each layer is a piece of work."""

    def __init__(self, layer: nn.Module, beat: Callable[[], None]) -> None:
        super().__init__()
        self._layer = layer
        self._beat = beat

    def __call__(self, hidden: mx.array, *others: Any) -> mx.array:
        found: mx.array = self._layer(hidden, *others)
        if hidden.shape[0] * hidden.shape[1] >= _EAGER_TOKENS:
            mx.eval(found)
            self._beat()
        return found


class PassCost:
    """Estimates the bytes of a pass from a network's sizes; errs on the high side."""

    _WIDE, _INNER_WIDE = 12, 4  # arrays of the layers' width, and of their MLP's width, that exist at once

    def __init__(self, network: nn.Module, config: dict[str, Any]) -> None:
        """Take a network's sizes from its config.json and its parameters; don't keep the network."""
        width, heads = int(config["hidden_size"]), int(config["num_attention_heads"])
        # Keys and values that several heads share are not repeated; all heads together may be wider than the layers.
        layers = [config, *(config.get("per_layer_config") or {}).values()]
        width = max(width, heads * max(int(layer.get("head_dim") or 0) for layer in layers))
        types = {array.dtype for _, array in nn.utils.tree_flatten(network.parameters())}
        size = max((one.size for one in types if mx.issubdtype(one, mx.floating)), default=4)
        self._per_token = size * (self._WIDE * width + self._INNER_WIDE * int(config["intermediate_size"])) + 4 * width
        self._per_pair = heads * (size + 4) + 8  # scores, their softmax in float32, and masks

    def estimate_bytes(self, rows: int, length: int) -> int:
        """Return the bytes of a pass over `rows` texts of `length` tokens."""
        return rows * length * (self._per_token + self._per_pair * length)
