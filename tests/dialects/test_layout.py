"""Where a newcomer finds things: each dialect's folder has its bodies, its way in and its way out."""

from pathlib import Path

import pytest

import orchard.dialects

ROOT = Path(orchard.dialects.__file__).parent
FOLDERS = sorted(file.parent for file in ROOT.rglob("schema.py"))


def test_there_are_dialects() -> None:
    names = [str(folder.relative_to(ROOT)) for folder in FOLDERS]
    openai = ("chat", "completions", "images", "realtime", "responses", "transcriptions")
    ollama = ("ollama/chat", "ollama/generate")
    assert names == ["anthropic/messages", "lmstudio/chat", *ollama, *(f"openai/{name}" for name in openai)]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_body_is_read_in_parse_and_an_answer_written_in_encode(folder: Path) -> None:
    way_in, way_out = (folder / "parse.py").read_text(), (folder / "encode.py").read_text()
    assert "\ndef parse(" in way_in
    # A realtime session has events in place of a body.
    assert ("decode_body(" if folder.name == "realtime" else "BODY.decode(") in way_in
    for word in ("def parse", "Decoder(", f"{folder.name}.parse import", f"{folder.name}.schema import"):
        assert word not in way_out
