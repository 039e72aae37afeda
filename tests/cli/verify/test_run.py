"""The order of the checks, the time, what can't be checked, and the report."""

import asyncio
import errno
import getpass
import json
import os
import platform
import signal
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from typer.testing import CliRunner

from orchard.cli.app import app
from orchard.cli.config import gather_config
from orchard.cli.endpoint import ChatClient
from orchard.cli.verify import other_kinds, right, run
from orchard.cli.verify.checks import CHECKS
from orchard.cli.verify.proof import Check, Proof
from orchard.cli.verify.report import VerifyReport, closing_line, describe_machine, write_markdown
from orchard.cli.verify.subject import Bare, Subject
from orchard.config import ModelSettings, Settings
from orchard.core.errors import OrchardError
from orchard.core.tasks.text_options import SamplingDefaults, TextOptions
from orchard.gateway.models.registry import resolve_model
from orchard.kinds import KINDS

PROBED = {"device": "Apple M9", "backend": "metal", "memory_bytes": 32 * 10**9, "available_bytes": 16 * 10**9}
DEMO = run.Candidate(resolve_model("demo"), ModelSettings(model_path="demo"))


def check_of(name: str, **fields: Any) -> Check:
    async def see(subject: Subject) -> Proof:
        return Proof(status="ok", seen=f"{name} was seen")

    async def fail(subject: Subject) -> Proof:
        raise KeyError(name)

    async def wait(subject: Subject) -> Proof:
        await asyncio.Event().wait()
        raise AssertionError

    ways = {"endless": wait, "broken": fail}
    return Check(name, "right", ("text",), "first", fields.get("long", False), ways.get(name, see))


def proofs_of(checks: list[Check], seconds: float, monkeypatch: pytest.MonkeyPatch) -> dict[str, Proof]:
    async def is_ready(subject: Subject) -> None: ...

    monkeypatch.setattr(Subject, "wait_until_ready", is_ready)
    found: list[Proof] = []
    subject = Subject(DEMO.entry, ["key"], long=False)
    asyncio.run(run._run_checks(subject, checks, seconds, found.append, lambda what: None))
    return {proof.check: proof for proof in found}


def test_what_takes_too_long_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    checks = [check_of(name, long=name == "long") for name in ("first", "long", "broken", "endless", "last")]
    proofs = proofs_of(checks, 0.2, monkeypatch)
    assert {name: proof.status for name, proof in proofs.items()} == {
        "first": "ok",
        "long": "left out",
        "broken": "problem",
        "endless": "left out",
        "last": "left out",
    }
    assert proofs["first"].model == "demo"
    assert "--long" in proofs["last"].seen
    assert closing_line([*proofs.values()]).endswith("left out: long (demo), endless (demo), last (demo)")


def test_each_check_has_a_name_of_its_own_and_known_kinds() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    assert {kind for check in CHECKS for kind in check.kinds} <= KINDS.keys()


def test_a_kind_without_checks_is_said() -> None:
    found: list[Proof] = []
    other = DEMO._replace(entry=replace(DEMO.entry, kind="fake"))
    run.verify_model(other, ["right"], found.append, lambda what: None, long=False)
    assert [(proof.status, proof.seen) for proof in found] == [
        ("left out", "there are no checks for models of the kind fake")
    ]


def test_a_model_that_can_not_be_loaded_is_a_problem(tmp_path: Path) -> None:
    folder = tmp_path / "broken"
    folder.mkdir()
    for name, text in {"config.json": '{"model_type": "none"}', "tokenizer.json": "{}"}.items():
        (folder / name).write_text(text)
    (folder / "model.safetensors").write_bytes(b"")
    found: list[Proof] = []
    entry = replace(DEMO.entry, id="broken", path=str(folder), kind="transcription")
    run.verify_model(
        run.Candidate(entry, ModelSettings(model_path=str(folder))),
        ["right"],
        found.append,
        lambda what: None,
        long=False,
    )
    assert [proof.status for proof in found] == ["problem"]
    assert found[0].advice


def test_a_server_that_ends_while_it_loads_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "start_server", lambda *_: nullcontext(ChatClient("http://127.0.0.1:9")))
    monkeypatch.setattr(Subject, "run_bare", lambda *_: None)
    found: list[Proof] = []
    run.verify_model(DEMO, ["right"], found.append, lambda what: None, long=False)
    assert [(proof.status, "it ended (ConnectError)" in proof.seen) for proof in found] == [("problem", True)]


