import gc
import queue
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest

from orchard.backends.text import TextModel, load
from orchard.core.options import TextOptions
from orchard.engine.engine import Engine
from orchard.engine.job import Job, SamplingParams, Step

GREEDY = SamplingParams(seed=0, temperature=0.0)


class Running:
    """An engine whose steps can be waited for."""

    def __init__(self, folder: Path) -> None:
        self.steps: queue.Queue[Step] = queue.Queue()
        self.thread: threading.Thread | None = None
        self.engine: Engine[TextModel] = Engine(lambda: load(str(folder)), self._deliver, TextOptions())
        self.engine.start().result(60)

    def _deliver(self, step: Step) -> None:
        self.thread = threading.current_thread()
        self.steps.put(step)

    def until_idle(self) -> list[Step]:
        steps = [self.steps.get(timeout=30)]
        while steps[-1].running or steps[-1].waiting:
            steps.append(self.steps.get(timeout=30))
        return steps


def test_jobs_run_in_the_engines_thread_and_it_ends(model_folder: Path) -> None:
    running = Running(model_folder)
    running.engine.submit(Job("a", [1, 2, 3], GREEDY, 4))
    steps = running.until_idle()
    assert sum(len(step.drawn) for step in steps) == 4
    assert running.thread is not None
    assert running.thread.name == "engine"
    running.engine.close()
    assert running.engine.join(30)


def test_a_cancelled_job_stops_before_its_end(model_folder: Path) -> None:
    running = Running(model_folder)
    running.engine.submit(Job("a", [1, 2, 3], GREEDY, 10**9))
    while not running.steps.get(timeout=30).drawn:
        pass
    running.engine.cancel("a")
    running.engine.cancel("unknown")
    assert running.until_idle()[-1] == Step([], [], [], 0, 0)
    running.engine.close()
    assert running.engine.join(30)


def test_the_model_is_freed(model_folder: Path) -> None:
    loaded = load(str(model_folder))
    network = weakref.ref(loaded.network)
    models = [loaded]
    del loaded
    engine: Engine[TextModel] = Engine(models.pop, lambda step: None, TextOptions())
    engine.start()
    engine.submit(Job("a", [1, 2, 3], GREEDY, 10**9))
    engine.close()
    assert engine.join(30)
    gc.collect()
    assert network() is None


def test_a_model_that_does_not_load(tmp_path: Path) -> None:
    engine: Engine[TextModel] = Engine(lambda: load(str(tmp_path)), lambda step: None, TextOptions())
    with pytest.raises(Exception, match=r"config\.json"):
        engine.start().result(30)
    assert engine.join(30)


def run(program: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", program, str(folder)], capture_output=True, text=True, check=False, timeout=90
    )


BROKEN = """
import sys
from orchard.backends.text import load
from orchard.core.options import TextOptions
from orchard.engine.engine import Engine
from orchard.engine.job import Job, SamplingParams
from orchard.engine.runner import Runner

engine = Engine(lambda: load(sys.argv[1]), print, TextOptions())
engine.start().result()

def broken(self):
    raise RuntimeError("the runner is broken")

Runner.step = broken
engine.submit(Job("a", [1, 2], SamplingParams(seed=0), 4))
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
from orchard.backends.text import load
from orchard.core.options import TextOptions
from orchard.engine.engine import Engine
from orchard.engine.job import Job, SamplingParams

engine = Engine(lambda: load(sys.argv[1]), lambda step: None, TextOptions())
engine.start().result()
engine.submit(Job("a", [1, 2], SamplingParams(seed=0), 10**9))
"""


def test_a_process_may_end_with_a_running_engine(model_folder: Path) -> None:
    done = run(LEFT, model_folder)
    assert done.returncode == 0, done.stderr
