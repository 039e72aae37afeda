"""Pictures as Chat Completions and Responses take them."""

from msgspec import Struct

from orchard.core.tasks.generate import ImagePart
from orchard.dialects.common.fields import NonEmpty
from orchard.dialects.common.json_body import invalid


class ImageUrl(Struct):
    """Where a picture is: a data: URL, or an http(s) one."""

    url: NonEmpty


def image_part(url: str, param: str) -> ImagePart:
    """Return a picture; raise OrchardError where `param` holds no URL of a kind that can be read."""
    if not url.startswith(("data:", "http://", "https://")):
        raise invalid(param, "must be a data: URL or an http(s) URL.")
    return ImagePart(url)
