"""The first token of coding agents' requests, compared with other servers: turn after turn of long sessions.

    python -m benchmarks.agents --model FOLDER --rival mlx-lm=/path/to/python --rival mlx-vlm=/path/to/python

Sessions are those of `agents_prompts.py`, with new texts in each round, or with --recorded those that
`agents_recorder.py` wrote: every server gets the same Chat bodies. The answers in them are part of the session,
whatever a server answers. Scenarios:

- one: an agent's requests, one after the other;
- four: four agents of one program (system prompt and tools) at once;
- swap: the last request of a session, after another model took the place of the session's model (for this, the servers
  have a copy of the model under another name, and Orchard room for one);
- restart: the last request of a session, after a restart of the server.

--bare adds the time of one pass of mlx-lm's model over the tokens that a request adds to the previous one, with
everything before them in the cache: no server can be faster. Arguments after `--` go to `orchard serve`.

Writes a JSON line for each request to FILE.jsonl, and after each server's turn the tables to FILE.md. If a server has
`first_token_parts_ms` in `/v1/stats`, these are written after each scenario, too.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import httpx
import msgspec
from tokenizers import Tokenizer

from benchmarks.agents_prompts import count_characters, make_bodies
from benchmarks.agents_table import BARE, Turn, scenario_table, turn_table
from benchmarks.agents_translation import Body, chat_body, parse_request
from benchmarks.contenders import Contender, Running
from benchmarks.raw_loops import Loops
from benchmarks.serving import SAME_PROMPT, SECONDS_TO_WRITE, add_arguments
from orchard.cli import endpoint
from orchard.cli.bench import new_seed
from orchard.cli.bench_client import BenchClient
from orchard.core.errors import OrchardError
from orchard.gateway.models.registry import resolve_model

SCENARIOS = ("one", "four", "swap", "restart")
_FIRST_TOKENS = 8
_AGENTS = 4
_HELLO: Body = {"messages": [{"role": "user", "content": "Hello"}]}

Sessions = Callable[[str, int], list[Body]]
"""Makes the requests of a session from the name of its scenario and its number."""
Report = Callable[[Turn], None]


def made_sessions(seed: str, characters: int, turns: int) -> Sessions:
    """Make sessions of our own texts; those of a scenario share the system prompt and the tools."""
    return lambda scenario, number: make_bodies(f"{seed} {scenario}", f"{seed} {scenario} {number}", characters, turns)


def recorded_sessions(folder: Path, seed: str) -> Sessions:
    """Translate recorded sessions, one file after the other. Raise ValueError if there are none.

    A line at the beginning of the system prompt and another in the first user message make them new for a cache.
    """
    files = sorted(folder.glob("*.jsonl"))
    if not files:
        raise ValueError(f"{folder} has no recorded sessions; `python -m benchmarks.agents_recorder` records some")

    def session(scenario: str, number: int) -> list[Body]:
        bodies = []
        for line in files[number % len(files)].read_text().splitlines():
            record = json.loads(line)
            task, _ = parse_request(record["path"], json.dumps(record["body"]).encode(), "req_replay")
            body = chat_body(task)
            for role, mark in (("system", f"{seed} {scenario}"), ("user", f"{seed} {scenario} {number}")):
                first = next((message for message in body["messages"] if message["role"] == role), None)
                if first:
                    first["content"] = f"Session {mark}.\n{first['content']}"
            bodies.append(body)
        return bodies

    return session


def characters_per_token(path: str) -> float:
    """Return how many characters of our sessions, as JSON, a token of a model has."""
    [body] = make_bodies("tokens", "tokens", 50_000, 1)
    text = json.dumps([*body["messages"], *body["tools"]])
    return count_characters(body) / len(Tokenizer.from_file(f"{path}/tokenizer.json").encode(text).ids)


class Replay:
    """The scenarios against one server in one round."""

    def __init__(self, running: Running, other: str, sessions: Sessions, number: int, report: Report) -> None:
        """`other`: the server's name of the model that a swap brings in; "": the second that the server lists."""
        self._running = running
        self._other = other
        self._sessions = sessions
        self._round = number
        self._report = report

    def warm_up(self) -> None:
        """Let the server compile for two requests of a session."""
        asyncio.run(self._send("warm", [(0, self._sessions("warm", 0)[:2], 0)], lambda _: None))

    def play(self, scenario: str) -> None:
        """Run a scenario, and report its requests."""
        agents = range(_AGENTS if scenario == "four" else 1)
        bodies = [self._sessions(scenario, agent) for agent in agents]
        if scenario in ("one", "four"):
            asyncio.run(self._send(scenario, [(agent, bodies[agent], 0) for agent in agents], self._report))
            return
        [session] = bodies
        asyncio.run(self._send(scenario, [(0, session[-2:-1], 0)], lambda _: None))
        if scenario == "swap":
            asyncio.run(self._swap())
        else:
            time.sleep(SECONDS_TO_WRITE)
            self._running.stop()
            self._running.start()
        asyncio.run(self._send(scenario, [(0, session[-1:], len(session) - 1)], self._report))

    def fetch_parts(self) -> dict[str, Any]:
        """Return the parts of the time to first token by model, as medians in ms; empty if the server tells none."""
        try:
            models = httpx.get(f"{self._running.url}/v1/stats", timeout=endpoint.CONNECT_SECONDS).json()["models"]
            found = {name: model.get("first_token_parts_ms") for name, model in models.items()}
        except (httpx.HTTPError, ValueError, KeyError, AttributeError):
            return {}
        return {name: parts for name, parts in found.items() if parts}

    async def _send(self, scenario: str, sessions: Iterable[tuple[int, list[Body], int]], report: Report) -> None:
        """Send sessions at once: for each its agent, its requests, and the number of the first of them."""
        async with BenchClient(self._running.url, extra=SAME_PROMPT) as client:
            await client.choose_model(self._running.contender.model)

            async def run(agent: int, bodies: list[Body], begin: int) -> None:
                for turn, body in enumerate(bodies, begin):
                    report(await self._ask(client, scenario, agent, turn, body))

            await asyncio.gather(*(run(*session) for session in sessions))

    async def _ask(self, client: BenchClient, scenario: str, agent: int, turn: int, body: Body) -> Turn:
        answer = (await client.stream_answer([], _FIRST_TOKENS, body)).parse_answer()
        return Turn(
            server=self._running.contender.name,
            round=self._round,
            scenario=scenario,
            agent=agent,
            turn=turn,
            ttft_ms=round((answer.first_stamp - answer.sent) * 1e3, 2),
            prompt_tokens=answer.prompt_tokens,
            cached_tokens=answer.cached_tokens,
            error=answer.error,
        )

    async def _swap(self) -> None:
        """Ask the other model. Raise OrchardError if it does not answer."""
        async with BenchClient(self._running.url) as client:
            await client.choose_model(self._other or await self._second_model())
            answer = (await client.stream_answer([], 1, _HELLO)).parse_answer()
            if answer.error:
                raise OrchardError("model_failed", f"{client.model} doesn't answer: {answer.error}")

    async def _second_model(self) -> str:
        async with httpx.AsyncClient() as http:
            return endpoint.model_cards(await http.get(f"{self._running.url}/v1/models"))[1].id


