"""Searches the Hugging Face Hub for models in MLX's format.

A server searches in a process of its own, `python -m orchard.gateway.models.hub_search`, which reads the words from its
stdin and prints a `SearchReport`: importing huggingface_hub would hold up streams, and its requests can't be cancelled.
"""

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Struct

from orchard.core.errors import OrchardError
from orchard.core.events import Failed
from orchard.gateway.caller import environment_without_keys
from orchard.gateway.crash_reason import reap
from orchard.gateway.models import catalogue, hub_info

SIZES_AT_ONCE: Final = 8
_MOST_FOUND = 20
_MOST_SECONDS = 30.0
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

    Raise OrchardError if the Hub can't be searched.
    """
    from huggingface_hub import constants
    from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

    query = {"search": catalogue.find_repo(text) or text, "filter": "mlx", "sort": "downloads", "limit": _MOST_FOUND}
    try:
        # HfApi.list_models would try for half a minute if there is no network.
        response = get_session().get(f"{constants.ENDPOINT}/api/models", params=query, headers=build_hf_headers())
        hf_raise_for_status(response)
        found = msgspec.json.decode(response.content, type=list[_FoundModel])
    except Exception as error:  # which HTTP errors are raised depends on huggingface_hub's version
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise OrchardError("unavailable", f"{constants.ENDPOINT} can't be searched: {reason}") from None
    return [HubModel(model.id, _USES.get(model.pipeline_tag or "", "other")) for model in found]


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
    try:
        with ThreadPoolExecutor(SIZES_AT_ONCE) as pool:
            report = SearchReport(list(pool.map(_find_size, search_hub(sys.stdin.buffer.read().decode()))))
    except OrchardError as error:
        report = SearchReport(failed=Failed.from_error(error))
    sys.stdout.buffer.write(msgspec.json.encode(report))


if __name__ == "__main__":
    main()
