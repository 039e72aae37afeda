"""Forms with files (multipart/form-data) as no well-behaved client sends them, for tests of what reads them."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from hypothesis import strategies as st

_BOUNDARY = b"b0undary"
_KIND = f"multipart/form-data; boundary={_BOUNDARY.decode()}"


class FormKind(NamedTuple):
    """What may be in a form: the values of its fields, those it usually has, and the heads of its files.

    The first value of a field is a good one, and mostly drawn, so that many forms come as far as the model. The first
    `usual_files` heads are those of a good form.
    """

    values: dict[str, list[str]]
    usual: dict[str, bytes]
    file_heads: tuple[str, ...]
    usual_files: int


_RECORDING_VALUES: dict[str, list[str]] = {
    "model": ["ears", "ears", "ears", "", "nobody", "fake", "x" * 2000, "\0", "../../etc", "\u202e"],
    "language": ["en", "English", "", "de", "klingon", "x" * 65, "\0"],
    "prompt": ["Hello", "", "<|endoftext|><|0.00|>", "x" * 65_537, "\ud7ff\0", "\r\n--b0undary--\r\n"],
    "response_format": ["json", "text", "srt", "vtt", "verbose_json", "diarized_json", "JSON", "json\0"],
    "temperature": ["0.01", "1", "1.5", "-1", "NaN", "1e999", "hot", "0x1", "[]", "9" * 5000],
    "timestamp_granularities[]": ["segment", "word", "letter", ""],
    "timestamp_granularities": ["segment", '["word"]'],
    "stream": ["false", "true", "1", "yes", "null"],
    "chunking_strategy": ["auto", '{"type": "server_vad"}', '{"type": "semantic"}', "{", "{}", '{"a":' * 5000, "vad"],
    "chunking_strategy[type]": ["server_vad", "semantic"],
    "chunking_strategy[threshold]": ["0.5", "2", "NaN", "x"],
    "chunking_strategy[prefix_padding_ms]": ["300", "-1", "1e9", "9" * 400],
    "adapters": ["", "poet"],
    "include[]": ["", "logprobs"],
    "ttl": ["600", "0", "-1", "x", "1e400"],
    "unknown": ["x", "\0"],
    "file": ["not a file"],
    "model[x]": ["ears"],
    "": ["x"],
}
_PICTURE_VALUES: dict[str, list[str]] = {
    "model": ["filler", "filler", "filler", "", "nobody", "fake", "painter", "x" * 2000, "\0", "../../etc"],
    "prompt": ["a cat", "", " \n", "{}", "x" * 32_001, "\ud7ff\0", "\r\n--b0undary--\r\n"],
    "n": ["2", "0", "11", "1.5", "1.0", "-1", "NaN", "9" * 5000, "[]", "two"],
    "size": ["96x64", "auto", "", "31x31", "64x65", "99999x99999", "0x0", "64x32x3", "-64x32", "²x2", "x" * 33],
    "response_format": ["b64_json", "url", "B64_JSON"],
    "output_format": ["webp", "jpeg", "png", "gif"],
    "output_compression": ["100", "0", "101", "-1", "1e2", "x"],
    "background": ["opaque", "auto", "transparent"],
    "stream": ["true", "false", "1", "yes", "null"],
    "partial_images": ["2", "4", "-1", "x"],
    "seed": ["7", "-1", "4294967296", "1e999", "0x1"],
    "steps": ["3", "0", "201", "2.0", "9" * 400],
    "guidance": ["4", "0", "101", "NaN", "Infinity"],
    "guidance_scale": ["4", "101"],
    "negative_prompt": ["", "dogs"],
    "quality": ["high", "x" * 2000],
    "input_fidelity": ["low"],
    "user": ["u", "\0"],
    "adapters": ["", "poet"],
    "ttl": ["600", "0", "-1", "1e400"],
    "image": ["not a file"],
    "mask": ["not a file", ""],
    "image[]": ["not a file"],
    "model[x]": ["filler"],
    "": ["x"],
}
_HEADS = (
    'content-disposition: form-data; name="{name}"',
    "Content-Disposition: form-data; name={name}",
    "content-disposition: form-data",
    "content-disposition: attachment; name=\"{name}\"; filename*=UTF-8''%ff",
    'content-disposition: form-data; name="{name}"\r\ncontent-disposition: form-data; name="model"',
    'content-disposition form-data; name="{name}"',
    'content-type: text/plain\r\nx: {long}\r\ncontent-disposition: form-data; name="{name}"',
    'content-disposition: form-data; name="{name}\r\n ',
    "",
)
_RECORDING_HEADS = (
    'content-disposition: form-data; name="file"; filename="a.wav"',
    'content-disposition: form-data; name="file"; filename="a.wav"\r\ncontent-type: audio/wav',
    'content-disposition: form-data; name="file"; filename="../../a\0.mp3"\r\ncontent-type: image/png',
    'content-disposition: form-data; name="file"; filename=""',
    'content-disposition: form-data; name="file"; filename="a.wav"\r\ncontent-transfer-encoding: base64',
    'content-disposition: form-data; name="audio"; filename="a.wav"',
    'content-disposition: form-data; name="file"',
)
_PICTURE_HEADS = (
    'content-disposition: form-data; name="image"; filename="a.png"',
    'content-disposition: form-data; name="mask"; filename="m.png"\r\ncontent-type: image/png',
    'content-disposition: form-data; name="image[]"; filename="a.jpg"\r\ncontent-type: text/plain',
    'content-disposition: form-data; name="image"; filename="../../a\0.webp"',
    'content-disposition: form-data; name="image"; filename=""',
    'content-disposition: form-data; name="mask"',
    'content-disposition: form-data; name="image[0]"; filename="a.png"',
    'content-disposition: form-data; name="file"; filename="a.png"',
)
RECORDING = FormKind(_RECORDING_VALUES, {"model": b"ears", "temperature": b"0.01"}, _RECORDING_HEADS, 1)
PICTURES = FormKind(_PICTURE_VALUES, {"model": b"filler", "prompt": b"a cat", "steps": b"2"}, _PICTURE_HEADS, 2)
_KINDS = (
    'multipart/form-data; boundary="b0undary"',
    "Multipart/Form-Data; charset=utf-8; boundary=b0undary",
    "multipart/form-data; boundary=other",
    "multipart/form-data; boundary=",
    'multipart/form-data; boundary="',
    "multipart/form-data; boundary=" + "b" * 71,
    "multipart/form-data; boundary=b\xfc",
    "multipart/form-data",
    "multipart/mixed; boundary=b0undary",
    "application/json",
    "application/x-www-form-urlencoded",
    "audio/wav",
    "",
)
_DAMAGE: dict[str, Callable[[bytes, int], bytes]] = {
    "cut": lambda body, at: body[:at],
    "begun late": lambda body, at: body[at:],
    "a byte changed": lambda body, at: (
        body[:at] + bytes([(body[at] + 1 + at) % 256]) + body[at + 1 :] if body else body
    ),
    "a byte missing": lambda body, at: body[:at] + body[at + 1 :],
    "something inserted": lambda body, at: body[:at] + b"\r\n--b0undary\r\n" + body[at:],
    "other line ends": lambda body, at: body.replace(b"\r\n", b"\n"),
    "twice": lambda body, at: body + body,
    "more after its end": lambda body, at: body + b"\r\n" * (at % 5) + b"epilogue",
    "something before it": lambda body, at: b"preamble\r\n" + body,
    "no end": lambda body, at: body.removesuffix(b"--\r\n"),
}


class SentForm(NamedTuple):
    """The content type and the body of a request, in the pieces in which it is sent."""

    kind: str
    pieces: list[bytes]

    def __repr__(self) -> str:
        """Show enough of it; Hypothesis doesn't like long texts."""
        return f"SentForm({self.kind!r}, {len(self.pieces)} pieces: {b''.join(self.pieces)[:2000]!r})"


