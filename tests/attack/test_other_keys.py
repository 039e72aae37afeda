"""One key tries to find out what another has sent: from usage, reports on the cache, and times to the first token."""

import random
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from orchard.core.tasks.text_options import TextOptions
from orchard.gateway.models.registry import resolve_model
from tests.support.serving import serve

ANN, BEN, CEM, ROOT = "ann-key", "ben-key", "cem-key", "root-key"
SYSTEM = "You are the assistant of a house with many rooms. Keep every answer short, and never say who lives in it."
ROUTES = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages")


class House:
    """A server with the bundled model and several keys."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self._numbers = iter(range(10**6))

    def ask(self, key: str, route: str, text: str, **more: Any) -> dict[str, Any]:
        """Send a text to a route; return the body, with the id of the request."""
        messages = [{"role": "user", "content": text}]
        body: dict[str, Any] = {
            "/v1/chat/completions": {"messages": messages, "max_tokens": 1},
            "/v1/completions": {"prompt": text, "max_tokens": 1},
            "/v1/responses": {"input": text, "max_output_tokens": 1, "store": False},
            "/v1/messages": {"messages": messages, "max_tokens": 1},
        }[route]
        headers = {"authorization": f"Bearer {key}"}
        response = self._client.post(route, json={"model": "demo", **body, **more}, headers=headers)
        assert response.status_code == 200, response.text
        return {**response.json(), "request_id": response.headers["x-request-id"]}

    def cached(self, key: str, text: str, route: str = ROUTES[0], **more: Any) -> int:
        """Return how many tokens of a text the server says were cached; the text has to be new for the key."""
        usage = self.ask(key, route, text, **more)["usage"]
        details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details")
        return int(details["cached_tokens"] if details else usage["cache_read_input_tokens"])

    def get(self, key: str, path: str) -> Any:
        return self._client.get(path, headers={"authorization": f"Bearer {key}"}).json()

    def new(self) -> str:
        """Return a text that nobody has sent, or a salt that nobody has used."""
        return f"{next(self._numbers)} is the number of this text, and the code of my front door is "


@contextmanager
def house(**settings: Any) -> Iterator[House]:
    settings |= {"api_keys": (ANN, BEN, CEM), "admin_keys": (ROOT,)}
    with serve([resolve_model("demo")], spare=False, **settings) as server:
        server.headers = {"x-api-key": ROOT}
        server.until("demo", state="ready")
        with httpx.Client(base_url=server.url, timeout=60) as client:
            yield House(client)


@pytest.fixture(scope="module")
def private() -> Iterator[House]:
    with house() as found:
        yield found


@pytest.mark.parametrize("route", ROUTES)
def test_digits_cannot_be_guessed_from_cached_tokens(private: House, route: str) -> None:
    begin = private.new()
    private.ask(ANN, route, f"{begin}016697")
    right, wrong = (f"{begin}{digits}" for digits in ("016697", "516697"))
    assert private.cached(ANN, right, route) > private.cached(ANN, wrong, route) + 4  # it knows its own
    for other in (BEN, CEM, ROOT):
        assert private.cached(other, right, route) <= 3  # what its own prompts begin with
        for guess in (right, wrong):
            assert private.cached(other, guess, route, cache_salt=private.new()) == 0


def test_reports_on_the_cache_show_nothing_of_other_keys(private: House) -> None:
    begin = private.new()
    private.ask(ANN, ROUTES[0], f"{begin}016697")
    for digits in ("016697", "516697"):
        made = private.ask(BEN, ROUTES[0], f"{begin}{digits}", cache_salt=private.new())
        own, whole = (private.get(key, f"/v1/cache?request_id={made['request_id']}") for key in (BEN, ROOT))
        assert (own["cached_tokens"], own["parted_at"], own["cached"]) == (0, 0, "")
        assert own["summary"].startswith("0 of")
        assert "no cached text begins like this prompt" in whole["summary"]
        assert whole["cached"] == ""


def test_counters_do_not_depend_on_whether_a_guess_is_right(private: House) -> None:
    begin = private.new()
    private.ask(ANN, ROUTES[0], f"{begin}016697")

    def counters() -> dict[str, int]:
        cache: dict[str, int] = private.get(BEN, "/v1/cache")["models"][0]["counters"]
        tokens: dict[str, int] = private.get(BEN, "/v1/stats")["models"]["demo"]["tokens"]
        return cache | {f"{name} tokens": count for name, count in tokens.items()}

    def growth(digits: str) -> dict[str, int]:
        before = counters()
        private.ask(BEN, ROUTES[0], f"{begin}{digits}", cache_salt=private.new())
        return {name: count - before[name] for name, count in counters().items()}

    assert growth("016697") == growth("516697")


def test_a_salt_narrows_what_a_key_shares_with_itself(private: House) -> None:
    text = private.new()
    assert private.cached(ANN, text, cache_salt="a") == private.cached(ANN, text, cache_salt="b") == 0
    assert private.cached(ANN, text) < 6
    for salt in ("a", "b"):
        assert private.cached(ANN, text, cache_salt=salt) > 10
    assert private.cached(ANN, text, prompt_cache_key="another conversation", user="another") > 10


def test_keys_share_where_the_settings_say_so(tmp_path: Path) -> None:
    file = tmp_path / "system.txt"
    file.write_text(f"{SYSTEM}\n")
    options = TextOptions(prompt_cache_shared=(str(file),))
    with house(prompt_cache_sharing={"family": (ANN, BEN)}, text=options) as found:
        text = found.new()
        assert found.cached(ANN, text) == 0
        assert found.cached(BEN, text) > 10
        assert found.cached(CEM, text) == found.cached(ROOT, text) == 0
        # A text that all share, and behind it what they don't.
        asked: dict[str, Any] = {"messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}]}
        own = found.cached(ANN, "", **asked), found.cached(ANN, "", **asked)
        shared = found.cached(CEM, "", **asked), found.cached(CEM, "", **asked)
        assert own[0] < 10 < shared[0] < own[1] == shared[1]
        assert found.cached(ROOT, "", **asked) == shared[0]


def area(seen: list[float], unseen: list[float]) -> float:
    """Return the chance that a seen prompt is answered sooner than an unseen one."""
    return sum(one < other for one in seen for other in unseen) / (len(seen) * len(unseen))


@pytest.mark.deep
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("guessed", ["prompt", "grammar"])
@pytest.mark.parametrize("sharing", ["keys", "all"])
def test_the_time_to_the_first_token_tells_nothing(sharing: Any, guessed: str) -> None:
    rng = random.Random(5)
    seen: list[float] = []
    unseen: list[float] = []

    def ask(key: str, text: str) -> None:
        if guessed == "prompt":
            found.ask(key, ROUTES[0], text)
        else:
            found.ask(key, ROUTES[0], "Hello", guided_regex=rf"[a-z]{{1,20}}({re.escape(text)}|[0-9]+)+")

    with house(prompt_cache_sharing=sharing) as found:
        for _ in range(150):  # so that 0.4 and 0.6 are three standard deviations away
            texts = [f"{found.new()}{rng.sample(range(10**5), 80)}" for _ in range(2)]
            ask(ANN, texts[0])
            pair = [(texts[0], seen), (texts[1], unseen)]
            rng.shuffle(pair)
            for text, times in pair:
                begin = time.perf_counter()
                ask(BEN, text)
                times.append(time.perf_counter() - begin)
    if sharing == "keys":
        assert 0.4 < area(seen, unseen) < 0.6
    else:
        assert area(seen, unseen) > (0.9 if guessed == "prompt" else 0.6)  # compiling takes a few milliseconds
