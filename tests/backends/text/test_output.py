from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from orchard.backends.text.output import ChoiceOutput, Detokenizer, Echo, StopFilter, Vocabulary
from orchard.core.events import Event, Reasoning, Text, ToolArgs, ToolStart, merge
from orchard.core.tasks.generate import Generate, Tool
from orchard.engine.batching.job import DrawnToken, EndReason
from orchard.engine.sampling.params import Sample
from orchard.formats.families.tagged import TaggedFormat
from orchard.formats.format import Format
from orchard.formats.registry import choose_family
from tests.support.models import make_tokenizer


@cache
def byte_level() -> Any:
    return PreTrainedTokenizerFast(tokenizer_object=make_tokenizer(), clean_up_tokenization_spaces=False)


@cache
def sentencepiece() -> Any:
    """Llama's kind: words begin with U+2581, bytes are tokens, the first space goes."""
    words = ["▁", "▁a", "▁the", "sea", "é", "▁▁", "😀", "x"]
    vocab = {token: n for n, token in enumerate([f"<0x{byte:02X}>" for byte in range(256)] + words)}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[], byte_fallback=True))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.add_tokens([AddedToken("<tag>", special=False)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, clean_up_tokenization_spaces=False)


@cache
def wordpiece() -> Any:
    vocab = {"[UNK]": 0, "sea": 1, "##side": 2, "the": 3, ",": 4, "é": 5}
    tokenizer = Tokenizer(models.WordPiece(vocab=vocab, unk_token="[UNK]"))  # noqa: S106
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.decoder = decoders.WordPiece()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, clean_up_tokenization_spaces=False)


@cache
def metaspace() -> Any:
    vocab = {"▁the": 0, "▁sea": 1, "side": 2, "▁": 3}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    tokenizer.decoder = decoders.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, clean_up_tokenization_spaces=False)


def stream(tokenizer: Any, tokens: Sequence[int]) -> list[str]:
    detokenizer = Detokenizer(Vocabulary(tokenizer))
    texts = [detokenizer.feed(token) for token in tokens] + [detokenizer.finish()]
    assert detokenizer.position == sum(map(len, texts))
    return texts


def decode(tokenizer: Any, tokens: Sequence[int]) -> str:
    text: str = tokenizer.decode(list(tokens), skip_special_tokens=False, clean_up_tokenization_spaces=False)
    return text


def some_tokens(tokenizer: Any) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, len(tokenizer) + 3), max_size=40)


@given(st.data())
def test_byte_level_tokens_become_what_the_tokenizer_says(data: st.DataObject) -> None:
    tokens = data.draw(some_tokens(byte_level()))
    assert "".join(stream(byte_level(), tokens)) == decode(byte_level(), tokens)


@given(st.text(max_size=30))
def test_texts_come_back_and_no_character_is_cut(text: str) -> None:
    texts = stream(byte_level(), byte_level().encode(text, add_special_tokens=False))
    assert "".join(texts) == text
    assert "\ufffd" not in "".join(texts) or "\ufffd" in text


@given(
    st.lists(st.sampled_from(["<0xF0><0x9F><0x98><0x80>", "<0xE2><0x82><0xAC>", "▁a", "▁", "▁▁", "sea", "é", "<tag>"]))
)
def test_sentencepiece_tokens_become_what_the_tokenizer_says(pieces: list[str]) -> None:
    names = [name for piece in pieces for name in (piece.replace("><", "> <").split() if "0x" in piece else [piece])]
    tokens = sentencepiece().convert_tokens_to_ids(names)
    assert "".join(stream(sentencepiece(), tokens)) == decode(sentencepiece(), tokens)


def test_broken_bytes_of_sentencepiece_cost_only_themselves() -> None:
    names = ["<0xE2>", "<0x82>", "▁a", "<0xFF>", "sea", "<0xF0>", "<0x9F>"]
    texts = stream(sentencepiece(), sentencepiece().convert_tokens_to_ids(names))
    assert texts == ["", "", "\ufffd a", "\ufffd", "sea", "", "", "\ufffd"]


@given(st.data())
def test_other_tokenizers_are_asked(data: st.DataObject) -> None:
    for tokenizer in (wordpiece(), metaspace()):
        tokens = data.draw(st.lists(st.integers(0, len(tokenizer) - 1), max_size=20))
        assert "".join(stream(tokenizer, tokens)) == decode(tokenizer, tokens)


def test_tokens_come_early() -> None:
    assert stream(wordpiece(), [3, 1, 2, 4])[:2] == ["the", " sea"]
    assert stream(byte_level(), byte_level().encode("a€b"))[0] == "a"


