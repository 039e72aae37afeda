import gc
import queue
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchard.backends.text.model import TextModel, load_text_model
from orchard.core.speculation_report import SourceTotals
from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching.job import EngineStep, Job
from orchard.engine.batching.kv_cache import KVStore
from orchard.engine.engine import Engine
from orchard.engine.prefix_cache.disk_io import DiskTier
from orchard.engine.runner import Runner
from orchard.engine.sampling.params import SamplingParams
from orchard.engine.speculation.cost_controller import CostController
from tests.support.engine_driver import hold_scans, wait_until_warm

GREEDY = SamplingParams(seed=0, temperature=0.0)


class Running:
    """An engine whose steps can be waited for."""

    def __init__(self, folder: Path, **options: Any) -> None:
        """`options` are those of `TextOptions`."""
        self.steps: queue.Queue[EngineStep] = queue.Queue()
        self.thread: threading.Thread | None = None
        self.engine: Engine[TextModel] = Engine(
            lambda: load_text_model(str(folder)), self._deliver, TextOptions(**options)
        )
        self.engine.start().result(60)
        wait_until_warm(self.engine)  # the first one's calibration is stored

    def _deliver(self, step: EngineStep) -> None:
        self.thread = threading.current_thread()
        self.steps.put(step)

    def cached(self, prompt: list[int]) -> int:
        """Run a job; return how many tokens of its prompt were cached."""
        self.engine.add_job(Job("a", prompt, GREEDY, 4))
        (begun,) = [begun for step in self.until_idle() for begun in step.starts]
        return begun.cached_tokens

    def until_idle(self) -> list[EngineStep]:
        steps = [self.steps.get(timeout=30)]
        while steps[-1].running or steps[-1].waiting:
            steps.append(self.steps.get(timeout=30))
        return steps


def test_jobs_run_in_the_engines_thread_and_it_ends(model_folder: Path) -> None:
    running = Running(model_folder)
    running.engine.add_job(Job("a", [1, 2, 3], GREEDY, 4))
    steps = running.until_idle()
    assert sum(len(step.tokens) for step in steps) == 4
    assert running.thread is not None
    assert running.thread.name == "engine"
    running.engine.close()
    assert running.engine.join(30)


