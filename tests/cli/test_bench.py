"""`orchard bench`: what it asks for, and its figures, against a scripted server whose time is part of the script."""

import asyncio
import heapq
import json
import re
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, NamedTuple, TypeVar

import httpx
import msgspec
import pytest
from typer.testing import CliRunner

from orchard.cli.app import app
from orchard.cli.bench import (
    DEFAULT_SCENARIOS,
    HEAD,
    Bench,
    LoadProfile,
    guess_lines,
    measure_scenarios,
    run_bench,
    table_row,
)
from orchard.cli.bench_client import BenchClient, Figures, Guesses, TimedAnswer, compute_figures
from orchard.cli.endpoint import ServerError
from orchard.core.errors import OrchardError
from tests.support.serving import Server, serve

LOAD = LoadProfile(max_tokens=10, prompt_tokens=50, prefix_tokens=200)
T = TypeVar("T")


class Timeline:
    """A clock that moves only when nothing is left to do now."""

    def __init__(self) -> None:
        self.now = 0.0
        self._due: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0

    def __call__(self) -> float:
        return self.now

    async def until(self, when: float) -> None:
        self._count += 1
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._due, (when, self._count, future))
        await future

    async def play(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end."""
        task = asyncio.ensure_future(work)
        while not task.done():
            for _ in range(50):  # more turns of the loop than anything here takes
                await asyncio.sleep(0)
            if self._due and not task.done():
                self.now, _, future = heapq.heappop(self._due)
                future.set_result(None)
        return task.result()


class Reply(NamedTuple):
    """How the scripted server answers: seconds to the first token and between tokens, and what it counts."""

    first: float = 0.1
    gap: float = 0.01
    tokens: int | None = None
    """None: as many as the request allows."""
    cached: int | None = None
    tail: bytes = b""
    """What comes instead of the end."""
    status: int = 200
    body: bytes = b""


def event(body: object) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"


class Scripted(httpx.AsyncBaseTransport):
    """A server that answers by `script`, and counts `words_a_token` words of a prompt as one token, plus ten."""

    def __init__(self, time: Timeline, script: Callable[[dict[str, Any]], Reply], words_a_token: float) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.stalled_until = 0.0
        self._time = time
        self._script = script
        self._words_a_token = words_a_token

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        self.bodies.append(body)
        reply = self._script(body)
        if reply.status != 200:
            return httpx.Response(reply.status, content=reply.body)
        return httpx.Response(200, stream=Played(self._play(body, reply)))

    async def _play(self, body: dict[str, Any], reply: Reply) -> AsyncIterator[bytes]:
        tokens = body["max_tokens"] if reply.tokens is None else reply.tokens
        yield event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
        for number in range(tokens):
            await self._time.until(max(self.stalled_until, self._time.now + (reply.gap if number else reply.first)))
            yield event({"choices": [{"index": 0, "delta": {"content": f"t{number} "}}]})
        if reply.tail:
            yield reply.tail
            return
        words = sum(len(message["content"].split()) for message in body["messages"])
        usage: dict[str, Any] = {
            "prompt_tokens": round(words / self._words_a_token) + 10,
            "completion_tokens": tokens,
        }
        if reply.cached is not None:
            usage["prompt_tokens_details"] = {"cached_tokens": reply.cached}
        yield event({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})
        yield event({"choices": [], "usage": usage})
        yield b"data: [DONE]\n\n"


class Played(httpx.AsyncByteStream):
    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._pieces


class Stage:
    """A client, a scripted server, and their time."""

    def __init__(self, script: Callable[[dict[str, Any]], Reply] = lambda _: Reply(), words_a_token: float = 1) -> None:
        self.time = Timeline()
        self.server = Scripted(self.time, script, words_a_token)
        self.client = BenchClient("http://scripted/v1/", transport=self.server, clock=self.time)
        self.client.model = "m"

    async def run(self, scenario: str, load: LoadProfile = LOAD) -> Figures:
        return await self.time.play(Bench(self.client, load).run(scenario))

    async def ask(self) -> TimedAnswer:
        return (await self.time.play(self.client.stream_answer([{"role": "user", "content": "x"}], 5))).parse_answer()

    def prompts(self) -> list[str]:
        return [" ".join(message["content"] for message in body["messages"]) for body in self.server.bodies]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serve() as running:
        yield running


class TestScenarios:
    async def test_streams_at_once(self) -> None:
        stage = Stage()
        result = await stage.run("c4")
        assert (result.requests, result.failed, result.tokens) == (8, 0, 80)
        # Two waves of 0.1 s and nine gaps of 0.01 s.
        assert result.tokens_s == round(80 / 0.38, 1)
        assert result.stream_tokens_s == 100
        assert (result.ttft_p50_ms, result.ttft_p99_ms) == (100, 100)
        assert (result.gap_p50_ms, result.gap_p99_ms, result.gap_max_ms) == (10, 10, 10)
        assert (result.prompt_tokens, result.cached_tokens) == (60, None)
        assert all(body["temperature"] == 0 and body["max_tokens"] == 10 for body in stage.server.bodies)

    @pytest.mark.parametrize(("scenario", "requests"), [("c1", 8), ("c5", 10), ("c63", 126), ("c64", 64)])
    async def test_how_many_are_asked(self, scenario: str, requests: int) -> None:
        assert (await Stage().run(scenario)).requests == requests

    async def test_the_users_share_a_prefix_that_one_request_brought(self) -> None:
        stage = Stage(lambda body: Reply(first=3.0, cached=0) if body["max_tokens"] == 8 else Reply(cached=200))
        result = await stage.run("shared")
        assert (result.requests, result.ttft_p50_ms, result.cached_tokens) == (16, 100, 200)
        first, *others = stage.server.bodies
        assert {body["messages"][0]["content"] for body in others} == {first["messages"][0]["content"]}
        assert len({body["messages"][1]["content"] for body in stage.server.bodies}) == 17

    async def test_a_conversation_grows(self) -> None:
        stage = Stage(lambda body: Reply(first={2: 9.0, 4: 0.1, 6: 0.2, 8: 0.4, 10: 0.8}[len(body["messages"])]))
        result = await stage.run("growing")
        assert (result.requests, result.ttft_p50_ms, result.ttft_p99_ms) == (4, 300, 800)
        *earlier, last = (body["messages"] for body in stage.server.bodies)
        assert all(last[: len(messages)] == messages for messages in earlier)
        assert [message["role"] for message in last] == ["system", *["user", "assistant"] * 4, "user"]
        assert last[2]["content"].startswith("t0 t1 ")

    async def test_a_long_prompt_among_running_streams(self) -> None:
        def script(body: dict[str, Any]) -> Reply:
            if body["max_tokens"] != 8:
                return Reply()
            stage.server.stalled_until = stage.time.now + 0.5
            return Reply(first=2.0)

        stage = Stage(script)
        result = await stage.run("long")
        assert result.ttft_p50_ms == 2000
        # One more token was on its way in each stream when the long prompt came.
        assert result.gap_max_ms == 490
        assert result.gap_p50_ms == 10
        assert result.prompt_tokens == 410
        assert result.tokens_s is None
        # The streams, of at most 160 tokens each, were kept going until the long prompt was answered, then hung up.
        assert (result.requests, result.failed) == (1 + 4 * 2, 0)
        assert len(set(stage.prompts())) == result.requests + 1

    async def test_streams_that_fail_do_not_keep_the_long_prompt_waiting(self) -> None:
        stage = Stage(lambda body: Reply() if body["max_tokens"] == 8 else Reply(status=500, body=b"no"))
        result = await stage.run("long")
        assert (result.requests, result.failed, result.error, result.ttft_p50_ms) == (5, 4, "500: no", 100)

    async def test_every_row_samples_in_its_own_way(self) -> None:
        stage = Stage()
        assert (await stage.run("mixed")).requests == 64
        rows = [
            {key: value for key, value in body.items() if re.fullmatch(r"temperature|top_.|.*_penalty", key)}
            for body in stage.server.bodies
        ]
        assert len({json.dumps(sampling) for sampling in rows}) == 64
        assert all(sampling["temperature"] > 0 for sampling in rows)
        assert sum(len(sampling) == 6 for sampling in rows) == 32
        assert not any("seed" in body for body in stage.server.bodies)  # mlx_lm.server can't batch those

    async def test_again_is_the_same_again(self) -> None:
        stage = Stage()
        assert (await stage.run("again")).requests == 1
        await stage.run("again")
        await stage.run("again", msgspec.structs.replace(LOAD, seed=1))
        first, second, other = (body["messages"] for body in stage.server.bodies)
        assert first == second
        assert first[0] != other[0]

    async def test_nothing_shares_a_prefix_by_accident(self) -> None:
        stage = Stage()
        for seed in (0, 1):
            load = msgspec.structs.replace(LOAD, seed=seed)
            for scenario in ("c1", "c8", "shared", "growing", "long", "mixed", "again"):
                await stage.run(scenario, load)
        heads = [tuple(prompt.split()[:5]) for prompt in stage.prompts() if prompt != "Hello"]
        # A shared prefix is asked for by 17 requests, a growing one by 5.
        assert len(heads) - len(set(heads)) == 2 * (16 + 4)

    @pytest.mark.parametrize("words_a_token", [0.5, 1, 2])
    async def test_prompts_are_as_long_as_the_server_counts(self, words_a_token: float) -> None:
        stage = Stage(words_a_token=words_a_token)
        bench = Bench(stage.client, LOAD)
        await stage.time.play(bench.warm_up(["shared", "mixed"]))
        result = await stage.time.play(bench.run("c1"))
        assert result.prompt_tokens == LOAD.prompt_tokens + 10

    async def test_a_server_that_fails_to_warm_up(self) -> None:
        stage = Stage(lambda _: Reply(status=404, body=b'{"error": {"message": "no such model"}}'))
        with pytest.raises(OrchardError, match="does not answer: 404: no such model"):
            await stage.time.play(Bench(stage.client, LOAD).warm_up([]))


class TestAnswers:
    @pytest.mark.parametrize(
        ("reply", "expected"),
        [
            (Reply(status=500, body=b'{"error": {"message": "a\\nb"}}'), "500: a b"),
            (Reply(status=400, body=b'{"error": "bare"}'), "400: bare"),
            (Reply(status=422, body=b'{"detail": []}'), '422: {"detail": []}'),
            (Reply(tokens=2, tail=event({"error": {"message": "crashed"}})), "crashed"),
            (Reply(tokens=2, tail=event({"choices": []})), "the answer broke off"),
            (Reply(tokens=2, tail=b"data: {\n\n"), "the answer is not a chat completion"),
        ],
    )
    async def test_failures(self, reply: Reply, expected: str) -> None:
        answer = await Stage(lambda _: reply).ask()
        assert answer.error
        assert answer.error.startswith(expected)

    async def test_a_connection_that_is_refused(self) -> None:
        async with BenchClient("http://127.0.0.1:9") as client:
            client.model = "m"
            assert (await client.stream_answer([], 1)).error
            with pytest.raises(ServerError, match="no server answers"):
                await client.choose_model(None)

    async def test_an_answer_without_text(self) -> None:
        answer = await Stage(lambda _: Reply(tokens=0)).ask()
        assert (answer.error, answer.token_count, answer.first_stamp) == (None, 0, answer.ended)

    async def test_a_server_that_counts_nothing_is_credited_with_its_pieces(self) -> None:
        end = event({"choices": [{"delta": {}, "finish_reason": "stop"}]})
        assert (await Stage(lambda _: Reply(tokens=3, tail=end)).ask()).token_count == 3

    def test_sums(self) -> None:
        well = [
            TimedAnswer(
                sent=0.0, ended=2.0, stamps=[1.0, 1.2, 2.0], completion_tokens=5, prompt_tokens=9, cached_tokens=4
            ),
            TimedAnswer(sent=1.0, ended=4.0, stamps=[3.0, 4.0], completion_tokens=2, prompt_tokens=7),
        ]
        result = compute_figures(
            "c2", [*well, TimedAnswer(sent=0.0, ended=5.0, error="lost"), TimedAnswer(sent=0.0, ended=0.0, error="x")]
        )
        assert result == Figures(
            scenario="c2",
            requests=4,
            failed=2,
            error="lost",
            tokens=7,
            tokens_s=1.4,
            stream_tokens_s=2.5,
            ttft_p50_ms=1500,
            ttft_p99_ms=2000,
            gap_p50_ms=800,
            gap_p99_ms=1000,
            gap_max_ms=1000,
            prompt_tokens=8,
            cached_tokens=4,
        )
        assert "2 failed: lost" in table_row(result)

    def test_the_99th_percentile_is_the_nearest_rank(self) -> None:
        answers = [TimedAnswer(sent=0.0, ended=number / 1000, stamps=[number / 1000]) for number in range(1, 201)]
        assert compute_figures("c1", answers).ttft_p99_ms == 198

    def test_nothing_came(self) -> None:
        result = compute_figures("c1", [TimedAnswer(sent=0.0, ended=1.0, error="refused")])
        assert (result.tokens, result.tokens_s, result.ttft_p50_ms) == (0, None, None)
        assert table_row(result).startswith("c1 ")


class TestCommand:
    def run(self, *args: str) -> tuple[int, list[str]]:
        result = CliRunner().invoke(app, ["bench", *args])
        return result.exit_code, result.output.splitlines()

    def test_json_lines(self, server: Server) -> None:
        options = ("--prompt-tokens", "5", "--prefix-tokens", "20", "--max-tokens", "4", "--json")
        code, lines = self.run(server.url, *options, "--scenario", "c3", "--scenario", "growing")
        assert code == 0
        c3, growing = (msgspec.json.decode(line, type=Figures) for line in lines)
        # Each answer is one piece: the prompt's own words.
        assert (c3.scenario, c3.requests, c3.failed, c3.tokens) == ("c3", 8, 0, 8)
        assert (growing.scenario, growing.requests, growing.failed) == ("growing", 4, 0)

    def test_a_table(self, server: Server) -> None:
        options = ("--prompt-tokens", "5", "--prefix-tokens", "20", "--max-tokens", "4")
        code, lines = self.run(f"{server.url}/v1", "fake", *options)
        assert code == 0
        assert lines[0].startswith(f"fake at {server.url}, seed ")
        assert tuple(line.split()[0] for line in lines[5:]) == DEFAULT_SCENARIOS
        assert max(map(len, lines)) <= 80

    def test_a_row_of_large_figures_fits_a_terminal(self) -> None:
        large = Figures(
            scenario="growing", requests=9999, failed=0, tokens=999_999, prompt_tokens=99_999, cached_tokens=99_999
        )
        times = [name for name in Figures.__struct_fields__ if name.endswith(("_s", "_ms"))]
        line = table_row(msgspec.structs.replace(large, **dict.fromkeys(times, 98_765.4)))
        assert len(line) == len(HEAD.splitlines()[1]) <= 80
        assert len(line.split()) == 12

    def test_progress_is_shown_on_a_terminal_and_gives_way_to_the_table(
        self, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        load = LoadProfile(max_tokens=4, prompt_tokens=5, prefix_tokens=20)
        assert run_bench(server.url, None, load, scenarios=["c1"], api_key=None, as_json=True) == 0
        out, err = capsys.readouterr()
        assert len(out.splitlines()) == 1
        shown = [note.strip() for note in err.split("\r") if note]
        assert shown[:2] == ["warm-up: sending requests", "warm-up: 1 answer"]
        assert shown[-11:-1] == ["c1: sending requests", "c1: 1 answer", *(f"c1: {n} answers" for n in range(2, 9)), ""]

    def test_another_seed_in_each_run(self, server: Server) -> None:
        """A server has the answers to prompts that it has had before."""
        options = ("--scenario", "c1", "--max-tokens", "1", "--prompt-tokens", "5")
        heads = [self.run(server.url, *options, *seed)[1][0] for seed in ((), (), ("--seed", "7"))]
        first, second, given = (int(found[1]) for head in heads if (found := re.search(r", seed (\d+)$", head)))
        assert first != second
        assert given == 7

    def test_a_model_that_is_not_there(self, server: Server) -> None:
        result = CliRunner().invoke(app, ["bench", server.url, "other"])
        assert isinstance(result.exception, OrchardError)
        assert "other" in str(result.exception)

    @pytest.mark.parametrize("name", ["c0", "c", "x", "c12345", "C1"])
    def test_an_unknown_scenario(self, name: str) -> None:
        result = CliRunner().invoke(app, ["bench", "http://127.0.0.1:9", "--scenario", name])
        assert isinstance(result.exception, OrchardError)
        assert f"no scenario '{name}'" in str(result.exception)


STATS = {
    "models": {"m": {"state": "ready", "speculation": {"ngram": {"proposed": 9, "accepted": 7, "saved_seconds": 1}}}}
}


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (200, json.dumps(STATS), {"ngram": Guesses(9, 7, 1.0)}),
        (200, json.dumps({"models": {"m": {}}}), {}),
        (200, json.dumps({"models": {}}), {}),
        (404, '{"detail": "Not Found"}', {}),
        (200, "no JSON", {}),
    ],
)
async def test_what_guesses_have_brought(status: int, body: str, expected: dict[str, Guesses]) -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(status, content=body))
    async with BenchClient("http://scripted", transport=transport) as client:
        client.model = "m"
        assert await client.fetch_guesses() == expected


async def test_a_model_may_be_named_by_an_alias() -> None:
    """`/v1/stats` has ids only."""

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(
            200, json={"/v1/stats": STATS, "/v1/models/o/a b": {"id": "o/a b", "root": "m"}}[request.url.path]
        )

    async with BenchClient("http://scripted", transport=httpx.MockTransport(answer)) as client:
        client.model = "o/a b"
        assert await client.fetch_guesses() == {"ngram": Guesses(9, 7, 1.0)}


def test_what_guesses_have_brought_is_told_by_source() -> None:
    before, after = Guesses(10, 5, 0.5), Guesses(1510, 1205, 3.04)
    brought = {
        "ngram": after.difference_from(before),
        "grammar": Guesses(3, 0, -0.25),
        "prediction": Guesses(1, 1, -0.04),
    }
    told = guess_lines(brought)
    assert told.splitlines() == [
        "guesses by ngram: 1,200 of 1,500 tokens right; 2.5 s saved",
        "guesses by grammar: 0 of 3 tokens right; 0.2 s lost",
        "guesses by prediction: 1 of 1 tokens right; 0.0 s saved",
    ]


class Guessing(Scripted):
    """A server that checks ten guesses in each request, of which nine are right."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path != "/v1/stats":
            return await super().handle_async_request(request)
        asked = len(self.bodies)
        brought = {"proposed": 10 * asked, "accepted": 9 * asked, "saved_seconds": 0.5 * asked}
        earlier = {"proposed": 7, "accepted": 7, "saved_seconds": 1.0}  # and none in the benchmark
        return httpx.Response(200, json={"models": {"m": {"speculation": {"ngram": brought, "draft": earlier}}}})


async def test_guesses_are_those_of_the_scenarios_and_not_of_the_warm_up() -> None:
    time = Timeline()
    server = Guessing(time, lambda _: Reply(), 1)
    client = BenchClient("http://scripted", transport=server, clock=time)
    client.model = "m"
    measured: list[Figures] = []
    brought = await time.play(measure_scenarios(client, LOAD, ["c2", "c3"], measured.append))
    assert sum(one.requests for one in measured) == 16
    assert brought == {"ngram": Guesses(160, 144, 8.0)}


def test_the_command_tells_it_at_the_end(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    found = iter([{"ngram": Guesses(10, 5, 0.5)}, {"ngram": Guesses(30, 20, 2.5)}] * 2)

    async def guesses(client: BenchClient) -> dict[str, Guesses]:
        return next(found)

    monkeypatch.setattr(BenchClient, "fetch_guesses", guesses)
    command = ["bench", server.url, "--scenario", "c1", "--max-tokens", "2"]
    assert "guesses by ngram: 15 of 20 tokens right; 2.0 s saved" in CliRunner().invoke(app, command).output
    told = CliRunner().invoke(app, [*command, "--json"]).output.splitlines()[-1]
    assert json.loads(told) == {"speculation": {"ngram": {"proposed": 20, "accepted": 15, "saved_seconds": 2.0}}}
