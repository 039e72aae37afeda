"""The gated delta rule (https://arxiv.org/abs/2412.06464) on CUDA, as one kernel that reads token after token.

mlx-lm and mlx-vlm have kernels only for Metal. On CUDA they build about ten operations for each token, or compute many
tokens at once by products, whose rounding differs from that of single tokens. `mx.fast.gated_delta_update` takes no
decay per key dimension. This kernel does the same float32 operations in the same order for each token. So tokens give
the same bits one by one or in one pass, alone or in a batch.

The short convolution before the rule is a kernel, too: cuDNN's convolution gets its own CUDA graph in each layer, which
takes the host tens of microseconds, and mlx-vlm builds four operations for single tokens.
"""

import sys
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import mlx.core as mx
from mlx import nn

from orchard.engine.batching.model import cuda_kernel, on_cuda

# The functions that the libraries' `gated_delta_update` calls without Metal. Models import `gated_delta_update` itself
# by its name, so it can't be replaced.
REPLACED_FUNCTIONS = {
    "mlx_lm.models.gated_delta": ("gated_delta_ops",),
    "mlx_vlm.models.gated_delta": ("gated_delta_ops",),
    "mlx_vlm.models.qwen3_5.gated_delta": ("gated_delta_ops", "gated_delta_chunked", "_gated_delta_with_states_ops"),
}
_THREADS = 128
_MOST_KEYS = 512  # the greatest key width at which a row of the state fits into its lanes' registers

# LANES lanes of a warp share one row of a head's state, (VALUES, KEYS), and keep it in registers. Intrinsics
# such as __fmaf_rn say which products and sums are rounded as one; else the compiler would choose.
_SOURCE = """
  constexpr int PER_LANE = KEYS / LANES;
  const int lane = threadIdx.x % LANES;
  const int of_block = (blockIdx.x * blockDim.x + threadIdx.x) / LANES;
  const int row = of_block < VALUES ? of_block : VALUES - 1;  // lanes to spare repeat the last row
  const int head = blockIdx.y, heads = gridDim.y;
  const int tokens = keys_shape[1], key_heads = keys_shape[2];
  const int64_t first = int64_t(blockIdx.z) * tokens;
  const int64_t of_key = (first * key_heads + head / (heads / key_heads)) * KEYS + lane;
  const int64_t of_head = first * heads + head;
  const QUERY* query = queries + of_key;
  const KEY* key = keys + of_key;
  const VALUE* value = values + of_head * VALUES + row;
  const DECAY* kept = decay + (PER_KEY ? of_head * KEYS + lane : of_head);
  const RATE* taken = rate + of_head;
  QUERY* result = output + of_head * VALUES + row;
  const int64_t of_state = ((int64_t(blockIdx.z) * heads + head) * VALUES + row) * KEYS + lane;
  float own[PER_LANE];
  #pragma unroll
  for (int i = 0; i < PER_LANE; i++) own[i] = static_cast<float>(state[of_state + i * LANES]);
  #pragma unroll 1
  for (int token = 0; token < tokens; token++) {
    float answer = 0.f;
    if (IS_READ) {
      float known = 0.f, of_token[PER_LANE];
      #pragma unroll
      for (int i = 0; i < PER_LANE; i++) {
        of_token[i] = static_cast<float>(key[i * LANES]);
        own[i] = __fmul_rn(own[i], static_cast<float>(kept[PER_KEY ? i * LANES : 0]));
        known = __fmaf_rn(own[i], of_token[i], known);
      }
      #pragma unroll
      for (int step = LANES / 2; step > 0; step /= 2)
        known = __fadd_rn(known, __shfl_xor_sync(0xffffffff, known, step));
      const float change = __fmul_rn(__fsub_rn(static_cast<float>(*value), known), static_cast<float>(*taken));
      #pragma unroll
      for (int i = 0; i < PER_LANE; i++) {
        own[i] = __fmaf_rn(of_token[i], change, own[i]);
        answer = __fmaf_rn(own[i], static_cast<float>(query[i * LANES]), answer);
      }
      #pragma unroll
      for (int step = LANES / 2; step > 0; step /= 2)
        answer = __fadd_rn(answer, __shfl_xor_sync(0xffffffff, answer, step));
    }
    if (lane == 0) *result = static_cast<QUERY>(answer);
    KEEP_STATE
    query += key_heads * KEYS;
    key += key_heads * KEYS;
    value += heads * VALUES;
    result += heads * VALUES;
    kept += PER_KEY ? heads * KEYS : heads;
    taken += heads;
  }
  #pragma unroll
  for (int i = 0; i < PER_LANE; i++) new_state[of_state + i * LANES] = static_cast<STATE>(own[i]);
"""
_KEEP_STATE = """
    if (token < STEPS) {
      const int64_t of_token = (int64_t(blockIdx.z) * STEPS + token) * heads + head;
      STATE* kept_state = between + (of_token * VALUES + row) * KEYS + lane;
      #pragma unroll
      for (int i = 0; i < PER_LANE; i++) kept_state[i * LANES] = static_cast<STATE>(own[i]);
    }
"""
_MOST_CONVOLVED = 16  # tokens per row

