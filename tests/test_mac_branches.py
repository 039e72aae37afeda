"""Every branch that only macOS or Metal takes is taken in a test on Linux, too.

The list is made from the code: where it asks for macOS or Linux, Metal or a GPU, and where it uses what only Linux has.
A new branch fails here until a test that takes it as a Mac does is named. Values of a machine in those tests are made
up ("Apple M9"), unless they say where they are from.
"""

import ast
import io
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import pytest

import orchard
from orchard import wire
from orchard.backends import helper_process
from orchard.backends.kernels.cpu import is_slow
from orchard.backends.ranks.launch import _local_gpus
from orchard.backends.ranks.parallel import choose_backend
from orchard.cli import doctor
from orchard.cli.verify.report import describe_machine
from orchard.cluster.hostfile import ClusterHost, Hostfile
from orchard.core.errors import OrchardError
from orchard.core.tasks.text_options import TextOptions
from orchard.device.out_of_memory import has_late_errors
from orchard.engine import calibration, start, step_work
from orchard.engine.batching.model import on_cuda
from orchard.engine.step_work import estimate_step_work
from orchard.gateway.http.server import _connection_limit
from orchard.gateway.models import hub_search
from orchard.worker import main as worker_main
from orchard.worker.main import Worker
from orchard.worker.probe import probe_device
from tests.support.tiny_models import network

SOURCE = Path(orchard.__file__).parent
ROOT = Path(__file__).parents[1]
SIGNS = {
    "CDLL",
    "Darwin",
    "Linux",
    "darwin",
    "default_device",
    "launchctl",
    "linux",
    "mac_ver",
    "max_recommended_working_set_size",
    "metal",
    "sysctlbyname",
    "uname",
    "_has_launchd",
    "RLIMIT_AS",
    "RLIMIT_NOFILE",
    "TCP_NOTSENT_LOWAT",
}

