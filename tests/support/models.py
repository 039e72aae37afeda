"""Tiny models: random weights in mlx-lm's format, and one that says back what it was told."""

import importlib
import json
import math
import shutil
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx import nn
from mlx.utils import tree_flatten
from mlx_lm.models import qwen3
from mlx_vlm.speculative.drafters.qwen3_5_mtp import Model as HeadNetwork
from mlx_vlm.speculative.drafters.qwen3_5_mtp import ModelConfig as HeadConfig
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from orchard.backends.text.model import TextModel, load_text_model
from tests.support.examples import is_deep

WINDOW = 512
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
VISIBLE = ["<think>", "</think>", "<tool_call>", "</tool_call>"]
CORPUS = [
    "The sea is blue and the sky is blue too.",
    "Hello, how are you? I am fine, thank you.",
    "user assistant system",
]

TEMPLATE = """\
{%- if tools %}{{ '<|im_start|>system\\n' }}
{%- for tool in tools %}{{ tool | tojson }}{% endfor %}{{ '<|im_end|>\\n' }}
{%- endif %}
{%- for m in messages %}
{%- if m.role == 'system' and not loop.first %}{{ raise_exception('a system message must come first') }}{% endif %}
{{- '<|im_start|>' + m.role + '\\n' + m.content }}
{%- for call in m.tool_calls or [] %}
{{- '\\n<tool_call>\\n' + (call.function | tojson) + '\\n</tool_call>' }}{% endfor %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined %}{{ '<think>\\n' if enable_thinking else '<think>\\n\\n</think>\\n\\n' }}{% endif %}
{%- endif %}"""


def make_tokenizer(vocabulary: int = 0) -> Tokenizer:
    """A byte-level BPE with ChatML's tokens and the tags of Qwen3, filled up with words to so many tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    if missing := max(0, vocabulary - tokenizer.get_vocab_size() - len(SPECIAL) - len(VISIBLE)):
        made = json.loads(tokenizer.to_str())
        made["model"]["vocab"] |= {f"Ġw{number}": tokenizer.get_vocab_size() + number for number in range(missing)}
        tokenizer = Tokenizer.from_str(json.dumps(made))
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in SPECIAL])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in VISIBLE])
    return tokenizer


def make_model(folder: Path) -> None:
    """Write a random Qwen3 of two layers whose logits are wider than its tokenizer's vocabulary."""
    tokenizer = make_tokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "model_type": "qwen3",
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "intermediate_size": 64,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "vocab_size": tokenizer.get_vocab_size() + 5,
        "tie_word_embeddings": False,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "max_position_embeddings": WINDOW,
        "eos_token_id": tokenizer.token_to_id("<|im_end|>"),
    }
    mx.random.seed(0)
    network = qwen3.Model(qwen3.ModelArgs.from_dict(config))
    # As it is initialised, the last token alone decides: let attention weigh more, and the logits differ more.
    for layer in network.layers:
        for part in (layer.self_attn.v_proj, layer.self_attn.o_proj, layer.mlp.down_proj):
            part.weight = part.weight * 4
    network.lm_head.weight = network.lm_head.weight * 6
    _write(folder, config, dict(tree_flatten(network.parameters())))


def _write(folder: Path, config: dict[str, Any], weights: dict[str, mx.array]) -> None:
    """Write all of a model folder but tokenizer.json."""
    mx.save_safetensors(str(folder / "model.safetensors"), weights)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(json.dumps({"temperature": 0.7, "top_k": 20}))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "chat_template": TEMPLATE,
        "clean_up_tokenization_spaces": False,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


