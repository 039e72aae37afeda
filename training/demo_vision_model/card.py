"""The model card, README.md beside the weights: `export` writes it, and `evaluate` fills in its figures."""

from collections.abc import Mapping

CARD = "README.md"

# For each kind of question: what the model does when it is asked.
KINDS = {
    "colour": "names the colour of a shape",
    "shape": "names the shape at a place or of a colour",
    "count": "counts shapes, all or those of a colour or form",
    "position": "says where a shape is, in a grid of nine places",
    "present": "says whether something is there",
    "describe": "lists up to four shapes, or says how many there are",
    "one of two": "answers any of these about one of two pictures",
    "which": "says which of two pictures shows something",
    "apart": "says what tells two pictures apart",
    "text": "says who it is, makes small talk, refuses, and asks for a picture where there is none",
}

# For each kind: "questions", a number; shares of right answers in wordings of training ("seen") and in others ("held").
Figures = Mapping[str, Mapping[str, float]]

_CARD = """\
---
license: apache-2.0
library_name: mlx
pipeline_tag: image-text-to-text
language: en
---

# Orchard's vision demo model

This is a tiny trained vision model. With it, Orchard answers questions about pictures of simple shapes right after \
installation, and its tests run against a model whose answers can be checked. It has the Qwen3-VL architecture \
(`model_type: qwen3_vl`), 3.8 million parameters in bfloat16, and takes 7.7 MB with its tokenizer. Any server for MLX \
that uses mlx-vlm can load it.

| | |
|---|---|
| text | 5 layers, hidden size 192, feed-forward size 448, 4 attention heads and 2 key-value heads of size 64, tied \
embeddings |
| vision | 4 layers, hidden size 128, patches of 8 x 8 pixels, 2 x 2 of them a token, deepstack features of the second \
layer |
| pictures | resized to about 128 x 128 to 160 x 160 pixels: 64 to 100 tokens |
| tokenizer | byte-level BPE with 1,024 tokens |
| context | 32,768 positions in the configuration. It was trained on conversations of up to 376 tokens with one or two \
pictures; don't expect much beyond |
| decoding | greedy by default |
| licence | Apache-2.0 |

## What it can do

It knows eleven colours (red, orange, yellow, green, blue, purple, pink, brown, black, white, gray) and ten shapes \
(circle, square, triangle, star, heart, cross, diamond, ring, rectangle, oval).

{measured}

## What it can't do

Everything else. It has never seen a photo, a word or a face, and it names one of its shapes whatever it is shown. It \
understands only English, and requests that are worded like its training data. Colours between two names, shapes that \
touch and pictures more than twice as wide as high confuse it. It takes videos, but was not trained on any. It accepts \
system prompts but doesn't follow them.

## How it was made

`training/demo_vision_model/` in Orchard's repository draws all pictures and writes all text; there is no other data. \
Its README.md says how to make the model again.
"""
_UNMEASURED = "This copy has not been measured yet."
_MEASURED = """\
Measured by `python -m demo_vision_model.evaluate --questions {questions:.0f}` in `training/`, with greedy decoding, \
through Orchard's own backend. The pictures are PNG and JPEG files of 90 to 1,200 pixels a side, a \
conversation has one to three questions, and an answer counts only if every word is right. Seeds, shades and sizes of \
shapes are ones that training never uses. The last column is of a fifth as many other questions, which are worded in \
ways that were held out of training, too.

{table}"""


def table(found: Figures) -> str:
    """Return the figures as a table in Markdown."""
    rows = ["| kind | questions | right | right in held-out wordings |", "|---|---|---|---|"]
    for kind, share in found.items():
        shares = (f"{share[name]:.1%}" if name in share else "-" for name in ("seen", "held"))
        rows.append(f"| {kind}: {KINDS[kind]} | {share['questions']:.0f} | {' | '.join(shares)} |")
    return "\n".join(rows)


def card(found: Figures) -> str:
    """Return the card; without figures, it says that they are missing."""
    if not found:
        return _CARD.format(measured=_UNMEASURED)
    questions = max(share["questions"] for share in found.values())
    return _CARD.format(measured=_MEASURED.format(questions=questions, table=table(found)))
