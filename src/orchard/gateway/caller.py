"""Callers: the API key of a request identifies its user, and whose cached prompts it may use."""

import hashlib
import hmac
import os
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from orchard.config import PromptCacheSharing
from orchard.core.errors import OrchardError
from orchard.core.request import Request, Sender

_MOST_REMEMBERED = 8192
_KEY_VARIABLES = ("ORCHARD_API_KEY", "ORCHARD_ADMIN_KEY")


class Caller(Struct, frozen=True):
    """Who makes a request.

    `user`, a digest of the API key, owns what the request stores; None: the request has no valid key. `admin`: it sees
    what all users have made. `known`: it has a valid key, or the server needs none. `manages`: it may decide which
    models are in memory, and for how long. `cache_scope`: see `Request`. `host` and `port` are the client's end of the
    connection.
    """

    user: str | None = None
    admin: bool = False
    known: bool = True
    manages: bool = True
    cache_scope: str = ""
    host: str = ""
    port: int = 0

    @property
    def name(self) -> str:
        """What tells it from others that share the server: the digest of its key, or its address."""
        return self.user or self.host

    def with_address(self, client: tuple[str, int] | None) -> "Caller":
        """Return the caller at the client's end of a connection."""
        return replace(self, host=client[0], port=client[1]) if client else self

    def sign(self, request: Request) -> Request:
        """Return a request with its sender and the scope of what it caches.

        Raise OrchardError("forbidden") if it sets the ttl of its model and the caller may not.
        """
        if request.ttl is not None:
            self.check_manages("`ttl`, which says how long the model stays in memory,", "ttl")
        scope = self.cache_scope
        if request.cache_salt is not None:
            scope = _hex_digest("orchard cache", scope, request.cache_salt)
        sender = Sender(self.name, f"{self.host}:{self.port}", request.task.conversation)
        return replace(request, sender=sender, cache_scope=scope)

    def can_see(self, user: str | None) -> bool:
        """Return whether the caller may see what a user has made."""
        return self.admin or self.user == user

    def may_cancel(self, sender: Sender) -> bool:
        """Return whether the caller may see and cancel a request: its own, and any one without keys or as admin."""
        return self.admin or self.user is None or sender.caller == self.name

    def check_sees_server(self, what: str) -> None:
        """Raise OrchardError("forbidden") if the caller may not see `what`, which is about the server as a whole."""
        if not self.admin and self.user is not None:
            message = f"{what} take an admin key: send one that the server was started with (--admin-key)"
            raise OrchardError("forbidden", message)

    def check_manages(self, what: str, param: str | None = None) -> None:
        """Raise OrchardError("forbidden") if the caller may not do `what`, which manages the models in memory."""
        if not self.manages:
            message = f"{what} takes an admin key: send one that the server was started with (--admin-key), or start it"
            raise OrchardError("forbidden", f"{message} with --keys-may-manage-models", param=param)


ANYONE = Caller()
"""Every caller, if the server needs no key."""
STRANGER = Caller(known=False, manages=False)
"""A caller without a key, or with a wrong one, if the server needs one."""


class Callers:
    """The keys of one server, and the callers of its latest requests."""

    def __init__(
        self,
        api_keys: Sequence[str] = (),
        admin_keys: Sequence[str] = (),
        cache_sharing: PromptCacheSharing = "keys",
        *,
        all_manage: bool = False,
    ) -> None:
        """`all_manage`: every key may manage the models in memory, not only the admin keys."""
        keys = dict.fromkeys((*admin_keys, *api_keys))
        # What a caller makes is stored under a digest of its key, never under the key itself.
        users = {key: _hex_digest("orchard user", key) for key in keys}
        scopes = users if cache_sharing == "keys" else {}
        if isinstance(cache_sharing, Mapping):
            groups = {key: _hex_digest("orchard group", name) for name, own in cache_sharing.items() for key in own}
            scopes = users | groups
        admins = frozenset(admin_keys)
        self._known = [
            (
                _digest(key.encode()),
                Caller(users[key], key in admins, True, all_manage or key in admins, scopes.get(key, "")),
            )
            for key in keys
        ]
        self._requests: OrderedDict[str, str | None] = OrderedDict()

    def identify(self, keys: Iterable[bytes]) -> Caller:
        """Return the caller with these keys; STRANGER if none is valid.

        Compare every key with every known one, so that the time reveals nothing about a key.
        """
        if not self._known:
            return ANYONE
        digests = [_digest(key) for key in keys]
        found = [caller for known, caller in self._known for one in digests if hmac.compare_digest(one, known)]
        return found[0] if found else STRANGER

    def remember(self, request_id: str, caller: Caller) -> None:
        """Remember who made a request, until a few thousand others have followed."""
        if self._known:
            self._requests[request_id] = caller.user
        if len(self._requests) > _MOST_REMEMBERED:
            self._requests.popitem(last=False)

    def can_see_request(self, caller: Caller, request_id: str) -> bool:
        """Return whether the caller may see a report on a request, or on one that was made on its behalf."""
        own_id = request_id.partition("-")[0]
        return caller.can_see(self._requests.get(own_id, "") if self._known else None)


def environment_without_keys() -> dict[str, str]:
    """Return this process's environment variables without the API keys, for a child process."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_KEY_VARIABLES)}


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()


def _hex_digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()
