"""What becomes a grammar, what binds where, and what is refused."""

import json
import random
import re
from typing import Any, cast

import numpy as np
import pytest
from mlx_lm.tokenizer_utils import TokenizerWrapper
from msgspec.structs import replace
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from orchard.backends.text.grammar.constraint import Constraints
from orchard.backends.text.grammar.writer import GrammarWriter
from orchard.backends.text.model import TextModel
from orchard.backends.text.output import Vocabulary
from orchard.backends.text.prompt.special_tokens import special_tokens, template_source
from orchard.core.errors import OrchardError
from orchard.core.tasks.generate import Generate, Grammar, Message, TextPart, Tool
from orchard.engine.sampling.grammar import BoundGrammar as Bound
from orchard.engine.sampling.grammar import GrammarState, Masks
from orchard.formats import registry
from orchard.formats.format import CallArguments, CallStart
from orchard.formats.registry import Family, choose_family
from tests.support.examples import share, some

ASKED = "<|im_start|>assistant\n"
CLOSED = f"{ASKED}<think>\n\n</think>\n\n"
OPENED = f"{ASKED}<think>\n"
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
WEATHER = Tool(
    "weather", parameters={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
)
TIME = Tool("time", strict=True)
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>'


@pytest.fixture(scope="module")
def constraints(model: TextModel) -> Constraints:
    return made(model)


@pytest.fixture(scope="module")
def family(model: TextModel) -> Family:
    return choose_family(template_source(model.tokenizer))


def made(model: TextModel) -> Constraints:
    tokenizer = model.tokenizer
    return Constraints(tokenizer, Vocabulary(tokenizer).bytes_of, model.vocab_size, **grammars(tokenizer))


def grammars(tokenizer: Any) -> dict[str, Any]:
    special = special_tokens(tokenizer)
    return {"special_tokens": special, "write": GrammarWriter(special).write}


def bind(
    constraints: Constraints, task: Generate, family: Family, prompt: str, most: int | None = None
) -> Bound | None:
    constraint = constraints.describe(task, family, prompt, most)
    return constraints.compile(constraint) if constraint else None


def wanting(kind: Any, value: Any = None, **fields: Any) -> Generate:
    return Generate(grammar=Grammar(kind, value, "response_format"), **fields)


class Taken:
    """How far a text is taken, token by token, each of which must be allowed."""

    def __init__(self, constraints: Constraints, family: Family, task: Generate, prompt: str, text: str) -> None:
        grammar = bind(constraints, task, family, prompt)
        assert grammar
        follower = GrammarState(grammar)
        masks = Masks(constraints._vocab_size)
        self.rest = constraints._hf.encode(text, add_special_tokens=False)
        self.begins_free = follower.is_free
        while self.rest and self._allows(masks, follower, self.rest[0]):
            follower.take(self.rest.pop(0))
        self.may_end = any(self._allows(masks, follower, token) for token in constraints._eos)
        self.free = follower.is_free

    @property
    def whole(self) -> bool:
        return not self.rest and self.may_end

    @staticmethod
    def _allows(masks: Masks, follower: GrammarState, token: int) -> bool:
        words, failed = masks.compute([follower])
        assert not failed
        return words is None or bool(words[0, token // 32] >> (token % 32) & 1)


@pytest.fixture
def taken(constraints: Constraints, family: Family) -> Any:
    def take(task: Generate, text: str, prompt: str = CLOSED) -> Taken:
        return Taken(constraints, family, task, prompt, text)

    return take


@pytest.mark.parametrize(
    ("kind", "value", "good", "bad"),
    [
        ("json_schema", PERSON, '{"name": "Ann", "age": 3}', '{"name": "Ann"}'),
        ("json_schema", PERSON, '{"name":"Ann","age":3}', '{"name":"Ann","age":3.5}'),
        ("json_schema", PERSON, '{\n  "name": "Ann",\n  "age": 3\n}', '{\n\n"name": "Ann", "age": 3}'),
        ("json_schema", PERSON, '{ "name" : "<x>", "age" : -1 }', '{  "name": "Ann", "age": 3}'),
        ("json_schema", True, '["x", {}]', '["x"'),
        ("json_schema", {"type": "string", "format": "int32"}, '"x"', '"x'),
        ("json_schema", {"type": "string", "format": "date"}, '"2024-01-31"', '"x"'),
        ("json_schema", {"properties": {"format": {"format": "zip"}}, "type": "object"}, '{"format": 1}', "[1]"),
        ("json_schema", {"enum": [{"format": "zip"}]}, '{"format": "zip"}', "{}"),
        ("json_schema", {"type": "array", "x-guidance": {"item_separator": ";"}}, "[1, 2]", "[1;2]"),
        ("json_schema", {"type": "object", "properties": {"n": {"$ref": "#"}}}, '{"n": {"n": {}}}', '{"n": 1}'),
        ("json_schema", {"type": "number", "multipleOf": 0.25}, "1.75", "1.7"),
        ("json_object", None, '{"a": [1, {"b": null}]}', "[1]"),
        ("regex", r"[a-c]+/\d{2}", "abc/12", "abc/1"),
        ("regex", r"^(yes|no)$", "no", "nope"),
        ("regex", r"\d", "1", "٣"),
        ("regex", "", "", "a"),
        ("lark", 'start: "a" b\nb: "(" b ")" | "x"', "a((x))", "a((x)"),
        ("choice", ["yes", 'no "way"', "nö\n"], 'no "way"', "no"),
        ("choice", ["yes", 'no "way"', "nö\n"], "nö\n", "nö"),
    ],
)  # fmt: skip
def test_what_an_answer_may_be(taken: Any, kind: str, value: Any, good: str, bad: str) -> None:
    assert taken(wanting(kind, value), good).whole
    assert not taken(wanting(kind, value), bad).whole
    assert not taken(wanting(kind, value), good + "x").whole


@pytest.mark.parametrize(
    ("kind", "value", "why"),
    [
        ("json_schema", False, "nothing satisfies the schema 'false'"),
        ("json_schema", {"type": "strin"}, "strin"),
        ("json_schema", {"type": "array", "uniqueItems": True}, "uniqueItems"),
        ("json_schema", {"not": {}}, "not"),
        ("json_schema", {"type": "string", "pattern": "(?=a)b"}, "look-around"),
        ("json_schema", {"$ref": "http://x/y"}, "http://x/y"),
        ("json_schema", {"$ref": "#"}, ""),
        ("json_schema", {"type": "integer", "minimum": 3, "maximum": 2}, "minimum"),
        ("json_schema", {"type": "integer", "multipleOf": 1_000_003}, "multipleOf 1000003"),
        ("json_schema", {"type": "integer", "multipleOf": 1e300}, "multipleOf"),
        ("json_schema", {"type": "object", "properties": {str(n): {} for n in range(3000)}}, ""),
        ("json_schema", {"enum": ["x" * 300_000]}, "300,"),
        ("regex", "(", "regex"),
        ("regex", "a\\", "escape"),
        ("lark", "nothing", ""),
        ("lark", 'start: "a" undefined', "undefined"),
        ("lark", "start: " + "(" * 9000 + '"a"' + ")" * 9000, "nested"),
        ("lark", 'start: start "a"', ""),
    ],
)
def test_what_cannot_be_kept_is_refused(
    constraints: Constraints, family: Family, kind: Any, value: Any, why: str
) -> None:
    for _ in range(2):  # the second time from the cache
        with pytest.raises(OrchardError) as failure:
            bind(constraints, wanting(kind, value), family, CLOSED)
        assert failure.value.kind == "invalid_request"
        assert failure.value.param == "response_format"
        assert failure.value.message.startswith(f"the {kind} of `response_format` can't be enforced: ")
        assert why in failure.value.message
        assert "\n" not in failure.value.message
        assert len(failure.value.message) < 400


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "array", "items": {"type": "integer"}, "uniqueItems": True}, "[1, 1]", '["a"]'),
        ({"type": "string", "maxLength": 2, "not": {"const": "a"}}, '"a"', '"abc"'),
        ({"type": "integer", "if": {"minimum": 3}, "then": {"maximum": 5}, "else": {"multipleOf": 2}}, "7", '"a"'),
        ({"oneOf": [{"minimum": 1}, {"maximum": 9}], "type": "integer"}, "5", "1.5"),
        ({"type": "string", "pattern": "^(?!a)", "maxLength": 2}, '"a"', '"abc"'),
        ({"properties": {"pattern": {"pattern": "(?=a"}}, "required": ["pattern"]}, '{"pattern": 1}', "{}"),
    ],
    ids=str,
)
def test_what_of_a_schema_can_be_kept_that_is_not_strict(taken: Any, schema: Any, good: str, bad: str) -> None:
    task = Generate(grammar=Grammar("json_schema", schema, "response_format", strict=False))
    assert taken(task, good).whole
    assert not taken(task, bad).whole
    with pytest.raises(OrchardError, match="the json_schema of `response_format` can't be enforced"):
        taken(wanting("json_schema", schema), good)


