"""What is remembered of a model, and what is not believed."""

import os
import time
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

import orchard.engine
from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching.batch import BatchMode
from orchard.engine.startup import calibration_cache
from orchard.engine.startup.calibration_cache import Calibration
from tests.support.tiny_models import Other, network

KNOWN = Calibration(BatchMode.BY_LENGTH, batched_prefill=True, chunk=128, tokens_per_second=1e3, found=time.time())


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ORCHARD_CACHE_DIR", str(tmp_path / "new"))
    return tmp_path / "new" / "models"


def test_what_is_remembered_is_recalled(folder: Path) -> None:
    assert calibration_cache.recall("a") is None
    calibration_cache.remember("a", KNOWN)
    calibration_cache.remember("b", replace(KNOWN, chunk=64))
    assert (calibration_cache.recall("a"), calibration_cache.recall("c")) == (KNOWN, None)
    calibration_cache.remember("a", replace(KNOWN, batched_prefill=False))
    assert calibration_cache.recall("a") == replace(KNOWN, batched_prefill=False)
    assert {file.name for file in folder.iterdir()} == {"a.json", "b.json"}


def changed(**fields: object) -> bytes:
    return msgspec.json.encode(msgspec.to_builtins(KNOWN) | fields)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"nonsense",
        b"[]",
        b"{}",
        b"\xff",
        msgspec.json.encode(KNOWN)[:-1],
        changed(chunk=0),
        changed(tokens_per_second=0),
        changed(batch_mode="all at once"),
        changed(more=1),
        changed(more="x" * 10_000),
        changed(found=time.time() - 25 * 3600),
        changed(found=time.time() + 3600),
    ],
)
def test_what_is_wrong_or_old_is_not_believed(folder: Path, content: bytes) -> None:
    folder.mkdir(parents=True)
    (folder / "a.json").write_bytes(content)
    assert calibration_cache.recall("a") is None
    calibration_cache.remember("a", KNOWN)
    assert calibration_cache.recall("a") == KNOWN


def test_a_folder_that_can_not_be(folder: Path) -> None:
    folder.parent.write_text("a file")
    calibration_cache.remember("a", KNOWN)
    assert calibration_cache.recall("a") is None


def test_the_oldest_are_forgotten(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration_cache, "_MOST_FILES", 3)
    for age, name in enumerate("edcba"):
        calibration_cache.remember(name, KNOWN)
        os.utime(folder / f"{name}.json", (1e9 + age, 1e9 + age))
    calibration_cache.remember("new", KNOWN)
    assert {file.stem for file in folder.iterdir()} == {"a", "b", "new"}


def test_the_name_tells_apart_what_the_facts_depend_on(monkeypatch: pytest.MonkeyPatch) -> None:
    model = network("qwen3")
    options = [
        TextOptions(),
        TextOptions(kv_bits=8),
        TextOptions(kv_bits=8, kv_group_size=32),
        TextOptions(kv_bits=8, quantized_kv_start=7),
        TextOptions(max_kv_size=64),
    ]
    names = {calibration_cache.key(model, given) for given in options}
    other = Other(model)
    other.fingerprint = "other"
    names.add(calibration_cache.key(other, options[0]))
    monkeypatch.setenv("MLX_SOMETHING", "1")
    names.add(calibration_cache.key(model, options[0]))
    monkeypatch.delenv("MLX_SOMETHING")
    monkeypatch.setattr(calibration_cache, "version", lambda name: "0")
    names.add(calibration_cache.key(model, options[0]))
    assert len(names) == len(options) + 3
    monkeypatch.undo()
    assert calibration_cache.key(model, TextOptions(decode_concurrency=3, memory_limit=7)) == calibration_cache.key(
        model, TextOptions()
    )


@pytest.mark.parametrize(
    "name",
    ["runner.py", "batching/layer_kinds.py", "prefix_cache/cache.py", "sampling/sampler.py", "startup/calibrate.py"],
)
def test_another_source_of_the_engine_makes_another_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, stat = network("qwen3"), Path.stat
    before = calibration_cache.key(model, TextOptions())
    file = Path(orchard.engine.__file__).parent / name
    assert file.is_file()
    monkeypatch.setattr(Path, "stat", lambda path, **how: stat(Path(__file__) if path == file else path, **how))
    assert calibration_cache.key(model, TextOptions()) != before
