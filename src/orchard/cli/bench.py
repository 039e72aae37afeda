"""`orchard bench`: measure how fast a server with the OpenAI API is, in the same way for every server.

The prompts are random words from a fixed list, so a server's cache contains only what a scenario has put there. Two
requests first measure how many words make a token. `Figures` lists what is measured.
"""

import asyncio
import random
import re
import secrets
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec
import typer
from msgspec import Struct

from orchard.cli.bench_client import BenchClient, Figures, Guesses, TimedAnswer, compute_figures
from orchard.core.errors import OrchardError

DEFAULT_SCENARIOS = ("c1", "c8", "c32", "shared", "growing", "long", "mixed", "again")

_WORD_LIST = re.findall(
    r"\w+",
    """
    import return class value index error count name path data list type self print yield async module open close read
    write time line file text code test user main next last first state order group table field event action model input
    output start stop end begin left right top down size level point number string object method result
    """,
)
_SEEDS = 10**9
_CALIBRATION = (40, 240)  # words
_WARM_STREAMS = 8
_WARM_TOKENS = 16
_USERS = 16
_TURNS = 5
_TURN_TOKENS = 30  # tokens of a question in a scenario that measures the prefix
_REPLY_TOKENS = 32
_FIRST_TOKENS = 8  # tokens of an answer of which only the first one is measured
_RUNNING = 4
_RUNNING_TIMES = 16  # the running streams of `long` may be this many times longer than other answers
_MIXED = 32
_FEWEST = 8  # requests, so that a median is meaningful
_NOTE_COLUMNS = 30


class LoadProfile(Struct, frozen=True, kw_only=True):
    """The sizes of requests, in tokens. A different seed makes different prompts."""

    max_tokens: int = 128
    prompt_tokens: int = 256
    prefix_tokens: int = 2000
    seed: int = 0


def new_seed() -> int:
    """Return a random seed, so that no server has cached its prompts."""
    return secrets.randbelow(_SEEDS)


