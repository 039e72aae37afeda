"""The cost of a grammar: the time per token of rows with one, and of rows beside them, relative to rows without.

Runs one `Engine` in this process. "free" rows have no grammar. "bound" rows have one, and generate a long JSON list of
objects of five fields; in "mixed", half of the rows are bound. The three run in turn, and time counts while all rows
run. Prints JSON lines: median milliseconds per token and row, and the medians over the runs of the ratios to free rows;
for each model also how long its first and later grammars take to compile.
"""

import argparse
import json
import queue
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from benchmarks.engine import start_engine
from benchmarks.raw_loops import prompt
from orchard.backends.text.grammar.constraint import Constraints
from orchard.backends.text.grammar.process import GrammarProcess
from orchard.backends.text.model import TextModel, load_text_model
from orchard.backends.text.output import Vocabulary
from orchard.backends.text.prompt.special_tokens import special_tokens
from orchard.core.tasks.generate import Generate
from orchard.core.tasks.generate import Grammar as Wanted
from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching.job import EngineStep, Job
from orchard.engine.engine import Engine
from orchard.engine.sampling.grammar import BoundGrammar
from orchard.engine.sampling.params import SamplingParams
from orchard.formats.registry import choose_family
from orchard.gateway.models.registry import resolve_model
from orchard.worker.main import SWITCH_SECONDS

_SETTLE = 8  # tokens that every row draws before time counts
_FIELDS: dict[str, dict[str, Any]] = {
    "name": {"type": "string", "maxLength": 20},
    "count": {"type": "integer", "minimum": 0, "maximum": 9999},
    "kind": {"enum": ["first", "second", "third"]},
    "tags": {"type": "array", "items": {"type": "string", "maxLength": 8}, "maxItems": 3},
    "price": {"type": "number"},
}
_ITEM = {"type": "object", "properties": _FIELDS, "required": [*_FIELDS], "additionalProperties": False}
_WAYS = {"free": (False, False), "bound": (True, True), "mixed": (False, True)}  # of even rows and of odd ones


class Driven:
    """An engine whose free rows never end by themselves."""

    def __init__(self, path: str) -> None:
        self._steps: queue.SimpleQueue[tuple[float, EngineStep]] = queue.SimpleQueue()
        self._engine: Engine[TextModel] = Engine(
            lambda: replace(load_text_model(path), eos_token_ids=frozenset()),
            lambda step: self._steps.put((time.perf_counter(), step)),
            TextOptions(),
        )
        self._vocab_size = start_engine(self._engine).vocab_size
        self._runs = 0
        model = load_text_model(path)
        special = special_tokens(model.tokenizer)
        self._constraints = Constraints(
            model.tokenizer,
            Vocabulary(model.tokenizer).bytes_of,
            model.vocab_size,
            special_tokens=special,
            write=GrammarProcess(special).write,
        )

    def grammar(self, schema: dict[str, Any]) -> tuple[BoundGrammar, float]:
        """Compile, and say how many milliseconds it took."""
        begin = time.perf_counter()
        task = Generate(grammar=Wanted("json_schema", schema, "response_format"))
        constraint = self._constraints.describe(task, choose_family(""), "")
        grammar = constraint and self._constraints.compile(constraint)
        assert grammar
        return grammar, 1000 * (time.perf_counter() - begin)

    def measure(self, grammars: Sequence[BoundGrammar | None], context: int, steps: int) -> float:
        """Give milliseconds a token and row while all rows run."""
        self._runs += 1
        jobs = [self._job(row, context, grammar) for row, grammar in enumerate(grammars)]
        counts = dict.fromkeys((job.id for job in jobs), 0)
        for job in jobs:
            self._engine.add_job(job)
        started, before = 0.0, 0
        while not started or sum(counts.values()) - before < len(jobs) * steps:
            now, step = self._steps.get()
            assert not step.failures, step.failures
            for drawn in step.tokens:
                counts[drawn.job] += 1
            if not started and min(counts.values()) >= _SETTLE:
                started, before = now, sum(counts.values())
        taken = (now - started) / (sum(counts.values()) - before) * len(jobs)
        for job in jobs:
            self._engine.cancel(job.id)
        while (step := self._steps.get()[1]).running or step.waiting:
            pass
        return 1000 * taken

    def close(self) -> None:
        """Wait until the engine has ended."""
        self._engine.close()
        self._engine.join()

    def _job(self, row: int, context: int, grammar: BoundGrammar | None) -> Job:
        # Another prompt each run: nothing of it may be in a cache.
        tokens = prompt(self._runs * 1000 + row, context, self._vocab_size)
        return Job(f"{self._runs}-{row}", tokens, SamplingParams(seed=row), max_tokens=10**6, grammar=grammar)


def measure(name: str, rows: Sequence[int], context: int, steps: int, runs: int) -> None:
    """Print a line of the compiler, and one for each number of rows."""
    entry = resolve_model(name)
    driven = Driven(entry.path)
    properties = {f"field {number}": kind for number, kind in enumerate([*_FIELDS.values()] * 4)}
    of_twenty = {"type": "object", "properties": properties}
    _, first = driven.grammar({"type": "object"})
    _, fresh = driven.grammar(of_twenty)
    _, cached = driven.grammar(of_twenty)
    line = {"benchmark": "grammar", "model": entry.id}
    compiled = {"first_ms": first, "twenty_fields_ms": fresh, "cached_ms": cached}
    print(json.dumps(line | {key: round(value, 3) for key, value in compiled.items()}), flush=True)
    grammar, _ = driven.grammar({"type": "array", "items": _ITEM, "minItems": 100_000})
    for count in rows:
        taken: dict[str, list[float]] = {way: [] for way in _WAYS}
        for _ in range(runs + 1):
            for way, binds in _WAYS.items():
                grammars = [grammar if binds[row % 2] else None for row in range(count)]
                taken[way].append(driven.measure(grammars, context, steps))
        figures: dict[str, Any] = {"rows": count, "context": context, "steps": steps}
        figures |= {f"{way}_ms": round(statistics.median(times[1:]), 3) for way, times in taken.items()}
        figures |= {f"{way}_to_free": _ratio(taken[way][1:], taken["free"][1:]) for way in ("bound", "mixed")}
        print(json.dumps(line | figures), flush=True)
    driven.close()


def _ratio(times: Sequence[float], free: Sequence[float]) -> float:
    return round(statistics.median(a / b for a, b in zip(times, free, strict=True)), 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="demo")
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--context", type=int, default=256, help="tokens of each prompt")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    sys.setswitchinterval(SWITCH_SECONDS)
    measure(args.model, args.rows, args.context, args.steps, args.runs)


if __name__ == "__main__":
    main()
