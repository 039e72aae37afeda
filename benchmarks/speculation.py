"""Decode with and without speculation: two engines with one model's weights in this process, in alternating pairs.

Each pair of runs gets new prompts. Time counts from a request's first token to its last. Prints a JSON line for each
case and number of streams: median tokens per second, the median of the pairs' ratios with its 95% interval (by rank),
how many tokens were proposed and accepted, and in how many pairs both runs generated the same tokens.

The text cases need a model that can do the task: agent, tools and copy the bundled one; rewrite, summary and talk a
real one. agent calls the same four tools in all requests, with paths; tools makes one short call of a different tool
in each. The other cases run with any weights and sample at temperature 1. oracle: guesses are right with probability
--acceptance; the run without speculation gives the right answer. adversarial: guesses are always wrong. edit: a
prediction of which 90% is the answer. json: a schema with long names; only the grammar guesses. draft: --draft runs its
passes, and they count, but its tokens are replaced by an oracle's, which are right with probability --acceptance.
Without --draft, the draft model is the model itself with some noise in its weights. mtp: the same with the MTP head in
the model's folder.

Random weights need --steady: otherwise, answers with and without speculation differ after some tokens (`steady_copy`).
"""

import argparse
import json
import math
import queue
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import mlx.core as mx
from tools.demo_cases.cases import object_schema, read

from benchmarks.engine import start_engine
from benchmarks.noisy_copy import noisy_copy
from benchmarks.steady_copy import steady_copy
from orchard.backends.text.draft import load_draft
from orchard.backends.text.grammar.constraint import Constraints
from orchard.backends.text.grammar.process import GrammarProcess
from orchard.backends.text.model import TextModel, load_text_model
from orchard.backends.text.output import Vocabulary
from orchard.backends.text.prompt.special_tokens import special_tokens
from orchard.backends.vision.model import load_vision_model as load_seeing
from orchard.core.tasks.generate import Generate
from orchard.core.tasks.generate import Grammar as Wanted
from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching.batch import Pass
from orchard.engine.batching.job import EngineStep, Job
from orchard.engine.drafting.draft_proposer import DraftProposer
from orchard.engine.drafting.mtp_proposer import MtpProposer
from orchard.engine.engine import Engine
from orchard.engine.sampling.grammar import BoundGrammar
from orchard.engine.sampling.params import SamplingParams
from orchard.engine.speculation.acceptance import ModelAcceptance, RowAcceptance
from orchard.engine.speculation.forced_tokens import ForcedProposer
from orchard.engine.speculation.interface import Proposer, SpeculatingRow
from orchard.engine.speculation.make import make_controller
from orchard.engine.speculation.ngram import NgramProposer
from orchard.engine.speculation.proposal import Proposal
from orchard.engine.speculation.speculation import Speculation
from orchard.formats.registry import choose_family
from orchard.gateway.models.registry import resolve_model
from orchard.kinds import recognise_kind

_SENTENCES = (
    "The old bridge over the river was closed on Monday because two of its pillars had cracked.",
    "Our team meets every Thursday at nine in the small room beside the kitchen on the second floor.",
    "A good loaf of bread needs flour, water, salt, yeast and above all a great deal of patience.",
    "The train from the coast arrives at noon, and the one to the mountains leaves ten minutes later.",
    "She wrote three letters to the council before anybody answered, and the answer was very short.",
    "In winter the lake freezes so hard that people drive their cars across it to the other village.",
    "The museum shows maps, clocks and instruments that sailors used three hundred years ago.",
    "He repaired the radio with a paper clip, and it has played without a fault ever since.",
    "Most of the visitors come in spring, when the cherry trees along the canal are in blossom.",
    "The report says that the new pump uses half as much power and makes hardly any noise.",
)
_TOOLS = {
    "read_file": {"path": "The file to read"},
    "move_file": {"source": "The file to move", "destination": "Where to move it"},
    "search_text": {"text": "What to look for", "folder": "Where to look"},
    "run_tests": {"path": "The tests to run"},
}
_FILES = ("harbour", "lantern", "meadow", "copper", "violin", "garden", "window", "thunder", "basket", "pepper")
_USUAL_TOKENS = 30_000
_QUESTIONS = ("Why is the sky blue?", "How do I learn to cook?", "What makes a good friend?", "Tell me about bees.")


