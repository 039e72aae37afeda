"""Which products the kernel takes over, that they reach it in the right form, and, on CUDA, what it computes."""

from typing import Any

import mlx.core as mx
import pytest
from mlx import nn

from orchard.backends.kernels import few_rows, quantized

on_cuda = pytest.mark.skipif(not mx.cuda.is_available(), reason="the kernel is CUDA's")


def layer(
    outputs: int = 96, width: int = 128, dtype: mx.Dtype = mx.bfloat16, **mode: Any
) -> nn.QuantizedLinear | nn.QuantizedEmbedding:
    mx.random.seed(outputs + width)
    found = nn.QuantizedLinear.from_linear(
        nn.Linear(width, outputs, bias=False), **{"group_size": 64, "bits": 4, **mode}
    )
    found.set_dtype(dtype)
    return found


def exact(inputs: mx.array, of: Any) -> mx.array:
    """Return the product in float32 of what the packed weights say."""
    scales, biases = (of[name].astype(mx.float32) for name in ("scales", "biases"))
    unpacked = mx.dequantize(of["weight"], scales, biases, group_size=of.group_size, bits=of.bits)
    return inputs.astype(mx.float32) @ unpacked.T


@pytest.mark.parametrize("rows", [1, 2, 8, few_rows.MOST_ROWS])
def test_takes_over_a_few_rows_of_a_usual_layer(rows: int) -> None:
    assert few_rows.can_multiply(rows, mx.bfloat16, layer())
    assert few_rows.can_multiply(rows, mx.float16, layer(dtype=mx.float16, group_size=128))


@pytest.mark.parametrize(
    ("rows", "dtype", "of"),
    [
        (few_rows.MOST_ROWS + 1, mx.bfloat16, layer()),
        (8, mx.float32, layer(dtype=mx.float32)),
        (8, mx.float16, layer()),
        (8, mx.bfloat16, layer(bits=8)),
        (8, mx.bfloat16, layer(group_size=32)),
        (8, mx.bfloat16, layer(mode="mxfp4", group_size=32)),
        (8, mx.bfloat16, layer(outputs=90)),
    ],
    ids=["many", "float32", "two types", "8 bits", "small groups", "mxfp4", "odd outputs"],
)
def test_leaves_the_rest_to_mlx(rows: int, dtype: mx.Dtype, of: Any) -> None:
    assert not few_rows.can_multiply(rows, dtype, of)


@pytest.mark.parametrize("shape", [(8, 1, 128), (1, 8, 128), (2, 4, 128), (8, 128), (1, 1, 128)], ids=str)
def test_inputs_of_any_shape_reach_it(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...]) -> None:
    asked: list[tuple[int, ...]] = []

    def pretended(inputs: mx.array, of: Any) -> mx.array:
        asked.append(inputs.shape)
        return exact(inputs, of).astype(inputs.dtype)

    monkeypatch.setattr(quantized, "on_cuda", lambda: True)
    monkeypatch.setattr(few_rows, "is_kernel_correct", lambda dtype: True)
    monkeypatch.setattr(few_rows, "product_of_few_rows", pretended)
    of, inputs = layer(), mx.random.normal(shape).astype(mx.bfloat16)
    found = quantized.quantized_product(inputs, of)
    assert asked == [shape]
    assert found.shape == (*shape[:-1], 96)
    assert mx.allclose(found, exact(inputs, of), atol=0.05)


@pytest.mark.parametrize("broken", ["raises", "is wrong", "is right"])
def test_it_is_used_where_the_device_runs_it(monkeypatch: pytest.MonkeyPatch, broken: str) -> None:
    def pretended(inputs: mx.array, of: Any) -> mx.array:
        if broken == "raises":
            raise RuntimeError("no such instruction")
        return exact(inputs, of) + (broken == "is wrong")

    monkeypatch.setattr(few_rows, "product_of_few_rows", pretended)
    assert few_rows.is_kernel_correct.__wrapped__(mx.bfloat16) == (broken == "is right")


@on_cuda
@pytest.mark.parametrize("rows", [1, 2, 7, 8, 9, 16, 31, 32])
@pytest.mark.parametrize("group_size", [64, 128])
@pytest.mark.parametrize("dtype", [mx.bfloat16, mx.float16], ids=str)
def test_the_kernel_computes_the_product(rows: int, group_size: int, dtype: mx.Dtype) -> None:
    for outputs, width in ((16, 128), (96, 640), (512, 2560)):
        of = layer(outputs, width, dtype, group_size=group_size)
        inputs = mx.random.normal((rows, width)).astype(dtype)
        right = exact(inputs, of)
        for shape in ((rows,), (rows, 1), (1, rows), (1, rows, 1)):
            found = few_rows.product_of_few_rows(inputs.reshape(*shape, width), of).astype(mx.float32)
            assert found.shape == (*shape, outputs)
            close = mx.allclose(found.reshape(right.shape), right, rtol=0, atol=0.005 * float(mx.abs(right).max()))
            assert close, shape


@on_cuda
@pytest.mark.parametrize("rows", [2, 8, 9, 32])
def test_a_row_gets_the_same_bits_whatever_is_beside_it(rows: int) -> None:
    of = layer(512, 2560)
    inputs = mx.random.normal((rows, 2560)).astype(mx.bfloat16)
    together = few_rows.product_of_few_rows(inputs, of)
    for row in range(rows):
        assert mx.array_equal(few_rows.product_of_few_rows(inputs[row : row + 1], of)[0], together[row])


@pytest.mark.parametrize(("bits", "served"), [(4, True), (8, False)])
def test_embeddings_of_4_bits_are_looked_up_on_cuda(monkeypatch: pytest.MonkeyPatch, bits: int, served: bool) -> None:
    calls: list[mx.array] = []
    monkeypatch.setattr(quantized, "on_cuda", lambda: True)
    monkeypatch.setattr(few_rows, "embed", lambda tokens, layer: calls.append(tokens))
    of = nn.QuantizedEmbedding(50, 64, bits=bits)
    of.__class__ = quantized._FastEmbedding
    of(mx.array([[7]]))
    assert bool(calls) == served


@on_cuda
@pytest.mark.parametrize("dtype", [mx.bfloat16, mx.float16, mx.float32], ids=str)
@pytest.mark.parametrize("group_size", [32, 64, 128])
def test_embeddings_are_those_of_mlx(dtype: mx.Dtype, group_size: int) -> None:
    of = nn.QuantizedEmbedding(50, 640, group_size=group_size, bits=4)
    of.set_dtype(dtype)
    for tokens in (mx.array([[7]], mx.uint32), mx.arange(50, dtype=mx.int32).reshape(2, 25)):
        found = few_rows.embed(tokens, of)
        assert found.dtype == dtype
        assert mx.array_equal(found, of(tokens))
