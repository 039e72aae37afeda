"""Broken, truncated and hostile files get a clear error, and take no more memory than others."""

import math
import os
import random
import re
import resource
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import pytest
from gguf import GGMLQuantizationType as Kind

from orchard.gguf_import import process
from orchard.gguf_import.header import Metadata, UnusableFileError
from orchard.gguf_import.process import run_job
from orchard.gguf_import.tokenizer import make_tokenizer
from orchard.gguf_job import ImportJob, ImportReport
from tests.gguf_import.tiny_models import CASES, write_model

COUNT = int(os.environ.get("FUZZ_REQUESTS", "200"))
_MOST_EXTRA_BYTES = 2**30


def attempt(file: Path, folder: Path, *, exact: bool = False) -> ImportReport:
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    return run_job(ImportJob(files=[str(file)], folder=str(folder), exact=exact), lambda report: None)


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


@pytest.mark.timeout(600 + COUNT // 5)
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


def _string(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def _header(*fields: bytes) -> bytes:
    """Return a file without tensors. A field: its type, and its value."""
    named = b"".join(_string(f"field {number}".encode()) + field for number, field in enumerate(fields))
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(fields)) + named


_TEXT, _LIST, _INT32 = (struct.pack("<I", number) for number in (8, 9, 5))
_MANY = struct.pack("<Q", 2**60)


def _field_places(content: bytes) -> tuple[list[tuple[int, int]], int]:
    """Return where the types and values of a file's metadata are, and where they end."""
    sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}

    def end_of(kind: int, at: int) -> int:
        if kind == 8:
            return at + 8 + int(struct.unpack_from("<Q", content, at)[0])
        if kind != 9:
            return at + sizes[kind]
        inner, count = struct.unpack_from("<IQ", content, at)
        at += 12
        for _ in range(count):
            at = end_of(inner, at)
        return at

    places, at = [], 24
    for _ in range(struct.unpack_from("<Q", content, 16)[0]):
        start = end_of(8, at)
        at = end_of(struct.unpack_from("<I", content, start)[0], start + 4)
        places.append((start, at))
    return places, at


def _random_value(rng: random.Random, *, may_nest: bool = True) -> bytes:
    """Return the type and the value of something that may stand in metadata."""
    kind = rng.choice((4, 5, 6, 7, 8, 9) if may_nest else (4, 5, 6, 7, 8))
    if kind == 9:
        values = [_random_value(rng, may_nest=False) for _ in range(rng.choice((0, 1, 300)))]
        same = [value for value in values if value[:4] == values[0][:4]]
        return _LIST + (same[0][:4] if same else _INT32) + struct.pack("<Q", len(same)) + b"".join(v[4:] for v in same)
    value = {
        4: lambda: struct.pack("<I", rng.choice((0, 1, 2, 63, 256, 2**16, 2**31, 2**32 - 1))),
        5: lambda: struct.pack("<i", rng.choice((-1, -(2**31), 7))),
        6: lambda: struct.pack("<f", rng.choice((math.nan, math.inf, -1.0, 0.0, 1e38, 1e-45))),
        7: lambda: bytes([rng.randrange(3)]),
        8: lambda: _string(rng.choice((b"", b"\xff", b"x" * 5000, b"yarn", b"longrope", b"$A", b"<s>", b"{% raw %}"))),
    }[kind]()
    return struct.pack("<I", kind) + value


