"""Downloads from the Hugging Face Hub into its local cache, each in its own process, so that it can be cancelled."""

import asyncio
import sys
from collections.abc import Callable

import msgspec

from orchard.core.errors import OrchardError
from orchard.gateway.caller import environment_without_keys
from orchard.gateway.crash_reason import hide_folders, reap
from orchard.gateway.models import download_process
from orchard.gateway.models.download_process import Report

_AT_ONCE = 2
_END_SECONDS = 5.0


async def download_model(repo: str, revision: str | None, on_progress: Callable[[int, int], None]) -> str:
    """Download the missing files of a model, and return its folder in the cache.

    `on_progress` is called with the downloaded bytes and the bytes of all missing files. Cancelling ends the download.
    Raise OrchardError with a sentence that says what to do.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", download_process.__name__, repo, revision or ""),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=environment_without_keys(),
            start_new_session=True,  # Ctrl-C reaches only the parent, which ends the download
        )
    except OSError as error:
        raise OrchardError("unavailable", f"'{repo}' can't be downloaded: {error}") from None
    assert process.stdin
    assert process.stdout
    report = Report()
    try:
        async for line in process.stdout:
            report = msgspec.json.decode(line, type=Report)
            if report.total:
                on_progress(report.done, report.total)
    finally:
        process.stdin.close()  # this ends the process
        await reap(process.wait, _END_SECONDS, process.kill)
    if report.failed:
        raise report.failed.error()
    if not report.folder:
        broken = f"the download of '{repo}' broke off (exit code {process.returncode}); try again"
        raise OrchardError("unavailable", broken)
    return report.folder


class Downloads:
    """The running downloads of a server, at most one of each model."""

    def __init__(self) -> None:
        self._running: dict[tuple[str, str | None], asyncio.Task[OrchardError | None]] = {}
        self._progress: dict[tuple[str, str | None], str] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE)

    def progress(self, repo: str | None, revision: str | None) -> str:
        """Return the progress of a model's download in a few words."""
        return self._progress.get((repo or "", revision), "waiting for other downloads")

    async def fetch(self, repo: str, revision: str | None) -> None:
        """Download a model, or wait for its running download. Raise OrchardError.

        The download continues when nobody waits for it any more, because clients that time out try again.
        """
        key = repo, revision
        if key not in self._running:
            self._running[key] = asyncio.create_task(self._run(repo, revision))
            self._running[key].add_done_callback(lambda _: self._running.pop(key))
        task = self._running[key]
        await asyncio.wait([task])
        if task.cancelled():
            raise OrchardError("shutting_down", "the server is shutting down", retry_after=5)
        if error := task.result():
            raise OrchardError(error.kind, hide_folders(error.message), param="model")

    async def close(self) -> None:
        """Cancel all downloads."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, repo: str, revision: str | None) -> OrchardError | None:
        """Return the error, if any: asyncio would log an exception that nobody awaits."""

        def tell(done: int, total: int) -> None:
            self._progress[repo, revision] = f"downloading {100 * done // total}%"

        async with self._turns:
            self._progress[repo, revision] = "downloading"
            try:
                await download_model(repo, revision, tell)
            except OrchardError as error:
                return error
            finally:
                del self._progress[repo, revision]
        return None
