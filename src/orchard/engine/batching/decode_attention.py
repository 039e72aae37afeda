"""Attention on CUDA for one or a few new tokens per row, with rows of different lengths.

On CUDA, MLX 0.32.4's own kernel for one token takes no mask. So for rows of different lengths, each layer would need a
product, a choice, a softmax and another product. This kernel gets the rows' lengths instead, and reads nothing beyond
them. It sums in float32, like FlashAttention's softmax (https://arxiv.org/abs/2205.14135); long rows are divided into
parts, which a second kernel joins (https://pytorch.org/blog/flash-decoding/).
"""

from functools import cache
from typing import Any

import mlx.core as mx

from orchard.engine.batching.batched_cache import Lengths, PlacedArrays
from orchard.engine.batching.model import cuda_kernel

_WARPS = 32
_PLACES_IN_ONE_PART = 1024
_PLACES_OF_A_PART = 512
_MAX_PARTS = 32
_MAX_QUERIES = 16  # per row; each reads the row's keys and values again

# A block computes one query of one head of one row; its warps share the places, the lanes of a warp share the width.
_ATTEND_SOURCE = """
  constexpr int PER_LANE = WIDTH / 32;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int asked_of_row = queries_shape[2], heads = queries_shape[1], parts = gridDim.z;
  const int head = blockIdx.x / asked_of_row, place_in_row = blockIdx.x % asked_of_row;
  const int row = blockIdx.y, part = blockIdx.z;
  const int kv_heads = keys_shape[1], places = keys_shape[2];
  const int held = static_cast<int>(lengths[row]) + place_in_row + 1;
  const int count = held < places ? held : places;
  const int64_t first = (int64_t(row) * kv_heads + head / (heads / kv_heads)) * places;
  const T* key = keys + first * WIDTH + lane * PER_LANE;
  const T* value = values + first * WIDTH + lane * PER_LANE;
  const int64_t asked = int64_t(row) * gridDim.x + blockIdx.x;
  const T* own = queries + asked * WIDTH + lane * PER_LANE;
  float query[PER_LANE], sum[PER_LANE];
  #pragma unroll
  for (int i = 0; i < PER_LANE; i++) {
    query[i] = SCALE * 1.44269504089f * static_cast<float>(own[i]);  // powers of two are cheaper than of e
    sum[i] = 0.f;
  }
  float most = -3e38f, weight = 0.f;
  for (int place = part * WARPS + warp; place < count; place += parts * WARPS) {
    if (place < HIDDEN) continue;
    const int64_t at = int64_t(place) * WIDTH;
    float score = 0.f;
    #pragma unroll
    for (int i = 0; i < PER_LANE; i++) score += query[i] * static_cast<float>(key[at + i]);
    #pragma unroll
    for (int step = 16; step > 0; step /= 2) score += __shfl_xor_sync(0xffffffff, score, step);
    const float higher = fmaxf(most, score);
    const float kept = exp2f(most - higher), added = exp2f(score - higher);
    most = higher;
    weight = weight * kept + added;
    #pragma unroll
    for (int i = 0; i < PER_LANE; i++) sum[i] = sum[i] * kept + added * static_cast<float>(value[at + i]);
  }
  __shared__ float mosts[WARPS], weights[WARPS], sums[WARPS][WIDTH];
  if (lane == 0) { mosts[warp] = most; weights[warp] = weight; }
  #pragma unroll
  for (int i = 0; i < PER_LANE; i++) sums[warp][lane * PER_LANE + i] = sum[i];
  __syncthreads();
  float highest = mosts[lane];
  #pragma unroll
  for (int step = 16; step > 0; step /= 2) highest = fmaxf(highest, __shfl_xor_sync(0xffffffff, highest, step));
  float total = weights[lane] * exp2f(mosts[lane] - highest);
  #pragma unroll
  for (int step = 16; step > 0; step /= 2) total += __shfl_xor_sync(0xffffffff, total, step);
  const int64_t result = asked * parts + part;
  for (int i = threadIdx.x; i < WIDTH; i += WARPS * 32) {
    float joined = 0.f;
    for (int of = 0; of < WARPS; of++) joined += sums[of][i] * exp2f(mosts[of] - highest);
    attended[result * WIDTH + i] = static_cast<OUT>(parts == 1 ? joined / total : joined);
  }
  if (parts > 1 && threadIdx.x == 0) { softmax[result * 2] = highest; softmax[result * 2 + 1] = total; }
"""
_JOIN_SOURCE = """
  const int64_t result = blockIdx.x;
  const int count = parts_shape[2];  // not in the template: each value would be compiled, which takes seconds
  float highest = -3e38f, total = 0.f, joined = 0.f;
  for (int part = 0; part < count; part++) highest = fmaxf(highest, softmax[(result * count + part) * 2]);
  for (int part = 0; part < count; part++) {
    const float kept = exp2f(softmax[(result * count + part) * 2] - highest);
    total += softmax[(result * count + part) * 2 + 1] * kept;
    joined += parts[(result * count + part) * WIDTH + threadIdx.x] * kept;
  }
  attended[result * WIDTH + threadIdx.x] = static_cast<T>(joined / total);
"""


