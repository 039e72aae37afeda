"""Downloads from a server that plays the Hub, in the tests' own process."""

import asyncio
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest
from huggingface_hub.utils import WeakFileLock

from orchard.core.errors import OrchardError
from orchard.gateway.models.download import Downloads, pull
from orchard.gateway.models.model_files import Folders
from tests.support.hub import COMMIT, Hub, run_hub
from tests.support.model_folders import make_model

LARGE = "model-00002-of-00002.safetensors"
SIZE = 48_000_000  # huggingface_hub tells of ten megabytes at a time, before it writes them


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub with one model, beside an empty cache."""
    from huggingface_hub import constants

    with run_hub() as hub:
        hub.repos["org/tiny"] = make_model(tmp_path / "repo", shards=2)
        (tmp_path / "repo" / LARGE).write_bytes(bytes(SIZE))
        for name in ("README.md", "consolidated.safetensors", "pytorch_model.bin"):
            (tmp_path / "repo" / name).write_bytes(b"-")
        monkeypatch.setattr(constants, "ENDPOINT", hub.url)
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.partition("{")[2]
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", f"{hub.url}/{{{template}")
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        for name, value in {
            **hub.env,
            "HF_HOME": str(tmp_path),
            "HF_HUB_CACHE": str(tmp_path / "hub"),
        }.items():
            monkeypatch.setenv(name, value)
        yield hub


@pytest.fixture
def blobs(hub: Hub, tmp_path: Path) -> Path:
    """Where the cache has the files of that model."""
    return tmp_path / "hub" / "models--org--tiny" / "blobs"


def sent(hub: Hub) -> list[str]:
    return [request for request in hub.asked if request.startswith("GET") and "/resolve/" in request]


def tell(told: list[int]) -> Callable[[int, int], None]:
    """Keep the percentages that `pull` tells."""
    return lambda done, total: told.append(100 * done // total)


def quietly(repo: str, revision: str | None = None) -> str:
    return pull(repo, revision, lambda done, total: None)


def ranges(hub: Hub, name: str = LARGE) -> list[int]:
    """From which byte on a file was sent, each time."""
    asked = [request.split()[2:] for request in sent(hub) if name in request]
    return [int(of[0].removeprefix("bytes=").removesuffix("-")) if of else 0 for of in asked]


def test_what_a_model_needs_is_fetched_once(hub: Hub) -> None:
    told: list[int] = []
    folder = pull("org/tiny", None, tell(told))
    names = ["config.json", "model-00001-of-00002.safetensors", LARGE, "model.safetensors.index.json"]
    assert sorted(path.name for path in Path(folder).iterdir()) == [*names, "tokenizer_config.json"]
    assert Folders().read(folder).size_bytes == SIZE + 100
    assert told[-1] == 100
    fetched = len(sent(hub))
    assert quietly("org/tiny", COMMIT) == folder
    assert len(sent(hub)) == fetched


def test_a_connection_that_breaks_is_taken_up_where_it_broke(hub: Hub) -> None:
    hub.cut[LARGE] = 11_000_000
    folder = quietly("org/tiny")
    assert (Path(folder) / LARGE).stat().st_size == SIZE
    first, second = ranges(hub)
    assert first == 0
    assert 10_000_000 <= second <= 11_000_000


def test_a_part_is_gone_on_with(hub: Hub, blobs: Path) -> None:
    content = (hub.repos["org/tiny"] / LARGE).read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    blobs.mkdir(parents=True)
    part = blobs / f"{digest}.incomplete"
    part.write_bytes(content[:40_000_000])
    told: list[int] = []
    folder = pull("org/tiny", None, tell(told))
    assert ranges(hub) == [40_000_000]
    assert 83 < told[0] <= told[-1] == 100
    assert (Path(folder) / LARGE).read_bytes() == content
    assert not part.exists()


@pytest.mark.parametrize("size", [1000, SIZE, SIZE + 1000])
def test_a_part_of_something_else_is_fetched_anew(hub: Hub, blobs: Path, size: int) -> None:
    digest = hashlib.sha256((hub.repos["org/tiny"] / LARGE).read_bytes()).hexdigest()
    blobs.mkdir(parents=True)
    (blobs / f"{digest}.incomplete").write_bytes(b"x" * size)
    assert (Path(quietly("org/tiny")) / LARGE).stat().st_size == SIZE
    assert ranges(hub) == ([1000, 0] if size == 1000 else [0])


def test_a_file_that_is_not_what_the_hub_says_is_refused(hub: Hub, blobs: Path) -> None:
    (hub.repos["org/tiny"] / LARGE).write_bytes(b"x" * SIZE)
    hub.spoiled.add(LARGE)
    with pytest.raises(OrchardError, match=f"{LARGE} is not what the Hub says"):
        quietly("org/tiny")
    assert not any(blobs.iterdir())
    hub.spoiled.clear()
    assert (Path(quietly("org/tiny")) / LARGE).read_bytes() == b"x" * SIZE


def test_a_file_that_another_process_fetches_is_waited_for(hub: Hub, blobs: Path) -> None:
    content = (hub.repos["org/tiny"] / LARGE).read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    lock = blobs.parents[1] / ".locks" / blobs.parent.name / f"{digest}.lock"
    for folder in (blobs, lock.parent):
        folder.mkdir(parents=True)
    told: list[int] = []
    with ThreadPoolExecutor() as thread:
        with WeakFileLock(lock):
            pulled = thread.submit(pull, "org/tiny", None, tell(told))
            assert not wait([pulled], timeout=0.5).done
            (blobs / digest).write_bytes(content)
        assert Path(pulled.result(), LARGE).stat().st_size == SIZE
    assert ranges(hub) == []
    assert told[-1] == 100


def test_two_names_of_one_content_are_one_file(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    (hub.repos["org/tiny"] / "copy.safetensors").write_bytes(bytes(SIZE))
    usage = shutil.disk_usage("/")._replace(free=SIZE + 10_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    folder = Path(quietly("org/tiny"))
    assert {(folder / name).stat().st_size for name in (LARGE, "copy.safetensors")} == {SIZE}
    assert len(ranges(hub)) + len(ranges(hub, "copy")) == 1


def test_where_files_can_not_be_links_huggingface_hub_fetches_them(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_DISABLE_SYMLINKS", True)
    folder = Path(quietly("org/tiny"))
    assert (folder / LARGE).stat().st_size == SIZE
    assert not (folder / LARGE).is_symlink()
    assert not [path for path in (folder.parents[1] / "blobs").iterdir() if path.stat().st_size == SIZE]


def test_files_that_are_here_are_not_fetched_again(hub: Hub, blobs: Path) -> None:
    quietly("org/tiny")
    link = blobs.parent / "snapshots" / COMMIT / LARGE
    link.resolve().unlink()
    link.unlink()
    left, young = blobs / f"{'a' * 40}.01234567.incomplete", blobs / f"{'b' * 40}.01234567.incomplete"
    for path in (left, young):
        path.touch()
    os.utime(left, (0, 0))
    hub.asked.clear()
    told: list[int] = []
    pull("org/tiny", None, tell(told))
    assert [request.rpartition("/")[2] for request in sent(hub)] == [LARGE]
    assert told[0] < 50
    # Nobody can use what a process left that was killed; that of one that runs stays.
    assert (left.exists(), young.exists()) == (False, True)


@pytest.mark.parametrize(
    ("repo", "revision", "kind", "words"),
    [
        ("org/none", None, "model_not_found", "there is no model 'org/none'"),
        ("org/gated", None, "model_not_found", "is gated: accept its terms"),
        ("org/tiny", "v9", "model_not_found", "no revision 'v9'"),
        ("../tiny", None, "model_not_found", "not the id of a model"),
    ],
)
def test_it_says_what_went_wrong(hub: Hub, repo: str, revision: str | None, kind: str, words: str) -> None:
    hub.gated.add("org/gated")
    with pytest.raises(OrchardError, match=words) as raised:
        quietly(repo, revision)
    assert raised.value.kind == kind


def test_a_disk_that_is_too_full_is_said_before_it_is_filled(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(OrchardError, match="the disk is too full for 'org/tiny'"):
        quietly("org/tiny")
    assert sent(hub) == []


def test_no_network_and_none_wanted(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(OrchardError, match="HF_HUB_OFFLINE is set"):
        quietly("org/tiny")
    assert hub.asked == []
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(OrchardError, match=r"could not be downloaded from http://127\.0\.0\.1:9: .*refused") as raised:
        quietly("org/tiny")
    assert raised.value.kind == "unavailable"


# The server's, in processes of their own


class Waiter:
    """Waits for a download, and keeps what it was told."""

    def __init__(self, downloads: Downloads, repo: str = "org/tiny") -> None:
        self.notes: list[str] = []
        self.half = asyncio.Event()
        self.task = asyncio.create_task(downloads.fetch(repo, None, self._note))

    def _note(self, text: str) -> None:
        self.notes.append(text)
        if "%" in text and int(text.split()[1][:-1]) > 40:
            self.half.set()


async def test_all_who_wait_share_a_download(hub: Hub) -> None:
    hub.goes_on.clear()
    downloads = Downloads()
    first, second = Waiter(downloads), Waiter(downloads)
    await first.half.wait()
    third = Waiter(downloads)
    await asyncio.sleep(0)
    assert third.notes == first.notes[-1:]
    second.task.cancel()
    hub.goes_on.set()
    await asyncio.gather(first.task, third.task)
    assert first.notes[1] == "downloading"
    assert first.notes[-1] == third.notes[-1] == "downloading 100%"
    assert len([request for request in sent(hub) if LARGE in request]) == 1
    assert second.task.cancelled()


async def test_a_download_goes_on_without_those_who_wait(hub: Hub, tmp_path: Path) -> None:
    hub.goes_on.clear()
    downloads = Downloads()
    gone = Waiter(downloads)
    await gone.half.wait()
    gone.task.cancel()
    hub.goes_on.set()
    await Waiter(downloads).task
    assert len([request for request in sent(hub) if LARGE in request]) == 1


async def test_downloads_take_turns(hub: Hub, tmp_path: Path) -> None:
    hub.goes_on.clear()
    for name in ("org/b", "org/c"):
        hub.repos[name] = hub.repos["org/tiny"]
    downloads = Downloads()
    first, second, third = (Waiter(downloads, name) for name in ("org/tiny", "org/b", "org/c"))
    await asyncio.gather(first.half.wait(), second.half.wait())
    assert third.notes == ["waiting for other downloads"]
    hub.goes_on.set()
    await asyncio.gather(first.task, second.task, third.task)


async def test_everybody_is_told_of_a_failure_and_the_next_one_tries_again(hub: Hub, tmp_path: Path) -> None:
    downloads = Downloads()
    waiters = [Waiter(downloads, "org/none") for _ in range(2)]
    for outcome in await asyncio.gather(*(waiter.task for waiter in waiters), return_exceptions=True):
        assert isinstance(outcome, OrchardError)
        assert (outcome.kind, outcome.param) == ("model_not_found", "model")
        assert "there is no model 'org/none'" in outcome.message
    hub.repos["org/none"] = make_model(tmp_path / "other")
    await Waiter(downloads, "org/none").task


async def test_the_end_of_the_server_ends_downloads_and_the_next_one_goes_on_with_them(hub: Hub) -> None:
    hub.goes_on.clear()
    downloads = Downloads()
    waiter = Waiter(downloads)
    await waiter.half.wait()
    await downloads.close()
    with pytest.raises(OrchardError) as raised:
        await waiter.task
    assert raised.value.kind == "shutting_down"
    hub.goes_on.set()
    await Waiter(Downloads()).task
    begun, gone_on = ranges(hub)
    assert begun == 0
    assert gone_on >= 10_000_000


async def test_why_a_download_failed_names_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> OrchardError:
        return OrchardError("model_failed", "the disk is too full for 'org/tiny': '/home/me/.cache/hub/blobs/ab12'")

    monkeypatch.setattr("orchard.gateway.models.download._Download._run", fail)
    with pytest.raises(OrchardError) as raised:
        await Downloads().fetch("org/tiny", None, lambda _: None)
    assert raised.value.message == "the disk is too full for 'org/tiny': 'ab12'"
