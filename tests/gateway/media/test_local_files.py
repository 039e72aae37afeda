"""Files that requests may read: those of one folder, and nothing else."""

import os
from pathlib import Path

import pytest

from orchard.core.errors import OrchardError
from orchard.core.media import MAX_BYTES, MediaPart
from orchard.gateway.media import local_files

SECRET = b"secret"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "media" / "sub").mkdir(parents=True)
    (tmp_path / "media" / "a b.png").write_bytes(b"picture")
    (tmp_path / "media" / "sub" / "c.png").write_bytes(b"inner")
    (tmp_path / "secret.png").write_bytes(SECRET)
    (tmp_path / "media-2").mkdir()
    (tmp_path / "media-2" / "secret.png").write_bytes(SECRET)
    return tmp_path / "media"


def part(url: str) -> MediaPart:
    return MediaPart("image", url, "p")


def read(url: str, folder: Path | None) -> bytes:
    wanted = part(url)
    file, size = local_files.open_local_file(wanted, str(folder) if folder else None)
    with file:
        return local_files.read_local_file(wanted, file, size).data


def refused(url: str, folder: Path | None) -> OrchardError:
    with pytest.raises(OrchardError) as caught:
        read(url, folder)
    assert caught.value.param == "p"
    return caught.value


def test_files_of_the_folder(folder: Path) -> None:
    assert read(f"file://{folder}/a%20b.png", folder) == b"picture"
    assert read(f"FILE://localhost{folder}/sub/c.png", folder) == b"inner"
    assert read(f"file:{folder}/sub/../sub/c.png", folder) == b"inner"


def test_links_within_the_folder(folder: Path) -> None:
    (folder / "link.png").symlink_to("sub/c.png")
    (folder / "way").symlink_to(folder / "sub")
    assert read(f"file://{folder}/link.png", folder) == b"inner"
    assert read(f"file://{folder}/way/c.png", folder) == b"inner"


def test_the_folder_may_be_a_link(folder: Path) -> None:
    link = folder.parent / "link"
    link.symlink_to(folder)
    assert read(f"file://{link}/sub/c.png", link) == b"inner"
    assert read(f"file://{folder}/sub/c.png", link) == b"inner"


def test_nothing_without_a_folder(folder: Path) -> None:
    error = refused(f"file://{folder}/sub/c.png", None)
    assert (error.kind, "--allowed-local-media" in error.message) == ("invalid_request", True)


def test_whatever_else_there_is_gets_one_answer(folder: Path) -> None:
    outside = folder.parent
    (folder / "out.png").symlink_to(outside / "secret.png")
    (folder / "up").symlink_to(outside)
    (folder / "circle").symlink_to("circle")
    os.mkfifo(folder / "pipe")
    told = {
        refused(url, folder).message
        for url in (
            f"file://{outside}/secret.png",
            f"file://{outside}/media-2/secret.png",
            f"file://{folder}/../secret.png",
            f"file://{folder}/%2e%2e/secret.png",
            f"file://{folder}/sub/../../secret.png",
            f"file://{folder}/out.png",
            f"file://{folder}/up/secret.png",
            f"file://{folder}/circle",
            f"file://{folder}/circle/a",
            f"file://{folder}/pipe",
            f"file://{folder}/sub",
            f"file://{folder}",
            f"file://{folder}/none.png",
            f"file://{folder}/a%20b.png/x",
            f"file://{folder}/%00",
            f"file://elsewhere{folder}/sub/c.png",
            "file://[::1",
            "file:sub/c.png",
            "file:",
            "file:///dev/zero",
            "file:///proc/self/environ",
            f"file://{folder}/{'x' * 5000}",
        )
    }
    assert told == {"`p` must name a file in the folder of --allowed-local-media."}


def test_a_place_that_becomes_a_link_after_it_was_resolved(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resolve = Path.resolve

    def then_replaced(self: Path, strict: bool = False) -> Path:
        found = resolve(self, strict)
        if self.name == "c.png":
            (folder / "sub" / "c.png").unlink()
            (folder / "sub").rmdir()
            (folder / "sub").symlink_to(folder.parent / "media-2")
            (folder.parent / "media-2" / "c.png").write_bytes(SECRET)
        return found

    monkeypatch.setattr(Path, "resolve", then_replaced)
    assert refused(f"file://{folder}/sub/c.png", folder).kind == "invalid_request"


def test_sizes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "empty.png").touch()
    assert "empty" in refused(f"file://{folder}/empty.png", folder).message
    monkeypatch.setitem(MAX_BYTES, "image", 5)
    assert read(f"file://{folder}/sub/c.png", folder) == b"inner"
    assert refused(f"file://{folder}/a%20b.png", folder).kind == "payload_too_large"


def test_a_file_that_grows_is_read_as_far_as_it_was_checked(folder: Path) -> None:
    wanted = part(f"file://{folder}/sub/c.png")
    file, size = local_files.open_local_file(wanted, str(folder))
    with file, (folder / "sub" / "c.png").open("ab") as more:
        more.write(b"x" * 10)
        more.flush()
        assert local_files.read_local_file(wanted, file, size).data == b"inner"


def test_no_file_stays_open(folder: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    for url in (f"file://{folder}/sub/c.png", f"file://{folder}/sub", f"file://{folder}/sub/x", f"file://{folder}/x/y"):
        try:
            read(url, folder)
        except OrchardError:
            continue
    assert len(os.listdir("/dev/fd")) == before
