"""Documents as text: the text in PDFs, without images of their pages, and text files."""

import io
import logging
from collections.abc import Iterator
from functools import partial

from orchard.core.errors import OrchardError, brief
from orchard.core.media import MediaPart, refusal
from orchard.worker.lane import within

MOST_PAGES = 1000
MOST_CHARACTERS = 8 * 2**20
MOST_SECONDS = 20.0

logging.getLogger("pypdf").setLevel(logging.ERROR)  # it warns about every mistake in a file


def document_text(part: MediaPart) -> str:
    """Return a document's name, if it has one, and its text.

    Raise OrchardError("invalid_request") that blames the part if it is broken, too long, locked or without text.
    """
    if b"%PDF-" in part.data[:1024]:
        try:
            text = within(MOST_SECONDS, partial(_pdf_text, part))
        except TimeoutError as error:
            raise refusal(part, f"its text could not be read within {MOST_SECONDS:g} seconds") from error
    else:
        try:
            text = part.data.decode()
        except UnicodeDecodeError as error:
            raise refusal(part, "it is neither a PDF nor text in UTF-8") from error
        if "\0" in text:
            raise refusal(part, "it is neither a PDF nor text in UTF-8")
    return f"{part.name}:\n{text}" if part.name else text


def _pdf_text(part: MediaPart) -> str:
    pages: list[str] = []
    length = 0
    try:
        for page in _pages(part):
            pages.append(page.strip())
            length += len(page)
            if length > MOST_CHARACTERS:
                raise refusal(part, f"it has more than {MOST_CHARACTERS:,} characters")
    except (OrchardError, TimeoutError):
        raise
    except Exception as error:  # pypdf raises many kinds of errors for broken files
        reason = brief(error)
        raise refusal(part, f"it is broken ({reason})") from error
    if not any(pages):
        raise refusal(part, "it has no text, only images; send its pages as images")
    return "\n\n".join(pages)


def _pages(part: MediaPart) -> Iterator[str]:
    from pypdf import PdfReader

    reader = PdfReader(io.BytesIO(part.data))
    if reader.is_encrypted and not reader.decrypt(""):
        raise refusal(part, "it is locked with a password")
    if (count := len(reader.pages)) > MOST_PAGES:
        raise refusal(part, f"it has {count:,} pages, and at most {MOST_PAGES:,} are allowed")
    for page in reader.pages:
        yield page.extract_text()
