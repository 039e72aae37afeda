"""Texts of all kinds of characters, which tokenizers read differently."""

import hashlib
import json
import random
from collections.abc import Iterable

_PIECES = (
    "the quick brown fox",
    "Hello",
    "WORLD",
    "camelCaseWord",
    "don't",
    "I'LL",
    "we've",
    "IT'S",
    "o'clock",
    "1984",
    "3.14159",
    "1,000,000",
    "12345678",
    "x2",
    "naïve café Straße",
    "Müller's",
    "привет Мир",
    "ЭТО",
    "東京数学",
    "こんにちは",
    "안녕하세요",
    "שלום",
    "مرحبا",
    "हिन्दी",
    "ไทย",
    "e\u0301",
    "\u0130stanbul",
    "Ⅷ ½ ²",
    "٣٤",
    "🍎",
    "👩‍👩‍👧",
    "…",
    "—",
    "“quoted”",
    "$9.99",
    "a+b=c",
    "<tag/>",
    "`code`",
    "~^|",
    "{'a': [1, 2]}",
    "def f(x):\n    return x ** 2",
    "http://a.b/c?d=e&f=1",
    "#!/bin/sh",
    "//",
    "\\n",
    "!!!",
    "?!",
    "---",
    "\u00ad\u200b\ufeff",
    "<|im_start|>",
    "<|im_end|>",
    "<start_of_turn>",
    "<eos>",
    "<|end|>",
    "<s>",
)
_SPACES = ("", "", " ", " ", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n", "\n ", "\u00a0", "\u3000", "    ")


def mixed_texts(count: int, seed: int = 0) -> list[str]:
    """Return so many texts, the same ones for a seed."""
    rng = random.Random(seed)
    return [
        "".join(rng.choice(_SPACES) + rng.choice(_PIECES) for _ in range(rng.randint(1, 12))) + rng.choice(_SPACES)
        for _ in range(count)
    ]


def digest(tokens: Iterable[list[int]]) -> str:
    """Return a hash of the tokens of some texts."""
    return hashlib.sha256(json.dumps(list(tokens)).encode()).hexdigest()[:16]
