"""aider, a coding agent that calls no tools, asked one thing without a terminal."""

from pathlib import Path

from tests.clients.agents import answer_through_orchard
from tests.clients.prompts import SUM


def test_an_answer(keyed_url: str, tmp_path: Path) -> None:
    arguments = ["--no-git", "--chat-mode", "ask", "--yes-always", "--message", SUM]
    printed = answer_through_orchard("aider", arguments, keyed_url, tmp_path)
    assert "Model: openai/demo with ask edit format" in printed
    assert "Tokens: " in printed  # the server's count
