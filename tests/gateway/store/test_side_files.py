"""The marks of servers, and the key of compacted conversations."""

from pathlib import Path

import pytest

from orchard.core.errors import OrchardError
from orchard.gateway.store.side_files import Owner, SealKey


def test_a_servers_mark_goes_with_it(tmp_path: Path) -> None:
    path = str(tmp_path / "sub" / "responses.db")
    first, second = Owner(path), Owner(path)
    assert not second.lives(first.token)
    first.hold()
    assert second.lives(first.token)
    first.release()
    assert not second.lives(first.token)
    assert not list((tmp_path / "sub").iterdir())


def test_a_mark_that_a_dead_server_left_is_swept_up(tmp_path: Path) -> None:
    path = str(tmp_path / "responses.db")
    (tmp_path / "responses.db-server-dead").touch()
    assert not Owner(path).lives("dead")
    assert not list(tmp_path.iterdir())


def test_a_mark_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OrchardError) as caught:
        Owner(str(tmp_path / "file" / "responses.db")).hold()
    assert caught.value.kind == "unavailable"


def test_servers_that_share_a_store_share_its_key(tmp_path: Path) -> None:
    path = str(tmp_path / "sub" / "responses.db")
    first, second = SealKey(path), SealKey(path)
    assert first.load() == second.load() == first.load()
    assert len(first.load()) == 32
    assert SealKey(":memory:").load() != SealKey(":memory:").load()


def test_a_key_that_cannot_be_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "short.db.key").write_bytes(b"x")
    for name in ("file/responses.db", "short.db"):
        with pytest.raises(OrchardError) as caught:
            SealKey(str(tmp_path / name)).load()
        assert caught.value.kind == "unavailable"
        assert str(tmp_path) not in caught.value.message
    assert "must have 32 bytes, not 1" in caplog.text
