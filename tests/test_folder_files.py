"""How many parameters the headers of weights tell of."""

import json
from pathlib import Path
from typing import Any

import pytest

from orchard.folder_files import count_parameters


def write(folder: Path, name: str, header: dict[str, Any]) -> Path:
    text = json.dumps(header).encode()
    file = folder / name
    file.write_bytes(len(text).to_bytes(8, "little") + text)
    return file


def tensor(*shape: Any, dtype: str = "BF16") -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [0, 0]}


def test_weights_are_counted_as_they_are_before_they_are_packed(tmp_path: Path) -> None:
    quantised = {
        "__metadata__": {"format": "mlx"},
        "up.weight": tensor(10, 64 * 4 // 32, dtype="U32"),
        "up.scales": tensor(10, 1),
        "up.biases": tensor(10, 1),
        "norm.weight": tensor(64),
    }
    one = write(tmp_path, "a.safetensors", quantised)
    assert count_parameters([one], 4, {}) == 10 * 64 + 64
    assert count_parameters([one, write(tmp_path, "b.safetensors", {"head.weight": tensor(3, 5)})], 4, {}) == 719
    assert count_parameters([write(tmp_path, "c.safetensors", {"x.biases": tensor(3)})], 16, {}) == 3


def test_layers_with_other_bits_are_counted_with_theirs(tmp_path: Path) -> None:
    header = {
        "up.weight": tensor(10, 64 * 4 // 32, dtype="U32"),
        "up.scales": tensor(10, 1),
        "embed.weight": tensor(10, 64 * 8 // 32, dtype="U32"),
        "embed.scales": tensor(10, 1),
    }
    assert count_parameters([write(tmp_path, "a.safetensors", header)], 4, {"embed": 8}) == 2 * 10 * 64


@pytest.mark.parametrize(
    "header",
    [
        {"a": {"shape": None}},
        {"a": 1},
        {"a": {"shape": ["x"]}},
        {"a": {}},
        {"a": {"shape": [2**62] * 8}},
        {"a": {"shape": [10] * 100_000}, "b": {"shape": [10**9] * 8}},
    ],
)
def test_nonsense_is_unknown(tmp_path: Path, header: dict[str, Any]) -> None:
    assert count_parameters([write(tmp_path, "a.safetensors", header)], 16, {}) == 0
    assert count_parameters([tmp_path / "missing"], 16, {}) == 0
