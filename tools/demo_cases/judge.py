"""Say whether an answer is right. A case is right if the answers to all its turns are.

Every answer must end by itself, within 300 tokens (100 with a schema). What else makes it right:

- `call`: exactly these calls, in any order, and no others. The arguments must match the tool's schema, with their JSON
  types: all that are expected and no others. Numbers are compared by value. Strings are compared without regard to
  case, to white space and quotes around them, and to a full stop at the end. If the tool expects a single value, a list
  contains all right values. Text after calls is not judged. If there is a `result`, it is sent back, and the next
  answer must have no calls, and the text that the turn asks for.
- Without `call`: no calls, and a text that is not empty. Unless the turn has `says`, the text must also have a letter
  or a digit and must not be a JSON object (an invalid call). This applies to turns without expectations, too.
- `says`: this text, or one of these, with this case and spelling. White space and quotes around it are ignored, and so
  is a missing or additional full stop at the end, in the answer or in the quotes.
- `has`: each of these, or one of each list of them. `lacks`: none of these. Both search for whole words and whole
  numbers ("4" is not in "42", nor in "4.2"), without regard to case and white space.
- `number`: the last number of the text is this one. Thousands may be separated by commas.
- `declines`: a phrase of refusal or ignorance, such as "can't" or "don't have" (`DECLINES`).
- with a `schema`: JSON that has the schema's properties and types. Every string has a letter or a digit, at most 80
  characters and no word three times in a row, and is not its property's name; a list has no value twice. `fields` maps
  a property (dots lead into objects) to a regular expression that its value must match, without regard to case unless
  the expression has capital letters, or to the smallest and largest number; for a list, these bound its length.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from tools.demo_cases.cases import Schema, Step

DECLINES = (
    *("can't", "cannot", "can not", "unable", "not able", "couldn't", "don't know", "do not know", "don't have"),
    *("do not have", "have no", "no access", "no way to", "can only", "too small", "too hard", "haven't told"),
    *("didn't tell", "not told", "not sure", "beyond", "sorry"),
)
_APOSTROPHE = "\N{RIGHT SINGLE QUOTATION MARK}"
_AROUND = " \n\t\"'`*“”\N{LEFT SINGLE QUOTATION MARK}" + _APOSTROPHE
_LONGEST_STRING = 80
_SHOWN = 300


class Said(NamedTuple):
    """An answer: its text, the names and arguments (JSON) of its calls, and whether it ended by itself."""

    text: str
    calls: Sequence[tuple[str, str]] = ()
    ended: bool = True


def wrong_text(step: Step, said: Said, schema: Schema | None = None) -> str | None:
    """Say what is wrong with an answer that should be text; None if it is right."""
    if said.calls:
        return f"calls {_shown(said.calls)}"
    if not said.ended:
        return f"doesn't end: {_shown(said.text)}"
    if not said.text.strip():
        return "says nothing"
    why = _wrong_json(step, said.text, schema) if schema else _wrong_words(step, said.text)
    return why and f"{why}: {_shown(said.text)}"


def wrong_calls(step: Step, said: Said, schemas: dict[str, Schema]) -> str | None:
    """Say what is wrong with an answer that should be the step's calls; None if it is right."""
    missing = step.calls()
    if not said.calls:
        return f"calls nothing: {_shown(said.text)}"
    for name, arguments in said.calls:
        found = next(
            (call for call in missing if call[0] == name and _same_call(call[1], arguments, schemas[name])), None
        )
        if found is None:
            return f"calls {_shown(said.calls)}"
        missing.remove(found)
    return f"doesn't call {_shown(missing)}" if missing else None


def misfit(value: Any, schema: Schema, where: str = "the answer") -> str | None:
    """Say where a value doesn't fit a schema of `cases.object_schema`; None if it fits."""
    if schema["type"] == "object":
        if not isinstance(value, dict) or value.keys() - schema["properties"] or set(schema["required"]) - value.keys():
            return f"{where} has other properties"
        inner = ((name, part, schema["properties"][name]) for name, part in value.items())
    elif schema["type"] == "array":
        if not isinstance(value, list):
            return f"{where} is no list"
        inner = ((where, part, schema["items"]) for part in value)
    else:
        types: dict[str, tuple[type, ...]] = {"string": (str,), "integer": (int,), "number": (int, float)}
        fits = type(value) in types.get(schema["type"], (bool,)) and value in schema.get("enum", [value])
        return None if fits else f"{where} is no {schema['type']}"
    return next((why for name, part, kind in inner if (why := misfit(part, kind, name))), None)


