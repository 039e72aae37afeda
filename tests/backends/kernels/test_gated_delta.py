"""Where the gated delta rule's kernel stands in for the libraries' operations, and, on CUDA, what it computes."""

import importlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm.models.gated_delta as mlx_lm_rule
import mlx_vlm.models.gated_delta as mlx_vlm_rule
import pytest
from mlx import nn
from mlx_vlm.models.qwen3_5 import language

from orchard.backends.kernels import gated_delta
from orchard.backends.kernels.gated_delta import Arguments
from orchard.backends.text.model import load_text_model
from orchard.core.tasks.text_options import TextOptions

on_cuda = pytest.mark.skipif(not mx.cuda.is_available(), reason="the kernel is CUDA's")
every_module = pytest.mark.parametrize("name", gated_delta.REPLACED_FUNCTIONS)
KEY_HEADS, HEADS = 2, 4
WIDTHS = [(32, 8), (64, 20), (128, 128), (192, 5), (256, 16), (512, 3)]  # of keys and of values


def drawn(
    rows: int,
    tokens: int,
    key_width: int = 32,
    value_width: int = 8,
    *,
    per_key: bool = False,
    masked: bool = False,
    dtype: mx.Dtype = mx.float32,
) -> Arguments:
    """Return what the rule is given for some tokens of each row; decay and state are in float32 in any model."""
    mx.random.seed(rows + 10 * tokens)
    keys, values = (rows, tokens, KEY_HEADS, key_width), (rows, tokens, HEADS, value_width)
    unit = [mx.fast.rms_norm(mx.random.normal(keys), None, 1e-6) * key_width**-0.5 for _ in range(2)]
    return Arguments(
        queries=unit[0].astype(dtype),
        keys=unit[1].astype(dtype),
        values=mx.random.normal(values).astype(dtype),
        decay=mx.random.uniform(0.5, 1, (*values[:3], key_width) if per_key else values[:3]),
        rate=mx.random.uniform(shape=values[:3]).astype(dtype),
        state=mx.random.normal((rows, HEADS, value_width, key_width)),
        mask=mx.random.uniform(shape=values[:2]) < 0.6 if masked else None,
    )


def some(of: Arguments, rows: slice, tokens: slice, state: mx.array) -> Arguments:
    """Return the rule's arguments for some of the rows and tokens, from another state on."""
    named = of._replace(state=state)._asdict().items()
    return Arguments(
        **{name: array[rows, tokens] if name != "state" else array for name, array in named if array is not None}
    )


def plain(module: Any, name: str) -> Any:
    """Return the library's own function, also where a model has been loaded on CUDA."""
    found = getattr(module, name)
    return getattr(found, "plain", found)


