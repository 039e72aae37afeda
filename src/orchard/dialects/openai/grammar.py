"""The form that a body asks of the answer: OpenAI's schemas, and the extra fields of vLLM."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from orchard.core.tasks.generate import Grammar
from orchard.dialects.common.fields import NonEmpty, Refused
from orchard.dialects.common.json_body import FreeForm, invalid
from orchard.dialects.openai.sampling import SamplingFields

MAX_GRAMMAR_CHARS = 256 * 1024
MAX_TEXTS = 8192

Text = Annotated[str, Meta(min_length=1, max_length=MAX_GRAMMAR_CHARS)]
Texts = Annotated[list[NonEmpty], Meta(min_length=1, max_length=MAX_TEXTS)]
Schema = dict[str, Any] | Text


class StructuredOutputs(Struct):
    """The form of the answer, as vLLM takes it; only one of the fields at a time."""

    json: Schema | None = None
    regex: Text | None = None
    choice: Texts | None = None
    grammar: Text | None = None
    json_object: bool | None = None
    structural_tag: Refused = None


class GrammarFields(SamplingFields, kw_only=True):
    """How tokens are sampled, and the form of the answer, in the fields that vLLM has beside OpenAI's."""

    guided_json: Schema | None = None
    guided_regex: Text | None = None
    guided_choice: Texts | None = None
    guided_grammar: Text | None = None
    structured_outputs: StructuredOutputs | None = None


def grammar(body: GrammarFields, own: Grammar | None, free_form: FreeForm) -> Grammar | None:
    """Return what the answer must look like; `own` is what the dialect's own field asks for.

    Raise OrchardError where several fields ask for a form, or one holds no schema.
    """
    guided = StructuredOutputs(body.guided_json, body.guided_regex, body.guided_choice, body.guided_grammar)
    given = [own] if own else []
    given += _given(guided, "guided_", free_form)
    if body.structured_outputs:
        given += _given(body.structured_outputs, "structured_outputs.", free_form)
    if len(given) > 1:
        raise invalid(given[1].param, f"and `{given[0].param}` both set the form of the answer; give only one of them.")
    return given[0] if given else None


def json_schema(value: Any, param: str, field: str, free_form: FreeForm, *, strict: bool = True) -> Grammar:
    """Return the grammar of a JSON schema; None: any JSON object.

    `field` is where the schema stands, `param` the field to blame where it can't be kept, `strict` as in `Grammar`.
    """
    if value is None:
        return Grammar("json_object", None, param)
    free_form.check(value, field)
    return Grammar("json_schema", value, param, strict)


def _given(wanted: StructuredOutputs, prefix: str, free_form: FreeForm) -> list[Grammar]:
    given = []
    if wanted.json is not None:
        field = prefix + "json"
        value = _parsed(wanted.json, field) if isinstance(wanted.json, str) else wanted.json
        given.append(json_schema(value, field, field, free_form))
    if wanted.regex is not None:
        given.append(Grammar("regex", wanted.regex, prefix + "regex"))
    if wanted.choice is not None:
        free_form.check(wanted.choice, prefix + "choice")
        given.append(Grammar("choice", wanted.choice, prefix + "choice"))
    if wanted.grammar is not None:
        given.append(Grammar("lark", wanted.grammar, prefix + "grammar"))
    if wanted.json_object:
        given.append(Grammar("json_object", None, prefix + "json_object"))
    if wanted.structural_tag is not None:
        raise invalid(prefix + "structural_tag", "is not supported: give json, regex, choice, grammar or json_object.")
    return given


def _parsed(text: str, param: str) -> Any:
    try:
        return msgspec.json.decode(text, type=dict[str, Any] | bool)
    except (msgspec.DecodeError, RecursionError):
        raise invalid(param, "must be a JSON schema, or one as JSON text.") from None