def test_what_is_no_schema_is_refused_either_way(constraints: Constraints, family: Family) -> None:
    for schema in ({"type": "strin"}, {"$ref": "http://x/y"}):
        task = Generate(grammar=Grammar("json_schema", schema, "response_format", strict=False))
        with pytest.raises(OrchardError, match="the json_schema of `response_format` can't be enforced"):
            bind(constraints, task, family, CLOSED)


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


@pytest.mark.parametrize("depth", [100, 400])
def test_a_schema_may_not_be_too_deep(constraints: Constraints, family: Family, depth: int) -> None:
    with pytest.raises(OrchardError, match="nested more than 48 levels deep"):
        bind(constraints, wanting("json_schema", nested(depth)), family, CLOSED)
    assert bind(constraints, wanting("json_schema", nested(40)), family, CLOSED)


def test_nothing_binds_an_ordinary_answer(constraints: Constraints, family: Family) -> None:
    assert bind(constraints, Generate(), family, CLOSED) is None
    assert bind(constraints, Generate(tools=(WEATHER,)), family, CLOSED) is None


def test_where_an_answer_is_bound(taken: Any) -> None:
    task = wanting("choice", ["ja"])
    assert taken(task, "ja").whole
    assert not taken(task, "<think>so</think>ja").whole
    for text in ("so\n</think>ja", "</think>\n\nja", "<tool_call></think>\nja"):
        assert taken(task, text, OPENED).whole
    for text in ("ja", "so</think>", "so</think>nein", "so</think>\n\n\nja"):
        assert not taken(task, text, OPENED).whole
    for text in ("ja", "<think>so</think>\n\nja"):
        assert taken(task, text, ASKED).whole
    for text in ("<think>ja", "\nja", "<think>so</think>nein"):
        assert not taken(task, text, ASKED).whole
    for fields in ({"template_args": {"enable_thinking": False}}, {"prompt": ASKED}):
        assert not taken(wanting("choice", ["ja"], **fields), "<think>so</think>ja", ASKED).whole


