"""Whether a model's process survives what clients and the system do."""

import asyncio
import os
import signal
from typing import Any

from orchard.cli.endpoint import ServerError
from orchard.cli.verify.proof import Proof, check
from orchard.cli.verify.subject import Subject

_LEAVE_SECONDS = 10.0
_KILL_STREAMS = 4
_KILL_SECONDS = 0.5
_LONG_ANSWER = 2000  # tokens


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
    while (running := (await subject.health())["running"]) and loop.time() < begin + _LEAVE_SECONDS:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    seconds = loop.time() - begin
    if running:
        seen = f"the request of a client that left still runs after {_LEAVE_SECONDS:.0f} s"
        return Proof(status="problem", seen=seen, advice="set max_tokens in requests, and report it")
    return Proof(status="ok", seen=f"its request ended within {seconds:.1f} s", figures={"seconds": seconds})


@check("killed worker", "safe", stage="restarted", long=True)
async def check_kill(subject: Subject) -> Proof:
    """Kill the model's process while answers stream: each must say so, and the next request must be answered."""
    body = {"prompt": "1 2 3", "max_tokens": _LONG_ANSWER, "temperature": 0, "ignore_eos": True}
    streams = [asyncio.create_task(subject.stream("/v1/completions", body)) for _ in range(_KILL_STREAMS)]
    await asyncio.sleep(_KILL_SECONDS)
    os.kill((await subject.health())["pid"], signal.SIGKILL)
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
