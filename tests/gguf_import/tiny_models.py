"""Tiny random models of all architectures, written as GGUF files in the way of llama.cpp's converter."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import gguf
import mlx.core as mx
import numpy as np
from gguf import GGMLQuantizationType as Kind
from mlx.utils import tree_flatten
from mlx_lm.utils import _get_classes
from numpy.typing import NDArray
from tokenizers import pre_tokenizers

WIDTH, HEADS, KV_HEADS, HEAD, LAYERS = 256, 4, 2, 64, 2
_DENSE = {
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "intermediate_size": 512,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10_000.0,
    "max_position_embeddings": 2048,
}
_EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 256}
_QWEN3_MOE = {"num_experts": 4, "decoder_sparse_step": 1, "mlp_only_layers": [], "norm_topk_prob": True}
_LINEAR = {"type": "linear", "factor": 8.0}
_YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}
_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
_FACTORS = np.linspace(1, 2, HEAD // 2).tolist()
_LONGROPE = {"type": "longrope", "long_factor": _FACTORS, "short_factor": _FACTORS}
_GEMMA = {"head_dim": HEAD, "query_pre_attn_scalar": HEAD, "tie_word_embeddings": True}


class Case(NamedTuple):
    """llama.cpp's name of an architecture, mlx-lm's configuration, and how the vocabulary is made."""

    architecture: str
    config: dict[str, Any]
    vocabulary: str = "gpt2"


CASES = {
    "llama": Case("llama", {"model_type": "llama", "tie_word_embeddings": False}),
    "llama, tied, scores": Case("llama", {"model_type": "llama", "tie_word_embeddings": True}, "llama"),
    "llama, biases, wide heads": Case(
        "llama", {"model_type": "llama", "attention_bias": True, "mlp_bias": True, "head_dim": 128}
    ),
    "llama 3.1": Case("llama", {"model_type": "llama", "rope_theta": 500_000.0, "rope_scaling": _LLAMA3}),
    "llama, linear": Case("llama", {"model_type": "llama", "rope_scaling": _LINEAR}),
    "llama, yarn": Case("llama", {"model_type": "llama", "rope_scaling": _YARN}),
    "mixtral": Case("llama", {"model_type": "mixtral", "num_experts_per_tok": 2, "num_local_experts": 4}, "llama"),
    "qwen2": Case("qwen2", {"model_type": "qwen2", "tie_word_embeddings": True}),
    "qwen2moe": Case(
        "qwen2moe", {"model_type": "qwen2_moe", "num_experts": 4, "shared_expert_intermediate_size": 512} | _EXPERTS
    ),
    "qwen3": Case("qwen3", {"model_type": "qwen3", "head_dim": 128, "tie_word_embeddings": True}),
    "qwen3moe": Case(
        "qwen3moe",
        {"model_type": "qwen3_moe", "head_dim": HEAD, "tie_word_embeddings": False} | _EXPERTS | _QWEN3_MOE,
    ),
    "gemma2": Case(
        "gemma2",
        {"model_type": "gemma2", "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0} | _GEMMA,
        "llama",
    ),
    "gemma3": Case(
        "gemma3", {"model_type": "gemma3_text", "sliding_window": 16, "num_hidden_layers": 7} | _GEMMA, "llama"
    ),
    "gemma3, linear": Case(
        "gemma3",
        {"model_type": "gemma3_text", "sliding_window": 16, "num_hidden_layers": 7, "rope_scaling": _LINEAR} | _GEMMA,
        "llama",
    ),
    "phi3": Case("phi3", {"model_type": "phi3", "tie_word_embeddings": False}, "llama"),
    "phi3, longrope": Case(
        "phi3",
        {"model_type": "phi3", "original_max_position_embeddings": 512, "rope_scaling": _LONGROPE},
        "llama",
    ),
}
# Where a block has its scale, if not at its beginning.
_SCALES = {Kind.Q2_K: (80, 82), Kind.Q3_K: (108,), Kind.Q6_K: (208,), Kind.Q4_K: (0, 2), Kind.Q5_K: (0, 2)}
_SCALES |= dict.fromkeys((Kind.Q4_1, Kind.Q5_1), (0, 2))
_SIZES = {Kind.Q2_K: 0.01, Kind.Q3_K: 0.002, Kind.Q4_K: 0.0004, Kind.Q5_K: 0.0002, Kind.Q6_K: 0.00003}
_SIZES |= {Kind.IQ4_NL: 0.0005, Kind.IQ4_XS: 0.00002, Kind.Q8_0: 0.0005}
PLAIN = (Kind.F32, Kind.F16, Kind.BF16)


class TinyModel(NamedTuple):
    """A network with the weights of a file, in float32, and the file."""

    network: Any
    config: dict[str, Any]
    file: Path


def random_rows(shape: tuple[int, ...], kind: Kind, rng: np.random.Generator) -> NDArray[Any]:
    """Return random weights of some kind, as a file has them."""
    if kind in PLAIN:
        return gguf.quantize((rng.standard_normal(shape) * 0.05).astype(np.float32), kind)
    items, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (*shape[:-1], shape[-1] // items, size), dtype=np.uint8)
    if kind == Kind.MXFP4:
        blocks[..., 0] = rng.integers(119, 121, blocks.shape[:-1])  # an exponent
        return blocks.reshape(*shape[:-1], -1)
    for at in _SCALES.get(kind, (0,)):
        scales = rng.uniform(0.5, 1.5, blocks.shape[:-1]) * _SIZES.get(kind, 0.006)
        if kind in (Kind.Q4_1, Kind.Q5_1) and at:
            scales *= -8 if kind == Kind.Q4_1 else -16
        blocks[..., at : at + 2] = scales.astype("<f2")[..., None].view(np.uint8)
    return blocks.reshape(*shape[:-1], -1)


def write_model(file: Path, case: Case, kinds: tuple[Kind, ...] = (Kind.F32,), *, pre: str = "llama-bpe") -> TinyModel:
    """Write a random model whose matrices are of these kinds, in turn."""
    rng = np.random.default_rng(0)
    tokens = vocabulary(case.vocabulary)
    config = {**_DENSE, "vocab_size": len(tokens), **case.config}
    network, arguments = _get_classes(config)
    made = network(arguments.from_dict(config))
    if case.config["model_type"] == "gemma3_text":
        made.sanitize({})
    writer = gguf.GGUFWriter(file, case.architecture)
    _write_metadata(writer, case, config)
    write_vocabulary(writer, case.vocabulary, pre=pre)
    architecture = {name: key for key, name in gguf.MODEL_ARCH_NAMES.items()}[case.architecture]
    names = gguf.get_tensor_name_map(architecture, config["num_hidden_layers"])
    weights = {}
    modules = dict(made.named_modules())
    for number, (name, array) in enumerate(tree_flatten(made.parameters())):
        layer, _, part = name.rpartition(".")
        is_matrix = hasattr(modules[layer], "to_quantized") and part == "weight" and not layer.endswith("gate")
        kind = kinds[number % len(kinds)] if is_matrix else Kind.F32
        rows = random_rows(array.shape, kind, rng)
        if "norm" in layer:
            rows = rows + 1
        own = names.get_name(_hugging_face_name(layer, case)) or ""
        weights[name] = mx.array(_as_mlx(gguf.dequantize(rows, kind), own, part, case, config))
        if case.architecture == "qwen2moe" and layer.endswith("shared_expert_gate"):
            rows = rows[0]
        writer.add_tensor(f"{own}.{part}", rows, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    made.load_weights(list(weights.items()))
    made.eval()
    return TinyModel(made, config, file)


def _as_mlx(weights: NDArray[np.float32], own: str, part: str, case: Case, config: Mapping[str, Any]) -> Any:
    """Undo what llama.cpp does to weights, written in another way than in the importer."""
    if case.architecture == "llama" and own.endswith(("attn_q", "attn_k")):
        heads = config["num_attention_heads" if own.endswith("q") else "num_key_value_heads"]
        outer = weights.reshape(heads, len(weights) // heads // 2, 2, *weights.shape[1:])
        return outer.swapaxes(1, 2).reshape(weights.shape)
    return weights - 1 if case.architecture.startswith("gemma") and own.endswith("_norm") else weights


def _hugging_face_name(layer: str, case: Case) -> str:
    layer = layer.replace(".switch_mlp.", ".experts.")
    if case.config["model_type"] == "mixtral" and "experts" in layer:
        for name, short in (("gate_proj", "w1"), ("up_proj", "w3"), ("down_proj", "w2")):
            layer = layer.replace(name, short)
    return layer


def _write_metadata(writer: gguf.GGUFWriter, case: Case, config: Mapping[str, Any]) -> None:
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])
    if head := config.get("head_dim"):
        writer.add_key_length(head)
        writer.add_value_length(head)
    writer.add_rope_dimension_count(head or HEAD)
    if experts := config.get("num_experts") or config.get("num_local_experts"):
        writer.add_expert_count(experts)
        writer.add_expert_used_count(config["num_experts_per_tok"])
    if size := config.get("moe_intermediate_size"):
        writer.add_expert_feed_forward_length(size)
    if size := config.get("shared_expert_intermediate_size"):
        writer.add_expert_shared_feed_forward_length(size)
    if case.architecture.startswith("gemma"):
        writer.add_sliding_window(config.get("sliding_window", 4096))
    if case.architecture == "gemma2":
        writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    _write_scaling(writer, config)


def _write_scaling(writer: gguf.GGUFWriter, config: Mapping[str, Any]) -> None:
    scaling = config.get("rope_scaling") or {}
    kind = scaling.get("type") or scaling.get("rope_type")
    if kind in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(kind))
        writer.add_rope_scaling_factor(scaling["factor"])
    if kind == "yarn":
        writer.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])
    if kind == "llama3":
        writer.add_tensor("rope_freqs.weight", llama3_factors(config))
    if kind == "longrope":
        writer.add_rope_scaling_orig_ctx_len(config["original_max_position_embeddings"])
        factor = config["max_position_embeddings"] / config["original_max_position_embeddings"]
        length = np.log(config["original_max_position_embeddings"])
        writer.add_rope_scaling_attn_factors(float(np.sqrt(1 + np.log(factor) / length)))
        for name in ("long", "short"):
            writer.add_tensor(f"rope_factors_{name}.weight", np.array(scaling[f"{name}_factor"], np.float32))


def llama3_factors(config: Mapping[str, Any]) -> NDArray[np.float32]:
    """Return what the frequencies are divided by, as llama.cpp's converter computes it."""
    scaling = config["rope_scaling"]
    window = scaling["original_max_position_embeddings"]
    low, high = window / scaling["low_freq_factor"], window / scaling["high_freq_factor"]
    factors = []
    for at in range(0, HEAD, 2):
        length = 2 * np.pi * config["rope_theta"] ** (at / HEAD)
        if length < high:
            factors.append(1.0)
        elif length > low:
            factors.append(scaling["factor"])
        else:
            share = (window / length - scaling["low_freq_factor"]) / (
                scaling["high_freq_factor"] - scaling["low_freq_factor"]
            )
            factors.append(1 / ((1 - share) / scaling["factor"] + share))
    return np.array(factors, np.float32)