def test_reasoning_whose_tags_are_several_tokens(constraints: Constraints) -> None:
    family = choose_family("", tool_call_parser="harmony")
    final, so = "<|channel|>final<|message|>", "<|channel|>analysis<|message|>so\n<|end|>"
    prompt = "<|start|>user<|message|>x<|end|><|start|>assistant"

    def whole(text: str, prompt: str = prompt, task: Generate | None = None) -> bool:
        return Taken(constraints, family, task or wanting("choice", ["ja"]), prompt, text).whole

    assert whole(f"{final}ja")
    assert whole(f"{so}<|start|>assistant{final}ja")
    assert whole("ja", prompt + final)
    assert whole(f"so<|end|><|start|>assistant{final}ja", f"{prompt}<|channel|>analysis<|message|>")
    for text in ("ja", so, f"{so}ja", f"{final}nein"):
        assert not whole(text)
    call = ' to=functions.weather<|channel|>commentary <|constrain|>json<|message|>{"city": "Rome"}'
    must = Generate(tools=(WEATHER,), must_call=True)
    assert whole(call, task=must)
    assert whole(f"{so}<|start|>assistant{call}", task=must)
    assert not whole(f"{final}ja", task=must)


def test_models_that_address_their_messages_do_so_before_an_answer_that_is_bound(constraints: Constraints) -> None:
    def whole(family: Family, text: str, **fields: Any) -> bool:
        task = Generate(**fields) if fields else wanting("choice", ["ja"])
        return Taken(constraints, family, task, "<|start|>assistant", text).whole

    muse = choose_family("", tool_call_parser="muse_glimmer")
    answer, so = " to=user<|message|>ja", " to=self<|message|>so<|eom|><|start|>assistant"
    assert whole(muse, answer)
    assert whole(muse, f"{so}{answer}")
    assert not whole(muse, "ja")
    city = '<atem:parameter name="city">Rome</atem:parameter>\n'
    calls = '<atem:function_calls>\n<atem:invoke name="weather">\n{}</atem:invoke>\n</atem:function_calls>'
    call = f" to=weather<|message|>{calls}"
    assert whole(muse, call.format(city), tools=(WEATHER,), must_call=True)
    assert not whole(muse, answer, tools=(WEATHER,), must_call=True)
    strict = (replace(WEATHER, strict=True),)
    assert whole(muse, f"{so} to=user<|message|>ja", tools=strict)
    assert whole(muse, call.format(city), tools=strict)
    assert not whole(muse, call.format(""), tools=strict)
    functionary = choose_family("", tool_call_parser="functionary_v3_2")
    assert whole(functionary, "all\nja")
    assert not whole(functionary, "ja")
    assert whole(functionary, 'weather\n{"city": "Rome"}', tools=(WEATHER,), must_call=True)


