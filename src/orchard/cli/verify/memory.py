"""Whether a model's process keeps within its memory, leaks nothing, and is right where other programs take memory."""

import asyncio
import statistics
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from rich.filesize import decimal

from orchard.cli.verify.proof import CHECKS, Proof, Remedy, check
from orchard.cli.verify.right import answers_alone, compare, completions
from orchard.cli.verify.subject import Answer, Refusal, Subject
from orchard.cli.verify.texts import numbered_lines

_KINDS = frozenset(kind for other in CHECKS for kind in other.kinds)  # all whose answers are checked
_REPORT_SECONDS = 1.2  # a worker reports its memory about once a second
_ROUNDS = 4
_REQUESTS = 8
_LEAK_BYTES = 2**25  # smaller changes are not reported
_TAKER = "orchard.worker.memory_taker"
_NOTICE_SECONDS = 3.0  # within which a server notices that memory was taken
_LEAST_LARGE_TOKENS, _LARGE_TOKENS = 512, 16_384
_LARGE_DECODES = 100.0  # seconds of decode, in which prefill reads many times as many tokens
_LARGE_ROWS = 8
_LARGE_SECONDS = 90.0
_LARGE_ANSWER = 8
_LACKS_MEMORY = (400, 503)  # a request that does not fit even alone, and one that does not fit now


@check("memory", "safe", _KINDS)
async def check_memory(subject: Subject) -> Proof:
    """Compare weights and peak memory with the estimate before the load and with the limit."""
    await asyncio.sleep(_REPORT_SECONDS)
    memory = (await subject.health())["memory"]
    limit = (await subject.read("/health"))["memory"]["limit_bytes"]
    estimate = subject.entry.options.loaded_bytes(subject.entry.size_bytes, subject.entry.kept_bytes)
    peak = max(memory["peak"], memory["mlx"])
    figures: dict[str, float | None] = {"estimate_bytes": estimate, "peak_bytes": peak, "limit_bytes": limit}
    seen = f"at most {decimal(peak)}, with {decimal(estimate)} of weights"
    if not limit:
        return Proof(status="ok", seen=seen, figures=figures)
    seen += f" and a limit of {decimal(limit)}"
    if peak <= limit:
        return Proof(status="ok", seen=seen, figures=figures)
    return Proof(
        status="problem", seen=seen, advice="--memory-limit below what is free, and report it", figures=figures
    )


@check("leak", "safe")
async def check_leak(subject: Subject) -> Proof:
    """See whether requests leave memory behind, beside the prompts that are cached on purpose."""
    held = [await _held_after_requests(subject, number) for number in range(_ROUNDS)]
    growth = held[-1] - held[0]
    requests = (_ROUNDS - 1) * _REQUESTS
    figures: dict[str, float | None] = {"growth_bytes": growth, "requests": requests}
    if growth > _LEAK_BYTES:
        seen = f"the worker leaks: each of {requests} requests leaves {decimal(growth // requests)} behind"
        advice = "a --ttl, which unloads the model when it is idle, and report it"
        return Proof(status="problem", seen=seen, advice=advice, figures=figures)
    seen = f"{requests} requests leave less than {decimal(_LEAK_BYTES)} behind"
    return Proof(status="ok", seen=seen, figures=figures)


async def _held_after_requests(subject: Subject, number: int) -> int:
    """Send requests at once, and return the bytes that the model then holds beside weights and caches."""
    prompts = [numbered_lines(3 + index) for index in range(_REQUESTS)]
    bodies = {str(index): {"prompt": f"{number} {text}", "max_tokens": 4} for index, text in enumerate(prompts)}
    await subject.complete_all(bodies, 0)
    await asyncio.sleep(_REPORT_SECONDS)
    memory = (await subject.health())["memory"]
    return int(memory["mlx"] - sum(memory[part] for part in ("prompts", "cache", "rows")))


