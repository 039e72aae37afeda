"""Install a distribution into an empty environment, and use it as a new user would."""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import httpx

_SECONDS = 180.0
_QUESTION, _ANSWER = "What is 17 + 25?", "42"


def try_out(uv: Path, package: Path, extra: str | None) -> list[str]:
    """Install a wheel or an sdist, with an extra or without; say what doesn't work then."""
    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder) / "environment"
        what = f"{package}[{extra}]" if extra else str(package)
        subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, environment], check=True)
        python = environment / "bin" / "python"
        subprocess.run([uv, "pip", "install", "--quiet", "--python", python, what], check=True)
        wrong = use(environment / "bin" / "orchard", Path(folder), {extra} if extra else set())
    return [f"{package.name} {f'with {extra}' if extra else 'without extras'}: {why}" for why in wrong]


def use(orchard: Path, home: Path, extras: set[str]) -> list[str]:
    """Say what of a command `orchard` doesn't work. `home` is an empty folder for what it keeps."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ORCHARD_", "HF_", "PYTHON"))}
    variables = kept | {"HOME": str(home), "NO_COLOR": "1", "COLUMNS": "200"}
    said = subprocess.run(
        [orchard, "doctor", "--port", "0"], env=variables, cwd=home, capture_output=True, text=True, check=False
    )
    if said.returncode:
        return [f"the doctor finds problems:\n{said.stdout}{said.stderr}"]
    wrong = []
    if ("warning  extra" in said.stdout) is ("all" in extras):
        wrong.append(f"the doctor is wrong about the extras:\n{said.stdout}")
    return wrong + _serve(orchard, home, variables)


def _serve(orchard: Path, home: Path, variables: Mapping[str, str]) -> list[str]:
    command = [str(orchard), "serve", "demo", "--port", "0"]
    with (
        (home / "log").open("w+") as log,
        subprocess.Popen(command, env=variables, cwd=home, stdout=subprocess.PIPE, stderr=log, text=True) as server,
    ):
        try:
            assert server.stdout
            address = re.search(r"http://\S+:\d+", server.stdout.readline())
            wrong = _ask(address[0]) if address else "it doesn't say where it listens"
        finally:
            server.terminate()
            server.communicate(timeout=_SECONDS)
        wrong = wrong or (f"it ends with {server.returncode}" if server.returncode else "")
        return [f"{wrong}\n{(home / 'log').read_text()}"] if wrong else []


def _ask(url: str) -> str:
    deadline = time.monotonic() + _SECONDS
    with httpx.Client(base_url=url, timeout=_SECONDS) as client:
        while client.get("/ready").status_code != 200:
            if time.monotonic() > deadline:
                return f"the demo is not ready after {_SECONDS:g} seconds"
            time.sleep(0.1)
        body = {"model": "demo", "temperature": 0, "messages": [{"role": "user", "content": _QUESTION}]}
        answer = client.post("/v1/chat/completions", json=body)
        if answer.status_code != 200 or _ANSWER not in answer.json()["choices"][0]["message"]["content"]:
            return f"the demo answers {_QUESTION!r} with {answer.text}"
    return ""