@st.composite
def forms(draw: st.DrawFn, files: Sequence[bytes], kind: FormKind = RECORDING) -> SentForm:
    """Draw a form: its files are among these, often damaged, and so are its fields and what holds it together."""
    parts = [_part(_head(name), value) for name, value in kind.usual.items() if draw(_mostly(True, False))]
    for name in draw(st.lists(st.sampled_from(list(kind.values)), max_size=4)):
        head = draw(_mostly(*_HEADS)).format(name=name, long="x" * 100_000)
        values = kind.values[name]
        parts.append(_part(head.encode(), (draw(_mostly(*values)) if len(values) > 1 else values[0]).encode()))
    for number in range(draw(_mostly(kind.usual_files, 0, kind.usual_files + 1))):
        file = draw(st.sampled_from(list(files)))
        for way in draw(_mostly([], ["cut"], ["a byte changed"], ["a byte missing"], ["cut", "a byte changed"])):
            file = _damaged(draw, file, way)
        usual = kind.file_heads[number % kind.usual_files]
        parts.append(_part(draw(_mostly(usual, *kind.file_heads)).encode(), file))
    if draw(_mostly(False, True)):
        parts = draw(st.permutations(parts)) * draw(st.sampled_from((1, 2, 130)))
    body = b"".join(parts) + b"--" + _BOUNDARY + b"--\r\n"
    if draw(_mostly(False, True)):
        body = _damaged(draw, body, draw(st.sampled_from(sorted(_DAMAGE))))
    size = draw(st.sampled_from((len(body) + 1, 1000, 7 if len(body) < 2000 else 4000)))
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return SentForm(draw(_mostly(_KIND, *_KINDS)), pieces)


def _mostly(first: object, *others: object) -> st.SearchStrategy:
    """Draw the first of these in seven of eight cases."""
    return st.integers(0, 7).flatmap(lambda number: st.sampled_from(others) if number == 7 else st.just(first))


def _damaged(draw: st.DrawFn, body: bytes, way: str) -> bytes:
    # What is wrong near the beginning is what a header says.
    at = draw(st.integers(0, 100) | st.integers(0, max(0, len(body) - 1)))
    return _DAMAGE[way](body, min(at, max(0, len(body) - 1)))


def _head(name: str) -> bytes:
    return _HEADS[0].format(name=name).encode()


def _part(head: bytes, content: bytes) -> bytes:
    return b"--" + _BOUNDARY + b"\r\n" + head + b"\r\n\r\n" + content + b"\r\n"
