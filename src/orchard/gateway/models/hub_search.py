"""Searches the Hugging Face Hub for models in MLX's format.

A server searches in a process of its own, `python -m orchard.gateway.models.hub_search`, which reads the words from its
stdin and prints a `SearchReport`: importing huggingface_hub would hold up streams, and its requests can't be cancelled.
"""

import asyncio
import resource
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from orchard.core.errors import OrchardError
from orchard.core.events import Failed
from orchard.gateway.caller import environment_without_keys
from orchard.gateway.crash_reason import reap
from orchard.gateway.models import catalogue, hub_cache, hub_info

SIZES_AT_ONCE: Final = 8
_MOST_FOUND = 20
_MOST_SECONDS = 30.0
_MOST_BYTES = 4 * 2**20
_MOST_MEMORY_BYTES = 2 * 2**30  # where the system keeps this limit
_END_SECONDS = 5.0
# What the Hub calls the uses of models.
_USES = {
    "text-generation": "chat",
    "image-text-to-text": "vision",
    "any-to-any": "vision",
    "feature-extraction": "embeddings",
    "sentence-similarity": "embeddings",
    "text-to-speech": "speech",
    "automatic-speech-recognition": "transcription",
    "text-to-image": "images",
}


class _FoundModel(Struct):
    """A model as the Hub describes it. `pipeline_tag`: what the Hub says that it is for."""

    id: str
    pipeline_tag: str | None = None


class HubModel(Struct):
    """A model of the Hub: its id, what it is for, and the bytes that a download of it has (None: unknown)."""

    id: str
    use: str
    size_bytes: int | None = None


class SearchReport(Struct, omit_defaults=True):
    """The models that were found, or why nothing could be found."""

    models: list[HubModel] = []
    failed: Failed | None = None


def search_hub(text: str) -> list[HubModel]:
    """Return the MLX models of the Hub whose ids have the words, the most downloaded first, without their sizes.

    If there are none and the text is a short name, return the model that it stands for. Raise OrchardError if the Hub
    can't be searched.
    """
    found = _find_models(text)
    if not found and (repo := catalogue.find_repo(text)):
        found = _find_models(repo)
    return found


def _find_models(words: str) -> list[HubModel]:
    from huggingface_hub import constants
    from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

    session = get_session()
    hooks = session.event_hooks
    if _refuse_elsewhere not in hooks["request"]:
        session.event_hooks = {**hooks, "request": [*hooks["request"], _refuse_elsewhere]}

    query = {"search": words, "filter": "mlx", "sort": "downloads", "limit": _MOST_FOUND}
    try:
        # HfApi.list_models would try for half a minute if there is no network.
        address, headers = f"{constants.ENDPOINT}/api/models", build_hf_headers()
        with session.stream("GET", address, params=query, headers=headers, timeout=hub_info.WAIT_SECONDS) as response:
            hf_raise_for_status(response)
            answer = bytearray()
            for piece in response.iter_bytes():
                answer += piece
                if len(answer) > _MOST_BYTES:
                    raise ValueError("the answer is too long")
        found = msgspec.json.decode(answer, type=list[_FoundModel])[:_MOST_FOUND]
    except Exception as error:  # which HTTP errors are raised depends on huggingface_hub's version
        message = f"{constants.ENDPOINT} can't be searched: {hub_info.describe_error(error)}"
        raise OrchardError("unavailable", message) from None
    # No other ids can be asked for, or shown: they may have HTML, or move a terminal's cursor.
    ids = (model for model in found if hub_cache.is_repo_id(model.id))
    return [HubModel(model.id, _USES.get(model.pipeline_tag or "", "other")) for model in ids]


def _refuse_elsewhere(request: Any) -> None:
    """Raise OrchardError if a redirect leads to another server, such as one of the local network."""
    from huggingface_hub import constants

    if request.url.netloc.decode() != urlsplit(constants.ENDPOINT).netloc:
        raise OrchardError("unavailable", f"it leads to another server, {request.url.host}")


async def search_hub_in_process(text: str) -> list[HubModel]:
    """Return the models that `search_hub` finds, with their sizes. Raise OrchardError; cancelling ends the search."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", __name__),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=environment_without_keys(),
        start_new_session=True,  # Ctrl-C reaches only the server, which ends the search
    )
    try:
        async with asyncio.timeout(_MOST_SECONDS):
            printed, _ = await process.communicate(text.encode())
        report = msgspec.json.decode(printed, type=SearchReport)
    except TimeoutError:
        raise OrchardError("unavailable", f"the Hub did not answer within {_MOST_SECONDS:.0f} s") from None
    except msgspec.DecodeError:
        raise OrchardError("unavailable", f"the search broke off (exit code {process.returncode})") from None
    finally:
        if process.returncode is None:
            process.kill()
        await reap(process.wait, _END_SECONDS, process.kill)
    if report.failed:
        raise report.failed.error()
    return report.models


def _find_size(model: HubModel) -> HubModel:
    with suppress(OrchardError):  # a model that needs permission is shown without its size
        model.size_bytes = hub_info.needed_bytes(hub_info.read_info(model.id))
    return model


def main() -> None:
    """Print the models that the Hub has for the words on stdin."""
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY_BYTES, _MOST_MEMORY_BYTES))
    try:
        with ThreadPoolExecutor(SIZES_AT_ONCE) as pool:
            report = SearchReport(list(pool.map(_find_size, search_hub(sys.stdin.buffer.read().decode()))))
    except OrchardError as error:
        report = SearchReport(failed=Failed.from_error(error))
    sys.stdout.buffer.write(msgspec.json.encode(report))


if __name__ == "__main__":
    main()
