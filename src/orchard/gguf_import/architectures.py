"""Which architectures can be imported: what their config.json says, and what their layers are called.

llama.cpp changes some weights: it sorts the rows of Llama's queries and keys, because it rotates neighbours, and adds
one to the weights of Gemma's norms. Some values are not in its files, but in its code, such as Gemma's window pattern.
https://github.com/ggml-org/llama.cpp/blob/master/convert_hf_to_gguf.py
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from orchard.core.model_config import absurd_size
from orchard.gguf_import.blocks import dequantize_rows
from orchard.gguf_import.header import GgufModel, Metadata, Tensor, UnusableFileError

Config = dict[str, Any]
_NORMS = re.compile(r".*norm\.weight")
# What llama.cpp multiplies Llama 3's frequencies with comes from these values, which its file does not have.
_LLAMA3 = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
_FREQUENCIES = "rope_freqs.weight"
_LONG, _SHORT = "rope_factors_long.weight", "rope_factors_short.weight"
_NEAR = 1e-3


class Architecture(NamedTuple):
    """An architecture: mlx-lm's name, and how llama.cpp's names of layers follow each other there.

    `finish` completes a configuration. `scalings`: the kinds of scaled rotations that mlx-lm has for it. `sorted_rows`:
    layers whose rows llama.cpp has sorted. `is_half_enough`: whether float16 can hold what it computes.
    """

    model_type: str
    layers: Mapping[str, str]
    finish: Callable[[Config, "Reader"], None] = lambda config, reader: None
    scalings: tuple[str, ...] = ()
    sorted_rows: tuple[str, ...] = ()
    adds_to_norms: bool = False
    is_half_enough: bool = False


class Reader(NamedTuple):
    """A model, and the name that its metadata begin with."""

    model: GgufModel
    architecture: str

    @property
    def metadata(self) -> Metadata:
        """The model's metadata."""
        return self.model.metadata

    def key(self, name: str) -> str:
        """Return the key of a value of the architecture."""
        return f"{self.architecture}.{name}"

    def integer(self, name: str, default: int | None = None, *, least: int = 1) -> int:
        """Return a whole number of the architecture. Raise UnusableFileError."""
        return self.metadata.integer(self.key(name), default, least=least)

    def number(self, name: str, default: float | None = None) -> float:
        """Return a positive number of the architecture. Raise UnusableFileError."""
        return self.metadata.number(self.key(name), default)

    def vector(self, name: str) -> NDArray[np.float32]:
        """Return all values of a small tensor. Raise UnusableFileError."""
        tensor = self.model.tensors[name]
        if tensor.rows != 1:
            raise UnusableFileError(f"its {name} is not a list")
        values: NDArray[np.float32] = dequantize_rows(tensor.read_rows(0, 1), tensor.kind)[0]
        return values