@pytest.fixture
def pretended_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process look as if MLX computed on CUDA; what is installed is put back."""
    for module_name, names in gated_delta.REPLACED_FUNCTIONS.items():
        module = importlib.import_module(module_name)
        for name in names:
            monkeypatch.setattr(module, name, plain(module, name))
    layer = language.Qwen3_5GatedDeltaNet
    monkeypatch.setattr(layer, "_causal_conv1d_decode", layer._causal_conv1d_decode)
    monkeypatch.setattr(mx, "default_device", lambda: mx.gpu)
    monkeypatch.setattr(mx.cuda, "is_available", lambda: True)
    monkeypatch.setattr(mx.metal, "is_available", lambda: False)


def update_of(module: Any, inputs: Arguments, **more: Any) -> Any:
    """Call what the library's models call: it makes decay and rate of what the model's layers gave."""
    queries, keys, values, _, rate, *_ = inputs
    per_head = mx.zeros(HEADS)
    return module.gated_delta_update(queries, keys, values, rate, rate, per_head, per_head, inputs.state, **more)


class Launches:
    """Stands for `cuda_kernel`; it keeps what kernels are called with."""

    def __init__(self) -> None:
        self.kernels: list[str] = []
        self.names: list[str] = []  # of the last call's kernel and of its inputs
        self.given: dict[str, Any] = {}  # in the last call

    def make(self, kernel: str, inputs: list[str], outputs: list[str], source: str) -> Callable[..., list[mx.array]]:
        def launch(**given: Any) -> list[mx.array]:
            assert len(given["inputs"]) == len(inputs)
            self.names, self.given = [kernel, *inputs], given
            kinds = zip(outputs, given["output_shapes"], given["output_dtypes"], strict=True)
            return [mx.zeros(shape, dtype) for _, shape, dtype in kinds]

        assert "IS_READ" not in source
        assert "KEEP_STATE" not in source
        assert ("between" in outputs) == ("between +" in source)
        self.kernels.append(kernel)
        return launch


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> Iterator[Launches]:
    kept = Launches()
    monkeypatch.setattr(gated_delta, "cuda_kernel", kept.make)
    gated_delta._update_kernel.cache_clear()
    gated_delta._convolution_kernel.cache_clear()
    yield kept
    gated_delta._update_kernel.cache_clear()
    gated_delta._convolution_kernel.cache_clear()


@every_module
@pytest.mark.parametrize("tokens", [1, 3])
@pytest.mark.usefixtures("pretended_cuda")
def test_on_cuda_the_libraries_call_the_kernel(monkeypatch: pytest.MonkeyPatch, name: str, tokens: int) -> None:
    calls: list[Arguments] = []

    def update(given: Arguments, wanted: int | None) -> tuple[str, str]:
        calls.append(given)
        assert wanted is None
        return "output", "state"

    monkeypatch.setattr(gated_delta, "update_state", update)
    gated_delta.install_kernels(nn.Module())
    inputs = drawn(2, tokens, masked=True)
    assert update_of(importlib.import_module(name), inputs, mask=inputs.mask) == ("output", "state")
    [given] = calls
    for field in ("queries", "keys", "values", "state", "mask"):
        assert getattr(given, field) is getattr(inputs, field)
    assert given.decay.shape == given.rate.shape == (2, tokens, HEADS)


@pytest.mark.parametrize("name", [name for name in gated_delta.REPLACED_FUNCTIONS if "vlm" in name])
@pytest.mark.usefixtures("pretended_cuda")
def test_the_kernel_gives_the_states_between(launches: Launches, name: str) -> None:
    gated_delta.install_kernels(nn.Module())
    inputs = drawn(2, 4, masked=True)
    output, state, between = update_of(importlib.import_module(name), inputs, mask=inputs.mask, state_steps=3)
    assert launches.names[0] == "gated_delta_masked_between"
    assert (output.shape, state.shape) == (inputs.values.shape, inputs.state.shape)
    assert between.shape == (2, 3, *inputs.state.shape[1:])


@every_module
def test_elsewhere_nothing_is_replaced(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(mx.cuda, "is_available", lambda: False)
    module = importlib.import_module(name)
    before = [getattr(module, replaced) for replaced in gated_delta.REPLACED_FUNCTIONS[name]]
    gated_delta.install_kernels(nn.Module())
    assert [getattr(module, replaced) for replaced in gated_delta.REPLACED_FUNCTIONS[name]] == before


@pytest.mark.usefixtures("pretended_cuda")
def test_the_library_computes_what_the_kernel_does_not_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gated_delta, "update_state", lambda *_: pytest.fail("the kernel was called"))
    narrow = drawn(1, 3, key_width=40)
    library = mlx_vlm_rule.gated_delta_ops
    expected = library(*narrow)
    gated_delta.install_kernels(nn.Module())
    gated_delta.install_kernels(nn.Module())  # as for each model that is loaded
    found = mlx_vlm_rule.gated_delta_ops(*narrow)
    assert all(mx.array_equal(one, other) for one, other in zip(found, expected, strict=True))
    assert mlx_vlm_rule.gated_delta_ops.plain is library


def test_a_model_that_is_loaded_gets_it(monkeypatch: pytest.MonkeyPatch, model_folder: Path) -> None:
    calls: list[bool] = []
    monkeypatch.setattr(gated_delta, "install_kernels", lambda network: calls.append(bool(network.parameters())))
    load_text_model(str(model_folder), TextOptions())
    assert calls == [True]


@pytest.mark.parametrize("widths", WIDTHS, ids=str)
def test_there_are_lanes_for_every_number_of_the_state(launches: Launches, widths: tuple[int, int]) -> None:
    inputs = drawn(3, 2, *widths, dtype=mx.bfloat16)
    output, state = gated_delta.update_state(inputs)
    assert (output.shape, output.dtype) == ((3, 2, HEADS, widths[1]), mx.bfloat16)
    assert (state.shape, state.dtype) == (inputs.state.shape, mx.float32)
    lanes = dict(launches.given["template"])["LANES"]
    assert 32 % lanes == 0
    assert widths[0] % lanes == 0
    assert widths[0] // lanes <= 16  # in registers
    across, *others = launches.given["grid"]
    assert others == [HEADS, 3]
    assert across % launches.given["threadgroup"][0] == 0  # lanes exchange numbers: no warp may lack some
    assert across >= widths[1] * lanes


def test_each_combination_of_types_and_of_inputs_is_its_own_kernel(launches: Launches) -> None:
    compiled = set()
    combinations = list(itertools.product((mx.float32, mx.float16), (True, False), (True, False), (None, 1, 2)))
    for dtype, per_key, masked, wanted in combinations:
        inputs = drawn(1, 2, per_key=per_key, masked=masked, dtype=dtype)
        _, state, *between = gated_delta.update_state(inputs, wanted)
        assert [one.shape for one in between] == ([(1, wanted, *state.shape[1:])] if wanted else [])
        assert ("mask" in launches.names) == masked
        compiled.add((launches.names[0], str(launches.given["template"])))  # by these MLX keeps what it has compiled
    assert len(compiled) == len(combinations)
    assert len(set(launches.kernels)) == len(launches.kernels) == 4


class Convolving(nn.Module):  # type: ignore[misc]
    def __init__(self, **given: Any) -> None:
        super().__init__()
        self.conv1d = nn.Conv1d(6, 6, 4, **{"groups": 6, "bias": False} | given)


@pytest.mark.parametrize("tokens", [1, 16])
@pytest.mark.usefixtures("pretended_cuda")
def test_short_convolutions_are_a_kernel(launches: Launches, tokens: int) -> None:
    network = Convolving()
    gated_delta.install_kernels(network)
    convolved = network.conv1d(mx.zeros((2, tokens + 3, 6)))
    assert launches.names == ["short_convolution", "inputs", "weights"]
    assert convolved.shape == (2, tokens, 6)
    assert launches.given["grid"][1:] == (tokens, 2)
    by_hand = language.Qwen3_5GatedDeltaNet._causal_conv1d_decode(network, mx.zeros((2, 4, 6)))
    assert by_hand.shape == (2, 1, 6)


@pytest.mark.parametrize("given", [{"groups": 3}, {"bias": True}, {"padding": 3}, {"stride": 2}])
@pytest.mark.usefixtures("pretended_cuda")
def test_other_convolutions_stay(launches: Launches, given: dict[str, Any]) -> None:
    network = Convolving(**given)
    gated_delta.install_kernels(network)
    network.conv1d(mx.zeros((2, 4, 6)))
    assert not launches.names


@pytest.mark.usefixtures("pretended_cuda")
def test_many_tokens_and_other_types_are_convolved_by_mlx(launches: Launches) -> None:
    network = Convolving()
    gated_delta.install_kernels(network)
    for inputs in (mx.zeros((2, 20, 6)), mx.zeros((2, 4, 6), mx.float16)):
        assert network.conv1d(inputs).shape == (2, inputs.shape[1] - 3, 6)
    assert not launches.names


@on_cuda
@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16])
def test_it_convolves_as_mlx_does(dtype: mx.Dtype) -> None:
    layer = nn.Conv1d(200, 200, 4, groups=200, bias=False)
    weights = layer.weight.astype(dtype)
    inputs = mx.random.normal((3, 11, 200)).astype(dtype)
    with mx.stream(mx.cpu):
        expected = mx.conv1d(inputs.astype(mx.float32), weights.astype(mx.float32), groups=200)
    together = gated_delta.convolve(inputs, weights)
    assert mx.allclose(together.astype(mx.float32), expected, rtol=1e-2, atol=1e-5 if dtype == mx.float32 else 1e-2)
    for token in range(8):
        alone = gated_delta.convolve(inputs[:, token : token + 4], weights)
        assert mx.array_equal(alone[:, 0], together[:, token])


def kernel_cases() -> Iterator[dict[str, Any]]:
    kinds = zip(WIDTHS, itertools.cycle([mx.float32, mx.float16, mx.bfloat16]))  # each case compiles its kernel
    for (widths, dtype), per_key, masked in itertools.product(kinds, (False, True), (False, True)):
        yield {
            "key_width": widths[0],
            "value_width": widths[1],
            "per_key": per_key,
            "masked": masked,
            "dtype": dtype,
        }


@on_cuda
def test_it_computes_what_the_library_computes() -> None:
    for case, tokens in itertools.product(kernel_cases(), (1, 40)):
        inputs = drawn(3, tokens, **case)
        exact = [array.astype(mx.float32) for array in inputs[:6] if array is not None]
        expected, expected_state = plain(mlx_lm_rule, "gated_delta_ops")(*exact, inputs.mask)
        if inputs.mask is not None:  # the library's operations leave something there, its kernels zeros
            expected = mx.where(inputs.mask[..., None, None], expected, 0)
        output, state = gated_delta.update_state(inputs)
        assert (output.dtype, state.dtype) == (case["dtype"], mx.float32)
        assert mx.allclose(state, expected_state, rtol=1e-4, atol=1e-4), case
        rounding = 1e-4 if case["dtype"] == mx.float32 else 1e-2
        assert mx.allclose(output.astype(mx.float32), expected, rtol=rounding, atol=rounding), case


@on_cuda
def test_tokens_and_rows_apart_give_the_same_bits() -> None:
    for case in kernel_cases():
        inputs = drawn(3, 9, **case)
        together, last = gated_delta.update_state(inputs)
        for rows in (slice(0, 1), slice(1, 3)):
            state = inputs.state[rows]
            for tokens in (slice(0, 1), slice(1, 2), slice(2, 6), slice(6, 9)):
                output, state = gated_delta.update_state(some(inputs, rows, tokens, state))
                assert mx.array_equal(output, together[rows, tokens]), case
            assert mx.array_equal(state, last[rows]), case


@on_cuda
def test_the_states_between_are_those_of_fewer_tokens() -> None:
    for case in kernel_cases():
        inputs = drawn(3, 5, **case)
        output, last, between = gated_delta.update_state(inputs, 4)
        assert all(
            mx.array_equal(one, other)
            for one, other in zip((output, last), gated_delta.update_state(inputs), strict=True)
        )
        for count in range(1, 5):
            _, state = gated_delta.update_state(some(inputs, slice(0, 3), slice(0, count), inputs.state))
            assert mx.array_equal(between[:, count - 1], state), case


@on_cuda
def test_a_compiled_function_may_hold_it() -> None:
    @mx.compile
    def traced(*arrays: mx.array) -> tuple[mx.array, ...]:
        return gated_delta.update_state(Arguments(*arrays))

    inputs = drawn(2, 4)
    for _ in range(3):
        expected = gated_delta.update_state(inputs)
        found = traced(*inputs[:6])
        assert all(mx.array_equal(one, other) for one, other in zip(found, expected, strict=True))
        inputs = inputs._replace(state=found[1])
