"""Downloads from the Hugging Face Hub, into its local cache.

The server's run in a process each (`python -m orchard.gateway.models.download ID REVISION`), so that they can be
ended and block nothing. Files that are whole are not fetched again. huggingface_hub begins an unfinished one anew,
so large ones are put into its cache from here, and go on where they were.
"""

import asyncio
import contextlib
import errno
import hashlib
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import Struct

from orchard.core.errors import FailureKind, OrchardError
from orchard.gateway.caller import environment_without_keys
from orchard.gateway.crash_reason import without_folders
from orchard.gateway.models import hub_cache
from orchard.gateway.models.gguf import GGUF, is_gguf

if TYPE_CHECKING:
    from huggingface_hub.hf_api import ModelInfo, RepoSibling

_WANTED = ["*.safetensors", "*.npz", "*.json", "*.jsonl", "*.jinja", "*.txt", "*.model", "*.tiktoken"]
# Weights that repositories have a second time, in forms for other programs.
_UNWANTED = ["consolidated*", "original/*", "metal/*", "onnx/*", "openvino/*", "coreml/*", "*.onnx*"]
_AT_ONCE = 2
_FILES_AT_ONCE = 4
_END_SECONDS = 5.0
# A part of a small file that nobody has added to for so long is nobody's.
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
            message = without_folders(failure.message)
            raise OrchardError(failure.kind, message, param=failure.param, retry_after=failure.retry_after)

    async def _take_turn(self, repo: str, revision: str | None, turns: asyncio.Semaphore) -> OrchardError | None:
        async with turns:
            self._say("downloading")
            return await self._run(repo, revision)

    async def _run(self, repo: str, revision: str | None) -> OrchardError | None:
        """Give what went wrong. An exception would be logged where nobody waits any more."""
        command = [sys.executable, "-m", "orchard.gateway.models.download", repo, revision or ""]
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                env=environment_without_keys(),
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


def pull(repo: str, revision: str | None, on_progress: Callable[[int, int], None]) -> str:
    """Download what a model needs, and give its folder in the cache; only what is not there yet is fetched.

    `on_progress` is told, from any thread, how many bytes of the missing files are here, and of how many; those of
    files that aren't large count at the end. Raises OrchardError saying what went wrong.
    """
    from huggingface_hub import HfApi, constants, snapshot_download
    from huggingface_hub.utils import disable_progress_bars

    disable_progress_bars()
    api = HfApi()
    with _explained(repo, revision, api.endpoint):
        info = api.model_info(repo, revision=revision, files_metadata=True)
        if is_gguf(file.rfilename for file in info.siblings or ()):
            raise OrchardError("model_failed", f"'{repo}' is not downloaded: {GGUF}")
        missing = _missing(repo, info)
        _remove_leftovers(repo)
        large, others = _parted(repo, info, missing)
        here = sum(file.here for file in large)
        total = sum(file.size for file in large) + sum(file.size or 0 for file in others)
        _check_room(Path(constants.HF_HUB_CACHE), total - here)
        progress = _Progress(here, total, on_progress)
        with ThreadPoolExecutor(_FILES_AT_ONCE) as threads:
            list(threads.map(partial(_fetch, progress=progress), large))
        folder = snapshot_download(repo, revision=revision, allow_patterns=_WANTED, ignore_patterns=_UNWANTED)
        progress.end()
        return str(folder)


