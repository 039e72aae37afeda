"""How long prefill takes beside running rows: measured while serving, so that a step takes what its time allows.

A step that reads n tokens after c earlier ones takes `pass_seconds` + n * `token` + n * (c + n / 2) * `pair` seconds:
launches and what else a pass costs, products of matrices, and attention. The three follow from the latest steps by
least squares of the relative errors, so that a step that was interrupted counts little.
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
_LEAST_TOKEN_SECONDS = 1e-9
_LEAST_SECONDS = 1e-6
_MOST_GAIN = 4  # how many times as fast as expected a chunk may be
_LEAST_SHARE = 0.25  # of the longest gap, for prefill, if decode itself takes too long
_PAIR_PENALTY = 200  # keeps the price of pairs low while the samples are too similar to show it
_PASS_PENALTY = 0.3  # does the same for the price of a pass
_KEPT_BITS = 2  # of a chunk's size: to such sizes, passes are padded
_STEPS_UNTIL_PLAIN = 2  # after prefill: the first ones still wait for it


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
        self._decode: deque[float] = deque(maxlen=_MOST_SAMPLES)
        self._rate = 0.0
        self.begin(tokens_per_second)

    def begin(self, tokens_per_second: float) -> None:
        """Begin again with this speed, unless it is the same as before."""
        if tokens_per_second == self._rate:
            return
        self._rate, gap = tokens_per_second, self._longest_gap
        self._penalties = [[_PASS_PENALTY / gap, 0.0, 0.0], [0.0, 0.0, _PAIR_PENALTY * tokens_per_second]]
        first = Chunk(tokens_per_second * gap), gap
        self._samples: deque[tuple[Chunk, float]] = deque([first], maxlen=_MOST_SAMPLES)
        self._pass_seconds, self._token, self._pair = 0.0, 1 / tokens_per_second, 0.0
        self._is_pass_known = False

    @property
    def decode_seconds(self) -> float:
        """The seconds of a step without prefill; 0: not measured yet."""
        return median_low(self._decode) if self._decode else 0.0

    @property
    def free_seconds(self) -> float:
        """The seconds for the tokens of a step's prefill, so that no row waits longer than the longest gap.

        If a pass costs more than half of that by itself, its tokens may take as long again. While chunks of one size
        don't show whether it does, smaller ones do.
        """
        left = self._longest_gap - self.decode_seconds - self._pass_seconds
        return max(left, _LEAST_SHARE * self._longest_gap, self._pass_seconds if self._is_pass_known else 0.0)

    def add_decode(self, seconds: float) -> None:
        """Note the seconds of a step without prefill."""
        self._decode.append(seconds)

    def add(self, chunk: Chunk, seconds: float) -> None:
        """Note the seconds of a chunk and of a step without prefill together."""
        if seconds < self.decode_seconds:  # rows have ended: a step without prefill takes less now
            self._decode.clear()
        if chunk.tokens >= LEAST_TOKENS:
            expected = self._pass_seconds + chunk.tokens * self._token + chunk.pairs * self._pair
            # By relative errors, a sample that is far too short would outweigh all others.
            self._samples.append((chunk, max(seconds - self.decode_seconds, expected / _MOST_GAIN, _LEAST_SECONDS)))
            self._fit()

    def seconds(self, tokens: int, start: int) -> float:
        """Return how long the tokens of a chunk take that comes after `start` tokens."""
        chunk = Chunk().join(tokens, start)
        return chunk.tokens * self._token + chunk.pairs * self._pair

    def tokens(self, seconds: float, start: int) -> int:
        """Return how many tokens after `start` ones can be read in that time, rounded down to a size that recurs."""
        linear = max(self._token + start * self._pair, _LEAST_TOKEN_SECONDS)
        root = linear + math.sqrt(linear * linear + 2 * self._pair * max(seconds, 0.0))
        most = int(2 * max(seconds, 0.0) / root)
        spare_bits = max(most.bit_length() - _KEPT_BITS, 0)
        return most >> spare_bits << spare_bits

    def _fit(self) -> None:
        """Find the prices that fit the samples best; none is negative."""
        relative = [[1 / seconds, chunk.tokens / seconds, chunk.pairs / seconds] for chunk, seconds in self._samples]
        rows = np.array([*relative, *self._penalties])
        wanted = np.array([1.0] * len(relative) + [0.0] * len(self._penalties))
        used = [0, 1, 2]
        while True:
            prices = np.zeros(3)
            prices[used] = np.linalg.lstsq(rows[:, used], wanted)[0]
            if (prices >= 0).all():
                break
            used.remove(int(prices.argmin()))
        self._pass_seconds, self._token, self._pair = map(float, prices)
        # The standard error of the first price, relative to that of a sample, is 1 / |what the others can't explain|.
        unexplained = rows[:, 0] - rows[:, 1:] @ np.linalg.lstsq(rows[:, 1:], rows[:, 0])[0]
        self._is_pass_known = float(np.linalg.norm(unexplained)) * self._pass_seconds > 1


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
        """Note that the current step does other work, too, or that there was some before it."""
        self._disturbed = True

    def end(self, read_draws: int) -> None:
        """End a step. `read_draws`: how many draws have been read so far."""
        now = self._clock()
        seconds, self._ended_at = now - self._ended_at, now
        waited, self._read_draws = read_draws > self._read_draws, read_draws
        chunk, self._chunk = self._chunk, Chunk()
        disturbed, self._disturbed = self._disturbed, False
        before, self._chunk_before = self._chunk_before, None if disturbed or not waited else chunk
        self._plain_steps = 0 if chunk.tokens or disturbed else self._plain_steps + 1
        if chunk.tokens and waited and before and before.tokens and not disturbed:
            self._price.add(before, seconds)
        elif waited and self._plain_steps > _STEPS_UNTIL_PLAIN:
            self._price.add_decode(seconds)