_CONVOLVE = """
  const int channel = blockIdx.x * blockDim.x + threadIdx.x, token = blockIdx.y, row = blockIdx.z;
  const int held = inputs_shape[1], channels = inputs_shape[2], width = weights_shape[1];
  if (channel >= channels) return;
  const T* input = inputs + (int64_t(row) * held + token) * channels + channel;
  const T* weight = weights + int64_t(channel) * width;
  float sum = 0.f;
  for (int i = 0; i < width; i++)
    sum = __fmaf_rn(static_cast<float>(input[int64_t(i) * channels]), static_cast<float>(weight[i]), sum);
  convolved[(int64_t(row) * gridDim.y + token) * channels + channel] = static_cast<T>(sum);
"""


def install_kernels(network: nn.Module) -> None:
    """On CUDA, let a network, and the libraries' modules that have been imported, use the kernels.

    Call this before the network runs.
    """
    if not on_cuda():
        return
    for _, module in network.named_modules():
        if type(module) is nn.Conv1d and _is_short_convolution(module):
            module.__class__ = _ShortConvolution
    if module := sys.modules.get("mlx_vlm.models.qwen3_5.language"):
        module.Qwen3_5GatedDeltaNet._causal_conv1d_decode = lambda layer, inputs: layer.conv1d(inputs)
    for module_name, names in REPLACED_FUNCTIONS.items():
        if module := sys.modules.get(module_name):
            for name in names:
                plain = getattr(module, name)
                if not isinstance(plain, _RuleUpdate):
                    setattr(module, name, _RuleUpdate(plain))


def _is_short_convolution(layer: nn.Conv1d) -> bool:
    """Return whether a layer convolves each channel by itself, without padding, stride, dilation or bias."""
    plain = layer.stride == 1 and layer.padding == 0 and layer.dilation == 1 and "bias" not in layer
    return bool(plain and layer.groups == layer.weight.shape[0] and layer.weight.shape[2] == 1)


class _ShortConvolution(nn.Conv1d):  # type: ignore[misc]
    def __call__(self, inputs: mx.array) -> mx.array:
        tokens = inputs.shape[1] - self.weight.shape[1] + 1
        if tokens > _MOST_CONVOLVED or inputs.dtype != self.weight.dtype:
            return super().__call__(inputs)  # type: ignore[no-any-return]
        return convolve(inputs, self.weight)