def _missing(repo: str, info: "ModelInfo") -> "list[RepoSibling]":
    """Give those files of a model on the Hub that it needs and the cache hasn't."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.utils import filter_repo_objects

    files = {file.rfilename: file for file in info.siblings or ()}
    wanted = filter_repo_objects(files, allow_patterns=_WANTED, ignore_patterns=_UNWANTED)
    return [
        files[name] for name in wanted if not isinstance(try_to_load_from_cache(repo, name, revision=info.sha), str)
    ]


class _Large(NamedTuple):
    """A large file on the Hub, and its place in the cache, which is named by the SHA-256 of its content."""

    name: str
    url: str
    size: int
    blob: Path
    lock: Path

    @property
    def part(self) -> Path:
        """What there is of it before it is whole: its first bytes."""
        return self.blob.with_name(f"{self.blob.name}.incomplete")

    @property
    def here(self) -> int:
        """How many bytes of it need not be fetched."""
        for path in (self.blob, self.part):
            with contextlib.suppress(OSError):
                return min(path.stat().st_size, self.size)
        return 0


def _parted(repo: str, info: "ModelInfo", files: "Sequence[RepoSibling]") -> "tuple[list[_Large], list[RepoSibling]]":
    """Part the files that the Hub keeps by their SHA-256, each content once, from those that are huggingface_hub's.

    Those are what only it is given for its size, and all where files can't be links.
    """
    from huggingface_hub import constants, hf_hub_url
    from huggingface_hub.file_download import are_symlinks_supported

    cache, name = Path(constants.HF_HUB_CACHE), hub_cache.folder_name(repo)
    large: dict[str, _Large] = {}
    others: list[RepoSibling] = []
    for file in files:
        if file.lfs and file.lfs.size <= constants.MAX_HTTP_DOWNLOAD_SIZE and are_symlinks_supported(cache):
            large[file.lfs.sha256] = _Large(
                file.rfilename,
                hf_hub_url(repo, file.rfilename, revision=info.sha),
                file.lfs.size,
                cache / name / "blobs" / file.lfs.sha256,
                cache / ".locks" / name / f"{file.lfs.sha256}.lock",  # where huggingface_hub has it
            )
        else:
            others.append(file)
    return list(large.values()), others


def _fetch(file: _Large, progress: "_Progress") -> None:
    """Download a file, from where the last try ended on. Processes that want the same one wait for each other."""
    from huggingface_hub.utils import WeakFileLock

    before = file.here
    for folder in (file.blob.parent, file.lock.parent):
        folder.mkdir(parents=True, exist_ok=True)
    with WeakFileLock(file.lock):
        progress.add(file.here - before)  # by who had the lock
        if file.blob.exists():
            return
        begun = file.part.exists()
        if not _complete(file, progress) and not (begun and _complete(file, progress)):
            raise OrchardError("unavailable", f"{file.name} is not what the Hub says: its SHA-256 differs; try again")
        file.part.replace(file.blob)


def _complete(file: _Large, progress: "_Progress") -> bool:
    """Fetch what is missing of a file, and say whether it is what it should be; what is not is deleted."""
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers

    with file.part.open("a+b") as part:
        begin = part.seek(0, os.SEEK_END)
        if begin > file.size:
            begin = part.seek(part.truncate(0))
        try:
            http_get(
                file.url,
                part,
                resume_size=begin,
                headers=build_hf_headers(),
                expected_size=file.size,
                displayed_filename=file.name,
                tqdm_class=progress.bar(),
            )
        finally:
            if not part.tell():  # it was refused
                file.part.unlink()
        part.seek(0)
        if hashlib.file_digest(part, "sha256").hexdigest() == file.blob.name:
            return True
    file.part.unlink()
    progress.add(-file.size)
    return False


def _remove_leftovers(repo: str) -> None:
    """Delete parts that killed processes left of files that aren't large: as they are named by process, no other can
    use them."""
    folder = hub_cache.folder_of(repo)
    for path in Path(folder, "blobs").glob("*.*.incomplete") if folder else ():
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > _LEFTOVER_SECONDS:
                path.unlink()


def stop_on(number: signal.Signals, say: Callable[[], None] = lambda: None) -> None:
    """Let a signal end the process, once `say` has said so: its threads would go on to the end of their files."""

    def stop(*_: object) -> None:
        say()
        os._exit(128 + number)

    signal.signal(number, stop)


def _check_room(folder: Path, needed: int) -> None:
    """Raise OSError where the disk is too full, before it is filled."""
    folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(errno.ENOSPC, f"{needed / 1e9:.1f} GB are needed, {free / 1e9:.1f} GB are free")


class _Progress:
    """How far all files of a download are, in bytes."""

    def __init__(self, done: int, total: int, on_progress: Callable[[int, int], None]) -> None:
        self._done = done
        self._total = total
        self._on_progress = on_progress
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        """So many bytes more are here."""
        with self._lock:
            self._done += count
            if count:
                self._on_progress(max(0, min(self._done, self._total)), self._total)

    def end(self) -> None:
        """All of them are here."""
        self.add(self._total - self._done)

    def bar(self) -> type:
        """Give what huggingface_hub takes for a progress bar of one file."""
        from huggingface_hub.utils import tqdm

        add = self.add

        class Bar(tqdm):  # type: ignore[misc]
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **{**kwargs, "disable": True})

            def update(self, n: float | None = 1) -> None:
                add(int(n or 0))

        return Bar


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
    stop_on(signal.SIGTERM)
    told = -1

    def tell(done: int, total: int) -> None:
        nonlocal told
        if (percent := 100 * done // total) > told:
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
