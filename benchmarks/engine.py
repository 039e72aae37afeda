"""The engine without HTTP, compared with mlx-lm's own loops, in turn on the same machine and model.

engine: `Engine` in this process, used as a worker uses it. raw: mlx-lm's `BatchGenerator`, and for one row also its
single-stream loop. Each line counts while all rows run: tokens per second over that many steps. With "mixed", each row
has its own sampling parameters, half of them with filters and penalties. For one row, it also measures the seconds from
a prompt to its first token. Prints JSON lines: medians; the ratio engine/raw is the median over the pairs of runs.
`peak_bytes` is the most that MLX held in any step of the engine so far, `planned_bytes` what was planned for that step.

`step` is what a step consists of, in the engine and in `BatchGenerator` (`step_meter`): the operations in its graph,
those that launch work, both also per layer of the model, and the milliseconds of building and launching it.
"""

import argparse
import json
import queue
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.raw_loops import Loops, prompt, sampling
from benchmarks.step_meter import StepMeter
from orchard.backends.text.model import TextModel, load_text_model
from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching.job import EngineStep, Job
from orchard.engine.batching.traced_pass import RUNS_BEFORE_TRACE
from orchard.engine.engine import Engine
from orchard.engine.sampling.params import SamplingParams
from orchard.gateway.models.registry import resolve_model
from orchard.worker.main import SWITCH_SECONDS

_SETTLE = 5  # tokens that every row draws before time counts
_COUNTED = 20  # steps whose operations are counted


def start_engine(engine: Engine[TextModel]) -> TextModel:
    """Start an engine, and return its model once all is measured and compiled."""
    model = engine.start().result()
    while engine.is_warming_up:
        time.sleep(0.05)
    return model


class Driven:
    """An engine whose rows never end by themselves."""

    def __init__(self, path: str) -> None:
        self._steps: queue.SimpleQueue[tuple[float, EngineStep]] = queue.SimpleQueue()
        self._engine: Engine[TextModel] = Engine(
            lambda: replace(load_text_model(path), eos_token_ids=frozenset()),
            lambda step: self._steps.put((time.perf_counter(), step)),
            TextOptions(speculation="off"),  # random weights repeat themselves: guesses would be right too often
        )
        self._vocabulary = start_engine(self._engine).vocab_size
        self._runs = 0

    def measure(self, rows: int, context: int, steps: int, mixed: bool) -> dict[str, float]:
        """Tokens per second while all rows run, and the time until the first token."""
        begin = time.perf_counter()
        jobs = self._begin(rows, context, mixed)
        counts = dict.fromkeys((job.id for job in jobs), 0)
        first, started = 0.0, (0.0, 0)
        while not started[0] or sum(counts.values()) - started[1] < rows * steps:
            now, step = self._steps.get()
            assert not step.failures, step.failures
            for drawn in step.tokens:
                counts[drawn.job] += 1
            first = first or (now if step.tokens else 0.0)
            if not started[0] and min(counts.values()) >= _SETTLE:
                started = now, sum(counts.values())
        rate = (sum(counts.values()) - started[1]) / (now - started[0])
        self._forget(jobs)
        return {"tokens_s": rate, "first_s": first - begin}

    def step(self, rows: int, context: int, mixed: bool) -> dict[str, float]:
        """What a step consists of while all rows run."""
        figures: dict[str, float] = {}
        for counts in (False, True):
            jobs = self._begin(rows, context, mixed)
            self._wait_for(jobs, _SETTLE + RUNS_BEFORE_TRACE)
            with StepMeter(counts) as meter:
                self._wait_for(jobs, _COUNTED)
            self._forget(jobs)
            figures |= meter.figures()
        return figures

    def _begin(self, rows: int, context: int, mixed: bool) -> list[Job]:
        self._runs += 1
        jobs = [self._job(row, context, mixed) for row in range(rows)]
        for job in jobs:
            self._engine.add_job(job)
        return jobs

    def _wait_for(self, jobs: list[Job], tokens: int) -> None:
        """Wait until each job has drawn so many more tokens."""
        missing = {job.id: tokens for job in jobs}
        while any(count > 0 for count in missing.values()):
            for drawn in self._steps.get()[1].tokens:
                missing[drawn.job] -= 1

    def peak(self) -> dict[str, int]:
        """The bytes that MLX held at most in any step so far, and those that were planned for that step."""
        return {"peak_bytes": self._engine.peak.taken_bytes, "planned_bytes": self._engine.peak.planned_bytes}

    def close(self) -> None:
        self._engine.close()
        self._engine.join()

    def _job(self, row: int, context: int, mixed: bool) -> Job:
        way = {"temperature": 0.0, **sampling(row, mixed)}
        # Another prompt each run: nothing of it may be in a cache.
        tokens = prompt(self._runs * 1000 + row, context, self._vocabulary)
        return Job(f"{self._runs}-{row}", tokens, SamplingParams(seed=row, **way), max_tokens=10**6)

    def _forget(self, jobs: list[Job]) -> None:
        for job in jobs:
            self._engine.cancel(job.id)
        while (step := self._steps.get()[1]).running or step.waiting:
            pass