def test_values_of_other_types_are_imported_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "measure_accuracy", lambda *given: "")
    rng = random.Random(os.environ.get("FUZZ_SEED", "0"))
    whole = [write_model(tmp_path / "whole.gguf", case, (Kind.Q8_0,)).file.read_bytes() for case in CASES.values()]
    for _ in range(COUNT // 4):
        content = rng.choice(whole)
        places, end = _field_places(content)
        start, stop = rng.choice(places)
        value = _random_value(rng)
        filler = _string(b"filler") + _TEXT + _string(b"")
        filler = filler[:-8] + _string(b"x" * ((stop - start - len(value) - len(filler)) % 32))  # keeps the alignment
        count = struct.pack("<Q", len(places) + 1)
        made = content[:16] + count + content[24:start] + value + content[stop:end] + filler + content[end:]
        (tmp_path / "model.gguf").write_bytes(made)
        report = attempt(tmp_path / "model.gguf", tmp_path / "imported")
        assert bool(report.failed) != report.is_whole
        assert "\n" not in report.failed
        if report.is_whole:
            for file in (tmp_path / "imported").glob("*.json"):
                assert "NaN" not in file.read_text()


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


def _offset(name: str, value: int) -> Callable[[bytes], bytes]:
    """Change where a tensor is, from the beginning of all tensors on."""

    def change(content: bytes) -> bytes:
        at = content.index(name.encode()) + len(name)
        at += 4 + 8 * int.from_bytes(content[at : at + 4], "little") + 4
        return content[:at] + value.to_bytes(8, "little") + content[at + 8 :]

    return change


BROKEN = {
    "no GGUF": (_changed(b"GGUF", b"GGML"), "it is not in GGUF format"),
    "an old version": (_changed(b"GGUF\x03", b"GGUF\x01"), "it is in a version of GGUF 1 that can't be read"),
    "truncated": (lambda content: content[:-1000], "it is not complete: .* lies beyond its end"),
    "a truncated header": (lambda content: content[:1000], "it ends too early"),
    "many tensors": (lambda content: content[:8] + b"\xff" * 8 + content[16:], "it says that it has 18,446,744,"),
    "many layers": (
        _integer("llama.block_count", 2**31 - 1),
        "num_hidden_layers is 2,147,483,647, and models",
    ),
    "a layer too many": (_integer("llama.block_count", 3), "it has 9 tensors too few, such as model.layers.2"),
    "other heads": (
        _integer("llama.attention.head_count", 8),
        "of the 32 numbers of its heads are rotated",
    ),
    "no width": (
        _integer("llama.embedding_length", 0),
        "its llama.embedding_length, .* from 1 to .*, is something else",
    ),
    "unknown words": (_changed(b"llama-bpe", b"martianic"), "split in a way \\('martianic'\\) that can't be imported"),
    "another network": (
        _changed(struct.pack("<Q", 5) + b"llama", struct.pack("<Q", 5) + b"mamba"),
        "its architecture 'mamba' can't be imported, only: llama, qwen2,",
    ),
    "overlapping tensors": (
        _offset("blk.0.attn_k.weight", 0),
        "two of its tensors, .* and .*, lie in the same place",
    ),
    "a tensor beyond the end": (_offset("blk.0.attn_k.weight", 2**60), "it is not complete: blk.0.attn_k.weight"),
    "a long list": (lambda _: _header(_LIST + _INT32 + _MANY), "its lists have more than 4,194,304 values"),
    "a long text": (lambda _: _header(_TEXT + _MANY), "it has a text of 1,152,921,504,606,846,976 bytes"),
    "a list that is not there": (lambda _: _header(_LIST + _INT32 + struct.pack("<Q", 2**20)), "it ends too early"),
    "lists in lists": (
        lambda _: _header((_LIST * 1000)[:4] + (_LIST + struct.pack("<Q", 1)) * 1000 + _INT32 * 2),
        "it has lists of lists",
    ),
    "much of it": (
        lambda _: _header(*[_TEXT + _string(b"x" * 2**24)] * 4),
        "its metadata have more than 67,108,864 bytes",
    ),
    "no alignment": (
        lambda content: _renamed(content, "llama.rope.dimension_count", "general.alignment", 0),
        "its general.alignment is not a power of two",
    ),
    "an odd alignment": (
        lambda content: _renamed(content, "llama.rope.dimension_count", "general.alignment", 48),
        "its general.alignment is not a power of two",
    ),
    "a window of all tokens": (
        _integer("llama.context_length", 2**32 - 1),
        "its llama.context_length, a whole number from 1 to 2,147,483,647, is something else",
    ),
    "equal tokens": (
        _changed(struct.pack("<Q", 3) + b"ing", struct.pack("<Q", 3) + b"<s>"),
        "its tokens are not all different",
    ),
}


def _renamed(content: bytes, old: str, new: str, value: int) -> bytes:
    """Make a whole number of the metadata another one."""
    before = _string(old.encode())
    at = content.index(before)
    after = _string(new.encode()) + content[at + len(before) : at + len(before) + 4] + struct.pack("<I", value)
    return content[:at] + after + content[at + len(before) + 8 :]


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


@pytest.mark.parametrize("factor", [float("nan"), float("inf"), 0.0])
def test_factors_that_are_no_numbers_are_refused(factor: float, tmp_path: Path) -> None:
    model = write_model(tmp_path / "model.gguf", CASES["phi3, longrope"], (Kind.F32,))
    factors = struct.pack("<2f", 1.0, 1 + 1 / 31)
    (tmp_path / "broken.gguf").write_bytes(_changed(factors, struct.pack("<2f", 1.0, factor))(model.file.read_bytes()))
    failed = attempt(tmp_path / "broken.gguf", tmp_path / "imported").failed
    assert re.fullmatch(r"its rope_factors_\w+.weight are not \d+ positive numbers", failed)


def test_weights_whose_logits_overflow_are_refused(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model.gguf", CASES["llama"], (Kind.F32,))
    (tmp_path / "broken.gguf").write_bytes(model.file.read_bytes()[:-4] + struct.pack("<f", 3e38))
    report = attempt(tmp_path / "broken.gguf", tmp_path / "imported", exact=True)
    assert report.failed == "its logits are infinite or no numbers"


def test_no_tokens_and_too_many_characters(tmp_path: Path) -> None:
    for name, tokens in {"none": [], "long": [f"{number:0512}" for number in range(2**15 + 1)]}.items():
        values: dict[str, Any] = {"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.model": "llama"}
        with pytest.raises(UnusableFileError) as caught:
            make_tokenizer(Metadata(values), 2**20, [], "")
        assert str(caught.value) == {"none": "it has no tokens", "long": "its tokens have 16,777,728 characters"}[name]


def test_a_template_that_never_ends_is_only_kept(tmp_path: Path) -> None:
    """It is rendered by the server, which limits its time and its length."""
    model = write_model(tmp_path / "model.gguf", CASES["llama"], (Kind.Q8_0,))
    own = model.file.read_bytes()
    start = own.index(b"{% for message")
    end = own.index(b"{% endfor %}") + len(b"{% endfor %}")
    endless = b"{% for one in range(10**12) %}{{ ''.__class__ }}{% endfor %}".ljust(end - start)
    model.file.write_bytes(own[:start] + endless + own[end:])
    assert attempt(model.file, tmp_path / "imported").is_whole
    assert (tmp_path / "imported" / "chat_template.jinja").read_bytes() == endless
