"""Which bytes the tokens of an echoed prompt take of its text."""

from typing import Any

import pytest

from orchard.core.events import Text
from orchard.engine.sampling.params import Sample
from orchard.worker.echo import Echo
from orchard.worker.output import Vocabulary
from tests.worker.test_output import byte_level, sentencepiece


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
