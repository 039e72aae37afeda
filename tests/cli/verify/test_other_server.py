"""`--against`: which model of another server is meant, and how its speed is told beside Orchard's."""

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from orchard.cli.bench_client import Figures
from orchard.cli.endpoint import ServerError
from orchard.cli.verify import fast
from orchard.cli.verify.other_server import OtherServer, find_other_server
from orchard.cli.verify.proof import Proof
from orchard.cli.verify.subject import Subject
from orchard.gateway.models.registry import resolve_model
from tests.support.stub_server import Stub, run_stub

DEMO = resolve_model("demo")
QWEN = replace(
    DEMO, id="mlx-community/Qwen3-4B-4bit", path="/models/hub/snapshots/1f", aliases=("mine",), size_bytes=100
)
# Lists as the servers send them: mlx_lm.server 0.32.2 began with what was downloaded (observed); those of Ollama and
# LM Studio are made after their documentation, https://docs.ollama.com/api/openai-compatibility and
# https://lmstudio.ai/docs/developer/openai-compat/models.
OLLAMA = ["nomic-embed-text:latest", "llama3.2:3b", "mine:latest"]
LM_STUDIO = ["text-embedding-nomic-embed-text-v1.5", "qwen3-4b-4bit"]
MLX_LM = ["mlx-community/Llama-3-70B-4bit", "/models/hub/snapshots/1f"]


@pytest.fixture
def stub() -> Iterator[Stub]:
    with run_stub() as running:
        yield running


def url(stub: Stub) -> str:
    return f"http://127.0.0.1:{stub.server_address[1]}"


@pytest.mark.parametrize(
    ("listed", "meant", "name"),
    [
        (OLLAMA, "mine:latest", "mine"),
        (LM_STUDIO, "qwen3-4b-4bit", "qwen3-4b-4bit"),
        (MLX_LM, "/models/hub/snapshots/1f", "qwen3-4b-4bit"),
        ([*MLX_LM, QWEN.id], "/models/hub/snapshots/1f", "qwen3-4b-4bit"),
        (["llama3.2:3b"], "llama3.2:3b", "llama3.2:3b"),
    ],
)
def test_the_model_with_the_same_name_is_meant_or_the_only_one(
    stub: Stub, listed: list[str], meant: str, name: str
) -> None:
    stub.models = listed
    other = find_other_server(url(stub), None, QWEN, 1000)
    assert (other.model, other.name) == (meant, name)


@pytest.mark.parametrize(
    ("listed", "told"), [(OLLAMA[:2], "nomic-embed-text:latest, llama3.2:3b: none"), ([], "no model")]
)
def test_a_model_that_is_not_clear_must_be_named(stub: Stub, listed: list[str], told: str) -> None:
    stub.models = listed
    with pytest.raises(ServerError, match=f"{told}.*--against-model"):
        find_other_server(url(stub), None, QWEN, 1000)
    assert find_other_server(url(stub), "llama3.2:3b", QWEN, 1000).model == "llama3.2:3b"


@pytest.mark.parametrize(("host", "free", "apart"), [("127.0.0.1", 250, False), ("127.0.0.1", 249, True)])
def test_memory_may_hold_both_models_or_not(stub: Stub, host: str, free: int, apart: bool) -> None:
    assert find_other_server(url(stub), "x", QWEN, free).apart == apart


def events(*tokens: str) -> bytes:
    """Make a streamed answer."""
    chunks: list[dict[str, Any]] = [{"choices": [{"delta": {"content": token}}]} for token in tokens]
    chunks += [{"choices": [], "usage": {"prompt_tokens": 40, "completion_tokens": len(tokens)}}]
    return b"".join(b"data: %b\n\n" % msgspec.json.encode(chunk) for chunk in chunks) + b"data: [DONE]\n\n"


def prove(own: Stub | None, other: OtherServer | None, check: Any = fast.check_streams) -> Proof:
    subject = Subject(DEMO, ["key"], long=False, other=other)
    subject.url = url(own) if own else ""
    proof: Proof = asyncio.run(check(subject))
    return proof


@pytest.fixture
def own() -> Iterator[Stub]:
    with run_stub() as running:
        running.answer = events(*"abcdefgh")
        yield running


def test_the_servers_are_measured_in_turn(own: Stub, stub: Stub) -> None:
    stub.answer = own.answer
    proof = prove(own, OtherServer(url(stub), "/private/models/Qwen", "qwen"))
    assert proof.status == "ok"
    assert "; the other server with qwen: " in proof.seen
    assert {"orchard 8 tokens/s", "the other server with qwen 32 tokens/s"} <= proof.figures.keys()
    assert "private" not in str(proof)
    assert "lowers" not in proof.seen


def test_shorter_answers_of_the_other_server_are_said(own: Stub, stub: Stub) -> None:
    stub.answer = events("a", "b")
    assert "ended its answers after 16 of 64 tokens" in prove(own, OtherServer(url(stub), "x", "x")).seen


def test_a_failure_of_the_other_server_is_not_one_of_orchard(own: Stub, stub: Stub) -> None:
    stub.status, stub.answer = 404, b'{"error": {"message": "model \'x\' not found"}}'
    proof = prove(own, OtherServer(url(stub), "x", "x"))
    assert (proof.status, "orchard: " in proof.seen) == ("ok", True)
    assert "the other server with x can't be measured" in proof.seen
    assert "model 'x' not found" in proof.seen


def test_a_failure_of_orchard_is_a_problem(own: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: Any) -> list[Figures]:
        return [Figures(scenario=name, requests=8, failed=2, error="500: broken") for name in ("c1", "c8", "c32")]

    monkeypatch.setattr(fast, "_run_scenarios", fail)
    proof = prove(own, None)
    assert (proof.status, bool(proof.advice)) == ("problem", True)
    assert "orchard: 2 of 8 requests failed (500: broken)" in proof.seen


def test_a_server_whose_model_does_not_fit_beside_is_measured_after_orchard(own: Stub, stub: Stub) -> None:
    stub.answer = own.answer
    other = OtherServer(url(stub), "x", "x", apart=True)
    assert "other server" not in prove(own, other).seen
    alone = prove(None, other, fast.check_other_server)
    assert alone.status == "ok"
    assert {"the other server with x 1 tokens/s", "the other server with x shared ms"} <= alone.figures.keys()
    assert not any(name.startswith("orchard") for name in alone.figures)


@pytest.mark.parametrize(("window", "long"), [(None, True), (131_072, False), (2048, True), (1024, False)])
def test_what_is_measured_fits_into_the_window(window: int | None, long: bool) -> None:
    load = fast._load_profile(Subject(replace(DEMO, context_window=window), ["key"], long=long))
    assert load.prefix_tokens == min(2000 if long else 400, (window or 10**6) // 4)
    assert 2 * load.prefix_tokens < (window or 10**6)
    assert 16 * load.max_tokens < (window or 10**6)
