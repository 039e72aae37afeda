"""The page on clients, and the server that its tests use."""

import http.server
import json
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.running import running

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "clients.md").read_text()


class ModelHandler(http.server.BaseHTTPRequestHandler):
    """Answers a question about the model `demo` with the server's status."""

    status = 200

    def do_GET(self) -> None:
        assert self.path == "/v1/models/demo"
        self.send_response(type(self).status)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with http.server.HTTPServer(("127.0.0.1", 0), ModelHandler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/"])
def test_a_server_that_runs_is_used(url: str, end: str) -> None:
    assert running(url + end) == url


@pytest.mark.parametrize(
    ("status", "why"), [(401, "needs an API key"), (404, "serves no model `demo`"), (500, "answers with 500")]
)
def test_a_server_that_cannot_be_used(url: str, status: int, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ModelHandler, "status", status)
    with pytest.raises(ValueError, match=why):
        running(url)


@pytest.mark.parametrize("given", ["http://127.0.0.1:1", "nonsense", "http://[", ""])
def test_no_server(given: str) -> None:
    with pytest.raises(ValueError, match="no server answers"):
        running(given)


def test_make_hands_the_address_on() -> None:
    command = ["make", "--no-print-directory", "--dry-run", "test-clients", "URL=http://127.0.0.1:9/v1"]
    told = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert 'CLIENTS_URL="http://127.0.0.1:9/v1" ' in told.stdout.splitlines()[-1]


def test_the_configurations_are_json() -> None:
    blocks = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) >= 2
    assert all(isinstance(json.loads(block), dict) for block in blocks)
