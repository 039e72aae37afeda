"""Orchard compared with mlx_vlm.server with images in chat, on one machine in one run.

    python -m benchmarks.images --model FOLDER --rival mlx-vlm=/path/to/python --repeat 3

Each round starts one server after the other and runs these scenarios with its own images:

| --scenario | figures | what runs |
|---|---|---|
| image1, image8, image16 | the same | 1, 8 or 16 requests at once, each with one image of 448 x 448 pixels |
| large | first, later | five requests about four large images (--large): the first, and the other four |
| | restart | the first request again, after a restart of the server |
| beside | beside | one stream of text while eight requests with images arrive: its longest gap |
| | beside-images | those eight: their longest gap |

Each answer of Orchard that ran beside others is compared with the answer of another Orchard server that gets only this
request: `alone` of a JSON line says how many are equal, and gives the gaps of those that differ (benchmarks.alone).

Orchard runs without speculation: random weights repeat themselves, so guesses would be right far too often. Without
--model, the model has random weights in one of the shapes of benchmarks.vision_shapes (--shape), by default a small
one. Prints a JSON line for each scenario as it ends, and at the end the table of benchmarks.comparison.
"""

import argparse
import asyncio
import base64
import io
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec
from PIL import Image, ImageDraw

from benchmarks.alone import Asked, compared
from benchmarks.comparison import OURS, Row, table
from benchmarks.contenders import Contender, Running
from benchmarks.serving import rival
from benchmarks.vision_shapes import SHAPES, make_shape
from orchard.cli.bench_client import BenchClient, Figures, TimedAnswer, compute_figures
from orchard.gateway.models.registry import resolve_model

_SIDE = 448
_PICTURES = 4
_QUESTIONS = 5
_AT_ONCE = {"image1": 1, "image8": 8, "image16": 16}
SCENARIOS = (*_AT_ONCE, "large", "beside")
_FEWEST = 8  # requests, so that a median means something
_BESIDE = 8
_SHORT_ANSWER = 16
_SECONDS_TO_WRITE = 3.0  # a cache on disk may be written behind the answer

Report = Callable[[Figures, dict[str, Any] | None], None]
"""Takes the figures of a scenario, and how its answers compare with those alone."""


