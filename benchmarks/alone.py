"""Compare answers that a server gave in a batch with those that it gives alone, and measure how far they are apart.

Two computations of the same logits round differently, so answers may diverge where two tokens are nearly equally
likely. The gap at this point is the log-probability of the most likely token minus that of the token in the batch's
answer: near zero for a tie, large or unknown for a mistake. After that point, the two answers continue different texts.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from benchmarks.contenders import Contender, Running
from orchard.cli.verify.parting import gap

_CHOICES = 20  # tokens of which the server tells the log-probability, at each place
_SECONDS = 600.0


class Asked(NamedTuple):
    """A question, how many tokens the answer might have, and what was answered in company."""

    question: dict[str, Any]
    max_tokens: int
    text: str


async def compared(contender: Contender, log: Path, asked: Sequence[Asked]) -> dict[str, Any]:
    """Ask a server of its own everything again, one after the other, and count the equal answers.

    `gaps` are those of the answers that differ; None: the token is not among the best 20, or was not found.
    """
    running = Running(contender, log)
    await asyncio.to_thread(running.start)
    try:
        async with httpx.AsyncClient(base_url=running.url, timeout=_SECONDS) as client:
            model = (await client.get("/v1/models")).json()["data"][0]["id"]
            choices = [await _answer(client, model, one) for one in asked]
    finally:
        await asyncio.to_thread(running.stop)
    gaps = [
        gap(choice["logprobs"]["content"], one.text)
        for choice, one in zip(choices, asked, strict=True)
        if (choice["message"]["content"] or "") != one.text
    ]
    return {"compared": len(asked), "equal": len(asked) - len(gaps), "gaps": gaps}


async def _answer(client: httpx.AsyncClient, model: str, one: Asked) -> dict[str, Any]:
    body = {"model": model, "messages": [one.question], "max_tokens": one.max_tokens, "temperature": 0.0}
    answer = await client.post("/v1/chat/completions", json=body | {"logprobs": True, "top_logprobs": _CHOICES})
    choice: dict[str, Any] = answer.raise_for_status().json()["choices"][0]
    return choice