def test_added_tokens_are_literal() -> None:
    vocabulary = Vocabulary(byte_level())
    assert [vocabulary.bytes_of(id_) for id_ in byte_level().convert_tokens_to_ids(["<think>", "<|im_end|>"])] == [
        b"<think>",
        b"<|im_end|>",
    ]
    assert vocabulary.bytes_of(10**6) == b""


def qwen(prompt: str = "") -> Format:
    return choose_family("<think><tool_call>").begin(prompt, [Tool("f")])


def reference_stop(text: str, stops: list[str]) -> str:
    """The text before the stop string that ends first, the longest of those that end there."""
    for end in range(1, len(text) + 1):
        if found := [stop for stop in stops if stop and text[:end].endswith(stop)]:
            return text[: end - max(map(len, found))]
    return text


@given(
    text=st.text("ab\n", max_size=30),
    stops=st.lists(st.text("ab\n", max_size=4), max_size=4),
    places=st.lists(st.integers(0, 30)),
)
def test_stop_strings_are_found_over_any_cut(text: str, stops: list[str], places: list[int]) -> None:
    edges = [0, *sorted(min(place, len(text)) for place in places), len(text)]
    filter_ = StopFilter(stops)
    out = "".join(filter_.feed(text[begin:end]) for begin, end in pairwise(edges))
    assert out + filter_.flush() == reference_stop(text, stops)
    assert (filter_.stopped_by is not None) == any(stop in text for stop in stops if stop)


@pytest.mark.parametrize(
    ("stops", "text", "before", "by"),
    [
        (["abab"], "aba\nbab", "aba\nbab", None),  # what matched must be given up entirely
        (["abab"], "abaabab", "aba", "abab"),
        (["aabaaa"], "aabaabaaa", "aab", "aabaaa"),
        (["ba", "a"], "ba", "", "ba"),  # both end here
        (["a", "ba"], "ba", "", "ba"),
        (["a", "ba", "cba"], "cba", "", "cba"),
        (["bc", "abcd"], "abcd", "a", "bc"),  # the first that ends, though another began before
    ],
)
def test_the_stop_string_that_ends_first_and_is_longest(
    stops: list[str], text: str, before: str, by: str | None
) -> None:
    for cuts in ([text], list(text)):
        filter_ = StopFilter(stops)
        assert "".join([filter_.feed(cut) for cut in cuts] + [filter_.flush()]) == before
        assert filter_.stopped_by == by


def test_only_the_beginning_of_a_stop_string_is_held_back() -> None:
    filter_ = StopFilter(["END", "\n\n"])
    assert [filter_.feed(text) for text in ("aE", "N", "x\n", "y", "E")] == ["a", "", "ENx", "\ny", ""]
    assert filter_.flush() == "E"


def answer(
    text: str,
    *,
    stop: Sequence[str] = (),
    format_: Format | None = None,
    reason: EndReason = "length",
    logprobs: bool = False,
    one_call: bool = False,
    hide_reasoning: bool = False,
    cuts: Sequence[str] | None = None,
) -> tuple[ChoiceOutput, list[Event]]:
    """Feed the tokens of a text; the end comes with the last of them (length) or with one more (stop)."""
    tokenizer = byte_level()
    ids = [id_ for part in cuts or [text] for id_ in tokenizer.encode(part, add_special_tokens=False)]
    if reason == "stop":
        ids += tokenizer.convert_tokens_to_ids(["<|im_end|>"])
    answer_ = ChoiceOutput(
        Vocabulary(tokenizer),
        format_ or TaggedFormat(),
        Generate(
            stop=tuple(stop),
            tools=(Tool("f"),) if format_ else (),
            parallel_tool_calls=not one_call,
            hide_reasoning=hide_reasoning,
        ),
    )
    events: list[Event] = []
    for place, id_ in enumerate(ids):
        last = place == len(ids) - 1
        sample = Sample(id_, -float(place), ((id_, -1.0),)) if logprobs else Sample(id_)
        events += answer_.feed(DrawnToken("a", 0, sample, reason if last else None))
        if answer_.reason:
            assert last or answer_.reason == "stop" or one_call
            break
    return answer_, merge(events)


def test_length() -> None:
    found, events = answer("The sea is blue")
    assert events == [Text("The sea is blue")]
    assert found.reason == "length"
    assert found.completion_tokens == len(byte_level().encode("The sea is blue"))


