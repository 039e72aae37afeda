"""How values of settings are written and read: the same way in the file, the environment and flags, as text."""

import contextlib
import ipaddress
import math
import os
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from typing import Any

from msgspec import Struct, ValidationError, convert, structs
from msgspec import inspect as types

from orchard.cluster.hostfile import read_hostfile
from orchard.config import MEMORY_DATABASE, VoiceModels

Raw = str | list[str] | dict[str, str | list[str] | dict[str, str]]
"""A value as it is written. The environment and flags have no mappings."""

_SIZE = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*(?:([KMGT])(i?)B?|B)?", re.IGNORECASE)
_HOST_NAME = re.compile(r"[^\s,:/?#@\[\]]+")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#\s,]+")
_POWERS = {None: 0, "K": 1, "M": 2, "G": 3, "T": 4}
_BOOLS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
_MOST_INTEGER = 2**63 - 1
_MOST_BYTES = 2**63  # mlx-openai-server writes this for no limit
_MOST_SHOWN = 60


class Kind(Struct, frozen=True):
    """How a setting is written. `words` continue "must be ..."; `parse` raises ValueError, with or without a message.

    A list is written as a list, or as one comma-separated text; without `repeats`, duplicates are removed. A mapping
    can only be written in files; `instead` is the kind of a single value that may stand in its place.
    """

    words: str
    metavar: str
    parse: Callable[[str], Any]
    shape: type[str] | type[list[Any]] | type[dict[str, Any]] = str
    secret: bool = False
    repeats: bool = False
    instead: "Kind | None" = None

    def read(self, raw: Raw) -> Any:
        """Return the value; a list becomes a tuple. Raise ValueError with what is wrong and what is allowed."""
        if self.instead and isinstance(raw, str):
            return self.instead.read(raw)
        if self.shape is list and not isinstance(raw, dict):
            texts = [raw] if isinstance(raw, str) else raw
            items = [item.strip() for text in texts for item in text.split(",") if item.strip()]
            if texts and not items:
                raise ValueError(f"must be {self.words}, not empty")
            values = [self._read_item(item) for item in items]
            return tuple(values if self.repeats else dict.fromkeys(values))
        if self.shape is dict and isinstance(raw, dict):
            return {name: self._read_item(value) for name, value in raw.items()}
        if self.shape is str and isinstance(raw, str):
            return self._read_item(raw)
        found = "a list" if isinstance(raw, list) else "a mapping" if isinstance(raw, dict) else "a single value"
        raise ValueError(f"must be {self.words}, not {found}")

    def _read_item(self, text: Any) -> Any:
        try:
            return self.parse(text)
        except ValueError as error:
            if error.args:
                raise
        shown = text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 1] + "…"
        raise ValueError(f"must be {self.words}" + ("" if self.secret else f", not {shown!r}"))


def printable_text(text: str) -> str:
    """Return a text for one line of a terminal, with invisible characters written as in Python."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


def kind_of_field(struct: type[Struct], field: str) -> Kind:
    """Return the kind of a field's type."""
    found, extra = unwrap_type(fields_of(struct)[field].type)
    return kind_of_type(found, extra.get("kind"))


@cache
def fields_of(struct: type[Struct]) -> Mapping[str, types.Field]:
    """Return the fields of a Struct by their names."""
    info = types.type_info(struct)
    assert isinstance(info, types.StructType)
    return {field.name: field for field in info.fields}


def unwrap_type(found: types.Type) -> tuple[types.Type, dict[str, Any]]:
    """Return a type without None and Metas, and the data of its Metas; the outer ones override."""
    extra: dict[str, Any] = {}
    while True:
        match found:
            case types.Metadata(type=inner):
                extra = (found.extra or {}) | (found.extra_json_schema or {}) | extra
            case types.UnionType(types=(inner, types.NoneType())):
                pass
            case _:
                return found, extra
        found = inner


def kind_of_type(found: types.Type, name: str | None) -> Kind:
    """Return the kind called `name`, else the kind of a bare type. Raise TypeError if there is none."""
    if name:
        return KINDS[name]
    match found:
        case types.BoolType():
            return SWITCH
        case types.IntType() | types.FloatType():
            return _number_kind(found)
        case types.LiteralType(values=values):
            choices = {str(value): value for value in values}
            return Kind("one of " + ", ".join(choices), f"[{'|'.join(choices)}]", _choice_parser(choices))
        case types.StrType():
            return TEXT
    raise TypeError(f"{found} needs a kind of its own")