SLIDING_WINDOW = 16
_SPARSE = {
    "num_experts": 6,
    "num_experts_per_tok": 2,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "moe_intermediate_size": 32,
    "norm_topk_prob": True,
}
# By mlx-lm's module. Heads are 32 wide, so that keys and values can be quantised, and Metal's delta-net kernel runs.
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "qwen3": {},
    "gemma3_text": {"num_hidden_layers": 4, "sliding_window": SLIDING_WINDOW, "sliding_window_pattern": 2}
    | {"query_pre_attn_scalar": 32},
    "qwen3_next": {"num_hidden_layers": 3, "full_attention_interval": 3, "partial_rotary_factor": 0.5}
    | {"linear_num_value_heads": 2, "linear_num_key_heads": 1, "linear_conv_kernel_dim": 4}
    | {"linear_key_head_dim": 32, "linear_value_head_dim": 32, "shared_expert_intermediate_size": 32}
    | _SPARSE,
    "lfm2": {"num_hidden_layers": 4, "layer_types": ["conv", "conv", "full_attention", "conv"]}
    | {"norm_eps": 1e-6, "conv_bias": False, "conv_L_cache": 3, "block_dim": 64, "block_ff_dim": 64}
    | {"block_multiple_of": 32, "block_ffn_dim_multiplier": 1.0, "block_auto_adjust_ff_dim": False},
    "qwen3_moe": _SPARSE,
}
# The caches of qwen3_moe are those of qwen3, and qwen3_next has experts, too: the deep profile tries all.
KINDS = [kind for kind in ARCHITECTURES if kind != "qwen3_moe" or is_deep()]
# Those whose attention or whose cache is of a kind of its own.
PECULIAR: dict[str, dict[str, Any]] = {
    "gpt_oss": {"num_hidden_layers": 4, "sliding_window": SLIDING_WINDOW, "num_local_experts": 4}
    | {"num_experts_per_tok": 2, "rope_scaling": None},
    "gemma2": {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "query_pre_attn_scalar": 32},
    "gemma3n": {
        "text_config": {"model_type": "gemma3n_text", "hidden_size": 64, "num_hidden_layers": 6}
        | {"intermediate_size": [64] * 6, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32}
        | {"rms_norm_eps": 1e-6, "vocab_size": 330, "vocab_size_per_layer_input": 330, "num_kv_shared_layers": 2}
        | {"sliding_window": SLIDING_WINDOW, "layer_types": ["sliding_attention", "full_attention"] * 3}
        | {"max_position_embeddings": WINDOW, "rope_local_base_freq": 1e4, "rope_theta": 1e4, "rope_scaling": None}
        | {"final_logit_softcapping": 30.0, "activation_sparsity_pattern": [0.0] * 6, "laurel_rank": 8}
        | {"hidden_size_per_layer_input": 8, "altup_num_inputs": 2, "altup_coef_clip": 120.0}
        | {"altup_correct_scale": True, "altup_active_idx": 0, "query_pre_attn_scalar": 32}
    },
    "gemma4_text": {"num_hidden_layers": 6, "global_head_dim": 32, "num_kv_shared_layers": 2}
    | {"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 330, "sliding_window": SLIDING_WINDOW}
    | {"sliding_window_pattern": 2, "layer_types": ["sliding_attention", "full_attention"] * 3},
    "qwen3_5": {
        "text_config": {"model_type": "qwen3_5_text", "hidden_size": 64, "num_hidden_layers": 3}
        | {"intermediate_size": 64, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32}
        | {"vocab_size": 324, "tie_word_embeddings": False, "rms_norm_eps": 1e-6, "full_attention_interval": 3}
        | {"max_position_embeddings": WINDOW, "linear_num_value_heads": 2, "linear_num_key_heads": 1}
        | {"linear_conv_kernel_dim": 4, "linear_key_head_dim": 32, "linear_value_head_dim": 32}
        | {
            "rope_parameters": {"type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
            | {"mrope_section": [3, 3, 2]}
        }
    },
    "mamba": {"state_size": 8, "conv_kernel": 4, "use_bias": False, "use_conv_bias": True, "time_step_rank": 4}
    | {"intermediate_size": 128},
    "deepseek_v32": {"moe_intermediate_size": 32, "n_routed_experts": 4, "n_shared_experts": 1}
    | {"num_experts_per_tok": 2, "num_key_value_heads": 2, "q_lora_rank": 32, "kv_lora_rank": 32}
    | {"qk_rope_head_dim": 32, "qk_nope_head_dim": 32, "v_head_dim": 32, "index_head_dim": 32, "index_n_heads": 2}
    | {"index_topk": 8, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1, "rope_scaling": None}
    | {"routed_scaling_factor": 1.0, "norm_topk_prob": True},
}


def make_architecture(folder: Path, kind: str, dtype: mx.Dtype = mx.float32) -> None:
    """Write a random model of one of the kinds above, whose greedy answers depend on all of their context."""
    tokenizer = make_tokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "model_type": kind,
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "intermediate_size": 64,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "vocab_size": tokenizer.get_vocab_size() + 5,
        "tie_word_embeddings": False,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "max_position_embeddings": WINDOW,
        "eos_token_id": tokenizer.token_to_id("<|im_end|>"),
        **(ARCHITECTURES | PECULIAR)[kind],
    }
    module = importlib.import_module(f"mlx_lm.models.{kind}")
    network = module.Model(module.ModelArgs.from_dict(config))
    mx.random.seed(1)
    shapes: list[tuple[str, mx.array]] = tree_flatten(network.parameters())
    weights = {name: _random(name, weight).astype(dtype) for name, weight in shapes}
    network.load_weights(list(weights.items()))
    _write(folder, config, weights)


def split_by_layers(folder: Path) -> None:
    """Give each layer a file of weights of its own (`model-0.safetensors`), and the rest `model-rest.safetensors`."""
    file = folder / "model.safetensors"
    weights: dict[str, mx.array] = mx.load(str(file))  # type: ignore[assignment]
    files: dict[str, dict[str, mx.array]] = {}
    for name, value in weights.items():
        layer = name.partition(".layers.")[2].partition(".")[0] or "rest"
        files.setdefault(f"model-{layer}.safetensors", {})[name] = value
    for name, part in files.items():
        mx.save_safetensors(str(folder / name), part, {"format": "mlx"})
    file.unlink()


def in_float32(model: Path, folder: Path) -> Path:
    """Copy a model's folder, with weights in float32: on any CPU, MLX then computes each row by itself."""
    shutil.copytree(model, folder)
    file = str(folder / "model.safetensors")
    weights: dict[str, mx.array] = mx.load(file)  # type: ignore[assignment]
    mx.save_safetensors(file, {name: value.astype(mx.float32) for name, value in weights.items()}, {"format": "mlx"})
    return folder


def add_head(folder: Path, *, layers: int = 1) -> None:
    """Write a random MTP head of so many layers into a folder of the Qwen3.5 family, quantised as the model is."""
    config = json.loads((folder / "config.json").read_text())
    head = HeadNetwork(HeadConfig.from_dict({"text_config": config["text_config"] | {"mtp_num_hidden_layers": layers}}))
    if quantization := config.get("quantization"):
        head.set_dtype(mx.bfloat16)
        nn.quantize(head, **quantization)
    shapes: list[tuple[str, mx.array]] = tree_flatten(head.parameters())
    weights = {f"mtp.{name}": weight if quantization else _random(name, weight) for name, weight in shapes}
    mx.save_safetensors(str(folder / "model-mtp.safetensors"), weights, metadata={"format": "mlx"})


def _random(name: str, weight: mx.array) -> mx.array:
    """Give a weight's random values. Whatever carries the context is made strong, and what a token says of itself weak:
    else the last token alone would decide, and answers would soon go in circles."""
    if name.endswith("A_log"):
        return mx.log(
            mx.linspace(0.01, 0.1, weight.size).reshape(weight.shape)
        )  # a delta net that forgets half in 5 to 50 tokens
    if weight.ndim < 2:
        sharp = name.endswith(("q_norm.weight", "q_layernorm.weight"))  # attention that picks, not averages
        return weight + 2.0 if sharp else weight
    gain = next((gain for part, gain in _GAINS.items() if part in name), 1.0)
    fan_in = weight.shape[1] if "conv" in name and weight.ndim == 3 else weight.shape[-1]
    return mx.random.normal(weight.shape) * (gain / math.sqrt(fan_in))


_GAINS = {"embed_tokens": 4.0, "lm_head": 4.0, "o_proj": 2.0, "out_proj": 2.0, "down_proj": 2.0, "w2": 2.0}


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder that no test writes to."""
    folder = tmp_path_factory.getbasetemp() / "tiny-model"
    if not folder.exists():
        folder.mkdir()
        make_model(folder)
    return folder


@pytest.fixture(scope="session")
def model(model_folder: Path) -> TextModel:
    """The tiny model, loaded in the test's own thread."""
    return load_text_model(str(model_folder))


class Heard:
    """A cache of the tokens themselves."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.state: list[mx.array] = []


class Echo:
    """Says back the last user's message and ends its turn. Takes the place of a TextModel."""

    def __init__(self, model: TextModel) -> None:
        self.tokenizer = model.tokenizer
        self.eos_token_ids = model.eos_token_ids
        self.context_window = model.context_window
        self.vocab_size = model.vocab_size
        self.defaults = model.defaults
        self.max_new_tokens = model.max_new_tokens
        self.fingerprint = "echo"
        self.output = self.logits_at = None
        self._begin = self.tokenizer.encode("<|im_start|>user\n", add_special_tokens=False)
        self._answer = self.tokenizer.encode("<|im_start|>assistant\n", add_special_tokens=False)
        self._end: int = self.tokenizer.convert_tokens_to_ids("<|im_end|>")
        self._think: int = self.tokenizer.convert_tokens_to_ids("<think>")

    def new_cache(self) -> list[Any]:
        return [Heard()]

    def forward(self, tokens: mx.array, cache: list[Any], **_: Any) -> mx.array:
        heard: list[int] = cache[0].tokens
        heard += tokens.tolist()[0]  # type: ignore[index, arg-type]
        word = self._next(heard)
        logits = mx.where(mx.arange(self.vocab_size) == word, 50.0, 0.0)
        return mx.broadcast_to(logits, (1, tokens.shape[1], self.vocab_size))

    def _next(self, heard: list[int]) -> int:
        begin, answer = _last(heard, self._begin), _last(heard, self._answer)
        if begin < 0 or answer < begin:
            return self._end
        said = [*heard[begin : heard.index(self._end, begin)], self._end]
        # What the template wrote after the header is no part of the answer.
        if heard[answer : answer + 1] == [self._think] and said[0] != self._think:
            answer += len(self.tokenizer.encode("<think>\n", add_special_tokens=False))
        return said[min(len(heard) - answer, len(said) - 1)]


def _last(tokens: list[int], part: list[int]) -> int:
    """The place after the last occurrence; -1 where there is none."""
    places = (n for n in range(len(tokens) - len(part), -1, -1) if tokens[n : n + len(part)] == part)
    return next((place + len(part) for place in places), -1)