def _shown(what: Any) -> str:
    text = what if isinstance(what, str) else ", ".join(f"{name}({arguments})" for name, arguments in what)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def _same_call(wanted: dict[str, Any], written: str, schema: Schema) -> bool:
    try:
        arguments = json.loads(written)
    except ValueError:
        return False
    if misfit(arguments, schema) or arguments.keys() != wanted.keys():
        return False
    return all(_same(wanted[name], value) for name, value in arguments.items())


def _same(wanted: Any, value: Any) -> bool:
    if isinstance(wanted, list) and not isinstance(value, list):
        return any(_same(one, value) for one in wanted)
    return bool(_plain(wanted) == _plain(value))


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return _bare(value).casefold() if isinstance(value, str) else value


def _bare(text: str) -> str:
    """Return a text without the quotes and white space around it and the full stop at its end."""
    return text.strip().removesuffix(".").strip(_AROUND).removesuffix(".").replace(_APOSTROPHE, "'")


def _holds(text: str, phrase: str) -> bool:
    def plain(what: str) -> str:
        return " ".join(what.replace(_APOSTROPHE, "'").casefold().split())

    wanted = plain(phrase)
    before = r"(?<!\w)(?<!\d[.,])" if wanted[0].isdigit() else r"(?<!\w)" if wanted[0].isalpha() else ""
    after = r"(?!\w|[.,:]\d)" if wanted[-1].isdigit() else r"(?!\w)" if wanted[-1].isalpha() else ""
    return re.search(before + re.escape(wanted) + after, plain(text)) is not None


def _wrong_whole(step: Step, text: str) -> str | None:
    if step.says is not None:
        right = [step.says] if isinstance(step.says, str) else step.says
        return None if _bare(text) in map(_bare, right) else f"isn't {right[0]}"
    if not re.search(r"\w", text):
        return "makes no sense"
    return "is a JSON object" if re.fullmatch(r"\W*\{.*\}\W*", text, re.DOTALL) else None


def _wrong_words(step: Step, text: str) -> str | None:
    if why := _wrong_whole(step, text):
        return why
    for one in step.has:
        if not any(_holds(text, phrase) for phrase in ([one] if isinstance(one, str) else one)):
            return f"lacks {one if isinstance(one, str) else ' or '.join(one)}"
    if found := [phrase for phrase in step.lacks if _holds(text, phrase)]:
        return f"has {found[0]}"
    if step.number is not None:
        numbers = re.findall(r"-?\d[\d,]*(?:\.\d+)?", text)
        if not numbers or float(numbers[-1].replace(",", "")) != step.number:
            return f"isn't {step.number:g}"
    if step.declines and not any(_holds(text, phrase) for phrase in DECLINES):
        return "doesn't decline"
    return None


def _wrong_json(step: Step, text: str, schema: Schema) -> str | None:
    try:
        value = json.loads(text)
    except ValueError:
        return "is no JSON"
    if why := misfit(value, schema) or _nonsense(value, "answer"):
        return why
    for path, wanted in step.fields.items():
        part = value
        for name in path.split("."):
            part = part[name]
        if isinstance(wanted, str):
            text = part if isinstance(part, str) else json.dumps(part)
            right = re.search(wanted, text, _case(wanted)) is not None
        else:
            right = wanted[0] <= (len(part) if isinstance(part, list) else part) <= wanted[1]
        if not right:
            return f"{path} isn't {wanted if isinstance(wanted, str) else '{:g} to {:g}'.format(*wanted)}"
    return None


def _case(pattern: str) -> re.RegexFlag:
    return re.RegexFlag(0) if pattern != pattern.lower() else re.IGNORECASE


def _nonsense(value: Any, name: str) -> str | None:
    """Say which string or list of an answer makes no sense; None if all do."""
    if isinstance(value, dict):
        return next((why for key, part in value.items() if (why := _nonsense(part, key))), None)
    if isinstance(value, list):
        if any(part in value[:index] for index, part in enumerate(value)):
            return f"{name} has something twice"
        return next((why for part in value if (why := _nonsense(part, name))), None)
    if not isinstance(value, str):
        return None
    if len(value) > _LONGEST_STRING or not re.search(r"\w", value) or value.casefold() == name.casefold():
        return f"{name} makes no sense"
    return f"{name} repeats itself" if re.search(r"\b(\w+)(?:\W+\1\b){2}", value, re.IGNORECASE) else None
