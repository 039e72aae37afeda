"""Tests what a model can do on this machine: what its rows can share, and how long a prefill chunk may be.

The results are stored for later loads. There is one small file for each model, machine and set of options. Its name is
a hash of everything that the results depend on: the weights, the device, the options, and the versions of the libraries
and of the engine. Only the speeds also depend on what else the machine did, so they are measured again after a day.
"""

import logging
import os
import platform
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from functools import cached_property, partial
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import mlx.core as mx
import msgspec
from msgspec import Meta, Struct

from orchard.core.cache_folder import cache_folder
from orchard.core.errors import OrchardError
from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching import kv_cache
from orchard.engine.batching.attention import exact_attention
from orchard.engine.batching.batch import Batch, BatchMode, BatchSlot, SlotFailures, VerifyMode
from orchard.engine.batching.kv_cache import KVStore
from orchard.engine.batching.model import LanguageModel
from orchard.engine.batching.prefill import read_rows
from orchard.engine.ticket import StepWork

log = logging.getLogger("orchard.engine")

_MAX_BESIDE_ROWS = 1024  # tokens; after thousands of tokens, a chunk takes several times as long as at the beginning
_MIN_TOKENS_A_STEP = 64
_SECONDS_A_STEP = 0.06  # how long one chunk at the beginning of a prompt may hold up rows in decode
_TOLERANCE = 0.1  # of the logits' spread; rounding in bfloat16 usually stays below, a wrong mask is far above
_MAX_TOLERANCE = 0.5  # of the spread, in a model that amplifies rounding
_TOLERANCE_IN_PIECES = 0.2  # of the spread, on average; if rounding changes the choice of experts, it stays below
_PROMPT_TOKENS = 256
_MAX_TIMED_RUNS = 3
_ANSWER = [1, 2, 1, 2, 3]  # the answer of a row that verifies
_WRONG_TOKEN = 5
_PROBES = [[1, 2, 3, 4, 5, 6, 7], [9, 8, 7], [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3]]
_MOST_BYTES = 4096
_MOST_FILES = 512
_SECONDS_VALID = 24 * 3600  # the device may have been busy when it was timed


class Calibration(Struct, frozen=True, forbid_unknown_fields=True):
    """What was measured of a model. `batch_mode`: which rows share a pass; `batched_prefill`: whether prompts do.

    `chunk`: the most prompt tokens of a step while rows decode. `tokens_per_second`: of prefill; 0: not measured.
    `measured_at`: when these two were measured, in seconds since 1970; 0: never, so the warm-up did not end either.
    `in_pieces`: whether prompts can be prefilled in chunks. `draws_from_prompt`: whether the pass that reads a prompt's
    last token gives the logits of the first draw. `verify_mode`: which rows may verify proposed tokens; None:
    not tried. `work`: what a step takes beside weights and rows; None: not measured.
    """

    batch_mode: BatchMode
    batched_prefill: bool
    chunk: Annotated[int, Meta(ge=1)]
    tokens_per_second: Annotated[float, Meta(ge=0)]
    measured_at: float
    in_pieces: bool
    draws_from_prompt: bool
    verify_mode: VerifyMode | None = None
    work: StepWork | None = None

    @property
    def speeds_are_old(self) -> bool:
        """Whether `chunk` and `tokens_per_second` must be measured again."""
        return not 0 <= time.time() - self.measured_at < _SECONDS_VALID


def assume_least(*, in_pieces: bool, draws_from_prompt: bool) -> Calibration:
    """Return what is right for any model, except for the arguments, before anything else is measured."""
    return Calibration(BatchMode.SEQUENTIAL, False, _MIN_TOKENS_A_STEP, 0.0, 0.0, in_pieces, draws_from_prompt)


def gains_from_batched_prefill(model: LanguageModel, options: TextOptions, *, may_time: bool = True) -> bool:
    """Return whether several prompts can share a prefill pass, and whether that is faster, which `may_time` measures.

    If it is not measured, it counts as faster.
    """
    if mx.default_device() != mx.gpu:
        return False
    # If the GPU waits for launches, several prompts take little longer than one; one prompt keeps a small GPU busy.
    gains = not may_time or _prefill_seconds(model, _PROMPT_TOKENS, 4) < 2 * _prefill_seconds(model, _PROMPT_TOKENS)
    return gains and can_batch_prefill(model, options)


