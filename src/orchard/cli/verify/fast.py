"""How fast a model that generates text is here, beside the library's own loop and perhaps another server."""

import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from orchard.cli.bench import LoadProfile, measure_scenarios, new_seed
from orchard.cli.bench_client import BenchClient, Figures
from orchard.cli.verify.proof import Proof, check
from orchard.cli.verify.subject import Subject

_SHORT_LOAD = LoadProfile(max_tokens=48, prompt_tokens=64, prefix_tokens=400)
_LONG_LOAD = LoadProfile(max_tokens=128, prompt_tokens=256, prefix_tokens=2000)
_SHORT_RATE = 100.0  # of a device that is fast enough for these lengths in a minute; tokens per second
_LEAST_TOKENS = 8
_NO_END = {"ignore_eos": True}  # so that an answer is as long as the bare loop's
_SLOWER = 0.9  # of the bare loop's rate: less is slower, unless its rounds differ as much
_OVERLOADED = "close other programs and run it again; if it stays, please report it"


SPEED_TOKENS = 32
"""How many tokens of the bare loop are timed."""


@check("streams", "fast")
async def check_streams(subject: Subject) -> Proof:
    """Measure tokens per second with 1, 8 and 32 streams, beside the library's own loop."""
    measured = await _measure(subject, ("c1", "c8", "c32"), rounds=5 if subject.long else 2)
    rates = {key: [one.tokens_s or 0.0 for one in rounds] for key, rounds in measured.items()}
    single = [one.stream_tokens_s or 0.0 for one in measured["orchard", "c1"]]
    figures: dict[str, float | None] = {
        f"{server} {scenario[1:]} tokens/s": statistics.median(those) for (server, scenario), those in rates.items()
    }
    seen = "; ".join(
        f"{server}: " + ", ".join(f"{_spread(rates[server, scenario])} with {scenario[1:]}" for scenario in scenarios)
        for server, scenarios in _by_server(rates)
    )
    seen = f"tokens/s: {seen}"
    if not subject.bare:
        return Proof(status="ok", seen=seen, figures=figures)
    bare = subject.bare.rates
    figures |= {"orchard one stream tokens/s": statistics.median(single), "bare tokens/s": statistics.median(bare)}
    limit = subject.bare.bandwidth / subject.bare.weights_bytes
    figures["limit tokens/s"] = limit
    seen += f"; after the first token, one stream {_spread(single)}, and the library's own loop {_spread(bare)}; "
    seen += f"reading the weights once for each token allows {limit:,.0f}"
    if max(single) < _SLOWER * min(bare):
        return Proof(status="problem", seen=f"slower than the library: {seen}", advice=_OVERLOADED, figures=figures)
    return Proof(status="ok", seen=seen, figures=figures)


@check("first token", "fast")
async def check_first_token(subject: Subject) -> Proof:
    """Measure the time to the first token: many users of one prefix, and a growing conversation."""
    measured = await _measure(subject, ("shared", "growing"), rounds=3 if subject.long else 1)
    firsts = {key: [one.ttft_p50_ms or 0.0 for one in rounds] for key, rounds in measured.items()}
    names = {"shared": "16 users with one prefix", "growing": "the next turn of a conversation"}
    told = [
        f"{server}: {', '.join(f'{names[one]} {_spread(firsts[server, one])} ms' for one in scenarios)}"
        for server, scenarios in _by_server(firsts)
    ]
    figures = {f"{server} {scenario} ms": statistics.median(those) for (server, scenario), those in firsts.items()}
    return Proof(status="ok", seen="; ".join(told), figures={**figures})


@check("gaps", "fast")
async def check_gaps(subject: Subject) -> Proof:
    """Measure the longest gap in running streams while a long prompt is read."""
    measured = await _measure(subject, ("long",), rounds=3 if subject.long else 1)
    gaps = {server: [one.gap_max_ms or 0.0 for one in rounds] for (server, _), rounds in measured.items()}
    seen = "; ".join(f"{server}: longest gap {_spread(those)} ms" for server, those in gaps.items())
    return Proof(
        status="ok", seen=seen, figures={f"{name} ms": statistics.median(those) for name, those in gaps.items()}
    )


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


async def _measure(subject: Subject, scenarios: Sequence[str], rounds: int) -> dict[tuple[str, str], list[Figures]]:
    """Run scenarios of `orchard bench` in rounds, the servers in turn. Return their figures by server and scenario."""
    load = _load_profile(subject)
    found: defaultdict[tuple[str, str], list[Figures]] = defaultdict(list)
    servers: dict[str, tuple[str, str | None, str | None]] = {
        "orchard": (subject.url, subject.keys[0], subject.served_name)
    }
    if subject.against:
        servers["the other server"] = (subject.against, None, None)
    for _ in range(rounds):
        seeded = replace(load, seed=new_seed())
        for server, (url, key, model) in servers.items():
            async with BenchClient(url, key, _NO_END) as client:
                await client.choose_model(model)
                figures: list[Figures] = []
                await measure_scenarios(client, seeded, scenarios, figures.append)
            for one in figures:
                found[server, one.scenario].append(one)
    return found


def _load_profile(subject: Subject) -> LoadProfile:
    """Return the lengths of prompts and answers: shorter ones if the device is slow, unless all time is given."""
    if subject.long:
        return _LONG_LOAD
    rate = statistics.median(subject.bare.rates) if subject.bare else _SHORT_RATE
    share = min(1.0, rate / _SHORT_RATE)
    lengths = (_SHORT_LOAD.max_tokens, _SHORT_LOAD.prompt_tokens, _SHORT_LOAD.prefix_tokens)
    answer, prompt, prefix = (max(_LEAST_TOKENS, round(share * length)) for length in lengths)
    return LoadProfile(max_tokens=answer, prompt_tokens=prompt, prefix_tokens=prefix)


def _by_server(found: Mapping[tuple[str, str], Sequence[float]]) -> Iterator[tuple[str, list[str]]]:
    """Yield each server with its scenarios."""
    for server in dict.fromkeys(name for name, _ in found):
        yield server, [scenario for name, scenario in found if name == server]


def _spread(values: Sequence[float]) -> str:
    """Return the median, and the range if there is one."""
    middle = f"{statistics.median(values):,.1f}"
    return f"{middle} ({min(values):,.1f} to {max(values):,.1f})" if len(values) > 1 else middle
