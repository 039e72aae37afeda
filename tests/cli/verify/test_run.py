"""The order of the checks, the time, what can't be checked, and the report."""

import asyncio
import getpass
import json
import os
import platform
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from orchard.cli.app import app
from orchard.cli.config import gather_config
from orchard.cli.verify import run
from orchard.cli.verify.checks import CHECKS
from orchard.cli.verify.proof import Check, Proof
from orchard.cli.verify.report import VerifyReport, closing_line, describe_machine, write_markdown
from orchard.cli.verify.subject import Subject
from orchard.config import Settings
from orchard.core.errors import OrchardError
from orchard.gateway.models.registry import resolve_model
from orchard.kinds import KINDS

PROBED = {"device": "Apple M9", "backend": "metal", "memory_bytes": 32 * 10**9}
DEMO = resolve_model("demo")


def check_of(name: str, **fields: Any) -> Check:
    async def see(subject: Subject) -> Proof:
        return Proof(status="ok", seen=f"{name} was seen")

    async def wait(subject: Subject) -> Proof:
        await asyncio.Event().wait()
        raise AssertionError

    return Check(name, "right", ("text",), "first", fields.get("long", False), wait if name == "endless" else see)


def proofs_of(checks: list[Check], seconds: float, monkeypatch: pytest.MonkeyPatch) -> dict[str, Proof]:
    async def is_ready(subject: Subject) -> None: ...

    monkeypatch.setattr(Subject, "wait_until_ready", is_ready)
    found: list[Proof] = []
    subject = Subject(DEMO, ["key"], long=False)
    asyncio.run(run._run_checks(subject, checks, seconds, found.append, lambda what: None))
    return {proof.check: proof for proof in found}


def test_what_takes_too_long_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = [check_of("first"), check_of("long", long=True), check_of("endless"), check_of("last")]
    proofs = proofs_of(checks, 0.2, monkeypatch)
    assert {name: proof.status for name, proof in proofs.items()} == {
        "first": "ok",
        "long": "left out",
        "endless": "left out",
        "last": "left out",
    }
    assert proofs["first"].model == "demo"
    assert "--long" in proofs["last"].seen
    assert closing_line([*proofs.values()]).endswith("left out: long (demo), endless (demo), last (demo)")


def test_each_check_has_a_name_of_its_own_and_known_kinds() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    assert {kind for check in CHECKS for kind in check.kinds} <= KINDS.keys()


def test_a_kind_without_checks_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Proof] = []
    entry = replace(DEMO, kind="image")
    run.verify_model(entry, ["right"], found.append, lambda what: None, long=False, against=None)
    assert [(proof.status, proof.seen) for proof in found] == [
        ("left out", "there are no checks for models of the kind image")
    ]


def test_a_model_that_can_not_be_loaded_is_a_problem(tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    folder.mkdir()
    for name, text in {"config.json": '{"model_type": "none"}', "tokenizer.json": "{}"}.items():
        (folder / name).write_text(text)
    (folder / "model.safetensors").write_bytes(b"")
    found: list[Proof] = []
    entry = replace(DEMO, id="broken", path=str(folder), kind="transcription")
    run.verify_model(entry, ["right"], found.append, lambda what: None, long=False, against=None)
    assert [proof.status for proof in found] == ["problem"]
    assert found[0].advice


def test_the_models_are_the_named_one_or_the_configured_or_the_bundled() -> None:
    bundled = ["demo", "demo-vision", "demo-whisper"]
    nothing = gather_config(None, (), {}, {}).settings
    assert [entry.id for entry in run.models_to_verify((), nothing)] == bundled
    vision = gather_config(None, ["demo-vision"], {}, {}).settings
    assert [entry.id for entry in run.models_to_verify((), vision)] == ["demo-vision"]
    assert [entry.id for entry in run.models_to_verify(["demo-vision"], Settings())] == ["demo-vision"]
    with pytest.raises(OrchardError, match="no model 'nonsuch'"):
        run.models_to_verify(["nonsuch"], Settings())


def test_nothing_private_is_in_the_report() -> None:
    page = write_markdown(VerifyReport(describe_machine(PROBED), [Proof(status="ok", seen="7 | 7", model="demo")]))
    assert "Apple M9, 32.0 GB of memory" in page
    assert "7 \\| 7" in page
    for private in (platform.node(), getpass.getuser(), os.getcwd(), str(Path.home())):
        assert private not in page.replace("orchard", "")


@pytest.mark.parametrize(("status", "code"), [("ok", 0), ("rounding", 0), ("left out", 0), ("problem", 1)])
def test_the_command_tells_by_its_exit_code(
    status: Any, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def verify(entry: Any, parts: Any, report: Any, begin: Any, **options: Any) -> None:
        report(Proof(status=status, seen="seen", model=entry.id, part="safe", check="memory"))

    monkeypatch.setattr(run, "verify_model", verify)
    monkeypatch.setattr(run, "probe_mlx", lambda: PROBED)
    file = tmp_path / "report.md"
    done = CliRunner().invoke(app, ["verify", "demo", "--json", "--report", str(file)])
    assert done.exit_code == code
    printed = json.loads(done.stdout)
    assert printed["machine"]["device"] == "Apple M9"
    assert printed["proofs"][0]["status"] == status
    assert f"| safe | memory | {status} | seen |" in file.read_text()
