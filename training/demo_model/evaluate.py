"""Measure the demo model's skills on prompts that training never drew, through its chat template and Orchard's engine.

Half of each skill's prompts use the training wordings with new values ("seen"), half use wordings, names and tools that
were held out ("held"). Decoding is greedy. Exit code 1 if a skill is under its threshold on the seen wordings; what the
held ones reach is shown beside it, and says how far the model can be trusted with words of one's own.

    python -m demo_model.evaluate [--prompts 400] [--skill NAME] [--json FILE] [--show 5]
"""

# ruff: noqa: E501 - tables and progress lines

import argparse
import asyncio
import json
import re
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from orchard.core.tasks.generate import Generate, Sampling
from orchard.demo import MODEL_PATH

from demo_model.data import Conversation, conversation
from demo_model.template import Message, Tool, reply_text
from demo_model.text import Split

# Each skill: the share of right answers it must reach, and the kinds of conversation it is measured on.
SKILLS: dict[str, tuple[float, tuple[str, ...]]] = {
    "echo": (0.95, ("echo",)),
    "sums": (0.95, ("sums",)),
    "calls": (0.90, ("tools",)),
    "results": (0.90, ("tools", "echo", "tools", "sums", "tools", "chat")),
    "memory": (0.90, ("memory",)),
    "passages": (0.90, ("passages",)),
    "facts": (0.95, ("facts", "facts", "chat")),
    "refuse": (0.85, ("refuse",)),
    "lists": (0.90, ("count", "list")),
    "json": (0.90, ("json",)),
    "quiet": (0.95, ("facts", "chat", "refuse", "echo", "sums", "memory")),
}
THINKING = 0.98
_CALL = re.compile(r"<tool_call>\n(.*?)\n</tool_call>", re.DOTALL)
_SEED = 20_000


@dataclass(slots=True)
class Case:
    """One prompt: what the client sends, and the assistant turn that is right."""

    skill: str
    split: Split
    messages: list[Message]
    tools: list[Tool]
    thinking: bool
    answer: Message


def case(rng: Random, skill: str, split: Split, kind: str) -> Case:
    """Make one prompt: a conversation cut before the turn that is judged."""
    made: Conversation = conversation(rng, split, kind, turns=rng.choice((1, 1, 2, 3)))
    while skill in ("results", "quiet") and kind != "tools" and not made.tools:
        # "Needs no tool" is only a question where tools are offered.
        made = conversation(rng, split, kind, turns=rng.choice((1, 1, 2, 3)))
    turns = [index for index, message in enumerate(made.messages) if message["role"] == "assistant"]
    chosen = turns[-made.judged] if skill == "calls" else turns[-1]
    return Case(skill, split, made.messages[:chosen], made.tools, rng.random() < 0.3, made.messages[chosen])


