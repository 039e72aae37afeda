"""Turn a form's fields, which are all texts, into the JSON values that they stand for."""

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from orchard.dialects.common.json_body import invalid_field

_PART = re.compile(r"(\w+)\[(\w*)\]")


def parse_form_fields(
    fields: Mapping[str, Sequence[str]],
    *,
    numbers: Collection[str] = (),
    lists: Collection[str] = (),
    objects: Collection[str] = (),
) -> dict[str, Any]:
    """Return a form's fields as JSON; empty ones are absent, and `stream` is a truth value.

    A list is `name[]` or a repeated `name`; an object is `name[key]`, or JSON if `objects` has its name. A value of the
    wrong type stays a text, which is rejected later. Raise OrchardError if an object nests too deeply.
    """
    found: dict[str, Any] = {}
    for given, values in fields.items():
        kept = [value for value in values if value != ""]
        if not kept:
            continue
        part = _PART.fullmatch(given)
        if part and part[2]:
            inner = found.setdefault(part[1], {})
            if isinstance(inner, dict):
                inner[part[2]] = _form_value(part[2], kept[-1], numbers, objects)
        elif (name := part[1] if part else given) in lists:
            found[name] = [*found.get(name, ()), *kept]
        else:
            found[name] = _form_value(name, kept[-1], numbers, objects)
    return found


def _form_value(name: str, text: str, numbers: Collection[str], objects: Collection[str]) -> Any:
    if name == "stream":
        return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)
    if name in objects and text.startswith("{"):
        with suppress(msgspec.DecodeError):
            return _json_object(text, name)
    if name in numbers:
        with suppress(msgspec.DecodeError):
            return msgspec.json.decode(text, type=int | float)
    return text


def _json_object(text: str, name: str) -> dict[str, msgspec.Raw]:
    """Return the members of an object, not yet decoded. Raise OrchardError if it nests too deeply."""
    try:
        return msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except RecursionError:
        raise invalid_field(name, "is nested too deeply.") from None
