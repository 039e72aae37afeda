"""How long prefill takes beside running rows: measured while serving, so that a step takes what its time allows.

A chunk of n tokens after c earlier ones takes n * `token` + n * (c + n / 2) * `pair` seconds: products of matrices, and
attention. Both prices follow from the latest steps by least squares of the relative errors, so that a step that was
interrupted counts little.
"""

import math
import time
from collections import deque
from collections.abc import Callable
from statistics import median_low
from typing import NamedTuple

import numpy as np

LEAST_TOKENS = 64
"""The tokens that a step may read of a prompt, however long they take. On a GPU, fewer take about as long."""
_MOST_SAMPLES = 32
_LEAST_SHARE = 0.25  # of the longest gap, for prefill, if decode itself takes too long
_PENALTY_PAIRS = 2000  # keeps the price of pairs low while the samples are too similar to show it
_STEPS_UNTIL_PLAIN = 2  # after prefill: the first ones still wait for it
_KEPT_BITS = 3  # of the size of a chunk: sizes that occur again need no new kernels


class Chunk(NamedTuple):
    """Tokens that were read, and the pairs of such a token and one that it attends to."""

    tokens: float = 0.0
    pairs: float = 0.0

    def join(self, tokens: int, start: int) -> "Chunk":
        """Add `tokens` tokens that come after `start` others."""
        return Chunk(self.tokens + tokens, self.pairs + tokens * (start + tokens / 2))


class PrefillPrice:
    """The prices of prefill, and the seconds that it may take in a step."""

    def __init__(self, tokens_per_second: float, longest_gap: float) -> None:
        """`tokens_per_second`: of a chunk at the beginning of a prompt. `longest_gap`: seconds between two tokens."""
        self._longest_gap = longest_gap
        self._penalty = [0.0, _PENALTY_PAIRS * tokens_per_second / LEAST_TOKENS]
        self._decode: deque[float] = deque(maxlen=_MOST_SAMPLES)
        first = Chunk(LEAST_TOKENS), LEAST_TOKENS / tokens_per_second
        self._samples: deque[tuple[Chunk, float]] = deque([first], maxlen=_MOST_SAMPLES)
        self._token, self._pair = 1 / tokens_per_second, 0.0

    @property
    def decode_seconds(self) -> float:
        """The seconds of a step without prefill; 0: not measured yet."""
        return median_low(self._decode) if self._decode else 0.0

    @property
    def free_seconds(self) -> float:
        """The seconds that prefill may take in a step, so that no row waits longer than the longest gap."""
        return max(self._longest_gap - self.decode_seconds, _LEAST_SHARE * self._longest_gap)

    def add_decode(self, seconds: float) -> None:
        """Note the seconds of a step without prefill."""
        self._decode.append(seconds)

    def add(self, chunk: Chunk, seconds: float) -> None:
        """Note the seconds of a chunk and of a step without prefill together."""
        seconds -= self.decode_seconds
        if seconds > 0 and chunk.tokens >= LEAST_TOKENS:
            self._samples.append((chunk, seconds))
            self._fit()

    def seconds(self, tokens: int, start: int) -> float:
        """Return how long a chunk takes that comes after `start` tokens."""
        chunk = Chunk().join(tokens, start)
        return chunk.tokens * self._token + chunk.pairs * self._pair

    def tokens(self, seconds: float, start: int) -> int:
        """Return how many tokens after `start` ones can be read in that time, rounded down to a size that recurs."""
        linear = self._token + start * self._pair
        root = linear + math.sqrt(linear * linear + 2 * self._pair * max(seconds, 0.0))
        most = int(2 * max(seconds, 0.0) / root)
        spare_bits = max(most.bit_length() - _KEPT_BITS, 0)
        return most >> spare_bits << spare_bits

    def _fit(self) -> None:
        """Find the prices that fit the samples best; neither is negative."""
        relative = [[chunk.tokens / seconds, chunk.pairs / seconds] for chunk, seconds in self._samples]
        rows = np.array([*relative, self._penalty])
        wanted = np.array([1.0] * len(relative) + [0.0])
        token, pair = np.linalg.lstsq(rows, wanted)[0]
        if token < 0 or pair < 0:
            alone = 0 if pair < 0 else 1
            prices = [0.0, 0.0]
            prices[alone] = float(rows[:, alone] @ wanted / (rows[:, alone] @ rows[:, alone]))
            token, pair = prices
        self._token, self._pair = float(token), float(pair)


class PrefillLap:
    """Measures the steps for a price, from the end of one to the end of the next.

    While rows decode, each step with prefill waits for the pass of its rows. Before that pass, the device computes the
    chunk of the step before.
    """

    def __init__(self, price: PrefillPrice, clock: Callable[[], float] = time.perf_counter) -> None:
        self._price = price
        self._clock = clock
        self._ended_at = 0.0
        self._read_draws = 0
        self._chunk = Chunk()
        self._chunk_before: Chunk | None = None  # None: that step did other work, too
        self._plain_steps = 0
        self._disturbed = False

    def note(self, tokens: int, start: int) -> None:
        """Note tokens that the current step reads after `start` others."""
        self._chunk = self._chunk.join(tokens, start)

    def disturb(self) -> None:
        """Note that the current step does other work, too."""
        self._disturbed = True

    def end(self, read_draws: int) -> None:
        """End a step. `read_draws`: how many draws have been read so far."""
        now = self._clock()
        seconds, self._ended_at = now - self._ended_at, now
        waited, self._read_draws = read_draws > self._read_draws, read_draws
        chunk, self._chunk = self._chunk, Chunk()
        before, self._chunk_before = self._chunk_before, None if self._disturbed or not waited else chunk
        self._disturbed = False
        self._plain_steps = 0 if chunk.tokens else self._plain_steps + 1
        if chunk.tokens and waited and before and before.tokens:
            self._price.add(before, seconds)
        elif waited and self._plain_steps > _STEPS_UNTIL_PLAIN:
            self._price.add_decode(seconds)
