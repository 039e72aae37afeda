"""Tiny random models of mflux's families, and workers that run them in the environment for images."""

import asyncio
import json
import os
import shlex
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from orchard.config import ModelSettings, Settings
from orchard.core.events import Event, Output
from orchard.core.request import Priority, Request, Task
from orchard.core.tasks.images import EditImages, GenerateImages, ImageOptions
from orchard.core.tasks.images import Image as Made
from orchard.environments.environment import IMAGES, Environment
from orchard.gateway.pool.worker_process import WorkerProcess
from orchard.gateway.replies.event_stream import EventStream
from orchard.kinds import Backend
from tests.support.serving import Server, serve

TINY = str(Path(__file__).parents[1] / "support" / "tiny_mflux.py")
_SECONDS = 120


class TinyEnvironment(Environment, frozen=True):
    """The environment for images, in which mflux's layers are narrow."""

    @property
    def command(self) -> list[str]:
        python, isolated, _ = super().command
        return [python, isolated, TINY]


BACKEND = Backend(
    "orchard.backends.images.service:ImageService",
    (GenerateImages, EditImages),
    ImageOptions,
    environment=TinyEnvironment(IMAGES.name),
)


class ImageWorker:
    """A worker's process with one model."""

    def __init__(self) -> None:
        self.process = WorkerProcess(BACKEND, Settings())
        self._changed = asyncio.Event()
        self.process.on_change = self._changed.set
        self._running = asyncio.create_task(self.process.run())
        self._count = 0

    async def until(self, *phases: str) -> None:
        async with asyncio.timeout(_SECONDS):
            while self.process.phase not in (*phases, "gone"):
                self._changed.clear()
                await self._changed.wait()
        assert self.process.phase in phases, self.process.failure

    async def load(self, folder: Path, **options: Any) -> None:
        await self.until("idle")
        self.process.load("tiny", str(folder), ImageOptions(**options))
        await self.until("ready")

    def submit(self, task: Task, priority: Priority = "normal") -> EventStream:
        self._count += 1
        stream = EventStream()
        self.process.send_request(Request(f"request-{self._count}", "tiny", task, priority), stream)
        return stream

    async def events(self, task: Task) -> list[Event]:
        stream = self.submit(task)
        events: list[Event] = []
        while not stream.ended or not events:
            events += await stream.next(_SECONDS)
        return events + await stream.next(0)

    async def images(self, task: Task) -> list[NDArray[np.uint8]]:
        """Return the pixels of all finished images."""
        outputs = [event for event in await self.events(task) if isinstance(event, Output)]
        return [pixels(output.read(Made).data) for output in outputs]

    async def close(self) -> None:
        self.process.close()
        await asyncio.wait_for(self._running, _SECONDS)


def pixels(file: bytes | Path) -> NDArray[np.uint8]:
    """Return a picture's pixels (height, width, 3)."""
    return np.asarray(Image.open(BytesIO(file) if isinstance(file, bytes) else file).convert("RGB"))


def noise(width: int, height: int, seed: int) -> Image.Image:
    """Return a picture of coloured noise in blocks of 8 pixels."""
    blocks = np.random.default_rng(seed).integers(0, 256, (height // 8, width // 8, 3), np.uint8)
    return Image.fromarray(blocks).resize((width, height), Image.Resampling.NEAREST)


def python() -> str:
    """Return the interpreter of the environment that was made for these tests."""
    with pytest.MonkeyPatch.context() as patch:  # that of a test may not be there yet
        patch.setenv("ORCHARD_CACHE_DIR", os.environ["IMAGES_CACHE_DIR"])
        return IMAGES.command[0]


@contextmanager
def serve_tiny(cache: Path, *models: ModelSettings) -> Iterator[Server]:
    """Run a server with a cache folder whose environment for images has a Python that makes mflux narrow."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ORCHARD_CACHE_DIR", str(cache))
        narrow = IMAGES.folder / "bin" / "python"
    narrow.parent.mkdir(parents=True)
    # Of the worker's command, "-I" and the path of the script are dropped.
    narrow.write_text(f'#!/bin/sh\nshift 2\nexec {shlex.quote(python())} -I {shlex.quote(TINY)} "$@"\n')
    narrow.chmod(0o700)
    with serve((), env={"ORCHARD_CACHE_DIR": str(cache)}, models=models, spare=False) as running:
        yield running


def run_tiny(*arguments: str, told: str = "") -> None:
    """Run the script in the environment."""
    done = subprocess.run(
        [python(), "-I", TINY, *arguments],
        input=told,
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
        env={"PATH": os.environ["PATH"], "HF_HUB_OFFLINE": "1"},
    )
    assert done.returncode == 0, done.stderr


def draw(order: dict[str, Any]) -> None:
    """Draw with mflux alone."""
    run_tiny("draw", told=json.dumps(order))


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other tests' folder is empty."""
    monkeypatch.setenv("ORCHARD_CACHE_DIR", os.environ["IMAGES_CACHE_DIR"])


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the folder of a tiny random model of a family, which is made when it is first asked for."""
    root = tmp_path_factory.mktemp("tiny")

    def made(family: str) -> Path:
        if not (root / family).exists():
            run_tiny("build", family, str(root / family))
        return root / family

    return made


@pytest.fixture
async def worker() -> AsyncIterator[ImageWorker]:
    made = ImageWorker()
    yield made
    await made.close()
