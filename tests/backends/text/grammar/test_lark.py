"""How trees of calls are printed, terminals for texts up to a tag, and what is wrong with a terminal."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.backends.text.grammar.lark import (
    ANY_TEXT,
    Tags,
    call_rules,
    terminal_fault,
    text_up_to,
    triggered_call_rules,
)
from orchard.formats.call_grammar import (
    CallGrammar,
    CallsGrammar,
    EmbeddedGrammar,
    JsonValue,
    Literal,
    Node,
    Repetition,
    Terminal,
    TextValue,
    alternation,
    concatenation,
    leaves,
    optional_part,
    replace_leaves,
)


@given(text=st.text("</ab>\n", max_size=12))
def test_a_text_up_to_a_tag_doesnt_have_it(text: str) -> None:
    pattern = text_up_to("\n</ab>")[1:-1]
    assert bool(re.fullmatch(pattern, f"{text}\n</ab>")) == ("</ab>" not in text)


@pytest.mark.parametrize(
    ("terminal", "why"),
    [
        ("/a+/", ""),
        ('""', ""),
        ("/a/ & /b/", "nothing satisfies it"),
        ('/a*/ & ~("" | /a+/)', "nothing satisfies it"),
        (text_up_to("</p>", '"a</p>b</p>"'), "nothing satisfies it"),
        ("/(/", "unclosed group"),
        (f"{ANY_TEXT} & (/[0-9]*/ & /(?s:.{{90000,}})/)", "its lengths and repetitions together are too large"),
    ],
)
def test_what_is_wrong_with_a_terminal(terminal: str, why: str) -> None:
    assert terminal_fault(terminal) == why


def printed(*bodies: Node) -> list[str]:
    """The rules of calls with these bodies, and the terminals that have names."""
    grammar = CallsGrammar("", "", tuple(CallGrammar("f", "f(", body, ")") for body in bodies), "", "")
    return call_rules(grammar, Tags({"<tag>": 7}), parallel=False).splitlines()[2:]


@pytest.mark.parametrize(
    ("body", "expression"),
    [
        (Literal('a"\n｜'), '"a\\"\\n｜"'),
        (Literal("a<tag>b"), '"a" <[7]> "b"'),
        (Literal(""), ""),
        (concatenation(), '""'),
        (concatenation("a", "", concatenation("b", "<tag>")), '"a" "b" <[7]>'),
        (alternation([Literal("a"), concatenation("b", "c")]), '("a" | "b" "c")'),
        (alternation([Literal("a")]), '"a"'),
        (optional_part("a"), '("a")?'),
        (Repetition(alternation([Literal("a"), Literal("b")])), '(("a" | "b"))*'),
        (Repetition(Literal("a"), 3), '("a"){0,3}'),
        (Terminal("/[0-9]/"), "/[0-9]/"),
        (JsonValue({"type": "null"}), '%json {"type": "null"}'),
    ],
    ids=str,
)
def test_how_a_tree_is_printed(body: Node, expression: str) -> None:
    assert printed(body) == [" ".join(filter(None, ('call_0: "f("', expression, '")"')))]


def test_an_embedded_grammar_stands_on_lines_of_its_own() -> None:
    assert printed(EmbeddedGrammar("start: /a/")) == ['call_0: "f(" %lark {', "start: /a/", '} ")"']


def test_terminals_with_operators_get_names_that_calls_share() -> None:
    """llguidance has & and ~ in the definitions of terminals alone."""
    both, none = Terminal("/a/ & /b/"), Terminal("~/c/")
    assert printed(concatenation(both, none), both) == [
        'call_0: "f(" TEXT_0 TEXT_1 ")"',
        'call_1: "f(" TEXT_0 ")"',
        "TEXT_0: /a/ & /b/",
        "TEXT_1: ~/c/",
    ]


def test_a_text_that_was_made_no_terminal_is_not_printed() -> None:
    with pytest.raises(TypeError, match="TextValue is not prepared"):
        printed(TextValue("</p>"))


def test_what_holds_several_calls_together() -> None:
    made = (CallGrammar("f", "<c>f", Literal("1"), ";"), CallGrammar("g", "<c>g", Literal("2"), ";"))
    section = CallsGrammar("<s>", "<s>", made, ",", "</s>")
    assert call_rules(section, Tags({}), parallel=True).splitlines()[0] == 'calls: "<s>" call ("," call)* "</s>"'
    assert call_rules(section, Tags({}), parallel=False).splitlines()[0] == 'calls: "<s>" call "</s>"'
    assert (triggered_call_rules(section, Tags({}), parallel=True) or "").splitlines() == [
        'calls: first ("," call)* "</s>"',
        "first: first_0 | first_1",
        'first_0: "<c>f" "1" ";"',
        'first_1: "<c>g" "2" ";"',
        "call: call_0 | call_1",
        'call_0: "<c>f" "1" ";"',
        'call_1: "<c>g" "2" ";"',
    ]
    alone = CallsGrammar("<c>", "", made, ",", "")  # each call has a trigger of its own
    assert (triggered_call_rules(alone, Tags({}), parallel=True) or "").splitlines()[:3] == [
        "calls: first",
        "first: first_0 | first_1",
        'first_0: "f" "1" ";"',
    ]
    assert triggered_call_rules(CallsGrammar("<x>", "", made, "", ""), Tags({}), parallel=True) is None


def test_leaves_are_found_and_replaced_wherever_they_stand() -> None:
    tree = concatenation("a", alternation([Literal("b"), optional_part("c")]), Repetition(Literal("d"), 2))
    assert list(leaves(tree)) == [Literal("a"), Literal("b"), Literal("c"), Literal("d")]
    twice = replace_leaves(tree, lambda node: Literal(node.text * 2) if isinstance(node, Literal) else node)
    assert twice == concatenation("aa", alternation([Literal("bb"), optional_part("cc")]), Repetition(Literal("dd"), 2))
