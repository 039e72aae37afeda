"""Products of 4-bit weights with one or a few rows of inputs on CUDA: a kernel that reads each weight once.

With MLX 0.32.4's products, a model's step with eight rows takes twice as long (docs/performance.md), and a product for
one row takes a fifth longer than with this kernel. The kernel sums each row in the same order, whatever the others.
Eight rows are one side of a tensor core's product (m16n8k16 in
https://docs.nvidia.com/cuda/parallel-thread-execution/#warp-level-matrix-instructions), so up to eight rows cost as
much as one. The packed weights are used as exact integers. Scales and biases are applied to the sums of each group, in
float32.

Another kernel looks up token embeddings: MLX would gather weights, scales and biases separately before it unpacks them.
"""

import logging
from functools import cache
from typing import Any

import mlx.core as mx
from mlx import nn

from orchard.engine.batching.model import cuda_kernel

log = logging.getLogger("orchard.worker")

MOST_ROWS = 32
_WARPS = 8
_CHUNK = 64  # weights of a row that a warp reads at a time
_GROUPS = (64, 128)
# Per type: the bits that turn two nibbles n into two numbers base + n, the base, two ones, and PTX's name.
_NUMBERS = {
    mx.bfloat16: ("0x43004300u", "128.f", "0x3f803f80u", "bf16"),
    mx.float16: ("0x64006400u", "1024.f", "0x3c003c00u", "f16"),
}

# A block computes 16 * BANDS outputs of all rows; its warps share the width. Lanes 4i to 4i + 3 hold weights of outputs
# i and i + 8 of each band, and inputs of row i. A product may sum over pairs in any order that both sides share.
# Nibbles 0 and 4 of a word lie 16 bits apart, so they are one pair. __fmaf_rn fixes how sums are rounded: else the
# compiler might round differently for other numbers of tiles and bands.
_SOURCE = """
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int of_eight = lane / 4, of_four = lane % 4;
  const int outputs = weights_shape[0], words = weights_shape[1], count = inputs_shape[0] * inputs_shape[1];
  const int groups = scales_shape[1], chunks = words / 8, width = words * 8;
  const int64_t first = int64_t(blockIdx.x) * 16 * BANDS + of_eight;
  const uint2* weight = reinterpret_cast<const uint2*>(weights + first * words) + of_four;
  const uint4* input[TILES];
  #pragma unroll
  for (int tile = 0; tile < TILES; tile++) {
    const int row = tile * 8 + of_eight;
    input[tile] = reinterpret_cast<const uint4*>(inputs + int64_t(row < count ? row : count - 1) * width) + of_four * 2;
  }
  float total[BANDS][TILES][4] = {};
  constexpr int AHEAD = 4 / BANDS;  // chunks that are read at a time
  #pragma unroll AHEAD
  for (int chunk = warp; chunk < chunks; chunk += WARPS) {
    const int group = chunk / (GROUP / 64);
    uint2 packed[BANDS][2];
    float scale[BANDS][2], bias[BANDS][2];
    #pragma unroll
    for (int band = 0; band < BANDS; band++) {
      #pragma unroll
      for (int below = 0; below < 2; below++) {
        const int output = band * 16 + below * 8;
        packed[band][below] = __ldg(weight + int64_t(output) * words / 2 + chunk * 4);
        const int64_t of_group = (first + output) * groups + group;
        scale[band][below] = static_cast<float>(scales[of_group]);
        bias[band][below] = __fmaf_rn(-BASE, scale[band][below], static_cast<float>(biases[of_group]));
      }
    }
    #pragma unroll
    for (int tile = 0; tile < TILES; tile++) {
      float products[BANDS][4] = {}, sums[4] = {};
      #pragma unroll
      for (int half = 0; half < 2; half++) {
        const uint4 read = __ldg(input[tile] + chunk * 8 + half);
        #pragma unroll
        for (int part = 0; part < 2; part++) {
          const unsigned from = part ? read.y : read.x, to = part ? read.w : read.z;
          const unsigned left = __byte_perm(from, to, 0x5410), right = __byte_perm(from, to, 0x7632);
          #pragma unroll
          for (int band = 0; band < BANDS; band++) {
            const unsigned one = half ? packed[band][0].y : packed[band][0].x;
            const unsigned other = half ? packed[band][1].y : packed[band][1].x;
            multiply(products[band], numbers(one >> (8 * part)), numbers(other >> (8 * part)),
                     numbers(one >> (8 * part + 4)), numbers(other >> (8 * part + 4)), left, right);
          }
          multiply(sums, ONES, ONES, ONES, ONES, left, right);
        }
      }
      #pragma unroll
      for (int band = 0; band < BANDS; band++) {
        #pragma unroll
        for (int i = 0; i < 4; i++) {
          float& sum = total[band][tile][i];
          sum = __fmaf_rn(scale[band][i / 2], products[band][i], __fmaf_rn(bias[band][i / 2], sums[i], sum));
        }
      }
    }
  }
  __shared__ float parts[WARPS][TILES * 8][16 * BANDS];
  #pragma unroll
  for (int band = 0; band < BANDS; band++) {
    #pragma unroll
    for (int tile = 0; tile < TILES; tile++) {
      #pragma unroll
      for (int i = 0; i < 4; i++)
        parts[warp][tile * 8 + of_four * 2 + i % 2][band * 16 + i / 2 * 8 + of_eight] = total[band][tile][i];
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < count * 16 * BANDS; i += WARPS * 32) {
    const int row = i / (16 * BANDS), output = i % (16 * BANDS);
    float sum = 0.f;
    #pragma unroll
    for (int of = 0; of < WARPS; of++) sum += parts[of][row][output];
    products_out[int64_t(row) * outputs + blockIdx.x * 16 * BANDS + output] = static_cast<T>(sum);
  }
"""
_HEADER = """
__device__ __forceinline__ unsigned numbers(unsigned word) { return (word & 0x000f000fu) | BASE_BITS; }
__device__ __forceinline__ void multiply(
    float (&sums)[4], unsigned a, unsigned b, unsigned c, unsigned d, unsigned left, unsigned right) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.KIND.KIND.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a), "r"(b), "r"(c), "r"(d), "r"(left), "r"(right));
}
"""


