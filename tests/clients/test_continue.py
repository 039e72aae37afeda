"""Continue's agent for the terminal, asked one thing, with the configuration of docs/clients.md.

It can't leave its own tools out, and the demo model may take one of them for the question's: the test is about the
connection.
"""

import re
from pathlib import Path

from tests.clients.agents import ROOT, answer_of, answer_through_orchard
from tests.clients.prompts import SUM

PAGE = ROOT / "docs" / "clients.md"


def test_an_answer(url: str, tmp_path: Path) -> None:
    (written,) = re.findall(r"`~/.continue/config.yaml`.*?```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (file := tmp_path / "config.yaml").write_text(written.replace("http://127.0.0.1:8000", url))
    arguments = ["--print", SUM, "--config", str(file)]
    assert answer_of("cn", arguments, tmp_path, {"CONTINUE_TELEMETRY_ENABLED": "0"}).strip()


def test_an_answer_through_orchard(keyed_url: str, tmp_path: Path) -> None:
    assert answer_through_orchard("continue", ["--print", SUM], keyed_url, tmp_path).strip()
