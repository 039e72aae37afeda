"""Draws tokens by probabilities that are integers.

A token's weight is floor(2^40 p / p_max). Sums of integers don't depend on their order, so a row's draw doesn't depend
on the kernel that is used for a size of batch, nor on blocks. 40 bits are more than the precision of float32.

A draw is a race: each token gets a time from an exponential distribution whose rate is its weight, and the first one
wins, with the probability that is its share of the weights (the Gumbel-max trick, https://arxiv.org/abs/1611.01144).
In a large vocabulary, blocks of tokens race first, then the tokens of the winner. The random numbers don't depend on
the weights. So if logits differ by a rounding, as they may in other company, only a draw in which two tokens or blocks
are nearly as early can change. Inverting the cumulative sum would move the borders of all tokens after the one that
differs.

`n`: the number of rows; `m`: the vocabulary's size or the number of candidates.
"""

import math

import mlx.core as mx
import numpy as np

FRACTION_BITS = 31  # of a share, so that a product with 31 bits of a sum fits an int64
RANDOM_BITS = 63  # of a draw, so that it fits an int64
_WEIGHT_BITS = 40  # with a vocabulary of up to 2^22, a sum stays below 2^62
_BLOCK = 64
_ID_MASK = (1 << 32) - 1
_FEW_PLACES = 4 * _BLOCK  # fewer places race without blocks
_LARGEST_BELOW_ONE = 1 - 2.0**-24  # the greatest float32 below 1
# Of splitmix64 (https://prng.di.unimi.it/splitmix64.c), whose n-th number is a function of n.
_STEP, _FACTOR, _OTHER_FACTOR = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB], np.uint64)


def fraction(value: float) -> int:
    """Return a number of [0, 1] as an integer of `FRACTION_BITS` bits."""
    return round(min(max(value, 0.0), 1.0) * (1 << FRACTION_BITS))


def likelihood(scores: mx.array, temperature: mx.array) -> mx.array:
    """Return probabilities relative to the most likely token's, float32 (n, m). `temperature` is (n, 1)."""
    return mx.exp((scores - mx.max(scores, axis=-1, keepdims=True)) / temperature)


def weigh(relative: mx.array) -> mx.array:
    """Return weights, int64 (n, m), from relative probabilities (n, m)."""
    return (relative * float(1 << _WEIGHT_BITS)).astype(mx.int64)


def leading_ids(values: mx.array, count: int) -> mx.array:
    """Return the ids of the `count` greatest values of each row, int64 (n, count), greatest first; ties by id.

    It sorts only the `count` blocks with the greatest maxima, since no other block can have them.
    """
    size = values.shape[-1]
    ids = mx.arange(size, dtype=mx.int64)
    if 2 * count * _BLOCK < size:
        blocks = _split_into_blocks(values, -mx.inf)
        tops = mx.max(blocks, axis=-1)
        best = _lowest_keys(_sort_keys(tops, mx.arange(tops.shape[-1], dtype=mx.int64)), count) & _ID_MASK
        values = mx.take_along_axis(blocks, best[:, :, None], axis=1).reshape(-1, count * _BLOCK)
        ids = (best[:, :, None] * _BLOCK + mx.arange(_BLOCK, dtype=mx.int64)).reshape(-1, count * _BLOCK)
    return mx.sort(_lowest_keys(_sort_keys(values, ids), count), axis=-1) & _ID_MASK


def nucleus_floor(relative: mx.array, weights: mx.array, top_p: mx.array) -> mx.array:
    """Return the least relative probability that top-p keeps, float32 (n, 1). Tokens (n, m): the most likely first.

    A token is kept if more likely ones have less than `top_p`, int64 (n, 1), of the weight; ties are kept.
    """
    until = mx.cumsum(weights, axis=-1)
    kept = mx.sum(until - weights < _share(until[:, -1:], top_p), axis=-1, keepdims=True)
    return mx.take_along_axis(relative, mx.maximum(kept - 1, 0), axis=-1)


def count_tries(top_p: float, vocab_size: int) -> int:
    """Return how many tries `pick_nucleus` needs to fail less than once in 2^31 draws.

    Each rejected place is uniform in the remaining weight, so there are Poisson(ln(all / nucleus)) rejections.
    """
    mean = min(math.log(1 / max(top_p, 1e-30)), math.log(vocab_size))  # the greatest one is at least 1 / vocab_size
    count, term, left = 0, math.exp(-mean), 1.0 - math.exp(-mean)
    while left > 2.0**-FRACTION_BITS:
        count += 1
        term *= mean / count
        left -= term
    return count + 1


