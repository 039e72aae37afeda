"""The process that downloads one model: `python -m orchard.gateway.models.download_process REPO REVISION`.

It reports on stdout in lines of JSON. It ends when its stdin is closed, because its parent has died or has cancelled
the download: huggingface_hub's threads can't be ended in any other way.
"""

import errno
import glob
import os
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from orchard.core.errors import FailureKind, OrchardError
from orchard.core.events import Failed
from orchard.gateway.models import hub_cache
from orchard.gateway.models.gguf import GGUF, is_gguf

if TYPE_CHECKING:
    from huggingface_hub.hf_api import ModelInfo

_WANTED = ["*.safetensors", "*.npz", "*.json", "*.jsonl", "*.jinja", "*.txt", "*.model", "*.tiktoken", "*.mvn"]
# Second copies of the weights, in formats for other programs.
_UNWANTED = ["consolidated*", "original/*", "metal/*", "onnx/*", "openvino/*", "coreml/*", "*.onnx*"]
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
    from huggingface_hub import HfApi, constants, snapshot_download

    api = HfApi()
    try:
        info = api.model_info(repo, revision=revision, files_metadata=True)
        if is_gguf(file.rfilename for file in info.siblings or ()):
            raise OrchardError("model_failed", f"'{repo}' is not downloaded: {GGUF}", param="model")
        total = _missing_bytes(repo, info)
        _remove_leftovers(repo)
        cache = Path(constants.HF_HUB_CACHE)
        cache.mkdir(parents=True, exist_ok=True)
        if total > (free := shutil.disk_usage(cache).free):  # fail before the disk is full
            raise OSError(errno.ENOSPC, f"{total / 1e9:.1f} GB are needed, {free / 1e9:.1f} GB are free")
        folder = snapshot_download(
            repo,
            revision=revision,
            allow_patterns=_WANTED,
            ignore_patterns=_unwanted_patterns(info),
            max_workers=_FILES_AT_ONCE,
            tqdm_class=_byte_bar_class(lambda done: on_progress(min(done, total), total)),
        )
    except Exception as error:  # which HTTP errors are raised depends on huggingface_hub's version
        raise _explain_error(error, repo, revision, api.endpoint) from None
    on_progress(total, total)  # another process may have downloaded some of the files
    return str(folder)


def _missing_bytes(repo: str, info: "ModelInfo") -> int:
    """Return the bytes of the files that a model needs and the cache lacks; count the same content only once."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.utils import filter_repo_objects

    files = {file.rfilename: file for file in info.siblings or ()}
    wanted = filter_repo_objects(files, allow_patterns=_WANTED, ignore_patterns=_unwanted_patterns(info))
    missing = {
        files[name].blob_id or name: files[name].size or 0
        for name in wanted
        if not isinstance(try_to_load_from_cache(repo, name, revision=info.sha), str)
    }
    return sum(missing.values())


def _unwanted_patterns(info: "ModelInfo") -> list[str]:
    """Return patterns of files that a model does not need, such as a pipeline's weights at the top, a second copy."""
    weights = [file.rfilename for file in info.siblings or () if file.rfilename.endswith(".safetensors")]
    is_pipeline = any(name.startswith("transformer/") for name in weights)
    return [*_UNWANTED, *(glob.escape(name) for name in weights if is_pipeline and "/" not in name)]


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


def _explain_error(error: Exception, repo: str, revision: str | None, endpoint: str) -> OrchardError:
    """Return the error for a caller of an exception during a download."""
    from huggingface_hub import errors

    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    kind: FailureKind = "model_not_found"
    match error:
        case OrchardError():
            return error
        case errors.HFValidationError():
            message = f"'{repo}' is not the id of a model on the Hub (org/name)"
        case errors.GatedRepoError():
            message = f"'{repo}' is gated: accept its terms at {endpoint}/{repo}, then log in with 'hf auth login'"
        case errors.RepositoryNotFoundError():
            message = f"there is no model '{repo}' at {endpoint}, or it is private: then log in with 'hf auth login'"
        case errors.RevisionNotFoundError():
            message = f"'{repo}' has no revision '{revision}' at {endpoint}"
        case errors.OfflineModeIsEnabled():
            kind, message = "unavailable", f"'{repo}' can't be downloaded: HF_HUB_OFFLINE is set"
        case errors.HfHubHTTPError():
            kind, message = "unavailable", f"{endpoint} refused to give '{repo}': {reason}"
        case _ if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "No space left" in reason:
            kind, message = "model_failed", f"the disk is too full for '{repo}': {reason}"
        case _:
            kind, message = "unavailable", f"'{repo}' could not be downloaded from {endpoint}: {reason}"
    return OrchardError(kind, message, param="model")


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
