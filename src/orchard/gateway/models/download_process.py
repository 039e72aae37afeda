"""The process that downloads one model: `python -m orchard.gateway.models.download_process REPO REVISION`.

It reports on stdout in lines of JSON. It ends when its stdin is closed, because its parent has died or has cancelled
the download: huggingface_hub's threads can't be ended in any other way.
"""

import errno
import os
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from orchard.core.errors import OrchardError
from orchard.core.events import Failed
from orchard.gateway.models import hub_cache, hub_info
from orchard.gateway.models.gguf import GGUF, is_gguf

# An interrupted file is downloaded again, so with few files at once, less is lost.
_FILES_AT_ONCE = 4
_PART = ".incomplete"
_LEFTOVER_SECONDS = 3600
# huggingface_hub's progress bars for bytes: received ones and written ones. Xet writes late.
_BYTE_BARS = {"huggingface_hub.snapshot_download.transfer", "huggingface_hub.snapshot_download"}


class Report(Struct, omit_defaults=True):
    """The progress of a download, in bytes of the missing files; at the end, the model's folder or the error."""

    done: int = 0
    total: int = 0
    folder: str = ""
    failed: Failed | None = None


def download_snapshot(repo: str, revision: str | None, on_progress: Callable[[int, int], None]) -> str:
    """Download the files of a model that the cache lacks, and return the model's folder in the cache.

    `on_progress` is called, from any thread, with the downloaded bytes and the bytes of all missing files.
    Raise OrchardError with a sentence that says what to do.
    """
    from huggingface_hub import constants, snapshot_download

    try:
        info = hub_info.read_info(repo, revision)
        if is_gguf(file.rfilename for file in info.siblings or ()):
            raise OrchardError("model_failed", f"'{repo}' is not downloaded: {GGUF}", param="model")
        total = hub_info.missing_bytes(repo, info)
        _remove_leftovers(repo)
        cache = Path(constants.HF_HUB_CACHE)
        cache.mkdir(parents=True, exist_ok=True)
        if total > (free := shutil.disk_usage(cache).free):  # fail before the disk is full
            raise OSError(errno.ENOSPC, f"{total / 1e9:.1f} GB are needed, {free / 1e9:.1f} GB are free")
        folder = snapshot_download(
            repo,
            revision=revision,
            allow_patterns=hub_info.WANTED,
            ignore_patterns=hub_info.unwanted_patterns(info),
            max_workers=_FILES_AT_ONCE,
            tqdm_class=_byte_bar_class(lambda done: on_progress(min(done, total), total)),
        )
    except Exception as error:  # which HTTP errors are raised depends on huggingface_hub's version
        raise hub_info.explain_error(error, repo, revision) from None
    on_progress(total, total)  # another process may have downloaded some of the files
    return str(folder)


def _remove_leftovers(repo: str) -> None:
    """Delete partial files of killed processes, which no other process can use."""
    folder = hub_cache.repo_folder(repo)
    for part in Path(folder, "blobs").glob(f"*{_PART}") if folder else ():
        with suppress(OSError):
            if time.time() - part.stat().st_mtime > _LEFTOVER_SECONDS:
                part.unlink()


def _byte_bar_class(tell: Callable[[int], None]) -> type:
    """Return a class for huggingface_hub's progress bars that calls `tell` with the bytes of all files so far."""
    from huggingface_hub.utils import tqdm

    counts: Counter[str] = Counter()
    lock = threading.Lock()

    class ByteBar(tqdm):  # type: ignore[misc]
        def __init__(self, *args: Any, name: str = "", **kwargs: Any) -> None:
            super().__init__(*args, **{**kwargs, "disable": True})
            self._name = name

        def update(self, n: float | None = 1) -> None:
            if self._name in _BYTE_BARS:
                with lock:
                    counts[self._name] += int(n or 0)
                    tell(max(counts.values()))

    return ByteBar


def _end_with_stdin() -> None:
    """Wait until the parent closes stdin or dies, then delete the unfinished files and end the process."""
    import psutil

    os.read(sys.stdin.fileno(), 1)  # reading sys.stdin would hold a lock that the interpreter needs to exit
    try:
        for file in psutil.Process().open_files():
            if file.path.endswith(_PART):
                Path(file.path).unlink(missing_ok=True)
    finally:
        os._exit(1)


def _print_report(report: Report) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    sys.stdout.buffer.flush()


def main() -> None:
    """Download the model that the command line names."""
    repo, revision = sys.argv[1], sys.argv[2] or None
    threading.Thread(target=_end_with_stdin, daemon=True).start()
    try:
        folder = download_snapshot(repo, revision, lambda done, total: _print_report(Report(done, total)))
    except OrchardError as error:
        _print_report(Report(failed=Failed.from_error(error)))
    else:
        _print_report(Report(folder=folder))


if __name__ == "__main__":
    main()
