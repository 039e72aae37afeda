"""Measure the vision model on images and questions that are not in the training data, with Orchard's own backend.

Shades and sizes of shapes are those kept out of training. The questions use the wordings of training ("seen"); a fifth
as many more use wordings that were kept out, too ("held"). Images are PNG and JPEG files with sides of 90 to 1,200
pixels. Decoding is greedy; an answer is right if it equals the expected one, word by word.

    python -m demo_vision_model.evaluate --model FOLDER [--questions 500] [--card] [--show 5]
"""

import argparse
import asyncio
import json
import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from random import Random

from orchard.core.media import MediaPart
from orchard.core.tasks.generate import Generate, Message, Part, Sampling, TextPart

from demo_model.text import Split
from demo_vision_model import pictures, template
from demo_vision_model.batches import scenes_for
from demo_vision_model.card import CARD, KINDS, Figures, card, table
from demo_vision_model.data import Conversation, about_pictures, without_pictures

_PAIRS = ("one of two", "which", "apart")
_TURNS = (1, 1, 2, 3)
_MOST_TOKENS = 150


@dataclass(frozen=True, slots=True)
class Case:
    """A question: what the client sends, and the answer that is right."""

    kind: str
    split: Split
    messages: tuple[Message, ...]
    answer: str


def _size(rng: Random) -> tuple[int, int]:
    short = math.exp(rng.uniform(math.log(90), math.log(600)))
    ratio = 1.0 if rng.random() < 0.3 else rng.uniform(1, 2)
    sides = round(short), round(short * ratio)
    return sides if rng.random() < 0.5 else sides[::-1]


def _conversation(rng: Random, kind: str, split: Split) -> tuple[Conversation, list[bytes]]:
    """Make a conversation whose last question is of a kind, and its pictures' files."""
    while True:
        turns = rng.choice(_TURNS)
        sizes = [_size(rng) for _ in range(0 if kind == "text" else 2 if kind in _PAIRS else 1)]
        if len(sizes) == 2 and rng.random() < 0.6:
            sizes[1] = sizes[0]
        scenes = scenes_for(rng, split, sizes) if sizes else []
        made = about_pictures(rng, split, scenes, turns, kind) if sizes else without_pictures(rng, split, turns)
        if made.kinds[-1] == kind:  # not every kind can be asked about every scene
            break
    files = []
    for one, size in zip(scenes, sizes, strict=True):
        look = pictures.look(rng, size)
        files.append(pictures.saved(pictures.draw(one, *size, look), look))
    return made, files


def _sent(messages: list[template.Message], files: list[bytes]) -> tuple[Message, ...]:
    """Return messages as a dialect gives them, with files in the places of pictures."""
    left = iter(files)
    sent = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        parts: list[Part] = [
            TextPart(block["text"]) if block["type"] == "text" else MediaPart("image", "", "messages", data=next(left))
            for block in blocks
        ]
        sent.append(Message(message["role"], tuple(parts)))
    return tuple(sent)


def cases(kind: str, count: int) -> list[Case]:
    """Make so many questions of a kind, and a fifth as many with held-out wordings."""
    found = []
    splits: tuple[tuple[Split, int], ...] = ("seen", count), ("held", -(-count // 5))
    for split, most in splits:
        for number in range(most):
            made, files = _conversation(Random(f"{split}:evaluate:{kind}:{number}"), kind, split)
            messages = _sent(made.messages[:-1], files)
            found.append(Case(kind, split, messages, made.messages[-1]["content"]))
    return found


async def replies(folder: Path, todo: list[Case]) -> list[str]:
    """Ask a folder's model every question."""
    # Imported here because only a real evaluation needs MLX; the questions above are also used by tests without it.
    from orchard.backends.vision.service import VisionService

    from asking import answers

    greedy = Sampling(temperature=0.0)
    tasks = [Generate(one.messages, sampling=greedy, max_tokens=_MOST_TOKENS) for one in todo]
    return await answers(VisionService, folder, tasks)


def figures(todo: list[Case], given: list[str]) -> Figures:
    """Return for each kind how many questions had training wordings, and the share of right answers of each split."""
    right: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for one, text in zip(todo, given, strict=True):
        right[one.kind][one.split].append(text.strip() == one.answer)
    return {
        kind: {"questions": len(parts["seen"]), **{name: sum(hits) / len(hits) for name, hits in parts.items()}}
        for kind, parts in right.items()
    }


def _show(todo: list[Case], given: list[str], most: int) -> None:
    shown: dict[str, int] = defaultdict(int)
    for one, text in zip(todo, given, strict=True):
        if text.strip() != one.answer and shown[one.kind] < most:
            shown[one.kind] += 1
            asked = " ".join(part.text for part in one.messages[-1].parts if isinstance(part, TextPart))
            print(f"[{one.kind} {one.split}] {asked!r}\n  want {one.answer!r}\n  got  {text!r}")


def main() -> None:
    """Measure, and print the figures as a line of JSON and as the table of the model card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="the folder that export wrote")
    parser.add_argument(
        "--questions", type=int, default=500, help="questions of each kind, and a fifth on top in other wordings"
    )
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="kinds of question to ask")
    parser.add_argument("--card", action="store_true", help="also write the card with these figures into the folder")
    parser.add_argument("--show", type=int, default=0, help="wrong answers to print for each kind")
    arguments = parser.parse_args()
    todo = [one for kind in arguments.kinds for one in cases(kind, arguments.questions)]
    given = asyncio.run(replies(arguments.model, todo))
    _show(todo, given, arguments.show)
    found = figures(todo, given)
    print(json.dumps(found))
    print(table(found))
    if arguments.card:
        (arguments.model / CARD).write_text(card(found))


if __name__ == "__main__":
    main()
