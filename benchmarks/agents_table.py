"""The figures of benchmarks.agents, and their tables."""

import statistics
from collections.abc import Iterable, Sequence

from msgspec import Struct

from benchmarks.comparison import OURS

BARE = "bare pass"


class Turn(Struct, frozen=True, kw_only=True):
    """One request of a session. Token counts are the server's, None where it tells none."""

    server: str
    round: int
    scenario: str
    agent: int
    turn: int
    ttft_ms: float
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    error: str | None = None

    @property
    def prefilled_tokens(self) -> int | None:
        """How many tokens of the prompt the server had to prefill."""
        return None if self.prompt_tokens is None else self.prompt_tokens - (self.cached_tokens or 0)

    @property
    def group(self) -> str:
        """The scenario; the first request of a session, which nothing is cached for, is apart."""
        opens = self.turn == 0 and self.scenario in ("one", "four")
        return f"{self.scenario}, first request" if opens else self.scenario


def scenario_table(turns: Sequence[Turn]) -> str:
    """Return the medians by scenario as markdown: over the turns of a round, then over the rounds, with their range.

    A ratio is that of our time to first token to the best of the other servers in the same round; bold: ours is less.
    """
    servers = sorted(dict.fromkeys(turn.server for turn in turns), key=lambda server: (server != OURS, server == BARE))
    lines = _head(["scenario", "figure", *servers, "ratio", "over a bare pass"], 2)
    for group in dict.fromkeys(turn.group for turn in turns):
        own = {server: [turn for turn in turns if (turn.server, turn.group) == (server, group)] for server in servers}
        firsts = {server: _by_round(chosen, "ttft_ms") for server, chosen in own.items()}
        others = [firsts[server] for server in servers if server not in (OURS, BARE)]
        cells = [_spread(firsts[server].values()) for server in servers]
        ratios = [_ratios(firsts.get(OURS, {}), others), _ratios(firsts.get(OURS, {}), [firsts.get(BARE, {})])]
        lines.append(_line([group, "first token, ms", *cells, *ratios]))
        for title, field in (("prompt tokens", "prompt_tokens"), ("tokens prefilled", "prefilled_tokens")):
            cells = [_spread(_by_round(own[server], field).values(), digits=0) for server in servers]
            lines.append(_line([group, title, *cells, "", ""]))
        if failed := [sum(turn.error is not None for turn in own[server]) for server in servers]:
            lines += [_line([group, "failed requests", *map(str, failed), "", ""])] if any(failed) else []
    return "\n".join(lines)


def turn_table(turns: Sequence[Turn], scenario: str = "one") -> str:
    """Return a line of medians over the rounds for each request of a scenario: first token, and tokens prefilled."""
    chosen = [turn for turn in turns if turn.scenario == scenario and turn.error is None]
    servers = sorted(dict.fromkeys(turn.server for turn in chosen), key=lambda server: (server != OURS, server == BARE))
    lines = _head(["request", "prompt tokens", *(f"{server}, ms; prefilled" for server in servers)], 0)
    for place in sorted({(turn.agent, turn.turn) for turn in chosen}):
        own = [turn for turn in chosen if (turn.agent, turn.turn) == place]
        cells = [
            f"{_median(own, server, 'ttft_ms', 1)}; {_median(own, server, 'prefilled_tokens', 0)}" for server in servers
        ]
        prompts = _median(own, servers[0], "prompt_tokens", 0)
        lines.append(_line([".".join(str(number + 1) for number in place), prompts, *cells]))
    return "\n".join(lines)


def _by_round(turns: Iterable[Turn], field: str) -> dict[int, float]:
    """Return the median of each round over the requests that did not fail."""
    values: dict[int, list[float]] = {}
    for turn in turns:
        value = getattr(turn, field)
        if turn.error is None and value is not None:
            values.setdefault(turn.round, []).append(value)
    return {number: statistics.median(found) for number, found in values.items()}


def _ratios(ours: dict[int, float], others: Sequence[dict[int, float]]) -> str:
    """Return the ratio of ours to the least of the others, in the rounds that have both."""
    pairs = [(value, [other[number] for other in others if number in other]) for number, value in ours.items()]
    ratios = [value / min(rest) for value, rest in pairs if rest]
    text = _spread(ratios, digits=2)
    return f"**{text}**" if ratios and statistics.median(ratios) < 1 else text


def _spread(values: Iterable[float], digits: int = 1) -> str:
    """Return the median, with the lowest and the highest if there are several."""
    found = sorted(values)
    if not found:
        return ""
    median = f"{statistics.median(found):,.{digits}f}"
    return median if len(found) == 1 else f"{median} ({found[0]:,.{digits}f} to {found[-1]:,.{digits}f})"


def _median(turns: Iterable[Turn], server: str, field: str, digits: int) -> str:
    values = [getattr(turn, field) for turn in turns if turn.server == server]
    known = [value for value in values if value is not None]
    return f"{statistics.median(known):,.{digits}f}" if known else "?"


def _head(titles: Sequence[str], texts: int) -> list[str]:
    return [_line(titles), "|" + "---|" * texts + "---:|" * (len(titles) - texts)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
