"""Ranks that die, hang or are stopped: callers learn of it, nothing is left, and the model comes back."""

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from msgspec.structs import replace

from orchard.backends.text.model import load_text_model
from orchard.config import ModelSettings
from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching.job import Job
from orchard.engine.sampling.params import SamplingParams
from tests.support.engine_driver import prompt
from tests.support.processes import wait_for_end
from tests.support.ring_mixes import make_split_model
from tests.support.serving import Server, serve
from tests.support.sshd import NAME, PLENTY, SSHD, SshHost, ssh_host
from tests.support.tiny_models import alone

_SECONDS = 5.0
_PATIENCE = 60.0
_PROMPTS = """Ann's "prompts" """.strip()  # a shell would read that in another way
_TASK = {"model": "split", "prompt": "hello", "max_tokens": 1000, "temperature": 0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_split_model(tmp_path_factory.mktemp("ranks"))


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[SshHost | None]:
    """The host of the second rank; None: this machine."""
    if not SSHD:
        yield None
        return
    with ssh_host(tmp_path_factory.mktemp("host")) as found:
        found.add_environment()
        shutil.copytree(folder, found.home / "models" / "copy")
        yield found


@contextmanager
def split(folder: Path, host: SshHost | None, prompts: Path | None = None, **settings: Any) -> Iterator[Server]:
    folders = {str(folder): "~/models/copy", str(prompts): f"~/{_PROMPTS}"}
    text = TextOptions(hosts=host.write_hostfile(folders)) if host else TextOptions(ranks=2)
    text = replace(text, prompt_cache_dir=str(prompts) if prompts else None)
    models = [ModelSettings(model_path=str(folder), text=text)]
    env = {"PATH": host.path} if host else {}
    with serve((), models=models, spare=False, memory_limit=2**30, env=env, **settings) as server:
        server.until("split", state="ready", timeout=_PATIENCE)
        yield server


def group(server: Server, host: SshHost | None) -> dict[str, psutil.Process]:
    """The processes of the model: the worker, which is rank 0, the other rank, its parent, and ssh if it is used."""
    worker = psutil.Process(server.health("split")["pid"])
    (child,) = worker.children()
    if host:
        keeper, rank = host.find_rank()
        return {"worker": worker, "ssh": child, "keeper": keeper, "rank": rank}
    (rank,) = child.children()
    return {"worker": worker, "keeper": child, "rank": rank}


def task(folder: Path, **fields: Any) -> dict[str, Any]:
    """A long answer: the token that ends a turn is excluded."""
    eos = json.loads((folder / "config.json").read_text())["eos_token_id"]
    return {**_TASK, "logit_bias": {str(eos): -100}, **fields}


def stream(server: Server, folder: Path, begun: Future[None]) -> str:
    """Ask for an answer; return the code of the error that ends it."""
    body = task(folder, stream=True)
    with httpx.stream("POST", f"{server.url}/v1/completions", json=body, timeout=_PATIENCE) as response:
        for line in response.iter_lines():
            if line.startswith("data: {"):
                event = json.loads(line[6:])
                if "error" in event:
                    return str(event["error"]["code"])
                if not begun.done():
                    begun.set_result(None)
    return ""


def cached_tokens(server: Server, folder: Path) -> int:
    """Ask for a token after a long prompt; return how much of the prompt was cached."""
    body = task(folder, prompt="hello " * 40, max_tokens=1)
    answer = httpx.post(f"{server.url}/v1/completions", json=body, timeout=_PATIENCE).json()
    return int(answer["usage"]["prompt_tokens_details"]["cached_tokens"])


def check_answers(server: Server, folder: Path) -> None:
    """See that answers that are computed together are those of one process, while a caller leaves."""
    sampled = [{"temperature": 0.0}, {"temperature": 0.9, "top_k": 20}, {"temperature": 0.9, "top_p": 0.9}]
    bodies = [
        task(folder, prompt=prompt(number % 2, length), max_tokens=12, n=1 + number % 2, seed=number)
        | {"top_k": 0, **sampled[number % 3]}
        for number, length in enumerate((1, 15, 17, 40, 90, 41, 60))
    ]
    with ThreadPoolExecutor(len(bodies)) as callers:
        url = f"{server.url}/v1/completions"
        answers = [callers.submit(httpx.post, url, json=body, timeout=_PATIENCE) for body in bodies]
        with httpx.stream("POST", url, json=task(folder, stream=True), timeout=_PATIENCE) as leaves:
            next(leaves.iter_lines())
        whole = load_text_model(str(folder))
        for body, answer in zip(bodies, answers, strict=True):
            values = {name: body[name] for name in ("seed", "temperature", "top_k", "top_p") if name in body}
            params = SamplingParams(
                **values, logit_bias={int(token): bias for token, bias in body["logit_bias"].items()}
            )
            expected = alone(whole, Job(f"{body['seed']}", body["prompt"], params, body["max_tokens"], body["n"]))
            texts = [choice["text"] for choice in answer.result(_PATIENCE).json()["choices"]]
            assert texts == [whole.tokenizer.decode(tokens) for tokens in expected]


def test_nothing_is_left_when_a_rank_or_the_gateway_is_killed(
    folder: Path, host: SshHost | None, tmp_path: Path
) -> None:
    """Over ssh, if there is an sshd: the second host has other folders and another environment."""
    disks = [tmp_path, host.home / _PROMPTS if host else tmp_path]
    with split(folder, host, tmp_path) as server, ThreadPoolExecutor(2) as callers:
        assert cached_tokens(server, folder) == 0
        while len({file for disk in disks for file in disk.glob("*/*.payload.safetensors")}) < len(disks):
            time.sleep(0.05)
        check_answers(server, folder)
        (other,) = server.until("split")["ranks"]
        assert (other["rank"], other["host"], other["percent"]) == (1, NAME if host else "127.0.0.1", 100)
        assert min(other["mlx_bytes"], other["free_bytes"]) > 0
        for victim in ("rank", "gateway"):
            processes = group(server, host)
            begun: list[Future[None]] = [Future(), Future()]
            errors = [callers.submit(stream, server, folder, one) for one in begun]
            for one in begun:
                one.result(_PATIENCE)
            if victim == "rank":
                processes["rank"].kill()
            else:
                processes["rank"].suspend()  # rank 0 waits for it, without end
                server.process.kill()
            alive = wait_for_end(processes.values(), _SECONDS)
            assert not alive, (victim, alive)
            if victim == "rank":
                assert [one.result(_PATIENCE) for one in errors] == ["worker_crashed"] * 2
                # Rank 0 learns of it over its channel, or from MLX's ring, whichever is first.
                reason = server.health("split")["reason"]
                assert re.search("rank 1.*: its process ended|connection to a peer was lost", reason)
                server.until("split", state="ready", timeout=_PATIENCE)
                assert cached_tokens(server, folder) > 0
            else:
                for broken in errors:
                    assert isinstance(broken.exception(_PATIENCE), httpx.TransportError)


@pytest.mark.deep
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("victim", "number"),
    [
        ("worker", signal.SIGKILL),
        ("worker", signal.SIGSTOP),
        ("keeper", signal.SIGKILL),
        ("keeper", signal.SIGSTOP),
        ("ssh", signal.SIGKILL),
        ("ssh", signal.SIGSTOP),
        ("rank", signal.SIGKILL),
        ("rank", signal.SIGSTOP),
    ],
)
def test_callers_learn_of_a_rank_that_is_silent(folder: Path, host: SshHost | None, victim: str, number: int) -> None:
    if victim == "ssh" and not host:
        pytest.skip("there is no sshd")
    watchdog = 20.0
    with split(folder, host, watchdog_timeout=watchdog) as server, ThreadPoolExecutor(8) as callers:
        processes = group(server, host)
        begun: list[Future[None]] = [Future() for _ in range(8)]
        errors = [callers.submit(stream, server, folder, one) for one in begun]
        for one in begun:
            one.result(_PATIENCE)
        os.kill(processes[victim].pid, number)
        since = time.monotonic()
        assert [one.result(_PATIENCE) for one in errors] == ["worker_crashed"] * 8
        assert time.monotonic() - since < watchdog + 2 * _SECONDS
        alive = wait_for_end(processes.values(), _SECONDS)
        assert not alive
        server.until("split", state="ready", timeout=_PATIENCE)
        whole = httpx.post(f"{server.url}/v1/completions", json=task(folder, max_tokens=20), timeout=_PATIENCE)
        assert whole.json()["usage"]["completion_tokens"] == 20


