"""Put exchanges together into whole conversations.

Seeds: training draws shard ``s`` from ``Random("train:<seed>:<s>")``; evaluation draws its prompts from
``Random("seen:<seed>:<skill>")`` and ``Random("held:<seed>:<skill>")``. A string seed is hashed whole, so they never meet.
"""

# ruff: noqa: E501, PLR0917 - phrases read best unbroken

import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from demo_model.exchange import Exchange, user
from demo_model.skills import (
    about,
    answers,
    around,
    contrasts,
    copied,
    deeds,
    echo,
    facts,
    frames,
    implied,
    kitted,
    lists,
    memory,
    passages,
    profiles,
    qualities,
    questions,
    rated,
    recall,
    refuse,
    requests,
    servers,
    stories,
    sums,
    talks,
    tools,
    unwanted,
)
from demo_model.skills.catalog import CATALOG
from demo_model.skills.define import Offer
from demo_model.template import Message, Tool
from demo_model.text import Split, choose, dressed, expand, sentence

Maker = Callable[[Random, Split], Exchange]


def _between(rng: Random, split: Split) -> Exchange:
    """Return an exchange short enough to stand between telling and asking."""
    maker = choose(rng, (echo.make, sums.make, facts.make, about.chat, refuse.make, about.chat, tools.make))
    made = maker(rng, split)
    # Few tools fit there: those beside the called ones stay out.
    called = {call["function"]["name"] for message in made.messages for call in message.get("tool_calls", ())}
    made.tools = [tool for tool in made.tools if tool["function"]["name"] in called] or made.tools[:1]
    return made


def _remember(rng: Random, split: Split) -> Exchange:
    kind = rng.random()
    if kind < 0.36:
        story = (profiles if kind < 0.19 else contrasts).story(rng, split)
        return talks.make(rng, split, lambda: _between(rng, split), story)
    kind = (kind - 0.36) / 0.64
    if kind < 0.33:
        told = lists.known(rng) if kind < 0.05 else (deeds if kind < 0.18 else qualities).known(rng, split)
        return recall.make(rng, split, lambda: _between(rng, split), told, lambda one: qualities.again(rng, split, one))
    return (recall.make if kind < 0.75 else memory.make)(rng, split, lambda: _between(rng, split))


def _unknown(rng: Random, split: Split) -> Exchange:
    return (memory.unknown if rng.random() < 0.5 else recall.unknown)(rng, split)


def _again(rng: Random, split: Split) -> Exchange:
    return echo.again(rng, split, lambda: _between(rng, split))


# What a training conversation is made of. Weights follow difficulty, not how often people ask.
MIXTURE: dict[str, tuple[float, Maker]] = {
    "echo": (0.16, echo.make),
    "again": (0.01, _again),
    "sums": (0.21, sums.make),
    "tools": (0.8, tools.make),
    "memory": (0.37, _remember),
    "passages": (0.12, passages.make),
    "unknown": (0.025, _unknown),
    "facts": (0.25, facts.make),
    "chat": (0.075, about.chat),
    "json": (0.5, answers.make),
    "refuse": (0.22, refuse.make),
    "count": (0.02, stories.count),
    "list": (0.015, stories.listing),
    "spell": (0.02, stories.spelling),
    "story": (0.015, stories.story),
}
_NAMES = list(MIXTURE)
_WEIGHTS = [weight for weight, _ in MIXTURE.values()]

# Catalog tools that no out-of-scope request asks for, so that both can stand in one conversation.
SAFE = {
    "get_order",
    "cancel_order",
    "get_user",
    "track_package",
    "random_number",
    "set_temperature",
    "get_stock_price",
    "add_todo",
}
MOST_TOOLS = 8
# Requests for these, with no tool to do it, belong to another skill.
_OWN = {"sums", "echo"}
# So may what is told, or asked for with such words: the model remembers, counts and says back.
_OWN_WORDS = re.compile(
    r"^(my|our|i|i'm|we|the \w+ is|note|remember|remind|save|keep)\b|\b(remember|add|plus|minus|times|sum|average|count|say|repeat|spell|joke|story|json|calculate|compute|evaluate|solve|power|mean)\b|\d\)? *[-+*/^=]+ *\(?\d",
    re.IGNORECASE,
)


