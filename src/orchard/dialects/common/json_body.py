"""Decode a JSON body to a type. Errors name the field and say what it may contain."""

import re
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec
from msgspec import Meta, Struct, inspect, structs

from orchard.core.errors import OrchardError

MAX_DEPTH = 64
"""How deep free-form values (JSON schemas, template variables) may nest: deeper ones could break a later encoder."""
MAX_FREE_BYTES = 8 * 1024 * 1024
"""The most bytes of all free-form values of one body together, including calls' arguments given as text."""
MAX_VALUE_BYTES = 256 * 1024
"""The most bytes of one free-form value, other than a call's arguments."""
MAX_ARGUMENTS_BYTES = 1024 * 1024
"""The most bytes of the arguments of one call."""
MAX_VALUES = 2**19
"""The most values (numbers, strings, arrays, ...) of a body, including those in ignored fields.

An empty array or object counts twice.
"""

_OPENERS = b"{[,"
_NO_OPENERS = bytes(byte for byte in range(256) if byte not in _OPENERS)
_SHOWN_CHARS = 64
_JSON_TYPES = {
    "int": "an integer",
    "float": "a number with a fraction or an exponent",
    "str": "a string",
    "bool": "a boolean",
    "array": "an array",
    "object": "an object",
    "null": "null",
}
_LOCATION = re.compile(r"(?P<what>.*) - at `(?P<key>key` in `)?\$(?P<path>[^`]*)`\Z", re.DOTALL)
_STEP = re.compile(r"\.(?P<name>\w+)|\[(?P<index>\.\.\.|\d+)\]")
_MISSING = re.compile(r"Object missing required field `(\w+)`\Z")
_GOT = re.compile(r"Expected .*, got `(\w+)`\Z")
_GOT_VALUE = re.compile(r"Invalid enum value '(.*)'\Z", re.DOTALL)

T = TypeVar("T")


def type_words(text: str) -> Meta:
    """Return an annotation that makes errors call a type `text`, instead of describing its parts."""
    return Meta(extra={"words": text})


def invalid_field(param: str | None, message: str) -> OrchardError:
    """Return the error of a bad field: `message` says what is wrong with the field whose path is `param`.

    The path, such as `messages[0].content`, is the subject of the sentence; without one it is the body.
    """
    return OrchardError("invalid_request", f"{_subject(param)} {message}", param=param)


def require(value: T | None, param: str, *, empty: bool = True) -> T:
    """Return a field's value. Raise OrchardError if it is absent or, with `empty` false, an empty string."""
    if value is None or (value == "" and not empty):
        raise invalid_field(param, "is required." if value is None else "is required and must not be empty.")
    return value


def refuse_fields(body: Struct, reasons: dict[str, str], where: str = "") -> None:
    """Raise OrchardError (invalid_request) if an unsupported field is set; `reasons` maps these fields to reasons.

    `where` is the path of `body`, with a dot at its end.
    """
    for param, reason in reasons.items():
        if getattr(body, param) is not None:
            raise invalid_field(where + param, f"is not supported: {reason}.")


def invalid_choice(param: str, names: Iterable[str], where: str = "") -> OrchardError:
    """Return the error of a field whose value is not one of these names."""
    return invalid_field(param, f"must be one of {', '.join(map(repr, names))}{where}.")


def _subject(param: str | None) -> str:
    return f"`{param}`" if param else "The body"