def _number_kind(found: types.IntType | types.FloatType) -> Kind:
    is_integer = isinstance(found, types.IntType)
    low, least, most = found.gt, found.ge, found.le

    def parse(text: str) -> float:
        # Stricter than int(), which accepts underscores and the digits of every script.
        if is_integer and not re.fullmatch(r"[+-]?[0-9]{1,19}", text.strip()):
            raise ValueError
        with contextlib.suppress(ValueError):
            number = int(text) if is_integer else float(text)
            is_bounded = abs(number) <= _MOST_INTEGER if is_integer else math.isfinite(number)
            too_small = (low is not None and number <= low) or (least is not None and number < least)
            if is_bounded and not too_small and (most is None or number <= most):
                return number
        raise ValueError

    noun, metavar = ("an integer", "INTEGER") if is_integer else ("a number", "NUMBER")
    return Kind(f"{noun}{_range_words(low, least, most)}", metavar, parse)


def _range_words(low: float | None, least: float | None, most: float | None) -> str:
    if least is not None and most is not None:
        return f" from {least} to {most}"
    above = f" above {low}" if low is not None else f" of at least {least}" if least is not None else ""
    return f"{above} and at most {most}" if above and most is not None else above


def _choice_parser(values: Mapping[str, Any]) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        if (word := text.strip().lower()) not in values:
            raise ValueError
        return values[word]

    return parse


def kind_or_zero(kind: Kind) -> Kind:
    """Return a kind that also accepts 0."""

    def parse(text: str) -> Any:
        return 0 if text.strip() == "0" else kind.parse(text)

    return structs.replace(kind, words=f"{kind.words}, or 0", parse=parse)


def _size_kind(least: str) -> Kind:
    def parse(text: str) -> int:
        if (number := parse_size(text)) < parse_size(least):
            raise ValueError(f"must be at least {least}, not {number} bytes; a unit may follow, as in 24GB")
        return number

    return Kind("a size in bytes, such as 1000000, 512MB or 8GiB", "SIZE", parse)


def parse_size(text: str) -> int:
    """Read a number of bytes, such as 1000000, 512MB (of 1000 KB) or 8GiB (of 1024 MiB). Raise ValueError."""
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise ValueError
    number, unit, binary = match.groups()
    found = int(Decimal(number) * (1024 if binary else 1000) ** _POWERS[unit and unit.upper()])
    if found > _MOST_BYTES:
        raise ValueError(f"{text.strip()[:_MOST_SHOWN]!r} is more than any machine has")
    return min(found, _MOST_INTEGER)


def format_size(number: int) -> str:
    """Write bytes so that `parse_size` reads them."""
    power = max((power for power in range(4) if number and number % 1024**power == 0), default=0)
    return f"{number // 1024**power}{('', 'KiB', 'MiB', 'GiB')[power]}"


def _parse_text(text: str) -> str:
    # Bytes that aren't UTF-8 arrive in flags and the environment as surrogates, which JSON can't hold.
    if not text.strip() or "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError
    return text


def _parse_host(text: str) -> str:
    if not text.isprintable() or text.split() != [text]:
        raise ValueError
    return text


def _parse_allowed_host(text: str) -> str:
    """Read a host name or an IP address as in a Host header, without port, brackets and final dot."""
    host = text.lower().removesuffix(".")
    address = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    with contextlib.suppress(ValueError):
        return str(ipaddress.ip_address(address))
    if not _HOST_NAME.fullmatch(host):
        raise ValueError
    return host


def _check_format_name(text: str, *, option: str) -> str:
    # Imported here because there are many formats, and this setting is rarely used.
    from orchard.formats.registry import choose_family, template_converter

    if option == "message_converter":
        template_converter(_parse_text(text))
    else:
        choose_family("", **{option: _parse_text(text)})
    return text


def _absolute_path(text: str, *, folder: bool, must_exist: bool) -> str:
    """Return the absolute path of a file or a folder."""
    try:
        path = Path(_parse_text(text)).expanduser().resolve()
        is_there = path.exists()
        is_folder = path.is_dir()
    except (OSError, RuntimeError, ValueError):  # a path that is too long, the home of an unknown user, a null byte
        raise ValueError from None
    if must_exist and not is_there:
        raise ValueError(f"there is no {'folder' if folder else 'file'} {path}")
    if is_there and is_folder != folder:
        found, wanted = ("folder", "file") if is_folder else ("file", "folder")
        raise ValueError(f"must be a {wanted}, and {path} is a {found}")
    return str(path)


def _check_existing_folder(text: str) -> str:
    _absolute_path(text, folder=True, must_exist=True)
    return text  # unchanged, because requests may name the model so