@cache
def is_kernel_correct(dtype: mx.Dtype) -> bool:
    """Return whether the device's tensor cores run the kernel correctly with inputs of a type."""
    layer = nn.QuantizedLinear(2 * _CHUNK, 16, bias=False, group_size=_CHUNK, bits=4)
    layer.set_dtype(dtype)
    inputs = mx.random.normal((2, 2 * _CHUNK), key=mx.random.key(0)).astype(dtype)
    try:
        return bool(mx.allclose(product_of_few_rows(inputs, layer), layer(inputs), rtol=0.05, atol=0.05))
    except (RuntimeError, ValueError) as error:
        log.info("4-bit products of a few rows are MLX's: the device doesn't run the kernel for them (%s)", error)
        return False


def can_multiply(rows: int, dtype: mx.Dtype, layer: Any) -> bool:
    """Return whether `product_of_few_rows` can multiply `rows` rows of a type by a quantised layer on CUDA."""
    outputs, words = layer["weight"].shape
    return (
        rows <= MOST_ROWS
        and layer.bits == 4
        and layer.mode == "affine"
        and layer.group_size in _GROUPS
        and dtype in _NUMBERS
        and layer["scales"].dtype == dtype
        and outputs % 16 == 0
        and words * 8 % max(_CHUNK, layer.group_size) == 0
    )


def product_of_few_rows(inputs: mx.array, layer: Any) -> mx.array:
    """Multiply inputs (..., width) by a layer's 4-bit weights (outputs, width), without its bias."""
    *shape, width = inputs.shape
    rows, outputs = inputs.size // width, layer["weight"].shape[0]
    if len(shape) != 2:  # a model's inputs are (rows, n, width); reshaping them, too, would cost the host time
        return product_of_few_rows(inputs.reshape(1, rows, width), layer).reshape(*shape, outputs)
    # Every block reads all inputs. With many rows this takes longer than reading weights, so use fewer blocks.
    bands = 2 if rows > 16 and outputs % 32 == 0 else 1
    result: mx.array = _product_kernel(inputs.dtype)(
        inputs=[inputs, layer["weight"], layer["scales"], layer["biases"]],
        template=[
            ("T", inputs.dtype),
            ("TILES", next(tiles for tiles in (1, 2, 4) if tiles * 8 >= rows)),
            ("GROUP", layer.group_size),
            ("WARPS", _WARPS),
            ("BANDS", bands),
        ],
        grid=(outputs // (16 * bands) * _WARPS * 32, 1, 1),
        threadgroup=(_WARPS * 32, 1, 1),
        output_shapes=[(*shape, outputs)],
        output_dtypes=[inputs.dtype],
    )[0]
    return result


@cache
def _product_kernel(dtype: mx.Dtype) -> Any:
    bits, base, ones, kind = _NUMBERS[dtype]
    header = _HEADER.replace("BASE_BITS", bits).replace("KIND", kind)
    source = _SOURCE.replace("BASE", base).replace("ONES", ones)
    return cuda_kernel(f"few_rows_{kind}", ["inputs", "weights", "scales", "biases"], ["products_out"], source, header)


_EMBEDDING_SOURCE = """
  const int64_t at = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;  // eight numbers of a token
  const int words = weights_shape[1], groups = scales_shape[1];
  if (at >= int64_t(tokens_shape[0]) * words) return;
  const int64_t token = static_cast<int64_t>(tokens[at / words]);
  const int word = at % words, group = word * 8 / GROUP;
  const unsigned packed = weights[token * words + word];
  const float scale = static_cast<float>(scales[token * groups + group]);
  const float bias = static_cast<float>(biases[token * groups + group]);
  for (int i = 0; i < 8; i++)
    embedded[at * 8 + i] = static_cast<T>(__fmaf_rn(scale, static_cast<float>((packed >> (4 * i)) & 15u), bias));
"""
_EMBEDDING_WORDS = 256  # words per block


def can_embed(layer: Any) -> bool:
    """Return whether `embed` can compute a quantised embedding layer on CUDA."""
    return bool(layer.bits == 4 and layer.mode == "affine" and layer.group_size % 8 == 0)


def embed(tokens: mx.array, layer: Any) -> mx.array:
    """Return the embeddings of tokens (...) from 4-bit weights (tokens, width), in the type of the layer's scales."""
    words = layer["weight"].shape[1]
    result: mx.array = _embedding_kernel()(
        inputs=[tokens.reshape(-1), layer["weight"], layer["scales"], layer["biases"]],
        template=[("T", layer["scales"].dtype), ("INDEX", tokens.dtype), ("GROUP", layer.group_size)],
        grid=(-(-tokens.size * words // _EMBEDDING_WORDS) * _EMBEDDING_WORDS, 1, 1),
        threadgroup=(_EMBEDDING_WORDS, 1, 1),
        output_shapes=[(*tokens.shape, words * 8)],
        output_dtypes=[layer["scales"].dtype],
    )[0]
    return result


@cache
def _embedding_kernel() -> Any:
    return cuda_kernel("embed", ["tokens", "weights", "scales", "biases"], ["embedded"], _EMBEDDING_SOURCE)
