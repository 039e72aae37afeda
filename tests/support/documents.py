"""PDF files, made by hand."""

from collections.abc import Sequence


def pdf(*pages: str) -> bytes:
    """A document with a line of text, in ASCII without parentheses, on each page; "": an empty page."""
    kids = " ".join(f"{3 + 2 * number} 0 R" for number in range(len(pages)))
    objects: list[str | bytes] = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
    ]
    font = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"
    for number, text in enumerate(pages):
        drawn = f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET" if text else ""
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {4 + 2 * number} 0 R "
            f"/Resources << /Font << /F1 {font} >> >> >>",
            f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream",
        ]
    return pdf_of(objects)


def stream(content: bytes, entries: str = "") -> bytes:
    """An object with a stream, and these entries in its dictionary."""
    return f"<< /Length {len(content)} {entries} >>\nstream\n".encode() + content + b"\nendstream"


def pdf_of(objects: Sequence[str | bytes]) -> bytes:
    """A document with these objects, numbered from 1; the first is the catalogue."""
    written = [b"%PDF-1.4\n"]
    places = []
    size = len(written[0])
    for number, content in enumerate(objects, 1):
        places.append(size)
        written.append(b"%d 0 obj\n%s\nendobj\n" % (number, content.encode() if isinstance(content, str) else content))
        size += len(written[-1])
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    trailer = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{size}\n%%EOF\n"
    written.append(f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}{trailer}".encode())
    return b"".join(written)
