"""Images that answers give as URLs. They stay in memory for an hour. Only a client with the URL can get one."""

import asyncio
import secrets

from msgspec import Struct

from orchard.core.errors import OrchardError

SECONDS = 3600.0
MOST_BYTES = 256 * 2**20
_RANDOM_BYTES = 16


class KeptImage(Struct, frozen=True):
    """A file, and its content type."""

    data: bytes
    media_type: str


class KeptImages:
    """The images of one server, oldest first. The oldest ones are dropped when all take more than MOST_BYTES."""

    def __init__(self) -> None:
        self._images: dict[str, KeptImage] = {}
        self._bytes = 0

    def keep(self, data: bytes, image_format: str) -> str:
        """Keep an image of a format such as `png`, and return its name, which can't be guessed."""
        name = f"{secrets.token_urlsafe(_RANDOM_BYTES)}.{image_format}"
        self._images[name] = KeptImage(data, f"image/{image_format}")
        self._bytes += len(data)
        while self._bytes > MOST_BYTES:
            self._drop(next(iter(self._images)))
        asyncio.get_running_loop().call_later(SECONDS, self._drop, name)
        return name

    def find(self, name: str) -> KeptImage:
        """Return an image. Raise OrchardError("not_found")."""
        if image := self._images.get(name):
            return image
        message = f"there is no such image, or no longer: images are kept for {SECONDS / 60:.0f} minutes at most"
        raise OrchardError("not_found", message)

    def _drop(self, name: str) -> None:
        if image := self._images.pop(name, None):
            self._bytes -= len(image.data)