@pytest.mark.deep
@pytest.mark.timeout(300)
@pytest.mark.skipif(not SSHD, reason="there is no sshd: it comes with openssh-server")
def test_a_host_that_is_short_of_memory(folder: Path, host: SshHost | None) -> None:
    """While it serves, requests wait. A load is refused before any weights are read."""
    assert host
    with split(folder, host) as server, ThreadPoolExecutor(1) as callers:

        def ask(**fields: Any) -> httpx.Response:
            body = task(folder, max_tokens=20, **fields)
            return httpx.post(f"{server.url}/v1/completions", json=body, timeout=_PATIENCE)

        assert ask().status_code == 200
        host.leave_memory(0)
        while server.health("split")["ranks"][0]["free_bytes"]:
            time.sleep(0.05)
        waits = callers.submit(ask)
        server.until("split", waiting=1, running=0)
        assert not waits.done()
        host.leave_memory(PLENTY)
        assert waits.result(_PATIENCE).json()["usage"]["completion_tokens"] == 20
        assert httpx.post(f"{server.url}/v1/models/split/unload", timeout=_PATIENCE).status_code == 200
        server.until("split", state="unloaded")
        host.leave_memory(100_000)
        assert ask().status_code == 500
        reason = server.health("split")["reason"]
        assert re.search(r"rank 1 \(second\) can't load its part: .* its part here takes .*may take 9\d,\d{3}$", reason)
        host.leave_memory(PLENTY)
