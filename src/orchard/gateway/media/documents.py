"""Documents of plain text."""

from orchard.core.media import MediaPart
from orchard.core.tasks.generate import TextPart

_PDF = b"%PDF-"
_HEAD_BYTES = 1024  # PDF readers search this much of a file for its header


def document_as_text(part: MediaPart) -> MediaPart | TextPart:
    """Return the text of a UTF-8 document below its name; return every other document unchanged.

    Call it in a thread, because it may take long.
    """
    is_text = part.media_type.startswith("text/") and not part.data.startswith(_PDF)
    if part.media_type == "application/pdf" or (_PDF in part.data[:_HEAD_BYTES] and not is_text):
        return part
    try:
        text = part.data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return part
    if "\0" in text:
        return part
    return TextPart(f"{part.name}:\n{text}" if part.name else text)
