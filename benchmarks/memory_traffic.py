"""What benchmarks.memory_pressure asks a server, and how each request ended."""

import asyncio
import base64
import contextlib
import io
import random
import shutil
import time
from collections import deque
from pathlib import Path
from typing import Any

import httpx
import msgspec
from msgspec import Struct

from orchard.cli import endpoint
from orchard.cli.verify.parting import gap

_LONG_TOKENS = 8000
_PREFIX_TOKENS = 1500
_PREFIXES = 4
_SAMPLES = 20
_SAMPLE_TOKENS = 32
_STATUS_SECONDS = 60.0
_LOGPROBS = 20
_ERROR_CHARACTERS = 300
_MOST_PAUSE_SECONDS = 5.0
_WORDS = ("apple", "river", "stone", "window", "garden", "letter", "music", "paper", "import", "return", "table")


class Outcome(Struct, kw_only=True):
    """How a request ended. `status` is 0 where there was no answer; `code` is empty where nothing failed."""

    kind: str
    status: int = 200
    code: str = ""
    error: str = ""
    retry_after: float | None = None
    text: str = ""
    tokens: int = 0
    logprobs: list[dict[str, Any]] = []

    @property
    def allowed(self) -> bool:
        """Whether it failed as it may."""
        return self.status == httpx.codes.SERVICE_UNAVAILABLE and self.retry_after is not None


def outcome(kind: str, response: httpx.Response, *, streamed: bool) -> Outcome:
    """Read a response whose body is complete."""
    result = Outcome(kind=kind, status=response.status_code)
    if not response.is_success:
        result.retry_after = float(response.headers["retry-after"]) if "retry-after" in response.headers else None
        with contextlib.suppress(msgspec.DecodeError):
            _fail(result, msgspec.json.decode(response.content, type=endpoint.ChatChunk).error)
        result.code = result.code or "unknown"
        return result
    if not streamed:
        return result
    ended = False
    for data in endpoint.sse_data([response.content]):
        ended = ended or data == b"[DONE]"
        if data != b"[DONE]":
            chunk = msgspec.json.decode(data, type=endpoint.ChatChunk)
            _fail(result, chunk.error)
            result.text += "".join(one.delta.content or "" for one in chunk.choices if one.delta)
            result.tokens = chunk.usage.completion_tokens or 0 if chunk.usage else result.tokens
    if not ended and not result.code:
        result.code = "stream: broke off"
    return result


def _fail(result: Outcome, error: Any) -> None:
    if error:
        code = str(error.get("code")) if isinstance(error, dict) else "unknown"
        result.code = code if result.status != httpx.codes.OK else f"stream: {code}"
        result.error = endpoint.error_text(error)[:_ERROR_CHARACTERS]


class Client:
    """Requests to the server, and how all of them ended."""

    def __init__(self, url: str, model: str) -> None:
        self.outcomes: list[Outcome] = []
        self.model = model
        self.http = httpx.AsyncClient(limits=httpx.Limits(max_connections=None), **endpoint.http_options(url, None))
        self._words_per_token = 1.0

    async def __aenter__(self) -> "Client":
        words = 400
        asked = await self.http.post("/v1/chat/completions", json=self.body(_words("measure", words), 1))
        self._words_per_token = words / asked.raise_for_status().json()["usage"]["prompt_tokens"]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()

    def prompt(self, seed: str, tokens: int) -> str:
        """Return random words of about so many tokens, the same for each seed."""
        return _words(seed, max(1, round(tokens * self._words_per_token)))

    def body(self, prompt: str, max_tokens: int, **more: Any) -> dict[str, Any]:
        """Return the body of a greedy chat completion."""
        messages = [{"role": "user", "content": prompt}]
        return {"model": self.model, "messages": messages, "max_tokens": max_tokens, "temperature": 0.0, **more}

    async def chat(self, kind: str, prompt: str, max_tokens: int, **more: Any) -> Outcome:
        """Stream an answer."""
        options = {"stream": True, "stream_options": {"include_usage": True}}
        return await self.post(kind, "/v1/chat/completions", json=self.body(prompt, max_tokens, **options, **more))

    async def post(self, kind: str, path: str, **arguments: Any) -> Outcome:
        """Send a request, keep how it ended, and wait as long as it says before the next one."""
        try:
            response = await self.http.post(path, **arguments)
            result = outcome(kind, response, streamed=arguments.get("json", {}).get("stream", False))
        except httpx.HTTPError as error:
            result = Outcome(kind=kind, status=0, code=type(error).__name__, error=str(error))
        self.outcomes.append(result)
        if result.code:
            await asyncio.sleep(min(result.retry_after or 1.0, _MOST_PAUSE_SECONDS))
        return result

    async def get(self, path: str) -> dict[str, Any]:
        """Return what the server says of itself. Raise httpx.HTTPError."""
        found: dict[str, Any] = (await self.http.get(path, timeout=_STATUS_SECONDS)).raise_for_status().json()
        return found


def _words(seed: str, count: int) -> str:
    return f"{seed}: " + " ".join(random.Random(seed).choices(_WORDS, k=count))  # noqa: S311 - no secret


