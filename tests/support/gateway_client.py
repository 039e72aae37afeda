"""Chat requests to a server whose model plays scripts."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.support.serving import Server


def body(stream: bool = False, model: str = "fake", **script: Any) -> dict[str, Any]:
    return {"model": model, "stream": stream, "messages": [{"role": "user", "content": json.dumps(script)}]}


async def chat(server: Server, **kwargs: Any) -> httpx.Response:
    async with httpx.AsyncClient(timeout=60) as client:
        return await client.post(f"{server.url}/v1/chat/completions", json=body(**kwargs))


class Stream:
    """What a streamed answer brought so far."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()
        self.text = ""
        self.error: dict[str, Any] | None = None
        self.done = False
        self.comments = 0

    async def read(self, until: int | None = None) -> "Stream":
        """Read to the end, or until there are so many characters."""
        async for line in self._lines:
            self.comments += line.startswith(":")
            if line == "data: [DONE]":
                self.done = True
            elif line.startswith("data: "):
                chunk = json.loads(line[6:])
                self.error = chunk.get("error")
                for choice in chunk.get("choices", []):
                    self.text += choice["delta"].get("content") or ""
            if until is not None and len(self.text) >= until:
                break
        return self


@asynccontextmanager
async def streamed(server: Server, **kwargs: Any) -> AsyncIterator[Stream]:
    async with httpx.AsyncClient(timeout=60) as client:
        request = client.build_request("POST", f"{server.url}/v1/chat/completions", json=body(stream=True, **kwargs))
        response = await client.send(request, stream=True)
        try:
            yield Stream(response)
        finally:
            await response.aclose()