class Oracle:
    """Knows the answers of the last run and guesses right with a chance; it learns like any other how often it does."""

    def __init__(self, chance: float) -> None:
        self.answers: dict[tuple[int, ...], list[int]] = {}
        """By prompt."""
        self._chance = chance
        self._random = random.Random(1)  # noqa: S311 - guesses, no secrets
        self._model = ModelAcceptance()
        self._rows: dict[SpeculatingRow, tuple[RowAcceptance, list[int], list[int]]] = {}

    def open(self, row: SpeculatingRow) -> None:
        """Begin with a row."""
        prompt = tuple(row.tokens[: row.prompt_length])
        self._rows[row] = RowAcceptance(self._model), [*prompt, *self.answers.get(prompt, [])], [len(row.tokens)]

    def close(self, row: SpeculatingRow) -> None:
        """Forget a row."""
        del self._rows[row]

    def propose(self, rows: Sequence[SpeculatingRow], most: Sequence[int]) -> list[Proposal | None]:
        """Guess."""
        return [self._guess(row, count) for row, count in zip(rows, most, strict=True)]

    def _guess(self, row: SpeculatingRow, most: int) -> Proposal | None:
        acceptance, text, seen = self._rows[row]
        acceptance.take(row.tokens[seen[0] :])
        seen[0] = len(row.tokens)
        guesses = [self._said(token) for token in text[len(row.tokens) : len(row.tokens) + most]]
        return acceptance.propose("draft", guesses) if guesses else None

    def guess_at(self, row: SpeculatingRow, place: int) -> int | None:
        """Guess the token at a place of a row's text; None: the answer is not known so far."""
        answer = self.answers.get(tuple(row.tokens[: row.prompt_length]), [])
        place -= row.prompt_length
        return self._said(answer[place]) if place < len(answer) else None

    def replaced(self, rows: Sequence[SpeculatingRow | None], first: int, picked: mx.array) -> mx.array:
        """Return its guesses for those that a model has picked, (rows, n), of the places from `first` behind each text.

        Where it knows none, the model's stay. The guesses depend on these, so the model's passes are computed.
        """
        places = range(first, first + picked.shape[1])
        told = [[self.guess_at(row, len(row.tokens) + place) if row else None for place in places] for row in rows]
        known = mx.array([[one is not None for one in of] for of in told])
        return mx.where(known, mx.array([[one or 0 for one in of] for of in told], mx.uint32), picked)

    def _said(self, token: int) -> int:
        return token if self._random.random() < self._chance else (token + 1) % 256


class DraftOracle(DraftProposer):
    """A draft whose passes run, and whose guesses are then replaced: right with the chance that `oracle` says."""

    def __init__(self, *given: Any, oracle: Oracle, **named: Any) -> None:
        super().__init__(*given, **named)
        self._oracle = oracle

    def pick(self, rows: Sequence[SpeculatingRow], place: int, logits: mx.array) -> mx.array:
        """See `DraftProposer`."""
        return self._oracle.replaced(rows, place, super().pick(rows, place, logits)[:, None])[:, 0]


class MtpOracle(MtpProposer):
    """The same of an MTP head."""

    def __init__(self, *given: Any, oracle: Oracle) -> None:
        super().__init__(*given)
        self._oracle = oracle

    def guess(self, one: Pass, rows: Sequence[SpeculatingRow | None], most: int) -> mx.array:
        """See `MtpProposer`."""
        return self._oracle.replaced(rows, 0, super().guess(one, rows, most))


@dataclass
class Asked:
    """What one stream asks for in a run."""

    prompt: list[int]
    max_tokens: int
    params: SamplingParams
    grammar: BoundGrammar | None = None
    prediction: tuple[int, ...] = ()


def _maker(proposers: list[Proposer] | None) -> Callable[..., Speculation | None]:
    def make(_: TextOptions, vocab_size: int, *, on_cuda: bool) -> Speculation | None:
        return None if proposers is None else Speculation(proposers, make_controller(on_cuda), vocab_size)

    return make


