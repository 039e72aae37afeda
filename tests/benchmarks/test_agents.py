"""The sessions of benchmarks.agents, their translation to Chat, their replay and its tables."""

import itertools
import json
import sys
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from benchmarks.agents import Replay, Sessions, bare_turns, recorded_sessions
from benchmarks.agents_prompts import conversation, count_characters, make_bodies
from benchmarks.agents_table import BARE, Turn, scenario_table, turn_table
from benchmarks.agents_translation import Body, chat_body, parse_request
from benchmarks.contenders import Contender, Running
from benchmarks.raw_loops import Loops

from tests.support.models import model_folder
from tests.support.serving import serve

__all__ = ["model_folder"]


def requests(program: str = "p", session: str = "s", count: int = 18) -> list[Body]:
    return list(itertools.islice(conversation(program, session), count))


def test_a_session_is_that_of_its_seeds() -> None:
    first, again, other = requests(), requests(), requests(session="t")
    assert first == again
    assert [body["tools"] for body in first] == [body["tools"] for body in other]
    assert first[0]["messages"][0] == other[0]["messages"][0]
    assert first[0]["messages"][1] != other[0]["messages"][1]
    assert first[0]["messages"][0] != requests("q")[0]["messages"][0]


def test_a_request_repeats_the_one_before_except_for_a_reminder() -> None:
    bodies = requests()
    for before, after in itertools.pairwise(bodies):
        *same, last = before["messages"]
        assert after["messages"][: len(same)] == same
        content = after["messages"][len(same)]["content"]
        assert last["content"].startswith(content)
        assert (last["content"] != content) == ("<system-reminder>" in last["content"])
    assert sum("<system-reminder>" in body["messages"][-1]["content"] for body in bodies) == 4


def test_calls_have_results_of_recorded_sizes() -> None:
    [*_, body] = requests()
    calls = {call["id"]: call for message in body["messages"] for call in message.get("tool_calls", ())}
    results = {message["tool_call_id"]: message for message in body["messages"] if message["role"] == "tool"}
    assert len(calls) == 16
    assert calls.keys() == results.keys()
    assert {call["function"]["name"] for call in calls.values()} <= {tool["function"]["name"] for tool in body["tools"]}
    reads = [len(results[id_]["content"]) for id_, call in calls.items() if call["function"]["name"] == "read"]
    assert 1500 < min(reads) < 3000
    assert 7000 < max(reads) < 12_000
    edits = [len(call["function"]["arguments"]) for call in calls.values() if call["function"]["name"] == "edit"]
    assert all(800 < length < 1500 for length in edits)
    assert 30_000 < count_characters(requests(count=1)[0]) < 50_000


@pytest.mark.parametrize("characters", [30_000, 100_000, 200_000])
def test_the_last_request_is_as_long_as_asked(characters: int) -> None:
    bodies = make_bodies("p", "s", characters, 16)
    assert len(bodies) == 16
    assert count_characters(bodies[-1]) == pytest.approx(characters, rel=0.15)


MESSAGES = {
    "max_tokens": 9,
    "system": [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "x-anthropic-billing-header: a=1;"}],
    "tools": [{"name": "add", "description": "Adds.", "input_schema": {"type": "object"}}],
    "messages": [
        {"role": "user", "content": "1 + 2?"},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                {"type": "text", "text": "I add."},
                {"type": "tool_use", "id": "call_1", "name": "add", "input": {"a": 1}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": "3"}]},
    ],
}
RESPONSES = {
    "instructions": "Be brief.",
    "tools": [{"type": "function", "name": "add", "description": "Adds.", "parameters": {"type": "object"}}],
    "input": [
        {"role": "user", "content": "1 + 2?"},
        {"type": "reasoning", "id": "r", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I add."}]},
        {"type": "function_call", "call_id": "call_1", "name": "add", "arguments": '{"a":1}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "3"},
    ],
}
CHAT: Body = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "1 + 2?"},
        {
            "role": "assistant",
            "content": "I add.",
            "reasoning_content": "Hm.",
            "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a":1}'}}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "3"},
    ],
    "tools": [
        {"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object"}}}
    ],
}
DIALECTS: dict[str, Body] = {"/v1/messages": MESSAGES, "/v1/responses": RESPONSES, "/v1/chat/completions": CHAT}


