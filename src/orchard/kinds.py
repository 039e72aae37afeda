"""The kinds of models: how each is recognised, which tasks it serves, and what runs it.

To add a kind, write a service in `backends/` and a row of `KINDS` and, for a new task, a file in `core/tasks/`.
"""

import re
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any

from msgspec import Struct

from orchard.core.errors import OrchardError
from orchard.core.model_config import DIARIZER_KINDS, TURN_DETECTION_KINDS, transcription_kind
from orchard.core.request import LoadOptions, Task
from orchard.core.tasks.embed import Embed, EmbeddingOptions
from orchard.core.tasks.generate import Count, Generate
from orchard.core.tasks.images import EditImages, GenerateImages, ImageOptions
from orchard.core.tasks.judge_turn import JudgeTurn, TurnDetectionOptions
from orchard.core.tasks.rerank import Rerank, RerankOptions
from orchard.core.tasks.speak import Speak, SpeechOptions
from orchard.core.tasks.text_options import TextOptions
from orchard.core.tasks.transcribe import Transcribe, TranscribeOptions
from orchard.environments.environment import IMAGES, Environment

# The weights that mlx-lm loads, and those that the libraries for other kinds load.
_TEXT_WEIGHTS = re.compile(r"model.*\.safetensors")
_WEIGHTS = re.compile(r"(model|weights).*\.(safetensors|npz)")

_ENCODERS = {
    "bert",
    "distilbert",
    "embedding_gemma2",
    "modernbert",
    "mpnet",
    "new",
    "nomic_bert",
    "roberta",
    "xlm-roberta",
}
_ENCODER_TASKS = ("ForMaskedLM", "ForTextEncoding")
_RANKER_TASKS = ("ForSequenceClassification",)
# What sentence-transformers writes beside the weights of a reranker that is a causal language model.
_RANKER_FILES = {"1_LogitScore"}
# What sentence-transformers writes beside the weights.
_EMBEDDING_FILES = {"modules.json", "config_sentence_transformers.json"}
# mlx-audio's names.
_SPEAKERS = {
    "bailingmm",
    "bark",
    "breeze_tts",
    "chatterbox",
    "chatterbox_turbo",
    "csm",
    "dia",
    "echo_tts",
    "fish_qwen3_omni",
    "irodori_tts",
    "kitten",
    "kokoro",
    "marvis",
    "melotts",
    "omnivoice",
    "outetts",
    "pocket_tts",
    "qwen3_tts",
    "sesame",
    "soprano",
    "spark",
    "vibevoice",
    "vibevoice_streaming",
    "voxcpm",
    "voxcpm2",
    "voxtral_tts",
}
_IMAGE_FOLDERS = {"transformer", "vae"}
_MEDIA_KEYS = (
    "vision_config",
    "vision_cfg",
    "vision_tower",
    "mm_vision_tower",
    "vit_config",
    "visual",
    "img_processor",
    "audio_config",
    "thinker_config",
)


class Backend(Struct, frozen=True):
    """What runs models: a class with the methods of `backends.service.Service`, in a worker process.

    `service` is the class as `package.module:Class`; only a worker imports it. `tasks` are the tasks that its models
    serve, `options` is the type of their load options. Its libraries come with an extra of the distribution (`extra`),
    or are in a separate environment (`environment`).
    """

    service: str
    tasks: tuple[type[Task], ...]
    options: type[LoadOptions]
    extra: str | None = None
    environment: Environment | None = None

    @property
    def command(self) -> list[str]:
        """The command that starts a worker, without arguments. Raise OrchardError if its environment is missing."""
        return self.environment.command if self.environment else [sys.executable, "-m", "orchard.worker"]

    @property
    def remedy(self) -> str:
        """How to install a missing library; empty if it belongs to Orchard itself."""
        if self.environment:
            return self.environment.remedy
        return f"pip install 'mlx-orchard[{self.extra}]'" if self.extra else ""

    @property
    def arguments(self) -> list[str]:
        """The arguments that tell a worker what to run: names, because a worker does not import this table."""
        return [
            "--service",
            self.service,
            "--options",
            _qualified_name(self.options),
            "--tasks",
            *map(_qualified_name, self.tasks),
        ]

    def tasks_with(self, options: LoadOptions) -> tuple[type[Task], ...]:
        """Return the tasks that a model with these options serves."""
        return tuple(task for task in self.tasks if getattr(options, task.option, True))

    def check_task(self, model: str, task: type[Task], options: LoadOptions) -> None:
        """Raise OrchardError, with the model's URLs, if a model with these options can't do a task."""
        tasks = self.tasks_with(options)
        if task not in tasks:
            gives = " and ".join(dict.fromkeys(one.gives for one in tasks))
            addresses = ", ".join(address for one in tasks for address in one.addresses)
            message = f"model '{model}' gives {gives} and no {task.gives}; it is served at {addresses}"
            if task in self.tasks:
                message += f" (the setting `{task.option}: true` makes it give {task.gives}, too)"
            raise OrchardError("invalid_request", message, param="model")


def _qualified_name(found: type) -> str:
    return f"{found.__module__}:{found.__qualname__}"