@pytest.mark.parametrize("prompt", [CLOSED, OPENED, ASKED])
def test_a_call_that_must_be_made(taken: Any, prompt: str) -> None:
    task = Generate(tools=(WEATHER, TIME), must_call=True)
    lead = "so</think>\n\n" if prompt == OPENED else ""
    assert taken(task, lead + CALL, prompt).whole
    assert taken(task, f"{lead}{CALL}\n{CALL}", prompt).whole
    other = '<tool_call>\n{"name": "time", "arguments": {}}\n</tool_call>'
    assert taken(task, f"{lead}{other}\n{CALL}", prompt).whole
    for text in (
        "",
        "Hello",
        CALL.replace("weather", "climate"),
        CALL.replace("Rome", "Rome\n"),
        CALL[:-3],
        f"{CALL}\n",
    ):
        assert not taken(task, lead + text, prompt).whole
    one = Generate(tools=(WEATHER, TIME), must_call=True, parallel_tool_calls=False)
    assert taken(one, lead + CALL, prompt).whole
    assert taken(one, f"{lead}{CALL}\n", prompt).rest


def test_strict_tools_leave_all_but_their_calls_free(taken: Any) -> None:
    task = Generate(tools=(WEATHER, TIME))
    begun = taken(task, "Let me see. <think>")
    assert begun.begins_free
    assert begun.free
    after = taken(task, f"Let me see.\n{CALL}\nSo")
    assert after.free
    assert not after.rest
    wrong = taken(task, '<tool_call>\n{"name": "weather", "arguments": {"town": 1}}')
    assert wrong.rest
    again = taken(task, f'{CALL}\n<tool_call>\n{{"name": "climate"')
    assert again.rest
    # A call in the reasoning is none.
    thinking = taken(task, '<tool_call>{"no</think>\n\n<tool_call>no', OPENED)
    assert len(thinking.rest) == len("no")


def test_a_grammar_beside_tools_binds_the_text_and_leaves_the_calls(taken: Any) -> None:
    task = wanting("choice", ["ja"], tools=(WEATHER,))
    assert taken(task, "ja").whole
    assert taken(task, CALL).whole
    assert not taken(task, f"ja{CALL}").whole
    assert not taken(task, "Hello").whole


def test_what_can_be_kept_of_a_tool_that_is_not_strict(taken: Any, constraints: Constraints, family: Family) -> None:
    loose = Tool(
        "weather", parameters={"type": "object", "properties": {"city": {"not": {"type": "null"}, "type": "string"}}}
    )
    task = Generate(tools=(loose,), must_call=True)
    assert taken(task, CALL).whole
    assert taken(task, CALL.replace('"Rome"', "1")).rest
    hopeless = Tool("weather", parameters={"type": "object", "properties": {"city": {"type": "town"}}})
    task = Generate(tools=(hopeless,), must_call=True)
    assert taken(task, CALL.replace('"Rome"', "[1]")).whole
    strict = Tool("weather", parameters={"type": "object", "properties": {"city": {"type": "town"}}}, strict=True)
    for must in (False, True):
        with pytest.raises(
            OrchardError, match="the parameters of the strict tool 'weather' can't be enforced: Invalid type: town"
        ) as failure:
            bind(constraints, Generate(tools=(TIME, strict), must_call=must), family, CLOSED)
        assert failure.value.param == "tools"