def test_it_says_how_much_of_a_prompt_is_read(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchard.engine.engine._SECONDS_BETWEEN_USES", 0.0)
    running = Running(model_folder, prefill_step_size=8)
    seen: list[int] = []
    step = Runner.step

    def note(runner: Runner) -> EngineStep:
        seen.append(running.engine.read_tokens.get("b", 0))
        return step(runner)

    monkeypatch.setattr(Runner, "step", note)
    running.engine.add_job(Job("a", [1, 2, 3], GREEDY, 40))
    running.engine.add_job(Job("b", list(range(1, 82)), GREEDY, 4))
    running.until_idle()
    read = [tokens for tokens in dict.fromkeys(seen) if tokens]
    assert read == sorted(read)
    assert len(read) > 2
    assert read[-1] <= 81
    running.engine.close()
    assert running.engine.join(30)
    assert running.engine.read_tokens == {}


def test_a_cancelled_job_stops_before_its_end(model_folder: Path) -> None:
    running = Running(model_folder)
    running.engine.add_job(Job("a", [1, 2, 3], GREEDY, 10**9))
    while not running.steps.get(timeout=30).tokens:
        pass
    running.engine.cancel("a")
    running.engine.cancel("unknown")
    assert running.until_idle()[-1] == EngineStep([], [], [], 0, 0)
    running.engine.close()
    assert running.engine.join(30)


def test_a_job_that_is_cancelled_while_its_prompt_is_fetched_never_runs(
    model_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetches: queue.Queue[Callable[[], None]] = queue.Queue()

    def fetch(store: KVStore, tokens: list[int], done: Callable[[], None], *of: object) -> bool:
        fetches.put(done)
        return True

    monkeypatch.setattr(KVStore, "fetch", fetch)
    running = Running(model_folder)
    for name in ("a", "b"):
        running.engine.add_job(Job(name, [1, 2, 3], GREEDY, 4))
    running.engine.cancel("a")
    for _ in range(2):
        fetches.get(timeout=30)()
    assert {begun.job for step in running.until_idle() for begun in step.starts} == {"b"}
    running.engine.close()
    assert running.engine.join(30)


def test_the_model_is_freed(model_folder: Path) -> None:
    loaded = load_text_model(str(model_folder))
    network = weakref.ref(loaded.network)
    models = [loaded]
    del loaded
    engine: Engine[TextModel] = Engine(models.pop, lambda step: None, TextOptions())
    engine.start()
    engine.add_job(Job("a", [1, 2, 3], GREEDY, 10**9))
    engine.close()
    assert engine.join(30)
    gc.collect()
    assert network() is None


def test_a_model_that_does_not_load(tmp_path: Path) -> None:
    engine: Engine[TextModel] = Engine(lambda: load_text_model(str(tmp_path)), lambda step: None, TextOptions())
    with pytest.raises(Exception, match=r"config\.json"):
        engine.start().result(30)
    assert engine.join(30)


def test_one_thread_serves_one_model_after_the_other(model_folder: Path) -> None:
    threads = set()
    for _ in range(3):
        running = Running(model_folder)
        running.engine.add_job(Job("a", [1, 2, 3], GREEDY, 4))
        running.until_idle()
        threads.add(running.thread)
        running.engine.close()
        assert running.engine.join(30)
    assert len(threads) == 1


def test_tells_what_guesses_have_brought(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brought = {"ngram": SourceTotals(5, 4, 0.5)}
    monkeypatch.setattr(CostController, "totals", brought, raising=False)
    monkeypatch.setattr(CostController, "__init__", lambda controller: None)
    running = Running(model_folder)
    assert running.engine.speculation_report == brought
    running.engine.close()
    assert running.engine.join(30)
    off: Engine[TextModel] = Engine(
        lambda: load_text_model(str(model_folder)), lambda step: None, TextOptions(speculation="off")
    )
    off.start().result(30)
    assert off.speculation_report == {}
    off.close()
    assert off.join(30)


def test_signs_of_life(model_folder: Path) -> None:
    told: queue.Queue[float] = queue.Queue()
    goes_on = threading.Event()

    def slow() -> TextModel:
        engine.advance(0.5)
        assert goes_on.wait(30)
        return load_text_model(str(model_folder))

    engine: Engine[TextModel] = Engine(slow, lambda step: None, TextOptions(), told.put)
    assert engine.silent_seconds == 0.0
    ready = engine.start()
    assert told.get(timeout=30) == 0.4
    first = engine.silent_seconds
    assert 0 < first < engine.silent_seconds
    goes_on.set()
    ready.result(30)
    fractions = [told.get(timeout=30) for _ in range(told.qsize())]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    assert 0 < engine.weights_bytes <= engine.mlx_bytes
    reported = threading.Event()
    stuck: list[float] = []

    def report(numbers: dict[str, int]) -> None:
        stuck.append(engine.silent_seconds)
        reported.set()

    engine.report(report)
    assert reported.wait(30)
    assert stuck[0] > 0
    engine.close()
    assert engine.join(30)
    assert engine.silent_seconds == 0.0


def test_wired_memory_is_limited_to_the_models_share(model_folder: Path, wired: list[int]) -> None:
    running = Running(model_folder, memory_limit=2**34)
    running.engine.limit_memory(2**33, 2**33)
    running.engine.close()
    assert running.engine.join(30)
    assert wired == [2**34, 2**33]


def test_memory_is_limited_while_it_runs(model_folder: Path) -> None:
    running = Running(model_folder)
    numbers: queue.Queue[dict[str, int]] = queue.Queue()
    for given in (10**9, 10**6, 0):
        running.engine.limit_memory(running.engine.weights_bytes + given, running.engine.weights_bytes + given)
        running.engine.report(numbers.put)
        assert numbers.get(timeout=30)["budget_bytes"] == given // 4
    running.engine.add_job(Job("a", [1, 2, 3], GREEDY, 4))
    (broken,) = next(step.failures for step in running.until_idle() if step.failures)
    assert broken.too_large
    assert "there are at most 0 for all requests" in broken.message
    running.engine.close()
    assert running.engine.join(30)


def test_a_model_that_does_not_load_is_freed(model_folder: Path) -> None:
    networks: list[weakref.ref[object]] = []

    def broken() -> TextModel:
        model = load_text_model(str(model_folder))
        networks.append(weakref.ref(model.network))
        raise ValueError("it is broken")

    engine: Engine[TextModel] = Engine(broken, lambda step: None, TextOptions())
    with pytest.raises(ValueError, match="broken"):
        engine.start().result(30)
    assert engine.join(30)
    assert networks[0]() is None


def run(program: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", program, str(folder)], capture_output=True, text=True, check=False, timeout=90
    )


BROKEN = """
import sys
from orchard.backends.text.model import load_text_model
from orchard.core.tasks.text_options import TextOptions
from orchard.engine.engine import Engine
from orchard.engine.batching.job import Job
from orchard.engine.sampling.params import SamplingParams
from orchard.engine.runner import Runner

engine = Engine(lambda: load_text_model(sys.argv[1]), print, TextOptions())
engine.start().result()

def broken(self):
    raise RuntimeError("the runner is broken")

Runner.step = broken
engine.add_job(Job("a", [1, 2], SamplingParams(seed=0), 4))
engine.join(60)
print("still alive")
"""


def test_a_broken_engine_takes_its_process_with_it(model_folder: Path) -> None:
    done = run(BROKEN, model_folder)
    assert done.returncode == 70
    assert "the runner is broken" in done.stderr
    assert "still alive" not in done.stdout


LEFT = """
import sys
from orchard.backends.text.model import load_text_model
from orchard.core.tasks.text_options import TextOptions
from orchard.engine.engine import Engine
from orchard.engine.batching.job import Job
from orchard.engine.sampling.params import SamplingParams

engine = Engine(lambda: load_text_model(sys.argv[1]), lambda step: None, TextOptions())
engine.start().result()
engine.add_job(Job("a", [1, 2], SamplingParams(seed=0), 10**9))
"""


def test_a_process_may_end_with_a_running_engine(model_folder: Path) -> None:
    done = run(LEFT, model_folder)
    assert done.returncode == 0, done.stderr


def test_an_engine_saves_for_as_long_as_it_is_told(model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds: list[float] = []
    monkeypatch.setattr(KVStore, "close", lambda _, timeout: seconds.append(timeout))
    for given in (0.25, 5.0):
        running = Running(model_folder)
        running.engine.close(given)
        assert running.engine.join(30)
    assert seconds == [0.25, 5.0]


def test_an_engine_is_ready_when_its_prompts_on_disk_are_found(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt = list(range(1, 100))
    first = Running(model_folder, prompt_cache_dir=str(tmp_path))
    assert first.cached(prompt) == 0
    first.engine.close(30)
    assert first.engine.join(30)
    hold_scans(monkeypatch)
    again = Running(model_folder, prompt_cache_dir=str(tmp_path))
    assert again.cached(prompt) == len(prompt) - 1
    again.engine.close()
    assert again.engine.join(30)


def test_an_engine_does_not_wait_for_ever_for_its_prompts_on_disk(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another worker may stay in the folder. The watchdog does not count that time."""
    free = threading.Event()
    silent: list[float] = []
    wait = KVStore.wait_for_files

    def watched(store: KVStore, timeout: float) -> None:
        silent.append(engine.silent_seconds)
        wait(store, timeout / 1000)

    monkeypatch.setattr(DiskTier, "_scan", lambda _: free.wait(60))
    monkeypatch.setattr(KVStore, "wait_for_files", watched)
    options = TextOptions(prompt_cache_dir=str(tmp_path))
    engine: Engine[TextModel] = Engine(lambda: load_text_model(str(model_folder)), lambda step: None, options)
    engine.start().result(30)
    assert silent == [0.0]
    free.set()
    engine.close()
    assert engine.join(30)