class Contender:
    """An engine with proposers, or without; if it has `options`, with the draft or the head that these lead to.

    What that guesses is replaced by an oracle's tokens.
    """

    def __init__(
        self,
        path: str,
        proposers: list[Proposer] | None,
        *,
        options: TextOptions | None = None,
        oracle: Oracle | None = None,
    ) -> None:
        self._steps: queue.SimpleQueue[tuple[float, EngineStep]] = queue.SimpleQueue()
        drafts = partial(DraftOracle, oracle=oracle or Oracle(0.0))
        # In place of what the options would make.
        with (
            patch("orchard.engine.start.make_speculation", _maker(proposers)),
            patch("orchard.engine.drafting.make_drafter.DraftProposer", drafts),
            patch("orchard.engine.start.MtpProposer", partial(MtpOracle, oracle=oracle or Oracle(0.0))),
        ):
            self._engine: Engine[TextModel] = Engine(
                lambda: _load(path),
                lambda step: self._steps.put((time.perf_counter(), step)),
                options or TextOptions(),
                load_draft=lambda model: load_draft(path, model, options) if options else None,
            )
            self.model = start_engine(self._engine)
        self.verified: dict[str, list[int]] = {}
        self._jobs = 0

    def run(self, asked: Sequence[Asked]) -> tuple[float, list[list[int]]]:
        """Return tokens a second, of all streams together, and the answers."""
        ids = [f"{self._jobs + place}" for place in range(len(asked))]
        self._jobs += len(asked)
        answers: dict[str, list[int]] = {id_: [] for id_ in ids}
        for id_, one in zip(ids, asked, strict=True):
            self._engine.add_job(
                Job(id_, one.prompt, one.params, one.max_tokens, grammar=one.grammar, prediction=one.prediction)
            )
        ended, first, last, before, busy = 0, 0.0, 0.0, 0, True
        while ended < len(ids) or busy:
            now, step = self._steps.get()
            assert not step.failures, step.failures
            busy = step.running + step.waiting > 0
            for drawn in step.tokens:
                answers[drawn.job].append(drawn.sample.token)
                ended += drawn.reason is not None
                if drawn.verified:
                    counts = self.verified.setdefault(drawn.verified.source, [0, 0])
                    counts[0] += drawn.verified.proposed
                    counts[1] += drawn.verified.accepted
            if step.tokens:
                last = now
                if not first and all(answers.values()):
                    first, before = now, sum(map(len, answers.values()))
        tokens = sum(map(len, answers.values())) - before
        return tokens / (last - first) if last > first else math.nan, list(answers.values())

    def close(self) -> None:
        """Wait until the engine has ended."""
        self._engine.close()
        self._engine.join()


def _load(path: str) -> Any:
    """Load a folder as the server does: one with a part that sees, by mlx-vlm."""
    config = json.loads((Path(path) / "config.json").read_text())
    return load_seeing(path) if recognise_kind(config, ()) == "vision" else load_text_model(path)


