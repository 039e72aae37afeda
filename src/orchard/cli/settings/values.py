"""How values of settings are written: the same way in the file, in the environment and in flags, as text."""

import contextlib
import ipaddress
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct, structs
from msgspec.inspect import BoolType, FloatType, IntType, LiteralType, NoneType, StrType, Type, UnionType

Raw = str | list[str] | dict[str, str]
"""What stands there; the environment and flags have no mappings."""

_SIZE = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*(?:([KMGT])(i?)B?|B)?", re.IGNORECASE)
_HOST_NAME = re.compile(r"[^\s,:/?#@\[\]]+")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#\s,]+")
_POWERS = {None: 0, "K": 1, "M": 2, "G": 3, "T": 4}
_BOOLS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
_MOST_INTEGER = 2**63 - 1
_MOST_BYTES = 2**63  # what mlx-openai-server writes for no limit
_MOST_SHOWN = 60


class Kind(Struct, frozen=True):
    """What a setting may be. `words` continue "must be ..."; `parse` raises ValueError, with or without its own words.

    A list is written as one, or as one text in which commas separate. A mapping is only written in files.
    """

    words: str
    metavar: str
    parse: Callable[[str], Any]
    shape: type[str] | type[list[Any]] | type[dict[str, Any]] = str
    secret: bool = False

    @property
    def is_switch(self) -> bool:
        """It is on or off, and its flag takes no value."""
        return self.parse is _switch

    def read(self, raw: Raw) -> Any:
        """Give the value; a list is a tuple. Raises ValueError saying what is wrong and what is allowed."""
        if self.shape is list and not isinstance(raw, dict):
            return self._list([raw] if isinstance(raw, str) else raw)
        if self.shape is dict and isinstance(raw, dict):
            return {name: self._one(text) for name, text in raw.items()}
        if self.shape is str and isinstance(raw, str):
            return self._one(raw)
        found = "a list" if isinstance(raw, list) else "a mapping" if isinstance(raw, dict) else "one text"
        raise ValueError(f"must be {self.words}, not {found}")

    def _list(self, texts: Sequence[str]) -> tuple[Any, ...]:
        items = [item.strip() for text in texts for item in text.split(",") if item.strip()]
        if texts and not items:
            raise ValueError(f"must be {self.words}, not empty")
        return tuple(dict.fromkeys(self._one(item) for item in items))

    def _one(self, text: str) -> Any:
        try:
            return self.parse(text)
        except ValueError as error:
            if error.args:
                raise
        shown = text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 1] + "…"
        raise ValueError(f"must be {self.words}" + ("" if self.secret else f", not {shown!r}"))


