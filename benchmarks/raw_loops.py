"""mlx-lm's own loops, for comparison: a process that runs one loop per input line, and prints a JSON line.

The Python that runs it needs mlx-lm but not Orchard, so it can be that of a rival's environment. `Loops` starts it.
"""

import copy
import itertools
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_START = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from benchmarks import raw_loops; raw_loops.main(sys.argv[1])"
)
_PIECE = 2048
_SETTLE = 5  # steps of a whole batch before its time counts


class Loops:
    """The process, as a context; `ask` sends it a line and gives its answer."""

    def __init__(self, python: str, model: str) -> None:
        command = [python, "-c", _START, str(Path(__file__).parents[1]), model]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> "Loops":
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def ask(self, loop: str, **arguments: Any) -> dict[str, float]:
        """Run the method of `Raw` with that name."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps({"loop": loop, **arguments}) + "\n")
        self._process.stdin.flush()
        answer: dict[str, float] = json.loads(self._process.stdout.readline())
        return answer


def prompt(row: int, length: int, vocabulary: int) -> list[int]:
    """Token ids that differ from row to row; the lowest ones, mostly special, are left out."""
    source = random.Random(row)  # noqa: S311 - no secret
    return [source.randrange(min(300, vocabulary // 2), vocabulary * 3 // 4) for _ in range(length)]


def sampling(row: int, mixed: bool) -> dict[str, Any]:
    """Each row's own way to sample, in mlx-lm's and Orchard's names; empty: greedy."""
    if not mixed:
        return {}
    chosen: dict[str, Any] = {"temperature": 0.5 + row % 7 / 10}
    if row % 2:
        chosen |= {"top_p": 0.8 + row % 19 / 100, "top_k": 20 + row}
        chosen |= {"repetition_penalty": 1.1, "presence_penalty": 0.1 + row % 5 / 10, "frequency_penalty": 0.2}
    return chosen


def main(path: str) -> None:
    """Load a model folder and serve stdin."""
    raw = Raw(path)
    for line in sys.stdin:
        arguments = json.loads(line)
        loop = getattr(raw, arguments.pop("loop"))
        print(json.dumps(loop(**arguments)), flush=True)


