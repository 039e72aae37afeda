"""How fast a model that generates text is here, beside the library's own loop and perhaps another server."""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from orchard.cli.bench import LoadProfile, measure_scenarios, new_seed
from orchard.cli.bench_client import BenchClient, Figures
from orchard.cli.verify.proof import Proof, check
from orchard.cli.verify.subject import Subject
from orchard.core.errors import OrchardError

_SHORT_LOAD = LoadProfile(max_tokens=48, prompt_tokens=64, prefix_tokens=400)
_LONG_LOAD = LoadProfile(max_tokens=128, prompt_tokens=256, prefix_tokens=2000)
_SHORT_RATE = 100.0  # of a device that is fast enough for these lengths in a minute; tokens per second
_LEAST_TOKENS = 8
_NO_END = {"ignore_eos": True}  # so that an answer is as long as the bare loop's
_SLOWER = 0.9  # of the bare loop's rate: less is slower, unless its rounds differ as much
_ORCHARD = "orchard"
_STREAMS, _FIRSTS, _GAPS = ("c1", "c8", "c32"), ("shared", "growing"), ("long",)
_SHORTER = 0.9
_OVERLOADED = "close other programs and run it again; if it stays, please report it"


SPEED_TOKENS = 32
"""How many tokens of the bare loop are timed."""


@check("streams", "fast")
async def check_streams(subject: Subject) -> Proof:
    """Measure tokens per second with 1, 8 and 32 streams, beside the library's own loop."""
    measured = await _measure(subject, _STREAMS, rounds=5 if subject.long else 2)
    figures, seen = measured.rates()
    seen = f"tokens/s: {seen}"
    single = [one.stream_tokens_s or 0.0 for one in measured.figures[_ORCHARD, "c1"]]
    if not subject.bare:
        return measured.proof(seen, figures)
    bare = subject.bare.rates
    figures |= {"orchard one stream tokens/s": statistics.median(single), "bare tokens/s": statistics.median(bare)}
    limit = subject.bare.bandwidth / subject.bare.weights_bytes
    figures["limit tokens/s"] = limit
    seen += f"; after the first token, one stream {_spread(single)}, and the library's own loop {_spread(bare)}; "
    seen += f"reading the weights once for each token allows {limit:,.0f}"
    proof = measured.proof(seen, figures)
    if proof.status == "ok" and max(single) < _SLOWER * min(bare):
        seen = f"slower than the library: {proof.seen}"
        return Proof(status="problem", seen=seen, advice=_OVERLOADED, figures=figures)
    return proof


@check("first token", "fast")
async def check_first_token(subject: Subject) -> Proof:
    """Measure the time to the first token: many users of one prefix, and a growing conversation."""
    measured = await _measure(subject, _FIRSTS, rounds=3 if subject.long else 1)
    figures, seen = measured.first_tokens()
    return measured.proof(seen, figures)


@check("gaps", "fast")
async def check_gaps(subject: Subject) -> Proof:
    """Measure the longest gap in running streams while a long prompt is read."""
    measured = await _measure(subject, _GAPS, rounds=3 if subject.long else 1)
    figures, seen = measured.gaps()
    return measured.proof(seen, figures)


@check("other server", "fast", stage="stopped")
async def check_other_server(subject: Subject) -> Proof:
    """Measure another server after Orchard's has ended, because memory does not hold both models."""
    measured = await _measure(subject, (*_STREAMS, *_FIRSTS, *_GAPS), rounds=3 if subject.long else 1)
    told = [measured.rates(), measured.first_tokens(), measured.gaps()]
    figures = {name: figure for found, _ in told for name, figure in found.items()}
    seen = "; ".join(seen for _, seen in told)
    return measured.proof(f"after Orchard, as memory may not hold both models: tokens/s: {seen}", figures)


@check("load", "fast")
async def check_load(subject: Subject) -> Proof:
    """Compare the seconds of the load with the library's."""
    stats = (await subject.read("/v1/stats"))["models"][subject.served_name]
    figures: dict[str, float | None] = {"load_seconds": stats["load_seconds"]}
    seen = f"loaded in {stats['load_seconds']:.2f} s"
    if subject.bare:
        figures |= {"bare_load_seconds": subject.bare.load_seconds}
        seen += f"; the library takes {subject.bare.load_seconds:.2f} s, with its import, and reads from the disk first"
    return Proof(status="ok", seen=seen, figures=figures)


