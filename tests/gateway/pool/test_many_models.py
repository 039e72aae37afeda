"""Several models behind one address, with real processes: swaps, unloads, and what becomes of processes that break."""

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from orchard.gateway.models.entry import ModelEntry
from tests.support.gateway_client import body, chat, streamed
from tests.support.serving import FAKE, Server, serve


def model(name: str, **loads: Any) -> ModelEntry:
    return ModelEntry(name, json.dumps(loads), None, "fake")


def processes(server: Server) -> list[int]:
    return [child.pid for child in psutil.Process(server.process.pid).children()]


def post(server: Server, path: str) -> dict[str, Any]:
    answer: dict[str, Any] = httpx.post(f"{server.url}{path}", timeout=30).json()
    return answer


async def test_models_take_turns_where_one_may_be_in_memory() -> None:
    with serve([model("org/a"), model("b")], max_loaded_models=1) as server:
        server.until("org/a", state="ready")
        before = len(processes(server))
        for name in ("b", "org/a") * 10:
            reply = await chat(server, model=name, text=name)
            assert reply.json()["choices"][0]["message"]["content"] == name
        assert len(processes(server)) <= before + 1  # a process is handed on; one more is kept spare
        many = [asyncio.create_task(chat(server, model=name)) for name in ("b", "org/a") * 20]
        assert {reply.status_code for reply in await asyncio.gather(*many)} == {200}


def test_unloading_gives_the_memory_back() -> None:
    with serve([model("org/a"), model("b")]) as server:
        pids = [server.until(name, state="ready")["pid"] for name in ("org/a", "b")]
        assert post(server, "/v1/models/org/a/unload")["unloaded"]["models"] == ["org/a"]
        assert not psutil.pid_exists(pids[0])
        assert server.health("org/a")["state"] == "unloaded"
        assert post(server, "/unload") == {
            "status": "success",
            "message": "Model unloaded successfully",
            "unloaded": {"model_name": "b", "adapter_name": None, "models": ["b"]},
        }
        assert not psutil.pid_exists(pids[1])
        nothing = {"status": "no_model_loaded", "message": "No model is currently loaded"}
        assert post(server, "/unload") == post(server, "/v1/models/b/unload") == nothing
        assert post(server, "/v1/models/org/a/load")["status"] == "success"
        assert server.health("org/a")["state"] == "ready"
        assert post(server, "/v1/models/nobody/load")["error"]["code"] == "model_not_found"


async def test_unloading_waits_for_what_runs() -> None:
    with serve() as server:
        async with streamed(server, pieces=60, interval=0.01) as stream:
            await stream.read(until=1)
            unloading = asyncio.create_task(asyncio.to_thread(post, server, "/unload"))
            await asyncio.to_thread(server.until, running=1)
            await stream.read()
            assert (stream.text, stream.error) == ("x" * 60, None)
        assert (await unloading)["status"] == "success"


@pytest.mark.parametrize("path", ["/unload", "/v1/models/fake/unload"])
async def test_a_request_keeps_a_model_that_still_answers_another(path: str) -> None:
    with serve() as server:
        async with streamed(server, pieces=10_000, interval=0.01) as stream:
            await stream.read(until=1)
            async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
                unloading = asyncio.create_task(client.post(path))
                while not unloading.done():
                    # As long as the unload has not arrived, the first of these changes nothing.
                    assert (await chat(server)).status_code == 200
                refused = await unloading
            assert (refused.status_code, refused.json()["error"]["code"]) == (409, "model_in_use")
            await stream.read(until=len(stream.text) + 1)
            assert stream.error is None
        assert server.health()["state"] == "ready"


async def test_an_idle_model_is_unloaded_and_comes_back() -> None:
    with serve([ModelEntry("fake", "fake", None, "fake", ttl=0.2)]) as server:
        await chat(server)
        assert server.until(state="unloaded")["pid"] is None
        assert (await chat(server)).status_code == 200


@pytest.mark.parametrize("end", ["crash", "abort"])
async def test_an_answer_that_nobody_has_seen_is_made_again(tmp_path: Path, end: str) -> None:
    with serve() as server:
        once = str(tmp_path / "once")
        reply = await chat(server, pieces=3, once=once, **{end: True})
        assert reply.json()["choices"][0]["message"]["content"] == "xxx"
        assert server.health()["restarts"] == 1
        async with streamed(server, once=str(tmp_path / "twice"), pieces=0, **{end: True}) as stream:
            await stream.read()
            assert stream.error is None


async def test_a_process_that_hangs_is_killed() -> None:
    with serve(watchdog_timeout=2) as server:
        pid = server.until(state="ready")["pid"]
        async with streamed(server, hang=True) as stream:
            await stream.read()
            assert stream.error
            assert "did not answer for 2 seconds" in stream.error["message"]
        assert (await chat(server)).status_code == 200
        assert server.health()["pid"] != pid


async def test_a_stopped_process_is_killed() -> None:
    with serve(watchdog_timeout=2) as server:
        psutil.Process(server.until(state="ready")["pid"]).suspend()
        assert (await chat(server, text="again")).json()["choices"][0]["message"]["content"] == "again"


@pytest.mark.parametrize("end", ["killed", "aborted", "hang"])
async def test_a_process_that_breaks_while_it_loads_is_tried_once_more(tmp_path: Path, end: str) -> None:
    with serve([model("a", seconds=0.1, end=end, once=str(tmp_path / "once"))], watchdog_timeout=2) as server:
        assert (await chat(server, model="a")).status_code == 200
        assert server.health("a")["restarts"] == 1


async def test_a_model_whose_loads_always_break_has_failed_and_others_live() -> None:
    with serve([FAKE, model("a", end="killed")]) as server:
        refused = await chat(server, model="a")
        assert refused.status_code == 500
        assert "SIGKILL" in refused.json()["error"]["message"]
        health = server.health("a")
        assert (health["state"], "SIGKILL" in health["reason"]) == ("failed", True)
        assert (await chat(server)).status_code == 200


async def test_the_exception_that_a_process_died_of_is_the_reason() -> None:
    with serve([model("a", end="raised")]) as server:
        refused = await chat(server, model="a")
        reason = "its process ended with exit code 1: ValueError: the script breaks the worker"
        assert reason in refused.json()["error"]["message"]
        assert server.health("a")["reason"] == reason


async def test_who_waits_for_a_load_is_told_how_far_it_is() -> None:
    with serve([model("a", seconds=1, steps=10)], keep_alive_interval=0.1) as server:
        async with httpx.AsyncClient(timeout=30) as client:
            answer = await client.post(f"{server.url}/v1/chat/completions", json=body(stream=True, model="a"))
        comments = [line for line in answer.text.splitlines() if line.startswith(":")]
        assert any(comment.startswith(": loading ") for comment in comments)
        assert answer.text.rstrip().endswith("data: [DONE]")


def test_health_says_how_far_a_load_is() -> None:
    with serve([model("a", seconds=0.7, steps=14)]) as server:
        server.until("a", state="loading")
        seen = set()
        deadline = time.monotonic() + 30
        while (health := server.health("a"))["state"] == "loading":
            seen.add(health["percent"])
            assert time.monotonic() < deadline
        assert len(seen) > 2
        assert health["percent"] is None


def test_a_spare_process_waits_for_the_next_load() -> None:
    with serve() as server:
        pid = server.until(state="ready")["pid"]
        deadline = time.monotonic() + 30
        while len(processes(server)) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        (spare,) = set(processes(server)) - {pid}
        os.kill(pid, 9)
        server.until(state="ready", pid=spare)