class Samples:
    """Questions whose greedy answers are known from before, and what was answered under pressure."""

    def __init__(self, client: Client, seed: int) -> None:
        source = random.Random(seed)  # noqa: S311 - no secret
        self._client = client
        self._prompts = [client.prompt(f"sample {seed} {one}", source.randint(10, 600)) for one in range(_SAMPLES)]
        self._prompts[-1] = client.prompt(f"sample {seed}", _LONG_TOKENS)
        self._alone: list[dict[str, Any]] = []
        self._answers: dict[int, str] = {}

    async def ask_alone(self) -> None:
        """Ask all of them, one after the other. Raise httpx.HTTPError where the server fails."""
        for prompt in self._prompts:
            body = self._client.body(prompt, _SAMPLE_TOKENS, logprobs=True, top_logprobs=_LOGPROBS)
            response = await self._client.http.post("/v1/chat/completions", json=body)
            self._alone.append(response.raise_for_status().json()["choices"][0])

    async def ask(self, seconds: float) -> None:
        """Spread them over some time; one that fails is asked again behind the others."""
        waiting = deque(range(len(self._prompts)))
        end = time.monotonic() + seconds
        while waiting and time.monotonic() < end:
            await asyncio.sleep(seconds / len(self._prompts) / 2)
            number = waiting.popleft()
            answer = await self._client.chat("sample", self._prompts[number], _SAMPLE_TOKENS)
            if answer.code:
                waiting.append(number)
            else:
                self._answers[number] = answer.text

    def compared(self, tie: float) -> dict[str, Any]:
        """Count the equal answers, the near ties and the others."""
        gaps = [
            gap(self._alone[number]["logprobs"]["content"], text)
            for number, text in self._answers.items()
            if text != (self._alone[number]["message"]["content"] or "")
        ]
        ties = sum(one is not None and one < tie for one in gaps)
        equal = len(self._answers) - len(gaps)
        return {
            "compared": len(self._answers),
            "equal": equal,
            "near_ties": ties,
            "apart": len(gaps) - ties,
            "gaps": gaps,
        }


class Traffic:
    """What runs under pressure, until its time is over."""

    def __init__(self, client: Client, seed: int, seconds: float) -> None:
        self._client = client
        self._seed = seed
        self._end = time.monotonic() + seconds
        self._prefixes = [client.prompt(f"prefix {seed} {one}", _PREFIX_TOKENS) for one in range(_PREFIXES)]

    async def text(self, stream: int) -> None:
        """Ask for one answer after the other."""
        source = random.Random(f"{self._seed} {stream}")  # noqa: S311 - no secret
        while time.monotonic() < self._end:
            name, tokens, drawn = f"{self._seed} {source.random()}", source.randint(8, 256), source.random()
            sampling = {"temperature": source.choice((0.0, 0.8))}
            if drawn < 0.03:
                await self._client.chat("long", self._client.prompt(name, _LONG_TOKENS), 16, **sampling)
            elif drawn < 0.3:
                prompt = f"{source.choice(self._prefixes)} {self._client.prompt(name, 30)}"
                await self._client.chat("prefix", prompt, tokens, **sampling)
            else:
                prompt = self._client.prompt(name, int(10 ** source.uniform(1, 3.2)))
                await self._client.chat("text", prompt, tokens, **sampling)

    async def repeat(self, kind: str, path: str, arguments: dict[str, Any]) -> None:
        """Send the same request of another kind again and again."""
        while time.monotonic() < self._end:
            await self._client.post(kind, path, **arguments)
            await asyncio.sleep(0.2)


def other_kinds(folder: Path) -> tuple[list[str], list[tuple[str, str, dict[str, Any]]]]:
    """Make tiny models of other kinds; return them, and a request to each: kind, path and httpx's arguments."""
    from PIL import Image
    from tests.support.embedding_models import MINILM
    from tests.support.sounds import noise, wav
    from tests.support.speech_models import make_qwen3_tts

    shutil.copytree(MINILM, folder / "embeddings")
    (folder / "speech").mkdir()
    make_qwen3_tts(folder / "speech")
    picture = io.BytesIO()
    Image.effect_noise((448, 448), 80).convert("RGB").save(picture, "PNG")
    url = f"data:image/png;base64,{base64.b64encode(picture.getvalue()).decode()}"
    content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "What is this?"}]
    look = {"model": "demo-vision", "max_tokens": 24, "messages": [{"role": "user", "content": content}]}
    texts = [_words(str(number), 60) for number in range(32)]
    sound = {"data": {"model": "demo-whisper"}, "files": {"file": ("a.wav", wav(noise(20)))}}
    requests: list[tuple[str, str, dict[str, Any]]] = [
        ("embeddings", "/v1/embeddings", {"json": {"model": "embeddings", "input": texts}}),
        ("speech", "/v1/audio/speech", {"json": {"model": "speech", "voice": "vivian", "input": texts[0]}}),
        ("transcription", "/v1/audio/transcriptions", sound),
        ("picture", "/v1/chat/completions", {"json": look}),
    ]
    return [str(folder / "embeddings"), str(folder / "speech"), "demo-whisper", "demo-vision"], requests
