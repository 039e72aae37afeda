"""PDFs of few bytes that ask for much: forms that draw each other, streams that grow, trees without end."""

import zlib

from tests.support.documents import pdf_of, stream

_CATALOGUE = "<< /Type /Catalog /Pages 2 0 R >>"
_FONT = "/Font << /F << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >>"
_TEXT = b"BT /F 9 Tf (a) Tj ET "


def hostile_pdfs() -> dict[str, bytes]:
    """All of them; each has a name."""
    return {
        "forms that draw each other": nested_forms(depth=14, width=10, pages=900),
        "a tree of pages in itself": pdf_of([_CATALOGUE, "<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 9 >>"]),
        "a tree of pages without end": _tree(60),
        "many pages of one": _pages(_TEXT, 100_000),
        "a long content on every page": _pages(_TEXT * 200_000, 900),
        "a stream that grows": _flate(_TEXT * 4_000_000, 1),
        "a stream that grows twice": _flate(b" " * 100_000_000, 2),
        "many objects": pdf_of([_CATALOGUE, _kids(1, 3), _page_object(_FONT), stream(_TEXT), *["0"] * 200_000]),
        "a circle of references": pdf_of([_CATALOGUE, "3 0 R", "4 0 R", "2 0 R"]),
        "a length that is its own stream": _page("<< /Length 4 0 R >>\nstream\nBT /F 9 Tf (a) Tj ET\nendstream"),
        "a content in itself": _page("[4 0 R 4 0 R 4 0 R]"),
        "deep arrays": _page("[" * 500_000 + "]" * 500_000),
        "a font of all characters": _font(stream(_unicode_map(), "")),
        "a font with a wide range": _font(stream(b"1 beginbfrange\n<00000000> <7fffffff> <0041>\nendbfrange", "")),
        "a font with many widths": _font("null", "/W [0 2000000000 500] /DW 1"),
        "objects in a stream without end": _object_stream(),
    }


def nested_forms(depth: int, width: int, pages: int = 1) -> bytes:
    """Make pages that draw a form, which draws the next one so many times, and so on."""
    objects: list[str | bytes] = [_CATALOGUE, _kids(pages, 3), _page_object("/XObject << /X 5 0 R >>")]
    objects.append(stream(b"/X Do"))
    for number in range(depth):
        form = f"/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X {6 + number} 0 R >> >>"
        objects.append(stream(b"/X Do " * width, form))
    form = "/Type /XObject /Subtype /Form /BBox [0 0 9 9]"
    return pdf_of([*objects, stream(_TEXT, f"{form} /Resources << {_FONT} >>")])


def _kids(count: int, page: int) -> str:
    return f"<< /Type /Pages /Kids [{f'{page} 0 R ' * count}] /Count {count} >>"


def _page_object(resources: str) -> str:
    return f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R /Resources << {resources} >> >>"


def _page(content: str | bytes, *more: str | bytes, resources: str = _FONT, pages: int = 1) -> bytes:
    return pdf_of([_CATALOGUE, _kids(pages, 3), _page_object(resources), content, *more])


def _pages(content: bytes, count: int) -> bytes:
    return _page(stream(zlib.compress(content), "/Filter /FlateDecode"), pages=count)


def _tree(depth: int) -> bytes:
    """Make a tree in which each node has the next one twice."""
    nodes = [f"<< /Type /Pages /Kids [{number} 0 R {number} 0 R] /Count 2 >>" for number in range(3, depth + 3)]
    return pdf_of([_CATALOGUE, *nodes, "<< /Type /Page /MediaBox [0 0 9 9] >>"])


def _flate(content: bytes, times: int) -> bytes:
    for _ in range(times):
        content = zlib.compress(content, 9)
    return _page(stream(content, f"/Filter [{'/FlateDecode ' * times}]"))


def _font(unicode_map: str | bytes, widths: str = "") -> bytes:
    inner = f"<< /Type /Font /Subtype /CIDFontType2 /BaseFont /A {widths} >>"
    font = f"<< /Type /Font /Subtype /Type0 /BaseFont /A /Encoding /Identity-H /DescendantFonts [{inner}]"
    text = stream(b"BT /F 9 Tf <00410042> Tj ET")
    return _page(text, unicode_map, resources=f"/Font << /F {font} /ToUnicode 5 0 R >> >>")


def _unicode_map() -> bytes:
    ranges = b"".join(b"<%04x> <%04x> <%04x>\n" % (first, first + 255, first) for first in range(0, 65_280, 256))
    return (b"255 beginbfrange\n" + ranges + b"endbfrange\n") * 300


def _object_stream() -> bytes:
    inner = stream(b"2 0 3 9 << /Kids [] >>", "/Type /ObjStm /N 2000000000 /First 8")
    return _page(stream(_TEXT), inner)