def picture(seed: int, side: int) -> str:
    """Return a data: URL of a picture that no other seed gives."""
    drawn = Image.new("RGB", (side, side), (seed * 37 % 256, seed * 101 % 256, seed * 53 % 256))
    pen = ImageDraw.Draw(drawn)
    for index in range(12):
        at = (seed * 7919 + index * 104729) % (side // 2), (seed * 611953 + index * 1299709) % (side // 2)
        colour = tuple((seed * 17 + index * step) % 256 for step in (41, 97, 151))
        pen.ellipse((*at, at[0] + side // 3, at[1] + side // 4), fill=colour)
    file = io.BytesIO()
    drawn.save(file, "PNG")
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def message(question: str, *pictures: str) -> dict[str, Any]:
    """Return a user's message with pictures before a question."""
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in pictures]
    return {"role": "user", "content": [*parts, {"type": "text", "text": question}]}


class ImageBench:
    """The scenarios against one server; another seed makes other pictures."""

    def __init__(self, client: BenchClient, seed: int, max_tokens: int, large: int) -> None:
        """`large`: the side of the large pictures, in pixels."""
        self._client = client
        self._seed = seed
        self._max_tokens = max_tokens
        self.together: list[Asked] = []
        """What was asked by several at once since it was last emptied, and what was answered."""
        pictures = [picture(seed + 500 + index, large) for index in range(_PICTURES)]
        self._opening = message("What do the four pictures show?", *pictures)

    async def run(self, scenarios: Collection[str]) -> AsyncIterator[Figures]:
        """Run those of SCENARIOS, but not what follows a restart."""
        await self._together(2, 2, 900, _SHORT_ANSWER)  # the server compiles
        self.together.clear()
        for name, streams in _AT_ONCE.items():
            if name in scenarios:
                answers = await self._together(streams, max(2 * streams, _FEWEST), streams * 100, self._max_tokens)
                yield compute_figures(name, answers)
        for name, play in (("large", self._conversation), ("beside", self._beside)):
            if name in scenarios:
                async for found in play():
                    yield found

    async def opening(self, scenario: str) -> Figures:
        """Ask the first question about the large pictures."""
        return compute_figures(
            scenario, [(await self._client.stream_answer([self._opening], _SHORT_ANSWER)).parse_answer()]
        )

    async def _conversation(self) -> AsyncIterator[Figures]:
        yield await self.opening("first")
        messages: list[Any] = [self._opening]
        later = []
        for number in range(1, _QUESTIONS):
            messages += [{"role": "assistant", "content": "Shapes."}, message(f"And what is number {number}?")]
            later.append((await self._client.stream_answer(messages, _SHORT_ANSWER)).parse_answer())
        yield compute_figures("later", later)

    async def _beside(self) -> AsyncIterator[Figures]:
        begun, enough = asyncio.Event(), asyncio.Event()
        text = asyncio.create_task(
            self._client.stream_answer(
                [message("Count to a thousand.")], 64 * self._max_tokens, begun=begun, enough=enough
            )
        )
        await begun.wait()
        answers = await self._together(_BESIDE, _BESIDE, 5000, self._max_tokens)
        enough.set()
        stream = await text
        yield compute_figures("beside-images", answers)
        yield compute_figures("beside", [stream.parse_answer()])

    async def _together(self, streams: int, total: int, seed: int, max_tokens: int) -> list[TimedAnswer]:
        """Ask `total` times about a picture, `streams` at once."""
        places = asyncio.Semaphore(streams)
        asked = [message("What is in this picture?", picture(self._seed + seed + one, _SIDE)) for one in range(total)]

        async def ask(one: dict[str, Any]) -> Any:
            async with places:
                return await self._client.stream_answer([one], max_tokens)

        answers = [stream.parse_answer() for stream in await asyncio.gather(*map(ask, asked))]
        if streams > 1:
            pairs = zip(asked, answers, strict=True)
            self.together += [Asked(one, max_tokens, answer.text) for one, answer in pairs if not answer.error]
        return answers


async def measure(
    running: Running, seed: int, given: argparse.Namespace, report: Report, alone: Contender | None
) -> None:
    """Run the scenarios against a server that is up, and restart it once for the last.

    What was answered in company is compared with what `alone` answers.
    """
    async with BenchClient(running.url) as client:
        await client.choose_model(running.contender.model)
        bench = ImageBench(client, seed, given.max_tokens, given.large)
        async for found in bench.run(given.scenario):
            asked, bench.together = bench.together, []
            report(found, await compared(alone, running.log, asked) if alone and asked else None)
    if "large" not in given.scenario:
        return
    await asyncio.sleep(_SECONDS_TO_WRITE)
    await asyncio.to_thread(running.stop)
    await asyncio.to_thread(running.start)
    async with BenchClient(running.url) as client:
        await client.choose_model(running.contender.model)
        report(await ImageBench(client, seed, given.max_tokens, given.large).opening("restart"), None)


def compare(contenders: Sequence[Contender], alone: Contender, given: argparse.Namespace, out: Path) -> str:
    """Run all rounds and return the table. A server that fails is left out of the rest of its round."""
    servers = [Running(contender, out.with_suffix(f".{contender.name}.log")) for contender in contenders]
    rows: list[Row] = []

    def keep(server: str, number: int, found: Figures, equality: dict[str, Any] | None) -> None:
        rows.append(Row(server, number, found))
        told = rows[-1]._asdict() | ({"alone": equality} if equality else {})
        print(msgspec.json.encode(told).decode(), flush=True)

    for number in range(given.repeat):
        for running in servers:
            report = partial(keep, running.contender.name, number)
            try:
                running.start()
                other = alone if running.contender.name == OURS else None
                asyncio.run(measure(running, 10_000 * number, given, report, other))
            except (RuntimeError, httpx.HTTPError) as error:
                print(f"{running.contender.name} is out of round {number}: {error}", file=sys.stderr, flush=True)
            finally:
                running.stop()
    return table(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", metavar="FOLDER")
    parser.add_argument("--shape", choices=SHAPES, default="small")
    parser.add_argument("--rival", type=rival, action="append", default=[], metavar="NAME=PYTHON")
    parser.add_argument("--scenario", choices=SCENARIOS, nargs="+", default=SCENARIOS)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--large", type=int, default=1344, metavar="PIXELS")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="orchard-images-") as temporary:
        folder = Path(temporary)
        path = resolve_model(args.model).path if args.model else str(make_shape(folder / args.shape, args.shape))
        ours, alone = (Contender.orchard(path, folder / name, ["--speculation", "off"]) for name in ("ours", "alone"))
        contenders = [ours]
        contenders += [Contender.rival(name, python, path, folder) for name, python in args.rival]
        print(compare(contenders, alone, args, folder / "images"))


if __name__ == "__main__":
    main()
