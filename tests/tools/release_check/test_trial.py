"""What is found wrong with a command `orchard` that was installed: with scripts that stand in for it."""

import os
import stat
import sys
from pathlib import Path

import pytest
from tools.release_check.trial import use

ORCHARD = """#!{python}
import http.server, json, os, signal, sys

class Handler(http.server.BaseHTTPRequestHandler):
    asked = 0

    def log_message(self, *args):
        pass

    def do_GET(self):
        Handler.asked += 1
        self.send_response(200 if Handler.asked > 1 else 503)
        self.end_headers()

    def do_POST(self):
        assert json.loads(self.rfile.read(int(self.headers["content-length"])))["model"] == "demo"
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps({{"choices": [{{"message": {{"content": "{answer}"}}}}]}}).encode())

if sys.argv[1] == "doctor":
    print("{found}")
    print(sorted(name for name in os.environ if name.startswith("ORCHARD_")), os.environ["HOME"])
    sys.exit({doctor})
assert sys.argv[1:] == ["serve", "demo", "--port", "0"]
signal.signal(signal.SIGTERM, lambda *_: os._exit({code}))
print("a line for the log", file=sys.stderr, flush=True)
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(f"Orchard listens at http://127.0.0.1:{{server.server_port}}", flush=True)
server.serve_forever()
"""


def wrong(folder: Path, extras: set[str], **script: object) -> list[str]:
    orchard = folder / "orchard"
    usual = {"python": sys.executable, "found": "ok       extra", "doctor": 0, "code": 0, "answer": "It is 42."}
    fields = usual | script
    orchard.write_text(ORCHARD.format(**fields))
    orchard.chmod(orchard.stat().st_mode | stat.S_IXUSR)
    return use(orchard, folder, extras)


def test_a_command_that_works(tmp_path: Path) -> None:
    assert wrong(tmp_path, {"all"}) == []


def test_it_runs_without_the_settings_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORCHARD_PORT", "1")
    (why,) = wrong(tmp_path, {"all"}, doctor=1)
    assert f"[] {tmp_path}" in why
    assert os.environ["HOME"] != str(tmp_path)


@pytest.mark.parametrize(
    ("extras", "script", "why"),
    [
        ({"all"}, {"found": "problem  MLX", "doctor": 1}, "the doctor finds problems:\nproblem  MLX"),
        (set(), {"found": "ok       extra"}, "the doctor is wrong about the extras"),
        ({"all"}, {"found": "warning  extra  audio"}, "the doctor is wrong about the extras"),
        ({"all"}, {"answer": "I don't know"}, "the demo answers 'What is 17 + 25?' with "),
        ({"all"}, {"code": 3}, "it ends with 3\na line for the log"),
    ],
)
def test_what_does_not_work(extras: set[str], script: dict[str, object], why: str, tmp_path: Path) -> None:
    (found,) = wrong(tmp_path, extras, **script)
    assert found.startswith(why)
