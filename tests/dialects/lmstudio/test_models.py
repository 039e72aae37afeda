"""LM Studio's descriptions of models, loads and downloads."""

import json
import time
from typing import Any

import pytest
from msgspec.structs import replace

from orchard.core.errors import OrchardError
from orchard.dialects.lmstudio.models import DownloadJob, parse_download, parse_load, parse_unload
from tests.dialects.lmstudio.test_v0 import MODEL

JOB = DownloadJob(
    repo="org/name",
    revision=None,
    status="downloading",
    downloaded_bytes=100,
    total_bytes=400,
    begun_at=time.time() - 10,
    ended_at=None,
)


def test_a_model() -> None:
    assert MODEL.list_entry() == {
        "type": "llm",
        "publisher": "org",
        "key": "org/name",
        "display_name": "name",
        "architecture": "qwen3",
        "quantization": {"name": "4bit", "bits_per_weight": 4},
        "size_bytes": 2000,
        "params_string": "4.0B",
        "loaded_instances": [{"id": "org/name", "config": {"context_length": 4096}}],
        "max_context_length": 4096,
        "format": "mlx",
        "capabilities": {"vision": False, "trained_for_tool_use": True},
        "description": None,
    }


def test_an_embedding_model_of_which_little_is_known() -> None:
    little = replace(MODEL, kind="embeddings", quantization="", parameters=0, instance=None)
    told = little.list_entry()
    assert (told["type"], told["quantization"], told["params_string"]) == ("embedding", None, None)
    assert told["loaded_instances"] == []
    assert not {"architecture", "capabilities", "description"} & told.keys()
    assert replace(MODEL, quantization="bf16").list_entry()["quantization"]["bits_per_weight"] == 16
    assert replace(MODEL, kind="vlm").list_entry()["capabilities"]["vision"]


def test_a_load() -> None:
    assert MODEL.describe_load(2.5, echo_config=True) == {
        "type": "llm",
        "instance_id": "org/name",
        "load_time_seconds": 2.5,
        "status": "loaded",
        "load_config": {"context_length": 4096},
    }
    assert "load_config" not in MODEL.describe_load(2.5, echo_config=False)


def test_a_download_that_runs() -> None:
    told = replace(JOB, begun_at=time.time() - 10).describe()
    assert told["status"] == "downloading"
    assert told["bytes_per_second"] == pytest.approx(10, rel=0.2)
    assert told["started_at"].endswith("Z")
    assert told["estimated_completion"] > told["started_at"]
    assert "estimated_completion" not in replace(JOB, total_bytes=0).describe()
    assert "estimated_completion" not in replace(JOB, downloaded_bytes=0).describe()


@pytest.mark.parametrize(("status", "shown"), [("done", "completed"), ("failed", "failed"), ("cancelled", "failed")])
def test_a_download_that_has_ended(status: str, shown: str) -> None:
    told = replace(JOB, status=status, ended_at=time.time()).describe()
    assert told["status"] == shown
    assert ("completed_at" in told) == (status == "done")
    assert "bytes_per_second" not in told


def test_jobs_of_revisions_differ() -> None:
    ids = {JOB.id, replace(JOB, revision="v2").id, replace(JOB, repo="org/other").id}
    assert len(ids) == 3
    assert all(id_.startswith("job_") for id_ in ids)


@pytest.mark.parametrize(
    ("given", "name"),
    [("org/name", "org/name"), ("https://huggingface.co/org/name/", "org/name"), ("qwen3:4b", "qwen3:4b")],
)
def test_names_of_downloads(given: str, name: str) -> None:
    assert parse_download(json.dumps({"model": given}).encode()) == name


@pytest.mark.parametrize(
    ("read", "body", "param"),
    [
        (parse_load, {}, "model"),
        (parse_load, {"model": "a", "context_length": -1}, "context_length"),
        (parse_load, {"model": "a", "echo_load_config": 1}, "echo_load_config"),
        (parse_unload, {}, "instance_id"),
        (parse_download, {"model": ""}, "model"),
        (parse_download, {"model": "a", "quantization": "Q4_K_M"}, "quantization"),
    ],
)
def test_what_is_wrong_is_named(read: Any, body: dict[str, Any], param: str) -> None:
    with pytest.raises(OrchardError) as caught:
        read(json.dumps(body).encode())
    assert caught.value.param == param