def printable(text: str) -> str:
    """Give a text for one line of a terminal: what is no character to be seen is written as in Python."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def kind_of(struct: type[Struct], field: str) -> Kind:
    """Give the kind that the type of a field has."""
    found = _types(struct)[field]
    if isinstance(found, UnionType):
        (found,) = (kind for kind in found.types if not isinstance(kind, NoneType))
    match found:
        case BoolType():
            return SWITCH
        case IntType(gt=None, ge=least, le=most):
            return _integer(least, most)
        case FloatType(gt=above, ge=least, le=most):
            return _number(above, least, most)
        case LiteralType(values=values):
            return _choice(values)
        case StrType():
            return TEXT
    raise TypeError(f"{struct.__name__}.{field} needs a kind of its own")


@cache
def _types(struct: type[Struct]) -> Mapping[str, Type]:
    info = msgspec.inspect.type_info(struct)
    assert isinstance(info, msgspec.inspect.StructType)
    return {field.name: field.type for field in info.fields}


def _integer(least: int | None, most: int | None) -> Kind:
    def parse(text: str) -> int:
        # Not all that int() takes: it has underscores and the digits of every script.
        if not re.fullmatch(r"[+-]?[0-9]{1,19}", text.strip()):
            raise ValueError
        number = int(text)
        if not (-_MOST_INTEGER if least is None else least) <= number <= (_MOST_INTEGER if most is None else most):
            raise ValueError
        return number

    return Kind(f"an integer{_range(None, least, most)}", "INTEGER", parse)


def _number(above: float | None, least: float | None, most: float | None) -> Kind:
    def parse(text: str) -> float:
        with contextlib.suppress(ValueError):
            number = float(text)
            too_small = (above is not None and number <= above) or (least is not None and number < least)
            if math.isfinite(number) and not too_small and (most is None or number <= most):
                return number
        raise ValueError

    return Kind(f"a number{_range(above, least, most)}", "NUMBER", parse)


def _range(above: float | None, least: float | None, most: float | None) -> str:
    if least is not None and most is not None:
        return f" from {least} to {most}"
    low = f" above {above}" if above is not None else f" of at least {least}" if least is not None else ""
    return f"{low} and at most {most}" if low and most is not None else low


def _choice(values: Sequence[Any]) -> Kind:
    def parse(text: str) -> Any:
        for value in values:
            if text.strip().lower() == str(value):
                return value
        raise ValueError

    return Kind("one of " + ", ".join(map(str, values)), f"[{'|'.join(map(str, values))}]", parse)


def or_zero(kind: Kind) -> Kind:
    """What 0 turns off."""

    def parse(text: str) -> Any:
        return 0 if text.strip() == "0" else kind.parse(text)

    return structs.replace(kind, words=f"{kind.words}, or 0", parse=parse)


def size(least: int = 0) -> Kind:
    """A number of bytes."""

    def parse(text: str) -> int:
        if (number := parse_size(text)) < least:
            raise ValueError(f"must be at least {least} byte")
        return number

    return Kind("a size: bytes, or as in 512MB, 8GB, 8GiB", "SIZE", parse)


def parse_size(text: str) -> int:
    """Read bytes, as in 1000000, 512MB (of 1000 KB), 8GiB (of 1024 MiB). Raises ValueError."""
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise ValueError
    number, unit, binary = match.groups()
    found = int(Decimal(number) * (1024 if binary else 1000) ** _POWERS[unit and unit.upper()])
    if found > _MOST_BYTES:
        raise ValueError(f"{text.strip()[:_MOST_SHOWN]!r} is more than any machine has")
    return min(found, _MOST_INTEGER)


def shown_size(number: int) -> str:
    """Write bytes so that `parse_size` reads them."""
    power = max((power for power in range(4) if number and number % 1024**power == 0), default=0)
    return f"{number // 1024**power}{('', 'KiB', 'MiB', 'GiB')[power]}"


def _switch(text: str) -> bool:
    try:
        return _BOOLS[text.strip().lower()]
    except KeyError:
        raise ValueError from None


def _text(text: str) -> str:
    # Bytes that are no UTF-8 reach flags and the environment as surrogates, which no JSON can hold.
    if not text.strip() or "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError
    return text


def _host(text: str) -> str:
    if not text.isprintable() or not text or any(map(str.isspace, text)):
        raise ValueError
    return text


def _allowed_host(text: str) -> str:
    """Read a name or an address as a Host header has it, without port, brackets and final dot."""
    host = text.lower().removesuffix(".")
    address = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(address))
    if not _HOST_NAME.fullmatch(host):
        raise ValueError
    return host


def parser(option: Literal["tool_call_parser", "reasoning_parser"]) -> Kind:
    """The name of a way to write calls or reasoning."""

    def parse(text: str) -> str:
        # Here, as the formats are many, and a server is seldom told of one.
        from orchard.formats import choose

        name = _text(text)
        if option == "tool_call_parser":
            choose("", tool_call_parser=name)
        else:
            choose("", reasoning_parser=name)
        return name

    return Kind("a name", "NAME", parse)


def _converter(text: str) -> str:
    from orchard.formats.converters import converter

    converter(name := _text(text))
    return name


def _path(text: str, *, folder: bool, must_exist: bool) -> str:
    """Give the absolute path of a file, or of a folder."""
    try:
        path = Path(_text(text)).expanduser().resolve()
        is_there = path.exists()
        is_folder = path.is_dir()
    except (OSError, RuntimeError, ValueError):  # too long, a home of nobody, a null byte
        raise ValueError from None
    if must_exist and not is_there:
        raise ValueError(f"there is no {'folder' if folder else 'file'} {path}")
    if is_there and is_folder != folder:
        found, wanted = ("folder", "file") if is_folder else ("file", "folder")
        raise ValueError(f"must be a {wanted}, and {path} is a {found}")
    return str(path)


def _folder_here(text: str) -> str:
    """Give the path as it is written: requests may repeat it."""
    _path(text, folder=True, must_exist=True)
    return text


def _log_file(text: str) -> str:
    path = Path(_path(text, folder=False, must_exist=False))
    if not path.parent.is_dir():
        raise ValueError(f"can't log to {path}: there is no folder {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ValueError(f"can't log to {path}: it may not be written")
    return str(path)


def _database(text: str) -> str:
    return text if text == ":memory:" else _path(text, folder=False, must_exist=False)


def _origin(text: str) -> str:
    """Read an origin as browsers send it: no path, no slash at the end."""
    origin = text.lower()
    if origin != "*" and not _ORIGIN.fullmatch(origin):
        raise ValueError
    return origin


def _key(text: str) -> str:
    """A key travels in a header."""
    if not (text.isascii() and text.isprintable()) or " " in text or not text:
        raise ValueError
    return text


def _key_file(text: str) -> tuple[str, ...]:
    path = Path(_path(text, folder=False, must_exist=True))
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
        keys = [_key(line) for line in lines if line and not line.startswith("#")]
    except OSError as error:
        raise ValueError(f"{path} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} can't be read: it is no text") from None
    except ValueError:
        raise ValueError(f"a key in {path} must be {KEYS.words}") from None
    if not keys:
        raise ValueError(f"{path} holds no key: write one on each line")
    return tuple(keys)


SWITCH = Kind("true or false", "", _switch)
COUNT = _integer(1, None)
NUMBERS = Kind("a list of numbers", "NUMBER", _number(None, None, None).read, list)
TEXT = Kind("text that is not empty", "TEXT", _text)
HOST = Kind("a name or an address, without spaces", "HOST", _host)
ALLOWED_HOSTS = Kind("names or addresses without a port", "HOST", _allowed_host, list)
NAME = Kind("a name", "NAME", _text)
NAMES = Kind("a list of names", "NAME", _text, list)
CONVERTER = Kind("a name", "NAME", _converter)
FOLDER = Kind("a folder", "FOLDER", lambda text: _path(text, folder=True, must_exist=False))
FOLDER_HERE = Kind("a folder that is there", "FOLDER", _folder_here)
FOLDERS = Kind("a mapping of names to folders that are there", "", FOLDER_HERE.read, dict)
LOG_FILE = Kind("a file", "FILE", _log_file)
FILE_HERE = Kind("a file that is there", "FILE", lambda text: _path(text, folder=False, must_exist=True))
DATABASE = Kind("a file, or ':memory:'", "FILE", _database)
ORIGINS = Kind("origins as in https://example.com or http://localhost:3000, or *", "ORIGIN", _origin, list)
KEYS = Kind("of printable ASCII characters without spaces", "KEY", _key, list, secret=True)
KEY_FILE = Kind("a file with a key on each line", "FILE", _key_file)
