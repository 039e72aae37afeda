"""Put images and questions together into conversations.

Seeds: training draws batch ``b`` from ``Random("train:<seed>:<b>")``; evaluation draws from ``Random("held:...")`` and
``Random("seen:...")``. The whole string is hashed, so these never overlap.
"""

from dataclasses import dataclass, field
from random import Random

from demo_model.data import system_prompt
from demo_model.skills import about, refuse
from demo_model.text import Split, expand, lines, wording
from demo_vision_model import questions
from demo_vision_model.scenes import Scene, scene
from demo_vision_model.template import Message

_DISTURBED = 0.25  # of the questions that training asks about pictures
SKILLS = "I can name the colour, shape, number and position of shapes in a picture, and compare two pictures."
_WHO = "I am the vision demo model of Orchard, a tiny model that looks at pictures of simple shapes."
_BLIND = "I see no picture. Please send me one."
_UNABLE = "I am a tiny demo model, so I can't help with that. " + SKILLS
_WHO_ASKS = lines("""
[Who|What] are you[?||]
[What|Which] model [is this|are you][?||]
[Introduce yourself|Tell me about yourself|Say who you are][.||]
[What is|What's] your name[?||]
[Hi|Hello], who are you?
~So what are you exactly?
""")
# Small talk of the text model that holds for this one too: all but what it can do and its joke.
_CHAT = [
    (SKILLS if answer == about.SKILLS else answer, asks) for answer, asks in about.CHAT_LIST if "joke" not in asks[0]
]


@dataclass(slots=True)
class Conversation:
    """Messages in which pictures are numbered parts; the scenes by number; the kind of each answer, in order."""

    messages: list[Message] = field(default_factory=list)
    scenes: list[Scene] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)

    def add(self, rng: Random, kind: str, ask: str, answer: str, pictures: int = 0) -> None:
        """Add a question, with new pictures before or after its words, and its answer."""
        content: list[Message] | str = ask
        if pictures:
            shown: list[Message] = [{"type": "image"} for _ in range(pictures)]
            words: list[Message] = [{"type": "text", "text": ask}]
            content = words + shown if rng.random() < 0.2 else shown + words
        self.messages += [{"role": "user", "content": content}, {"role": "assistant", "content": answer}]
        self.kinds.append(kind)


def _told(rng: Random) -> str:
    return (system_prompt(rng) or "You are a helpful assistant.")[:200]


def talk(rng: Random, split: Split) -> tuple[str, str]:
    """Draw a plain text question and its answer."""
    way = rng.random()
    if way < 0.25:
        return expand(rng, wording(rng, _WHO_ASKS, split)).strip(), _WHO
    if way < 0.75:
        answer, asks = rng.choice(_CHAT)
        return expand(rng, wording(rng, asks, split)).strip(), answer
    return refuse.filled(rng, split).strip()[:160] or "?", _UNABLE


def _blind(rng: Random, split: Split) -> tuple[str, str]:
    made = None
    while made is None:
        made = rng.choice(list(questions.SINGLE.values()))(rng, split, scene(rng, split, rng.randint(1, 4)))
    return questions.asked(rng, made[0], None), _BLIND


def _asked(rng: Random, split: Split, pattern: str, number: int | None) -> str:
    text = questions.asked(rng, pattern, number)
    return questions.disturbed(rng, text) if split == "train" and rng.random() < _DISTURBED else text


def _single(rng: Random, split: Split, one: Scene, number: int | None, kind: str | None) -> tuple[str, str, str]:
    while True:
        name = kind or rng.choices(list(questions.SINGLE), (2, 2, 2.5, 2, 2, 1.5))[0]
        made = questions.SINGLE[name](rng, split, one)
        if made:
            return name, _asked(rng, split, made[0], number), made[1]
        kind = None


def _double(rng: Random, split: Split, scenes: list[Scene], kind: str | None) -> tuple[str, str, str]:
    if (kind or "one of two") == "one of two" and (kind or rng.random() < 0.3):
        number = rng.randrange(2)
        _, ask, answer = _single(rng, split, scenes[number], number, None)
        return "one of two", ask, answer
    name = kind or rng.choice(("which", "apart"))
    made = questions.DOUBLE[name](rng, split, *scenes)
    assert made is not None
    return name, _asked(rng, split, made[0], None), made[1]


def about_pictures(rng: Random, split: Split, scenes: list[Scene], turns: int, kind: str | None = None) -> Conversation:
    """Make a conversation of some turns about one or two pictures; ``kind`` is the last question's kind, if given.

    Two pictures come together, or one after the other.
    """
    made = Conversation(scenes=scenes)
    if rng.random() < 0.3:
        made.messages.append({"role": "system", "content": _told(rng)})
    together = len(scenes) == 1 or turns < 2 or rng.random() < 0.65
    arrive = 0 if together else rng.randrange(1, turns)
    for turn in range(turns):
        wanted = kind if turn + 1 == turns else None
        fresh = (len(scenes) if together else 1) if turn == 0 else int(turn == arrive)
        seen = scenes[: 1 if turn < arrive else 2]
        if wanted is None and not fresh and rng.random() < 0.05:
            made.add(rng, "text", *talk(rng, split))
        elif len(seen) == 1:
            name, ask, answer = _single(rng, split, seen[0], None, wanted)
            made.add(rng, name, ask, answer, fresh)
        elif turn and fresh and wanted is None and rng.random() < 0.5:
            name, ask, answer = _single(rng, split, seen[1], None, wanted)
            made.add(rng, "one of two", ask, answer, fresh)
        else:
            name, ask, answer = _double(rng, split, seen, wanted)
            made.add(rng, name, ask, answer, fresh)
    return made


def without_pictures(rng: Random, split: Split, turns: int) -> Conversation:
    """Make a conversation of plain text."""
    made = Conversation()
    if rng.random() < 0.3:
        made.messages.append({"role": "system", "content": _told(rng)})
    for _ in range(turns):
        made.add(rng, "text", *(_blind(rng, split) if rng.random() < 0.25 else talk(rng, split)))
    return made
