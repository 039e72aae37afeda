"""PDFs of a few thousand bytes, made at random, whose objects refer to each other in every direction."""

import base64
import random
import zlib
from collections.abc import Callable

from pypdf._codecs._codecs import LzwCodec

from tests.support.documents import pdf_of, stream

_FONT = "/Font << /F << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >>"
_TEXT = b"BT /F 9 Tf (a) Tj ET "
_FILTERS: dict[str, Callable[[bytes], bytes]] = {
    "/FlateDecode": lambda data: zlib.compress(data, 9),
    "/LZWDecode": lambda data: LzwCodec().encode(data),
    "/ASCII85Decode": lambda data: base64.a85encode(data) + b"~>",
    "/ASCIIHexDecode": lambda data: data.hex().encode() + b">",
    "/RunLengthDecode": lambda data: b"".join(bytes([0, one]) for one in data) + b"\x80",
}


def random_pdf(number: int) -> bytes:
    """Make the one with this number; the kinds take turns."""
    return _KINDS[number % len(_KINDS)](random.Random(number))


def _catalogue(more: str = "") -> str:
    return f"<< /Type /Catalog /Pages 2 0 R {more} >>"


def _pages(count: int) -> str:
    return f"<< /Type /Pages /Kids [{'3 0 R ' * count}] /Count {count} >>"


def _page(content: str = "4 0 R", resources: str = _FONT, more: str = "") -> str:
    entries = f"/Parent 2 0 R /MediaBox [0 0 9 9] /Contents {content} /Resources << {resources} >>"
    return f"<< /Type /Page {entries} {more} >>"


def _reference(rng: random.Random, first: int, last: int) -> str:
    return f"{rng.randint(first, last)} 0 R"


def _forms(rng: random.Random) -> bytes:
    """Forms that draw others, themselves among them or only later ones, many times."""
    count, is_tree = rng.randint(2, 20), rng.random() < 0.6
    objects: list[str | bytes] = [_catalogue(), _pages(rng.choice([1, 9, 900])), "", stream(b"/X0 Do " * 3)]
    objects[2] = _page(resources="/XObject << /X0 5 0 R >>")
    for number in range(count):
        least, last = (number + 6 if is_tree else 5), count + 5
        drawn = [_reference(rng, min(least, last), last) for _ in range(rng.randint(1, 4))]
        names = " ".join(f"/X{place} {one}" for place, one in enumerate(drawn))
        entries = f"/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << {names} >> {_FONT} >>"
        content = b"".join(b"/X%d Do " % rng.randrange(len(drawn)) for _ in range(rng.randint(1, 12)))
        objects.append(stream(content + rng.choice([b"", _TEXT]), entries))
    objects.append(stream(_TEXT, f"/Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << {_FONT} >>"))
    return pdf_of(objects)


def _trees(rng: random.Random) -> bytes:
    """Trees of pages, of outlines and of names, whose nodes have each other as children and parents."""
    first, last = 5, rng.randint(6, 60)
    more = f"/Outlines {_reference(rng, first, last)} /Names << /Dests {_reference(rng, first, last)} >>"
    more += f" /AcroForm << /Fields [{_reference(rng, first, last)}] >> /StructTreeRoot {_reference(rng, first, last)}"
    objects: list[str | bytes] = [_catalogue(more)]
    objects.append(f"<< /Type /Pages /Kids [{_reference(rng, 3, last)} {_reference(rng, 3, last)}] /Count 2 >>")
    objects += [_page(), stream(_TEXT)]
    for number in range(first, last + 1):
        above = number + 1 if rng.random() < 0.7 else first
        kids = " ".join(_reference(rng, min(above, last), last) for _ in range(rng.randint(1, 4)))
        entries = [f"/Kids [{kids}]", f"/Parent {_reference(rng, 2, last)}", f"/Count {rng.choice([-1, 3, 2**31])}"]
        entries += [f"/{name} {_reference(rng, 2, last)}" for name in ("First", "Last", "Next", "Prev", "K")]
        kind = rng.choice(["/Type /Pages", "/Type /Page", "/Type /Outlines", "/Title (a)", "/Names [(a) 3 0 R]"])
        objects.append(f"<< {kind} {' '.join(rng.sample(entries, rng.randint(1, len(entries))))} >>")
    return pdf_of(objects)


