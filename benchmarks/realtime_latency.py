"""The time from the end of speech to the first sound in realtime sessions, beside that of the requests it consists of.

Sessions talk to one server in real time, each at random moments. Each turn is timed from the last sample of speech, and
divided: `silence` until the turn has ended, `transcription` until its text is there, `token` until the answer begins,
`clause` until its first sound. Then as many clients make the same requests at the same moments without sessions: the
tail is transcribed, answered, and the first clause is spoken. The target, at the 95th percentile, is `bound_ms`: the
silence that ends a turn, and 1.3 times what these requests take. `alone` are the same requests one after the other.
Prints one JSON line. Without --speech, the speech model is a tiny one with random weights.
"""

import argparse
import asyncio
import base64
import json
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
from tests.support.realtime_events import SESSION_RATE, pcm, spoken
from tests.support.serving import Server, serve
from tests.support.sounds import wav
from tests.support.speech_models import make_qwen3_tts
from websockets.asyncio.client import ClientConnection, connect

from orchard.config import VoiceModels
from orchard.gateway.models.registry import resolve_model
from orchard.gateway.voice.spoken_text import SpokenText

SILENCE = 0.5  # seconds: the default of `silence_duration_ms`
FACTOR = 1.3
PIECE = 0.04  # seconds of audio in an event
WORDS = ("two", "four")
_AFTER = 0.12  # seconds after the last word that `spoken` adds
SPEECH = pcm(spoken(*WORDS, after=0.0))[: -round(_AFTER * SESSION_RATE) * 2]
STAGES = ("silence", "transcription", "token", "clause")

Times = dict[str, float]


