"""The snippets of Python and JavaScript on the pages of docs/ that ask a bundled model."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SNIPPETS = [
    pytest.param(language, code, id=f"{page.stem}-{number}")
    for page in sorted((ROOT / "docs").glob("*.md"))
    for number, (language, code) in enumerate(
        re.findall(r"^```(python|js)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    )
    if re.search(r'["/]demo["-]', code)  # other models are not here
]
COMMANDS = {"python": [sys.executable, "-"], "js": ["node", "--input-type=module", "-"]}
FOLDERS = {"python": ROOT, "js": HERE / "node"}
ANSWERS = ("42", "answer=", "telephone")


@pytest.mark.parametrize(("language", "code"), SNIPPETS)
def test_a_snippet(url: str, language: str, code: str) -> None:
    code = code.replace("http://127.0.0.1:8000", url)
    run = subprocess.run(
        COMMANDS[language], input=code, cwd=FOLDERS[language], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert any(answer in run.stdout for answer in ANSWERS)
