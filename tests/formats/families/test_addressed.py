"""Models that say to whom each message goes, beyond what every family is tested for."""

from orchard.formats.format import Thought
from orchard.formats.registry import choose_family
from tests.support.format_reading import TOOLS, Call, parse, whole

MUSE = choose_family("", tool_call_parser="muse_glimmer")
FUNCTIONARY = choose_family("", tool_call_parser="functionary_v3_2")
PROMPT = "<|start|>user<|message|>Hi<|eot|><|start|>assistant"
LONG = "x" * 80
CALL = f' to=write<|message|><atem:invoke name="write">\n<atem:parameter name="content">{LONG}</atem:parameter>\n'


def test_it_thinks_while_it_speaks_to_itself() -> None:
    format_ = MUSE.begin(PROMPT)
    assert not format_.thinking
    assert format_.feed(" to=self<|message|>Hm") == [Thought("Hm")]
    assert format_.thinking
    format_.feed("<|eom|><|start|>assistant to=user<|message|>H")
    assert not format_.thinking
    assert MUSE.begin(f"{PROMPT} to=self<|message|>").thinking
    assert not MUSE.begin(f"{PROMPT} to=user<|message|>").thinking


def test_thoughts_in_two_messages_are_all_thoughts() -> None:
    text = (
        " to=self<|message|>A<|eom|><|start|>assistant to=self<|message|>B<|eom|><|start|>assistant to=user<|message|>C"
    )
    assert whole(parse(MUSE.begin(PROMPT), *text)) == ["[AB]", "C"]


def test_a_call_that_breaks_late_goes_on_raw_up_to_its_messages_end() -> None:
    text = f"{CALL}<atem:parameter name=<b>!<|eom|><|start|>assistant to=user<|message|>So."
    for pieces in ([text], text):
        found = whole(parse(MUSE.begin(PROMPT, TOOLS), *pieces))
        assert found == [Call("write", f'{{"content": "{LONG}"\n<atem:parameter name=<b>!'), "So."]


def test_a_call_that_is_cut_off_late_is_not_over() -> None:
    (call,) = whole(parse(MUSE.begin(PROMPT, TOOLS), CALL[:-30]))
    assert isinstance(call, Call)
    assert (call.name, call.over) == ("write", False)


def test_without_tools_a_message_to_one_is_text() -> None:
    assert whole(parse(MUSE.begin(PROMPT), f"{CALL}<|eot|>")) == [CALL.partition("<|message|>")[2]]
    assert whole(parse(FUNCTIONARY.begin(">>>"), "now\n{}")) == ["now\n{}"]


def test_headers_of_tools_that_are_none_are_text_where_tools_are_listed() -> None:
    assert whole(parse(FUNCTIONARY.begin(">>>", TOOLS), "all\nA>>>later\n{}>>>now\n{}")) == [
        "A>>>later\n{}",
        Call("now", "{}"),
    ]