class Talker:
    """A session that says something at some moments, and silence between them."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._audio = bytearray()
        self._ended = 0.0  # when the last sample of speech was due
        self.turns: list[Times] = []

    async def send(self, kind: str, **fields: Any) -> None:
        await self._socket.send(json.dumps({"type": kind, **fields}))

    async def listen(self, begin: float) -> None:
        """Send audio in real time from a moment on."""
        size = 2 * round(PIECE * SESSION_RATE)
        for number in range(10**9):
            await asyncio.sleep(max(0.0, begin + (number + 1) * PIECE - time.monotonic()))
            piece = bytes(self._audio[:size]).ljust(size, b"\0")
            if 0 < len(self._audio) <= size:
                self._ended = begin + number * PIECE + len(self._audio) / 2 / SESSION_RATE
            del self._audio[:size]
            await self.send("input_audio_buffer.append", audio=base64.b64encode(piece).decode())

    async def speak(self) -> None:
        """Say it, and time what follows."""
        self._audio += SPEECH
        stages = iter(STAGES)
        marks = iter(
            (
                "input_audio_buffer.speech_stopped",
                "conversation.item.input_audio_transcription.completed",
                "response.output_audio_transcript.delta",
                "response.output_audio.delta",
                "response.done",
            )
        )
        turn, mark, last = Times(), next(marks), 0.0
        while True:
            event = json.loads(await self._socket.recv())
            assert event["type"] != "error", event
            if event["type"] == mark:
                if mark == "response.done":
                    assert event["response"]["status"] == "completed", event
                    break
                now = time.monotonic()
                turn[next(stages)] = now - (last or self._ended)
                last, mark = now, next(marks)
        self.turns.append(turn)


async def follow(moments: Iterable[float], begin: float, act: Callable[[], Awaitable[None]]) -> None:
    """Do something at some moments, or as soon as it was done before."""
    for moment in moments:
        await asyncio.sleep(max(0.0, begin + moment - time.monotonic()))
        await act()


async def hold_session(server: Server, moments: Iterable[float], begin: float) -> list[Times]:
    """Hold a session, and return its turns."""
    url = f"ws://127.0.0.1:{server.port}/v1/realtime?model=assistant"
    async with connect(url, max_size=None, open_timeout=60) as socket:
        talker = Talker(socket)
        fields = {"input": {"transcription": {"model": "ears"}}}
        await talker.send("session.update", session={"type": "realtime", "audio": fields})
        listening = asyncio.create_task(talker.listen(begin))
        await follow(moments, begin, talker.speak)
        listening.cancel()
    return talker.turns


async def make_requests(http: httpx.AsyncClient, tail: bytes) -> Times:
    """Make the requests of a turn one after the other, and time them up to the first sound."""
    begin = time.monotonic()
    files = {"file": ("turn.wav", tail)}
    heard = await http.post("/v1/audio/transcriptions", data={"model": "ears"}, files=files)
    found = {"transcription": time.monotonic() - begin}
    said, clauses = SpokenText(), asyncio.Queue[str | None]()
    body = {"model": "chat", "messages": [{"role": "user", "content": heard.json()["text"]}], "stream": True}

    async def answer() -> None:
        async with http.stream("POST", "/v1/chat/completions", json=body) as lines:
            async for line in lines.aiter_lines():
                if not line.startswith("data: {"):
                    continue
                for choice in json.loads(line.removeprefix("data: "))["choices"]:
                    if text := choice["delta"].get("content"):
                        found.setdefault("token", time.monotonic() - begin - found["transcription"])
                        for clause in said.feed(text):
                            clauses.put_nowait(clause.text)
        for clause in said.finish():
            clauses.put_nowait(clause.text)
        clauses.put_nowait(None)

    async def speak() -> None:
        while (clause := await clauses.get()) is not None:
            given = {"model": "mouth", "input": clause, "response_format": "pcm"}
            async with http.stream("POST", "/v1/audio/speech", json=given) as sound:
                async for _ in sound.aiter_raw():
                    found.setdefault("clause", time.monotonic() - begin - found["transcription"] - found["token"])

    await asyncio.gather(answer(), speak())
    return found


def percentiles(turns: list[Times]) -> dict[str, dict[str, float]]:
    """Return the median and the 95th percentile of each stage and of all together, in milliseconds."""
    stages: Mapping[str, list[float]] = {name: [turn[name] for turn in turns] for name in turns[0]}
    whole = [sum(turn.values()) for turn in turns]
    both = ((name, np.percentile(values, (50, 95)) * 1e3) for name, values in [*stages.items(), ("all", whole)])
    return {name: {"p50": round(float(half), 1), "p95": round(float(most), 1)} for name, (half, most) in both}


async def measure(server: Server, sessions: int, rounds: int, period: float) -> dict[str, Any]:
    """Give the figures of one server."""
    draw = np.random.default_rng(0)
    moments = [[period * number + draw.uniform(1, period) for number in range(rounds)] for _ in range(sessions)]
    limits = httpx.Limits(max_connections=None)
    samples = np.frombuffer(SPEECH + bytes(round(0.2 * SESSION_RATE) * 2), "<i2")
    tail = wav(samples, SESSION_RATE)
    headers = {"x-priority": "interactive"}
    async with httpx.AsyncClient(base_url=server.url, timeout=600, limits=limits, headers=headers) as http:
        await make_requests(http, tail)
        begin = time.monotonic()
        held = await asyncio.gather(*(hold_session(server, one, begin) for one in moments))
        turns = [turn for one in held for turn in one]
        bare: list[Times] = []

        async def request() -> None:
            bare.append(await make_requests(http, tail))

        begin = time.monotonic()
        await asyncio.gather(*(follow(one, begin, request) for one in moments))
        alone = [await make_requests(http, tail) for _ in range(10)]
        stats = (await http.get("/v1/stats")).json()
    found, beside = percentiles(turns), percentiles(bare)
    bound = SILENCE * 1e3 + FACTOR * beside["all"]["p95"]
    return {
        "sessions": sessions,
        "turns": len(turns),
        "load_average": round(os.getloadavg()[0], 2),
        "first_sound_ms": found,
        "server_parts_ms": stats["first_sound_parts_ms"],
        "requests_ms": beside,
        "alone_ms": percentiles(alone),
        "bound_ms": round(bound, 1),
        "of_bound": round(found["all"]["p95"] / bound, 2),
    }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chat", default="demo", help="a text model: a folder or a cached model")
    parser.add_argument("--transcription", default="demo-whisper", help="a transcription model")
    parser.add_argument("--speech", help="a speech model")
    parser.add_argument("--sessions", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3, help="how many turns each session has")
    parser.add_argument("--period", type=float, default=20, help="seconds in which each session has a turn")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if not args.speech:
            make_qwen3_tts(Path(folder))
        names = {"chat": args.chat, "ears": args.transcription, "mouth": args.speech or folder}
        models = [msgspec.structs.replace(resolve_model(path), id=name) for name, path in names.items()]
        voices = {"assistant": VoiceModels(chat="chat", transcription="ears", speech="mouth")}
        with serve(models, spare=False, max_loaded_models=3, realtime=voices, log_level="warning") as server:
            for name in names:
                server.until(name, 600, state="ready")
            found = asyncio.run(measure(server, args.sessions, args.rounds, args.period))
    print(json.dumps({"benchmark": "realtime_latency", **found}))


if __name__ == "__main__":
    main()