def check_kv_bits(model: LanguageModel, options: TextOptions) -> TextOptions:
    """Return the options. If the model can't read a quantised KV cache, remove `kv_bits` and log why.

    Raise OrchardError if the KV cache can't be quantised with this group size.
    """
    if not options.kv_bits:
        return options
    cache = model.new_cache()
    try:
        model.forward(mx.array([[0]], mx.uint32), cache)
        cache = kv_cache.quantize_cache(cache, options.kv_bits, options.kv_group_size)
    except ValueError as error:
        message = f"its KV cache can't be quantised in groups of {options.kv_group_size} (--kv-group-size): {error}"
        raise OrchardError("model_failed", message) from error
    reason = "none of the model's layers keeps all tokens"
    if kv_cache.is_quantized(cache):
        try:
            for tokens in ([[1, 2]], [[3]]):  # a model may attend in another way to one token
                mx.eval(model.forward(mx.array(tokens, mx.uint32), cache))
            return options
        except Exception as error:
            reason = f"the model's own attention can't read a quantised KV cache ({_error_line(error)})"
    log.warning("--kv-bits %d has no effect, the KV cache is not quantised: %s", options.kv_bits, reason)
    return msgspec.structs.replace(options, kv_bits=None)


def _error_line(error: Exception) -> str:
    """Return an MLX error on one line, without the list of the function's arguments."""
    first = (str(error).splitlines() or [""])[0].partition(". The following argument types")[0]
    return f"{type(error).__name__}: {first[:200]}"


def find_batch_mode(
    model: LanguageModel, options: TextOptions, modes: Sequence[BatchMode] = (BatchMode.SHARED, BatchMode.BY_LENGTH)
) -> Generator[None, None, BatchMode]:
    """Find out, in short units, which of a model's rows can share a pass without a change of their logits.

    `modes`: those that come into question, the best first.
    """
    alone = _ExpectedLogits(partial(_logits_alone, model, options))
    mx.eval(alone.exact)
    for mode in modes:
        yield
        if _logits_match(mode.value, alone, partial(_decode_logits, model, options, _PROBES, mode)):
            return mode
    log.warning("answers of this model share no forward passes: its cache or its attention doesn't allow it")
    return BatchMode.SEQUENTIAL


def can_batch_prefill(model: LanguageModel, options: TextOptions) -> bool:
    """Return whether prompts can share a prefill pass without a change of their logits."""
    batched = partial(_decode_logits, model, options, _PROBES, BatchMode.SEQUENTIAL, batched=True)
    return _logits_match("prompts share a pass", _ExpectedLogits(partial(_logits_alone, model, options)), batched)


def reads_in_pieces(model: LanguageModel, options: TextOptions) -> bool:
    """Return whether a prompt gives the same logits in two chunks as in one."""
    prompt = _PROBES[-1]
    half = len(prompt) // 2
    whole = _prompt_logits(model, options, [prompt])
    try:
        pieces = _prompt_logits(model, options, [prompt[:half], prompt[half:]])
        mx.eval(pieces)
    except Exception as error:
        log.info("the model can't do this: prefill in chunks (%s)", _error_line(error))
        return False
    off, spread = float(mx.sqrt(mx.mean(mx.square(pieces - whole)))), float(mx.std(whole))
    same = not off > _TOLERANCE_IN_PIECES * spread
    level = logging.DEBUG if same else logging.INFO
    told = "in chunks, the logits of a prompt change by %.3g on average, and their standard deviation is %.3g"
    log.log(level, told, off, spread)
    return same


