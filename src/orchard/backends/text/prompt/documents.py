"""Documents as text: the text in PDFs, without images of their pages, and text files."""

import io
import logging
from collections.abc import Iterator

from orchard.backends.helper_process import Answer, HelperLimits, HelperProcess, TooLargeError, TooSlowError
from orchard.core.errors import short_message
from orchard.core.media import MediaPart, media_error

MOST_PAGES = 1000
MOST_CHARACTERS = 8 * 2**20
LIMITS = HelperLimits(cpu_seconds=20.0, seconds=40.0, memory_bytes=2 * 2**30)
"""What reading one PDF may take."""

logging.getLogger("pypdf").setLevel(logging.ERROR)  # it warns about every mistake in a file


class DocumentReader:
    """Reads documents, and PDFs in a process, which the first PDF starts. Only one thread may call `read`."""

    def __init__(self, limits: HelperLimits = LIMITS) -> None:
        self._process = HelperProcess(f"{__name__}:make_answer", limits)

    def read(self, part: MediaPart) -> str:
        """Return a document's name, if it has one, and its text.

        Raise OrchardError("invalid_request") that blames the part if it is broken, too long, locked or without text,
        or if reading it takes too much.
        """
        if b"%PDF-" in part.data[:1024]:
            text = self._pdf_text(part)
        else:
            try:
                text = part.data.decode()
            except UnicodeDecodeError as error:
                raise media_error(part, "it is neither a PDF nor text in UTF-8") from error
            if "\0" in text:
                raise media_error(part, "it is neither a PDF nor text in UTF-8")
        return f"{part.name}:\n{text}" if part.name else text

    def _pdf_text(self, part: MediaPart) -> str:
        try:
            return b"".join(self._process.ask(part.data)).decode()
        except ValueError as error:
            raise media_error(part, str(error)) from error
        except TooSlowError as error:
            seconds = f"{self._process.limits.cpu_seconds:g} seconds"
            raise media_error(part, f"its text could not be read within {seconds}") from error
        except TooLargeError as error:
            raise media_error(part, "it is broken, or reading it takes too much memory") from error

    def close(self) -> None:
        """End the process. Any thread may call this."""
        self._process.close()


def make_answer(_: bytes) -> Answer:
    """Return the function that reads PDFs in the process: it takes a file and yields its text in UTF-8."""
    import pypdf  # noqa: F401 - so that the first PDF doesn't wait for it

    return pdf_text


def pdf_text(data: bytes) -> Iterator[bytes]:
    """Yield a PDF's text in UTF-8. Raise ValueError with the reason if it is broken, too long, locked or has none."""
    pages: list[str] = []
    length = 0
    try:
        for page in _page_texts(data):
            pages.append(page.strip())
            length += len(page)
            if length > MOST_CHARACTERS:
                raise _UnreadableError(f"it has more than {MOST_CHARACTERS:,} characters")
    except (_UnreadableError, MemoryError):
        raise
    except Exception as error:  # pypdf raises many kinds of errors for broken files
        raise ValueError(f"it is broken ({short_message(error)})") from error
    if not any(pages):
        raise _UnreadableError("it has no text, only images; send its pages as images")
    yield "\n\n".join(pages).encode(errors="replace")


class _UnreadableError(ValueError):
    """The reason why a whole PDF is not read."""


def _page_texts(data: bytes) -> Iterator[str]:
    from pypdf import PdfReader

    reader = PdfReader(io.BytesIO(data))
    if reader.is_encrypted and not reader.decrypt(""):
        raise _UnreadableError("it is locked with a password")
    if (count := len(reader.pages)) > MOST_PAGES:
        raise _UnreadableError(f"it has {count:,} pages, and at most {MOST_PAGES:,} are allowed")
    for page in reader.pages:
        yield page.extract_text()
