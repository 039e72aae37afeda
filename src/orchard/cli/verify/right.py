"""Whether answers of models that generate text depend on nothing but the request."""

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from orchard.cli.verify.parting import drift, gap
from orchard.cli.verify.proof import Proof, Remedy, check
from orchard.cli.verify.subject import Answer, Subject
from orchard.cli.verify.texts import CHATS, HOT, SCHEMA, SEEDS, TOOL, TOOL_CHAT

ANSWER_TOKENS = 24
_CHAT_TOKENS = 96
_BIAS = 100  # of a logit
_WORDS = 40
_LOGPROBS = 5
_LEAST_DRIFT = 0.05  # of a log-probability: less is rounding in kernels that the library's loop doesn't use
_FIRST, _COMPANY, _GUESSING = range(3)  # callers: each has a part of the prompt cache of its own
CALLERS = 3

_ALONE = Remedy("--decode-concurrency 1 (answers then never share a pass), and report it", {"decode_concurrency": 1})
_NO_CACHE = Remedy("--prompt-cache-bytes 0, and report it", {"prompt_cache_bytes": 0})
_NO_GUESSES = Remedy("--speculation off, and report it", {"speculation": "off"})


def completions(subject: Subject) -> dict[str, dict[str, Any]]:
    """Return the requests by their names: greedy ones of several lengths, and one prompt with several seeds."""
    prompts: Sequence[Any] = [text for chat in CHATS if subject.fits(text := chat[0]["content"])]
    hot: dict[str, Any] = {"temperature": HOT, "top_p": 1, "max_tokens": 2 * ANSWER_TOKENS}
    if subject.bare:  # by the chat template, as tokens
        prompts = subject.bare.prompts
        # Drawing among words makes seeds differ where a model is sure.
        hot["logit_bias"] = {str(token): _BIAS for token in sorted(set(prompts[-1]))[-_WORDS:]}
    hot |= {
        "prompt": prompts[min(1, len(prompts) - 1)],
        "ignore_eos": True,
    }  # so that they don't end before the others have come
    greedy = {
        f"greedy {len(prompt)}": {"prompt": prompt, "temperature": 0, "max_tokens": ANSWER_TOKENS} for prompt in prompts
    }
    return greedy | {f"seed {seed}": hot | {"seed": seed} for seed in SEEDS}


async def answers_alone(subject: Subject) -> dict[str, Answer]:
    """Return the answers of a caller who is alone, whose prompts were in no cache the first time."""
    if not subject.alone:
        bodies = completions(subject).items()
        subject.alone = {name: await subject.complete(body | {"logprobs": _LOGPROBS}, _FIRST) for name, body in bodies}
    return subject.alone


@check("library loop", "right")
async def check_library(subject: Subject) -> Proof:
    """Compare greedy answers with those of mlx-lm's or mlx-vlm's own loop."""
    if not subject.bare:
        return Proof(status="left out", seen=f"the library's own loop does not run: {subject.why_not_bare}")
    if names := subject.settings_apart():
        return Proof(status="left out", seen=f"the library's own loop knows nothing of {', '.join(names)}")
    alone = await answers_alone(subject)
    greedy = {name: answer for name, answer in alone.items() if name.startswith("greedy")}
    bare = {name: Answer(text) for name, text in zip(greedy, subject.bare.texts, strict=True)}
    return compare(subject, greedy, bare, Remedy("nothing to set: please report it"))


@check("company", "right")
async def check_company(subject: Subject) -> Proof:
    """Compare greedy and seeded answers alone with those of eight at once in mixed company."""
    alone = await answers_alone(subject)
    bodies = {name: body | {"logprobs": _LOGPROBS} for name, body in completions(subject).items()}
    together = await subject.complete_all(bodies | {"other": _other_request(subject)}, _COMPANY)
    seeds = {name: body for name, body in bodies.items() if name.startswith("seed")}
    only_seeds = await subject.complete_all(seeds, _COMPANY)  # so that the neighbours of each have seeds, too
    if swapped := _swapped_seeds(alone, only_seeds):
        return _ALONE.problem(swapped)
    proof = compare(subject, alone, together, _ALONE)
    if len({alone[name].text for name in seeds}) == 1:
        proof.seen += "; all seeds give one answer, so it says nothing about them"
    return proof


def _other_request(subject: Subject) -> dict[str, Any]:
    """Return a request whose sampling is unlike that of the others."""
    return completions(subject)[f"seed {SEEDS[0]}"] | {
        "top_k": 20,
        "repetition_penalty": 1.2,
        "frequency_penalty": 0.5,
        "logprobs": 2,
        "seed": 7,
    }


@check("cache", "right")
async def check_cache(subject: Subject) -> Proof:
    """Compare answers to new prompts with answers to the same prompts from the cache."""
    alone = await answers_alone(subject)
    again = await _ask_again(subject)
    return _with_cached_tokens(compare(subject, alone, again, _NO_CACHE), again)