def measure(name: str, rows: list[int], context: int, steps: int, runs: int) -> None:
    """Print a line for each number of rows, greedy and mixed."""
    entry = resolve_model(name)
    config = json.loads((Path(entry.path) / "config.json").read_text())
    layers = (config.get("text_config") or config)["num_hidden_layers"]
    shape = {"context": context, "steps": steps}
    with Loops(sys.executable, entry.path) as loops:
        driven = Driven(entry.path)
        for mixed in (False, True):
            for count in rows:
                ours, batch, single = [], [], []
                for _ in range(runs + 1):
                    ours.append(driven.measure(count, mixed=mixed, **shape))
                    batch.append(loops.ask("batch", rows=count, mixed=mixed, **shape))
                    if count == 1:
                        single.append(loops.ask("single", mixed=mixed, **shape))
                line = {"benchmark": "engine", "model": entry.id, "rows": count, "mixed": mixed, **shape}
                print(json.dumps({**line, **_compare(ours[1:], batch[1:], single[1:]), **driven.peak()}), flush=True)
                step = {"engine": driven.step(count, context, mixed)}
                step["batch"] = loops.ask("step", rows=count, context=context, steps=_COUNTED, mixed=mixed)
                for loop, figures in step.items():
                    print(json.dumps({**line, "step": loop, **_by_layer(figures, layers)}), flush=True)
        driven.close()


def _compare(
    ours: list[dict[str, float]], batch: list[dict[str, float]], single: list[dict[str, float]]
) -> dict[str, float]:
    """Medians and ratios; the first of each list, which warmed up, has been left out."""
    figures = {"engine_tokens_s": _median(ours, "tokens_s"), "batch_tokens_s": _median(batch, "tokens_s")}
    figures["ratio_to_batch"] = _ratio(ours, batch)
    if single:
        figures |= {"single_tokens_s": _median(single, "tokens_s"), "ratio_to_single": _ratio(ours, single)}
        figures |= {"engine_first_s": _median(ours, "first_s"), "single_first_s": _median(single, "first_s")}
    return figures


def _by_layer(figures: dict[str, float], layers: int) -> dict[str, float]:
    return figures | {f"{name}_a_layer": round(figures[name] / layers, 1) for name in ("operations", "launches")}


def _median(runs: list[dict[str, float]], key: str) -> float:
    return round(statistics.median(run[key] for run in runs), 4)


def _ratio(ours: list[dict[str, float]], raw: list[dict[str, float]]) -> float:
    return round(statistics.median(a["tokens_s"] / b["tokens_s"] for a, b in zip(ours, raw, strict=True)), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="demo")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--context", type=int, default=256, help="tokens of each prompt")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    sys.setswitchinterval(SWITCH_SECONDS)
    measure(args.model, args.rows, args.context, args.steps, args.runs)


if __name__ == "__main__":
    main()
