"""Broken, truncated and hostile files get a clear error, and take no more memory than others."""

import os
import random
import re
import resource
import struct
from collections.abc import Callable
from pathlib import Path

import gguf
import pytest
from gguf import GGMLQuantizationType as Kind

from orchard.gguf_import import process
from orchard.gguf_import.process import run_job
from orchard.gguf_job import ImportJob, ImportReport
from tests.gguf_import.tiny_models import CASES, write_model

COUNT = int(os.environ.get("FUZZ_REQUESTS", "200"))
_MOST_EXTRA_BYTES = 2**30


def attempt(file: Path, folder: Path) -> ImportReport:
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    return run_job(ImportJob(files=[str(file)], folder=str(folder)), lambda report: None)


@pytest.fixture(scope="module", params=["llama", "gemma2"])
def content(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    file = tmp_path_factory.mktemp("whole") / "model.gguf"
    write_model(file, CASES[request.param], (Kind.Q8_0, Kind.Q4_K, Kind.Q6_K))
    return file.read_bytes()


def _mutate(content: bytes, rng: random.Random) -> bytes:
    header = content.index(b"output_norm.weight") + 2000
    made = bytearray(content)
    at = rng.randrange(header)
    match rng.randrange(6):
        case 0:
            return content[: rng.randrange(len(content))]
        case 1:
            made[at] ^= 1 << rng.randrange(8)
        case 2:
            made[at : at + 8] = rng.choice((2**64 - 1, 2**63, 2**40, 2**32, 2**31, 0, 1)).to_bytes(8, "little")
        case 3:
            del made[at : at + rng.randrange(1, 40)]
        case 4:
            made[at:at] = rng.randbytes(rng.randrange(1, 40))
        case _:
            for _ in range(rng.randrange(1, 30)):
                made[rng.randrange(header)] = rng.randrange(256)
    return bytes(made)


@pytest.mark.timeout(600)
def test_mutated_files_are_imported_or_refused(content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "measure_accuracy", lambda *given: "")  # it takes long, and reads the same tensors
    rng = random.Random(os.environ.get("FUZZ_SEED", "0"))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refusals = 0
    for _ in range(COUNT // 2):
        (tmp_path / "model.gguf").write_bytes(_mutate(content, rng))
        report = attempt(tmp_path / "model.gguf", tmp_path / "imported")
        assert bool(report.failed) != report.is_whole
        refusals += bool(report.failed)
    assert refusals > COUNT // 4
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < _MOST_EXTRA_BYTES


def _changed(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    def change(content: bytes) -> bytes:
        assert old in content
        return content.replace(old, new, 1)

    return change


def _integer(name: str, value: int) -> Callable[[bytes], bytes]:
    """Change a whole number in the metadata."""

    def change(content: bytes) -> bytes:
        at = content.index(name.encode()) + len(name) + 4
        return content[:at] + value.to_bytes(4, "little") + content[at + 4 :]

    return change


BROKEN = {
    "no GGUF": (_changed(b"GGUF", b"GGML"), "it is not in GGUF format"),
    "an old version": (_changed(b"GGUF\x03", b"GGUF\x01"), "it is in a version of GGUF 1 that can't be read"),
    "truncated": (lambda content: content[:-1000], "it is not complete: .* lies beyond its end"),
    "a truncated header": (lambda content: content[:1000], "it ends too early"),
    "many tensors": (lambda content: content[:8] + b"\xff" * 8 + content[16:], "it says that it has 18,446,744,"),
    "many layers": (
        _integer("llama.block_count", 2**31),
        "num_hidden_layers is 2,147,483,648, and models",
    ),
    "a layer too many": (_integer("llama.block_count", 3), "it has 9 tensors too few, such as model.layers.2"),
    "other heads": (
        _integer("llama.attention.head_count", 8),
        "of the 32 numbers of its heads are rotated",
    ),
    "no width": (_integer("llama.embedding_length", 0), "its llama.embedding_length, .* at least 1, is something else"),
    "unknown words": (_changed(b"llama-bpe", b"martianic"), "split in a way \\('martianic'\\) that can't be imported"),
    "another network": (
        _changed(struct.pack("<Q", 5) + b"llama", struct.pack("<Q", 5) + b"mamba"),
        "its architecture 'mamba' can't be imported, only: llama, qwen2,",
    ),
    "equal tokens": (
        _changed(struct.pack("<Q", 3) + b"ing", struct.pack("<Q", 3) + b"<s>"),
        "its tokens are not all different",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_reason_is_clear(name: str, tmp_path: Path) -> None:
    change, reason = BROKEN[name]
    model = write_model(tmp_path / "model.gguf", CASES["llama"], (Kind.Q8_0,))
    (tmp_path / "broken.gguf").write_bytes(change(model.file.read_bytes()))
    report = attempt(tmp_path / "broken.gguf", tmp_path / "imported")
    assert re.search(reason, report.failed)


def test_a_vision_projector_is_refused_by_name(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "mmproj.gguf", "clip")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    assert "it is a vision projector (mmproj)" in attempt(tmp_path / "mmproj.gguf", tmp_path / "imported").failed


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model.gguf", CASES["llama"], (Kind.F32,))
    content = model.file.read_bytes()
    (tmp_path / "broken.gguf").write_bytes(content[:-4] + struct.pack("<f", float("nan")))
    failed = attempt(tmp_path / "broken.gguf", tmp_path / "imported").failed
    assert "has weights that are infinite or no numbers" in failed


def test_a_pipe_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.gguf")
    assert "it is not a regular file" in attempt(tmp_path / "model.gguf", tmp_path / "imported").failed