class ModelKind(Struct, frozen=True):
    """A kind of model.

    `recognises` is called with a config.json and the names of the files and folders beside it. `types` are the kind's
    names in the configuration. /v1/models shows `inputs` and `output`, OpenRouter's words for the modalities, and
    `listed_type`, LM Studio's word for the kind (empty: the same as `output`). `weights` matches the files of weights;
    `in_folders`: they are in sub-folders. `has_tokenizer`: its models can do nothing without the files of a tokenizer.
    `convert`: the command that makes such models from PyTorch's.
    """

    backend: Backend
    recognises: Callable[[Mapping[str, Any], Collection[str]], bool]
    types: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ("text",)
    output: str = "text"
    listed_type: str = ""
    weights: re.Pattern[str] = _WEIGHTS
    in_folders: bool = False
    has_tokenizer: bool = False
    convert: str | None = None


def _is_embedder(config: Mapping[str, Any], files: Collection[str]) -> bool:
    return (
        str(config.get("model_type")) in _ENCODERS
        or not _EMBEDDING_FILES.isdisjoint(files)
        or _is_made_for(config, _ENCODER_TASKS)
    )


def _is_reranker(config: Mapping[str, Any], files: Collection[str]) -> bool:
    return _is_made_for(config, _RANKER_TASKS) or not _RANKER_FILES.isdisjoint(files)


def _is_made_for(config: Mapping[str, Any], tasks: tuple[str, ...]) -> bool:
    """Return whether all architectures that a config.json names are made for one of these tasks."""
    names = config.get("architectures")
    return isinstance(names, list) and names != [] and all(str(name).endswith(tasks) for name in names)


def _is_transcriber(config: Mapping[str, Any], files: Collection[str]) -> bool:
    # A configuration of mlx-examples uses the names of OpenAI's Whisper code. A diarizer works for another transcriber.
    named = config.get("model_type") in ("whisper", *DIARIZER_KINDS)
    return named or "n_audio_state" in config or transcription_kind(config) is not None


TEXT = Backend("orchard.backends.text.service:TextService", (Generate, Count, Embed), TextOptions)
VISION = Backend("orchard.backends.vision.service:VisionService", (Generate, Count, Embed), TextOptions, extra="vision")
SPEECH = Backend("orchard.backends.audio.speech:SpeechService", (Speak,), SpeechOptions, extra="audio")
EMBEDDINGS = Backend(
    "orchard.backends.embeddings.embedder:EmbeddingsService", (Embed,), EmbeddingOptions, extra="embeddings"
)
RERANK = Backend("orchard.backends.embeddings.reranker:RerankService", (Rerank,), RerankOptions, extra="embeddings")
FAKE = Backend("orchard.backends.fake:FakeService", (Generate, Count), TextOptions)
TRANSCRIPTION = Backend(
    "orchard.backends.audio.transcription:TranscriptionService", (Transcribe,), TranscribeOptions, extra="audio"
)
TURN_DETECTION = Backend(
    "orchard.backends.audio.turn_detection.service:TurnDetectionService",
    (JudgeTurn,),
    TurnDetectionOptions,
    extra="audio",
)
IMAGE = Backend(
    "orchard.backends.images.service:ImageService", (GenerateImages, EditImages), ImageOptions, environment=IMAGES
)

KINDS: dict[str, ModelKind] = {
    "fake": ModelKind(FAKE, lambda config, files: False, listed_type="llm"),
    "text": ModelKind(
        TEXT,
        lambda config, files: True,
        ("lm",),
        listed_type="llm",
        weights=_TEXT_WEIGHTS,
        has_tokenizer=True,
        convert="mlx_lm.convert",
    ),
    "vision": ModelKind(
        VISION,
        lambda config, files: any(config.get(key) for key in _MEDIA_KEYS),
        ("multimodal",),
        ("text", "image"),
        listed_type="vlm",
        weights=_TEXT_WEIGHTS,
        has_tokenizer=True,
        convert="mlx_vlm.convert",
    ),
    "embeddings": ModelKind(EMBEDDINGS, _is_embedder, ("embeddings",), output="embeddings", has_tokenizer=True),
    "rerank": ModelKind(RERANK, _is_reranker, ("rerank",), output="rerank", has_tokenizer=True),
    "transcription": ModelKind(
        TRANSCRIPTION, _is_transcriber, ("transcription", "whisper"), ("audio",), output="transcription"
    ),
    "speech": ModelKind(
        SPEECH,
        lambda config, files: str(config.get("model_type")) in _SPEAKERS and transcription_kind(config) is None,
        ("speech",),
        output="speech",
    ),
    "turn_detection": ModelKind(
        TURN_DETECTION,
        lambda config, files: config.get("model_type") in TURN_DETECTION_KINDS,
        ("turn-detection",),
        ("audio",),
        output="turn_detection",
    ),
    "image": ModelKind(
        IMAGE,
        lambda config, files: "model_index.json" in files or set(files) >= _IMAGE_FOLDERS,
        ("image-generation", "image-edit"),
        ("text", "image"),
        output="image",
        in_folders=True,
    ),
}
"""The kinds by name, which clients see. A model is of the last kind that recognises it."""


def recognise_kind(config: Mapping[str, Any], files: Collection[str]) -> str:
    """Return the kind of a model. `files` are the names of the files and folders beside its config.json."""
    return next(name for name in reversed(KINDS) if KINDS[name].recognises(config, files))


def kind_by_name(model_type: str) -> str:
    """Return the kind that has this name in the configuration."""
    return next(name for name, kind in KINDS.items() if model_type in kind.types)