def test_the_end_of_turn_is_counted_and_not_shown() -> None:
    found, events = answer("The sea", reason="stop")
    assert events == [Text("The sea")]
    assert found.reason == "stop"
    assert found.completion_tokens == len(byte_level().encode("The sea")) + 1


def test_a_stop_string_over_token_borders_ends_the_answer() -> None:
    found, events = answer("The sea is blue", stop=["a is"])
    assert events == [Text("The se")]
    assert found.reason == "stop"
    assert found.completion_tokens == len(byte_level().encode("The sea is"))


def test_a_stop_string_that_the_end_completes() -> None:
    found, events = answer("is blue", stop=["ue"])
    assert (events, found.reason) == ([Text("is bl")], "stop")


def test_what_only_began_a_stop_string_is_not_lost() -> None:
    assert answer("The sea", stop=["seals"])[1] == [Text("The sea")]
    assert answer("The sea", stop=["seals"], reason="stop")[1] == [Text("The sea")]


def test_a_character_that_never_ends() -> None:
    tokenizer = byte_level()
    found = ChoiceOutput(Vocabulary(tokenizer), TaggedFormat(), Generate())
    (first, *_) = tokenizer.encode("😀", add_special_tokens=False)
    assert found.feed(DrawnToken("a", 0, Sample(first), "length")) == [Text("\ufffd")]


CALL = '<tool_call>{"name": "f", "arguments": {"a": "b"}}</tool_call>'


def test_reasoning_text_and_calls() -> None:
    found, events = answer(f"<think>\nHm.\n</think>\n\nYes.\n{CALL}\n{CALL}", format_=qwen(), reason="stop")
    assert [event for event in events if not isinstance(event, ToolStart)] == [
        Reasoning("Hm."),
        Text("Yes."),
        ToolArgs(0, '{"a": "b"}'),
        ToolArgs(1, '{"a": "b"}'),
    ]
    starts = [event for event in events if isinstance(event, ToolStart)]
    assert [(start.index, start.name) for start in starts] == [(0, "f"), (1, "f")]
    assert len({start.id for start in starts}) == 2
    assert all(len(start.id) == 29 and start.id.startswith("call_") for start in starts)
    assert found.reason == "tool_calls"
    assert found.reasoning_tokens == len(byte_level().encode("<think>\nHm.\n</think>"))


def test_one_call_ends_the_answer_where_only_one_may_be_made() -> None:
    found, events = answer(f"{CALL}\n{CALL} and more", format_=qwen(), one_call=True)
    assert [type(event) for event in events] == [ToolStart, ToolArgs]
    assert found.reason == "tool_calls"
    assert found.completion_tokens == len(byte_level().encode(CALL))


def test_hidden_reasoning_is_counted_all_the_same() -> None:
    text = "<think>\nHm.\n</think>\n\nYes."
    found, events = answer(text, format_=qwen(), hide_reasoning=True)
    assert events == [Text("Yes.")]
    assert found.reasoning_tokens == len(byte_level().encode("<think>\nHm.\n</think>"))


def test_arguments_come_while_they_are_written() -> None:
    tokenizer = byte_level()
    text = f'<tool_call>{{"name": "f", "arguments": {{"a": "{"x" * 100}"}}}}</tool_call>'
    found = ChoiceOutput(Vocabulary(tokenizer), qwen(), Generate())
    batches = [found.feed(DrawnToken("a", 0, Sample(id_))) for id_ in tokenizer.encode(text, add_special_tokens=False)]
    sizes = [len(event.json) for events in batches for event in events if isinstance(event, ToolArgs)]
    assert sizes[0] == 65
    assert max(sizes[1:]) <= 2


def test_a_models_own_id_of_a_call_is_kept() -> None:
    format_ = choose_family("[TOOL_CALLS][ARGS]").begin("", [Tool("f")])
    _, events = answer("[TOOL_CALLS]f[CALL_ID]a1b2c3d4e[ARGS]{}", format_=format_, reason="stop")
    assert events == [ToolStart(0, "a1b2c3d4e", "f"), ToolArgs(0, "{}")]


def test_one_call_of_a_list_ends_the_answer() -> None:
    calls = '[{"name": "f", "arguments": {}}, {"name": "f", "arguments": {}}]'
    format_ = choose_family("<TOOLCALL>").begin("", [Tool("f")])
    found, events = answer(f"<TOOLCALL>{calls}</TOOLCALL>", format_=format_, one_call=True)
    assert [type(event) for event in events] == [ToolStart, ToolArgs]
    assert found.reason == "tool_calls"