def pick_nucleus(
    relative: mx.array, weights: mx.array, min_p: mx.array, top_p: mx.array, chances: mx.array
) -> mx.array:
    """Draw a place for each row, int64 (n, 1), from those that top-p and min-p, float32 (n, 1), leave, without a sort.

    Draw from all tokens. If the token is in the nucleus, return it; if not, draw again from more likely tokens, which
    include the nucleus: a quickselect whose pivots are the draws. `chances`, int64 (n, t), are the random bits of up to
    t tries, negative if a row has fewer (see `count_tries`); if all fail, the row gets its most likely token.
    """
    times = race_times(chances, weights.shape[-1])
    goal = _share(mx.sum(weights, axis=-1, keepdims=True), top_p)
    left = mx.where(relative >= min_p, weights, 0)
    place, found = mx.argmax(relative, axis=-1, keepdims=True).astype(mx.int64), mx.zeros(goal.shape, mx.bool_)
    for number in range(chances.shape[-1]):
        candidate = pick_places(left, times[:, number])
        left = mx.where(relative > mx.take_along_axis(relative, candidate, axis=-1), weights, 0)
        above = mx.sum(left, axis=-1, keepdims=True)
        inside = ((above < goal) | (above == 0)) & (chances[:, number : number + 1] >= 0)
        place = mx.where(inside & ~found, candidate, place)
        found = found | inside
    return place


def exclude_top_choices(weights: mx.array, threshold: mx.array, keep: mx.array | None, active: mx.array) -> mx.array:
    """Apply XTC: drop tokens above `threshold`, int64 (n, 1), except the least likely of them and those in `keep`.

    `keep` (n, m) and `active` (n, 1) are bool. Return weights, int64 (n, m), as mlx-lm's `apply_xtc` would.
    """
    above = weights > _share(mx.sum(weights, axis=-1, keepdims=True), threshold)
    least = mx.min(mx.where(above, weights, mx.array(1 << 62, mx.int64)), axis=-1, keepdims=True)
    gone = (weights > least) & active
    if keep is not None:
        gone = gone & ~keep
    return mx.where(gone, 0, weights)


def race_times(chances: mx.array, size: int, ids: mx.array | None = None) -> mx.array:
    """Return exponential random numbers of rate 1, float32 (n, t, places), for t draws from `size` places.

    `chances`, int64 (n, t), have `RANDOM_BITS` random bits for each draw. The numbers are for the tokens with `ids`
    (n, size), or for the places if it is None. If there are many places, they are for the blocks, then for the places
    in a block.
    """
    if size >= _FEW_PLACES:
        size = -(-size // _BLOCK) + _BLOCK
        ids = None
    named = mx.arange(size, dtype=mx.int64)[None] if ids is None else ids
    bits = chances.astype(mx.uint64)[:, :, None] + named.astype(mx.uint64)[:, None] * mx.array(_STEP)
    bits = (bits ^ (bits >> 30)) * mx.array(_FACTOR)
    bits = (bits ^ (bits >> 27)) * mx.array(_OTHER_FACTOR)
    share = (bits ^ (bits >> 31)).astype(mx.float32) * 2.0**-64
    return -mx.log1p(-mx.minimum(share, _LARGEST_BELOW_ONE))  # most precise for short times, since they win


def pick_places(weights: mx.array, times: mx.array) -> mx.array:
    """Draw a place for each row, int64 (n, 1), by weight, int64 (n, m). `times` (n, places): see `race_times`."""
    if weights.shape[-1] < _FEW_PLACES:
        return _winners(weights, times)
    blocks = _split_into_blocks(weights, 0)
    count = blocks.shape[1]
    block = _winners(mx.sum(blocks, axis=-1), times[:, :count])
    inside = mx.take_along_axis(blocks, block[:, :, None], axis=1)[:, 0]
    return block * _BLOCK + _winners(inside, times[:, count:])


def _winners(weights: mx.array, times: mx.array) -> mx.array:
    """Return the place of each row's winner, int64 (n, 1)."""
    ends = mx.where(weights > 0, times / weights.astype(mx.float32), mx.inf)
    return mx.argmin(ends, axis=-1, keepdims=True).astype(mx.int64)


def _share(total: mx.array, part: mx.array) -> mx.array:
    """Return floor(total * part / 2^31), without overflow."""
    low = total & ((1 << FRACTION_BITS) - 1)
    return (total >> FRACTION_BITS) * part + ((low * part) >> FRACTION_BITS)


def _split_into_blocks(values: mx.array, filler: float) -> mx.array:
    """Reshape (n, m) to (n, blocks, _BLOCK), padded with `filler`."""
    missing = -values.shape[-1] % _BLOCK
    if missing:
        values = mx.pad(values, [(0, 0), (0, missing)], constant_values=mx.array(filler, values.dtype))
    return values.reshape(values.shape[0], -1, _BLOCK)


def _sort_keys(values: mx.array, ids: mx.array) -> mx.array:
    """Return different integers, int64 (n, m), that sort by descending values, then by ascending ids."""
    bits = values.view(mx.int32)
    rank = mx.where(bits < 0, bits ^ 0x7FFFFFFF, bits).astype(mx.int64)
    return ids - rank * (1 << 32)


def _lowest_keys(keys: mx.array, count: int) -> mx.array:
    return keys if count == keys.shape[-1] else mx.partition(keys, kth=count - 1, axis=-1)[:, :count]