def cases(skill: str, count: int) -> list[Case]:
    """Make the prompts of a skill, half of them with held-out wordings."""
    kinds = SKILLS[skill][1]
    found: list[Case] = []
    splits: tuple[Split, Split] = ("seen", "held")
    for split in splits:
        rng = Random(f"{split}:{_SEED}:{skill}")
        found += [case(rng, skill, split, kinds[i % len(kinds)]) for i in range((count + 1) // 2)]
    return found


def calls_of(text: str) -> list[tuple[str, Any]] | None:
    """Read the tool calls in a reply; None if one of them is not JSON."""
    try:
        return [(call["name"], call["arguments"]) for call in map(json.loads, _CALL.findall(text))]
    except (ValueError, KeyError, TypeError):
        return None


def split_thought(text: str) -> tuple[str, str]:
    """Split a reply into its thought ("" if none) and its body."""
    match = re.match(r"<think>\n(.*?)\n</think>\n\n", text, re.DOTALL)
    return (match[1].strip(), text[match.end() :]) if match else ("", text)


def like(one: Case, body: str, expected: str) -> bool:
    """Whether an answer is a whole JSON object; where the request names the keys, with these and values of their types.

    Where it says the values, too, they must be those.
    """
    try:
        made, wanted = json.loads(body), json.loads(expected)
    except ValueError:
        return False
    if not isinstance(made, dict) or not made:
        return False
    said = " ".join(message["content"] for message in one.messages)
    if not all(key in said for key in wanted):
        return True
    if all(isinstance(value, str) and value in said for value in wanted.values()):
        return bool(made == wanted)
    return {key: type(value) for key, value in made.items()} == {key: type(value) for key, value in wanted.items()}


def judge(one: Case, text: str) -> tuple[bool, bool]:
    """Whether the reply is right, and whether it thinks exactly when it should."""
    thought, body = split_thought(text)
    thinks = bool(thought) == one.thinking and "think>" not in body
    expected = reply_text(one.answer)
    if one.skill == "quiet":
        return bool(body.strip()) and "<tool_call>" not in body, thinks
    if one.skill == "refuse":
        # It may go on to say what it can do, as earlier models did.
        return body.startswith(expected.strip()), thinks
    if one.skill == "json":
        return like(one, body, expected), thinks
    if one.answer.get("tool_calls"):
        return calls_of(body) == calls_of(expected), thinks
    return body.strip() == expected.strip(), thinks


def replies(folder: Path, todo: list[Case]) -> list[str]:
    """Generate greedily for all prompts."""
    # Imported here because only a real evaluation needs MLX; the prompts above are also used by tests without it.
    from orchard.backends.text.service import TextService
    from transformers import AutoTokenizer

    from asking import answers

    tokenizer = AutoTokenizer.from_pretrained(folder)
    tasks = []
    for one in todo:
        prompt = tokenizer.apply_chat_template(
            one.messages, tools=one.tools or None, add_generation_prompt=True, enable_thinking=one.thinking
        )
        # An object must be closed within 100 tokens; a thought may come before it.
        most = 160 if one.skill == "json" else 60 + len(tokenizer.encode(reply_text(one.answer)))
        tasks.append(Generate(prompt=tuple(prompt["input_ids"]), sampling=Sampling(temperature=0.0), max_tokens=most))
    return asyncio.run(answers(TextService, folder, tasks))


def evaluate(folder: Path, skills: list[str], count: int, show: int = 0) -> dict[str, dict[str, float]]:
    """Measure skills; for each, the share right over all prompts and over either split."""
    todo = [one for skill in skills for one in cases(skill, count)]
    right: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    shown: dict[str, int] = defaultdict(int)
    for one, text in zip(todo, replies(folder, todo), strict=True):
        good, thinks = judge(one, text)
        right[one.skill]["all"].append(good)
        right[one.skill][one.split].append(good)
        right["thinking"]["all"].append(thinks)
        right["thinking"][one.split].append(thinks)
        if not (good and thinks) and shown[one.skill] < show:
            shown[one.skill] += 1
            print(
                f"[{one.skill} {one.split}] {one.messages[-1]['content']!r}\n  want {reply_text(one.answer)!r}\n  got  {text!r}"
            )
    return {
        skill: {"prompts": len(parts["all"]), **{split: sum(hits) / len(hits) for split, hits in parts.items()}}
        for skill, parts in right.items()
    }


def main() -> None:
    """Measure, print a table, and exit with 1 if a skill is under its threshold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=400, help="prompts for each skill, half of them held out")
    parser.add_argument("--skill", choices=SKILLS, help="only this skill")
    parser.add_argument("--json", type=Path, help="also write the numbers here")
    parser.add_argument("--show", type=int, default=0, help="wrong answers to print for each skill")
    parser.add_argument("--model", type=Path, default=MODEL_PATH)
    arguments = parser.parse_args()
    skills = [arguments.skill] if arguments.skill else list(SKILLS)
    found = evaluate(arguments.model, skills, arguments.prompts, arguments.show)
    print("| skill | prompts | right | seen wordings | held-out wordings | at least |\n|---|---|---|---|---|---|")
    failed = False
    for skill, share in found.items():
        least = THINKING if skill == "thinking" else SKILLS[skill][0]
        failed = failed or share["seen"] < least
        print(
            f"| {skill} | {share['prompts']} | {share['all']:.1%} | {share.get('seen', 0):.1%} | {share.get('held', 0):.1%} | {least:.0%} |"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
