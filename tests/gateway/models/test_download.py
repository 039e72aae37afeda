"""Downloads in processes of their own, from a server that plays the Hub."""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from orchard.core.errors import OrchardError
from orchard.gateway.models import download_process
from orchard.gateway.models.download import Downloads, DownloadState, download_model
from tests.support.hub import LARGE, SIZE, Hub

SMALL_FILES = 4
"""So many files of the model are fetched besides the large one."""


def children() -> list[psutil.Process]:
    """Return the processes of this one that download."""
    return [child for child in psutil.Process().children() if download_process.__name__ in child.cmdline()]


def files_of(folder: str) -> list[Path]:
    return list(Path(folder).iterdir())


def parts(blobs: Path) -> list[Path]:
    """Return the files that are not complete."""
    return list(blobs.glob("*.incomplete"))


def wait_for_small_files(blobs: Path) -> None:
    while len(list(blobs.parent.glob("snapshots/*/*"))) < SMALL_FILES:
        time.sleep(0.01)


class Puller:
    """Downloads a model, and keeps what it was told."""

    def __init__(self, repo: str = "org/tiny", revision: str | None = None) -> None:
        self.told: list[tuple[int, int]] = []
        self.half = asyncio.Event()
        self.task = asyncio.create_task(download_model(repo, revision, self._note))

    def _note(self, done: int, total: int) -> None:
        self.told.append((done, total))
        if done > 0.4 * total:
            self.half.set()


