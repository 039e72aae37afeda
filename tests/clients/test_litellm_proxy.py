"""LiteLLM's proxy before two servers, with the configuration in the documentation; one of them is killed."""

import os
import re
import secrets
from pathlib import Path

import httpx
import openai

from tests.clients.starting import server_process, started

PAGE = (Path(__file__).parents[2] / "docs" / "distributed.md").read_text()
_SECONDS = 60.0
_KEY = f"sk-{secrets.token_hex(32)}"  # the proxy starts with no key that could be guessed


def _is_ready(url: str) -> bool:
    return bool(httpx.get(f"{url}/health").json()["models"]["demo"]["state"] == "ready")


def _is_alive(url: str) -> bool:
    return httpx.get(f"{url}/health/liveliness").status_code == httpx.codes.OK


def _count_requests(url: str) -> int:
    counts: dict[str, int] = httpx.get(f"{url}/v1/stats").json()["models"]["demo"]["requests"]
    return sum(counts.values())


def test_requests_go_on_when_one_of_two_servers_is_killed(tmp_path: Path) -> None:
    orchard = [os.environ["ORCHARD"], "serve", "demo"]
    (config,) = re.findall(r"^```yaml\n(model_list:.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for name in ("first", "second", "proxy"):
        (tmp_path / name).mkdir()
    with (
        server_process(orchard, tmp_path / "first", _is_ready) as (first, _),
        server_process(orchard, tmp_path / "second", _is_ready) as (second, victim),
    ):
        for host, url in (("10.0.0.1", first), ("10.0.0.2", second)):
            assert f"http://{host}:8000" in config
            config = config.replace(f"http://{host}:8000", url)
        (tmp_path / "proxy" / "proxy.yaml").write_text(config)
        command = [os.environ["LITELLM"], "--config", "proxy.yaml", "--host", "127.0.0.1"]
        variables = {**os.environ, "LITELLM_MASTER_KEY": _KEY}
        with started(command, tmp_path / "proxy", _is_alive, variables) as proxy:
            client = openai.OpenAI(base_url=proxy, api_key=_KEY, max_retries=0, timeout=_SECONDS)

            def ask(number: int) -> str:
                messages = [{"role": "user", "content": f"Say hello to number {number}."}]
                answer = client.chat.completions.create(model="demo", messages=messages, max_tokens=8)  # type: ignore[arg-type]
                return answer.choices[0].message.content or ""

            numbers = iter(range(1000))
            while not all(map(_count_requests, (first, second))):  # the proxy chooses by chance
                assert ask(next(numbers))
            victim.kill()
            victim.wait()
            assert all(ask(next(numbers)) for _ in range(8))