class Asker:
    """Makes what a case asks for."""

    def __init__(self, model: TextModel, case: str, given: argparse.Namespace) -> None:
        self._model, self._tokens, self._context = model, given.tokens, given.context
        self._make: Callable[[random.Random], Asked] = getattr(self, f"_{case}")
        self._schema = _grammar(model) if case == "json" else None
        self._bias = _unspaced(model) if given.steady else {}

    def ask(self, seed: int) -> Asked:
        """Return another request for each seed."""
        return self._make(random.Random(seed))  # noqa: S311 - guesses, no secrets

    def _said(self, rng: random.Random, text: str) -> Asked:
        return self._chat([{"role": "user", "content": text}], [])

    def _chat(self, messages: list[Any], tools: list[Any]) -> Asked:
        prompt = self._model.tokenizer.apply_chat_template(
            messages, tools=tools or None, add_generation_prompt=True, enable_thinking=False
        )
        return Asked(list(prompt), self._tokens, SamplingParams(seed=0, temperature=0.0))

    def _tools(self, rng: random.Random) -> Asked:
        case = rng.choice([case for case in read("tools") if not case.system])
        tools = [_function(name, tool.about, object_schema(tool.takes)) for name, tool in case.tools.items()]
        return self._chat([{"role": "user", "content": case.steps()[0].say}], tools)

    def _agent(self, rng: random.Random) -> Asked:
        file, other = ("/".join(["src", *rng.sample(_FILES, 3)]) + f"_{rng.randrange(100)}.py" for _ in range(2))
        folder = file.rpartition("/")[0]
        asked = rng.choice(
            (
                f"Read the file {file}",
                f"Move {file} to {other}",
                f"Search for '{rng.choice(_FILES)}' in {folder}",
                f"Run the tests in {file}",
            )
        )
        return self._chat([{"role": "user", "content": asked}], [_tool(name, of) for name, of in _TOOLS.items()])

    def _copy(self, rng: random.Random) -> Asked:
        return self._said(rng, f"Repeat this: {rng.choice(_SENTENCES)}")

    def _rewrite(self, rng: random.Random) -> Asked:
        text = " ".join(rng.sample(_SENTENCES, 4))
        return self._said(rng, f"Copy this text, but replace the word 'the' with 'THE':\n\n{text}")

    def _summary(self, rng: random.Random) -> Asked:
        return self._said(rng, f"Summarise this text in two sentences:\n\n{' '.join(rng.sample(_SENTENCES, 6))}")

    def _talk(self, rng: random.Random) -> Asked:
        return self._said(rng, f"{rng.choice(_QUESTIONS)} Answer number {rng.randrange(10**6)}.")

    def _random(self, rng: random.Random) -> Asked:
        prompt = [rng.randrange(min(self._model.vocab_size, _USUAL_TOKENS)) for _ in range(self._context)]
        return Asked(prompt, self._tokens, SamplingParams(seed=rng.randrange(10**6)))

    _oracle = _adversarial = _edit = _draft = _mtp = _random

    def _json(self, rng: random.Random) -> Asked:
        asked = self._said(rng, f"Describe the object {rng.randrange(10**6)} as JSON.")
        params = SamplingParams(seed=0, temperature=0.0, logit_bias=self._bias)
        return replace(asked, grammar=self._schema, params=params)


def _tool(name: str, arguments: dict[str, str]) -> dict[str, Any]:
    properties = {key: {"type": "string", "description": meaning} for key, meaning in arguments.items()}
    return _function(name, "", {"type": "object", "properties": properties, "required": list(arguments)})


def _function(name: str, about: str, parameters: dict[str, Any]) -> dict[str, Any]:
    described = {"description": about} if about else {}
    return {"type": "function", "function": {"name": name, **described, "parameters": parameters}}


def _unspaced(model: TextModel) -> dict[int, float]:
    """Return a bias by which weights that know no language write as little white space as trained ones do.

    It has few tokens, as its cost is that of its tokens at each place that is drawn for.
    """
    bytes_of = Vocabulary(model.tokenizer).bytes_of
    return {token: -100.0 for token in range(min(model.vocab_size, _USUAL_TOKENS)) if bytes_of(token).isspace()}


def _grammar(model: TextModel) -> BoundGrammar:
    special = special_tokens(model.tokenizer)
    constraints = Constraints(
        model.tokenizer,
        Vocabulary(model.tokenizer).bytes_of,
        model.vocab_size,
        special_tokens=special,
        write=GrammarProcess(special).write,
    )
    names = [f"identification_number_of_the_{part}" for part in ("customer", "order", "warehouse", "delivery")]
    item = {name: {"enum": ["not known", "not given"]} for name in names}
    schema = {"type": "object", "properties": item, "required": names, "additionalProperties": False}
    constraint = constraints.describe(
        Generate(grammar=Wanted("json_schema", schema, "response_format")), choose_family(""), ""
    )
    grammar = constraint and constraints.compile(constraint)
    assert grammar
    return grammar