@dataclass(slots=True)
class Conversation:
    """What a client sends, with the right answers in it; ``judged`` as in :class:`Exchange`."""

    messages: list[Message]
    tools: list[Tool]
    thinking: bool
    judged: int = 1


def system_prompt(rng: Random) -> str | None:
    """Draw a system prompt: none, the usual one, or any other; none of them changes what is right."""
    kind = rng.random()
    if kind < 0.35:
        return None
    if kind < 0.55:
        return "You are a helpful assistant."
    text = expand(
        rng,
        "[You are|You're|Act as] [a|an|the] [helpful |friendly |concise |polite |precise |smart |kind |professional |][assistant|AI assistant|bot|chatbot|agent|model|teacher|expert|coding assistant|voice assistant|support agent][ for {n}|].[ Be brief.| Answer in English.| Use tools when needed.| Answer the user's questions.| Always answer politely.| Think step by step.| Keep your answers short.| Do not make things up.| Use the tools you are given.|]",
        n=sentence(rng).rstrip(".").lower(),
    )
    if kind > 0.75:
        extra = [sentence(rng) for _ in range(rng.randint(1, 4 if kind < 0.95 else 25 if kind < 0.995 else 120))]
        text = choose(rng, (" ", "\n", "\n- ")).join([text, *extra]) if rng.random() < 0.7 else " ".join(extra)
    return text


# What may be wanted where no tool serves it: not what is told, which the model keeps in mind.
_WANTED: tuple[Callable[[Random, Split], Offer], ...] = (
    *(tools.synthetic, requests.everyday, frames.framed, kitted.kitted) * 2,
    *(questions.asked, implied.implied, rated.numbered, around.around, copied.copied),
)


def unserved(rng: Random, split: Split, offered: list[Offer]) -> Exchange | None:
    """Make a request for a tool that is not among those offered: the model must not call another one.

    None if every request that was drawn could be meant for one of them.
    """
    specs = [
        spec for spec in CATALOG if spec.topic not in _OWN and spec.names[0] not in ("random_number", "get_user_info")
    ]
    for _ in range(5):
        if rng.random() < 0.6:
            wanted = choose(rng, _WANTED)(rng, split)
        else:
            wanted = tools.from_catalog(rng, split, choose(rng, specs))
        if not _OWN_WORDS.search(wanted.ask) and not any(tools.clash(wanted, other) for other in offered):
            made = refuse.make(rng, split)
            made.messages[0] = user(wanted.ask)
            return made
    return None


# Tools that do these things may serve a question, or what somebody tells.
_OPEN = set(
    "search find lookup look google query get fetch show read check list open load view describe inspect retrieve know ask "  # noqa: SIM905
    "translate localize summarize digest analyze classify proofread write draft draw paint render plot make generate design "
    "calculate compute estimate measure convert run execute exec start launch begin trigger play stream create add new insert "
    "save store remind set update edit log record track register file note put append wake enable disable toggle switch count "
    "current tail head parse scan ls grep plan schedule arrange navigate go drive call invite greet test info facts wiki compare result "
    "fixture winner ranking agenda weather distance relation remember memory".split()
)


def _meant(other: Offer, said: set[str]) -> bool:
    """Whether a question or something told in these words might be meant for a tool."""
    words = set(other.key.replace("_", " ").lower().split())
    if other.everyday:
        return bool(words & _OPEN or words & said or any(f"{word}s" in said for word in words))
    return other.key in {spec.names[0] for spec in CATALOG} - SAFE


def _fits(new: list[Tool], offered: list[Tool]) -> bool:
    """Whether tools may be offered beside those of earlier exchanges: few enough, and none that is like another."""
    if not new or not offered:
        return len(new) <= MOST_TOOLS
    others = [tools.shown(tool) for tool in offered]
    near = any(tools.clash(tools.shown(tool), other) for tool in new for other in others)
    return not near and len(offered) + len(new) <= MOST_TOOLS