def draws_from_prompt(model: LanguageModel, options: TextOptions) -> bool:
    """Return whether the pass that reads the end of a prompt gives the logits that a pass over its last token gives.

    Models that can't go back by one token don't count: what they keep of such a prompt would not serve the same prompt.
    Nor do caches that keep first tokens (`max_kv_size`): only a pass over one token attends to these.
    """
    logits_at, cache = model.logits_at, model.new_cache()
    keeps_first = any(getattr(layer, "keep", 0) for _, layer in kv_cache.named_layers(cache))
    if keeps_first or not (logits_at and kv_cache.looks_back(cache)):
        return False

    def logits_after(*pieces: list[int]) -> mx.array:
        *earlier, last = pieces
        cache = KVStore(model, options).new_cache()
        for piece in earlier:
            model.forward(mx.array([piece], mx.uint32), cache)
        tokens = mx.array([last], mx.uint32)
        return (
            model.forward(tokens, cache)[:, -1]
            if len(last) == 1
            else logits_at(tokens, cache, mx.array([len(last) - 1]))
        )

    prompt = _PROBES[-1]
    half = len(prompt) // 2
    expected = _ExpectedLogits(partial(logits_after, prompt[:-1], prompt[-1:]))
    return all(
        _logits_match("first tokens are drawn from the passes over prompts", expected, partial(logits_after, *pieces))
        for pieces in ([prompt], [prompt[:half], prompt[half:]])
    )


def _prompt_logits(model: LanguageModel, options: TextOptions, pieces: Sequence[list[int]]) -> mx.array:
    cache = KVStore(model, options).new_cache()
    read = [model.forward(mx.array([piece], mx.uint32), cache)[0] for piece in pieces]
    return mx.concatenate(read).astype(mx.float32)


class _ExpectedLogits:
    """Expected logits, computed when they are needed."""

    def __init__(self, logits: Callable[[], mx.array]) -> None:
        self._logits = logits

    @cached_property
    def exact(self) -> mx.array:
        """The logits in float32, with exact attention."""
        with exact_attention():
            return self._logits().astype(mx.float32)

    @cached_property
    def rounding(self) -> float:
        """The greatest change of a logit by attention in the model's own type: the effect of rounding."""
        return _max_difference(self._logits(), self.exact)


def _logits_match(what: str, expected: _ExpectedLogits, logits: Callable[[], mx.array]) -> bool:
    """Return whether logits are as expected except for rounding; log it if they aren't.

    They may differ by `_TOLERANCE` or, up to `_MAX_TOLERANCE`, by twice the model's own effect of rounding.
    """
    spread = float(mx.std(expected.exact))
    try:
        with exact_attention():
            off = _max_difference(logits(), expected.exact)
    except Exception as error:
        log.info("the model can't do this: %s (%s)", what, _error_line(error))
        return False
    allowed = _TOLERANCE * spread
    if off > allowed:
        allowed = min(max(allowed, 2 * expected.rounding), _MAX_TOLERANCE * spread)
    if off > allowed:
        told = "the model can't do this: %s (its logits change by %.3g, and their standard deviation is %.3g)"
        log.info(told, what, off, spread)
    return off <= allowed


def _max_difference(logits: mx.array, expected: mx.array) -> float:
    return float(mx.abs(logits.astype(mx.float32) - expected).max())


def _logits_alone(model: LanguageModel, options: TextOptions) -> mx.array:
    return mx.concatenate([_decode_logits(model, options, [probe], BatchMode.SEQUENTIAL) for probe in _PROBES])