def _nested(rng: random.Random) -> bytes:
    """Arrays, dictionaries and strings in each other, closed or not, in a page or among its operators."""
    depth = rng.choice([100, 1000, 50_000])
    pairs = [("[", "]"), ("<< /A ", " >>"), ("(", ")"), ("[ << /A ", " >> ]"), ("q ", "Q "), ("BT ", "")]
    begin, end = rng.choice(pairs)
    deep = begin * depth + rng.choice([end * depth, "", end])
    if rng.random() < 0.5:
        return pdf_of([_catalogue(), _pages(1), _page(more=f"/A {deep}"), stream(_TEXT)])
    operator = rng.choice([b" TJ", b" Tj", b" cm", b" BI /W 9 ID ", b" /F 9 Tf", b" Do"])
    return pdf_of([_catalogue(), _pages(1), _page(), stream(_TEXT + deep.encode() + operator)])


def _filters(rng: random.Random) -> bytes:
    """A content that its filters make many times longer; some have a predictor with columns without end."""
    data = rng.choice([_TEXT, b" ", b"0 ", b"/X Do "]) * rng.choice([1, 1000, 1_000_000])
    names = rng.choices(list(_FILTERS), k=rng.randint(1, 12))
    done = []
    for name in names:
        if len(data) > 2**15:  # the others would take long, or make it longer
            data = _FILTERS["/FlateDecode"](data)
            done.append("/FlateDecode")
        data = _FILTERS[name](data)
        done.append(name)
    columns = rng.choice([0, 0, 1, 2**31 - 1])
    parameters = f"/DecodeParms << /Predictor {rng.choice([2, 12, 15])} /Columns {columns} >>" if columns else ""
    content = stream(data, f"/Filter [{' '.join(reversed(done))}] {parameters}")
    return pdf_of([_catalogue(), _pages(rng.choice([1, 900])), _page(f"[{'4 0 R ' * rng.choice([1, 300])}]"), content])


def _object_streams(rng: random.Random) -> bytes:
    """Streams of objects that are in each other, or that extend each other, found by a table that says so."""
    count = rng.randint(2, 12)
    last = count + 4
    inner = ["<< /Type /Catalog /Pages 2 0 R >>", _pages(rng.choice([1, 900])), _page(), _reference(rng, 1, last)]
    written, places = b"%PDF-1.5\n", {}
    for number in range(5, last + 1):
        offsets, text = [], ""
        for place, own in enumerate(inner, 1):
            offsets.append(f"{place} {len(text)}")
            text += f"{own} "
        head = " ".join(offsets) + " "
        more = f"/Type /ObjStm /N {rng.choice([4, 4, 10**9])} /First {len(head)} /Extends {_reference(rng, 5, last)}"
        if rng.random() < 0.2:
            more += f" /Length {_reference(rng, 1, last)}"
        places[number] = len(written)
        written += b"%d 0 obj\n%s\nendobj\n" % (number, stream((head + text).encode(), more))
    table = b"\0" * 7
    for number in range(1, last + 1):
        in_stream = number < 5 or rng.random() < 0.5  # a stream in a stream
        fields = (2, rng.randint(5, last), rng.randrange(4)) if in_stream else (1, places[number], 0)
        table += bytes([fields[0]]) + fields[1].to_bytes(4, "big") + fields[2].to_bytes(2, "big")
    previous = f"/Prev {len(written)}" if rng.random() < 0.3 else ""
    entries = f"/Type /XRef /W [1 4 2] /Size {rng.choice([last + 1, 10**9])} /Root 1 0 R {previous}"
    found = len(written)
    written += b"%d 0 obj\n%s\nendobj\n" % (last + 1, stream(table, entries))
    return written + b"startxref\n%d\n%%%%EOF\n" % found


def _damaged(rng: random.Random) -> bytes:
    """Another one of them, with bytes replaced, left out or repeated."""
    data = bytearray(rng.choice(_KINDS[:-1])(rng))
    for _ in range(rng.randint(1, 40)):
        at, size = rng.randrange(len(data)), rng.randint(1, 30)
        other = rng.randrange(len(data))
        data[at : at + rng.choice([0, size])] = rng.choice([b"", data[other : other + size], rng.randbytes(size)])
    return b"%PDF-1.4\n" + bytes(data)


_KINDS: list[Callable[[random.Random], bytes]] = [_forms, _trees, _nested, _filters, _object_streams, _damaged]