class _Measured(Struct):
    """Figures by server and scenario. `refusal`: why the other server could not be measured."""

    figures: defaultdict[tuple[str, str], list[Figures]] = field(default_factory=lambda: defaultdict(list))
    refusal: str = ""

    def rates(self) -> tuple[dict[str, float | None], str]:
        """Return the tokens per second of all streams together, and say them."""
        return self._tell(_STREAMS, lambda one: one.tokens_s, lambda name, rate: f"{rate} with {name[1:]}", "tokens/s")

    def first_tokens(self) -> tuple[dict[str, float | None], str]:
        """Return the times to the first token, and say them."""
        names = {"shared": "16 users with one prefix", "growing": "the next turn of a conversation"}
        return self._tell(_FIRSTS, lambda one: one.ttft_p50_ms, lambda name, time: f"{names[name]} {time} ms", "ms")

    def gaps(self) -> tuple[dict[str, float | None], str]:
        """Return the longest gaps in running streams, and say them."""
        return self._tell(_GAPS, lambda one: one.gap_max_ms, lambda _, gap: f"longest gap {gap} ms", "ms")

    def _tell(
        self,
        scenarios: Sequence[str],
        figure: Callable[[Figures], float | None],
        phrase: Callable[[str, str], str],
        unit: str,
    ) -> tuple[dict[str, float | None], str]:
        figures: dict[str, float | None] = {}
        told: defaultdict[str, list[str]] = defaultdict(list)
        for (server, scenario), rounds in self.figures.items():
            values = [value for one in rounds if (value := figure(one)) is not None]
            if scenario in scenarios and values:
                figures[f"{server} {scenario.removeprefix('c')} {unit}"] = statistics.median(values)
                told[server].append(phrase(scenario, _spread(values)))
        return figures, "; ".join(f"{server}: {', '.join(those)}" for server, those in told.items())

    def proof(self, seen: str, figures: dict[str, float | None]) -> Proof:
        """Return what was found; a problem only if requests to Orchard failed."""
        failed = {server: one for (server, _), rounds in self.figures.items() for one in rounds if one.failed}
        notes = [
            f"{server}: {one.failed} of {one.requests} requests failed ({one.error})" for server, one in failed.items()
        ]
        seen = "; ".join(filter(None, (seen, self.refusal, *notes, self._shorter())))
        if _ORCHARD in failed:
            return Proof(status="problem", seen=seen, advice="orchard doctor, and please report it", figures=figures)
        return Proof(status="ok", seen=seen, figures=figures)

    def _shorter(self) -> str:
        """Say so if the other server's answers are shorter, as its rates then suffer from each first token."""
        tokens = {server: rounds[0].tokens for (server, scenario), rounds in self.figures.items() if scenario == "c1"}
        own = tokens.pop(_ORCHARD, 0)
        return "; ".join(
            f"{server} ended its answers after {other} of {own} tokens, which lowers its rates"
            for server, other in tokens.items()
            if other < _SHORTER * own
        )


async def _measure(subject: Subject, scenarios: Sequence[str], rounds: int) -> _Measured:
    """Run scenarios of `orchard bench` in rounds, in turn on the server under test, if it runs, and the other one."""
    found = _Measured()
    servers: dict[str, tuple[str, str | None, str]] = {}
    if subject.url:
        servers[_ORCHARD] = subject.url, subject.keys[0], subject.served_name
    if subject.other and subject.other.apart != bool(subject.url):
        servers[subject.other.title] = subject.other.url, None, subject.other.model
    for _ in range(rounds):
        load = replace(_load_profile(subject), seed=new_seed())
        for server, (url, key, model) in servers.items():
            if server != _ORCHARD and found.refusal:
                continue
            try:
                figures = await _run_scenarios(url, key, model, load, scenarios)
            except OrchardError as error:
                if server == _ORCHARD:
                    raise
                found.refusal = f"{server} can't be measured: {error.message}"
                continue
            for one in figures:
                found.figures[server, one.scenario].append(one)
    return found


async def _run_scenarios(
    url: str, key: str | None, model: str, load: LoadProfile, scenarios: Sequence[str]
) -> list[Figures]:
    async with BenchClient(url, key, _NO_END) as client:
        await client.choose_model(model)
        figures: list[Figures] = []
        await measure_scenarios(client, load, scenarios, figures.append)
        return figures


def _load_profile(subject: Subject) -> LoadProfile:
    """Return the lengths of prompts and answers: shorter ones if the device is slow, unless all time is given.

    The longest prompt is twice a prefix, and the longest answer has sixteen times as many tokens as others.
    """
    rate = statistics.median(subject.bare.rates) if subject.bare else _SHORT_RATE
    load, share = (_LONG_LOAD, 1.0) if subject.long else (_SHORT_LOAD, min(1.0, rate / _SHORT_RATE))
    window = subject.entry.context_window or math.inf
    lengths = ((load.max_tokens, 20), (load.prompt_tokens, 4), (load.prefix_tokens, 4))
    answer, prompt, prefix = (max(_LEAST_TOKENS, round(min(share * length, window / part))) for length, part in lengths)
    return LoadProfile(max_tokens=answer, prompt_tokens=prompt, prefix_tokens=prefix)


def _spread(values: Sequence[float]) -> str:
    """Return the median, and the range if there is one."""
    middle = f"{statistics.median(values):,.1f}"
    return f"{middle} ({min(values):,.1f} to {max(values):,.1f})" if len(values) > 1 else middle