def test_the_models_are_the_named_one_or_the_configured_or_the_bundled() -> None:
    bundled = ["demo", "demo-vision", "demo-whisper"]
    nothing = gather_config(None, (), {}, {}).settings
    assert [one.entry.id for one in run.models_to_verify((), nothing)] == bundled
    vision = gather_config(None, ["demo-vision"], {}, {}).settings
    assert [one.entry.id for one in run.models_to_verify((), vision)] == ["demo-vision"]
    assert [one.entry.id for one in run.models_to_verify(["demo-vision"], Settings())] == ["demo-vision"]
    with pytest.raises(OrchardError, match="no model 'nonsuch'"):
        run.models_to_verify(["nonsuch"], Settings())


def test_a_model_is_verified_with_its_settings(tmp_path: Path) -> None:
    file = tmp_path / "orchard.yaml"
    file.write_text(
        "server: {memory_limit: 4GB, kv_bits: 8}\n"
        "models: [{model_path: demo, served_model_name: mine, aliases: [other], decode_concurrency: 3}]"
    )
    settings = gather_config(file, (), {}, {}).settings
    for names in ((), ["mine"], ["other"]):
        (one,) = run.models_to_verify(names, settings)
        assert (one.entry.id, one.settings.text.decode_concurrency, one.memory_limit) == ("mine", 3, 4 * 10**9)
        assert Subject(one.entry, ["key"], long=False).settings_apart() == ["kv_bits"]
    (plain,) = run.models_to_verify(["demo"], settings)  # what all models have in common
    assert (plain.entry.id, plain.settings.text.kv_bits, plain.settings.text.decode_concurrency) == ("demo", 8, 64)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["demo", "--report", "/none/report.md"], "can't be written"),
        (["demo", "--against", "http://127.0.0.1:9"], "no server answers"),
        (["demo", "--against", "http://127.0.0.1:9", "--against-model", "x"], "no server answers"),
        (["demo", "--against-model", "x"], "--against and --against-model compare the speed"),
        (["demo", "--remember"], "--remember needs a configuration file"),
        (["demo-whisper", "--against", "http://127.0.0.1:9"], "--against and --against-model compare the speed"),
    ],
)
def test_what_can_not_work_is_said_before_the_checks(
    arguments: list[str], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "probe_mlx", lambda: PROBED)
    monkeypatch.setattr(run, "verify_model", lambda *_, **__: pytest.fail("it began"))
    assert told in str(CliRunner().invoke(app, ["verify", *arguments]).exception)


def test_the_own_loop_of_the_library_has_a_limit_of_time() -> None:
    subject = Subject(DEMO.entry, ["key"], long=False)
    assert subject.run_bare(1, 1, 1, 0.01) is None
    assert "--long" in subject.why_not_bare


def test_answers_that_a_setting_changes_are_not_compared_with_the_library() -> None:
    entry = replace(DEMO.entry, options=TextOptions(kv_bits=4, defaults=SamplingDefaults(repetition_penalty=1.5)))
    subject = Subject(entry, ["key"], long=False)
    subject.bare = Bare([], [], 0.0, 1.0, [], 0.0, 1, 1.0, ["a"])

    async def prove() -> list[Proof]:
        return [await right.check_library(subject), await other_kinds.check_image_library(subject)]

    for proof in asyncio.run(prove()):
        assert (proof.status, proof.seen.endswith("kv_bits, repetition_penalty")) == ("left out", True)


def test_nothing_private_is_in_the_report() -> None:
    page = write_markdown(VerifyReport(describe_machine(PROBED), [Proof(status="ok", seen="7 | 7", model="demo")]))
    assert "Apple M9, 32.0 GB of memory" in page
    assert "7 \\| 7" in page
    for private in (platform.node(), getpass.getuser(), os.getcwd(), str(Path.home())):
        assert private not in page.replace("orchard", "")