def test_one_call_that_only_the_end_completes() -> None:
    text = CALL.removesuffix("</tool_call>")
    found, events = answer(text, format_=qwen(), one_call=True, reason="stop")
    assert [type(event) for event in events] == [ToolStart, ToolArgs]
    assert found.reason == "tool_calls"


def test_a_call_at_the_limit_has_reason_length() -> None:
    assert answer(CALL, format_=qwen())[0].reason == "length"


def test_a_tag_that_the_limit_has_cut_off_is_no_text() -> None:
    """One that the model has left so is."""
    half = "Hi\n" + CALL[:14]
    assert answer(half, format_=qwen())[1] == [Text("Hi")]
    assert answer(half, format_=qwen(), reason="stop")[1] == [Text(half)]


def test_stop_strings_are_for_the_answer_alone() -> None:
    text = f"<think>b</think>a{CALL}ab"
    found, events = answer(text, stop=["b"], format_=qwen(), reason="stop")
    assert [type(event) for event in events] == [Reasoning, Text, ToolStart, ToolArgs, Text]
    assert (found.reason, events[-1]) == ("stop", Text("a"))


def test_no_stop_string_reaches_over_a_call() -> None:
    _, events = answer(f"a{CALL}b", stop=["ab"], format_=qwen(), reason="stop")
    assert [event.text for event in events if isinstance(event, Text)] == ["a", "b"]


def bytes_of(events: list[Event]) -> bytes:
    return b"".join(logprob.token.bytes for event in events if isinstance(event, Text) for logprob in event.logprobs)


@pytest.mark.parametrize("text", ["The sea is blue", "a😀é€b", "😀"])
def test_every_token_of_a_plain_answer_has_its_logprob(text: str) -> None:
    found, events = answer(text, logprobs=True, reason="stop")
    assert bytes_of(events) == text.encode()
    (event,) = events
    assert isinstance(event, Text)
    assert [logprob.token.logprob for logprob in event.logprobs] == [-float(n) for n in range(found.completion_tokens)]
    *texts, end = event.logprobs
    assert all(logprob.top[0].bytes == logprob.token.bytes for logprob in texts)
    assert (end.token.text, end.token.bytes, end.top[0].bytes) == ("<|im_end|>", b"", b"<|im_end|>")


def test_tokens_of_tags_calls_and_stop_strings_have_no_logprobs() -> None:
    text = f"<think>\nHm.\n</think>\n\nYes.\n{CALL}\nAnd I END"
    _, events = answer(text, stop=["END"], format_=qwen(), logprobs=True, cuts=text.partition("END"))
    assert bytes_of(events) == b"Yes.And I "


UNKNOWN = 10**6
"""A token without a text, as a padded vocabulary has them."""


def feed_tokens(tokens: Sequence[int], reason: EndReason, format_: Format | None = None) -> list[Event]:
    found = ChoiceOutput(Vocabulary(byte_level()), format_ or TaggedFormat(), Generate())
    drawn = [
        DrawnToken("a", 0, Sample(id_, -1.0), reason if n == len(tokens) else None) for n, id_ in enumerate(tokens, 1)
    ]
    return [event for one in drawn for event in found.feed(one)]


def test_last_tokens_without_text_keep_their_logprobs() -> None:
    a, end = byte_level().encode("a<|im_end|>", add_special_tokens=False)
    ends: list[tuple[list[int], EndReason]] = [([UNKNOWN], "length"), ([end], "stop"), ([UNKNOWN, end], "stop")]
    for tokens, reason in ends:
        (event,) = merge(feed_tokens([a, *tokens], reason))
        assert isinstance(event, Text)
        assert (event.text, [one.token.bytes for one in event.logprobs]) == ("a", [b"a", *[b""] * len(tokens)])
    (event,) = feed_tokens([UNKNOWN], "length")
    assert isinstance(event, Text)
    assert (event.text, len(event.logprobs)) == ("", 1)


@pytest.mark.parametrize("text", ["<think>Hm", CALL, CALL.replace("b", "b" * 100).removesuffix('"}}</tool_call>')])
def test_last_tokens_without_text_belong_to_no_thought_or_call(text: str) -> None:
    tokens = [*byte_level().encode(text, add_special_tokens=False), UNKNOWN]
    events = feed_tokens(tokens, "length", qwen())
    assert not any(one.token.bytes == b"" for event in events if isinstance(event, Text) for one in event.logprobs)
    assert feed_tokens([UNKNOWN], "length", qwen("<think>")) == []


