"""Downloads from the Hugging Face Hub, into its local cache.

The server's run in a process each (`python -m orchard.gateway.download ID REVISION`), so that they can be ended and
block nothing. Files that are whole are not fetched again; the library begins an unfinished one anew.
"""

import asyncio
import contextlib
import errno
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from orchard.core.errors import FailureKind, OrchardError
from orchard.gateway import registry_cache

if TYPE_CHECKING:
    from huggingface_hub import HfApi

_WANTED = ["*.safetensors", "*.npz", "*.json", "*.jsonl", "*.jinja", "*.txt", "*.model", "*.tiktoken"]
# Weights that repositories have a second time, in forms for other programs.
_UNWANTED = ["consolidated*", "original/*", "metal/*", "onnx/*", "openvino/*", "coreml/*", "*.onnx*"]
_AT_ONCE = 2
_END_SECONDS = 5.0
# A part of a file that nobody has added to for so long is nobody's.
_LEFTOVER_SECONDS = 3600


class _Line(Struct, omit_defaults=True):
    """What a downloading process says: how far it is, or why it failed."""

    percent: int = 0
    kind: FailureKind | None = None
    message: str = ""


class Downloads:
    """All downloads of a server that are under way, one of each model."""

    def __init__(self) -> None:
        self._running: dict[tuple[str, str | None], _Download] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def fetch(self, repo: str, revision: str | None, note: Callable[[str], None]) -> None:
        """Download a model, or wait for who does already; `note` is told how far it is. Raises OrchardError."""
        key = repo, revision
        download = self._running.get(key)
        if download is None:
            download = self._running[key] = _Download(repo, revision, self._turns)
            download.task.add_done_callback(lambda _: self._running.pop(key))
        await download.follow(note)

    async def close(self) -> None:
        """End all of them."""
        tasks = [download.task for download in self._running.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Download:
    """One download and those who wait for it. It goes on when they are gone: they, or others, will ask again."""

    def __init__(self, repo: str, revision: str | None, turns: asyncio.Semaphore) -> None:
        self._said = "waiting for other downloads"
        self._notes: list[Callable[[str], None]] = []
        self.task = asyncio.create_task(self._take_turn(repo, revision, turns))

    async def follow(self, note: Callable[[str], None]) -> None:
        """Wait for its end. Raises OrchardError where it failed."""
        note(self._said)
        self._notes.append(note)
        try:
            await asyncio.wait([self.task])
        finally:
            self._notes.remove(note)
        if self.task.cancelled():
            raise OrchardError("shutting_down", "the server is shutting down", retry_after=5)
        if failure := self.task.result():
            raise OrchardError(failure.kind, failure.message, param=failure.param, retry_after=failure.retry_after)

    async def _take_turn(self, repo: str, revision: str | None, turns: asyncio.Semaphore) -> OrchardError | None:
        async with turns:
            self._say("downloading")
            return await self._run(repo, revision)

    async def _run(self, repo: str, revision: str | None) -> OrchardError | None:
        """Give what went wrong. An exception would be logged where nobody waits any more."""
        command = [sys.executable, "-m", "orchard.gateway.download", repo, revision or ""]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ORCHARD_API_KEY")}
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, env=environment
            )
        except OSError as error:
            return OrchardError("unavailable", f"'{repo}' can't be downloaded: {error}")
        try:
            last = await self._read(process)
            code = await process.wait()
        finally:
            if process.returncode is None:
                await _end(process)
        if last.kind:
            return OrchardError(last.kind, last.message, param="model")
        if code:
            return OrchardError("unavailable", f"the download of '{repo}' broke off (exit code {code}); try again")
        return None

    async def _read(self, process: asyncio.subprocess.Process) -> _Line:
        assert process.stdout
        last = _Line()
        async for text in process.stdout:
            last = msgspec.json.decode(text, type=_Line)
            self._say(f"downloading {last.percent}%")
        return last

    def _say(self, text: str) -> None:
        self._said = text
        for note in self._notes:
            note(text)


