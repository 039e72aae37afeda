import io
import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pypdf import PdfReader, PdfWriter

from orchard.backends.text.prompt import documents
from orchard.backends.text.prompt.documents import LIMITS, DocumentReader, pdf_text
from orchard.core.errors import OrchardError
from orchard.core.media import MediaPart
from tests.support.documents import pdf
from tests.support.examples import examples

PARAM = "messages[0].content[0].file.file_data"
READER = DocumentReader()


@pytest.fixture(scope="module", autouse=True)
def _reader() -> Iterator[None]:
    yield
    READER.close()


def part(data: bytes, name: str = "") -> MediaPart:
    return MediaPart("document", "", PARAM, data=data, name=name)


def refused(data: bytes) -> str:
    with pytest.raises(OrchardError, match="can't be read: ") as caught:
        READER.read(part(data))
    assert (caught.value.kind, caught.value.param) == ("invalid_request", PARAM)
    return caught.value.message


def locked(password: str) -> bytes:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf("Secret."))))
    writer.encrypt(password, "owner", algorithm="RC4-128")
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()


def test_a_pdf_is_its_pages_text() -> None:
    assert READER.read(part(pdf("The sea is blue.", "So is the sky."))) == "The sea is blue.\n\nSo is the sky."
    assert READER.read(part(b"\r\n" + pdf("The sea is blue."), "sea.pdf")) == "sea.pdf:\nThe sea is blue."


def test_a_text_is_itself() -> None:
    assert READER.read(part("Über das Meer".encode())) == "Über das Meer"
    assert READER.read(part(b"a,b\n1,2\n", "table.csv")) == "table.csv:\na,b\n1,2\n"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\xff\xd8\xff\xe0", "it is neither a PDF nor text in UTF-8"),
        (b"PK\0\0", "it is neither a PDF nor text in UTF-8"),
        (b"%PDF-1.4", "it is broken"),
        (pdf("")[:200], "it is broken"),
        (pdf("", ""), "it has no text, only images"),
        (locked("open sesame"), "it is locked with a password"),
    ],
)
def test_what_is_refused(data: bytes, words: str) -> None:
    assert words in refused(data)


def test_a_document_that_anybody_may_read_is_not_locked() -> None:
    assert READER.read(part(locked(""))) == "Secret."


def test_a_document_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MOST_PAGES", 2)
    with pytest.raises(ValueError, match="it has 3 pages, and at most 2 are allowed"):
        list(pdf_text(pdf("a", "b", "c")))
    monkeypatch.setattr(documents, "MOST_CHARACTERS", 10)
    assert list(pdf_text(pdf("12345", "12345"))) == [b"12345\n\n12345"]
    with pytest.raises(ValueError, match="more than 10 characters"):
        list(pdf_text(pdf("12345", "123456")))


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"cpu_seconds": 0.01}, "its text could not be read within 0.01 seconds"),
        ({"seconds": 0.0}, "its text could not be read within 20 seconds"),
        ({"memory_bytes": 2**20}, "it is broken, or reading it takes too much memory"),
    ],
)
def test_a_document_that_takes_too_much_is_given_up(limits: dict[str, float], words: str) -> None:
    reader = DocumentReader(LIMITS._replace(**limits))  # type: ignore[arg-type]
    with pytest.raises(OrchardError, match=words) as refusal:
        reader.read(part(pdf(*["word " * 100] * 200)))
    assert (refusal.value.kind, refusal.value.param) == ("invalid_request", PARAM)
    reader.close()


def test_the_process_needs_no_mlx() -> None:
    code = "import orchard.backends.text.prompt.documents, sys; sys.exit('mlx' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@examples(300, deadline=None)
@given(st.data())
def test_broken_documents_are_refused_or_read(data: st.DataObject) -> None:
    whole = bytearray(pdf("The sea is blue.", "So is the sky."))
    for _ in range(data.draw(st.integers(1, 8))):
        place = data.draw(st.integers(0, len(whole) - 1))
        whole[place] = data.draw(st.integers(0, 255))
    try:
        list(pdf_text(bytes(whole[: data.draw(st.integers(10, len(whole)))])))
    except ValueError as error:
        assert str(error).startswith("it ")  # noqa: PT017 - it may also be read