_HERE = "tests/test_mac_branches.py"
_SERVICE = "tests/cli/service/test_manage.py"
_INSTALL = "test_install_starts_the_users_configuration_and_uninstall_removes_it"
# https://github.com/ml-explore/mlx/pull/1060
M2_ULTRA = {
    "max_recommended_working_set_size": 188743680000,
    "max_buffer_length": 115964116992,
    "architecture": "applegpu_g14d",
}
BRANCHES = {
    "backends/embeddings/service.py BatchService._fits": (
        "tests/backends/embeddings/test_service.py::test_a_gpu_reads_more_texts_in_a_pass"
    ),
    "backends/helper_process.py main": f"{_HERE}::test_a_helper_runs_without_a_limit_of_memory",
    "backends/ranks/launch.py RankLauncher.memory_shares": (
        "tests/backends/text/test_service_options.py::test_ranks_share_the_memory_of_one_machine_unless_each_has_a_gpu"
    ),
    "backends/ranks/launch.py _local_gpus": f"{_HERE}::test_ranks_share_no_gpu",
    "backends/ranks/parallel.py choose_backend": f"{_HERE}::test_ranks_share_no_gpu",
    "device/memory.py processor": "tests/device/test_memory.py::test_what_models_compute_with",
    "device/memory.py recommended_bytes": "tests/device/test_memory.py::test_what_a_device_recommends",
    "engine/batching/model.py on_cuda": f"{_HERE}::test_metal_is_not_cuda",
    "engine/calibration.py _prefill_seconds": f"{_HERE}::test_a_gpu_is_timed_at_least_twice",
    "engine/calibration.py calibration_key": f"{_HERE}::test_what_is_measured_on_a_mac_has_a_name_of_its_own",
    "engine/calibration.py gains_from_batched_prefill": (
        "tests/engine/test_calibration.py::test_several_prompts_share_a_pass_where_a_gpu_gains_from_it"
    ),
    "engine/start.py _rehearsals": f"{_HERE}::test_metal_rehearses_few_guesses",
    "engine/start.py has_kept_kernels": f"{_HERE}::test_a_gpu_is_warmed_up_with_long_prompts",
    "engine/start.py warm_up_every_way": f"{_HERE}::test_a_gpu_is_warmed_up_with_long_prompts",
    "engine/step_work.py measure_step_work": f"{_HERE}::test_the_work_of_a_step_is_measured_with_long_chunks",
    "gateway/crash_reason.py count_oom_kills": (
        "tests/gateway/test_crash_reason.py::test_a_system_that_does_not_count_them"
    ),
    "gateway/http/connection.py Connection.connection_made": (
        "tests/gateway/http/test_connection.py::test_a_client_that_left_before_its_connection_was_set_up"
    ),
    "gateway/http/server.py _connection_limit": f"{_HERE}::test_few_open_files_are_few_connections",
    "gateway/models/hub_search.py main": f"{_HERE}::test_a_search_runs_without_a_limit_of_memory",
    "worker/main.py Worker._unload": f"{_HERE}::test_memory_is_trimmed_on_linux_only",
    "worker/main.py main": f"{_HERE}::test_a_worker_starts_without_linux_files",
    "worker/memory_taker.py main": (
        "tests/worker/test_memory_taker.py::test_the_process_says_what_it_holds_and_ends_with_its_input"
    ),
    "backends/kernels/cpu.py is_slow": f"{_HERE}::test_no_mac_computes_with_numpy",
    "backends/vision/cost.py _attention_seconds": "tests/backends/vision/test_cost.py::test_a_gpu_is_never_too_slow",
    "backends/vision/cost.py EncodingCost.__init__": "tests/backends/vision/test_cost.py::test_metal_keeps_no_scores",
    "cli/doctor.py _check_mlx": f"{_HERE}::test_the_doctor_finds_a_mac_without_metal",
    "cli/doctor.py _examine_all": "tests/cli/test_doctor.py::test_the_wired_limit_is_told_on_macs_only",
    "cli/serve.py raise_file_limit": "tests/cli/test_serve.py::test_the_limit_of_open_files_on_macs",
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

_KERNELS = "tests/backends/kernels"
_START = "tests/engine/test_start.py"
_JOINED = f"{_KERNELS}/test_fused.py::test_the_same_comes_out"
_PRODUCTS = f"{_KERNELS}/test_quantized.py::test_where_mlxs_products_are_fast_nothing_changes"
METAL_PATHS = {
    "backends/audio/whisper.py load_whisper": (
        "weights in half precision",
        "tests/backends/audio/test_whisper.py::test_weights_are_as_small_as_the_device_is_fast_with_them",
    ),
    "backends/audio/whisper_cpu.py adapt_whisper": (
        "the library's layers",
        "tests/backends/audio/test_whisper_cpu.py::test_where_mlx_is_fast_nothing_changes",
    ),
    "backends/bare/transcription.py transcribe_recordings": (
        "the weights' own type",
        "tests/backends/bare/test_transcription.py::test_a_slow_cpu_hears_in_float32",
    ),
    "backends/kernels/cpu.py use_numpy": (
        "the library's layers",
        f"{_KERNELS}/test_cpu.py::test_layers_of_other_types_stay",
    ),
    "backends/kernels/cpu.py widen_to_float32": (
        "the weights' own type",
        f"{_KERNELS}/test_cpu.py::test_a_quantised_network_computes_in_float32",
    ),
    "backends/kernels/gated_delta.py install_kernels": (
        "the library's kernels for Metal",
        f"{_KERNELS}/test_gated_delta.py::test_elsewhere_nothing_is_replaced",
    ),
    "backends/kernels/quantized.py _FastEmbedding.__call__": ("MLX's layers, so it is not there", _PRODUCTS),
    "backends/kernels/quantized.py _can_use_few_rows": ("MLX's product of joined layers", _JOINED),
    "backends/kernels/quantized.py _is_faster": ("MLX's product of joined layers", _JOINED),
    "backends/kernels/quantized.py quantized_product": ("MLX's layers, so it is not called", _PRODUCTS),
    "backends/model_folder.py load_folder": (
        "MLX's attention to prompts",
        "tests/engine/batching/test_attention.py::test_a_kernel_for_prompts_is_used_where_it_gains",
    ),
    "backends/ranks/parallel.py choose_backend": ("ring or jaccl", f"{_HERE}::test_ranks_share_no_gpu"),
    "device/kernel_folder.py keep_kernels": (
        "nothing: MLX compiles no kernels into files",
        "tests/device/test_kernel_folder.py::test_without_cuda_nothing_is_set",
    ),
    "engine/batching/attention.py _attend_group": (
        "MLX's attention, and products with packed keys",
        "tests/engine/batching/test_attention.py::test_packed_keys_are_multiplied_for_one_token_and_never_on_cuda",
    ),
    "engine/batching/batched_cache.py select_states": (
        "MLX's operations",
        "tests/engine/batching/test_batched_cache.py::test_a_state_is_the_one_behind_the_kept_tokens",
    ),
    "engine/batching/kv_cache.py restore_cache": (
        "a copy for each piece and layer",
        "tests/engine/batching/test_kv_cache.py::test_parts_of_a_piece",
    ),
    "engine/batching/layer_views.py AttentionView.make_mask": (
        "a mask for each group of rows",
        "tests/engine/batching/test_batch.py::test_rows_come_and_go",
    ),
    "engine/batching/model.py on_cuda": ("no", f"{_HERE}::test_metal_is_not_cuda"),
    "engine/drafting/make_drafter.py _draft_batch": (
        "passes as wide as their rows, which are not traced",
        f"{_START}::test_a_draft_shares_the_memory_and_the_cached_prompts",
    ),
    "engine/sampling/sampler.py DrawsAhead.read": (
        "waiting for the tokens alone",
        "tests/engine/sampling/test_sampler.py::test_draws_are_launched_ahead_and_feed_each_other",
    ),
    "engine/start.py _Start.runner": (
        "passes as wide as their rows, which are not traced",
        f"{_START}::test_a_new_model_answers_before_and_while_it_is_calibrated",
    ),
    "engine/start.py _Start.warm_up": (
        "no traced pass over a prompt's end",
        "tests/engine/batching/test_prefill_together.py::test_the_sizes_that_are_tried_beforehand",
    ),
    "engine/start.py _rehearsals": ("fewer guesses for a row alone", f"{_HERE}::test_metal_rehearses_few_guesses"),
    "engine/start.py make_runner": ("guesses by the costs of steps", f"{_START}::test_the_runner_that_it_makes"),
    "engine/start.py warm_up_verifying": ("two steps", f"{_START}::test_passes_that_verify_are_warm"),
    "worker/probe.py": ("metal", f"{_HERE}::test_the_probe_finds_metal"),
}
"""What Metal does where CUDA or a CPU has a kernel or a way of its own, and the test that takes this path on a CPU."""


def own_ways(file: Path) -> Iterator[str]:
    """Yield the functions of a file that ask for CUDA, or for a CPU that is slow."""

    def visit(node: ast.AST, inside: tuple[str, ...]) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            called = child.func if isinstance(child, ast.Call) else None
            asks = getattr(called, "id", getattr(called, "attr", "")) in ("on_cuda", "is_slow")
            if asks or getattr(child, "attr", "") == "cuda":
                yield f"{file.relative_to(SOURCE)} {'.'.join(inside)}".strip()
            named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            yield from visit(child, (*inside, getattr(child, "name", "")) if named else inside)

    yield from visit(ast.parse(file.read_text()), ())


def branches(file: Path) -> Iterator[str]:
    """Yield where a file names macOS or Metal in its code: the innermost function of each place."""

    def visit(node: ast.AST, inside: tuple[str, ...]) -> Iterator[str]:
        for child in ast.iter_child_nodes(node):
            named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            name = getattr(child, "name", "")
            words = [getattr(child, field, None) for field in ("id", "attr", "value")]
            is_gpu = isinstance(child, ast.Attribute) and child.attr == "gpu"
            if is_gpu or any(isinstance(word, str) and (word in SIGNS or word.startswith("/proc/")) for word in words):
                yield f"{file.relative_to(SOURCE)} {'.'.join(inside)}".strip()
            yield from visit(child, (*inside, name) if named else inside)

    yield from visit(ast.parse(file.read_text()), ())


@pytest.mark.parametrize(
    ("asked", "find"),
    [
        ('sys.platform == "darwin"', branches),
        ('sys.platform != "linux"', branches),
        ('platform.system() == "Darwin"', branches),
        ('os.uname().sysname == "Darwin"', branches),
        ("platform.mac_ver()[0]", branches),
        ("mx.metal.is_available()", branches),
        ("mx.default_device() != mx.cpu", branches),
        ("mx.default_device().type == mx.gpu", branches),
        ('Path("/proc/self/status").read_text()', branches),
        ("resource.setrlimit(resource.RLIMIT_NOFILE, most)", branches),
        ("on_cuda()", own_ways),
        ("cpu.is_slow()", own_ways),
        ("mx.cuda.is_available()", own_ways),
    ],
)
def test_a_new_branch_is_seen(asked: str, find: Callable[[Path], Iterator[str]], source: Path) -> None:
    (source / "new.py").write_text(f"class Server:\n    def start(self):\n        if {asked}:\n            stop()\n")
    assert set(find(source / "new.py")) == {"new.py Server.start"}


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of sources in the place of Orchard's."""
    monkeypatch.setitem(globals(), "SOURCE", tmp_path)
    return tmp_path


def test_each_branch_has_a_test() -> None:
    found = {place for file in SOURCE.rglob("*.py") for place in branches(file)}
    assert found == BRANCHES.keys()


def test_each_kernel_has_a_path_for_metal() -> None:
    assert {place for file in SOURCE.rglob("*.py") for place in own_ways(file)} == METAL_PATHS.keys()


@pytest.mark.parametrize("test", sorted({*BRANCHES.values(), *(test for _, test in METAL_PATHS.values())}))
def test_the_tests_are_there(test: str) -> None:
    file, _, name = test.partition("::")
    assert f"def {name}(" in (ROOT / file).read_text()


@pytest.fixture
def metal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Mac, as far as code asks for it."""
    monkeypatch.setattr(mx, "default_device", lambda: mx.gpu)
    monkeypatch.setattr(mx.metal, "is_available", lambda: True)
    monkeypatch.setattr(mx.cuda, "is_available", lambda: False)
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
    info = M2_ULTRA | {"device_name": "Apple M9"}  # the name is made up
    monkeypatch.setattr(mx, "device_info", lambda: info)
    monkeypatch.setattr("orchard.system_memory._pressure_level", lambda: 1)
    found = probe_device()
    assert (found["backend"], found["device"], found["wired_bytes"]) == ("metal", "Apple M9", 188743680000)


def test_the_doctor_finds_a_mac_without_metal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    probed = {"memory_bytes": 2**34, "backend": "cpu", "device": "Apple M9", "ffmpeg": "ffmpeg"}
    assert ("warning", "Metal") in [finding[:2] for finding in doctor._check_mlx(probed)]


@pytest.mark.usefixtures("metal")
def test_metal_is_not_cuda() -> None:
    assert not on_cuda()


@pytest.mark.usefixtures("metal")
def test_what_is_measured_on_a_mac_has_a_name_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    model, names = network("qwen3"), set()
    for info in (M2_ULTRA, M2_ULTRA | {"architecture": "applegpu_g16s"}):
        monkeypatch.setattr(mx, "device_info", lambda info=info: info)
        names.add(calibration.calibration_key(model, TextOptions()))
    assert len(names) == 2


@pytest.mark.usefixtures("metal")
def test_metal_rehearses_few_guesses() -> None:
    assert {lengths for _, lengths in start._rehearsals()} == {start._PROPOSAL_LENGTHS}


def test_few_open_files_are_few_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a Mac: https://github.com/eradman/entr/issues/142."""
    monkeypatch.setattr("resource.RLIM_INFINITY", 2**63 - 1)
    for limits, expected in {(256, 2**63 - 1): 174, (2**63 - 1, 2**63 - 1): sys.maxsize}.items():
        monkeypatch.setattr("resource.getrlimit", lambda _, limits=limits: limits)
        assert _connection_limit() == expected


@pytest.mark.usefixtures("metal")
def test_ranks_share_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mx, "device_count", lambda _: 1)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    here, there = ClusterHost("127.0.0.1", ("10.0.0.1",)), ClusterHost("b", ("10.0.0.2",))
    with pytest.raises(OrchardError, match="this machine has 1 GPU for 2 ranks"):
        choose_backend(TextOptions(ranks=2), Hostfile((here, here)))
    assert choose_backend(TextOptions(hosts="hosts.json"), Hostfile((here, there))) == "ring"
    assert _local_gpus() == ["0"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    assert _local_gpus() == ["3", "5"]


def test_a_gpu_is_timed_at_least_twice(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[mx.array] = []
    model: Any = SimpleNamespace(new_cache=list, forward=lambda tokens, cache: passes.append(tokens))
    monkeypatch.setattr(calibration, "_SECONDS_A_STEP", 0)
    for times in (1, 2):
        calibration._prefill_seconds(model, 4)
        assert len(passes) == times
        passes.clear()
        request.getfixturevalue("metal")


def test_a_gpu_is_warmed_up_with_long_prompts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []

    def run(runner: Any, jobs: list[Any], steps: Any = None) -> Iterator[None]:
        lengths.extend(len(job.prompt) for job in jobs)
        yield

    monkeypatch.setattr(start, "_run_jobs", run)
    runner: Any = None
    for _ in start.warm_up_every_way(runner):
        pass
    assert max(lengths) < 100
    request.getfixturevalue("metal")
    assert not start.has_kept_kernels()
    for _ in start.warm_up_every_way(runner):
        pass
    assert max(lengths) > 2048  # longer than a chunk


def test_the_work_of_a_step_is_measured_with_long_chunks(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []

    def measure(model: Any, store: Any, count: int) -> int:
        counts.append(count)
        return count

    monkeypatch.setattr(step_work, "_chunk_bytes", measure)
    model = network("qwen3")
    for _ in step_work.measure_step_work(model, TextOptions()):
        pass
    longest = max(counts)
    request.getfixturevalue("metal")
    for _ in step_work.measure_step_work(model, TextOptions()):
        pass
    assert max(counts) > longest


def refuse(*_: Any) -> None:
    """Refuse a limit of memory, as macOS does: https://github.com/linusg/libjs-test262/pull/68."""
    raise ValueError("current limit exceeds maximum limit")


def test_a_helper_runs_without_a_limit_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    answered: list[tuple[str, float]] = []
    monkeypatch.setattr("resource.setrlimit", refuse)
    monkeypatch.setattr(helper_process, "_answer_questions", lambda socket, *work: answered.append(work))
    monkeypatch.setattr(helper_process, "Connection", lambda number: None)
    for module, name in ((os, "nice"), (os, "dup"), (signal, "signal"), (threading, "stack_size")):
        monkeypatch.setattr(module, name, lambda *_: None)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(fileno=lambda: 0))
    monkeypatch.setattr(sys, "argv", ["helper", "work", "--cpu-seconds", "1", "--memory-bytes", "1"])
    helper_process.main()
    assert answered == [("work", 1.0)]


def test_a_search_runs_without_a_limit_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = io.BytesIO()
    monkeypatch.setattr("resource.setrlimit", refuse)
    monkeypatch.setattr(hub_search, "search_hub", lambda words: [])
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"qwen")))
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=printed))
    hub_search.main()
    assert printed.getvalue() == b"{}"


