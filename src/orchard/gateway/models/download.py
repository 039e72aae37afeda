"""Downloads from the Hugging Face Hub into its local cache, each in its own process, so that it can be cancelled."""

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from orchard.core.errors import OrchardError
from orchard.gateway.caller import environment_without_keys
from orchard.gateway.crash_reason import hide_folders, reap
from orchard.gateway.models import download_process
from orchard.gateway.models.download_process import Report

_AT_ONCE = 2
_MOST_ENDED = 64  # downloads whose end is known
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


class DownloadState(Struct, frozen=True):
    """How far a download is, in bytes of the files that were missing; `total_bytes` is 0 until that is known.

    `begun`: it no longer waits for other downloads. `error`: why it failed. `asked_at`, `ended_at`: when somebody asked
    for it, and when it ended, in seconds since the epoch.
    """

    status: Literal["downloading", "done", "failed", "cancelled"] = "downloading"
    downloaded_bytes: int = 0
    total_bytes: int = 0
    error: str | None = None
    begun: bool = False
    asked_at: float = 0.0
    ended_at: float | None = None


class Downloads:
    """The downloads of a server, at most one of each model at a time, and how the last ones ended."""

    def __init__(self) -> None:
        self._running: dict[tuple[str, str | None], asyncio.Task[OrchardError | None]] = {}
        self._states: dict[tuple[str, str | None], DownloadState] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE)

    def state(self, repo: str | None, revision: str | None) -> DownloadState | None:
        """Return the state of a model's running or last download; None: there was none, or many others came since."""
        return self._states.get((repo or "", revision))

    def states(self) -> dict[tuple[str, str | None], DownloadState]:
        """Return the states of the running and the last downloads, by repository and revision."""
        return dict(self._states)

    def progress(self, repo: str | None, revision: str | None) -> str:
        """Return the progress of a model's download in a few words."""
        state = self.state(repo, revision)
        if state is None or not state.begun:
            return "waiting for other downloads"
        share = f" {100 * state.downloaded_bytes // state.total_bytes}%" if state.total_bytes else ""
        return f"downloading{share}"

    def begin(self, repo: str, revision: str | None) -> "asyncio.Task[OrchardError | None]":
        """Begin to download a model, unless it is being downloaded, and return the task, whose result is the error."""
        key = repo, revision
        if key not in self._running:
            self._states.pop(key, None)
            ended = [each for each in self._states if each not in self._running]
            for each in ended[:-_MOST_ENDED]:
                del self._states[each]
            self._states[key] = DownloadState(asked_at=time.time())
            self._running[key] = asyncio.create_task(self._run(repo, revision))
            self._running[key].add_done_callback(lambda _: self._running.pop(key))
        return self._running[key]

    async def fetch(self, repo: str, revision: str | None) -> None:
        """Download a model, or wait for its running download. Raise OrchardError.

        The download continues when nobody waits for it any more, because clients that time out try again.
        """
        task = self.begin(repo, revision)
        await asyncio.wait([task])
        if task.cancelled():
            if self._states[repo, revision].status == "cancelled":
                raise OrchardError("unavailable", f"the download of '{repo}' was stopped", param="model")
            raise OrchardError("shutting_down", "the server is shutting down", retry_after=5)
        if error := task.result():
            raise error

    async def stop(self, repo: str | None, revision: str | None) -> None:
        """Stop a model's download, if it is running, and delete the files that are not complete."""
        key = repo or "", revision
        if task := self._running.get(key):
            self._states[key] = replace(self._states[key], status="cancelled", ended_at=time.time())
            task.cancel()
            await asyncio.wait([task])

    async def close(self) -> None:
        """Cancel all downloads."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, repo: str, revision: str | None) -> OrchardError | None:
        """Return the error, if any: asyncio would log an exception that nobody awaits."""
        key = repo, revision

        def note(done: int, total: int) -> None:
            self._states[key] = replace(self._states[key], downloaded_bytes=done, total_bytes=total)

        async with self._turns:
            self._states[key] = replace(self._states[key], begun=True)
            try:
                await download_model(repo, revision, note)
            except OrchardError as error:
                message = hide_folders(error.message)
                self._states[key] = replace(self._states[key], status="failed", error=message, ended_at=time.time())
                return OrchardError(error.kind, message, param="model")
            self._states[key] = replace(self._states[key], status="done", ended_at=time.time())
        return None
