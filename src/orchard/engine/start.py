"""Makes a runner for a loaded model: calibrated, within its memory, and warm."""

import logging
import time
from collections.abc import Callable

import mlx.core as mx

from orchard.core.errors import OrchardError
from orchard.core.tasks.text_options import TextOptions
from orchard.engine import calibration, memory, warmup
from orchard.engine.batching import attention, batched_prefill, kv_cache
from orchard.engine.batching.batch import Batch
from orchard.engine.batching.kv_store import KVStore
from orchard.engine.batching.layer_kinds import Footprint
from orchard.engine.batching.model import LanguageModel, on_cuda
from orchard.engine.runner import Runner
from orchard.engine.scheduler import Limits

log = logging.getLogger("orchard.engine")

_MOST_TOKENS_A_STEP = 2048
_PROMPTS_IN_A_PASS = 32


def make_runner(
    model: LanguageModel,
    options: TextOptions,
    weights_bytes: int,
    wake: Callable[[], None],
    progress: Callable[[float], None] = lambda fraction: None,
) -> Runner:
    """Make a runner for a loaded model, and run what serving uses once, so that no request waits for compilation.

    `weights_bytes`: what the model takes. `wake`: see `KVStore`. `progress` is called with the fraction that is done.
    Raise OrchardError where the model leaves no memory for requests.
    """
    attention.install()
    shares = _shares(options, weights_bytes)
    options = calibration.quantisable(model, options)
    # The disk's thread looks for its files while the model is warmed up.
    store = KVStore(model, options, shares.cache, wake)
    footprint = _footprint(model, store)
    name = calibration.key(model, options)
    known = calibration.recall(name)
    mode = known.batch_mode if known else calibration.find_batch_mode(model, options)
    progress(0.2)
    batched = known.batched_prefill if known else calibration.gains_from_batched_prefill(model, options)
    progress(0.3)
    multiple = 8 if on_cuda() else 1
    pieces = _PROMPTS_IN_A_PASS if batched else 4

    def runner(store: KVStore, limits: Limits) -> Runner:
        return Runner(model, store, Batch(model, mode, multiple), limits, footprint, batched_prefill=batched)

    trial = runner(KVStore(model, options), Limits(16, 2**62, _MOST_TOKENS_A_STEP, _MOST_TOKENS_A_STEP, pieces=pieces))
    if name in warmup.done or (known and warmup.is_kept()):
        warmup.once(trial)
    else:
        warmup.every_way(trial, lambda: progress(0.5))
        if batched:  # padding may be as much again
            batched_prefill.warm(model, 2 * _MOST_TOKENS_A_STEP, lambda: progress(0.7))
    warmup.done.add(name)
    if known is None:
        measured = calibration.measure_prefill(model, lambda: progress(0.9))
        known = calibration.Calibration(mode, batched, *measured, time.time())
        calibration.remember(name, known)
    store.tokens_per_second = known.tokens_per_second
    mx.clear_cache()
    progress(1.0)
    chunk = options.prefill_step_size or known.chunk
    idle_chunk = max(chunk, min(4 * chunk, _MOST_TOKENS_A_STEP))
    pieces = options.prompt_concurrency or pieces
    return runner(store, Limits(options.decode_concurrency, shares.rows, chunk, idle_chunk, pieces=pieces))


def _shares(options: TextOptions, weights_bytes: int) -> memory.Shares:
    shares = memory.divide(options, weights_bytes)
    if not shares.rows:
        raise OrchardError(
            "model_failed",
            f"the model's weights take {weights_bytes:,} bytes; the memory limit of {memory.limit(options):,} leaves "
            "nothing for requests",
        )
    if shares.cache < (wanted := options.prompt_cache_bytes or 0):
        log.warning("cached prompts may take %s bytes of memory, not %s: requests need the rest", shares.cache, wanted)
    return shares


def _footprint(model: LanguageModel, store: KVStore) -> Footprint:
    """Measure a row; where short ones are not quantised, as they are."""
    cache = store.new_cache()
    model.forward(mx.array([[0]], mx.uint32), cache)
    return kv_cache.footprint(cache)
