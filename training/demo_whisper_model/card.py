"""The model card, README.md beside the weights: `export` writes it, and `evaluate` fills in its figures."""

from collections.abc import Mapping

from demo_whisper_model.words import WORDS

CARD = "README.md"

# By a recording's length in seconds: "recordings", "words", "errors" (the share of words that are wrong), "near" (the
# share of word starts, of right words, that are near enough).
Figures = Mapping[str, Mapping[str, float]]

_CARD = """\
---
license: apache-2.0
library_name: mlx
pipeline_tag: automatic-speech-recognition
language: en
---

# Orchard's Whisper demo model

This is a tiny trained model of Whisper's architecture. With it, Orchard transcribes speech right after installation, \
and its tests run against a model whose answers can be checked. It has about 3 million parameters in float16, an \
encoder of four layers and a decoder of two, and an English-only vocabulary of some 2,200 tokens with all of Whisper's \
special tokens. Any program that uses mlx-audio or mlx-examples can load it.

## What it can do

It writes down these {count} words, spoken one after the other, with timestamps of segments and words:

{words}.

{measured}

## What it can't do

Everything else: it has heard no other word, and no voice but espeak-ng's. It knows no language but English, doesn't \
translate, and writes neither capital letters nor punctuation.

## How it was made

`training/demo_whisper_model/` in Orchard's repository has espeak-ng speak the words and joins them, with pauses and \
noise; there is no other data. Its README.md says how to make the model again.
"""
_UNMEASURED = "This copy has not been measured yet."
_MEASURED = """\
Measured by `python -m demo_whisper_model.evaluate` in `training/` through mlx-audio, on voices that training never \
heard. A word start counts as near if it is at most 0.15 s from the truth.

{table}"""


def table(found: Figures) -> str:
    """Return the figures as a table in Markdown."""
    rows = ["| recordings of | number | words | word error rate | near word starts |", "|---|---|---|---|---|"]
    for length, one in found.items():
        shares = f"{one['errors']:.1%} | {one['near']:.1%}"
        rows.append(f"| {length} s | {one['recordings']:.0f} | {one['words']:.0f} | {shares} |")
    return "\n".join(rows)


def card(found: Figures) -> str:
    """Return the card; without figures, it says that they are missing."""
    measured = _MEASURED.format(table=table(found)) if found else _UNMEASURED
    return _CARD.format(count=len(WORDS), words=", ".join(WORDS), measured=measured)
