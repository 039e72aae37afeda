"""Continue's agent for the terminal, asked one thing, with the configuration of docs/clients.md.

It can't leave its own tools out, and the demo model may take one of them for the question's: the test is about the
connection.
"""

import os
import re
import subprocess
from pathlib import Path

from tests.clients.prompts import SUM

HERE = Path(__file__).parent
CONTINUE = HERE / "node" / "node_modules" / ".bin" / "cn"
PAGE = HERE.parents[1] / "docs" / "clients.md"


def test_an_answer(url: str, tmp_path: Path) -> None:
    assert CONTINUE.exists(), "`make test-clients` installs Continue's agent"
    (written,) = re.findall(r"`~/.continue/config.yaml`.*?```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (work := tmp_path / "work").mkdir()
    (file := tmp_path / "config.yaml").write_text(written.replace("http://127.0.0.1:8000", url))
    run = subprocess.run(
        [str(CONTINUE), "--print", SUM, "--config", str(file)],
        cwd=work,
        env=os.environ | {"HOME": str(tmp_path), "CONTINUE_TELEMETRY_ENABLED": "0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.strip()
