"""`orchard pull`."""

import signal

from rich.console import Console
from rich.filesize import decimal

from orchard.core.errors import OrchardError
from orchard.gateway.download import pull as download
from orchard.gateway.download import stop_on
from orchard.gateway.registry import BUILT_IN_ALIASES, DEMO
from orchard.gateway.registry_files import Folders


def pull(repo: str, revision: str | None = None) -> None:
    """Download a model, by its id or a built-in alias, and say what it is. Raises OrchardError with what went wrong."""
    if repo == DEMO:
        print(f"{DEMO} is bundled with Orchard: there is nothing to download")
        return
    repo = BUILT_IN_ALIASES.get(repo, repo)
    stop_on(signal.SIGINT, repo, "\norchard: stopped; the next 'orchard pull' goes on with the files that are missing")
    folder = download(repo, revision)
    try:
        files = Folders().read(folder)
    except ValueError as error:
        raise OrchardError("model_failed", f"{repo} is in {folder}, but can't be served: {error}") from None
    said = f"{repo} is here: {files.kind}, {decimal(files.size_bytes)} in {folder}"
    Console().print(said, soft_wrap=True, markup=False, highlight=False)