def _parse_log_file(text: str) -> str:
    path = Path(_absolute_path(text, folder=False, must_exist=False))
    if not path.parent.is_dir():
        raise ValueError(f"can't log to {path}: there is no folder {path.parent}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ValueError(f"can't log to {path}: it is not writable")
    return str(path)


def _parse_database(text: str) -> str:
    return text if text == MEMORY_DATABASE else _absolute_path(text, folder=False, must_exist=False)


def _parse_origin(text: str) -> str:
    """Read an origin as browsers send it: no path, no slash at the end."""
    origin = text.lower()
    if origin != "*" and not _ORIGIN.fullmatch(origin):
        raise ValueError
    return origin


def _parse_key(text: str) -> str:
    """Read an API key, which must fit into a header."""
    if not text.isascii():
        raise ValueError
    return _parse_host(text)


def _read_key_file(text: str) -> tuple[str, ...]:
    path = Path(_absolute_path(text, folder=False, must_exist=True))
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
        keys = [_parse_key(line) for line in lines if line and not line.startswith("#")]
    except OSError as error:
        raise ValueError(f"{path} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} can't be read: it is not text") from None
    except ValueError:
        raise ValueError(f"a key in {path} must be {_KEYS.words}") from None
    if not keys:
        raise ValueError(f"{path} contains no key: write one per line")
    return tuple(keys)


def _read_voice_models(given: Any) -> VoiceModels:
    """Read the names of a realtime session's models."""
    try:
        found = convert(given, VoiceModels)
        for name in structs.asdict(found).values():
            if name is not None:
                _parse_text(name)
    except (ValidationError, ValueError):
        raise ValueError(f"must be {_VOICE_MODELS}") from None
    return found


def _check_hostfile(text: str) -> str:
    path: str = KINDS["existing file"].read(text)
    read_hostfile(path)
    return path


SWITCH = Kind("true or false", "", _choice_parser(_BOOLS))
"""On or off, so that its flag takes no value."""
TEXT = Kind("text that is not empty", "TEXT", _parse_text)
_KEYS = Kind("made of printable ASCII characters without spaces", "KEY", _parse_key, list, secret=True)
_FOLDER_HERE = Kind("an existing folder", "FOLDER", _check_existing_folder)
_VOICE_MODELS = (
    "a mapping of names to `chat`, `transcription`, `speech` and `turn_detection`, of which `chat` is required"
)
_SHARED_BY = "keys, all, or a mapping of groups to lists of keys"
_SHARING = {"keys": "keys", "all": "all"}
_ORIGINS = "origins, such as https://example.com or http://localhost:3000, or *"
KINDS = {
    "size": _size_kind("0"),
    "positive size": _size_kind("1"),
    "memory size": _size_kind("1MiB"),
    "numbers": Kind("a list of numbers", "NUMBER", _number_kind(types.FloatType()).read, list, repeats=True),
    "name": Kind("a name", "NAME", _parse_text),
    "names": Kind("a list of names", "NAME", _parse_text, list),
    "host": Kind("a name or an address, without spaces", "HOST", _parse_host),
    "hosts": Kind("names or addresses without a port", "HOST", _parse_allowed_host, list),
    "origins": Kind(_ORIGINS, "ORIGIN", _parse_origin, list),
    "keys": _KEYS,
    "cache sharing": Kind(
        _SHARED_BY,
        "keys|all",
        _KEYS.read,
        dict,
        secret=True,
        instead=Kind(_SHARED_BY, "", _choice_parser(_SHARING), secret=True),
    ),
    "key file": Kind("a file with one key per line", "FILE", _read_key_file),
    "folder": Kind("a folder", "FOLDER", partial(_absolute_path, folder=True, must_exist=False)),
    "existing folder": _FOLDER_HERE,
    "existing folders": Kind("a mapping of names to existing folders", "FOLDER", _FOLDER_HERE.read, dict),
    "existing file": Kind("an existing file", "FILE", partial(_absolute_path, folder=False, must_exist=True)),
    "existing files": Kind("existing files", "FILE", partial(_absolute_path, folder=False, must_exist=True), list),
    "hostfile": Kind("a hostfile of mlx.launch", "FILE", _check_hostfile),
    "voices": Kind("a mapping of names to voices", "VOICE", TEXT.read, dict),
    "voice models": Kind(_VOICE_MODELS, "NAME", _read_voice_models, dict),
    "log file": Kind("a file", "FILE", _parse_log_file),
    "database": Kind("a file, or ':memory:'", "FILE", _parse_database),
    "tool_call_parser": Kind("a name", "NAME", partial(_check_format_name, option="tool_call_parser")),
    "reasoning_parser": Kind("a name", "NAME", partial(_check_format_name, option="reasoning_parser")),
    "message_converter": Kind("a name", "NAME", partial(_check_format_name, option="message_converter")),
}
"""The kinds that `orchard.core.setting.value_kind` names."""