_WORDS = ("the", "he", "in", "er", "an", "re", "on", "ing", "Hello", "12", "'s", "привет", "東京", "...", "  ")
_SPECIAL = ("<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|end|>", "<|endoftext|>")


def vocabulary(kind: str) -> list[str]:
    """Return the tokens of a small vocabulary: special ones, bytes, and words with all their beginnings."""
    if kind == "gpt2":
        letters = sorted(pre_tokenizers.ByteLevel.alphabet())
        words = [_spell(f"{space}{word}") for word in _WORDS for space in ("", " ")]
    else:
        letters = [f"<0x{number:02X}>" for number in range(256)]
        letters += [chr(number) for number in range(33, 127)] + ["▁"]
        letters += sorted({letter for word in _WORDS for letter in word if not letter.isascii()})
        words = [f"{space}{word.replace(' ', '▁')}" for word in _WORDS for space in ("", "▁")]
    beginnings = [word[:end] for word in words for end in range(1 if kind == "llama" else 2, len(word) + 1)]
    return list(dict.fromkeys([*_SPECIAL, *letters, *beginnings, "<think>"]))


def _spell(word: str) -> str:
    (pieces,) = [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(word)]
    return "".join(piece for piece, _ in pieces)


def write_vocabulary(writer: gguf.GGUFWriter, kind: str, *, pre: str) -> None:
    """Write a small vocabulary."""
    tokens = vocabulary(kind)
    writer.add_tokenizer_model(kind)
    writer.add_tokenizer_pre(pre if kind == "gpt2" else "default")
    writer.add_token_list(tokens)
    kinds = [3 if token in _SPECIAL else 4 if token == "<think>" else 1 for token in tokens]  # noqa: S105
    kinds[0] = 2
    if kind == "llama":
        kinds = [6 if token.startswith("<0x") else one for token, one in zip(tokens, kinds, strict=True)]
        # Longer tokens are likelier; no two are as likely as each other.
        writer.add_token_scores([len(token) - number / len(tokens) for number, token in enumerate(tokens)])
    else:
        plain = [token for token, one in zip(tokens, kinds, strict=True) if one == 1 and len(token) > 1]
        writer.add_token_merges([f"{token[:-1]} {token[-1]}" for token in plain])
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_chat_template("{% for message in messages %}<|im_start|>{{ message['content'] }}<|im_end|>{% endfor %}")


def write_vocabulary_file(file: Path, kind: str, *, pre: str, name: str) -> Path:
    """Write a file without weights."""
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_name(name)
    _write_metadata(writer, CASES["llama"], {**_DENSE, "vocab_size": len(vocabulary(kind))})
    write_vocabulary(writer, kind, pre=pre)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return file