def can_attend_rows(queries: mx.array, keys: Any, layer: Any, mask: Any) -> bool:
    """Return whether `attend_rows` can compute the attention of `queries` (rows, heads, n, width).

    It can for up to 16 tokens per row if the model passes `keys` and `mask` on unchanged from the batched layer, and
    the mask hides only what follows each token and perhaps the first place.
    """
    return (
        isinstance(layer, PlacedArrays)
        and len(layer.arrays) == 2  # not quantised
        and queries.shape[2] == layer.lengths.count <= _MAX_QUERIES
        and keys is layer.last_fetch[0]
        and count_hidden_places(mask, layer.lengths, keys.shape[2]) is not None
        and queries.shape[3] % 32 == 0
        and queries.shape[3] <= 256
        and all(array.shape[3] == queries.shape[3] and array.dtype == queries.dtype for array in layer.arrays)
    )


def count_hidden_places(mask: Any, lengths: Lengths, size: int) -> int | None:
    """Return how many first places a mask hides besides what follows each token; None: it hides something else."""
    if mask is None or isinstance(mask, str):
        return 0 if (lengths.count == 1 if mask is None else lengths.equal) else None
    return next((hidden_count for hidden_count in (0, 1) if mask is lengths.cached_mask(size, hidden_count)), None)


def attend_rows(queries: mx.array, layer: PlacedArrays, scale: float, mask: Any = None) -> mx.array:
    """Return the attention, (rows, heads, n, width), of each row's newest tokens to the row's tokens in `layer`.

    `can_attend_rows` must have returned True for these arguments.
    """
    rows, heads, count, width = queries.shape
    reach = layer.last_fetch[0].shape[2]
    hidden_count = count_hidden_places(mask, layer.lengths, reach)
    parts = 1 if reach <= _PLACES_IN_ONE_PART else min(_MAX_PARTS, -(-reach // _PLACES_OF_A_PART))
    out = queries.dtype if parts == 1 else mx.float32
    attended, softmax = _attend_kernel(float(scale))(
        inputs=[queries, *layer.arrays, layer.lengths.array],
        template=[("T", queries.dtype), ("OUT", out), ("WIDTH", width), ("WARPS", _WARPS), ("HIDDEN", hidden_count)],
        grid=(_WARPS * 32 * heads * count, rows, parts),
        threadgroup=(_WARPS * 32, 1, 1),
        output_shapes=[(rows, heads * count, parts, width), (rows, heads * count, parts, 2) if parts > 1 else (1,)],
        output_dtypes=[out, mx.float32],
    )
    if parts > 1:
        (attended,) = _join_kernel()(
            inputs=[attended, softmax],
            template=[("T", queries.dtype), ("WIDTH", width)],
            grid=(width * rows * heads * count, 1, 1),
            threadgroup=(width, 1, 1),
            output_shapes=[(rows, heads, count, width)],
            output_dtypes=[queries.dtype],
        )
    result: mx.array = attended.reshape(rows, heads, count, width)
    return result


@cache
def _attend_kernel(scale: float) -> Any:
    source = _ATTEND_SOURCE.replace("SCALE", f"{scale!r}f")
    return cuda_kernel("decode_attention", ["queries", "keys", "values", "lengths"], ["attended", "softmax"], source)


@cache
def _join_kernel() -> Any:
    return cuda_kernel("decode_attention_join", ["parts", "softmax"], ["attended"], _JOIN_SOURCE)