def test_strict_tools_whose_format_cannot_keep_their_schema_are_refused(constraints: Constraints) -> None:
    family = choose_family("", tool_call_parser="qwen3_coder")
    for schema, why in (
        ({"properties": {"a": {"type": "string", "pattern": "(?=a)"}}}, r"the pattern '\(\?=a\)': look-around"),
        ({"properties": {"a": {}}, "minProperties": 1}, "the arguments can't be made to match `minProperties`"),
        ({"properties": {"a": {"type": "array", "uniqueItems": True}}}, "Unimplemented keys: ..uniqueItems"),
    ):
        strict = Tool("f", parameters=schema, strict=True)
        for tools, must in (((strict,), True), ((WEATHER, strict), False)):
            with pytest.raises(OrchardError, match=f"the strict tool 'f' can't be enforced: .*{why}") as failure:
                bind(constraints, Generate(tools=tools, must_call=must), family, "")
            assert failure.value.param == "tools"
        assert bind(constraints, Generate(tools=(replace(strict, strict=False),), must_call=True), family, "")


def test_a_tool_that_cannot_be_kept_leaves_the_others_as_they_are(constraints: Constraints) -> None:
    family = choose_family("", tool_call_parser="qwen3_coder")
    loose = Tool("f", parameters={"properties": {"a": {"type": "town"}}})
    code = Tool("g", parameters={"properties": {"a": {"type": "string", "pattern": "^x$"}}})

    def whole(name: str, value: str) -> bool:
        text = f"<tool_call>\n<function={name}>\n<parameter=a>\n{value}\n</parameter>\n</function>\n</tool_call>"
        return Taken(constraints, family, Generate(tools=(loose, code), must_call=True), "", text).whole

    assert whole("f", "any")
    assert whole("g", "x")
    assert not whole("g", "y")


def test_many_large_tools_are_bound_by_their_names(taken: Any) -> None:
    large = {"type": "object", "properties": {f"property {n}": {"type": "string"} for n in range(300)}}
    tools = [Tool(f"tool {n}", parameters=large) for n in range(40)]
    task = Generate(tools=(WEATHER, *tools), must_call=True)
    assert taken(task, CALL.replace("weather", "tool 7").replace('"Rome"', "[1]")).whole
    assert taken(task, CALL.replace("weather", "tool 70")).rest


def test_a_schema_is_compiled_once(model: TextModel, family: Family) -> None:
    constraints = made(model)
    task = wanting("json_schema", PERSON)
    first, again = (bind(constraints, task, family, CLOSED) for _ in range(2))
    assert first
    assert again
    assert again.compiled is first.compiled


def test_what_others_have_compiled_is_compiled_again(model: TextModel, family: Family) -> None:
    constraints = made(model)
    described = [constraints.describe(wanting("choice", ["ja"]), family, CLOSED, None, salt) for salt in (b"a", b"b")]
    for one in described:
        assert one
        assert not constraints.is_compiled(one)
        constraints.compile(one)
        assert constraints.is_compiled(one)


def test_the_cache_is_bounded(model: TextModel, family: Family) -> None:
    constraints = made(model)
    for number in range(200):
        bind(constraints, wanting("choice", [str(number)]), family, CLOSED)
    assert len(constraints._compiled) == 64


def random_walk(grammar: Bound, tokens: list[int], seed: int) -> list[int] | None:
    """Go on with any tokens that are allowed, to an end of the turn or of what is bound; None: it takes too long."""
    alphabet, rng = grammar.vocabulary, random.Random(seed)
    ends = {token for token, piece in enumerate(alphabet.pieces) if piece == b"<|im_end|>"}
    follower, masks = GrammarState(grammar, tokens), Masks(len(alphabet.pieces))
    for _ in range(400):
        words, failed = masks.compute([follower])
        assert not failed
        if words is None:
            return tokens
        allowed = np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")).tolist()
        more = [token for token in allowed if token not in ends]
        if not more or (len(more) < len(allowed) and rng.random() < 0.6):
            return tokens
        tokens = [*tokens, rng.choice(more)]
        follower.take(tokens[-1])
    return None