@check("restart", "right", stage="restarted")
async def check_restart(subject: Subject) -> Proof:
    """Compare answers before a restart with those after it, whose prompts come from the disk."""
    alone = await answers_alone(subject)
    again = await _ask_again(subject)
    remedy = Remedy("leave out --prompt-cache-dir, and report it")
    return _with_cached_tokens(compare(subject, alone, again, remedy), again)


async def _ask_again(subject: Subject) -> dict[str, Answer]:
    """Return the answers to the same requests of the same caller."""
    bodies = completions(subject).items()
    return {name: await subject.complete(body | {"logprobs": _LOGPROBS}, _FIRST) for name, body in bodies}


def _with_cached_tokens(proof: Proof, answers: Mapping[str, Answer]) -> Proof:
    """Add how many of the prompts' tokens came from the cache. If none did, equal answers say nothing about it."""
    cached = sum(answer.cached_tokens for answer in answers.values())
    prompts = sum(answer.prompt_tokens for answer in answers.values())
    proof.figures |= {"cached_tokens": cached, "prompt_tokens": prompts}
    proof.seen += f"; {cached:,} of {prompts:,} prompt tokens came from the cache"
    if not cached and proof.status != "problem":
        proof.status = "left out"
    return proof


@check("speculation", "right", stage="restarted")
async def check_speculation(subject: Subject) -> Proof:
    """Compare answers without guessed tokens with those that verify guesses."""
    alone = await answers_alone(subject)
    predicted = {
        name: body | {"prediction": {"type": "content", "content": alone[name].text}}
        for name, body in completions(subject).items()
    }
    guessed = {name: await subject.complete(body, _GUESSING) for name, body in predicted.items()}
    together = await subject.complete_all(predicted, _GUESSING)
    proof = compare(subject, alone, guessed, _NO_GUESSES)
    if proof.status != "problem":
        proof = compare(subject, alone, together, _NO_GUESSES)
    stats = (await subject.read("/v1/stats"))["models"][subject.served_name]["speculation"]
    verified = sum(source["proposed"] for source in stats.values())
    proof.figures["guesses"] = verified
    proof.seen += f"; {verified:,} guesses were verified"
    return proof


def compare(subject: Subject, alone: Mapping[str, Answer], others: Mapping[str, Answer], remedy: Remedy) -> Proof:
    """Compare answers with those alone, and say how far apart the tokens are where two answers part."""
    differing = [name for name, answer in alone.items() if others[name].text != answer.text]
    seen = f"{len(alone) - len(differing)} of {len(alone)} answers are equal"
    figures: dict[str, float | None] = {"compared": len(alone), "equal": len(alone) - len(differing)}
    if swapped := _swapped_seeds(alone, others):
        return remedy.problem(f"{seen}; {swapped}", figures)
    tolerance = subject.bare.tolerance if subject.bare else 0.0
    drifts = {name: drift(answer.tokens, others[name].tokens) for name, answer in alone.items()}
    name, largest = max(drifts.items(), key=lambda item: item[1])
    figures |= {"largest_drift": largest}
    if largest > max(tolerance, _LEAST_DRIFT):
        told = f"in '{name}' a token's log-probability changes by {largest:.3g}, and rounding explains {tolerance:.2g}"
        return remedy.problem(f"{seen}; {told}", figures)
    if not differing:
        return Proof(status="ok", seen=seen, figures=figures)
    seeded = [name for name in differing if name.startswith("seed")]
    gaps = {name: gap(alone[name].tokens, others[name].text) for name in differing if name not in seeded}
    wide = {name: one for name, one in gaps.items() if one is None or one > tolerance}
    figures |= {"largest_gap": max((one for one in gaps.values() if one is not None), default=None)}
    figures |= {"tolerance": tolerance}
    if wide:
        name, one = next(iter(wide.items()))
        far = "are not both among the likeliest" if one is None else f"are {one:.3g} apart in log-probability"
        told = f"where '{name}' parts, the tokens {far}, and rounding explains {tolerance:.2g}"
        return remedy.problem(f"{seen}; {told}", figures)
    if 2 * len(seeded) > sum(name.startswith("seed") for name in alone):
        told = f"{len(seeded)} answers with a seed differ, which is more than rounding explains"
        return remedy.problem(f"{seen}; {told}", figures)
    told = f"the others part where tokens are as likely as each other within this device's rounding, {tolerance:.2g}"
    return Proof(status="rounding", seen=f"{seen}; {told}", figures=figures)


def _swapped_seeds(alone: Mapping[str, Answer], others: Mapping[str, Answer]) -> str:
    """Return which request got the answer of another one's seed; empty if none did."""
    names = [name for name in alone if name.startswith("seed")]
    for name, other in itertools.permutations(names, 2):
        if alone[name].text != others[name].text == alone[other].text:
            return f"'{name}' got the answer of '{other}': a request uses the seed of its neighbour"
    return ""


