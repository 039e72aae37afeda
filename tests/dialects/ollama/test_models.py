"""How models are described."""

import pytest

from orchard.core.errors import OrchardError
from orchard.dialects.common.output import parameter_label
from orchard.dialects.ollama.models import OllamaModel, parse_name

MODEL = OllamaModel(
    name="org/name",
    size_bytes=2_000_000_000,
    modified=1_700_000_000,
    architecture="qwen3",
    quantization="4bit",
    parameters=4_020_000_000,
    context_window=40_960,
    able=["text", "tools"],
)
BARE = OllamaModel(
    name="x",
    size_bytes=1,
    modified=0,
    architecture="",
    quantization="",
    parameters=0,
    context_window=None,
    able=["embeddings"],
)


def test_lists() -> None:
    listed = MODEL.list_entry()
    assert (listed["name"], listed["model"], listed["size"]) == ("org/name", "org/name", 2_000_000_000)
    assert listed["modified_at"] == "2023-11-14T22:13:20.000000Z"
    assert listed["details"] == {
        "parent_model": "",
        "format": "mlx",
        "family": "qwen3",
        "families": ["qwen3"],
        "parameter_size": "4.0B",
        "quantization_level": "4bit",
    }
    running = MODEL.process_entry(10, 0, 1_700_000_000)
    assert (running["size"], running["size_vram"], running["context_length"]) == (10, 0, 40_960)
    assert running["expires_at"] == listed["modified_at"]
    assert MODEL.process_entry(10, 10, None)["expires_at"].startswith("9999-")


def test_what_is_shown() -> None:
    shown = MODEL.show_body("{{ x }}", {"temperature": 0.7, "top_k": 20, "top_p": "high", "eos_token_id": [1]})
    assert shown["template"] == "{{ x }}"
    assert shown["model_info"]["qwen3.context_length"] == 40_960
    assert shown["capabilities"] == ["completion", "tools"]
    assert [line.split() for line in shown["parameters"].splitlines()] == [
        ["temperature", "0.7"],
        ["top_k", "20"],
        ["num_ctx", "40960"],
    ]
    assert shown["modelfile"].startswith("FROM org/name\nPARAMETER temperature 0.7")
    assert BARE.show_body("", {})["model_info"] == {"general.architecture": "unknown", "general.parameter_count": 0}


def test_the_digest_tells_versions_apart() -> None:
    assert len(MODEL.digest) == 64
    assert MODEL.digest != BARE.digest


@pytest.mark.parametrize(
    ("count", "label"),
    [(0, ""), (999, "999"), (4_233_558, "4.2M"), (135e6, "135M"), (4.02e9, "4.0B"), (671e9, "671B"), (1.02e12, "1.0T")],
)
def test_parameter_labels(count: float, label: str) -> None:
    assert parameter_label(int(count)) == label


def test_bodies_that_name_a_model() -> None:
    assert parse_name(b'{"model": "a"}').model_name == parse_name(b'{"name": "a"}').model_name == "a"
    with pytest.raises(OrchardError, match="`model` is required"):
        parse_name(b"{}").model_name  # noqa: B018