CITY = {"enum": ["Rome", "New York"]}
DAYS = {"type": "integer", "minimum": 0, "maximum": 9}
CODE = {"type": ["string", "null"], "pattern": "^[A-Z]{2}[0-9]?$"}
NOTE = {"anyOf": [{"type": "string", "maxLength": 4}, {"type": "array", "items": {"const": 1}, "maxItems": 2}]}
ARGUMENTS = {
    "type": "object",
    "properties": {"city": CITY, "days": DAYS, "code": CODE, "note": NOTE},
    "additionalProperties": False,
}
TRIP = Tool("trip", parameters=ARGUMENTS | {"required": ["days"]}, strict=True)
STAY = Tool("stay", parameters=ARGUMENTS, strict=True)


def calls_in(family: Family, text: str, *tools: Tool) -> list[tuple[str, str]]:
    """The calls that a format finds in an answer."""
    format_ = family.begin("", (TRIP, STAY, *tools))
    calls: list[tuple[str, str]] = []
    for piece in [*format_.feed(text), *format_.finish()]:
        if isinstance(piece, CallStart):
            calls.append((piece.name, ""))
        elif isinstance(piece, CallArguments):
            calls[-1] = calls[-1][0], calls[-1][1] + piece.text
    return calls


# A family's calls have one form, whether one must come or may: so one is tried with each family, and the other in the
# deep profile.
every_family = pytest.mark.parametrize(
    ("name", "must"),
    some([(row.names[0], (place + turn) % 2 == 0) for place, row in enumerate(registry.CALLS) for turn in (0, 1)], 2),
)


@every_family
def test_every_family_reads_the_calls_that_it_is_bound_to(constraints: Constraints, name: str, must: bool) -> None:
    family = choose_family("", tool_call_parser=name)
    grammar = bind(constraints, Generate(tools=(TRIP, STAY), must_call=must), family, "")
    assert grammar
    trigger = grammar.trigger.decode()
    begun = constraints._hf.encode(trigger, add_special_tokens=False)
    shape = family.calls_grammar((TRIP, STAY))
    assert shape
    # What stands before the trigger is free.
    before = (shape.prefix + shape.calls[0].begin).partition(trigger)[0] if trigger else ""
    found = []
    for seed in range(share(6)):
        tokens = random_walk(grammar, begun, seed)
        if tokens is None:
            continue
        text = before + b"".join(grammar.vocabulary.pieces[token] for token in tokens).decode()
        calls = calls_in(family, text)
        assert calls or not (must or grammar.trigger), text
        for tool, arguments in calls:
            given = json.loads(arguments)
            assert tool in ("trip", "stay")
            assert given.keys() <= {"city", "days", "code", "note"}
            assert re.fullmatch("null|[A-Z]{2}[0-9]?", given.get("code") or "null")
            note = given.get("note", "")
            assert len(note) <= 4 if isinstance(note, str) else note in ([], [1], [1, 1])
            assert type(given.get("days", 1 if tool == "stay" else None)) is int
            assert given.get("city", "Rome") in CITY["enum"]
        found += calls
    assert found or not (must or grammar.trigger)