class Raw:
    """A loaded model and the loops over it; none ends before its limit."""

    def __init__(self, path: str) -> None:
        from mlx_lm import load

        self._model, self._tokenizer = load(path)[:2]
        self._tokenizer.eos_token_ids = set()
        config = json.loads((Path(path) / "config.json").read_text())
        self._cache, self._cached = self._new_cache(), list[int]()
        self._vocabulary = (config.get("text_config") or config)["vocab_size"]

    def stream(self, context: int, steps: int) -> dict[str, float]:
        """Time `stream_generate`, greedy: one stream, with the text of each token."""
        from mlx_lm import stream_generate

        tokens = prompt(0, context, self._vocabulary)
        begin = time.perf_counter()
        return _times(begin, stream_generate(self._model, self._tokenizer, tokens, max_tokens=steps + 1))

    def single(self, context: int, steps: int, mixed: bool) -> dict[str, float]:
        """Time `generate_step`: one stream of token ids."""
        import mlx.core as mx
        from mlx_lm.generate import generate_step

        sampler, processors = _mlx_lm_sampling(0, mixed)
        tokens = mx.array(prompt(0, context, self._vocabulary))
        begin = time.perf_counter()
        answer = generate_step(tokens, self._model, max_tokens=steps + 1, sampler=sampler, logits_processors=processors)
        return _times(begin, answer)

    def turn(self, body: dict[str, Any], following: dict[str, Any] | None) -> dict[str, float]:
        """Time a pass over a chat's tokens that aren't in the cache, until the next token is known.

        Then keep of the cache what the chat has in common with the one that follows; None: nothing.
        """
        tokens = self._chat_tokens(body)
        cached, seconds = len(self._cached), 0.0
        for _ in range(2):  # the first may compile
            cache = copy.deepcopy(self._cache) if cached else self._new_cache()
            begin = time.perf_counter()
            self._fill(cache, tokens[cached:])
            seconds = time.perf_counter() - begin
        figures = {"seconds": seconds, "prompt_tokens": len(tokens), "cached_tokens": cached}
        pairs = zip(tokens, self._chat_tokens(following) if following else [], strict=False)
        common = [token for token, _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)]
        if common[:cached] != self._cached:
            cached, self._cache = 0, self._new_cache()
        if common[cached:]:
            self._fill(self._cache, common[cached:])
        self._cached = common
        return figures

    def _new_cache(self) -> Any:
        from mlx_lm.models.cache import make_prompt_cache

        return make_prompt_cache(self._model)

    def _fill(self, cache: Any, tokens: list[int]) -> None:
        """Run the model over tokens as mlx-lm does, and choose the next token.

        All but the last token go first, in pieces: an output layer over all of them would take longer than the rest.
        """
        import mlx.core as mx

        *earlier, last = tokens
        for start in range(0, len(earlier), _PIECE):
            self._model(mx.array(earlier[start : start + _PIECE])[None], cache=cache)
            mx.eval([layer.state for layer in cache])
        self._model(mx.array([[last]]), cache=cache)[0, -1].argmax().item()

    def _chat_tokens(self, body: dict[str, Any]) -> list[int]:
        body = json.loads(json.dumps(body))
        for message in body["messages"]:
            for call in message.get("tool_calls", ()):
                call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        tokens: list[int] = self._tokenizer.apply_chat_template(
            body["messages"], tools=body["tools"], add_generation_prompt=True, enable_thinking=False
        )
        return tokens

    def batch(self, rows: int, context: int, steps: int, mixed: bool) -> dict[str, float]:
        """Time `BatchGenerator` as mlx-lm's server drives it, with a sampler object a row."""
        generator = self._generator(rows, context, mixed)
        started = time.perf_counter()
        for _ in range(steps):
            generator.next()
        ended = time.perf_counter()
        generator.close()
        return {"tokens_s": rows * steps / (ended - started)}

    def step(self, rows: int, context: int, steps: int, mixed: bool) -> dict[str, float]:
        """Return what a step of `BatchGenerator` consists of, as `StepMeter` says."""
        from benchmarks.step_meter import StepMeter

        figures: dict[str, float] = {}
        for counts in (False, True):
            generator = self._generator(rows, context, mixed)
            with StepMeter(counts) as meter:
                for _ in range(steps):
                    generator.next()
            generator.close()
            figures |= meter.figures()
        return figures

    def _generator(self, rows: int, context: int, mixed: bool) -> Any:
        """Return a generator all of whose rows have begun to answer."""
        from mlx_lm.generate import BatchGenerator

        generator = BatchGenerator(self._model, completion_batch_size=rows, prefill_batch_size=min(rows, 8))
        ways = [_mlx_lm_sampling(row, mixed) for row in range(rows)]
        generator.insert(
            [prompt(row, context, self._vocabulary) for row in range(rows)],
            max_tokens=[10**6] * rows,
            samplers=[sampler for sampler, _ in ways],
            logits_processors=[processors for _, processors in ways],
        )
        whole = 0
        while whole < _SETTLE:
            whole += len(generator.next()[1]) == rows
        return generator


def _times(begin: float, tokens: Iterator[Any]) -> dict[str, float]:
    stamps = [time.perf_counter() for _ in tokens]
    return {"tokens_s": (len(stamps) - 1) / (stamps[-1] - stamps[0]), "first_s": stamps[0] - begin}


def _mlx_lm_sampling(row: int, mixed: bool) -> tuple[Any, Any]:
    from mlx_lm.sample_utils import make_logits_processors, make_sampler

    way = sampling(row, mixed)
    sampler = make_sampler(way.pop("temperature", 0.0), top_p=way.pop("top_p", 0.0), top_k=way.pop("top_k", 0))
    return sampler, make_logits_processors(**way)
