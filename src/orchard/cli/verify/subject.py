"""A model under test: its server, what the library's own loop says of it, and its answers alone."""

import asyncio
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from orchard.cli.endpoint import ServerError, http_options, refusal_text, sse_data
from orchard.cli.verify.media import PICTURES, PITCHES, draw_picture, make_recording
from orchard.cli.verify.other_server import OtherServer
from orchard.cli.verify.texts import CHATS, QUESTION
from orchard.core.tasks.text_options import TextOptions
from orchard.gateway.models.entry import ModelEntry

T = TypeVar("T")

_SURE = 4
"""Each of two logits may move by the rounding in both computations."""
_ESCAPED_BYTES = re.compile(r"bytes:((?:\\x[0-9a-f]{2})+)")
"""A token of a completion that is no text by itself."""
_ROOM = 64  # tokens of a window, for an answer
_MOST_OF_SPREAD = 0.5  # as in the engine's own calibration: a wrong mask is far above


_ANSWER_SETTINGS = ("adapter_path", "chat_template_file", "kv_bits", "max_kv_size")
_PENALTIES = ("repetition_penalty", "presence_penalty", "frequency_penalty")


class Bare(Struct, frozen=True):
    """What the library's own loop says: see `orchard.backends.bare.language`."""

    prompts: list[list[int]]
    texts: list[str]
    rounding: float
    spread: float
    rates: list[float]
    load_seconds: float
    weights_bytes: int
    bandwidth: float
    pictures: list[str]

    @property
    def tolerance(self) -> float:
        """The largest gap between two tokens' logits that rounding explains on this device."""
        return min(_SURE * self.rounding, _MOST_OF_SPREAD * self.spread)


class Heard(Struct, frozen=True):
    """What a model heard in a recording, and the highest temperature at which a part of it was drawn."""

    text: str
    temperature: float