def _edited(answer: Sequence[int], rng: random.Random) -> tuple[int, ...]:
    """Return a text of which nine tenths are the answer: of each forty tokens, four are others."""
    return tuple(rng.randrange(256) if place % 40 < 4 else token for place, token in enumerate(answer))


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95% interval of the median, by the ranks of the values (binomial, no distribution assumed)."""
    ordered, count = sorted(values), len(values)
    skip = -1
    below = 0.0
    while (below := below + math.comb(count, skip + 1) / 2**count) <= 0.025:
        skip += 1
    return ordered[max(skip, 0)], ordered[-1 - max(skip, 0)]


def proposers_of(case: str, oracle: Oracle) -> list[Proposer]:
    """Return who proposes in a case."""
    if case in ("oracle", "adversarial"):
        return [oracle]
    if case in ("draft", "mtp"):
        return []
    return [ForcedProposer()] if case == "json" else [NgramProposer()]


def measure(path: str, case: str, streams: int, given: argparse.Namespace) -> dict[str, Any]:
    """Run the pairs of a case; return its figures."""
    oracle = Oracle(0.0 if case == "adversarial" else given.acceptance)
    options = TextOptions(num_draft_tokens=given.draft_tokens) if case == "mtp" else None
    if case == "draft":
        options = TextOptions(draft_model_path=given.draft, num_draft_tokens=given.draft_tokens)
    off = Contender(path, None)
    on = Contender(path, proposers_of(case, oracle), options=options, oracle=oracle)
    asker = Asker(off.model, case, given)
    rates: list[tuple[float, float]] = []
    same = 0
    for pair in range(given.settle + given.pairs):
        asked = [asker.ask(1000 * pair + stream) for stream in range(streams)]
        if case in ("oracle", "adversarial", "edit", "draft", "mtp"):
            known = off.run(asked)[1]
            on.run([replace(one, max_tokens=1) for one in asked])  # so that both have cached the prompts
            oracle.answers = {tuple(one.prompt): answer for one, answer in zip(asked, known, strict=True)}
        if case == "edit":
            edits = random.Random(pair)  # noqa: S311 - guesses, no secrets
            asked = [replace(one, prediction=_edited(text, edits)) for one, text in zip(asked, known, strict=True)]
        found = {id(one): one.run(asked) for one in ((off, on) if pair % 2 else (on, off))}
        if pair >= given.settle and not math.isnan(found[id(off)][0] + found[id(on)][0]):
            rates.append((found[id(off)][0], found[id(on)][0]))
            same += found[id(off)][1] == found[id(on)][1]
    ratios = [on_rate / off_rate for off_rate, on_rate in rates]
    low, high = median_interval(ratios)
    off.close()
    on.close()
    return {
        "off_tokens_s": round(statistics.median(rate for rate, _ in rates), 1),
        "on_tokens_s": round(statistics.median(rate for _, rate in rates), 1),
        "ratio": round(statistics.median(ratios), 3),
        "interval": [round(low, 3), round(high, 3)],
        "pairs": len(rates),
        "same": same,
        "proposed_accepted": on.verified,
    }


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="demo")
    parser.add_argument(
        "--cases", nargs="+", default=["agent", "tools", "copy", "oracle", "adversarial", "edit", "json", "draft"]
    )
    parser.add_argument("--streams", nargs="+", type=int, default=[1])
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--settle", type=int, default=3, help="pairs before the first that counts")
    parser.add_argument("--tokens", type=int, default=128, help="the most tokens of an answer")
    parser.add_argument("--context", type=int, default=256, help="tokens of a random prompt")
    parser.add_argument("--acceptance", type=float, default=0.8, help="the share of right guesses of the oracle")
    parser.add_argument("--steady", action="store_true", help="make random weights certain of the next token")
    parser.add_argument("--draft", help="the draft model: a name, an id or a folder")
    parser.add_argument(
        "--draft-tokens", type=int, default=4, help="the most tokens that the draft model or the head guesses in a step"
    )
    given = parser.parse_args()
    entry = resolve_model(given.model)
    with tempfile.TemporaryDirectory() as folder:
        path = steady_copy(entry.path, Path(folder) / "steady") if given.steady else entry.path
        given.draft = resolve_model(given.draft).path if given.draft else noisy_copy(path, Path(folder) / "draft")
        _measure_all(entry.id, path, given)


def _measure_all(name: str, path: str, given: argparse.Namespace) -> None:
    for case in given.cases:
        for streams in given.streams:
            line = {"benchmark": "speculation", "model": name, "case": case, "streams": streams}
            if case in ("oracle", "draft", "mtp"):
                line["acceptance"] = given.acceptance
            print(json.dumps(line | measure(path, case, streams, given)), flush=True)


if __name__ == "__main__":
    main()
