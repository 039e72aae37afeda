"""Version 1 of LM Studio's REST API: models, loads and downloads, at https://lmstudio.ai/docs/developer/rest."""

import hashlib
import re
import time
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from orchard.dialects.common.fields import INT64_MAX, ModelName
from orchard.dialects.common.json_body import decode_body, invalid_field
from orchard.dialects.common.output import parameter_label

Fields = dict[str, Any]

FORMAT = "mlx"
"""The format of all models here."""
_LINK = "https://huggingface.co/"
_BITS = re.compile(r"\d+")
_NO_EFFECT = Meta(description="Accepted and ignored: it is for llama.cpp.")


class LoadBody(Struct):
    """A request to load a model: https://lmstudio.ai/docs/developer/rest/load."""

    model: ModelName
    context_length: Annotated[int, Meta(ge=1, le=INT64_MAX)] | None = None
    echo_load_config: bool | None = None
    eval_batch_size: Annotated[Any, _NO_EFFECT] = None
    flash_attention: Annotated[Any, _NO_EFFECT] = None
    num_experts: Annotated[Any, _NO_EFFECT] = None
    offload_kv_cache_to_gpu: Annotated[Any, _NO_EFFECT] = None


class UnloadBody(Struct):
    """A request to unload a model: https://lmstudio.ai/docs/developer/rest/unload."""

    instance_id: ModelName


class DownloadBody(Struct):
    """A request to download a model: https://lmstudio.ai/docs/developer/rest/download."""

    model: ModelName
    quantization: str | None = None


_load_decoder = msgspec.json.Decoder(LoadBody)
_unload_decoder = msgspec.json.Decoder(UnloadBody)
_download_decoder = msgspec.json.Decoder(DownloadBody)


def parse_load(body: bytes) -> LoadBody:
    """Read the body of a load. Raise OrchardError (invalid_request)."""
    return decode_body(_load_decoder, body)


def parse_unload(body: bytes) -> UnloadBody:
    """Read the body of an unload. Raise OrchardError (invalid_request)."""
    return decode_body(_unload_decoder, body)


def parse_download(body: bytes) -> str:
    """Read the body of a download, and return the model's name. Raise OrchardError (invalid_request)."""
    given = decode_body(_download_decoder, body)
    if given.quantization:
        raise invalid_field(
            "quantization", "must be left out: in MLX's format, each quantization is a model with its own name."
        )
    return given.model.removeprefix(_LINK).rstrip("/")


class LMStudioModel(Struct, frozen=True, kw_only=True):
    """What is known of a model; `kind` is "llm", "vlm" or "embeddings".

    `architecture` and `quantization` are "" if unknown, `parameters` is 0. `instance`: its id if it is in memory.
    """

    name: str
    kind: str
    publisher: str
    architecture: str
    quantization: str
    size_bytes: int
    parameters: int
    context_window: int | None
    capabilities: Collection[str]
    instance: str | None

    @property
    def type(self) -> str:
        """Version 1's word for what it gives."""
        return "embedding" if self.kind == "embeddings" else "llm"

    def list_entry(self) -> Fields:
        """Return the model as https://lmstudio.ai/docs/developer/rest/list describes it."""
        bits = _BITS.search(self.quantization)
        form = {"name": self.quantization, "bits_per_weight": int(bits[0]) if bits else None}
        told: Fields = {
            "type": self.type,
            "publisher": self.publisher,
            "key": self.name,
            "display_name": self.name.rpartition("/")[2],
            "quantization": form if self.quantization else None,
            "size_bytes": self.size_bytes,
            "params_string": parameter_label(self.parameters) or None,
            "loaded_instances": [{"id": self.instance, "config": self.load_config()}] if self.instance else [],
            "max_context_length": self.context_window,
            "format": FORMAT,
        }
        if self.type == "embedding":
            return told
        able = {"vision": self.kind == "vlm", "trained_for_tool_use": "tools" in self.capabilities}
        return told | {"architecture": self.architecture or None, "capabilities": able, "description": None}

    def load_config(self) -> Fields:
        """Return how it is loaded."""
        return {"context_length": self.context_window}

    def describe_load(self, seconds: float, *, echo_config: bool) -> Fields:
        """Return the answer to a request to load it, as https://lmstudio.ai/docs/developer/rest/load describes it."""
        told = {"type": self.type, "instance_id": self.instance, "load_time_seconds": seconds, "status": "loaded"}
        return told | ({"load_config": self.load_config()} if echo_config else {})


class DownloadJob(Struct, frozen=True, kw_only=True):
    """A download. `status` is Orchard's word, times are in seconds since the epoch; `total_bytes` 0: not yet known."""

    repo: str
    revision: str | None
    status: str
    downloaded_bytes: int
    total_bytes: int
    begun_at: float
    ended_at: float | None

    @property
    def id(self) -> str:
        """The id of the job."""
        return job_id(self.repo, self.revision)

    def describe(self) -> Fields:
        """Return the job as https://lmstudio.ai/docs/developer/rest/download-status describes it."""
        told: Fields = {
            "job_id": self.id,
            "status": {"done": "completed", "downloading": "downloading"}.get(self.status, "failed"),
            "total_size_bytes": self.total_bytes,
            "downloaded_bytes": self.downloaded_bytes,
            "started_at": _iso_time(self.begun_at),
        }
        if self.status == "done" and self.ended_at is not None:
            told["completed_at"] = _iso_time(self.ended_at)
        if self.status == "downloading":
            now = time.time()
            speed = self.downloaded_bytes / max(now - self.begun_at, 1e-3)
            told["bytes_per_second"] = speed
            if speed and self.total_bytes:
                told["estimated_completion"] = _iso_time(now + (self.total_bytes - self.downloaded_bytes) / speed)
        return told


ALREADY_DOWNLOADED: Fields = {"status": "already_downloaded"}
"""The answer for a model that is on this machine."""


def job_id(repo: str, revision: str | None) -> str:
    """Return the id of the download of a revision of a model."""
    return f"job_{hashlib.sha256('@'.join((repo, revision or '')).encode()).hexdigest()[:10]}"


def _iso_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