class Bench:
    """The scenarios against one server."""

    def __init__(self, client: BenchClient, load: LoadProfile) -> None:
        self._client = client
        self._load = load
        self._words_per_token = 1.0

    async def warm_up(self, scenarios: Sequence[str]) -> None:
        """Measure how many words make a token, and let the server compile. Raise OrchardError if it does not answer."""
        short, long = [
            (await self._client.stream_answer([_user_message(_random_words("calibration", count))], 1)).parse_answer()
            for count in _CALIBRATION
        ]  # one after the other, as the model may have to load
        if error := short.error or long.error:
            raise OrchardError("internal", f"{self._client.url} does not answer: {error}")
        if short.prompt_tokens and long.prompt_tokens and long.prompt_tokens > short.prompt_tokens:
            tokens = long.prompt_tokens - short.prompt_tokens
            self._words_per_token = (_CALIBRATION[1] - _CALIBRATION[0]) / tokens
        await self._run_streams(_WARM_STREAMS, _WARM_STREAMS, "warm", min(_WARM_TOKENS, self._load.max_tokens))
        if {"shared", "growing", "long", "again"} & set(scenarios):
            await self._client.stream_answer(
                [_user_message(self._random_prompt("warm prefix", 0, self._load.prefix_tokens))], _FIRST_TOKENS
            )
        if "mixed" in scenarios:
            await self._run_streams(_WARM_STREAMS, _WARM_STREAMS, "warm mixed", _FIRST_TOKENS, self._sampling_of_row)

    async def run(self, scenario: str) -> Figures:
        """Run one scenario. Its name must have passed `check_scenario`."""
        if scenario in SCENARIOS:
            return await SCENARIOS[scenario](self)
        streams = int(scenario[1:])
        total = max(2 * streams, _FEWEST) if streams < 64 else streams
        return compute_figures(scenario, await self._run_streams(streams, total, scenario, self._load.max_tokens))

    async def run_shared(self) -> Figures:
        """Run users who share a system prompt, after one request that puts the prompt into the cache."""
        prefix = {"role": "system", "content": self._random_prompt("shared", 0, self._load.prefix_tokens)}
        await self._client.stream_answer([prefix, _user_message("Hello")], _FIRST_TOKENS)
        questions = [_user_message(self._random_prompt("shared", user + 1, _TURN_TOKENS)) for user in range(_USERS)]
        streams = [self._client.stream_answer([prefix, question], _REPLY_TOKENS) for question in questions]
        return compute_figures("shared", [stream.parse_answer() for stream in await asyncio.gather(*streams)])

    async def run_growing(self) -> Figures:
        """Measure the turns of a conversation after the first one. Each turn repeats all earlier ones."""
        messages = [{"role": "system", "content": self._random_prompt("growing", 0, self._load.prefix_tokens)}]
        answers = []
        for turn in range(_TURNS):
            messages.append(_user_message(self._random_prompt("growing", turn + 1, _TURN_TOKENS)))
            answers.append((await self._client.stream_answer(messages, _REPLY_TOKENS)).parse_answer())
            messages.append({"role": "assistant", "content": answers[-1].text or "ok"})
        return compute_figures("growing", answers[1:])

    async def run_long(self) -> Figures:
        """Send a long prompt while a few streams run. Measure its first token and the streams' gaps until then."""
        arrived = asyncio.Event()
        begun = [asyncio.Event() for _ in range(_RUNNING)]
        running = [asyncio.create_task(self._keep_streaming(index, begun[index], arrived)) for index in range(_RUNNING)]
        for event in begun:
            await event.wait()
        prompt = _user_message(self._random_prompt("long", 0, 2 * self._load.prefix_tokens))
        arrival = (await self._client.stream_answer([prompt], _FIRST_TOKENS)).parse_answer()
        arrived.set()
        others = [answer for answers in await asyncio.gather(*running) for answer in answers]
        await self._client.stream_answer(
            [_user_message("Hello")], 1
        )  # by now the server has noticed that the others disconnected
        gaps = [
            end - begin
            for answer in others
            for begin, end in zip(answer.stamps, answer.stamps[1:], strict=False)
            if end > arrival.sent and begin < arrival.first_stamp
        ]
        result = compute_figures("long", [arrival], gaps=gaps)
        failures = [answer.error for answer in others if answer.error]
        result.requests += len(others)
        result.failed += len(failures)
        result.error = result.error or next(iter(failures), None)
        return msgspec.structs.replace(result, tokens_s=None, stream_tokens_s=None)

    async def run_mixed(self) -> Figures:
        """Run many streams, each with its own sampling parameters."""
        return compute_figures(
            "mixed", await self._run_streams(_MIXED, 2 * _MIXED, "mixed", self._load.max_tokens, self._sampling_of_row)
        )

    async def run_again(self) -> Figures:
        """Open a conversation that is the same in each run with this seed: cold at first, then cached."""
        prefix = {"role": "system", "content": self._random_prompt("again", 0, self._load.prefix_tokens)}
        question = _user_message(self._random_prompt("again", 1, _TURN_TOKENS))
        opened = await self._client.stream_answer([prefix, question], _FIRST_TOKENS)
        return compute_figures("again", [opened.parse_answer()])

    async def _run_streams(
        self,
        streams: int,
        total: int,
        name: str,
        max_tokens: int,
        sampling: Callable[[int], dict[str, Any]] = lambda _: {},
    ) -> list[TimedAnswer]:
        """Send `total` requests, `streams` at once, each with its own prompt."""
        places = asyncio.Semaphore(streams)
        prompts = [_user_message(self._random_prompt(name, index, self._load.prompt_tokens)) for index in range(total)]

        async def run_stream(index: int) -> Any:
            async with places:
                return await self._client.stream_answer([prompts[index]], max_tokens, sampling(index))

        return [stream.parse_answer() for stream in await asyncio.gather(*map(run_stream, range(total)))]

    async def _keep_streaming(self, index: int, begun: asyncio.Event, arrived: asyncio.Event) -> list[TimedAnswer]:
        """Keep one stream running, answer after answer, until the long prompt is answered or a request fails."""
        answers: list[TimedAnswer] = []
        most = _RUNNING_TIMES * self._load.max_tokens
        while not arrived.is_set() and not (answers and answers[-1].error):
            prompt = _user_message(self._random_prompt(f"long {index}", len(answers), _TURN_TOKENS))
            answers.append(
                (await self._client.stream_answer([prompt], most, begun=begun, enough=arrived)).parse_answer()
            )
        return answers

    def _random_prompt(self, name: str, index: int, tokens: int) -> str:
        return _random_words(f"{self._load.seed} {name} {index}", max(1, round(tokens * self._words_per_token)))

    def _sampling_of_row(self, index: int) -> dict[str, Any]:
        """Return a row's own sampling parameters; every second row has filters and penalties too."""
        source = random.Random(f"{self._load.seed} sampling {index}")  # noqa: S311 - no secret
        chosen: dict[str, Any] = {"temperature": round(source.uniform(0.2, 1.2), 3)}
        if index % 2:
            chosen |= {
                "top_p": round(source.uniform(0.7, 0.99), 3),
                "top_k": source.randint(10, 200),
                "repetition_penalty": round(source.uniform(1.01, 1.3), 3),
                "presence_penalty": round(source.uniform(0.05, 1.0), 3),
                "frequency_penalty": round(source.uniform(0.05, 1.0), 3),
            }
        return chosen