@check("memory taken", "safe", stage="restarted", long=True)
async def check_memory_taken(subject: Subject) -> Proof:
    """Compare answers while another program takes memory and a large request comes, and after it, with those alone."""
    alone = await answers_alone(subject)
    before = await subject.read("/health")
    pid = (await subject.health())["pid"]
    rounds: list[dict[str, Answer]] = []
    async with _memory_taken() as taking:
        while not taking.done():
            rounds.append(await _answers_or_refusals(subject))
        await asyncio.sleep(_NOTICE_SECONDS)
        short = await subject.read("/health")
        large = await _ask_for_much(subject)
        rounds.append(await _answers_or_refusals(subject))
    large_after = await _ask_for_much(subject)
    rounds.append(await _answers_or_refusals(subject))
    if not taking.result():
        return Proof(status="left out", seen="nothing could be taken: the device has memory of its own, or it is short")
    held, budgets = taking.result(), [health["memory"]["budget_bytes"] for health in (before, short)]
    refused = sum(len(alone) - len(answers) for answers in rounds)
    figures: dict[str, float | None] = {"taken_bytes": held, "refused": refused}
    figures |= {"budget_before_bytes": budgets[0], "budget_bytes": budgets[1]}
    seen = f"another program took {decimal(held)}, and the models' budget went from {decimal(budgets[0])} to "
    seen += f"{decimal(budgets[1])}; a large request was {large}, and {large_after} after it; "
    seen += f"{refused} of {len(rounds) * len(alone)} others were told that memory is short"
    remedy = Remedy("a --memory-limit that leaves other programs more, and report it")
    if (await subject.health())["pid"] != pid:
        return remedy.problem(f"the model's process ended; {seen}", figures)
    proof = Proof(status="left out", seen="no request was answered")
    for answers in filter(None, rounds):
        proof = compare(subject, {name: alone[name] for name in answers}, answers, remedy)
        if proof.status == "problem":
            break
    proof.seen = f"{proof.seen}; {seen}"
    proof.figures |= figures
    return proof


@asynccontextmanager
async def _memory_taken() -> AsyncIterator["asyncio.Task[int]"]:
    """Let another process take memory meanwhile. Yield what it holds once it is at the system's warning level."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", _TAKER, stdin=pipe, stdout=pipe)
    assert process.stdin
    assert process.stdout

    async def read_held(stream: asyncio.StreamReader) -> int:
        return int(await stream.readline() or 0)

    try:
        yield asyncio.create_task(read_held(process.stdout))
    finally:
        process.stdin.close()
        await process.wait()


async def _answers_or_refusals(subject: Subject) -> dict[str, Answer]:
    """Return the answers to all requests at once, without those that were refused because memory is short."""

    async def ask(body: Mapping[str, Any]) -> Answer | None:
        try:
            return await subject.complete({**body})
        except Refusal as refusal:
            if refusal.status not in _LACKS_MEMORY:
                raise
            return None

    bodies = completions(subject)
    answers = await asyncio.gather(*map(ask, bodies.values()))
    return {name: answer for name, answer in zip(bodies, answers, strict=True) if answer}


async def _ask_for_much(subject: Subject) -> str:
    """Ask for several answers to one long prompt. Return what became of it."""
    rate = statistics.median(subject.bare.rates) if subject.bare else 0.0
    some_tokens = max(_LEAST_LARGE_TOKENS, round(_LARGE_DECODES * rate))  # so that a slow device reads them, too
    most = min(some_tokens, _LARGE_TOKENS, subject.entry.context_window or _LARGE_TOKENS) - 2 * _LARGE_ANSWER
    some = subject.bare.prompts[-1] if subject.bare else [1]
    prompt = (some * (most // len(some) + 1))[:most]
    body = {"prompt": prompt, "n": _LARGE_ROWS, "max_tokens": _LARGE_ANSWER}
    try:
        async with asyncio.timeout(_LARGE_SECONDS):
            await subject.ask("/v1/completions", body)
    except TimeoutError:
        return f"not answered within {_LARGE_SECONDS:.0f} s, when its client left"
    except Refusal as refusal:
        if refusal.status not in _LACKS_MEMORY:
            raise
        return f"refused ({refusal.message})"
    return f"answered ({_LARGE_ROWS} answers to {most:,} tokens)"
