"""The requests of a session, without a pool."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from orchard.config import Settings
from orchard.dialects.openai.realtime.schema import Transcription
from orchard.gateway.caller import ANYONE
from orchard.gateway.media.upload_folder import UploadFolder
from orchard.gateway.voice.requests import VoiceRequests


async def test_a_turn_that_is_cancelled_before_it_is_written_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def wait_for_a_thread(*_: Any) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(asyncio, "to_thread", wait_for_a_thread)
    folder = UploadFolder(tmp_path)
    made: list[tuple[int, Path]] = []
    new_file = folder.new_file

    def keep() -> tuple[int, Path]:
        made.append(new_file())
        return made[-1]

    monkeypatch.setattr(folder, "new_file", keep)
    parts: Any = (None, Settings(), None, folder)
    callers: Any = None
    requests = VoiceRequests(*parts, callers=callers, caller=ANYONE)
    monkeypatch.setattr(requests, "transcription_model", lambda name: "ears")

    async def tell(_: str) -> None:
        """Tell nobody."""

    with pytest.raises(asyncio.CancelledError):
        await requests.transcribe(b"", 24_000, Transcription(), tell)
    ((number, path),) = made
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)
    assert not path.exists()
    folder.close()
