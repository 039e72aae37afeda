"""Ollama's descriptions of models, and the bodies that name one: https://docs.ollama.com/api/tags and its pages."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from orchard.dialects.common.fields import ModelName
from orchard.dialects.common.json_body import decode_body, require
from orchard.dialects.common.output import parameter_label
from orchard.dialects.ollama.output import Fields, timestamp

VERSION = "0.12.11"
"""The version of Ollama whose API this is. Some clients refuse to work with an old one."""
_FORMAT = "mlx"
# Ollama's names of what a model can do are the same, except for these.
_CAPABILITIES = {"text": "completion", "embeddings": "embedding"}
# The names of sampling parameters in Ollama's Modelfiles, by those in generation_config.json.
_PARAMETERS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
    "repetition_penalty": "repeat_penalty",
}
_NEVER = "9999-12-31T23:59:59.999999Z"


class NameBody(Struct):
    """A body that names a model: in `model` or, as older clients do, in `name`."""

    model: ModelName | None = None
    name: ModelName | None = None
    stream: bool | None = None
    insecure: Annotated[Any, Meta(description="Accepted and ignored: the Hub is always asked over https.")] = None

    @property
    def model_name(self) -> str:
        """The name of the model. Raise OrchardError if there is none."""
        return require(self.model or self.name, "model")


_decoder = msgspec.json.Decoder(NameBody)


def parse_name(body: bytes) -> NameBody:
    """Read a body that names a model. Raise OrchardError (invalid_request)."""
    return decode_body(_decoder, body)


class OllamaModel(Struct, frozen=True, kw_only=True):
    """What is known of a model.

    `modified`: when its files were made, in seconds since the epoch. `architecture`, `quantization` and `parameters`
    are "" and 0 if unknown. `able`: what it answers with ("text", "embeddings"), and its capabilities.
    """

    name: str
    size_bytes: int
    modified: int
    architecture: str
    quantization: str
    parameters: int
    context_window: int | None
    able: Sequence[str]

    @property
    def digest(self) -> str:
        """What tells versions of a model apart: a digest of its name, size and date, not of all its bytes."""
        return hashlib.sha256(f"{self.name}\0{self.size_bytes}\0{self.modified}".encode()).hexdigest()

    @property
    def capabilities(self) -> list[str]:
        """What it can do, in Ollama's words."""
        return [_CAPABILITIES.get(one, one) for one in self.able]

    def details(self) -> Fields:
        """Return the object `details`."""
        return {
            "parent_model": "",
            "format": _FORMAT,
            "family": self.architecture,
            "families": [self.architecture] if self.architecture else [],
            "parameter_size": parameter_label(self.parameters),
            "quantization_level": self.quantization,
        }

    def list_entry(self) -> Fields:
        """Return the model as /api/tags lists it."""
        return {
            "name": self.name,
            "model": self.name,
            "modified_at": timestamp(self.modified),
            "size": self.size_bytes,
            "digest": self.digest,
            "details": self.details(),
            "capabilities": self.capabilities,
        }

    def process_entry(self, memory_bytes: int, gpu_bytes: int, unload_at: float | None) -> Fields:
        """Return the model as /api/ps lists it; `unload_at` in seconds since the epoch, None: not as things are."""
        return {
            "name": self.name,
            "model": self.name,
            "size": memory_bytes,
            "digest": self.digest,
            "details": self.details(),
            "expires_at": _NEVER if unload_at is None else timestamp(unload_at),
            "size_vram": gpu_bytes,
            "context_length": self.context_window or 0,
        }

    def show_body(self, template: str, generation: Mapping[str, Any]) -> Fields:
        """Return the model as /api/show describes it; `generation` is its generation_config.json."""
        sampling = {name: generation.get(key) for key, name in _PARAMETERS.items()}
        given = {name: value for name, value in sampling.items() if isinstance(value, int | float)}
        if self.context_window:
            given["num_ctx"] = self.context_window
        kind = self.architecture or "unknown"
        info: Fields = {"general.architecture": kind, "general.parameter_count": self.parameters}
        if self.context_window:
            info[f"{kind}.context_length"] = self.context_window
        return {
            "modelfile": "\n".join([f"FROM {self.name}", *(f"PARAMETER {name} {given[name]}" for name in given)]),
            "parameters": "\n".join(f"{name:30} {value}" for name, value in given.items()),
            "template": template,
            "details": self.details(),
            "model_info": info,
            "capabilities": self.capabilities,
            "modified_at": timestamp(self.modified),
        }


def pull_progress(repo: str, done: int, total: int) -> Fields:
    """Return what a line says about a download, in bytes. Clients show a bar for each `digest`."""
    digest = f"sha256:{hashlib.sha256(repo.encode()).hexdigest()}"
    return {"status": f"pulling {repo}", "digest": digest, "total": total, "completed": done}