@pytest.mark.parametrize(("system", "trims"), [("linux", 1), ("darwin", 0)])
async def test_memory_is_trimmed_on_linux_only(system: str, trims: int, monkeypatch: pytest.MonkeyPatch) -> None:
    trimmed: list[int] = []
    sent: list[Any] = []

    async def close(seconds: float) -> None: ...

    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr("ctypes.CDLL", lambda _: SimpleNamespace(malloc_trim=trimmed.append))
    worker: Any = SimpleNamespace(_current_service=SimpleNamespace(close=close), _send=sent.append)
    await Worker._unload(worker)
    assert len(trimmed) == trims
    assert [type(message) for message in sent] == [wire.Unloaded]


def test_a_worker_starts_without_linux_files(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(path: Path, text: str) -> int:
        raise FileNotFoundError(path)

    served: list[Any] = []
    monkeypatch.setattr(Path, "write_text", missing)
    monkeypatch.setattr(worker_main, "serve_socket", lambda *given: given[1:])
    monkeypatch.setattr("asyncio.run", served.append)
    monkeypatch.setattr("socket.socket", lambda fileno: None)
    for module, name in ((os, "umask"), (signal, "signal"), (sys, "setswitchinterval"), (logging, "basicConfig")):
        monkeypatch.setattr(module, name, lambda *_, **__: None)
    monkeypatch.setattr("resource.setrlimit", lambda *_: None)
    options = ["--fd", "3", "--service", "a:B", "--options", "c:D", "--tasks", "e:F"]
    monkeypatch.setattr(sys, "argv", ["worker", *options])
    worker_main.main()
    assert served == [("a:B", "c:D", ["e:F"])]