async def test_a_download_reports_bytes_and_returns_the_folder(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    puller = Puller()
    folder = await puller.task
    sizes = {path.name: path.stat().st_size for path in files_of(folder)}
    total = sum(sizes.values())
    assert sizes[LARGE] == SIZE
    assert puller.told[-1] == (total, total)
    assert {of for _, of in puller.told} == {total}
    assert puller.told[0][0] < 1000
    assert hub.authorizations == {"Bearer hf_secret"}
    # What is here already has no progress to show.
    again = Puller(revision="main")
    assert await again.task == folder
    assert again.told == []
    assert capfd.readouterr().err == ""


async def test_a_cancelled_download_ends_its_process_and_leaves_no_part_of_a_file(hub: Hub, blobs: Path) -> None:
    hub.goes_on.clear()
    puller = Puller()
    await puller.half.wait()
    await asyncio.to_thread(wait_for_small_files, blobs)
    (child,) = children()
    assert parts(blobs)
    puller.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await puller.task
    assert not child.is_running()
    assert not parts(blobs)
    hub.goes_on.set()
    await Puller().task
    assert len(hub.sent(LARGE)) == 2
    assert len(hub.sent()) == SMALL_FILES + 2  # what was complete is not fetched again


async def test_a_process_that_does_not_end_is_killed(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchard.gateway.models.download._END_SECONDS", 0.01)
    hub.goes_on.clear()
    puller = Puller()
    await puller.half.wait()
    (child,) = children()
    child.suspend()
    puller.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await puller.task
    assert not child.is_running()


async def test_a_process_that_dies_is_an_error(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORCHARD_API_KEY", "secret")
    hub.goes_on.clear()
    puller = Puller()
    await puller.half.wait()
    (child,) = children()
    assert "secret" not in child.environ().values()
    assert os.getsid(child.pid) == child.pid  # Ctrl-C reaches its parent alone
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(OrchardError, match=r"the download of 'org/tiny' broke off \(exit code -9\); try again"):
        await puller.task


async def test_a_process_that_can_not_be_started_is_an_error(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    with pytest.raises(OrchardError, match="'org/tiny' can't be downloaded") as raised:
        await download_model("org/tiny", None, lambda done, total: None)
    assert raised.value.kind == "unavailable"


# The server's, which several may wait for


class Script:
    """Stands in for `download_model`: half of each one is here until `goes_on` is set. What is in `failures` fails."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("orchard.gateway.models.download.download_model", self)
        self.begun: list[tuple[str, str | None]] = []
        self.ended: list[str] = []
        self.failures: dict[str, OrchardError] = {}
        self.goes_on = asyncio.Event()

    async def __call__(self, repo: str, revision: str | None, on_progress: Callable[[int, int], None]) -> str:
        self.begun.append((repo, revision))
        try:
            on_progress(999, 2000)
            await self.goes_on.wait()
            if repo in self.failures:
                raise self.failures[repo]
        finally:
            self.ended.append(repo)
        return "/folder"


@pytest.fixture
async def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    return Script(monkeypatch)


def wait_for(downloads: Downloads, repo: str = "org/tiny", revision: str | None = None) -> asyncio.Task[None]:
    return asyncio.create_task(downloads.fetch(repo, revision))


def told(downloads: Downloads) -> DownloadState:
    """Return the state of a download, without its times."""
    state = downloads.state("org/tiny", None)
    assert state
    assert time.time() - 60 < state.asked_at <= (state.ended_at or time.time())
    assert (state.ended_at is None) == (state.status == "downloading")
    return replace(state, asked_at=0.0, ended_at=None)


async def turn() -> None:
    """Let every task do what it can."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_all_who_wait_share_a_download(script: Script) -> None:
    downloads = Downloads()
    first, second = wait_for(downloads), wait_for(downloads)
    await turn()
    third = wait_for(downloads)
    await turn()
    assert downloads.progress("org/tiny", None) == "downloading 49%"
    second.cancel()
    script.goes_on.set()
    await asyncio.gather(first, third)
    assert second.cancelled()
    assert script.begun == [("org/tiny", None)]


async def test_a_revision_is_a_download_of_its_own(script: Script) -> None:
    downloads = Downloads()
    script.goes_on.set()
    await asyncio.gather(wait_for(downloads), wait_for(downloads, revision="v2"))
    assert script.begun == [("org/tiny", None), ("org/tiny", "v2")]


async def test_a_download_goes_on_without_those_who_wait(script: Script) -> None:
    downloads = Downloads()
    gone = wait_for(downloads)
    await turn()
    gone.cancel()
    await turn()
    assert script.ended == []
    again = wait_for(downloads)
    script.goes_on.set()
    await again
    assert script.begun == [("org/tiny", None)]


async def test_downloads_take_turns(script: Script) -> None:
    downloads = Downloads()
    names = ("org/a", "org/b", "org/c")
    waiters = [wait_for(downloads, name) for name in names]
    await turn()
    assert [repo for repo, _ in script.begun] == ["org/a", "org/b"]
    words = [downloads.progress(name, None) for name in names]
    assert words == ["downloading 49%", "downloading 49%", "waiting for other downloads"]
    script.goes_on.set()
    await asyncio.gather(*waiters)
    assert [repo for repo, _ in script.begun] == ["org/a", "org/b", "org/c"]


async def test_everybody_is_told_of_a_failure_and_the_next_one_tries_again(script: Script) -> None:
    downloads = Downloads()
    message = "the disk is too full for 'org/tiny': '/home/me/.cache/hub/blobs/ab12'"
    script.failures["org/tiny"] = OrchardError("model_failed", message)
    script.goes_on.set()
    waiters = [wait_for(downloads) for _ in range(2)]
    for outcome in await asyncio.gather(*waiters, return_exceptions=True):
        assert isinstance(outcome, OrchardError)
        assert (outcome.kind, outcome.param) == ("model_failed", "model")
        assert outcome.message == "the disk is too full for 'org/tiny': 'ab12'"  # it names no folder
    assert told(downloads) == DownloadState(
        "failed", 999, 2000, "the disk is too full for 'org/tiny': 'ab12'", begun=True
    )
    del script.failures["org/tiny"]
    await wait_for(downloads)
    assert len(script.begun) == 2
    assert told(downloads).status == "done"


async def test_the_end_of_the_server_ends_downloads(script: Script) -> None:
    downloads = Downloads()
    waiter = wait_for(downloads)
    await turn()
    await downloads.close()
    assert script.ended == ["org/tiny"]
    with pytest.raises(OrchardError) as raised:
        await waiter
    assert (raised.value.kind, raised.value.retry_after) == ("shutting_down", 5)


async def test_a_download_that_is_stopped(script: Script) -> None:
    downloads = Downloads()
    waiter = wait_for(downloads)
    await turn()
    assert told(downloads) == DownloadState("downloading", 999, 2000, begun=True)
    await downloads.stop("org/tiny", None)
    assert script.ended == ["org/tiny"]
    assert told(downloads).status == "cancelled"
    with pytest.raises(OrchardError, match="the download of 'org/tiny' was stopped"):
        await waiter
    await downloads.stop("org/tiny", None)  # does nothing
    script.goes_on.set()
    await downloads.begin("org/tiny", None)
    assert told(downloads).status == "done"


async def test_one_that_waits_for_its_turn_can_be_stopped(script: Script) -> None:
    downloads = Downloads()
    for repo in ("org/a", "org/b", "org/tiny"):
        downloads.begin(repo, None)
    await turn()
    await downloads.stop("org/tiny", None)
    assert told(downloads).status == "cancelled"
    assert [repo for repo, _ in script.begun] == ["org/a", "org/b"]
    script.goes_on.set()
    await downloads.close()


async def test_only_the_last_ends_are_known(script: Script) -> None:
    downloads = Downloads()
    script.goes_on.set()
    for number in range(70):
        await downloads.begin(f"org/{number}", None)
    known = [number for number in range(70) if downloads.state(f"org/{number}", None)]
    assert known == list(range(5, 70))  # 64 before the last one