_ATTENTION = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
}
_FEED_FORWARD = {"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
_LLAMA = {**_ATTENTION, "ffn_norm": "post_attention_layernorm", **_FEED_FORWARD}
_HEAD_NORMS = {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
_FOUR_NORMS = {
    **_ATTENTION,
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    **_FEED_FORWARD,
    "post_ffw_norm": "post_feedforward_layernorm",
}


def _experts(block: str) -> dict[str, str]:
    names = {f"ffn_{name}_exps": f"{block}.switch_mlp.{name}_proj" for name in ("gate", "up", "down")}
    return {**_ATTENTION, "ffn_norm": "post_attention_layernorm", "ffn_gate_inp": f"{block}.gate", **names}


_SHARED_EXPERT = {
    "ffn_gate_inp_shexp": "mlp.shared_expert_gate",
    **{f"ffn_{name}_shexp": f"mlp.shared_expert.{name}_proj" for name in ("gate", "up", "down")},
}


def _finish_llama(config: Config, reader: Reader) -> None:
    config["attention_bias"] = "blk.0.attn_q.bias" in reader.model.tensors
    config["mlp_bias"] = "blk.0.ffn_up.bias" in reader.model.tensors
    if _FREQUENCIES in reader.model.tensors:
        config["rope_scaling"] = _llama3_scaling(config, reader.vector(_FREQUENCIES))


def _llama3_scaling(config: Config, factors: NDArray[np.float32]) -> dict[str, Any]:
    """Return Llama 3's scaling whose factors these are. Raise UnusableFileError if they are others."""
    factor = float(factors.max())
    low, high, window = _LLAMA3.values()
    lengths = 2 * np.pi * config["rope_theta"] ** (np.arange(0, config["head_dim"], 2) / config["head_dim"])
    smooth = np.clip((window / lengths - low) / (high - low), 0, 1)
    expected = 1 / ((1 - smooth) / factor + smooth)
    if factors.shape != expected.shape or not np.allclose(factors, expected, rtol=_NEAR):
        raise UnusableFileError(f"the factors of its rotations ({_FREQUENCIES}) are not those of Llama 3")
    return {"rope_type": "llama3", "factor": factor, **_LLAMA3}


def _finish_mixtral(config: Config, reader: Reader) -> None:
    if config.pop("head_dim") * config["num_attention_heads"] != config["hidden_size"]:
        raise UnusableFileError("its heads have a size that mixture-of-experts models of Mistral don't have")
    _count_experts(config, reader, "num_local_experts")


def _count_experts(config: Config, reader: Reader, name: str = "num_experts") -> None:
    config[name] = reader.integer("expert_count")
    config["num_experts_per_tok"] = reader.integer("expert_used_count")


def _finish_qwen2_moe(config: Config, reader: Reader) -> None:
    _count_experts(config, reader)
    config["moe_intermediate_size"] = reader.integer("expert_feed_forward_length")
    config["shared_expert_intermediate_size"] = reader.integer("expert_shared_feed_forward_length")


def _finish_qwen3_moe(config: Config, reader: Reader) -> None:
    _count_experts(config, reader)
    config["moe_intermediate_size"] = reader.integer("expert_feed_forward_length")
    config |= {"decoder_sparse_step": 1, "mlp_only_layers": [], "norm_topk_prob": True}


def _finish_gemma2(config: Config, reader: Reader) -> None:
    for name in ("attn_logit_softcapping", "final_logit_softcapping"):
        config[name] = reader.number(name)
    # The 27B model has the only scale that does not follow from the size of a head.
    config["query_pre_attn_scalar"] = _query_scale(config, 46)


def _finish_gemma3(config: Config, reader: Reader) -> None:
    config["sliding_window"] = reader.integer("attention.sliding_window")
    config["sliding_window_pattern"] = 6
    config["rope_local_base_freq"] = reader.number("rope.freq_base_swa", 10_000.0)
    config["query_pre_attn_scalar"] = _query_scale(config, 62)


def _query_scale(config: Config, layers: int) -> int:
    """Return what the root of divides queries; only the model with so many layers has wider ones than its heads are."""
    is_large = config["num_hidden_layers"] == layers
    return config["hidden_size"] // config["num_attention_heads"] if is_large else int(config["head_dim"])


def _finish_phi3(config: Config, reader: Reader) -> None:
    size = config.pop("head_dim")
    config["partial_rotary_factor"] = reader.integer("rope.dimension_count", size) / size
    window = config["max_position_embeddings"]
    config["original_max_position_embeddings"] = reader.integer("rope.scaling.original_context_length", window)
    if _LONG in reader.model.tensors:
        count = round(config["partial_rotary_factor"] * size) // 2
        config["rope_scaling"] = {
            "type": "longrope",
            "long_factor": _read_factors(reader, _LONG, count),
            "short_factor": _read_factors(reader, _SHORT, count) if _SHORT in reader.model.tensors else [],
        }


def _read_factors(reader: Reader, name: str, count: int) -> list[float]:
    """Return what rotations are scaled with. Raise UnusableFileError if that makes no sense."""
    factors = reader.vector(name)
    if factors.shape != (count,) or not np.all(np.isfinite(factors) & (factors > 0)):
        raise UnusableFileError(f"its {name} are not {count} positive numbers")
    found: list[float] = factors.tolist()
    return found


ARCHITECTURES = {
    "llama": Architecture(
        "llama",
        _LLAMA,
        _finish_llama,
        scalings=("linear", "yarn"),
        sorted_rows=("attn_q", "attn_k"),
        is_half_enough=True,
    ),
    "qwen2": Architecture("qwen2", _LLAMA, scalings=("linear", "yarn")),
    "qwen2moe": Architecture("qwen2_moe", _experts("mlp") | _SHARED_EXPERT, _finish_qwen2_moe),
    "qwen3": Architecture("qwen3", _LLAMA | _HEAD_NORMS, scalings=("linear", "yarn")),
    "qwen3moe": Architecture("qwen3_moe", _experts("mlp") | _HEAD_NORMS, _finish_qwen3_moe),
    "gemma2": Architecture("gemma2", _FOUR_NORMS, _finish_gemma2, adds_to_norms=True),
    "gemma3": Architecture(
        "gemma3_text", _FOUR_NORMS | _HEAD_NORMS, _finish_gemma3, scalings=("linear",), adds_to_norms=True
    ),
    "phi3": Architecture(
        "phi3",
        {
            "attn_norm": "input_layernorm",
            "attn_qkv": "self_attn.qkv_proj",
            "attn_output": "self_attn.o_proj",
            "ffn_norm": "post_attention_layernorm",
            "ffn_up": "mlp.gate_up_proj",
            "ffn_down": "mlp.down_proj",
        },
        _finish_phi3,
        scalings=("longrope",),
    ),
}
"""By llama.cpp's name."""
_MIXTRAL = Architecture(
    "mixtral",
    _experts("block_sparse_moe"),
    _finish_mixtral,
    sorted_rows=("attn_q", "attn_k"),
    is_half_enough=True,
)
"""Also called llama."""


def read_architecture(model: GgufModel) -> tuple[Architecture, Config]:
    """Return a model's architecture and its config.json. Raise UnusableFileError."""
    metadata = model.metadata
    if metadata.text("general.type", "model") != "model":
        raise UnusableFileError(f"it is no model, but of the type '{metadata.text('general.type')}'")
    name = metadata.text("general.architecture")
    if name == "clip":
        raise UnusableFileError("it is a vision projector (mmproj), and only models of texts can be imported")
    if name not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise UnusableFileError(f"its architecture '{name[:100]}' can't be imported, only: {known}")
    reader = Reader(model, name)
    is_mixtral = name == "llama" and reader.integer("expert_count", 0, least=0) > 0
    architecture = _MIXTRAL if is_mixtral else ARCHITECTURES[name]
    config = _common_config(reader, architecture)
    architecture.finish(config, reader)
    if problem := absurd_size(config):
        raise UnusableFileError(f"in its metadata {problem}")
    return architecture, config


def _common_config(reader: Reader, architecture: Architecture) -> Config:
    if "token_embd.weight" not in reader.model.tensors:
        raise UnusableFileError("it has no token_embd.weight")
    heads, width = reader.integer("attention.head_count"), reader.integer("embedding_length")
    config: Config = {
        "model_type": architecture.model_type,
        "hidden_size": width,
        "num_hidden_layers": reader.integer("block_count"),
        "intermediate_size": reader.integer("feed_forward_length"),
        "num_attention_heads": heads,
        "num_key_value_heads": reader.integer("attention.head_count_kv", heads),
        "head_dim": reader.integer("attention.key_length", width // heads),
        "rms_norm_eps": reader.number("attention.layer_norm_rms_epsilon"),
        "max_position_embeddings": reader.integer("context_length"),
        "rope_theta": reader.number("rope.freq_base", 10_000.0),
        "vocab_size": reader.model.tensors["token_embd.weight"].rows,
        "tie_word_embeddings": "output.weight" not in reader.model.tensors,
    }
    rotated = reader.integer("rope.dimension_count", config["head_dim"])
    if rotated != config["head_dim"] and architecture.model_type != "phi3":
        raise UnusableFileError(f"only {rotated} of the {config['head_dim']} numbers of its heads are rotated")
    if scaling := _scaling(reader, architecture):
        config["rope_scaling"] = scaling
    return config


def _scaling(reader: Reader, architecture: Architecture) -> dict[str, Any] | None:
    kind = reader.metadata.text(reader.key("rope.scaling.type"), "none")
    if kind == "none":
        return None
    if kind not in architecture.scalings:
        raise UnusableFileError(f"its rotations are scaled in a way ('{kind[:100]}') that can't be imported")
    if kind == "longrope":
        return None  # its factors are tensors
    scaling: dict[str, Any] = {"type": kind, "factor": reader.number("rope.scaling.factor")}
    if kind == "yarn":
        scaling["original_max_position_embeddings"] = reader.integer("rope.scaling.original_context_length")
    return scaling


def mlx_names(model: GgufModel, architecture: Architecture) -> dict[str, Tensor]:
    """Return the tensors that are weights, by their names in MLX. Raise UnusableFileError if one is unknown."""
    outer = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
    found = {}
    for name, tensor in model.tensors.items():
        if name in (_FREQUENCIES, _LONG, _SHORT):
            continue
        layer, _, part = name.rpartition(".")
        number = ""
        if inner := re.fullmatch(r"blk\.(\d+)\.(\w+)", layer):
            number, layer = f"model.layers.{int(inner[1])}.", inner[2]
        known = (architecture.layers if number else outer).get(layer)
        if known is None or part not in ("weight", "bias"):
            raise UnusableFileError(f"it has a tensor {name[:100]}, which its architecture doesn't have")
        found[f"{number}{known}.{part}"] = tensor
    return found


def row_order(tensor: Tensor, architecture: Architecture, config: Config) -> NDArray[np.int64] | None:
    """Return, for the rows of a head in MLX, their places in the file; None if they are in the same places."""
    if tensor.name.split(".")[-2] not in architecture.sorted_rows:
        return None
    size = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    return np.arange(size).reshape(-1, 2).T.reshape(-1)


def is_raised_norm(name: str, architecture: Architecture) -> bool:
    """Return whether one is added to a tensor's values in the file."""
    return architecture.adds_to_norms and _NORMS.fullmatch(name) is not None
