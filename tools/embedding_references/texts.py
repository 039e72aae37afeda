"""The texts of the references: always the same, of many lengths, in several scripts."""

import random

SEED = 20261122
COUNT = 200
_WORDS = (
    "the river a mountain orchard apple of in under quickly walked seven 1984 database query, it's (sometimes) why? "
    "Müller naïve Straße café 東京 数学 привет мир שלום مرحبا हिन्दी ελληνικά 🍎 🚀 don't C++ x_1 foo@bar.org 3.14159 "
    "antidisestablishmentarianism photosynthesis quarterly revenue children laughing rain storms violin sonata"
)

PAIRS = (
    ("A man is playing a guitar on the street.", "Somebody makes music with a guitar outside."),
    ("How do I reset my password?", "I forgot my login and need a new password."),
    ("The stock market fell sharply today.", "Shares lost a lot of their value this afternoon."),
    ("Water boils at one hundred degrees Celsius.", "The boiling point of water is 100 °C."),
    ("My cat sleeps on the sofa all day.", "The kitten is always napping on the couch."),
    ("The train to Berlin leaves at nine.", "At 9 o'clock a rail service departs for Berlin."),
    ("She bakes bread every morning.", "Each day she makes fresh loaves in the oven."),
    ("The doctor prescribed an antibiotic.", "A physician gave me medicine against bacteria."),
)
"""Sentences of which each is nearest to the other one of its pair."""


def texts() -> list[str]:
    """Return the texts: of one word, of some, and of more tokens than MiniLM reads."""
    draw = random.Random(SEED)
    lengths = [1, 1, 2, 2, 3, *(draw.randint(3, 40) for _ in range(155)), *(draw.randint(41, 260) for _ in range(40))]
    return [" ".join(draw.choices(_WORDS.split(), k=length)) for length in lengths]


def token_lists(vocab_size: int, first: int = 5) -> list[list[int]]:
    """Return texts of 1 to 40 tokens for tiny random models, without the tokens below `first`, which may be special."""
    draw = random.Random(SEED)
    return [
        [draw.randrange(first, vocab_size) for _ in range(length)] for length in (1, 2, 3, 5, 8, 13, 14, 21, 33, 40)
    ]