async def _end(process: asyncio.subprocess.Process) -> None:
    process.terminate()
    try:
        async with asyncio.timeout(_END_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


def pull(repo: str, revision: str | None = None, on_progress: Callable[[int], None] | None = None) -> str:
    """Download what a model needs, and give its folder in the cache; only what is not there yet is fetched.

    `on_progress` is told the percentage, from any thread; without it there are progress bars in the terminal. Raises
    OrchardError saying what went wrong.
    """
    from huggingface_hub import HfApi, snapshot_download

    api = HfApi()
    with _explained(repo, revision, api.endpoint):
        missing = _missing_bytes(api, repo, revision)
        _remove_leftovers(repo)
        _check_room(repo, missing)
        return str(
            snapshot_download(
                repo,
                revision=revision,
                allow_patterns=_WANTED,
                ignore_patterns=_UNWANTED,
                tqdm_class=_progress_class(missing, on_progress) if on_progress else None,
            )
        )


def _missing_bytes(api: "HfApi", repo: str, revision: str | None) -> int:
    """Ask the Hub for the files of a model, and give the size of those that are not in the cache."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.utils import filter_repo_objects

    info = api.model_info(repo, revision=revision, files_metadata=True)
    files = {file.rfilename: file.size or 0 for file in info.siblings or ()}
    wanted = filter_repo_objects(files, allow_patterns=_WANTED, ignore_patterns=_UNWANTED)
    return sum(
        files[name] for name in wanted if not isinstance(try_to_load_from_cache(repo, name, revision=info.sha), str)
    )


def _remove_leftovers(repo: str) -> None:
    """Delete parts of files that killed processes left, and that no other can use, as their names are of one process.

    (huggingface_hub before 2.0 gives them other names and goes on with them.)
    """
    for path in _parts(repo):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _LEFTOVER_SECONDS:
                path.unlink()


def _parts(repo: str) -> set[Path]:
    folder = registry_cache.folder_of(repo)
    return set(Path(folder, "blobs").glob("*.*.incomplete")) if folder else set()


def stop_on(number: signal.Signals, repo: str, last_words: str = "") -> None:
    """Let a signal end the process at once: the threads of a download would go on to the end of their files.

    What is whole stays; parts of files that began after this call are deleted.
    """
    before = _parts(repo)

    def stop(*_: object) -> None:
        for path in _parts(repo) - before:
            path.unlink(missing_ok=True)
        if last_words:
            print(last_words, file=sys.stderr, flush=True)
        os._exit(128 + number)

    signal.signal(number, stop)


def _check_room(repo: str, needed: int) -> None:
    """Raise OSError where the disk is too full, before it is filled."""
    from huggingface_hub.constants import HF_HUB_CACHE

    os.makedirs(HF_HUB_CACHE, exist_ok=True)
    free = shutil.disk_usage(HF_HUB_CACHE).free
    if needed > free:
        raise OSError(errno.ENOSPC, f"{needed / 1e9:.1f} GB are needed, {free / 1e9:.1f} GB are free")


def _progress_class(total: int, on_progress: Callable[[int], None]) -> type:
    """Make what huggingface_hub takes for a progress bar. It has several; those of bytes tell the same."""
    from huggingface_hub.utils import tqdm

    class Progress(tqdm):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self._bytes = 0.0 if kwargs.get("unit") == "B" else None
            super().__init__(*args, **{**kwargs, "disable": True})

        def update(self, n: float | None = 1) -> None:
            if self._bytes is not None and total:
                self._bytes += n or 0
                on_progress(min(100, int(100 * self._bytes / total)))

    return Progress


@contextlib.contextmanager
def _explained(repo: str, revision: str | None, endpoint: str) -> Iterator[None]:
    """Turn what a download raises into an OrchardError with a sentence that says what to do."""
    from huggingface_hub import errors

    try:
        yield
    except errors.HFValidationError:
        raise OrchardError("model_not_found", f"'{repo}' is not the id of a model on the Hub (org/name)") from None
    except errors.GatedRepoError:
        advice = f"accept its terms at {endpoint}/{repo}, then log in with 'hf auth login'"
        raise OrchardError("model_not_found", f"'{repo}' is gated: {advice}") from None
    except errors.RepositoryNotFoundError:
        message = f"there is no model '{repo}' at {endpoint}, or it is private: then log in with 'hf auth login'"
        raise OrchardError("model_not_found", message) from None
    except errors.RevisionNotFoundError:
        raise OrchardError("model_not_found", f"'{repo}' has no revision '{revision}' at {endpoint}") from None
    except errors.OfflineModeIsEnabled:
        message = f"'{repo}' can't be downloaded: HF_HUB_OFFLINE is set"
        raise OrchardError("unavailable", message) from None
    except errors.HfHubHTTPError as error:
        message = f"{endpoint} refused to give '{repo}': {_first_line(error)}"
        raise OrchardError("unavailable", message) from None
    except OrchardError:
        raise
    except Exception as error:  # what the HTTP library raises differs between huggingface_hub's versions
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "No space left" in str(error):
            message = f"the disk is too full for '{repo}': {_first_line(error)}"
            raise OrchardError("model_failed", message) from None
        message = f"'{repo}' could not be downloaded from {endpoint}: {_first_line(error)}"
        raise OrchardError("unavailable", message) from None


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def main() -> None:
    """Download a model for the server, and tell it by lines on stdout."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's, which ends this process
    repo, revision = sys.argv[1], sys.argv[2] or None
    stop_on(signal.SIGTERM, repo)
    told = -1

    def tell(percent: int) -> None:
        nonlocal told
        if percent > told:
            told = percent
            _say(_Line(percent))

    try:
        pull(repo, revision, tell)
    except OrchardError as error:
        _say(_Line(max(told, 0), error.kind, error.message))
        sys.exit(1)


def _say(line: _Line) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(line) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
