"""Read the cases of tests/demo/cases.

A file is a list of cases of one kind, in YAML. A case has `turns`, and may have a `system` message and `tools`, or
a `schema` for its answers. A turn is what the user says, or a mapping with `say` and what a right answer must be
(`judge.py`). A case with a single turn may have the turn's keys itself.

`tools` maps a name to what the tool is `about` and what it `takes`. `takes` and `schema` map each property to its
type: `string`, `integer`, `number`, `boolean`, `date`, an enumeration `a|b|c`, or a list such as `string[]`. A `?`
after it makes the property optional, and a text in parentheses at its end describes it. A mapping is an object, and a
list of one mapping is a list of such objects.
"""

import re
from pathlib import Path
from typing import Any

import msgspec
import yaml

CASES = Path(__file__).parents[2] / "tests" / "demo" / "cases"
Schema = dict[str, Any]
Call = dict[str, dict[str, Any]]

_TYPES = ("string", "integer", "number", "boolean")


class ToolCard(msgspec.Struct, forbid_unknown_fields=True):
    """A tool as a case describes it."""

    about: str
    takes: dict[str, Any]


class Step(msgspec.Struct, forbid_unknown_fields=True):
    """A user's message, and what a right answer to it must be."""

    say: str
    call: Call | list[Call] | None = None
    result: Any = None
    has: list[str | list[str]] = []
    lacks: list[str] = []
    says: str | list[str] | None = None
    number: float | None = None
    declines: bool = False
    fields: dict[str, str | tuple[float, float]] = {}

    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the calls that are expected: names and arguments."""
        calls = [self.call] if isinstance(self.call, dict) else self.call or []
        return [pair for call in calls for pair in call.items()]


class Trial(msgspec.Struct, forbid_unknown_fields=True):
    """A conversation that is tried."""

    turns: list[str | Step]
    system: str | None = None
    tools: dict[str, ToolCard] = {}
    schema: Schema | None = None

    def steps(self) -> list[Step]:
        """Return the turns, of which those without an expectation take any answer."""
        return [Step(turn) if isinstance(turn, str) else turn for turn in self.turns]


def kinds() -> list[str]:
    """Return the names of the kinds of cases."""
    return sorted(path.stem for path in CASES.glob("*.yaml"))


def read(kind: str) -> list[Trial]:
    """Return the cases of a kind. Raise msgspec.ValidationError for a key that is not known."""
    return [trial(case) for case in yaml.safe_load((CASES / f"{kind}.yaml").read_text())]


def trial(case: dict[str, Any]) -> Trial:
    """Return a case that was written as the module says."""
    if "say" in case:
        turn = {key: case.pop(key) for key in Step.__struct_fields__ if key in case}
        case = case | {"turns": [turn]}
    return msgspec.convert(case, Trial)


def object_schema(takes: dict[str, Any]) -> Schema:
    """Return the JSON schema of an object with these properties."""
    required = [name for name, written in takes.items() if not (isinstance(written, str) and _parts(written)[1])]
    properties = {name: _schema(written) for name, written in takes.items()}
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _parts(written: str) -> tuple[str, bool, str]:
    """Return the type, whether it is optional, and the description."""
    match = re.fullmatch(r"(\S+?)(\?)?(?: \((.+)\))?", written)
    if match is None:
        raise ValueError(f"not a type: {written}")
    return match[1], match[2] is not None, match[3] or ""


def _schema(written: Any) -> Schema:
    if isinstance(written, dict):
        return object_schema(written)
    if isinstance(written, list):
        return {"type": "array", "items": object_schema(written[0])}
    kind, _, about = _parts(written)
    return _typed(kind) | ({"description": about} if about else {})


def _typed(kind: str) -> Schema:
    if kind.endswith("[]"):
        return {"type": "array", "items": _typed(kind.removesuffix("[]"))}
    if kind == "date":
        return {"type": "string", "format": "date"}
    if "|" in kind:
        return {"type": "string", "enum": kind.split("|")}
    if kind not in _TYPES:
        raise ValueError(f"not a type: {kind}")
    return {"type": kind}