def decode_body(decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """Decode a body. Raise OrchardError (invalid_request) if it is not JSON or not of the decoder's type."""
    if not body.strip():
        raise invalid_field(None, "is empty; it must be a JSON object.")
    refuse_too_many_values(decoder.type, body)
    try:
        # msgspec doesn't check strings that it skips, so check that the whole body is UTF-8.
        return decoder.decode(body.decode())
    except UnicodeDecodeError as error:
        raise invalid_field(None, f"is not valid UTF-8: byte {error.start} can't be decoded.") from None
    except RecursionError:
        raise invalid_field(None, "is nested too deeply.") from None
    except msgspec.ValidationError as error:
        raise _explain_error(decoder.type, str(error)) from None
    except msgspec.DecodeError as error:
        detail = str(error).removeprefix("JSON is malformed: ")
        if "truncated" in detail:
            # msgspec reports the same error for a body that ends too early and for half of a surrogate pair at its end.
            detail = r"it ends too early, or a \u escape in it is half of a surrogate pair"
        raise invalid_field(None, f"is not valid JSON: {detail}.") from None


def refuse_too_many_values(expected: type, body: bytes) -> None:
    """Raise OrchardError (invalid_request) if a body has more than MAX_VALUES values, before any is decoded.

    A body of 32 MB takes up to 0.2 s. A body that is not JSON may pass, but the part before its first error is counted.
    """
    # msgspec checks the length of an array after decoding it, and 32 MB can hold ten million empty objects. Counting
    # inside strings too is cheaper than skipping them, and rarely exceeds the limit.
    if _count_openers(body) < MAX_VALUES or not _has_too_many_values(body):
        return
    message = f"holds too many values: a body may hold at most {MAX_VALUES} in all."
    raise invalid_field(_largest_field(expected, body), message)


def _count_openers(text: bytes) -> int:
    """Count the bytes that open or separate values: every value except the first follows one."""
    return len(text.translate(None, _NO_OPENERS))


def _has_too_many_values(body: bytes) -> bool:
    if b"\\" in body:
        body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    if body.count(b'"') // 2 > 2 * MAX_VALUES:  # each string is a value or the key of one
        return True
    between_strings = body.split(b'"')[::2]
    return _count_openers(b" ".join(between_strings)) >= MAX_VALUES


def _largest_field(expected: type, body: bytes) -> str | None:
    """Return the field to blame; None if the values are in unknown fields or the body is not a JSON object."""
    names = [field.encode_name for field in structs.fields(expected)]
    fields = msgspec.defstruct("Fields", [(name, msgspec.Raw, msgspec.Raw()) for name in names])
    try:
        found = msgspec.json.decode(body, type=fields)
    except (msgspec.DecodeError, RecursionError):
        return None
    sizes = {name: _count_openers(bytes(getattr(found, name))) for name in names}
    largest = max(sizes, key=sizes.__getitem__)
    return largest if sizes[largest] > _count_openers(body) // 2 else None


class FreeForm:
    """Checks the values of one body that have no fixed type: each of them, and the sum of their lengths."""

    def __init__(self) -> None:
        self._bytes = 0

    def check(self, value: Any, param: str, limit: int = MAX_VALUE_BYTES) -> bytes:
        """Return a value as JSON of at most `limit` bytes. Raise OrchardError (invalid_request) if a check fails."""
        check_free_form(value, param)
        encoded = msgspec.json.encode(value)
        self._count_bytes(len(encoded), param, limit)
        return encoded

    def check_text(self, text: str, param: str) -> None:
        """Check the length of a call's arguments that came as text. They are not parsed."""
        self._count_bytes(len(text.encode()), param, MAX_ARGUMENTS_BYTES)

    def arguments_json(self, given: str | dict[str, Any] | None, param: str) -> str:
        """Return a call's arguments as JSON text. Raise OrchardError (invalid_request) if a check fails."""
        if isinstance(given, dict):
            return self.check(given, param, MAX_ARGUMENTS_BYTES).decode()
        text = given or "{}"
        self.check_text(text, param)
        return text

    def _count_bytes(self, size: int, param: str, limit: int) -> None:
        if size > limit:
            raise invalid_field(param, f"is too long: it has {size} bytes of JSON; at most {limit} are allowed.")
        self._bytes += size
        if self._bytes > MAX_FREE_BYTES:
            what = "schemas, template variables and arguments of calls"
            raise invalid_field(param, f"is too long: {what} may have {MAX_FREE_BYTES} bytes of JSON in all.")


def check_free_form(value: Any, param: str) -> None:
    """Check that a value of no fixed type can be sent to the worker and encoded again.

    Raise OrchardError if it nests deeper than MAX_DEPTH or has an integer of more than 64 bits.
    """
    pending: list[tuple[Any, int]] = [(value, 1)]
    while pending:
        item, depth = pending.pop()
        if isinstance(item, dict | list):
            if depth > MAX_DEPTH:
                raise invalid_field(param, f"is nested too deeply: at most {MAX_DEPTH} levels are allowed.")
            children = item.values() if isinstance(item, dict) else item
            pending.extend((child, depth + 1) for child in children)
        elif isinstance(item, int) and not -(2**63) <= item < 2**64:
            raise invalid_field(param, "holds an integer that doesn't fit into 64 bits.")


def _explain_error(expected: type, message: str) -> OrchardError:
    """Turn msgspec's message, such as "Expected `int`, got `str` - at `$.n`", into a sentence for an API user."""
    match = _LOCATION.match(message)
    what, path = (match["what"], match["path"].removeprefix(".")) if match else (message, "")
    param = path.split("[...]")[0] or None
    if missing := _MISSING.match(what):
        return invalid_field(f"{path}.{missing[1]}".removeprefix("."), "is required.")
    kind = _type_at(inspect.type_info(expected), match["path"] if match else "")
    if what.endswith("out of range") and isinstance(kind, inspect.AnyType):
        return invalid_field(param, "holds a number that is out of range.")
    subject = _subject(param)
    if match and match["key"]:
        subject = f"Each key of {subject}"
        kind = next((member.key_type for member in _union_members(kind) if isinstance(member, inspect.DictType)), kind)
    elif path.endswith("[...]"):
        subject = f"Each value of {subject}"
    received = ""
    if got := _GOT.match(what):
        received = f", got {_JSON_TYPES.get(got[1], got[1])}"
    elif (got := _GOT_VALUE.match(what)) and len(got[1]) <= _SHOWN_CHARS:
        received = f", got '{got[1]}'"
    return OrchardError("invalid_request", f"{subject} must be {_describe_type(kind)}{received}.", param=param)


def _union_members(kind: inspect.Type) -> tuple[inspect.Type, ...]:
    kind = _bare_type(kind)
    if not isinstance(kind, inspect.UnionType):
        return (kind,)
    return tuple(member for one in kind.types for member in _union_members(one))


def _bare_type(kind: inspect.Type) -> inspect.Type:
    """Return a type without the description around it."""
    return _bare_type(kind.type) if isinstance(kind, inspect.Metadata) else kind


def _type_at(kind: inspect.Type, path: str) -> inspect.Type:
    """Return the type at a path such as `.messages[0].role`."""
    for step in _STEP.finditer(path):
        children: list[inspect.Type] = []
        for member in _union_members(kind):
            match member:
                case inspect.StructType():
                    children += [field.type for field in member.fields if field.encode_name == step["name"]]
                case inspect.ListType() if step["index"] not in (None, "..."):
                    children.append(member.item_type)
                case inspect.DictType() if step["index"] == "...":
                    children.append(member.value_type)
        kind = children[0] if children else inspect.AnyType()
    return kind


def _describe_type(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.Metadata) and kind.extra and "words" in kind.extra:
        return str(kind.extra["words"])
    words = "an object"
    match kind := _bare_type(kind):
        case inspect.UnionType():
            words = " or ".join(_describe_type(t) for t in kind.types if not isinstance(t, inspect.NoneType))
        case inspect.LiteralType():
            one_of = "one of " if len(kind.values) > 1 else ""
            words = one_of + ", ".join(repr(value) for value in kind.values)
        case inspect.IntType():
            words = "an integer" + _range_words(kind)
        case inspect.FloatType():
            words = "a number" + _range_words(kind)
        case inspect.StrType():
            words = ("a non-empty string" if kind.min_length else "a string") + _limit_words(
                kind.max_length, "characters"
            )
        case inspect.ListType():
            words = ("a non-empty array" if kind.min_length else "an array") + _limit_words(kind.max_length, "items")
        case inspect.BoolType():
            words = "true or false"
    return words


def _range_words(kind: inspect.IntType | inspect.FloatType) -> str:
    show = str if isinstance(kind, inspect.IntType) else "{:.15g}".format
    if kind.ge is not None and kind.le is not None:
        return f" from {show(kind.ge)} to {show(kind.le)}"
    if kind.gt is not None and kind.le is not None:
        return f" above {show(kind.gt)} and at most {show(kind.le)}"
    return ""


def _limit_words(most: int | None, unit: str) -> str:
    return f" of at most {most} {unit}" if most else ""
