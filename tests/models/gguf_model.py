"""Turns a GGUF file into a folder that mlx-lm and Orchard load: weights, config.json and tokenizer.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. MLX can have Q4_0, Q4_1 and Q8_0 as they are, in
groups of 32 weights. If a file has other quantised weights, too, all its weights become float32. Both keep every value.

A further architecture needs a row of `_ARCHITECTURES`, a further kind of tokenizer a function in `_TOKENIZERS`.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gguf
import mlx.core as mx
import numpy as np
from gguf import GGMLQuantizationType as Kind
from gguf import GGUFReader, ReaderTensor
from mlx.utils import tree_flatten
from mlx_lm.utils import _get_classes
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

Fields = Mapping[str, Any]
_GROUP = 32
_CONTROL, _USER_DEFINED = 3, 4  # kinds of tokens that no merges make

_LLAMA = {
    "hidden_size": "embedding_length",
    "num_hidden_layers": "block_count",
    "intermediate_size": "feed_forward_length",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
    "max_position_embeddings": "context_length",
    "rope_theta": "rope.freq_base",
}
_GEMMA3 = _LLAMA | {"head_dim": "attention.key_length", "sliding_window": "attention.sliding_window"}
_ARCHITECTURES: dict[str, tuple[Mapping[str, str], Mapping[str, Any]]] = {
    # llama.cpp rotates neighbours, and has sorted the rows of the weights accordingly.
    "llama": (_LLAMA, {"model_type": "llama", "rope_traditional": True}),
    "gemma3": (
        _GEMMA3,
        {"model_type": "gemma3_text", "sliding_window_pattern": 6, "rope_local_base_freq": 10_000.0},
    ),
}
"""By architecture: fields of config.json with the keys of their values in the file, and fields that no file has."""


def convert(source: Path, folder: Path) -> None:
    """Write the folder of a file's model. Raise KeyError if its architecture or tokenizer is not known."""
    reader = GGUFReader(source)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    config = _config(fields) | {"tie_word_embeddings": "output.weight" not in tensors}
    quantized = {tensor.tensor_type for tensor in reader.tensors} - {Kind.F32, Kind.F16, Kind.BF16}
    read = _packed if quantized and quantized <= set(_PACKED) else _plain
    weights: dict[str, mx.array] = {}
    layers: dict[str, Any] = {}
    for layer, name in _layers(config, fields).items():
        tensor = tensors.pop(f"{name}.weight")
        found = read(tensor)
        if "scales" in found:
            layers[layer] = {"group_size": _GROUP, "bits": _PACKED[tensor.tensor_type][0]}
        elif name.endswith("_norm") and config["model_type"] == "gemma3_text":
            found["weight"] -= 1  # llama.cpp multiplies with the weight, MLX with 1 + the weight
        weights |= {f"{layer}.{part}": array for part, array in found.items()}
    if tensors:
        raise ValueError(f"{source.name} has weights that the model doesn't: {', '.join(tensors)}")
    if layers:
        config["quantization"] = {"group_size": _GROUP, "bits": 4, **layers}
    folder.mkdir(parents=True, exist_ok=True)
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    _TOKENIZERS[fields["tokenizer.ggml.model"], fields["tokenizer.ggml.pre"]](fields).save_pretrained(folder)


def _config(fields: Fields) -> dict[str, Any]:
    architecture = fields["general.architecture"]
    keys, constants = _ARCHITECTURES[architecture]
    found = {name: fields[f"{architecture}.{key}"] for name, key in keys.items()}
    ends = {f"{name}_token_id": fields[f"tokenizer.ggml.{name}_token_id"] for name in ("bos", "eos")}
    return {**constants, **found, **ends, "vocab_size": len(fields["tokenizer.ggml.tokens"])}


def _layers(config: Mapping[str, Any], fields: Fields) -> dict[str, str]:
    """Return the names in the file of all layers of MLX's network."""
    network, arguments = _get_classes(config)
    parameters = tree_flatten(network(arguments.from_dict(config)).parameters())
    architecture = {name: key for key, name in gguf.MODEL_ARCH_NAMES.items()}[fields["general.architecture"]]
    names = gguf.get_tensor_name_map(architecture, config["num_hidden_layers"])
    layers = [name.removesuffix(".weight") for name, _ in parameters]
    is_tied = config["tie_word_embeddings"]
    return {layer: str(names.get_name(layer)) for layer in layers if not (is_tied and layer == "lm_head")}


def _plain(tensor: ReaderTensor) -> dict[str, mx.array]:
    """Return a tensor's weights in float32."""
    return {"weight": mx.array(gguf.dequantize(tensor.data, tensor.tensor_type))}


