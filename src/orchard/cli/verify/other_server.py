"""Another server to compare speeds with: which of its models, and whether memory holds that model beside Orchard's."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from msgspec import Struct

from orchard.cli.endpoint import ChatClient, ServerError
from orchard.gateway.models.entry import ModelEntry

_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
_BOTH = 2.5
"""Times the weights: two models of the same size, and their KV caches."""
_MOST_NAMES = 10


class OtherServer(Struct, frozen=True):
    """A server and one of its models.

    `name`: what the report calls the model, as `model` may be a folder. `apart`: it is measured after Orchard's server
    has ended.
    """

    url: str
    model: str
    name: str
    apart: bool = False

    @property
    def title(self) -> str:
        """What the report calls it."""
        return f"the other server with {self.name}"


def find_other_server(url: str, model: str | None, entry: ModelEntry, free_bytes: int) -> OtherServer:
    """Return the server at `url` with the named model, else its only one, else the one that is called like `entry`.

    `free_bytes`: the memory that is free on this machine. Raise ServerError if no server answers or none of its models
    is meant. mlx_lm.server lists what was downloaded, and loads whatever is requested: so never just its first one.
    """
    with ChatClient(url) as client:
        if model:
            client.check_reachable()
        else:
            model = _find_model(client.list_models(), entry, client.url)
        needed = _BOTH * entry.options.loaded_bytes(entry.size_bytes, entry.kept_bytes)
        is_here = urlsplit(client.url).hostname in _THIS_MACHINE
        name = _last_name(entry.id if model == entry.folder else model)
        return OtherServer(client.url, model, name, apart=is_here and needed > free_bytes)


def _find_model(ids: Sequence[str], entry: ModelEntry, url: str) -> str:
    if len(ids) == 1:
        return ids[0]
    own = {_last_name(name) for name in (entry.id, *entry.aliases)}
    for listed in ids:
        if listed == entry.folder or _last_name(listed) in own:
            return listed
    names = ", ".join(ids[:_MOST_NAMES]) + (" and more" if len(ids) > _MOST_NAMES else "")
    told = f"lists {names}: none has the name of '{entry.id}'" if ids else "lists no model"
    raise ServerError(f"the server at {url} {told}; name one with --against-model")


def _last_name(model: str) -> str:
    return model.rpartition("/")[2].casefold().removesuffix(":latest")
