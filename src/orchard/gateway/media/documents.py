"""Documents that are nothing but text."""

from orchard.core.media import MediaPart
from orchard.core.tasks.generate import TextPart

_PDF = b"%PDF-"


def as_text(part: MediaPart) -> MediaPart | TextPart:
    """Return the text of a document in UTF-8, below its name; every other document as it is.

    It may take long: call it off the event loop.
    """
    if part.media_type == "application/pdf" or part.data.startswith(_PDF):
        return part
    try:
        text = part.data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return part
    if "\0" in text:
        return part
    return TextPart(f"{part.name}:\n{text}" if part.name else text)