class Refusal(ServerError):
    """An error's status and message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Answer(Struct):
    """An answer to a completion. `tokens`: as the server tells of them, if it was asked for log-probabilities."""

    text: str
    tokens: list[dict[str, Any]] = field(default_factory=list)
    prompt_tokens: int = 0
    cached_tokens: int = 0


class Subject:
    """One model, and the server that serves it now. Callers' keys share nothing in the prompt cache."""

    def __init__(self, entry: ModelEntry, keys: Sequence[str], *, long: bool, other: OtherServer | None = None) -> None:
        """`other`: another server, to compare speeds with."""
        self.entry = entry
        self.keys = keys
        self.long = long
        self.other = other
        self.bare: Bare | None = None
        self.heard: list[Heard] | None = None
        self.why_not_bare = ""
        self.alone: dict[str, Answer] = {}
        """The answers alone, by the names of their requests, of the first caller."""
        self.capabilities: Sequence[str] = entry.capabilities
        self.url = ""
        self.served_name = entry.id

    def run_bare(self, rounds: int, speed_tokens: int, answer_tokens: int, seconds: float | None) -> Bare | None:
        """Run the library's own loop in a process of its own, for at most so many seconds (None: without a limit).

        Return None, and keep why, if that fails.
        """
        task: dict[str, Any] = {
            "question": QUESTION,
            "path": self.entry.path,
            "kind": self.entry.kind,
            "chats": CHATS,
            "max_tokens": answer_tokens,
            "rounds": rounds,
            "speed_tokens": speed_tokens,
        }
        pictures = {name: draw_picture(name) for name in PICTURES} if self.entry.kind == "vision" else {}
        if (bare := self._run_library(task, "pictures", pictures, Bare, seconds)) is None:
            return None
        kept = [pair for pair in zip(bare.prompts, bare.texts, strict=True) if self.fits(pair[0])]
        return replace(bare, prompts=[prompt for prompt, _ in kept], texts=[text for _, text in kept])

    def hear_bare(self, seconds: float | None) -> list[Heard] | None:
        """Let the library's own loop transcribe the recordings of the checks: see `run_bare`."""
        files = {f"{pitch:.0f}.wav": make_recording(pitch) for pitch in PITCHES}
        return self._run_library({"path": self.entry.path}, "recordings", files, list[Heard], seconds)

    def _run_library(
        self, task: dict[str, Any], field: str, files: dict[str, bytes], result: type[T], seconds: float | None
    ) -> T | None:
        """Run `orchard.backends.bare` with a task, whose `field` are the paths of the files."""
        command = [sys.executable, "-m", "orchard.backends.bare"]
        with tempfile.TemporaryDirectory() as folder:
            for name, data in files.items():
                Path(folder, name).write_bytes(data)
            given = json.dumps(task | {field: [str(Path(folder, name)) for name in files]})
            try:
                done = subprocess.run(
                    command, input=given, capture_output=True, text=True, check=False, timeout=seconds
                )
            except subprocess.TimeoutExpired:
                self.why_not_bare = f"it did not end within {seconds:.0f} s: --long has no limit"
                return None
        try:
            return msgspec.json.decode(done.stdout.strip().rpartition("\n")[2], type=result)
        except msgspec.DecodeError:
            self.why_not_bare = (
                done.stderr.strip().rpartition("\n")[2] or f"its process ended with {done.returncode}"
            )[:200]
            return None

    def fits(self, prompt: Sequence[Any]) -> bool:
        """Return whether the model's context window has room for a prompt (tokens, or characters) and an answer."""
        window = self.entry.context_window
        return window is None or len(prompt) + _ROOM <= window

    def settings_apart(self) -> list[str]:
        """Return the names of the model's settings with which the library's own loop would give other answers."""
        text, plain = self.entry.text, TextOptions()
        found = [name for name in _ANSWER_SETTINGS if getattr(text, name) != getattr(plain, name)]
        return found + [name for name in _PENALTIES if getattr(text.defaults, name) != getattr(plain.defaults, name)]

    def client(self, caller: int = 0) -> httpx.AsyncClient:
        """Return a client with the key of a caller."""
        return httpx.AsyncClient(**http_options(self.url, self.keys[caller]))

    async def ask(self, path: str, body: dict[str, Any], caller: int = 0) -> Any:
        """Post a body, and return the answer's. Raise Refusal with the server's message."""
        async with self.client(caller) as client:
            response = await client.post(path, json={"model": self.served_name, **body})
        if response.is_error:
            raise Refusal(response.status_code, refusal_text(response))
        return response.json()

    async def read(self, path: str) -> Any:
        """Get a body."""
        async with self.client() as client:
            return (await client.get(path)).raise_for_status().json()

    async def health(self) -> dict[str, Any]:
        """Return what /health says of the model."""
        model: dict[str, Any] = (await self.read("/health"))["models"][self.served_name]
        return model

    async def stream(self, path: str, body: dict[str, Any], caller: int = 0) -> list[Any]:
        """Post a body, and return the data of the answer's events. Raise ServerError with the server's message."""
        async with (
            self.client(caller) as client,
            client.stream("POST", path, json={"model": self.served_name, "stream": True, **body}) as response,
        ):
            chunks = [chunk async for chunk in response.aiter_bytes()]
        if response.is_error:
            raise ServerError(f"the server answers {response.status_code}")
        return [json.loads(data) for data in sse_data(chunks) if data != b"[DONE]"]

    async def complete(self, body: dict[str, Any], caller: int = 0) -> Answer:
        """Return the answer to a completion."""
        answer = await self.ask("/v1/completions", body, caller)
        choice, usage = answer["choices"][0], answer["usage"]
        return Answer(
            choice["text"],
            _tokens(choice["logprobs"]),
            usage["prompt_tokens"],
            usage["prompt_tokens_details"]["cached_tokens"],
        )

    async def complete_all(self, bodies: dict[str, dict[str, Any]], caller: int) -> dict[str, Answer]:
        """Return the answers to completions that are sent at once, by their names."""
        answers = await asyncio.gather(*[self.complete(body, caller) for body in bodies.values()])
        return dict(zip(bodies, answers, strict=True))

    async def wait_until_ready(self) -> None:
        """Wait until the model is loaded, calibrated and warm."""
        async with self.client() as client:
            response = await client.post(f"/v1/models/{self.served_name}/load")
            if response.is_error:
                raise ServerError(refusal_text(response))
            while True:
                health: dict[str, Any] = (await client.get("/health")).json()["models"][self.served_name]
                if health["state"] == "ready" and not health["warming_up"]:
                    return
                await asyncio.sleep(0.1)


def _tokens(logprobs: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the tokens of a completion in the form of a chat's: with their bytes."""
    if not logprobs:
        return []

    def token(text: str, logprob: float) -> dict[str, Any]:
        escaped = _ESCAPED_BYTES.fullmatch(text)
        whole = bytes.fromhex(escaped[1].replace("\\x", "")) if escaped else text.encode()
        return {"bytes": list(whole), "logprob": logprob}

    return [
        token(text, logprob) | {"top_logprobs": [token(*other) for other in top.items()]}
        for text, logprob, top in zip(
            logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"], strict=True
        )
    ]
