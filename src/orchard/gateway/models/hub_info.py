"""What the Hugging Face Hub says about a model: which of its files are needed, and how large they are."""

import errno
import glob
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from orchard.core.errors import FailureKind, OrchardError

if TYPE_CHECKING:
    from huggingface_hub.hf_api import ModelInfo, RepoSibling

WAIT_SECONDS: Final = 10.0
"""For the Hub to begin or continue an answer about models."""

WANTED = ["*.safetensors", "*.npz", "*.json", "*.jsonl", "*.jinja", "*.txt", "*.model", "*.tiktoken", "*.mvn"]
# Second copies of the weights, in formats for other programs.
_UNWANTED = ["consolidated*", "original/*", "metal/*", "onnx/*", "openvino/*", "coreml/*", "*.onnx*"]


def read_info(repo: str, revision: str | None = None) -> "ModelInfo":
    """Ask the Hub about a model and its files. Raise OrchardError with a sentence that says what to do."""
    from huggingface_hub import HfApi

    try:
        info = HfApi().model_info(repo, revision=revision, timeout=WAIT_SECONDS, files_metadata=True)
        needed_bytes(info)  # fails if the answer is nonsense
        return info
    except Exception as error:  # which HTTP errors are raised depends on huggingface_hub's version
        raise explain_error(error, repo, revision) from None


def needed_bytes(info: "ModelInfo") -> int:
    """Return the bytes of the files that a model needs."""
    return _count_bytes(_needed_files(info))


def missing_bytes(repo: str, info: "ModelInfo") -> int:
    """Return the bytes of the files that a model needs and the cache lacks."""
    from huggingface_hub import try_to_load_from_cache

    return _count_bytes(
        file
        for file in _needed_files(info)
        if not isinstance(try_to_load_from_cache(repo, file.rfilename, revision=info.sha), str)
    )


def _needed_files(info: "ModelInfo") -> "list[RepoSibling]":
    from huggingface_hub.utils import filter_repo_objects

    files = {file.rfilename: file for file in info.siblings or ()}
    names = filter_repo_objects(files, allow_patterns=WANTED, ignore_patterns=unwanted_patterns(info))
    return [files[name] for name in names]


def _count_bytes(files: "Iterable[RepoSibling]") -> int:
    """Count the same content only once."""
    return sum({file.blob_id or file.rfilename: file.size or 0 for file in files}.values())


def unwanted_patterns(info: "ModelInfo") -> list[str]:
    """Return patterns of files that a model does not need, such as a pipeline's weights at the top, a second copy."""
    weights = [file.rfilename for file in info.siblings or () if file.rfilename.endswith(".safetensors")]
    is_pipeline = any(name.startswith("transformer/") for name in weights)
    return [*_UNWANTED, *(glob.escape(name) for name in weights if is_pipeline and "/" not in name)]


def explain_error(error: Exception, repo: str, revision: str | None = None) -> OrchardError:
    """Return the error for a caller of an exception during a download."""
    from huggingface_hub import constants, errors

    endpoint = constants.ENDPOINT
    reason = describe_error(error)
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
            kind, message = "unavailable", f"'{repo}' could not be fetched from {endpoint}: {reason}"
    return OrchardError(kind, message, param="model")


def describe_error(error: Exception) -> str:
    """Return the first line of an exception's text, without the number that the system has for it."""
    return re.sub(r"^\[Errno -?\d+\] ", "", (str(error).strip() or type(error).__name__).splitlines()[0])