def conversation(rng: Random, split: Split, skill: str | None = None, turns: int = 0) -> Conversation:
    """Make a conversation whose last exchange is of the given skill (any, by weight, if None)."""
    count = turns or rng.choices((1, 2, 3, 4, 5, 9), (0.5, 0.2, 0.14, 0.08, 0.05, 0.03))[0]
    skills = rng.choices(_NAMES, _WEIGHTS, k=count)
    if skill is not None:
        skills[-1] = skill
    system = system_prompt(rng)
    parts: list[Exchange] = []
    topics: set[str] = set()
    offered: list[Tool] = []
    for index, name in enumerate(skills):
        last = index + 1 == count
        for _ in range(20):
            part = MIXTURE[name][1](rng, split)
            fits = _fits(part.tools, offered)
            sums_clash = bool(part.tools) and part.topic in topics and part.topic in _OWN
            reverse = name in ("sums", "echo", "memory", "chat") and any("tool:" + topic in topics for topic in _OWN)
            if fits and not sums_clash and not reverse:
                break
        else:
            if not last:
                continue
            parts, topics, offered = [], set(), []
        for message in part.messages:
            # What is said again must stay as it was said.
            if name != "again" and message["role"] == "user" and rng.random() < 0.3:
                message["content"] = dressed(rng, message["content"], split)
        parts.append(part)
        topics.add(
            f"tool:{part.topic}"
            if part.tools
            else "sums"
            if name in ("memory", "sums")
            else "echo"
            if name in ("echo", "chat")
            else name
        )
        offered += [tool for tool in part.tools if tool not in offered]
    # A system prompt that asks for JSON would be wrong about the other exchanges.
    messages = [m for part in parts for m in part.messages if len(parts) == 1 or m["role"] != "system"]
    # What was told in another exchange is not unknown.
    told = [part.topic for part in parts]
    if "unknown" in told and ({"memory", "json"} & set(told) or told.count("unknown") > 1):
        return conversation(rng, split, skill, turns)
    shown = _with_distractors(rng, split, messages, offered, topics, skills, parts)
    if shown and rng.random() < 0.22:
        servers.renamed(rng, messages, shown)
    if skills == ["unknown"] and rng.random() < 0.5 and skill is None:
        system, stated = memory.stated(rng, split)
        messages = stated.messages
    if system is not None and messages[0]["role"] != "system":
        place = choose(rng, [i for i, m in enumerate(messages) if m["role"] == "user"]) if rng.random() < 0.06 else 0
        messages.insert(place, {"role": "system", "content": system})
    return Conversation(messages, shown, thinking=rng.random() < 0.25, judged=parts[-1].judged)


def _with_distractors(
    rng: Random,
    split: Split,
    messages: list[Message],
    offered: list[Tool],
    topics: set[str],
    skills: list[str],
    parts: list[Exchange],
) -> list[Tool]:
    """Add tools that nobody asks for; at times turn the last request into one that no tool can serve or shall."""
    wanted = choose(rng, (0, 0, 0, 0, 1, 1, 2, 2, 3, 5)) if offered else choose(rng, (0, 0, 0, 0, 0, 0, 1, 1, 2, 3, 6))
    banned = set(_OWN) & (topics | {topic.removeprefix("tool:") for topic in topics})
    mine = [tools.shown(tool) for tool in offered]
    extra = tools.distractors(rng, split, mine, min(wanted, MOST_TOOLS - len(offered)), banned)
    made = None
    if skills[-1] == "refuse" and not offered and rng.random() < 0.5:
        # A question that some tool could serve, with no tool or with other tools.
        extra = tools.distractors(rng, split, [], wanted, set())
        made = unserved(rng, split, extra)
    elif skills[-1] == "chat" and not offered and rng.random() < 0.4:
        extra = tools.distractors(rng, split, [], max(wanted, 2), banned)
        made = unwanted.make(rng, extra)
    if made is not None:
        parts[-1].messages[:] = made.messages
        messages[len(messages) - 2 :] = made.messages
    if {"refuse", "memory", "passages", "unknown"} & set(skills) and (made is None or len(skills) > 1):
        said = {word for m in messages if m["role"] == "user" for word in re.findall(r"[a-z]+", m["content"].lower())}
        extra = [other for other in extra if not _meant(other, said) and other.topic not in banned]
    shown = [*offered, *(other.tool for other in extra)]
    rng.shuffle(shown)
    return shown


def training_conversations(seed: int, shard: int, count: int) -> list[Conversation]:
    """Make one shard of training conversations; the same arguments always give the same ones."""
    rng = Random(f"train:{seed}:{shard}")
    return [conversation(rng, "train") for _ in range(count)]