def convolve(inputs: mx.array, weights: mx.array) -> mx.array:
    """Convolve inputs (rows, tokens + width - 1, channels) with weights (channels, width, 1) of the same type.

    Return (rows, tokens, channels). Sums are in float32, in the same order for any number of tokens.
    """
    rows, held, channels = inputs.shape
    result: mx.array = _convolution_kernel()(
        inputs=[inputs, weights],
        template=[("T", inputs.dtype)],
        grid=(-(-channels // _THREADS) * _THREADS, held - weights.shape[1] + 1, rows),
        threadgroup=(_THREADS, 1, 1),
        output_shapes=[(rows, held - weights.shape[1] + 1, channels)],
        output_dtypes=[inputs.dtype],
    )[0]
    return result


@cache
def _convolution_kernel() -> Any:
    return cuda_kernel("short_convolution", ["inputs", "weights"], ["convolved"], _CONVOLVE)


class Arguments(NamedTuple):
    """The inputs of the rule, in the libraries' order, with their shapes.

    Where `mask` is false, a token reads zeros and doesn't change the state, as in the libraries' kernels.
    """

    queries: mx.array  # (rows, tokens, key heads, key width)
    keys: mx.array  # the same
    values: mx.array  # (rows, tokens, heads, value width)
    decay: mx.array  # (rows, tokens, heads), or (rows, tokens, heads, key width)
    rate: mx.array  # (rows, tokens, heads)
    state: mx.array  # (rows, heads, value width, key width)
    mask: mx.array | None = None  # (rows, tokens) of bool


class _RuleUpdate:
    """Replaces a library's function, `plain`, and calls it for inputs that the kernel can't compute."""

    def __init__(self, plain: Callable[..., Any]) -> None:
        self.plain = plain

    def __call__(self, *args: Any) -> Any:
        """Take `Arguments` and, optionally, the `state_count` of `update_state`."""
        given, wanted = Arguments(*args[:7]), (*args[7:], None)[0]
        width = given.keys.shape[3]
        if width % 32 or width > _MOST_KEYS or wanted == 0:
            return self.plain(*args)
        return update_state(given, wanted)


def update_state(arguments: Arguments, state_count: int | None = None) -> tuple[mx.array, ...]:
    """Return what the tokens read from the state, in the queries' type, and the new state, in the state's type.

    What they read is (rows, tokens, heads, value width). The keys' width must be a multiple of 32, and at most 512.
    Also return the state after each of the first `state_count` tokens, (rows, count, heads, value width, key width).
    """
    queries, keys, values, decay, rate, state, mask = arguments
    rows, _, heads, value_width = values.shape
    key_width = keys.shape[3]
    lanes = _lanes(key_width)
    blocks = -(-value_width * lanes // _THREADS)
    shapes, dtypes = [values.shape, state.shape], [queries.dtype, state.dtype]
    if state_count:
        shapes, dtypes = [*shapes, (rows, state_count, *state.shape[1:])], [*dtypes, state.dtype]
    found: list[mx.array] = _update_kernel(mask is not None, bool(state_count))(
        inputs=[array for array in arguments if array is not None],
        # MLX compiles a kernel once for each combination of these, so all types are among them.
        template=[
            ("QUERY", queries.dtype),
            ("KEY", keys.dtype),
            ("VALUE", values.dtype),
            ("DECAY", decay.dtype),
            ("RATE", rate.dtype),
            ("STATE", state.dtype),
            ("KEYS", key_width),
            ("VALUES", value_width),
            ("LANES", lanes),
            ("PER_KEY", decay.ndim == 4),
            ("STEPS", state_count or 0),
        ],
        grid=(blocks * _THREADS, heads, rows),
        threadgroup=(_THREADS, 1, 1),
        output_shapes=shapes,
        output_dtypes=dtypes,
    )
    return tuple(found)


def _lanes(key_width: int) -> int:
    """Return how many lanes of a warp share a row of the state, so that each keeps at most 16 numbers of it."""
    lanes = 8
    while key_width > 16 * lanes:
        lanes *= 2
    return lanes


@cache
def _update_kernel(has_mask: bool, keeps_states: bool) -> Any:
    inputs = Arguments._fields if has_mask else Arguments._fields[:-1]
    source = _SOURCE.replace("IS_READ", "mask[first + token]" if has_mask else "true")
    source = source.replace("KEEP_STATE", _KEEP_STATE if keeps_states else "")
    name = "gated_delta" + "_masked" * has_mask + "_between" * keeps_states
    outputs = ["output", "new_state", *(["between"] if keeps_states else [])]
    return cuda_kernel(name, list(inputs), outputs, source)
