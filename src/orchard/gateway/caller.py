"""Callers: the API key of a request identifies its user."""

import hashlib
import hmac
import os
from collections import OrderedDict
from collections.abc import Iterable, Sequence

from msgspec import Struct

_MOST_REMEMBERED = 8192
_KEY_VARIABLES = ("ORCHARD_API_KEY", "ORCHARD_ADMIN_KEY")


class Caller(Struct, frozen=True):
    """Who makes a request.

    `user` owns what the request stores: a digest of its key; None if the server has no keys. `admin`: it sees what
    every key has made. `known`: it has a valid key, or the server needs none.
    """

    user: str | None = None
    admin: bool = False
    known: bool = True

    def sees(self, user: str | None) -> bool:
        """Return whether it may see what that user has made."""
        return self.admin or self.user == user


ANYONE = Caller()
"""Everybody, if the server needs no key."""
STRANGER = Caller(known=False)
"""A caller without a key, or with a wrong one, if the server needs one."""


class Callers:
    """The keys of one server, and the callers of its last requests."""

    def __init__(self, api_keys: Sequence[str] = (), admin_keys: Sequence[str] = ()) -> None:
        keys = dict.fromkeys((*admin_keys, *api_keys))
        # What a key makes is stored under a digest of it; the key itself never is.
        users = {key: hashlib.sha256(b"orchard user\0" + key.encode()).hexdigest() for key in keys}
        self._known = [(_digest(key.encode()), Caller(users[key], key in admin_keys)) for key in keys]
        self._requests: OrderedDict[str, str | None] = OrderedDict()

    def identify(self, keys: Iterable[bytes]) -> Caller:
        """Return whose keys these are; STRANGER if they are nobody's.

        Every key is compared with every known one, so the time reveals nothing about any of them.
        """
        if not self._known:
            return ANYONE
        digests = [_digest(key) for key in keys]
        found = [caller for known, caller in self._known for one in digests if hmac.compare_digest(one, known)]
        return found[0] if found else STRANGER

    def remember(self, request_id: str, caller: Caller) -> None:
        """Remember who made a request, for as long as it is among the last few thousand."""
        if self._known:
            self._requests[request_id] = caller.user
        if len(self._requests) > _MOST_REMEMBERED:
            self._requests.popitem(last=False)

    def made(self, caller: Caller, request_id: str) -> bool:
        """Return whether the caller may see what is known of a request, or of one that was made on its behalf."""
        own_id = request_id.partition("-")[0]
        return caller.sees(self._requests.get(own_id, "") if self._known else None)


def environment_without_keys() -> dict[str, str]:
    """Return this process's environment for a child that has no use for the keys."""
    return {name: value for name, value in os.environ.items() if not name.startswith(_KEY_VARIABLES)}


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
