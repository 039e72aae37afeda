"""Makes the smallest configuration of an architecture that still runs, from the dataclasses of its module."""

import dataclasses
import types
import typing
from typing import Any

VOCABULARY = 400  # more than the tokenizers of the tests have
LAYERS = 2
_WIDTH = 64
_HEAD = 32

# What a field becomes, by its name; a value that is None stays as its default. The first table is for all parts.
_SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "vocab_size_per_layer_input": VOCABULARY,
    "hidden_size": _WIDTH,
    "n_embd": _WIDTH,
    "d_model": _WIDTH,
    "dim": _WIDTH,
    "embed_dim": _WIDTH,
    "width": _WIDTH,
    "embedding_size": _WIDTH,
    "out_hidden_size": _WIDTH,
    "output_dim": _WIDTH,
    "output_hidden_size": _WIDTH,
    "projection_dim": _WIDTH,
    "hidden_dim": _WIDTH,
    "intermediate_size": _WIDTH,
    "ffn_dim": _WIDTH,
    "mlp_dim": _WIDTH,
    "ff_dim": _WIDTH,
    "enc_inner_dim": _WIDTH,
    "num_hidden_layers": LAYERS,
    "num_layers": LAYERS,
    "n_layers": LAYERS,
    "n_layer": LAYERS,
    "layers": LAYERS,
    "depth": LAYERS,
    "encoder_layers": LAYERS,
    "decoder_layers": LAYERS,
    "num_attention_heads": 2,
    "attention_heads": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "num_heads": 2,
    "n_heads": 2,
    "n_head": 2,
    "heads": 2,
    "num_key_value_heads": 2,
    "num_kv_heads": 2,
    "n_kv_heads": 2,
    "head_dim": _HEAD,
    "max_position_embeddings": 1024,
    "max_seq_len": 1024,
    "rms_norm_eps": 1e-6,
    "layer_norm_eps": 1e-6,
    "layer_norm_epsilon": 1e-6,
    "norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "num_experts": 4,
    "n_routed_experts": 4,
    "num_local_experts": 4,
    "moe_num_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "decoder_sparse_step": 1,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
    "mlp_only_layers": [],
    "q_lora_rank": 32,
    "kv_lora_rank": 32,
    "qk_rope_head_dim": _HEAD,
    "qk_nope_head_dim": _HEAD,
    "v_head_dim": _HEAD,
    "linear_num_value_heads": 2,
    "linear_num_key_heads": 1,
    "linear_key_head_dim": _HEAD,
    "linear_value_head_dim": _HEAD,
    "linear_conv_kernel_dim": 4,
    "num_kv_shared_layers": 0,
    "sliding_window": 16,
    "tie_word_embeddings": False,
    "hidden_act": "silu",
    "num_position_embeddings": 16,
    "in_channels": 3,
    "num_channels": 3,
    "image_size": 32,
    "img_size": 32,
    "patch_size": 8,
    "spatial_patch_size": 8,
    "mm_hidden_size": _WIDTH,
}


def tiny(config_class: type, module: Any, name: str = "") -> dict[str, Any]:
    """Return the fields of a configuration's dataclass, made small, with those of its parts.

    `name` is what the field of the configuration above is called: "text_config", say.
    """
    given: dict[str, Any] = {}
    hints = typing.get_type_hints(config_class)
    for field in dataclasses.fields(config_class):
        part = _part(hints.get(field.name), field.name, module)
        if part is not None:
            given[field.name] = tiny(part, module, field.name)
        elif field.name in _SIZES and (field.default is not None or field.name == "head_dim"):
            given[field.name] = _SIZES[field.name]
        elif field.name == "model_type" and _required(field):
            given[field.name] = name.removesuffix("_config") or module.__name__.rpartition(".")[2]
        elif _required(field):
            given[field.name] = _guess(hints.get(field.name))
    return given


def _part(hint: Any, name: str, module: Any) -> type | None:
    """Return the dataclass of a part of a configuration."""
    for candidate in (hint, *typing.get_args(hint)):
        if isinstance(candidate, type) and dataclasses.is_dataclass(candidate):
            return candidate
    by_name = getattr(module, f"{name.removesuffix('_config').title()}Config", None)
    return by_name if name.endswith("_config") and isinstance(by_name, type) else None


def _required(field: "dataclasses.Field[Any]") -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _guess(hint: Any) -> Any:
    alternatives = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    kinds = {typing.get_origin(one) or one for one in alternatives}
    guesses: tuple[tuple[Any, Any], ...] = (
        (bool, False),
        (int, 2),
        (float, 1.0),
        (str, ""),
        (list, []),
        (dict, {}),
    )
    return next((value for kind, value in guesses if kind in kinds), None)