@pytest.mark.parametrize("blank", [" ", "\n \n", "\t\n\n "])
def test_blank_text_beside_a_call_is_dropped(blank: str) -> None:
    whole = [Reasoning("Hm."), ToolArgs, ToolArgs]
    text = f"<think>Hm.</think>{blank}{CALL}{blank}{CALL}{blank}"
    reasons: tuple[EndReason, ...] = ("stop", "length")
    for reason in reasons:
        _, events = answer(text, format_=qwen(), reason=reason, logprobs=True)
        kinds = [type(event) for event in events if not isinstance(event, ToolStart)]
        assert kinds == [type(whole[0]), *whole[1:]]


def test_blank_text_beside_other_text_stays() -> None:
    _, events = answer(f" \n a \n{CALL} b {CALL}", format_=qwen(), reason="stop", logprobs=True)
    assert [event.text for event in events if isinstance(event, Text)] == [" \n a ", " b "]
    assert bytes_of(events) == b" \n a  b "


def test_an_answer_that_is_nothing_but_blank_stays() -> None:
    for stop in ((), ("END",)):
        text = "<think>Hm.</think> \t " + "".join(stop)
        _, events = answer(text, stop=stop, format_=qwen(), logprobs=True)
        assert events[0] == Reasoning("Hm.")
        assert bytes_of(events) == b" \t "
        assert [event.text for event in events if isinstance(event, Text)] == [" \t "]


def test_blank_text_is_not_held_back_where_no_call_can_follow() -> None:
    found = ChoiceOutput(Vocabulary(byte_level()), TaggedFormat(), Generate())
    (space,) = byte_level().encode(" ", add_special_tokens=False)
    assert found.feed(DrawnToken("a", 0, Sample(space))) == [Text(" ")]


@pytest.mark.parametrize("make", [byte_level, sentencepiece, wordpiece, metaspace])
def test_no_token_is_longer_than_is_said(make: Any) -> None:
    vocabulary = Vocabulary(make())
    texts = [vocabulary.bytes_of(token).decode("utf-8", "replace") for token in make().get_vocab().values()]
    chars, words = vocabulary.bounds()
    assert max(map(len, texts)) <= chars <= max(map(len, make().get_vocab()))
    assert max(len(text.split()) for text in texts) <= words <= 2


def test_a_byte_level_vocabulary_with_a_character_that_is_no_byte() -> None:
    other = Tokenizer(models.BPE(vocab={"a": 0, "ĠbĠc": 1, "\u3042\u3044": 2}, merges=[]))
    other.decoder = decoders.ByteLevel()
    assert Vocabulary(PreTrainedTokenizerFast(tokenizer_object=other)).bounds() == (4, 2)


@pytest.mark.parametrize(
    ("make", "text", "names", "taken"),
    [
        (byte_level, "The sea", None, ["The", " sea"]),
        (byte_level, "The", ["<|im_start|>", "The"], ["", "The"]),
        (byte_level, "<|im_start|>The", ["<|im_start|>", "The"], ["<|im_start|>", "The"]),
        (sentencepiece, "a the", ["▁a", "▁the"], ["a", " the"]),
        (sentencepiece, " a", ["▁▁", "▁a"], [" ", " a"]),
        (sentencepiece, "sea sea", ["<tag>", "▁", "sea", "▁", "sea"], ["", "", "sea", " ", "sea"]),
        (sentencepiece, "a", ["<tag>", "▁a"], ["", "a"]),
    ],
)
def test_tokens_take_the_bytes_of_their_text(make: Any, text: str, names: list[str] | None, taken: list[str]) -> None:
    tokenizer = make()
    ids = tokenizer.encode(text, add_special_tokens=False) if names is None else tokenizer.convert_tokens_to_ids(names)
    echo = Echo(Vocabulary(tokenizer), text, ids, 2, 1)
    found = [*echo.begin(), *echo.score([Sample(id_, -1.0) for id_ in ids[1:]])]
    for choice in range(2):
        own = [event for event in found if isinstance(event, Text) and event.choice == choice]
        assert "".join(event.text for event in own) == text
        tokens = [one.token for event in own for one in event.logprobs]
        assert [token.bytes.decode() for token in tokens] == taken
        assert [token.logprob for token in tokens] == [None, *[-1.0] * (len(ids) - 1)]


def test_without_scores_it_is_only_a_text() -> None:
    assert Echo(Vocabulary(byte_level()), "sea", [0], 2, None).begin() == [Text("sea"), Text("sea", 1)]
    assert Echo(Vocabulary(byte_level()), "", [0], 1, None).begin() == []
