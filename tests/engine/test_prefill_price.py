"""The price of prefill, fitted to devices whose prices are known."""

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orchard.engine.batching.batched_cache import pass_size
from orchard.engine.prefill_price import LEAST_TOKENS, Chunk, PrefillLap, PrefillPrice

GAP = 0.06


class Device:
    """Computes a chunk in a known time."""

    def __init__(self, token: float, pair: float, fixed: float = 0.0) -> None:
        self.token, self.pair, self.fixed = token, pair, fixed

    def seconds(self, tokens: int, start: int) -> float:
        return self.fixed + tokens * self.token + tokens * (start + tokens / 2) * self.pair


def read_prompt(price: PrefillPrice, device: Device, length: int, noise: random.Random) -> list[tuple[int, float]]:
    """Read a prompt in the chunks that the price allows; return the tokens and the seconds of each."""
    found, start = [], 0
    while start < length:
        tokens = min(max(price.tokens(price.free_seconds, start), LEAST_TOKENS), 2048, length - start)
        seconds = device.seconds(tokens, start) * noise.uniform(0.9, 1.1)
        price.add(Chunk().join(tokens, start), seconds + price.decode_seconds)
        found.append((tokens, seconds))
        start += tokens
    return found


@given(
    st.floats(2e-6, 1e-3),
    st.floats(1000, 1e6),
    st.floats(0, 0.01),
    st.floats(0.2, 5),
    st.integers(0, 2**32),
)
@example(4.2e-5, 58139, 0.0, 0.22, 33)
@example(3.5e-5, 22928, 0.0, 0.22, 47)
def test_chunks_come_to_take_the_time_that_is_left(
    token: float, even: float, fixed: float, error: float, seed: int
) -> None:
    """Most of them, also if the rate that was measured at load is wrong by far, and one step is interrupted.

    `even`: the context at which attention takes as long as the products.
    """
    device, noise = Device(token, token / even, fixed), random.Random(seed)
    price = PrefillPrice(1 / (token * error), GAP)
    for _ in range(20):
        price.add_decode(0.01)
    read_prompt(price, device, 8000, noise)
    price.add(Chunk().join(512, 512), 3.0)
    chunks = [chunk for _ in range(2) for chunk in read_prompt(price, device, 16000, noise)[:-1]]
    left = GAP - 0.01
    longest = max(1.5 * left, device.seconds(LEAST_TOKENS, 16000) * 1.1)
    assert sum(seconds > longest for _, seconds in chunks) <= 0.5 * len(chunks)
    short = [tokens for tokens, seconds in chunks if seconds < 0.4 * left - fixed and LEAST_TOKENS < tokens < 2048]
    assert len(short) <= 0.5 * len(chunks)


def test_a_sample_that_is_far_too_short_does_not_outweigh_the_others() -> None:
    """What is left of a step after the time of decode may be next to nothing, by chance."""
    price = PrefillPrice(6000, GAP)
    for _ in range(32):
        price.add_decode(0.03)
    before = price.tokens(price.free_seconds, 0)
    price.add(Chunk().join(64, 0), 0.030001)
    assert price.tokens(price.free_seconds, 0) <= 4 * before


def test_the_time_of_decode_is_forgotten_once_a_step_takes_less() -> None:
    """While prompts never stop, no step without prefill shows that rows have ended."""
    price = PrefillPrice(6000, GAP)
    for _ in range(32):
        price.add_decode(0.1)
    for _ in range(40):
        tokens = max(price.tokens(price.free_seconds, 0), LEAST_TOKENS)
        price.add(Chunk().join(tokens, 0), 0.01 + tokens / 6000)
    assert price.tokens(price.free_seconds, 0) >= 192


def test_a_pass_that_takes_long_by_itself_reads_many_tokens() -> None:
    """Smaller chunks would not make the gaps shorter."""
    price, device = PrefillPrice(50_000, GAP), Device(3e-6, 0.0, fixed=0.06)
    for _ in range(20):
        price.add_decode(0.006)
    for _ in range(4):
        read_prompt(price, device, 16000, random.Random(1))
    assert price.tokens(price.free_seconds, 4000) >= 2048


def test_a_quarter_of_the_gap_is_left_to_prefill_if_decode_takes_all_of_it() -> None:
    price = PrefillPrice(10_000, GAP)
    assert price.free_seconds == GAP
    for _ in range(9):
        price.add_decode(0.1)
    assert price.free_seconds == GAP / 4


def test_sizes_recur() -> None:
    price = PrefillPrice(1_000_000, GAP)
    sizes = {price.tokens(seconds / 1e6, 0) for seconds in range(1, 60_000, 7)}
    assert all(pass_size(0, size)[0] == size for size in sizes if size >= 2 * LEAST_TOKENS)
    assert len(sizes) < 64


@pytest.mark.parametrize("start", [0, 10_000])
def test_a_few_tokens_say_nothing_about_the_price(start: int) -> None:
    price = PrefillPrice(10_000, GAP)
    before = price.tokens(GAP, start)
    price.add(Chunk().join(LEAST_TOKENS - 1, start), 0.05)
    assert price.tokens(GAP, start) == before


class Steps:
    """Plays the steps of a runner to a `PrefillLap`."""

    def __init__(self) -> None:
        self.now = 100.0
        self.reads = 0
        self.price = PrefillPrice(10_000, GAP)
        self.lap = PrefillLap(self.price, lambda: self.now)

    def step(self, seconds: float, tokens: int = 0, *, waits: bool = True) -> None:
        if tokens:
            self.lap.note(tokens, 0)
        self.now += seconds
        self.reads += waits
        self.lap.end(self.reads)


def test_a_step_takes_the_chunk_before_it_and_the_pass_of_the_rows() -> None:
    steps = Steps()
    for _ in range(8):
        steps.step(0.01)
    assert steps.price.decode_seconds == pytest.approx(0.01)
    steps.step(0.01, 256)
    for _ in range(40):
        steps.step(0.01 + 0.016, 256)
    assert steps.price.seconds(256, 0) == pytest.approx(0.016, rel=0.1)
    steps.step(0.0001, waits=False)
    steps.step(0.5)  # it still waits for a chunk
    steps.step(0.01)
    assert steps.price.decode_seconds == pytest.approx(0.01)


def test_steps_with_other_work_and_steps_that_wait_for_no_row_say_nothing() -> None:
    steps = Steps()
    expected = steps.price.seconds(256, 0)
    for _ in range(4):
        steps.step(0.0001, 256, waits=False)
    for _ in range(4):
        steps.lap.disturb()
        steps.step(0.5, 256)
    steps.step(0.0, 256, waits=False)
    steps.step(0.5, 256)
    steps.step(0.0, waits=False)
    assert steps.price.seconds(256, 0) == expected
