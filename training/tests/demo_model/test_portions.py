"""Tools of amounts: each number of a call is what the request says, beside the word that tells its argument."""

import re
from random import Random
from typing import Any

from demo_model.skills import amounts, portions
from tests.demo_model.test_requests import check_arguments


def test_numbers_are_what_they_say() -> None:
    rng = Random(1)
    said = dict(amounts.large(rng) for _ in range(4000))
    assert said["ten thousand"] == 10_000
    assert said["two thousand five hundred"] == 2500
    assert {value for text, value in said.items() if re.fullmatch("seven hundred( and)? fifty", text)} == {750}
    halves = dict(amounts.half(rng) for _ in range(400))
    assert halves["two and a half"] == halves["2 and a half"] == halves["2.5"] == 2.5
    kilos = dict(amounts.measured(rng, "kilo", "kilos") for _ in range(2000))
    assert (kilos["half a kilo"], kilos["a kilo and a half"], kilos["a kilo"]) == (0.5, 1.5, 1)
    assert dict(amounts.share(rng) for _ in range(200))["half"] == 50
    assert dict(amounts.before(rng, "dog", "dogs") for _ in range(400))["a dog"] == 1
    assert dict(amounts.stay(rng, "nights") for _ in range(200))["a week"] == 7


def test_sums_of_money_have_the_code_of_their_currency() -> None:
    rng = Random(2)
    signs = {"€": "EUR", "$": "USD", "£": "GBP", "¥": "JPY", "euros": "EUR", "dollars": "USD", "yen": "JPY"}
    for _ in range(500):
        said, value, code = amounts.money(rng)
        assert value > 0
        assert all(code == found for sign, found in signs.items() if sign in said)


def test_a_call_follows_its_tool() -> None:
    rng = Random(3)
    for _ in range(3000):
        offer = portions.portioned(rng, "train")
        check_arguments(offer)
        assert offer.ask
        assert not re.search(r"[{}\[\]]|  | ,|please, please", offer.ask), offer.ask


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict | list):
        return [text for one in (value.values() if isinstance(value, dict) else value) for text in _texts(one)]
    return [value] if isinstance(value, str) else []


def test_what_is_ordered_stands_in_the_request() -> None:
    rng = Random(4)
    for _ in range(1000):
        offer = choose_one(rng)
        said = offer.ask.lower()
        assert all(text.lower() in said for text in _texts(offer.arguments)), (offer.ask, offer.arguments)


def choose_one(rng: Random) -> Any:
    return rng.choice((portions.bought, portions.basket, portions.stays, portions.drilled, portions.scored))(
        rng, "train"
    )


def test_several_things_are_a_call_each() -> None:
    rng = Random(5)
    for _ in range(300):
        offers = portions.each(rng, "train")
        assert len({tuple(offer.arguments) for offer in offers}) == 1
        assert len({offer.name for offer in offers}) == 1
        assert all(text.lower() in offers[0].ask.lower() for offer in offers for text in _texts(offer.arguments))
