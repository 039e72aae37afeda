"""Draw `docs/terminal.svg`, the image in the README: run its commands for real and write what they print.

`python -m tools.readme_picture` needs bash, curl and jq, and port 8000 to be free.
"""

import io
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

from rich.console import Console
from rich.text import Text

PICTURE = Path(__file__).parents[1] / "docs" / "terminal.svg"
URL = "http://127.0.0.1:8000"
SERVE = "orchard serve 2> server.log &"
COMMANDS = (
    'orchard run demo "What is Orchard?"',
    f"""curl -sN {URL}/v1/chat/completions -H 'content-type: application/json' \\
    -d '{{"model": "demo", "temperature": 0, "stream": true, "messages":
         [{{"role": "user", "content": "What is 17 + 25?"}}]}}' |
    sed -n 's/^data: {{/{{/p' | jq -c '.choices[0].delta | select(.content != "")'""",
    f"kill -9 $(curl -s {URL}/health | jq .models.demo.pid)  # the model's process",
    f"""curl -s {URL}/v1/messages -H 'content-type: application/json' \\
    -d '{{"model": "demo", "temperature": 0, "max_tokens": 50, "messages":
         [{{"role": "user", "content": "What is 17 + 25?"}}]}}' | jq -c .content""",
)
_COLUMNS = 104
_SECONDS_TO_START = 120.0


def draw(lines: list[tuple[str, str]]) -> str:
    """Return the SVG of commands and what they printed. It loads nothing, not even a font."""
    console = Console(record=True, width=_COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for command, printed in lines:
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        if printed:
            console.print(Text(printed))
    svg = console.export_svg(title="Orchard", unique_id="orchard")
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)


def run() -> list[tuple[str, str]]:
    """Run the commands against a server with the bundled model; return each with what it printed."""
    commands = Path(sys.executable).parent
    environment = os.environ | {"PATH": f"{commands}:{os.environ['PATH']}", "COLUMNS": str(_COLUMNS)}
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "log").open("w") as log:
        server = subprocess.Popen(
            [commands / "orchard", "serve"], env=environment, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True
        )
        try:
            _wait_until_ready()
            lines = [
                (command, subprocess.check_output(["/bin/bash", "-c", command], env=environment, cwd=folder, text=True))
                for command in COMMANDS
            ]
        finally:
            server.terminate()
            banner, _ = server.communicate()
    return [(command, printed.rstrip()) for command, printed in [(SERVE, banner), *lines]]


def _wait_until_ready() -> None:
    """Wait for the bundled model. Raise TimeoutError if it is not ready in time."""
    end = time.monotonic() + _SECONDS_TO_START
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"{URL}/ready", timeout=5):  # noqa: S310 - it is a constant
                return
        except (urllib.error.URLError, TimeoutError):
            time.sleep(0.2)
    raise TimeoutError(f"the server at {URL} was not ready in time")


if __name__ == "__main__":
    PICTURE.write_text(draw(run()))