@pytest.mark.parametrize("path", DIALECTS)
def test_the_translation_keeps_calls_and_results(path: str) -> None:
    task, _ = parse_request(path, json.dumps({"model": "m", **DIALECTS[path]}).encode(), "req_1")
    assert chat_body(task) == CHAT


def test_a_later_system_message_becomes_the_users() -> None:
    body = {"model": "m", "messages": [*CHAT["messages"], {"role": "system", "content": "It is late."}]}
    task, _ = parse_request("/v1/chat/completions", json.dumps(body).encode(), "req_1")
    roles = [message["role"] for message in chat_body(task)["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "user"]


def test_recorded_sessions_are_new_for_a_cache(tmp_path: Path) -> None:
    lines = [json.dumps({"path": path, "body": {"model": "m", **body}}) for path, body in DIALECTS.items()]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    sessions = recorded_sessions(tmp_path, "7")
    first, second = sessions("four", 0), sessions("four", 1)
    assert len(first) == 3
    assert first[0] == first[1] == first[2]
    assert (
        first[0]["messages"][0]
        == second[0]["messages"][0]
        == {"role": "system", "content": "Session 7 four.\nBe brief."}
    )
    assert first[0]["messages"][1] != second[0]["messages"][1]
    assert first[0]["messages"][2:] == CHAT["messages"][2:]
    with pytest.raises(ValueError, match="has no recorded sessions"):
        recorded_sessions(tmp_path / "none", "7")


class Restarting(Running):
    """A server that runs already, and counts its restarts."""

    def __init__(self, url: str) -> None:
        super().__init__(Contender("orchard", [], {}, "fake"), Path("unused"))
        self.url = url
        self.starts = 0

    def start(self) -> None:
        self.starts += 1

    def stop(self) -> None: ...


def replay(running: Running, sessions: Sessions, *scenarios: str, other: str = "fake") -> list[Turn]:
    turns: list[Turn] = []
    played = Replay(running, other, sessions, 0, turns.append)
    for scenario in scenarios:
        played.play(scenario)
    return turns


def say(text: str, count: int = 1) -> Body:
    return {"messages": [{"role": "user", "content": text}] * count, "tools": CHAT["tools"]}


def test_scenarios_report_their_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scripted model counts messages as tokens."""
    monkeypatch.setattr("benchmarks.agents.SECONDS_TO_WRITE", 0.0)
    with serve() as server:
        running = Restarting(server.url)
        sessions = [say("a"), say("b", 2), say("c", 3)]
        turns = replay(running, lambda _, number: sessions, "one", "four", "swap", "restart")
        assert Replay(running, "fake", lambda *_: [], 0, turns.append).fetch_parts() == {}
    assert all(turn.error is None and turn.ttft_ms > 0 for turn in turns)
    counted = [(turn.scenario, turn.agent, turn.turn, turn.prompt_tokens) for turn in turns]
    assert counted[:3] == [("one", 0, 0, 1), ("one", 0, 1, 2), ("one", 0, 2, 3)]
    assert sorted(counted[3:-2]) == [("four", agent, turn, turn + 1) for agent in range(4) for turn in range(3)]
    assert counted[-2:] == [("swap", 0, 2, 3), ("restart", 0, 2, 3)]
    assert running.starts == 1


@pytest.mark.parametrize(
    ("script", "error"),
    [({"refuse": "overloaded"}, "refuses"), ({"fail": "model_failed"}, "fails"), ({"crash": True}, "SIGKILL")],
)
def test_a_request_that_fails_shows_its_error(script: dict[str, Any], error: str) -> None:
    with serve() as server:
        failed, well = replay(Restarting(server.url), lambda *_: [say(json.dumps(script)), say("a")], "one")
    assert error in (failed.error or "")
    assert well.error is None


def test_a_server_that_is_away_shows_its_error() -> None:
    [turn] = replay(Restarting("http://127.0.0.1:1"), lambda *_: [say("a")], "one")
    assert "ConnectError" in (turn.error or "")


def test_the_parts_of_the_first_token_are_those_of_stats(monkeypatch: pytest.MonkeyPatch) -> None:
    stats = {"models": {"a": {"first_token_parts_ms": {"queue": 1.5}}, "b": {}}}
    monkeypatch.setattr(httpx, "get", lambda url, timeout: httpx.Response(200, json=stats))
    found = Replay(Restarting("http://server"), "", lambda *_: [], 0, lambda _: None).fetch_parts()
    assert found == {"a": {"queue": 1.5}}


def test_a_bare_pass_takes_what_the_request_before_has_in_common(model_folder: Path) -> None:
    contents = ["Hello", "Hello, how", "Are"]
    bodies: list[Body] = [{"messages": [{"role": "user", "content": text}], "tools": []} for text in contents]
    with Loops(sys.executable, str(model_folder)) as loops:
        first, second, third = bare_turns(loops, bodies, 3)
        [again] = bare_turns(loops, bodies[:1], 3)
    assert (first.server, first.round, first.turn, second.turn) == (BARE, 3, 0, 1)
    assert first.cached_tokens == again.cached_tokens == 0
    assert second.cached_tokens
    assert third.cached_tokens
    assert second.cached_tokens > third.cached_tokens
    assert all(turn.prefilled_tokens and turn.ttft_ms > 0 for turn in (first, second, third, again))


def cells(table: str) -> dict[tuple[str, ...], list[str]]:
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    return {tuple(line[:2]): line[2:] for line in lines}


def turn(server: str, number: int, place: int, ms: float, **fields: Any) -> Turn:
    default = Turn(
        server=server,
        round=number,
        scenario="one",
        agent=0,
        turn=place,
        ttft_ms=ms,
        prompt_tokens=100,
        cached_tokens=90,
    )
    return msgspec.structs.replace(default, **fields)


def test_tables_compare_rounds_and_leave_failures_out() -> None:
    turns = [
        turn("slow", 0, 1, 90.0),
        turn("fast", 0, 1, 80.0),
        turn("fast", 1, 1, 40.0, cached_tokens=None),
        turn("orchard", 0, 0, 500.0, cached_tokens=0),
        *(turn("orchard", 0, place, ms) for place, ms in ((1, 20.0), (2, 40.0), (3, 60.0))),
        turn("orchard", 1, 1, 30.0),
        turn("orchard", 2, 1, 1.0, error="lost"),
        turn(BARE, 0, 1, 32.0),
    ]
    found = cells(scenario_table(turns))
    assert found["scenario", "figure"] == ["orchard", "slow", "fast", BARE, "ratio", "over a bare pass"]
    expected = ["35.0 (30.0 to 40.0)", "90.0", "60.0 (40.0 to 80.0)", "32.0", "**0.62 (0.50 to 0.75)**", "1.25"]
    assert found["one", "first token, ms"] == expected
    assert found["one", "tokens prefilled"][:3] == ["10 (10 to 10)", "10", "55 (10 to 100)"]
    assert found["one", "failed requests"][:4] == ["1", "0", "0", "0"]
    assert found["one, first request", "first token, ms"] == ["500.0", "", "", "", "", ""]
    assert ("one, first request", "failed requests") not in found
    by_request = cells(turn_table(turns))
    assert by_request["1.2", "100"] == ["25.0; 10", "90.0; 10", "60.0; 55", "32.0; 10"]
    assert by_request["1.4", "100"] == ["60.0; 10", "?; ?", "?; ?", "?; ?"]