def bare_turns(loops: Loops, bodies: list[Body], number: int) -> Iterable[Turn]:
    """Yield what each request of a session takes without a server."""
    for turn, (body, following) in enumerate(zip(bodies, [*bodies[1:], None], strict=True)):
        figures = loops.ask("turn", body=body, following=following)
        yield Turn(
            server=BARE,
            round=number,
            scenario="one",
            agent=0,
            turn=turn,
            ttft_ms=round(figures["seconds"] * 1e3, 2),
            prompt_tokens=int(figures["prompt_tokens"]),
            cached_tokens=int(figures["cached_tokens"]),
        )


class Comparison:
    """The rounds, and what came out so far."""

    def __init__(self, args: argparse.Namespace, folder: Path) -> None:
        self._args = args
        self._path = resolve_model(args.model).path
        self._seed = new_seed()
        self._characters = round(args.tokens * characters_per_token(self._path))
        self._turns: list[Turn] = []
        self._out = Path(args.out)
        self._out.with_suffix(".jsonl").write_text("")
        self._other = str(_copy_links(Path(self._path), folder / "other")) if "swap" in args.scenario else ""
        swapping = [self._other, "--max-loaded-models", "1"] if self._other else []
        contenders = [] if args.without_orchard else [Contender.orchard(args.model, folder, [*swapping, *args.serve])]
        contenders += [Contender.rival(name, python, self._path, folder) for name, python in args.rival]
        self._servers = [
            Running(contender, self._out.with_suffix(f".{contender.name}.log")) for contender in contenders
        ]

    def run(self) -> str:
        """Run every round and return the tables. A server that fails is left out of the rest of its round."""
        try:
            for number in range(self._args.repeat):
                sessions = self._sessions(number)
                if self._args.bare:
                    self._run_bare(sessions, number)
                for running in self._servers:
                    self._run_round(running, sessions, number)
                    self._out.with_suffix(".md").write_text(self._tables())
        finally:
            for running in self._servers:
                running.stop()
        return self._tables()

    def _sessions(self, number: int) -> Sessions:
        seed = f"{self._seed} {number}"
        if self._args.recorded:
            return recorded_sessions(self._args.recorded, seed)
        return made_sessions(seed, self._characters, self._args.turns)

    def _run_bare(self, sessions: Sessions, number: int) -> None:
        python = next((python for name, python in self._args.rival if name == "mlx-lm"), sys.executable)
        with Loops(python, self._path) as loops:
            for turn in bare_turns(loops, sessions("one", 0), number):
                self._keep(turn)

    def _run_round(self, running: Running, sessions: Sessions, number: int) -> None:
        name = running.contender.name
        other = "" if running.contender.model is None else self._other
        replay = Replay(running, other, sessions, number, self._keep)
        try:
            running.start()
            replay.warm_up()
            for scenario in self._args.scenario:
                replay.play(scenario)
                if parts := replay.fetch_parts():
                    self._write({"server": name, "round": number, "scenario": scenario, "first_token_parts_ms": parts})
        except (RuntimeError, OrchardError) as error:
            print(f"{name} is out of round {number}: {error}", file=sys.stderr, flush=True)
        if not self._args.together:
            running.stop()

    def _keep(self, turn: Turn) -> None:
        self._turns.append(turn)
        self._write({**msgspec.structs.asdict(turn), "prefilled_tokens": turn.prefilled_tokens})

    def _write(self, line: dict[str, Any]) -> None:
        text = json.dumps(line)
        with self._out.with_suffix(".jsonl").open("a") as file:
            file.write(f"{text}\n")
        print(text, flush=True)

    def _tables(self) -> str:
        about = {name: getattr(self._args, name) for name in ("model", "repeat", "tokens", "turns")}
        return f"{json.dumps(about)}\n\n{scenario_table(self._turns)}\n\n{turn_table(self._turns)}\n"


def _copy_links(model: Path, folder: Path) -> Path:
    """Make a folder with links to a model's files, which servers take for another model."""
    folder.mkdir()
    for file in model.iterdir():
        (folder / file.name).symlink_to(file.resolve())
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    parser.add_argument("--scenario", choices=SCENARIOS, nargs="+", default=list(SCENARIOS))
    parser.add_argument("--tokens", type=int, default=30_000, help="of a session's last prompt, about")
    parser.add_argument("--turns", type=int, default=16, help="requests of a session")
    parser.add_argument("--recorded", type=Path, metavar="FOLDER", help="replay recorded sessions instead")
    parser.add_argument("--bare", action="store_true", help="time bare passes, too")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="orchard-agents-") as folder:
        args.out = args.out or f"{folder}/agents"
        print(Comparison(args, Path(folder)).run())


if __name__ == "__main__":
    main()