ADDS = Tool(
    "adds",
    parameters={"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]},
    strict=True,
    input_grammar='start: line+\nline: "+" /[<"\\\\a]{1,3}/ LF\n%import common.LF',
)


@every_family
def test_the_input_of_a_custom_tool_keeps_its_grammar_in_every_family(
    constraints: Constraints, name: str, must: bool
) -> None:
    family = choose_family("", tool_call_parser=name)
    grammar = bind(constraints, Generate(tools=(ADDS,), must_call=must), family, "")
    assert grammar
    trigger = grammar.trigger.decode()
    begun = constraints._hf.encode(trigger, add_special_tokens=False)
    shape = family.calls_grammar((ADDS,))
    assert shape
    before = (shape.prefix + shape.calls[0].begin).partition(trigger)[0] if trigger else ""
    found = []
    for seed in range(share(8)):
        if tokens := random_walk(grammar, begun, seed):
            text = before + b"".join(grammar.vocabulary.pieces[token] for token in tokens).decode()
            found += [json.loads(arguments) for tool, arguments in calls_in(family, text, ADDS) if tool == "adds"]
    assert found or not (must or grammar.trigger)
    for given in found:
        assert given.keys() == {"input"}
        # A format that ends a text with a newline may leave out the text's own.
        text = given["input"].removesuffix("\n") + "\n"
        assert re.fullmatch(r'(\+[<"\\a]{1,3}\n)+', text), given


def test_the_input_of_a_custom_tool_may_look_like_its_end(constraints: Constraints) -> None:
    call = '<minimax:tool_call>\n<invoke name="adds">\n<parameter name="input">'
    family = choose_family("", tool_call_parser="minimax_m2")
    task = Generate(tools=(replace(ADDS, input_grammar="start: /[<pa\\/]+/"),), must_call=True)
    for text, rest in (("<a</pa<</parameter>\n</invoke>", False), ("<a</b", True)):
        found = Taken(constraints, family, task, CLOSED, call + text)
        assert bool(found.rest) is rest


def test_a_custom_tool_with_a_grammar_is_refused_where_calls_have_no_form(
    constraints: Constraints, family: Family
) -> None:
    class Mute:
        name, reasoning_tags, headers, begin = "mute", None, None, family.begin

        def calls_grammar(self, tools: Any) -> None:
            return None

    assert bind(constraints, Generate(tools=(TIME,)), cast(Any, Mute()), CLOSED) is None
    with pytest.raises(OrchardError, match="how this model writes calls is not known") as caught:
        bind(constraints, Generate(tools=(ADDS,)), cast(Any, Mute()), CLOSED)
    assert caught.value.param == "tools"


def test_a_grammar_of_a_custom_tool_that_can_not_be_kept_is_refused(constraints: Constraints, family: Family) -> None:
    broken = replace(ADDS, input_grammar="start: x")
    for must in (True, False):
        with pytest.raises(
            OrchardError, match="the grammar of the custom tool 'adds' can't be enforced: unknown name"
        ) as caught:
            bind(constraints, Generate(tools=(WEATHER, broken), must_call=must), family, CLOSED)
        assert (caught.value.kind, caught.value.param) == ("invalid_request", "tools")


MOST = 300


def thought_of(grammar: Bound, begun: list[int], thought: int) -> list[int]:
    """What is written up to the end of the reasoning, where the model goes on thinking for as long as it may."""
    assert grammar.reasoning
    masks = Masks(len(grammar.vocabulary.pieces))
    follower = GrammarState(grammar, begun)
    written = list(begun)
    while not b"".join(grammar.vocabulary.pieces[token] for token in written).endswith(grammar.reasoning.end):
        follower.tokens_left = MOST - len(written)
        words, failed = masks.compute([follower])
        assert not failed
        assert words is not None
        allowed = np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little"))
        written.append(thought if thought in allowed else int(allowed[0]))
        follower.take(written[-1])
    return written


@pytest.mark.parametrize(
    ("parser", "prompt", "tag"),
    [
        ("hermes", OPENED, ""),
        ("hermes", ASKED, "<think>"),
        ("harmony", "<|start|>assistant", "<|channel|>analysis<|message|>"),
        ("harmony", "<|start|>assistant<|channel|>analysis<|message|>", ""),
        ("gemma4", "", "<|channel>thought"),
    ],
)
@pytest.mark.parametrize("task", [Generate(tools=(TIME,), must_call=True), wanting("choice", ["ja"])])
def test_reasoning_ends_in_time_for_an_answer(
    constraints: Constraints, parser: str, prompt: str, tag: str, task: Generate
) -> None:
    family = choose_family("<think>" if parser == "hermes" else "", tool_call_parser=parser, reasoning_parser=parser)
    grammar = bind(constraints, task, family, prompt, MOST)
    assert grammar
    assert grammar.reasoning
    begun = constraints._hf.encode(tag, add_special_tokens=False)
    (so,) = constraints._hf.encode("s", add_special_tokens=False)
    written = thought_of(grammar, begun, so)
    constraint = constraints.describe(task, family, prompt)
    assert constraint
    shortest = constraints._write(constraint.request)
    assert shortest
    left = MOST - len(written)
    assert left - 3 == constraints._short_answer_length(shortest)  # two newlines before, and the end of the turn
    assert written[len(begun)] == so


def test_a_model_does_not_begin_to_think_where_there_is_no_room_for_it(
    constraints: Constraints, family: Family
) -> None:
    task = wanting("choice", ["ja"])
    for parser, prompt, least in (("hermes", ASKED, 5), ("harmony", "<|start|>assistant", 40)):
        own = family if parser == "hermes" else choose_family("", tool_call_parser=parser)
        grammars = [bind(constraints, task, own, prompt, most) for most in (least, MOST, None)]
        assert [bool(one and one.reasoning) for one in grammars] == [False, True, True]


def test_strict_tools_end_no_reasoning(constraints: Constraints, family: Family) -> None:
    grammar = bind(constraints, Generate(tools=(TIME,)), family, OPENED, 5)
    assert grammar
    assert grammar.reasoning
    assert not grammar.reasoning.needs


def wrapped(tokenizer: Tokenizer, eos: str) -> Any:
    return TokenizerWrapper(PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=eos))