@pytest.mark.parametrize(("status", "code"), [("ok", 0), ("rounding", 0), ("left out", 1), ("problem", 1)])
def test_the_command_tells_by_its_exit_code(
    status: Any, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def verify(candidate: Any, parts: Any, report: Any, begin: Any, **options: Any) -> None:
        assert not file.exists(), "a report is one of checks that have ended"
        report(Proof(status=status, seen="seen", model=candidate.entry.id, part="safe", check="memory"))

    monkeypatch.setattr(run, "verify_model", verify)
    monkeypatch.setattr(run, "probe_mlx", lambda: PROBED)
    file = tmp_path / "report.md"
    done = CliRunner().invoke(app, ["verify", "demo", "--json", "--report", str(file)])
    assert done.exit_code == code
    printed = json.loads(done.stdout)
    assert printed["machine"]["device"] == "Apple M9"
    assert printed["proofs"][0]["status"] == status
    assert f"| safe | memory | {status} | seen |" in file.read_text()


def fake_verify(monkeypatch: pytest.MonkeyPatch, verify: Callable[[], Proof]) -> None:
    """Let `verify` make the only proof."""

    def run_checks(candidate: Any, parts: Any, report: Any, begin: Any, **options: Any) -> None:
        report(replace(verify(), model=candidate.entry.id))

    monkeypatch.setattr(run, "verify_model", run_checks)
    monkeypatch.setattr(run, "probe_mlx", lambda: PROBED)


def test_the_page_is_written_though_nobody_reads_what_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    fake_verify(monkeypatch, lambda: Proof(status="ok", seen="seen"))
    monkeypatch.setattr("typer.echo", refuse)
    assert CliRunner().invoke(app, ["verify", "demo", "--json", "--report", str(tmp_path / "report.md")]).exit_code == 1
    assert "seen" in (tmp_path / "report.md").read_text()


def test_what_was_found_is_printed_though_the_page_can_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "report.md"

    def verify() -> Proof:
        file.mkdir()  # meanwhile
        return Proof(status="ok", seen="seen")

    fake_verify(monkeypatch, verify)
    done = CliRunner().invoke(app, ["verify", "demo", "--json", "--report", str(file)])
    assert "can't be written: Is a directory" in str(done.exception)
    assert json.loads(done.stdout)["proofs"][0]["seen"] == "seen"


def test_a_disk_without_space_is_a_problem_and_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def verify() -> Proof:
        raise OSError(errno.ENOSPC, "No space left on device")

    fake_verify(monkeypatch, verify)
    done = CliRunner().invoke(app, ["verify", "demo", "--json"])
    (proof,) = json.loads(done.stdout)["proofs"]
    assert (done.exit_code, proof["status"], proof["model"]) == (1, "problem", "demo")
    assert "No space left on device" in proof["seen"]
    assert "TMPDIR" in proof["advice"]


def test_no_path_is_in_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as those in the messages of the libraries."""
    seen = "the library's own loop does not run: No safetensors found in /Users/ann/My-Models/qwen; 9.5 tokens/s"
    fake_verify(monkeypatch, lambda: Proof(status="left out", seen=seen))
    done = CliRunner().invoke(app, ["verify", "demo", "--json", "--report", str(tmp_path / "report.md")])
    for text in (done.stdout, (tmp_path / "report.md").read_text()):
        assert "No safetensors found in qwen; 9.5 tokens/s" in text
        assert "ann" not in text


def test_what_it_has_started_ends_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the library's own loop, which is no server."""

    def verify() -> Proof:
        for number in (signal.SIGTERM, signal.SIGHUP):
            assert signal.getsignal(number) is not signal.SIG_DFL
        signal.raise_signal(signal.SIGTERM)
        raise AssertionError

    fake_verify(monkeypatch, verify)
    assert CliRunner().invoke(app, ["verify", "demo"]).exit_code == 128 + signal.SIGTERM


def test_what_to_set_is_remembered_for_the_model_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def verify(candidate: Any, parts: Any, report: Any, begin: Any, **options: Any) -> None:
        wrong = (
            right._NO_GUESSES.problem("they differ") if candidate.entry.id == "mine" else Proof(status="ok", seen="")
        )
        report(replace(wrong, model=candidate.entry.id))

    monkeypatch.setattr(run, "verify_model", verify)
    monkeypatch.setattr(run, "probe_mlx", lambda: PROBED)
    file = tmp_path / "orchard.yaml"
    text = "models:\n- model_path: demo  # as before\n- model_path: demo\n  served_model_name: mine\n"
    file.write_text(text)
    arguments = ["verify", "--config", str(file)]
    CliRunner().invoke(app, arguments)
    assert file.read_text() == text
    done = CliRunner().invoke(app, [*arguments, "--remember"])
    assert "mine now has in " in done.output
    assert "# as before" in file.read_text()
    plain, mine = gather_config(file, (), {}, {}).settings.models
    assert (plain.text.speculation, mine.text.speculation) == ("auto", "off")
    stranger = CliRunner().invoke(app, [*arguments, "--remember", "demo-vision"])
    assert "it has no entry for 'demo-vision'" in str(stranger.exception)