def _packed(tensor: ReaderTensor) -> dict[str, mx.array]:
    """Return a tensor's integers in MLX's order, and for each group a scale and the value of 0; else as `_plain` does.

    A block of the file has a scale, in Q4_1 also the value of 0, and 32 integers: those of 4 bits are the lower halves
    of the bytes, then the upper ones. MLX has one after the other, from the lowest bits on.
    """
    if tensor.tensor_type not in _PACKED:
        return _plain(tensor)
    bits, zero = _PACKED[tensor.tensor_type]
    rows = tensor.data.shape[0]
    heads = 2 if zero is None else 1
    blocks = tensor.data.reshape(rows, -1, 2 * heads + _GROUP * bits // 8)
    numbers = np.ascontiguousarray(blocks[..., : 2 * heads]).view(np.float16)
    values = blocks[..., 2 * heads :]
    if bits == 4:
        values = np.concatenate([values & 15, values >> 4], axis=-1)
        values = values[..., 0::2] | values[..., 1::2] << 4
    else:
        values = values ^ 128  # int8 as uint8, which is 128 more
    scales = numbers[..., 0]
    zeros = numbers[..., 1] if zero is None else scales * np.float16(zero)
    packed = np.ascontiguousarray(values).reshape(rows, -1).view(np.uint32)
    return {"weight": mx.array(packed), "scales": mx.array(scales), "biases": mx.array(zeros)}


_PACKED: dict[Kind, tuple[int, int | None]] = {Kind.Q4_0: (4, -8), Kind.Q4_1: (4, None), Kind.Q8_0: (8, -128)}
"""The bits of an integer, and what 0 stands for in scales (None: the block says it)."""


def _byte_level(fields: Fields) -> PreTrainedTokenizerFast:
    """Return the tokenizer of SmolLM, which splits words as GPT-2 does and digits one by one."""
    made = Tokenizer(
        models.BPE(_vocabulary(fields), [tuple(one.split(" ")) for one in fields["tokenizer.ggml.merges"]])
    )
    split = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    made.pre_tokenizer = pre_tokenizers.Sequence(split)
    made.decoder = decoders.ByteLevel()
    return _finished(made, fields)


def _sentence_piece(fields: Fields) -> PreTrainedTokenizerFast:
    """Return Gemma's tokenizer: merges that make likelier tokens come first, and bytes stand for unknown characters."""
    tokens, scores = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.scores"]
    vocabulary = _vocabulary(fields)
    merges = []
    for token, number in vocabulary.items():
        pairs = ((token[:at], token[at:]) for at in range(1, len(token)))
        known = ((left, right) for left, right in pairs if left in vocabulary and right in vocabulary)
        merges += [(-scores[number], vocabulary[left], vocabulary[right]) for left, right in known]
    pieces = [(tokens[left], tokens[right]) for _, left, right in sorted(merges)]
    unknown = tokens[fields["tokenizer.ggml.unknown_token_id"]]
    made = Tokenizer(models.BPE(vocabulary, pieces, unk_token=unknown, fuse_unk=True, byte_fallback=True))
    made.normalizer = normalizers.Replace(" ", "▁")
    made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return _finished(made, fields)


def _vocabulary(fields: Fields) -> dict[str, int]:
    return {token: number for number, token in enumerate(fields["tokenizer.ggml.tokens"])}


def _finished(made: Tokenizer, fields: Fields) -> PreTrainedTokenizerFast:
    """Return a tokenizer with its special tokens, the first token of a text if there is one, and the chat template."""
    tokens, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    for kind, add in ((_CONTROL, made.add_special_tokens), (_USER_DEFINED, made.add_tokens)):
        add([AddedToken(token, normalized=False) for token, its in zip(tokens, kinds, strict=True) if its == kind])
    bos, eos = (tokens[fields[f"tokenizer.ggml.{name}_token_id"]] for name in ("bos", "eos"))
    if fields["tokenizer.ggml.add_bos_token"]:
        special = [(bos, fields["tokenizer.ggml.bos_token_id"])]
        made.post_processor = processors.TemplateProcessing(single=f"{bos} $A", special_tokens=special)
    template = fields.get("tokenizer.chat_template")
    return PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token=bos, eos_token=eos, chat_template=template, clean_up_tokenization_spaces=False
    )


_TOKENIZERS: dict[tuple[str, str], Callable[[Fields], PreTrainedTokenizerFast]] = {
    ("gpt2", "smollm"): _byte_level,
    ("llama", "default"): _sentence_piece,
}
"""By the kind of vocabulary, and by how a text is split before."""