def sentence_pieces() -> Tokenizer:
    """A vocabulary like Llama 2's: spaces are ▁, and what has no piece is written in bytes."""
    pieces = ["<s>", "</s>", "<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *'▁{}":,Ann', "▁{", '▁"', '":']
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.BPE(vocabulary, [("▁", "{"), ("▁", '"'), ('"', ":")], byte_fallback=True))
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never", split=False)
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in ("<s>", "</s>")])
    return tokenizer


def test_a_vocabulary_with_bytes_for_what_it_lacks() -> None:
    tokenizer = wrapped(sentence_pieces(), "</s>")
    size = len(tokenizer.get_vocab()) + 3
    constraints = Constraints(
        tokenizer,
        Vocabulary(tokenizer).bytes_of,
        size,
        **grammars(tokenizer),
    )
    family = choose_family("")
    schema = {
        "type": "object",
        "properties": {"ö n": {"type": "string"}},
        "required": ["ö n"],
        "additionalProperties": False,
    }
    task = wanting("json_schema", schema)
    assert Taken(constraints, family, task, "", '{"ö n": "Ann {ä}"}').whole
    assert not Taken(constraints, family, task, "", '{"n": "Ann"}').whole


def test_tokens_without_a_text_of_their_own_are_refused(family: Family) -> None:
    tokenizer = Tokenizer(models.WordPiece({"[UNK]": 0, "a": 1, "##b": 2, "[SEP]": 3}))
    tokenizer.decoder = decoders.WordPiece()
    tokenizer = wrapped(tokenizer, "[SEP]")
    constraints = Constraints(tokenizer, None, 8, **grammars(tokenizer))
    for task, param in (
        (wanting("json_object"), "response_format"),
        (Generate(tools=(TIME,), must_call=True), "tool_choice"),
    ):
        with pytest.raises(OrchardError, match="can't be constrained") as failure:
            bind(constraints, task, family, "")
        assert failure.value.param == param
    assert bind(constraints, Generate(tools=(TIME,)), family, "") is None
    with pytest.raises(OrchardError, match="can't be constrained") as failure:
        bind(constraints, Generate(tools=(ADDS,)), family, "")
    assert failure.value.param == "tools"


def test_an_answer_that_goes_on_keeps_its_grammar_from_its_beginning_on(
    constraints: Constraints, family: Family
) -> None:
    """There is no reasoning in the midst of it, and what stands in the prompt isn't begun again."""
    for text, rest, others in (
        ('{"name": "Jo', 'e", "age": 7}', '{"name": "Joe", "age": 7}'),
        (' {"name":"x","age":', " 12}", "<think>\n"),
    ):
        message = Message("assistant", (TextPart(text),))
        task = wanting("json_schema", PERSON, continue_last=True, messages=(message,))
        taken = Taken(constraints, family, task, f"{ASKED}{text.lstrip()}", rest)
        assert not taken.rest
        assert taken.may_end
        assert Taken(constraints, family, task, f"{ASKED}{text.lstrip()}", others).rest


def test_a_beginning_that_does_not_keep_the_grammar_is_refused(constraints: Constraints, family: Family) -> None:
    message = Message("assistant", (TextPart("Here it is: {"),))
    task = wanting("json_schema", PERSON, continue_last=True, messages=(message,))
    with pytest.raises(OrchardError, match="the unfinished message that the answer continues doesn't match it"):
        bind(constraints, task, family, f"{ASKED}Here it is: {{")
