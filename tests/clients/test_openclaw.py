"""OpenClaw, an assistant, asked one thing without a terminal, with the configuration of docs/clients.md.

The demo model gets none of its tools: its prompt alone has thousands of tokens, among which the question is lost. So
the test is about the connection, the stream and the usage.
"""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.clients.prompts import SUM

HERE = Path(__file__).parent
OPENCLAW = HERE / "node" / "node_modules" / ".bin" / "openclaw"
PAGE = HERE.parents[1] / "docs" / "clients.md"


def config(url: str, api: str) -> dict[str, Any]:
    """The page's configuration, for another server and API, with short answers and without tools."""
    (written,) = re.findall(r"`~/.openclaw/openclaw.json`.*?```json\n(.*?)```", PAGE.read_text(), re.DOTALL)
    found: dict[str, Any] = json.loads(written)
    provider = found["models"]["providers"]["orchard"]
    assert (provider["baseUrl"], provider["api"]) == ("http://127.0.0.1:8000/v1", "openai-responses")
    provider |= {"api": api, "baseUrl": url if api == "anthropic-messages" else f"{url}/v1"}
    provider["models"][0]["maxTokens"] = 100
    found["agents"]["defaults"]["skills"] = []
    return found | {"tools": {"deny": ["*"]}}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("api", ["openai-responses", "openai-completions", "anthropic-messages"])
def test_an_answer(url: str, tmp_path: Path, api: str) -> None:
    assert OPENCLAW.exists(), "`make test-clients` installs OpenClaw"
    (work := tmp_path / "work").mkdir()
    (file := tmp_path / "openclaw.json").write_text(json.dumps(config(url, api)))
    command = [str(OPENCLAW), "agent", "exec", SUM, "--config", str(file), "--cwd", str(work)]
    command += ["--json", "--local-model-lean"]
    environment = os.environ | {"HOME": str(tmp_path)}
    run = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, timeout=290, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    answer = json.loads(run.stdout)
    assert (answer["status"], answer["provider"], answer["model"]) == ("ok", "orchard", "demo")
    assert answer["final"]
    usage = answer["usage"]
    assert usage["input"] + usage["cacheRead"] > 1000
    assert usage["total"] == usage["input"] + usage["cacheRead"] + usage["output"]
    assert 0 < usage["output"] <= 100
