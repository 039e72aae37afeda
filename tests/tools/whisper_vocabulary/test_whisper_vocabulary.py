"""Whisper's vocabularies are those of OpenAI's package."""

import hashlib
import io
import tarfile
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tokenizers import pre_tokenizers
from tools.whisper_vocabulary.merges import merges, words
from tools.whisper_vocabulary.sdist import HASHES, VOCABULARIES, read

from orchard.backends.audio.vocabulary.tokenizer import MERGES, spell_tokens
from tools.whisper_vocabulary import __main__ as tool

BYTES = [bytes([number]) for number in range(256)]
TOKENS = [*BYTES, b"ab", b"bc", b"abc", b"abcab", b""]


def as_file(tokens: Sequence[bytes]) -> bytes:
    """Write tokens as tiktoken does; OpenAI's file has a single = for the empty one."""
    return b"".join(b"%s %d\n" % (b64encode(token) or b"=", at) for at, token in enumerate(tokens))


def sdist(folder: Path, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a package of these files, and take it for OpenAI's."""
    for name, content in files.items():
        monkeypatch.setitem(HASHES, name, hashlib.sha256(content).hexdigest())
    with tarfile.open(folder / "whisper-1.tar.gz", "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"whisper-1/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return folder / "whisper-1.tar.gz"


@pytest.mark.parametrize("name", VOCABULARIES)
def test_ours_spell_openais_files(name: str) -> None:
    """The bytes that are no printable characters stand behind the others, as the characters from 256 on."""
    alphabet = {ord(character) for character in pre_tokenizers.ByteLevel.alphabet()}
    behind = dict(enumerate((byte for byte in range(256) if byte not in alphabet), 256))
    with np.load(MERGES) as arrays:
        spelt, _ = spell_tokens(arrays[name].tolist())
    tokens = [bytes(behind.get(ord(character), ord(character)) for character in word) for word in spelt]
    tokens += [b""] if name == "multilingual" else []
    assert hashlib.sha256(as_file(tokens)).hexdigest() == HASHES[VOCABULARIES[name]]


def test_a_token_is_made_of_the_two_that_its_earlier_merges_leave() -> None:
    assert words(as_file(TOKENS)) == TOKENS
    assert merges(TOKENS) == [(97, 98), (98, 99), (256, 99), (258, 256)]


@pytest.mark.parametrize(
    ("tokens", "message"),
    [([*BYTES, b"abc"], "token 256 is no merge of two"), ([*BYTES[1:], b"ab"], "its first tokens are not the bytes")],
)
def test_tokens_that_no_merges_make_are_refused(tokens: list[bytes], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        merges(tokens)


def test_tokens_out_of_order_are_refused() -> None:
    with pytest.raises(ValueError, match="not in the order"):
        words(b"IQ== 1\nIg== 0\n")


def test_the_vocabularies_and_the_licence_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {file: as_file(TOKENS) for file in VOCABULARIES.values()} | {"LICENSE": b"MIT"}
    tool.write(sdist(tmp_path, files, monkeypatch), tmp_path)
    with np.load(tmp_path / "merges.npz", allow_pickle=False) as arrays:
        assert {name: arrays[name].tolist() for name in arrays.files} == {
            name: [[97, 98], [98, 99], [256, 99], [258, 256]] for name in VOCABULARIES
        }
    assert (tmp_path / "LICENSE").read_bytes() == b"MIT"


def test_another_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = sdist(tmp_path, {"LICENSE": b"MIT"}, monkeypatch)
    with pytest.raises(ValueError, match=r"has no whisper/tokenizer\.py"):
        read(package, "whisper/tokenizer.py")
    monkeypatch.setitem(HASHES, "LICENSE", "0" * 64)
    with pytest.raises(ValueError, match=r"LICENSE in .* is another one"):
        read(package, "LICENSE")


def test_the_licence_lies_beside_the_vocabularies() -> None:
    assert hashlib.sha256((MERGES.parent / "LICENSE").read_bytes()).hexdigest() == HASHES["LICENSE"]
