"""How much a session adds to the time of its requests: 20 sessions in virtual time, in which models take fixed times.

benchmarks/realtime_latency.py measures it with real models and a real clock.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable

import numpy as np

from orchard.core.events import Event, Finished, Started, Text, Usage
from orchard.core.request import Task
from orchard.dialects.openai.realtime.schema import Transcription
from tests.gateway.realtime.test_session import Client, Script
from tests.support.pool_simulation import run
from tests.support.realtime_events import SESSION_RATE, pcm, spoken

SESSIONS, ROUNDS, PERIOD = 20, 3, 14.0
PIECE = 0.04  # seconds of audio in an event
SILENCE = 0.5  # that ends a turn
HEARS, THINKS, WRITES, SPEAKS = 0.3, 0.08, 0.06, 0.15  # seconds, for a request alone
SPEECH = pcm(spoken("two", "four", after=0.0))[: -2 * round(0.12 * SESSION_RATE)]  # up to the last word's end


class Machine:
    """Models that hear and speak one request at a time, and one that answers all at once."""

    def __init__(self) -> None:
        self._ears, self._mouth = asyncio.Lock(), asyncio.Lock()

    async def hear(self) -> None:
        async with self._ears:
            await asyncio.sleep(HEARS)

    async def think(self) -> None:
        await asyncio.sleep(THINKS)

    async def write(self) -> None:
        await asyncio.sleep(WRITES)

    async def speak(self) -> None:
        async with self._mouth:
            await asyncio.sleep(SPEAKS)

    async def answer(self) -> None:
        """Make the requests of a turn one after the other, up to the first sound."""
        for step in (self.hear, self.think, self.write, self.speak):
            await step()


class TimedScript(Script):
    """The requests of one session, which take the time that the machine needs."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self._machine = machine

    async def transcribe(
        self, audio: bytes, rate: int, asked: Transcription, tell: Callable[[str], Awaitable[None]] | None = None
    ) -> tuple[str, float]:
        await self._machine.hear()
        return "two four", 1.0

    async def stream(self, model: str, task: Task) -> AsyncGenerator[Event, None]:
        yield Started(3)
        await self._machine.think()
        yield Text("The sum ")
        await self._machine.write()
        yield Text("is six. ")
        await self._machine.write()
        yield Text("Anything else?")
        yield Finished(("stop",), Usage(3, 2))

    async def speak(
        self, text: str, voice: str | None, speed: float, count: Callable[[Usage], None]
    ) -> AsyncGenerator[bytes, None]:
        await self._machine.speak()
        yield bytes(480)


async def talk(machine: Machine, moments: list[float]) -> list[float]:
    """Say something at each of the moments; return the times from the end of speech to the first sound."""
    loop, client, times = asyncio.get_running_loop(), Client(TimedScript(machine)), list[float]()
    size = 2 * round(PIECE * SESSION_RATE)
    for moment in moments:
        await asyncio.sleep(moment - loop.time())
        begin, sound = loop.time(), SPEECH + bytes(6 * SESSION_RATE)
        client.rest()
        for number, at in enumerate(range(0, len(sound), size)):
            await asyncio.sleep(begin + (number + 1) * PIECE - loop.time())
            await client.say(sound[at : at + size])
            if any(event["type"] == "response.output_audio.delta" for event in client.rest()):
                break
        times.append(loop.time() - begin - len(SPEECH) / 2 / SESSION_RATE)
        await asyncio.sleep(1)
    await client.session.close()
    return times


async def measure() -> tuple[list[float], list[float]]:
    """Return the times of sessions, and those of the same requests at the same moments."""
    machine, loop = Machine(), asyncio.get_running_loop()
    draw = random.Random(0)
    moments = [[number * PERIOD + draw.uniform(1, 11) for number in range(ROUNDS)] for _ in range(SESSIONS)]
    held = await asyncio.gather(*(talk(machine, one) for one in moments))
    bare = list[float]()

    async def ask(moment: float) -> None:
        await asyncio.sleep(moment)
        begin = loop.time()
        await machine.answer()
        bare.append(loop.time() - begin)

    await asyncio.gather(*(ask(moment) for one in moments for moment in one))
    return [each for one in held for each in one], bare


def test_the_first_sound_comes_as_soon_as_the_requests_allow() -> None:
    """Less than the silence and the requests of a turn take: its transcription begins within the silence.

    The target is the silence and 1.3 times the requests.
    """
    sessions, requests = run(measure())
    assert len(sessions) == len(requests) == SESSIONS * ROUNDS
    for share in (50, 95):
        assert np.percentile(sessions, share) <= SILENCE + np.percentile(requests, share) - HEARS / 2
