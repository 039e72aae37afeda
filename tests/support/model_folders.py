"""Folders that look like models, and a Hugging Face cache of them."""

import json
from pathlib import Path
from typing import Any

_HEADER_BYTES = 80
TEMPLATE = "{% if tools %}{{ tools }}{% endif %}"


def make_model(folder: Path, config: dict[str, Any] | None = None, shards: int = 1, here: int | None = None) -> Path:
    """Write a model of so many files of weights, of which so many are here."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {"model_type": "qwen3", "max_position_embeddings": 4096} if config is None else config
    (folder / "config.json").write_text(json.dumps(config))
    settings = {"chat_template": TEMPLATE, "tokenizer_class": "ByT5Tokenizer"}  # one that needs no other file
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    names = [f"model-{n:05}-of-{shards:05}.safetensors" for n in range(1, shards + 1)]
    if shards == 1:
        names = ["model.safetensors"]
    for name in names[:here]:
        (folder / name).write_bytes(some_weights(100))
    index = {"metadata": {}, "weight_map": {f"layer.{n}": name for n, name in enumerate(names)}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def some_weights(size: int) -> bytes:
    """Give a file of weights in safetensors format, of so many bytes (at least 90)."""
    count = size - 8 - _HEADER_BYTES
    header = json.dumps({"a": {"dtype": "U8", "shape": [count], "data_offsets": [0, count]}}).ljust(_HEADER_BYTES)
    return _HEADER_BYTES.to_bytes(8, "little") + header.encode() + bytes(count)


def cache_model(cache: Path, repo_id: str, *, commit: str = "c0ffee", ref: str | None = "main", **model: Any) -> Path:
    """Put a model into a cache, and give its snapshot."""
    repo = cache / f"models--{repo_id.replace('/', '--')}"
    snapshot = make_model(repo / "snapshots" / commit, **model)
    if ref:
        (repo / "refs").mkdir(exist_ok=True)
        (repo / "refs" / ref).write_text(commit)
    return snapshot
