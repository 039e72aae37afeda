"""Grammars of custom tools, as plain text and within a JSON string."""

import json
import re
from typing import Any

import pytest
from llguidance import LLMatcher

from orchard.backends.text.grammar.input_grammar import MOST_CHARACTERS, embed_grammar, mark_input
from orchard.backends.text.grammar.lark import byte_tokenizer
from orchard.backends.text.grammar.writer import GrammarRequest, GrammarWriter, ToolCalls
from orchard.core.tasks.generate import Tool
from orchard.formats.call_grammar import CallGrammar, CallsGrammar, json_arguments

PATCH = r"""
start: begin file+ end
begin: "*** Begin" LF  // a comment
end: "*** End" LF?
file: "*** File: " name LF line+ -> change
name: /(.+)/
line: ("+" | "-") /(.*)/ LF

%import common.LF
"""
PATCHED = '*** Begin\n*** File: a "b".py\n+x\\y\t\x01é</p>\n-\n*** End\n'
SUM = """
?start: term (SPACE "+" SPACE term)*
term: INT | "(" start ")"
SPACE: " "
%import common.INT
"""
IGNORES = r"""
start: KEY "=" WORD
KEY: "k" DIGIT~2
DIGIT: "0".."3"
%ignore /[ \n]+/
%ignore "#"
%import common.WORD -> WORD
"""


def keeps(source: str, text: str, *, within_json: bool) -> bool:
    begin, end, told = (
        ('"\\""', '"\\""', json.dumps(text, ensure_ascii=False))
        if within_json
        else (
            '"<p>"',
            " ".join(f'"{char}"' for char in "</p>"),
            f"<p>{text}</p>",
        )
    )
    inner = embed_grammar(source, json=within_json).source
    matcher = LLMatcher(byte_tokenizer(), f"start: {begin} %lark {{\n{inner}\n}} {end}\n")
    assert not matcher.get_error()
    tokens = list(told.encode())
    return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()


@pytest.mark.parametrize("within_json", [True, False])
@pytest.mark.parametrize(
    ("source", "good", "bad"),
    [
        (PATCH, PATCHED, PATCHED.replace("*** End", "***")),
        (PATCH, PATCHED.rstrip("\n"), PATCHED.replace("+x", "x")),
        (SUM, "1 + (23 + 4)", "1 + (2 + 3"),
        (IGNORES, " k03\n= # ab ", "k0 3=ab"),
        (r'start: "a\"\n\\\x41\u00e9" /[^b]+/', 'a"\n\\Aé"\n\\c', 'a"\n\\Aéb'),
        ('start: "ab"i "é"', "aBé", "aBe"),
        (r"start: /(?s:.)+x/", '"\n\\x', '"\n\\'),
        (r"start: /.x/s", "\nx", "\n"),
        (r"start: /.+x/", '"\\x', "\nx"),
        (r"start: /(a|)b{2,3}?(?i:c)|[]\d\n\"]+/", "abbbC", "abC"),
        (r"start: /(a|)b{2,3}?(?i:c)|[]\d\n\"]+/", ']1\n"', "bb"),
        ("start: /a(|b)/ [/c/i]", "aC", "abb"),
        ("start: _x\n_x: ESCAPED_STRING WS\n%import common.ESCAPED_STRING\n%import common.WS", '"a\\"b" \n', '"a" "'),
        ("start: A~1..2 (B | C){2}\nA: /a/\nB: /b/\nC: /c/", "aabc", "aaabc"),
        ('start: ""', "", "a"),
    ],
)
def test_a_grammar_keeps_its_texts(source: str, good: str, bad: str, within_json: bool) -> None:
    assert keeps(source, good, within_json=within_json)
    assert not keeps(source, bad, within_json=within_json)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("start: [", "Expected token"),
        ("start: x", "unknown name"),
        ("start: /[/", "unclosed character class"),
        ("x: /a/", "start"),
        ('start: %json {"type": "string"}', "'%json"),
        ("start: A\nA: /a/ & /b/", "'& /b/'"),
        ("start[max_tokens=3]: /a/", "'=3]: /a/'"),
        ("start: /^a/", "'^'"),
        ("start: A\n%import common.CPP_COMMENT -> A", "CPP_COMMENT"),
        ("start: " + " ".join(f"/[{chr(0x4E00 + n)}]/" for n in range(300)), "256 kinds"),
        ("start: /a/ //" + "x" * MOST_CHARACTERS, f"{MOST_CHARACTERS:,}"),
    ],
)
def test_what_can_not_be_kept_is_refused(source: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)):
        embed_grammar(source, json=True)


def test_a_control_character_has_its_escape() -> None:
    def all_of(text: Any) -> bool:
        return keeps(r"start: /[\x00-\x7f]+/", text, within_json=True)

    assert all(all_of(chr(code)) for code in range(128))


def test_calls_that_show_too_late_are_refused() -> None:
    """A grammar binds from the text on that opens a call."""
    call = CallGrammar("f", "f: ", json_arguments(mark_input(Tool("f"))), "")
    tools = (ToolCalls("f", CallsGrammar("<call>", "", (call,), "", ""), None, "start: /a/"),)
    with pytest.raises(ValueError, match="before they are written"):
        GrammarWriter({}).write(GrammarRequest(None, tools, must_call=False, parallel_calls=True))
