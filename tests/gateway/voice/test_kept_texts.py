import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchard.dialects.openai.chat.audio import SECONDS
from orchard.gateway.caller import ANYONE
from orchard.gateway.voice import kept_texts
from orchard.gateway.voice.kept_texts import KeptTexts
from tests.support.examples import examples

ANN, BOB = (replace(ANYONE, user=user) for user in ("a", "b"))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_text_is_found_with_the_same_key_only() -> None:
    texts = KeptTexts()
    texts.keep(ANN, "x", "Ann's")
    texts.keep(BOB, "x", "Bob's")
    assert [texts.find(one, "x") for one in (ANN, BOB, ANYONE)] == ["Ann's", "Bob's", None]
    assert texts.find(ANN, "y") is None
    assert texts.find(replace(ANN, admin=True), "x") == "Ann's"
    assert texts.find(replace(BOB, user="c", admin=True), "x") is None


def test_a_text_goes_after_an_hour() -> None:
    clock = Clock()
    texts = KeptTexts(clock)
    texts.keep(ANN, "x", "1")
    clock.now = SECONDS / 2
    texts.keep(ANN, "y", "2")
    clock.now = SECONDS
    assert texts.find(ANN, "x") == "1"
    clock.now += 1
    assert (texts.find(ANN, "x"), texts.find(ANN, "y")) == (None, "2")
    clock.now += SECONDS
    assert texts.find(ANN, "y") is None
    assert not texts._texts


def test_a_key_with_many_texts_loses_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_texts, "MOST_BYTES", 10_000)
    texts = KeptTexts()
    texts.keep(BOB, "x", "Bob's")
    for number in range(100):
        texts.keep(ANN, str(number), "Ann's")
    assert texts.find(BOB, "x") == "Bob's"
    assert texts.find(ANN, "99") == "Ann's"
    assert texts.find(ANN, "0") is None
    texts.keep(ANN, "all", "x" * 10_000)
    assert texts.find(ANN, "all") is None
    assert texts.find(BOB, "x") == "Bob's"


@examples(50)
@given(st.lists(st.tuples(st.sampled_from((ANN, BOB)), st.integers(0, 3), st.integers(0, 2000), st.integers(0, 2000))))
def test_what_is_kept_is_counted(kept: list[tuple[object, int, int, int]]) -> None:
    clock = Clock()
    texts = KeptTexts(clock)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(kept_texts, "MOST_BYTES", 10_000)
        for caller, name, size, seconds in kept:
            texts.keep(caller, str(name), "x" * size)  # type: ignore[arg-type]
            clock.now += seconds
            found = {user: sum(one.nbytes for one in own.values()) for user, own in texts._texts.items()}
            assert dict(texts._bytes) == found
            assert sum(found.values()) <= 10_000
