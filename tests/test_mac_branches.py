"""Every branch that only macOS or Metal takes is taken in a test on Linux, too.

The list is made from the code. A new branch fails here until a test that takes it is named. Values of a machine in
those tests are made up ("Apple M9"), unless they say where they are from.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import mlx.core as mx
import pytest

import orchard
from orchard.backends.kernels.cpu import is_slow
from orchard.cli import doctor
from orchard.cli.verify.report import describe_machine
from orchard.device.out_of_memory import has_late_errors
from orchard.engine.step_work import estimate_step_work
from orchard.worker.probe import probe_device
from tests.support.tiny_models import network

SOURCE = Path(orchard.__file__).parent
ROOT = Path(__file__).parents[1]
SIGNS = {"darwin", "launchctl", "mac_ver", "metal", "sysctlbyname", "_has_launchd", "max_recommended_working_set_size"}

_HERE = "tests/test_mac_branches.py"
_SERVICE = "tests/cli/service/test_manage.py"
_INSTALL = "test_install_starts_the_users_configuration_and_uninstall_removes_it"
BRANCHES = {
    "backends/kernels/cpu.py is_slow": f"{_HERE}::test_no_mac_computes_with_numpy",
    "backends/vision/cost.py EncodingCost.__init__": "tests/backends/vision/test_cost.py::test_metal_keeps_no_scores",
    "cli/doctor.py _check_mlx": f"{_HERE}::test_the_doctor_finds_a_mac_without_metal",
    "cli/doctor.py _examine_all": "tests/cli/test_doctor.py::test_the_wired_limit_is_told_on_macs_only",
    # These tests run once as on Linux, and once as on macOS.
    "cli/service/manage.py _boot_out": f"{_SERVICE}::{_INSTALL}",
    "cli/service/manage.py _has_launchd": f"{_SERVICE}::test_status_says_whether_the_server_answers",
    "cli/service/manage.py _service_file": f"{_SERVICE}::{_INSTALL}",
    "cli/service/manage.py _supervisor_report": f"{_SERVICE}::test_status_says_whether_the_server_answers",
    "cli/service/manage.py install_service": f"{_SERVICE}::test_a_system_that_takes_no_service_says_why",
    "cli/service/manage.py uninstall_service": f"{_SERVICE}::test_what_is_not_installed",
    "cli/verify/report.py describe_machine": f"{_HERE}::test_a_report_names_macos",
    "device/memory.py": "tests/device/test_memory.py::test_what_a_device_recommends",
    "device/out_of_memory.py has_late_errors": f"{_HERE}::test_metal_reports_late_that_memory_ran_out",
    "engine/step_work.py estimate_step_work": f"{_HERE}::test_metal_keeps_no_scores_of_a_step",
    "system_memory.py _pressure_level": "tests/test_system_memory.py::test_the_pressure_level_of_macos",
    "system_memory.py read_system_memory": "tests/test_system_memory.py::test_the_pressure_level_of_macos",
    "worker/probe.py": f"{_HERE}::test_the_probe_finds_metal",
    "worker/probe.py probe_device": f"{_HERE}::test_the_probe_finds_metal",
}


def branches(file: Path) -> Iterator[str]:
    """Yield where a file names macOS or Metal in its code: the innermost function of each place."""

    def visit(node: ast.AST, inside: tuple[str, ...]) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            name = getattr(child, "name", "")
            words = [getattr(child, field, None) for field in ("id", "attr", "value")]
            if any(isinstance(word, str) and word in SIGNS for word in words):
                yield f"{file.relative_to(SOURCE)} {'.'.join(inside)}".strip()
            yield from visit(child, (*inside, name) if named else inside)

    yield from visit(ast.parse(file.read_text()), ())


def test_each_branch_has_a_test() -> None:
    found = {place for file in SOURCE.rglob("*.py") for place in branches(file)}
    assert found == BRANCHES.keys()


@pytest.mark.parametrize("test", sorted(set(BRANCHES.values())))
def test_the_tests_are_there(test: str) -> None:
    file, _, name = test.partition("::")
    assert f"def {name}(" in (ROOT / file).read_text()


@pytest.fixture
def metal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Mac, as far as code asks for it."""
    monkeypatch.setattr(mx, "default_device", lambda: mx.gpu)
    monkeypatch.setattr(mx.metal, "is_available", lambda: True)
    monkeypatch.setattr(sys, "platform", "darwin")


def test_no_mac_computes_with_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mx, "default_device", lambda: mx.cpu)
    assert is_slow()
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not is_slow()


@pytest.mark.usefixtures("metal")
def test_metal_reports_late_that_memory_ran_out() -> None:
    assert has_late_errors()


def test_metal_keeps_no_scores_of_a_step(request: pytest.FixtureRequest) -> None:
    model = network("qwen3")
    elsewhere = estimate_step_work(model).place
    request.getfixturevalue("metal")
    assert estimate_step_work(model).place == 1 < elsewhere


@pytest.mark.usefixtures("metal")
def test_a_report_names_macos(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.mac_ver", lambda: ("26.1", ("", "", ""), "arm64"))
    machine = describe_machine({"device": "Apple M9", "backend": "metal", "memory_bytes": 1})
    assert machine.system.startswith("macOS 26.1, ")
    assert machine.device == "Apple M9"


@pytest.mark.usefixtures("metal")
def test_the_probe_finds_metal(monkeypatch: pytest.MonkeyPatch) -> None:
    info = {"device_name": "Apple M9", "max_recommended_working_set_size": 2**34, "memory_size": 2**35}
    monkeypatch.setattr(mx, "device_info", lambda: info)
    monkeypatch.setattr("orchard.system_memory._pressure_level", lambda: 1)
    found = probe_device()
    assert (found["backend"], found["device"], found["wired_bytes"]) == ("metal", "Apple M9", 2**34)


def test_the_doctor_finds_a_mac_without_metal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    probed = {"memory_bytes": 2**34, "backend": "cpu", "device": "Apple M9", "ffmpeg": "ffmpeg"}
    assert ("warning", "Metal") in [finding[:2] for finding in doctor._check_mlx(probed)]