def _user_message(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}


def _random_words(seed: str, count: int) -> str:
    source = random.Random(seed)  # noqa: S311 - no secret
    return " ".join(source.choices(_WORD_LIST, k=count))


SCENARIOS: dict[str, Callable[[Bench], Awaitable[Figures]]] = {
    "shared": Bench.run_shared,
    "growing": Bench.run_growing,
    "long": Bench.run_long,
    "mixed": Bench.run_mixed,
    "again": Bench.run_again,
}


def check_scenario(scenario: str) -> str:
    """Return the name. Raise OrchardError if there is no such scenario."""
    if scenario in SCENARIOS or re.fullmatch(r"c[1-9]\d{0,3}", scenario):
        return scenario
    known = ", ".join(("c1", "c8", "c32", "c128", *SCENARIOS))
    raise OrchardError(
        "invalid_request", f"there is no scenario '{scenario}'; there are {known}, and c with any number"
    )


async def measure_scenarios(
    client: BenchClient,
    load: LoadProfile,
    scenarios: Sequence[str],
    report: Callable[[Figures], None],
    begin: Callable[[str], None] = lambda _: None,
) -> dict[str, Guesses]:
    """Warm the server up, then run scenarios one after the other and report the figures of each.

    `begin` is called with what begins: "warm-up" or a scenario. Return the totals of the scenarios' guesses by source,
    without sources that had no guess verified.
    """
    bench = Bench(client, load)
    begin("warm-up")
    await bench.warm_up(scenarios)
    before = await client.fetch_guesses()
    for scenario in scenarios:
        begin(scenario)
        report(await bench.run(scenario))
    after = await client.fetch_guesses()
    brought = {source: now.difference_from(before.get(source, Guesses())) for source, now in after.items()}
    return {source: one for source, one in brought.items() if one.proposed}


class ProgressNote:
    """Shows on a terminal what runs and how many answers it has. The next line of output takes its place.

    One short write for each answer: more would delay the reading of other answers, which is measured.
    """

    def __init__(self) -> None:
        self._is_shown = sys.stderr.isatty()
        self._part = ""
        self._answers = 0

    def begin(self, part: str) -> None:
        """Begin with a scenario or another part."""
        self._part, self._answers = part, 0
        self._show(f"{part}: sending requests")

    def count(self) -> None:
        """Count an answer."""
        self._answers += 1
        self._show(f"{self._part}: {self._answers} answer{'' if self._answers == 1 else 's'}")

    def erase(self) -> None:
        """Leave an empty line."""
        self._show("")

    def _show(self, text: str) -> None:
        if self._is_shown:
            typer.echo(f"\r{text:<{_NOTE_COLUMNS}}\r", nl=False, err=True)


