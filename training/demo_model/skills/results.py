"""What tools return, and how the answer shows it."""

# ruff: noqa: E501 - phrases read best unbroken

import json
from random import Random
from typing import Any

from demo_model.skills.catalog import UNITS, phrase
from demo_model.template import Message
from demo_model.text import (
    CITIES,
    NAMES,
    NOUNS,
    choose,
    coin,
    common_word,
    expand,
    number,
    scramble,
    sentence,
    word,
)


def _value(rng: Random) -> Any:
    return rng.choice(
        (
            lambda: number(rng, 5), lambda: round(rng.uniform(0, 999), choose(rng, (1, 2))), lambda: common_word(rng), lambda: coin(rng),
            lambda: choose(rng, NAMES), lambda: choose(rng, CITIES), lambda: rng.random() < 0.5, lambda: phrase(rng), lambda: -number(rng, 2),
            lambda: f"{rng.randint(2020, 2030)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}", lambda: scramble(rng),
        )
    )()  # fmt: skip


def plain(value: Any) -> str:
    """How a JSON value reads in an answer: keys and values without quotes and braces."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {plain(item)}" for key, item in value.items())
    if isinstance(value, list):
        return ", ".join(plain(item) for item in value)
    return value if isinstance(value, str) else json.dumps(value)


def result(rng: Random) -> tuple[str, str]:
    """Make what a tool returns, and how the answer shows it."""
    kind = rng.random()
    if kind < 0.2:
        text = choose(
            rng, (str(number(rng, 6)), str(-number(rng, 3)), str(round(rng.uniform(0, 9999), choose(rng, (1, 2)))))
        )
        return text, text
    if kind < 0.3:
        text = expand(
            rng,
            "[Sunny|Cloudy|Rainy|Windy|Snow|Clear|It is sunny|Light rain|Fog][, {t} degrees|, {t}°C|. {t} degrees.| and {t} C|, {t}°F|]",
            t=rng.randint(-20, 99),
        )
        return text, text
    if kind < 0.6:
        maker = rng.choice((sentence, phrase, common_word, coin, lambda r: " ".join(word(r) for _ in range(r.randint(1, 8))),
                            lambda r: r.choice(("ok", "OK", "done", "success", "Done.", "sent", "not found", "Error: not found", "true", "false", "null", "No results"))))  # fmt: skip
        text = maker(rng)
        if rng.random() < 0.1:
            text = " ".join(sentence(rng) for _ in range(rng.randint(2, 4)))
        return text, text
    if kind < 0.7:
        items = [_value(rng) for _ in range(rng.randint(1, 4))]
        return json.dumps(items, ensure_ascii=False), plain(items)
    keys = [
        choose(
            rng,
            (*NOUNS, "temperature", "condition", "status", "result", "error", "name", "id", "unit", "city", "humidity"),
        )
        for _ in range(rng.randint(1, 4))
    ]
    record: Message = {key if rng.random() < 0.8 else f"{key}_{choose(rng, NOUNS)}": _value(rng) for key in keys}
    if rng.random() < 0.25:
        record = {
            "temperature": rng.randint(-20, 40),
            choose(rng, ("condition", "conditions", "sky")): choose(rng, ("sunny", "cloudy", "rain", "snow")),
        }
        if rng.random() < 0.4:
            record["unit"] = choose(rng, (*UNITS, "C", "F"))
        if rng.random() < 0.4:
            record = {"city": choose(rng, CITIES), **record}
    gaps = (", ", ": ") if rng.random() < 0.75 else (",", ":")
    return json.dumps(
        record, ensure_ascii=rng.random() < 0.3, separators=gaps, indent=2 if rng.random() < 0.08 else None
    ), plain(record)
