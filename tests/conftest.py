import gc
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from httpx import _config as httpx_config
from hypothesis import HealthCheck, settings

from orchard.worker import quick_transformers
from tests.support.examples import is_deep
from tests.support.sounds import use_ffmpeg

# Speed is measured in benchmarks/, not here: a busy machine is no reason to fail.
_ANY_SPEED: dict[str, Any] = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
# The same examples in every run, so that a change is what makes `make test` fail; new ones are for `make test-deep`.
settings.register_profile("fast", max_examples=20, derandomize=True, database=None, **_ANY_SPEED)
settings.register_profile("deep", max_examples=100, **_ANY_SPEED)
settings.load_profile("fast")
quick_transformers.install_quick_import()
# Its usual 5 s were too short where a machine stood still for a while.
httpx_config.DEFAULT_TIMEOUT_CONFIG.connect = httpx_config.DEFAULT_TIMEOUT_CONFIG.read = 60.0
# A shell makes what it starts in the background ignore Ctrl-C. The commands that tests interrupt would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Float32 means float32 on CUDA, too.
os.environ.setdefault("MLX_ENABLE_TF32", "0")
# The threads of numpy's BLAS wait in a busy loop, while the tests beside this one need the cores.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Python and MLX's thread wait for each other at each operation. With other tests beside them, that takes a quarter less
# time on one core than on two; and a third less again where the one that is woken doesn't interrupt the other, so that
# MLX's thread takes many operations at a time. Threads and processes that come later are bound by this, too.
if (_worker := os.environ.get("PYTEST_XDIST_WORKER")) and sys.platform == "linux":
    _cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {_cores[int(_worker.removeprefix("gw")) % len(_cores)]})
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


@pytest.fixture(scope="session", autouse=True)
def _environment(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What is found out about models is remembered in a folder of the tests' own, ffmpeg is the package's, and no
    certificate is trusted.

    All workers share it, as loading a bundled model takes twice the time where it must be found out. No test uses TLS,
    and for each HTTP client, reading the certificates takes longer than most requests.
    """
    cache = tmp_path_factory.mktemp("orchard-cache")
    if _worker:
        shared = tmp_path_factory.getbasetemp().parent / "models"
        shared.mkdir(exist_ok=True)
        (cache / "models").symlink_to(shared)
    os.environ["ORCHARD_CACHE_DIR"] = str(cache)
    use_ffmpeg(pytest.MonkeyPatch(), tmp_path_factory.mktemp("bin"))
    os.environ.pop("SSL_CERT_FILE", None)
    os.environ["SSL_CERT_DIR"] = str(tmp_path_factory.mktemp("no-certificates"))


@pytest.fixture(autouse=True)
def _memory_limit() -> Iterator[None]:
    """A test's models limit MLX's memory, at which it computes more slowly; the next test begins without a limit."""
    yield
    if mx := sys.modules.get("mlx.core"):
        mx.set_memory_limit(2**40)


@pytest.fixture
def wired(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The wired limits that are set, on a device for which Metal recommends 2**40 bytes."""
    limits: list[int] = []
    monkeypatch.setattr("mlx.core.set_memory_limit", lambda memory_bytes: 2**40)
    monkeypatch.setattr("mlx.core.device_info", lambda: {"max_recommended_working_set_size": 2**40})
    monkeypatch.setattr("mlx.core.set_wired_limit", limits.append)
    return limits


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only the deep profile runs."""
    left = [] if is_deep() else [item for item in items if item.get_closest_marker("deep")]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if not item.get_closest_marker("deep")]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Let no garbage collection walk over the thousands of tests: not while they become more, nor later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """After each module, keep what is left of it from garbage collections as well.

    Each engine that ends collects garbage, which would soon take longer than most tests.
    """
    yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()
