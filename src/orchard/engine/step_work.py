"""How many bytes a step takes beside weights and rows: estimated from a model's shapes, then measured.

The estimate is high. A measurement may be lower or, for a kind of model that computes in another way, higher.
"""

import gc
from collections.abc import Generator, Iterator
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten

from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching.kv_cache import KVStore, named_layers
from orchard.engine.batching.model import LanguageModel
from orchard.engine.sampling.params import SamplingParams
from orchard.engine.sampling.sampler import Sampler
from orchard.engine.ticket import FEW_TOKENS, StepWork

_ITEMSIZE = 4  # models may compute in float32, whatever their weights are
_ARRAYS = 12  # as wide as the widest layer, that exist at once
_LOGIT_ARRAYS = 10  # as wide as the vocabulary: logits, their probabilities, sorted, masked
_SCORE_BYTES = 8  # scores, and their softmax in float32
_MANY_HEADS = 64
_WIDE = 16384
_LAYER_COPIES = 3  # of a layer's keys and values: the old array, padded, and joined with others
_MARGIN = 1.25  # buffers are rounded up, and their order may differ
_COUNTS = (FEW_TOKENS, 4 * FEW_TOKENS, 16 * FEW_TOKENS)
_COUNTS_ON_CPU = (16, 64)  # a longer pass would take seconds
_RUNS = 2  # kernels that are compiled in the first run make the device wait, so that less exists at once
_ROWS = 4


def estimate_step_work(model: LanguageModel) -> StepWork:
    """Estimate the bytes from the shapes of the model's weights."""
    network = getattr(model, "network", None)
    weights = [array for _, array in tree_flatten(network.parameters())] if network is not None else []
    widths = [array.shape[-2] for array in weights if array.ndim > 1 and array.shape[-2] != model.vocab_size]
    fused = mx.default_device() == mx.gpu and mx.metal.is_available()  # such kernels keep no scores
    return StepWork(
        row=_LOGIT_ARRAYS * _ITEMSIZE * model.vocab_size,
        token=_ARRAYS * _ITEMSIZE * max(widths, default=_WIDE),
        place=1 if fused else _SCORE_BYTES * max(_head_counts(network), default=_MANY_HEADS),
        copies=_LAYER_COPIES / max(len(list(named_layers(model.new_cache()))), 1),
    )


def _head_counts(network: Any) -> Iterator[int]:
    for name in ("args", "config"):
        config = getattr(network, name, None)
        for one in (config, getattr(config, "text_config", None)):
            heads = one.get("num_attention_heads") if isinstance(one, dict) else getattr(one, "num_attention_heads", 0)
            if isinstance(heads, int) and heads > 0:
                yield heads


def measure_step_work(model: LanguageModel, options: TextOptions) -> Generator[None, None, StepWork]:
    """Measure the bytes, in short units, where MLX counts them, and take the estimate for the rest."""
    known = estimate_step_work(model)
    counts = _COUNTS if mx.default_device() == mx.gpu else _COUNTS_ON_CPU
    store = KVStore(model, options)
    taken = dict.fromkeys(counts, 0)
    for count in counts * _RUNS:
        taken[count] = max(taken[count], _chunk_bytes(model, store, count))
        yield
    # The last two passes are computed in the same way, so they differ by their tokens and places alone.
    *_, many, most = counts
    token = taken[counts[0]] / counts[0]
    place = max((taken[most] - taken[many]) / (most - many) - token, 0.0) / (most + many)
    each = {count: token + place * count for count in counts}
    return StepWork(
        row=int(_MARGIN * _row_bytes(model.vocab_size)) or known.row,
        token=int(_MARGIN * token) or known.token,
        # Attention to a quantised KV cache keeps its scores, and it may begin later.
        place=known.place if options.kv_bits else min(int(_MARGIN * place) + 1, known.place),
        wide=int(_MARGIN * max(0, *(taken[count] - count * each[count] for count in counts))),
        copies=known.copies,
    )


def _chunk_bytes(model: LanguageModel, store: KVStore, count: int) -> int:
    """Return the bytes that a prompt of `count` tokens takes beside its KV cache."""
    cache = store.new_cache()
    tokens = mx.zeros((1, count), mx.uint32)
    mx.eval(tokens)
    before = _begin_measurement()
    usual = mx.set_memory_limit(0)  # so MLX runs ahead of the device as little as it can
    try:
        model.forward(tokens, cache)
        mx.eval([layer.state for layer in cache])
    finally:
        mx.set_memory_limit(usual)
    return max(mx.get_peak_memory() - max(before, mx.get_active_memory()), 0)


def _row_bytes(vocab_size: int) -> int:
    """Return the bytes of a row's logits and of drawing a token from them in the most expensive way."""
    sampler = Sampler(vocab_size)
    params = SamplingParams(seed=0, top_k=20, top_p=0.9, min_p=0.01, repetition_penalty=1.1, top_logprobs=1)
    for row in range(_ROWS):
        sampler.add(params, [0], row, [])
    before = _begin_measurement()
    draw = sampler.draw(mx.zeros((_ROWS, vocab_size)), None)
    draw.launch()
    draw.read()
    return max(mx.get_peak_memory() - before, 0) // _ROWS


def _begin_measurement() -> int:
    gc.collect()
    mx.reset_peak_memory()
    return mx.get_active_memory()
