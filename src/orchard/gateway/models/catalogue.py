"""Models that are worth trying: their short names, what they are good for, and where their ids were found.

The rows were chosen on `DATE`. Sizes are not in the table: `orchard search` and `orchard recommend` ask the Hub. A name
with a colon is a tag of Ollama's library. Ollama's file for it is another one, in GGUF and mostly in Q4_K_M.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, get_args

from orchard.gateway.models.names import lenient_spellings

DATE = "2026-11-29"
Use = Literal["chat", "code", "vision", "embeddings", "speech", "transcription"]
USES: tuple[Use, ...] = get_args(Use)

_NOT_RECOMMENDED: Mapping[Use, int] = MappingProxyType({})
_LM = "mlx-lm 0.32.2, README.md"
_LM_BENCHMARKS = "mlx-lm 0.32.2, BENCHMARKS.md"
_VLM = "mlx-vlm 0.7.10, README.md"
_AUDIO = "mlx-audio 0.6.2, README.md"
_AUDIO_WHISPER = "mlx-audio 0.6.2, stt/models/whisper/whisper.py"
_AUDIO_TTS = "mlx-audio 0.6.2, tts/models/qwen3_tts/README.md"
_RAPID = "github.com/raullenchai/Rapid-MLX, vllm_mlx/model_sizes.json at 51290e1b85f5"
_SWIFT = "github.com/ml-explore/mlx-swift-lm, Libraries/MLXLLM/LLMModelFactory.swift at a3efc8a761d8"
_SWIFT_EMBEDDERS = "github.com/ml-explore/mlx-swift-lm, Libraries/MLXEmbedders/Models.swift at ab7638d53c17"


class CatalogueModel(NamedTuple):
    """A model on the Hub. The first of its names is the one to show.

    `memory_gb`: for each use that it is recommended for, the memory of a machine from which on it is. `source`: where
    its id was found.
    """

    repo: str
    names: tuple[str, ...]
    source: str
    memory_gb: Mapping[Use, int]


def _row(repo: str, names: str, source: str, memory_gb: Mapping[Use, int] = _NOT_RECOMMENDED) -> CatalogueModel:
    return CatalogueModel(repo, tuple(names.split()), source, memory_gb)


CATALOGUE = (
    _row("mlx-community/Llama-3.2-1B-Instruct-4bit", "llama3.2-1b llama3.2:1b", _SWIFT),
    _row("mlx-community/Llama-3.2-3B-Instruct-4bit", "llama3.2-3b llama3.2:3b llama3.2", _LM),
    _row("mlx-community/Meta-Llama-3.1-8B-Instruct-4bit", "llama3.1-8b llama3.1:8b llama3.1", _SWIFT),
    _row("mlx-community/Mistral-7B-Instruct-v0.3-4bit", "mistral-7b mistral:7b mistral", _LM),
    _row("mlx-community/Qwen3-0.6B-4bit", "qwen3-0.6b qwen3:0.6b", _SWIFT),
    _row("mlx-community/Qwen3-1.7B-4bit", "qwen3-1.7b qwen3:1.7b", _SWIFT),
    _row("mlx-community/Qwen3-4B-4bit", "qwen3-4b qwen3:4b", _SWIFT),
    _row(
        "mlx-community/Qwen3-4B-Instruct-2507-4bit", "qwen3-4b-instruct qwen3:4b-instruct", _LM_BENCHMARKS, {"chat": 8}
    ),
    _row("mlx-community/Qwen3-8B-4bit", "qwen3-8b qwen3:8b qwen3", _SWIFT),
    _row("mlx-community/Qwen3-30B-A3B-Instruct-2507-4bit", "qwen3-30b qwen3:30b qwen3:30b-instruct", _LM_BENCHMARKS),
    _row(
        "mlx-community/Qwen3-Coder-30B-A3B-Instruct-4bit",
        "qwen3-coder-30b qwen3-coder:30b qwen3-coder",
        _RAPID,
        {"code": 32},
    ),
    _row("mlx-community/Qwen3-Coder-Next-4bit", "qwen3-coder-next", _RAPID, {"code": 64}),
    _row("mlx-community/Qwen3.5-4B-MLX-4bit", "qwen3.5-4b qwen3.5:4b", _VLM, {"code": 8}),
    _row("mlx-community/Qwen3.5-9B-4bit", "qwen3.5-9b qwen3.5:9b qwen3.5", _RAPID, {"chat": 16, "code": 16}),
    _row("mlx-community/Qwen3.5-27B-4bit", "qwen3.5-27b qwen3.5:27b", _RAPID),
    _row("mlx-community/Qwen3.5-35B-A3B-4bit", "qwen3.5-35b qwen3.5:35b", _RAPID),
    _row("mlx-community/Qwen3.6-27B-4bit", "qwen3.6-27b qwen3.6:27b", _RAPID),
    _row("mlx-community/Qwen3.6-35B-A3B-4bit", "qwen3.6-35b qwen3.6:35b qwen3.6", _RAPID, {"chat": 48}),
    _row("mlx-community/Qwen3.8-27B-4bit", "qwen3.8-27b qwen3.8:27b qwen3.8", _VLM, {"chat": 32}),
    _row("mlx-community/gemma-3-1b-it-qat-4bit", "gemma3-1b gemma3:1b gemma3:1b-it-qat", _RAPID),
    _row("mlx-community/gemma-3-4b-it-qat-4bit", "gemma3-4b gemma3:4b gemma3:4b-it-qat gemma3 gemma", _RAPID),
    _row("mlx-community/gemma-3-12b-it-qat-4bit", "gemma3-12b gemma3:12b gemma3:12b-it-qat", _RAPID),
    _row("mlx-community/gemma-3-27b-it-qat-4bit", "gemma3-27b gemma3:27b gemma3:27b-it-qat", _RAPID),
    _row("mlx-community/gemma-4-e2b-it-4bit", "gemma4-e2b gemma4:e2b", _RAPID),
    _row("mlx-community/gemma-4-e4b-it-4bit", "gemma4-e4b gemma4:e4b gemma4", _RAPID),
    _row("mlx-community/gemma-4-12B-it-4bit", "gemma4-12b gemma4:12b", _RAPID, {"vision": 24}),
    _row("mlx-community/gemma-4-26b-a4b-it-4bit", "gemma4-26b gemma4:26b", _RAPID),
    _row("mlx-community/gemma-4-31b-it-4bit", "gemma4-31b gemma4:31b", _RAPID),
    _row("mlx-community/gpt-oss-20b-MXFP4-Q8", "gpt-oss-20b gpt-oss:20b gpt-oss", _SWIFT, {"chat": 24}),
    _row("mlx-community/gpt-oss-120b-MXFP4-Q8", "gpt-oss-120b gpt-oss:120b", _RAPID, {"chat": 96}),
    _row("mlx-community/phi-4-4bit", "phi4-14b phi4:14b phi4", _RAPID),
    _row("mlx-community/phi-4-mini-instruct-4bit", "phi4-mini phi4-mini:3.8b", _RAPID),
    _row(
        "mlx-community/Mistral-Small-3.1-24B-Instruct-2503-4bit",
        "mistral-small3.1-24b mistral-small3.1:24b mistral-small3.1",
        _RAPID,
    ),
    _row("mlx-community/Devstral-Small-2507-4bit", "devstral-24b devstral:24b devstral", _RAPID, {"code": 24}),
    _row(
        "mlx-community/Devstral-Small-2-24B-Instruct-2512-4bit",
        "devstral-small-2-24b devstral-small-2:24b devstral-small-2",
        _RAPID,
    ),
    _row("mlx-community/DeepSeek-R1-0528-Qwen3-8B-4bit", "deepseek-r1-8b deepseek-r1:8b deepseek-r1", _RAPID),
    _row("mlx-community/DeepSeek-R1-Distill-Qwen-32B-4bit", "deepseek-r1-32b deepseek-r1:32b", _RAPID),
    _row("mlx-community/GLM-4.7-Flash-4bit", "glm-4.7-flash", _RAPID),
    _row("mlx-community/Qwen3-VL-2B-Instruct-4bit", "qwen3-vl-2b qwen3-vl:2b", _RAPID),
    _row("mlx-community/Qwen3-VL-4B-Instruct-4bit", "qwen3-vl-4b qwen3-vl:4b qwen", _RAPID, {"vision": 8}),
    _row("mlx-community/Qwen3-VL-8B-Instruct-4bit", "qwen3-vl-8b qwen3-vl:8b qwen3-vl", _RAPID, {"vision": 16}),
    _row("mlx-community/Qwen3-VL-30B-A3B-Instruct-4bit", "qwen3-vl-30b qwen3-vl:30b", _RAPID, {"vision": 32}),
    _row("sentence-transformers/all-MiniLM-L6-v2", "all-minilm all-minilm:22m", _SWIFT_EMBEDDERS, {"embeddings": 8}),
    _row("intfloat/multilingual-e5-small", "multilingual-e5-small", _SWIFT_EMBEDDERS, {"embeddings": 8}),
    _row(
        "mixedbread-ai/mxbai-embed-large-v1",
        "mxbai-embed-large mxbai-embed-large:335m",
        _SWIFT_EMBEDDERS,
        {"embeddings": 16},
    ),
    _row("mlx-community/Soprano-1.1-80M-bf16", "soprano", _AUDIO, {"speech": 8}),
    _row("mlx-community/Qwen3-TTS-12Hz-0.6B-CustomVoice-8bit", "qwen3-tts-0.6b", _AUDIO, {"speech": 8}),
    _row("mlx-community/Qwen3-TTS-12Hz-1.7B-CustomVoice-bf16", "qwen3-tts-1.7b qwen3-tts", _AUDIO_TTS, {"speech": 16}),
    _row("mlx-community/whisper-tiny-asr-fp16", "whisper-tiny", _AUDIO_WHISPER),
    _row("mlx-community/whisper-large-v3-turbo-asr-fp16", "whisper-large whisper", _AUDIO, {"transcription": 8}),
    _row("mlx-community/parakeet-tdt-0.6b-v3", "parakeet", _AUDIO, {"transcription": 8}),
)

_ADDRESS = re.compile(r"(?:https://)?(?:hf\.co|huggingface\.co)/([\w.-]+/[\w.-]+)(?:[:/].*)?", re.ASCII)
_REPOS = {name: model.repo for model in CATALOGUE for name in model.names}


def find_repo(name: str) -> str | None:
    """Return the id on the Hub that a short name or an address of the Hub stands for; None: it is neither.

    A short name may be in any case, and before `:latest`. Ollama's addresses are like hf.co/OWNER/NAME:QUANTISATION.
    """
    if address := _ADDRESS.fullmatch(name):
        return address[1]
    return next((_REPOS[spelling] for spelling in lenient_spellings(name) if spelling in _REPOS), None)


def best_models(use: Use, memory_gb: float, most: int = 2) -> list[CatalogueModel]:
    """Return the models for a use on a machine with so much memory, the largest first.

    If the machine has less memory than any of them wants, return those that want the least.
    """
    able = [model for model in CATALOGUE if use in model.memory_gb]
    smallest = min(model.memory_gb[use] for model in able)
    fitting = [model for model in able if model.memory_gb[use] <= max(memory_gb, smallest)]
    return sorted(fitting, key=lambda model: -model.memory_gb[use])[:most]
