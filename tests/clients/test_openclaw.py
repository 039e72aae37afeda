"""OpenClaw, an assistant, asked one thing without a terminal, with the configuration of docs/clients.md.

The demo model gets none of its tools: its prompt alone has thousands of tokens, among which the question is lost. So
the test is about the connection, the stream and the usage.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.clients.agents import ROOT, answer_of
from tests.clients.prompts import SUM

PAGE = ROOT / "docs" / "clients.md"


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
    (file := tmp_path / "openclaw.json").write_text(json.dumps(config(url, api)))
    arguments = ["agent", "exec", SUM, "--config", str(file), "--cwd", ".", "--json", "--local-model-lean"]
    answer = json.loads(answer_of("openclaw", arguments, tmp_path, {}, seconds=290))
    assert (answer["status"], answer["provider"], answer["model"]) == ("ok", "orchard", "demo")
    assert answer["final"]
    usage = answer["usage"]
    assert usage["input"] + usage["cacheRead"] > 1000
    assert usage["total"] == usage["input"] + usage["cacheRead"] + usage["output"]
    assert 0 < usage["output"] <= 100