def _decode_logits(
    model: LanguageModel, options: TextOptions, prompts: Sequence[list[int]], mode: BatchMode, batched: bool = False
) -> mx.array:
    """Return the logits (rows, vocab_size) after two steps of decode, in the order of the prompts.

    `batched`: prefill the prompts together in two passes, first their first halves, then the rest.
    """
    store = KVStore(model, options)
    caches = [store.new_cache() for _ in prompts]
    if batched:
        heads = [prompt[: len(prompt) // 2] for prompt in prompts]
        tails = [prompt[len(prompt) // 2 :] for prompt in prompts]
        for part in (heads, tails):
            caches, *_ = read_rows(model, list(zip(caches, part, strict=True)))
    else:
        for cache, prompt in zip(caches, prompts, strict=True):
            model.forward(mx.array([prompt], mx.uint32), cache)
    lengths = [len(prompt) for prompt in prompts]
    slots = [BatchSlot(store.quantize_if_due(cache, n), n) for cache, n in zip(caches, lengths, strict=True)]
    batch = Batch(model, mode, short_length=16)
    batch.arrange(slots)
    logits = None
    for token in (1, 2):
        logits = _checked_logits(*batch.forward(mx.full((len(slots),), token, mx.uint32)))
    assert logits is not None
    return logits[mx.array([batch.slots.index(slot) for slot in slots])]


def find_verify_mode(model: LanguageModel, options: TextOptions, mode: BatchMode) -> Generator[None, None, VerifyMode]:
    """Find out, in short units, which rows can verify tokens, and drop rejected ones, without a change of logits."""
    together = list(range(len(_PROBES)))
    ways = {VerifyMode.TOGETHER: [together], VerifyMode.ALONE: [[probe] for probe in together]}
    if mode is BatchMode.SEQUENTIAL:
        del ways[VerifyMode.TOGETHER]
    for verify_mode, passes in ways.items():
        expected = _ExpectedLogits(partial(_answer_logits, model, options, passes))
        mx.eval(expected.exact)
        yield
        logits = partial(_verified_logits, model, options, mode, passes)
        if _logits_match(f"proposed tokens for {verify_mode.value}", expected, logits):
            return verify_mode
        yield
    return VerifyMode.NEVER


def _answer_stops(probe: int) -> list[int]:
    """Return after how many tokens of a probe's answer the logits are compared; the numbers differ between rows."""
    return [1, len(_ANSWER) - 1 - probe, len(_ANSWER) - probe]


def _answer_logits(model: LanguageModel, options: TextOptions, passes: Sequence[Sequence[int]]) -> mx.array:
    """Return the logits (n, vocab_size) at the stops of each row, which is decoded alone, token by token."""
    found = []
    for probe in (probe for rows in passes for probe in rows):
        slot = _prefill_probe(model, KVStore(model, options), probe)
        batch = Batch(model, BatchMode.SEQUENTIAL)
        batch.arrange([slot])
        logits = [_checked_logits(*batch.forward(mx.array([token], mx.uint32))) for token in _ANSWER]
        found += [logits[stop - 1] for stop in _answer_stops(probe)]
    return mx.concatenate(found)


def _verified_logits(
    model: LanguageModel, options: TextOptions, mode: BatchMode, passes: Sequence[Sequence[int]]
) -> mx.array:
    """Return the same logits for rows that get wrong tokens after the first, then several right ones, then one."""
    store = KVStore(model, options)
    found: dict[int, list[mx.array]] = {}
    for probes in passes:
        probe_of = {_prefill_probe(model, store, probe): probe for probe in probes}
        for slot in probe_of:
            slot.batched = True
        batch = Batch(model, mode, short_length=16)
        batch.arrange(list(probe_of))
        order = [probe_of[slot] for slot in batch.slots]
        given = [[_ANSWER[0], *[_WRONG_TOKEN] * (2 - probe)] for probe in order]
        first = _checked_logits(*batch.verify(given, [len(tokens) for tokens in given]))[:, 0]
        batch.keep([1] * len(order))
        begun = [slot.length - len(_PROBES[probe]) for slot, probe in zip(batch.slots, order, strict=True)]
        given = [_ANSWER[start : _answer_stops(probe)[1]] for start, probe in zip(begun, order, strict=True)]
        second = _checked_logits(*batch.verify(given, [1] * len(order)))[:, 0]
        batch.keep([len(tokens) for tokens in given])
        last = [_ANSWER[_answer_stops(probe)[2] - 1] for probe in order]
        third = _checked_logits(*batch.forward(mx.array(last, mx.uint32)))
        for place, probe in enumerate(order):
            found[probe] = [one[place : place + 1] for one in (first, second, third)]
    return mx.concatenate([logits for probes in passes for probe in probes for logits in found[probe]])


def _prefill_probe(model: LanguageModel, store: KVStore, probe: int) -> BatchSlot:
    cache, prompt = store.new_cache(), _PROBES[probe]
    model.forward(mx.array([prompt], mx.uint32), cache)
    return BatchSlot(store.quantize_if_due(cache, len(prompt)), len(prompt))


def _checked_logits(logits: mx.array | None, failed: SlotFailures) -> mx.array:
    for _, error in failed:
        raise error
    assert logits is not None
    return logits


def measure_prefill(model: LanguageModel) -> Generator[None, None, tuple[int, float]]:
    """Time prefill, in short units; return how many prompt tokens a step may read while rows decode, and the tokens
    per second."""
    count = _MIN_TOKENS_A_STEP
    rate = count / _prefill_seconds(model, count)
    # On a GPU, a short chunk takes about as long as its launches.
    while rate * _SECONDS_A_STEP >= count and count < _MAX_BESIDE_ROWS:
        yield
        count = max(2 * count, _chunk_at_rate(rate))
        rate = count / _prefill_seconds(model, count)
    return _chunk_at_rate(rate), rate


def _chunk_at_rate(rate: float) -> int:
    """Return how many tokens a chunk may have, at `rate` tokens per second."""
    power = 1 << max(int(rate * _SECONDS_A_STEP), 1).bit_length() - 1
    return min(max(power, _MIN_TOKENS_A_STEP), _MAX_BESIDE_ROWS)


def _prefill_seconds(model: LanguageModel, count: int, rows: int = 1) -> float:
    tokens = mx.zeros((rows, count), mx.uint32)
    seconds: list[float] = []
    # On a GPU the first pass of a size is slow. Elsewhere one long pass is as good as three short ones.
    least = 2 if mx.default_device() == mx.gpu else 1
    while len(seconds) < least or (len(seconds) < _MAX_TIMED_RUNS and sum(seconds) < _SECONDS_A_STEP):
        cache = model.new_cache()
        begin = time.perf_counter()
        model.forward(tokens, cache)
        mx.eval([layer.state for layer in cache])
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def calibration_key(model: LanguageModel, options: TextOptions) -> str:
    """Return a hash of everything that a model's calibration depends on, as a file name."""
    sources = sorted(Path(__file__).parent.rglob("*.py"))
    device = sorted(item for item in mx.device_info().items() if item[0] != "free_memory")  # CUDA's; it always changes
    parts = [
        model.fingerprint,
        [options.kv_bits, options.kv_group_size, options.quantized_kv_start, options.max_kv_size],
        [_library_version(name) for name in ("mlx", "mlx-lm", "mlx-vlm", "mlx-orchard")],
        # People who work on the engine change it without a new version.
        [(source.name, source.stat().st_size, source.stat().st_mtime_ns) for source in sources],
        [str(mx.default_device()), device, platform.node(), os.cpu_count()],
        sorted(item for item in os.environ.items() if item[0].startswith("MLX_")),
    ]
    return blake2b(msgspec.json.encode(parts), digest_size=16).hexdigest()


def _library_version(name: str) -> str:
    """Return the version of a library, "" if it is not installed."""
    with suppress(PackageNotFoundError):
        return version(name)
    return ""


def load_calibration(name: str) -> Calibration | None:
    """Return the calibration stored under a key; None if there is none, or it is broken."""
    try:
        with (_calibration_folder() / f"{name}.json").open("rb") as file:
            return msgspec.json.decode(file.read(_MOST_BYTES), type=Calibration)
    except (OSError, RuntimeError, msgspec.MsgspecError):  # RuntimeError: there is no home
        return None


def save_calibration(name: str, calibration: Calibration) -> None:
    """Store a calibration under a key. If that fails, the next load calibrates again."""
    try:
        folder = _calibration_folder()
        folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder, suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.encode(calibration))
        Path(temporary).replace(folder / f"{name}.json")
        files = list(folder.iterdir())
        if len(files) > _MOST_FILES:
            for old in sorted(files, key=lambda path: path.stat().st_mtime)[:-_MOST_FILES]:
                old.unlink(missing_ok=True)  # another worker may have removed it
    except (OSError, RuntimeError) as error:
        log.info("the results of calibrating the model can't be stored: %s", error)


def _calibration_folder() -> Path:
    return cache_folder() / "models"
