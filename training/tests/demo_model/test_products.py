"""Sums worked out step by step: each step is right, and the last one ends in what was asked for."""

import re
from random import Random

from demo_model.skills import problems, products, sums


def check(answer: str) -> int:
    """Check each step by arithmetic; return the last result."""
    for step in answer.split(", "):
        left, right = step.split(" = ")
        terms = [int(part) for part in re.split(r" [+×÷-] ", left)]  # noqa: RUF001 - the sign of the answers
        if "÷" in left:
            whole, _, rest = right.partition(" remainder ")
            assert divmod(terms[0], terms[1]) == (int(whole), int(rest or 0)), step
        elif "×" in left:  # noqa: RUF001
            assert terms[0] * terms[1] == int(right), step
        else:
            # Adding the places of a quotient may end with what is left over.
            assert eval(left) == int(right.split()[0]), step  # noqa: S307 - of our own making
    return int(re.findall(r"= (\d+|-\d+)", answer)[-1])


def test_products_and_quotients_end_in_the_result() -> None:
    for a in range(13):
        for b in (*range(120), 333, 405, 780, 999):
            assert check(products.product(a, b)) == check(products.product(b, a)) == a * b
            if a:
                assert check(products.quotient(a * b, a)) == b
                assert f"remainder {b % a}" in products.quotient(b, a) or b % a == 0
    assert check(products.product(47, 86)) == 47 * 86
    assert products.product(7, 8) == "7 × 8 = 56"  # noqa: RUF001
    assert products.product(46, 7) == "7 × 40 = 280, 7 × 6 = 42, 280 + 42 = 322"  # noqa: RUF001
    assert products.quotient(96, 4) == "4 × 20 = 80, 96 - 80 = 16, 16 ÷ 4 = 4, 20 + 4 = 24"  # noqa: RUF001
    assert products.quotient(10, 4) == "10 ÷ 4 = 2 remainder 2"


def test_every_step_of_every_sum_is_right() -> None:
    rng = Random(3)
    signs: dict[str, int] = dict.fromkeys("+-×÷,", 0)  # noqa: RUF001
    for _ in range(1500):
        made = sums.make(rng, "seen")
        ask, answer = (message["content"] for message in made.messages)
        check(answer)
        assert "{" not in ask
        for sign in signs:
            signs[sign] += sign in answer
    assert min(signs.values()) > 100, signs


def test_the_result_is_what_the_question_asks_for() -> None:
    rng = Random(5)
    for _ in range(500):
        ask, answer = products.multiplied(rng, "train")
        numbers = [int(number) for number in re.findall(r"\d+", ask)]
        if len(numbers) == 2:
            assert check(answer) == numbers[0] * numbers[1], ask
        ask, answer = products.divided(rng, "train")
        numbers = sorted(int(number) for number in re.findall(r"\d+", ask))
        if len(numbers) == 2:
            assert check(answer) == numbers[1] // max(1, numbers[0]), ask


def test_what_goes_is_taken_away_and_what_comes_is_added() -> None:
    for line in problems.MOVING:
        assert len(line.split(" ; ")) == 4, line
    rng = Random(6)
    gone = {way for line in problems.MOVING for way in line.split(" ; ")[2].split("|")}
    came = {way for line in problems.MOVING for way in line.split(" ; ")[3].split("|")}
    met = 0
    for plus in (True, False) * 500:
        told = sums.story(rng, "train", plus, 731, 52)
        ways = [way for way in (came if plus else gone) - (gone if plus else came) if way in told]
        met += bool(ways)
    assert met > 100
    for pattern in problems.STEPS:
        text, signs = pattern.split(" ; ")
        order = [
            sign
            for sign, place in re.findall(r"()(\{gone\}|\{came\})", text)
            for sign in ["-" if place == "{gone}" else "+"]
        ]
        assert not order or "".join(order) == signs, pattern


def hard(left: int, right: int) -> bool:
    """Whether two numbers are too large together, or the second can't divide."""
    return max(left, right) > 999 or right == 0 or (min(left, right) > 12 and max(left, right) > 100)


def test_only_what_is_too_hard_is_refused() -> None:
    rng = Random(13)
    made = [sums.beyond(rng).messages for _ in range(2000)]
    assert {answer["content"] for _, answer in made} == {sums.LIMIT}
    asks = [ask["content"] for ask, _ in made]
    assert not [ask for ask in asks if "{" in ask or "[" in ask]
    plain = [
        re.fullmatch(r"[^-\d]*(\d+) ?[+*/×] ?(\d+)[^%\d]*", ask)  # noqa: RUF001
        for ask in asks
        if not re.search("percent|minus|negative", ask)
    ]
    assert [found for found in plain if found]
    assert all(hard(int(found[1]), int(found[2])) for found in plain if found)
    kinds = (r"\d% of \d", r"-\d+ (?:plus|\+) \d", r"\b\d{3} (?:times|\*) \d\d\b", r"\b\d\d00 ?(?:/|divided by) ?\d")
    for kind in kinds:
        assert any(re.search(kind, ask) for ask in asks), kind
