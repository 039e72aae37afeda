"""Faults that are planted into a model's process are found, and named."""

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from orchard.cli.own_server import start_server
from orchard.cli.verify.checks import CALLERS, CHECKS
from orchard.cli.verify.media import PICTURES
from orchard.cli.verify.proof import Proof
from orchard.cli.verify.right import ANSWER_TOKENS
from orchard.cli.verify.subject import Bare, Subject
from orchard.cli.verify.texts import CHATS
from orchard.demo import VISION_MODEL_PATH
from orchard.gateway.models.registry import resolve_model
from tests.support.examples import is_deep

# The first test waits until two processes have loaded the model, on machines that may do other things.
pytestmark = pytest.mark.timeout(300)

SICK = ("company", "images", "leak")
"""The checks that a fault makes fail."""
OTHERS = ("library loop", "cache", "schema", "image library")

# In each process of the server: the fault whose name is in the file takes effect at once.
FAULTY = """
import os, sys
from importlib.machinery import PathFinder

def fault():
    with open(os.environ["FAULT_FILE"]) as file:
        return file.read()

def plant_mask(module):
    import mlx.core as mx
    right = module.Lengths.mask
    def mask(self, *args, **named):
        made = right(self, *args, **named)
        wrong = fault() == "mask" and made is not None and len(self.values) > 3  # calibration tries three rows
        return mx.roll(made, -1, axis=-1) if wrong else made
    module.Lengths.mask = mask

def plant_rows(module):
    import mlx.core as mx
    right, kept = module.Sampler.add, []
    def add(self, *args, **named):
        right(self, *args, **named)
        if fault() == "seed" and len(self._rows) > 1:
            self._rows[-1].seed = self._rows[-2].seed
        if fault() == "leak":
            kept.append(mx.zeros((2**22,), mx.uint8))
            mx.eval(kept[-1])
    module.Sampler.add = add

def plant_image(module):
    right = module.hashlib
    class Hash:
        def __init__(self, data):
            self._hash = right.sha256(data if fault() != "image" else b"")
        def update(self, data):
            if fault() != "image":
                self._hash.update(data)
        def digest(self):
            return self._hash.digest()
    class hashlib:
        sha256 = Hash
    module.hashlib = hashlib

PLANTS = {
    "orchard.engine.batching.batched_cache": plant_mask,
    "orchard.engine.sampling.sampler": plant_rows,
    "orchard.backends.vision.inputs": plant_image,
}

class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        spec = super().find_spec(name, path, target)
        if spec and name in PLANTS:
            run = spec.loader.exec_module
            def exec_module(module):
                run(module)
                PLANTS[name](module)
            spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Finder)
"""


class Patient:
    """A subject whose process has the faults that are asked for."""

    def __init__(self, subject: Subject, file: Path) -> None:
        self._subject = subject
        self._file = file

    def check(self, name: str, fault: str = "") -> Proof:
        """Run a check while a fault is there."""
        self._file.write_text(fault)
        try:
            return asyncio.run(self._run(name))
        finally:
            self._file.write_text("")

    def change_callers(self) -> None:
        """Let others ask, whose caches are empty."""
        self._subject.keys = self._subject.keys[CALLERS:]

    async def _run(self, name: str) -> Proof:
        return await next(check for check in CHECKS if check.name == name).run(self._subject)


def made_up_bare() -> Bare:
    """Return what the library's loop could say: to load and to run it takes longer than all else here."""
    tokenizer = Tokenizer.from_file(str(VISION_MODEL_PATH / "tokenizer.json"))
    prompts = [tokenizer.encode(chat[0]["content"]).ids for chat in CHATS[:3]]
    return Bare(prompts, [], 0.16, 2.7, [], 0.0, 1, 1.0, list(PICTURES))


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Patient]:
    folder = tmp_path_factory.mktemp("faulty")
    (folder / "sitecustomize.py").write_text(FAULTY)
    (folder / "fault").write_text("")
    subject = Subject(resolve_model("demo-vision"), [f"key-{number}" for number in range(2 * CALLERS)], long=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("orchard.cli.verify.subject.CHATS", CHATS[:3])  # the longest prompt takes most of the time
        patch.setattr("orchard.cli.verify.memory._REQUESTS", 4)
        subject.bare = subject.run_bare(0, 0, ANSWER_TOKENS, None) if is_deep() else made_up_bare()
        assert subject.bare, subject.why_not_bare
        patch.setenv("PYTHONPATH", os.pathsep.join([str(folder), *sys.path]))
        patch.setenv("FAULT_FILE", str(folder / "fault"))
        options = ["--keys-may-manage-models", "--speculation", "off"]
        with start_server("demo-vision", options, subject.keys) as client:
            subject.url = client.url
            asyncio.run(subject.wait_until_ready())
            yield Patient(subject, folder / "fault")


@pytest.mark.parametrize("name", [*SICK, *(OTHERS if is_deep() else ())])
def test_without_a_fault_nothing_is_found(patient: Patient, name: str) -> None:
    assert patient.check(name).status in ("ok", "rounding")


@pytest.mark.parametrize(
    ("name", "fault", "expected"),
    [
        ("company", "mask", "rounding explains"),
        ("company", "seed", "a request uses the seed of its neighbour"),
        ("leak", "leak", "the worker leaks: each of 12 requests leaves"),
    ],
)
def test_a_fault_is_found_and_named(patient: Patient, name: str, fault: str, expected: str) -> None:
    proof = patient.check(name, fault)
    assert proof.status == "problem"
    assert expected in proof.seen
    assert proof.advice.startswith(("--", "a --"))


def test_answers_about_another_image_are_found(patient: Patient) -> None:
    patient.change_callers()
    proof = patient.check("images", "image")
    assert proof.status == "problem"
    assert "the cache mistakes one image for another" in proof.seen
    assert proof.advice.startswith("--prompt-cache-bytes 0")
