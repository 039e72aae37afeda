"""Downloads from the Hugging Face Hub into its local cache, in a process each, so that they can be ended."""

import asyncio
import sys
from collections.abc import Callable

import msgspec

from orchard.core.errors import OrchardError
from orchard.gateway.caller import environment_without_keys
from orchard.gateway.crash_reason import without_folders
from orchard.gateway.models import download_process
from orchard.gateway.models.download_process import Report

_AT_ONCE = 2
_END_SECONDS = 5.0


async def download(repo: str, revision: str | None, on_progress: Callable[[int, int], None]) -> str:
    """Download what a model needs and return its folder in the cache; complete files are not downloaded again.

    `on_progress` is called with the bytes that are here and the bytes of all missing files. Cancelling ends the
    download. Raise OrchardError with a sentence that says what to do.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", download_process.__name__, repo, revision or ""),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=environment_without_keys(),
            start_new_session=True,  # Ctrl-C is for the parent, which ends it
        )
    except OSError as error:
        raise OrchardError("unavailable", f"'{repo}' can't be downloaded: {error}") from None
    assert process.stdout
    report = Report()
    try:
        async for line in process.stdout:
            report = msgspec.json.decode(line, type=Report)
            if report.total:
                on_progress(report.done, report.total)
    finally:
        await _end(process)
    if report.failed:
        raise report.failed.error()
    if not report.folder:
        broken = f"the download of '{repo}' broke off (exit code {process.returncode}); try again"
        raise OrchardError("unavailable", broken)
    return report.folder


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the process by closing its stdin, and wait until it has ended."""
    assert process.stdin
    process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), _END_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()


class Downloads:
    """The downloads of a server that are under way, one of each model."""

    def __init__(self) -> None:
        self._running: dict[tuple[str, str | None], _Download] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def fetch(self, repo: str, revision: str | None, note: Callable[[str], None]) -> None:
        """Download a model, or wait for the download that is under way; call `note` with its progress.

        It goes on when nobody waits for it any more, as clients that lost patience ask again. Raise OrchardError.
        """
        key = repo, revision
        if key not in self._running:
            self._running[key] = _Download(repo, revision, self._turns)
            self._running[key].task.add_done_callback(lambda _: self._running.pop(key))
        await self._running[key].follow(note)

    async def close(self) -> None:
        """End all of them."""
        tasks = [download.task for download in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Download:
    """One download, and those who wait for it."""

    def __init__(self, repo: str, revision: str | None, turns: asyncio.Semaphore) -> None:
        self._progress = "waiting for other downloads"
        self._notes: list[Callable[[str], None]] = []
        self.task = asyncio.create_task(self._run(repo, revision, turns))

    async def follow(self, note: Callable[[str], None]) -> None:
        """Wait for its end. Raise OrchardError if it fails."""
        note(self._progress)
        self._notes.append(note)
        try:
            await asyncio.wait([self.task])
        finally:
            self._notes.remove(note)
        if self.task.cancelled():
            raise OrchardError("shutting_down", "the server is shutting down", retry_after=5)
        if error := self.task.result():
            raise OrchardError(error.kind, without_folders(error.message), param="model")

    async def _run(self, repo: str, revision: str | None, turns: asyncio.Semaphore) -> OrchardError | None:
        """Return what went wrong: an exception would be logged if nobody waits any more."""
        async with turns:
            self._tell("downloading")
            try:
                await download(repo, revision, lambda done, total: self._tell(f"downloading {100 * done // total}%"))
            except OrchardError as error:
                return error
        return None

    def _tell(self, progress: str) -> None:
        if progress != self._progress:
            self._progress = progress
            for note in self._notes:
                note(progress)
