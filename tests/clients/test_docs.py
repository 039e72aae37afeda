"""The snippets of Python and JavaScript on the pages of docs/."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PAGES = sorted((HERE.parents[1] / "docs").glob("*.md"))
SNIPPETS = [
    snippet
    for page in PAGES
    for snippet in re.findall(r"^```(python|js)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
]
COMMANDS = {"python": [sys.executable, "-"], "js": ["node", "--input-type=module", "-"]}


@pytest.mark.parametrize(("language", "code"), SNIPPETS)
def test_a_snippet(url: str, language: str, code: str) -> None:
    code = code.replace("http://127.0.0.1:8000", url)
    command = COMMANDS[language]
    run = subprocess.run(command, input=code, cwd=HERE / "node", capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "42" in run.stdout or "answer=" in run.stdout