@check("streamed", "right")
async def check_streamed(subject: Subject) -> Proof:
    """Compare streamed answers with whole ones: text, reasoning and calls."""
    chats: dict[str, dict[str, Any]] = {"text": {"messages": [{"role": "user", "content": "What is 17 + 25?"}]}}
    if "tools" in subject.capabilities:
        chats["call"] = {"messages": TOOL_CHAT, "tools": [TOOL]}
    differing = []
    for name, body in chats.items():
        greedy = body | {"temperature": 0, "max_tokens": _CHAT_TOKENS}
        whole = (await subject.ask("/v1/chat/completions", greedy))["choices"][0]["message"]
        chunks = await subject.stream("/v1/chat/completions", greedy)
        if _message(whole) != _join_chunks(chunks):
            differing.append(name)
    if differing:
        seen = f"the streamed answer differs from the whole one: {', '.join(differing)}"
        return Proof(status="problem", seen=seen, advice="ask without streaming, and report it")
    return Proof(status="ok", seen=f"{', '.join(chats)}: streamed and whole are equal")


def _message(whole: dict[str, Any]) -> tuple[str, str, list[tuple[str, str]]]:
    calls = [(call["function"]["name"], call["function"]["arguments"]) for call in whole.get("tool_calls") or ()]
    return whole.get("content") or "", whole.get("reasoning_content") or "", calls


def _join_chunks(chunks: list[Any]) -> tuple[str, str, list[tuple[str, str]]]:
    text = reasoning = ""
    calls: dict[int, tuple[str, str]] = {}
    for choice in (choice for chunk in chunks for choice in chunk["choices"]):
        delta = choice["delta"]
        text += delta.get("content") or ""
        reasoning += delta.get("reasoning_content") or ""
        for call in delta.get("tool_calls") or ():
            name, arguments = calls.get(call["index"], ("", ""))
            made = call["function"]
            calls[call["index"]] = (name + (made.get("name") or ""), arguments + (made.get("arguments") or ""))
    return text, reasoning, [calls[index] for index in sorted(calls)]


@check("schema", "right")
async def check_schema(subject: Subject) -> Proof:
    """See whether an answer that must match a JSON schema does."""
    wanted = {"type": "json_schema", "json_schema": {"name": "city", "schema": SCHEMA, "strict": True}}
    messages = [{"role": "user", "content": "Name a city and a number, as JSON."}]
    body = {"messages": messages, "response_format": wanted, "temperature": 0, "max_tokens": 4 * _CHAT_TOKENS}
    choice = (await subject.ask("/v1/chat/completions", body))["choices"][0]
    if choice["finish_reason"] == "length":
        return Proof(status="left out", seen="the model spent its tokens on reasoning, before it answered")
    answer = choice["message"]["content"]
    try:
        made = json.loads(answer)
        right = made["city"] in ("Paris", "Rome", "Oslo") and isinstance(made["count"], int) and len(made) == 2
    except (ValueError, TypeError, KeyError):
        right = False
    if right:
        return Proof(status="ok", seen="the answer matches the schema")
    return Proof(
        status="problem", seen="the answer doesn't match the schema", advice="check the answers, and report it"
    )


@check("call", "right")
async def check_call(subject: Subject) -> Proof:
    """See whether a forced call is read from what the model writes by its own template."""
    if "tools" not in subject.capabilities:
        return Proof(status="left out", seen="the model's chat template knows no tools")
    body = {"messages": TOOL_CHAT, "tools": [TOOL], "tool_choice": "required", "temperature": 0}
    choice = (await subject.ask("/v1/chat/completions", body | {"max_tokens": 4 * _CHAT_TOKENS}))["choices"][0]
    if choice["finish_reason"] == "length":
        return Proof(status="left out", seen="the model spent its tokens before it had written the call")
    calls = choice["message"].get("tool_calls") or [{"function": {"name": "", "arguments": "{}"}}]
    made = calls[0]["function"]
    try:
        right = made["name"] == "get_weather" and isinstance(json.loads(made["arguments"])["city"], str)
    except (ValueError, TypeError, KeyError):
        right = False
    if right and choice["finish_reason"] == "tool_calls":
        return Proof(status="ok", seen="the call has the tool's name and its argument")
    advice = "--tool-call-parser with the model's format, and report it"
    return Proof(status="problem", seen="the forced call was not read as one", advice=advice)


@check("reasoning", "right")
async def check_reasoning(subject: Subject) -> Proof:
    """See whether reasoning is apart from the answer, and no tag of it is left in either."""
    if "thinking" not in subject.capabilities:
        return Proof(status="left out", seen="the model's chat template has no reasoning")
    messages = [{"role": "user", "content": "What is 12 * 3?"}]
    body = {"messages": messages, "temperature": 0, "enable_thinking": True, "max_tokens": 4 * _CHAT_TOKENS}
    message = (await subject.ask("/v1/chat/completions", body))["choices"][0]["message"]
    text, reasoning, _ = _message(message)
    # Later in the reasoning, a tag is what the model wrote.
    if any(tag in text or reasoning.lstrip().startswith(tag) for tag in ("<think>", "</think>", "<|channel|>")):
        advice = "--reasoning-parser with the model's format, and report it"
        return Proof(status="problem", seen="a tag of the reasoning is left in the answer", advice=advice)
    if not reasoning:
        return Proof(status="ok", seen="the model answered without reasoning, and no tag is left")
    return Proof(status="ok", seen="the reasoning is apart from the answer, and no tag is left")
