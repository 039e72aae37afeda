"""Whether a model's process keeps within its memory and survives what clients do."""

import asyncio
import os
import signal
from typing import Any

from rich.filesize import decimal

from orchard.cli.endpoint import ServerError
from orchard.cli.verify.proof import CHECKS, Proof, check
from orchard.cli.verify.subject import Subject
from orchard.cli.verify.texts import numbered_lines

_KINDS = frozenset(kind for other in CHECKS for kind in other.kinds)  # all whose answers are checked
_REPORT_SECONDS = 1.2  # a worker reports its memory about once a second
_ROUNDS = 4
_REQUESTS = 8
_LEAK_BYTES = 2**25  # smaller changes are not reported
_LEAVE_SECONDS = 10.0
_KILL_STREAMS = 4
_KILL_SECONDS = 0.5
_LONG_ANSWER = 2000  # tokens


@check("memory", "safe", _KINDS)
async def check_memory(subject: Subject) -> Proof:
    """Compare weights and peak memory with the estimate before the load and with the limit."""
    await asyncio.sleep(_REPORT_SECONDS)
    health = await subject.read("/health")
    memory = health["models"][subject.served_name]["memory"]
    limit = health["memory"]["limit_bytes"]
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
    memory = (await subject.read("/health"))["models"][subject.served_name]["memory"]
    return int(memory["mlx"] - sum(memory[part] for part in ("prompts", "cache", "rows")))


@check("client leaves", "safe")
async def check_leaving(subject: Subject) -> Proof:
    """See whether a request ends when its client leaves in the middle of the answer."""
    body = {"model": subject.served_name, "prompt": "1 2 3", "max_tokens": 10**4, "ignore_eos": True, "stream": True}
    async with subject.client() as client, client.stream("POST", "/v1/completions", json=body) as response:
        async for _ in response.aiter_bytes():
            break
    loop = asyncio.get_running_loop()
    begin = loop.time()
    # The server tells nobody when a request ends.
    while (running := (await _health(subject))["running"]) and loop.time() < begin + _LEAVE_SECONDS:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    seconds = loop.time() - begin
    if running:
        seen = f"the request of a client that left still runs after {_LEAVE_SECONDS:.0f} s"
        return Proof(status="problem", seen=seen, advice="set max_tokens in requests, and report it")
    return Proof(status="ok", seen=f"its request ended within {seconds:.1f} s", figures={"seconds": seconds})


async def _health(subject: Subject) -> dict[str, Any]:
    health: dict[str, Any] = (await subject.read("/health"))["models"][subject.served_name]
    return health


@check("killed worker", "safe", stage="restarted", long=True)
async def check_kill(subject: Subject) -> Proof:
    """Kill the model's process while answers stream: each must say so, and the next request must be answered."""
    body = {"prompt": "1 2 3", "max_tokens": _LONG_ANSWER, "temperature": 0, "ignore_eos": True}
    streams = [asyncio.create_task(subject.stream("/v1/completions", body)) for _ in range(_KILL_STREAMS)]
    await asyncio.sleep(_KILL_SECONDS)
    os.kill((await _health(subject))["pid"], signal.SIGKILL)
    ends = await asyncio.gather(*streams, return_exceptions=True)
    silent = [end for end in ends if not isinstance(end, ServerError) and not _tells_of_failure(end)]
    try:
        await subject.complete({"prompt": "1 2 3", "max_tokens": 4})
    except ServerError as error:
        return Proof(status="problem", seen=f"after its process was killed, the model does not answer: {error.message}")
    seen = (
        f"{_KILL_STREAMS - len(silent)} of {_KILL_STREAMS} streams said that they failed; the next request was answered"
    )
    return Proof(status="problem" if silent else "ok", seen=seen, advice="please report it" if silent else "")


def _tells_of_failure(end: Any) -> bool:
    return isinstance(end, list) and (not end or "error" in end[-1])