def run_bench(
    url: str, model: str | None, load: LoadProfile, *, scenarios: Sequence[str], api_key: str | None, as_json: bool
) -> int:
    """Measure a server, print the figures and return the number of failed requests. Raise OrchardError if it fails."""
    chosen = [check_scenario(scenario) for scenario in scenarios or DEFAULT_SCENARIOS]
    failed = 0
    note = ProgressNote()

    def report(result: Figures) -> None:
        nonlocal failed
        failed += result.failed
        note.erase()
        typer.echo(msgspec.json.encode(result).decode() if as_json else table_row(result))

    async def run() -> None:
        async with BenchClient(url, api_key) as client:
            name = await client.choose_model(model)
            client.on_answer = note.count
            if not as_json:
                typer.echo(
                    f"{name} at {client.url}, seed {load.seed}\n"
                    f"{load.prompt_tokens} tokens in, up to {load.max_tokens} out; prefixes of {load.prefix_tokens}\n"
                    f"\n{HEAD}"
                )
            brought = await measure_scenarios(client, load, chosen, report, note.begin)
            if brought and not as_json:
                typer.echo(guess_lines(brought))
            elif brought:
                typer.echo(msgspec.json.encode({"speculation": brought}).decode())

    try:
        asyncio.run(run())
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        note.erase()
    return failed


_COLUMNS: tuple[tuple[str, int, Callable[[Figures], float | None]], ...] = (
    ("", 5, lambda result: result.requests),
    ("", 7, lambda result: result.tokens),
    ("all", 7, lambda result: result.tokens_s),
    ("each", 6, lambda result: result.stream_tokens_s),
    ("p50", 7, lambda result: result.ttft_p50_ms),
    ("p99", 7, lambda result: result.ttft_p99_ms),
    ("p50", 6, lambda result: result.gap_p50_ms),
    ("p99", 6, lambda result: result.gap_p99_ms),
    ("max", 7, lambda result: result.gap_max_ms),
    ("all", 7, lambda result: result.prompt_tokens),
    ("cached", 7, lambda result: result.cached_tokens),
)
_GROUPS = (("requests", 12), ("tokens", 7), ("tokens/s", 13), ("TTFT, ms", 14), ("gaps, ms", 19), ("prompt tokens", 14))
HEAD = (
    "".join(f"{title:>{width}}" for title, width in _GROUPS)
    + f"\n{'':7}"
    + "".join(f"{title:>{width}}" for title, width, _ in _COLUMNS)
)
"""The table's head. A line fits 80 columns."""


def table_row(result: Figures) -> str:
    """Return a scenario's line of the table, and the first failure on a second line."""
    cells = (f" {_format_cell(figure(result)):>{width - 1}}" for _, width, figure in _COLUMNS)
    failure = f"\n  {result.failed} failed: {result.error}" if result.failed else ""
    return f"{result.scenario:7}{''.join(cells)}{failure}"


def guess_lines(brought: Mapping[str, Guesses]) -> str:
    """Return a line for each source of guesses, with its totals over all scenarios."""
    lines = (
        f"guesses by {source}: {one.accepted:,} of {one.proposed:,} tokens right; "
        f"{abs(one.saved_seconds):,.1f} s {'lost' if round(one.saved_seconds, 1) < 0 else 'saved'}"
        for source, one in brought.items()
    )
    return "\n".join(lines)


def _format_cell(number: float | None) -> str:
    if number is None:
        return "-"
    return f"{number}" if isinstance(number, int) else f"{number:.{1 if number < 999.95 else 0}f}"
