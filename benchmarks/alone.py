"""Compare answers that a server gave in a batch with those that it gives alone, and measure how far they are apart.

Two computations of the same logits round differently, so answers may diverge where two tokens are nearly equally
likely. The gap at this point is the log-probability of the most likely token minus that of the token in the batch's
answer: near zero for a tie, large or unknown for a mistake. After that point, the two answers continue different texts.
"""

import asyncio
import codecs
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from benchmarks.contenders import Contender, Running

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


def gap(tokens: Sequence[dict[str, Any]], text: str) -> float | None:
    """Return the gap at the first of an answer's tokens, with their log-probabilities, from which `text` parts.

    None where that is not clear, as where the token that was taken begins with the other one.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    told = ""
    behind: list[tuple[int, float]] = []  # the tokens that `text` may have taken: their characters and gaps
    for token in tokens:
        state = decoder.getstate()
        for other in token["top_logprobs"]:
            piece = decoder.decode(bytes(other["bytes"]))
            if piece and other["bytes"] != token["bytes"] and text.startswith(told + piece):
                behind.append((len(piece), round(token["logprob"] - other["logprob"], 4)))
            decoder.setstate(state)
        piece = decoder.decode(bytes(token["bytes"]))
        if not text.startswith(told + piece):
            return max(behind)[1] if behind else None
        if piece:  # else it is a part of a character, and may be where they part
            told += piece
            behind.clear()
    return None
