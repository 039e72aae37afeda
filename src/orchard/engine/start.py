"""Makes a runner for a loaded model: calibrates the model, divides the memory and warms the model up.

Each kind of step runs once before the model serves, so that no request waits for the compilation of a kernel. On the
CPU, MLX builds kernels with the machine's C++ compiler and keeps them in a temporary folder for later processes. On a
GPU each process compiles its own.
"""

import logging
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlx.core as mx
from msgspec.structs import replace

from orchard.core.errors import OrchardError
from orchard.core.tasks.text_options import TextOptions
from orchard.engine import calibration, memory, step_work
from orchard.engine.batching import attention, kv_cache
from orchard.engine.batching.batch import Batch, VerifyMode
from orchard.engine.batching.job import Job
from orchard.engine.batching.kv_cache import KVStore
from orchard.engine.batching.layer_kinds import Footprint
from orchard.engine.batching.model import LanguageModel, on_cuda
from orchard.engine.batching.prefill import warm_up_prefill
from orchard.engine.batching.traced_pass import RUNS_BEFORE_TRACE
from orchard.engine.drafting.head import HeadedModel, PredictionHead
from orchard.engine.drafting.make_drafter import DRAFT_TOKENS, add_head, make_drafter
from orchard.engine.drafting.mtp_proposer import MtpProposer
from orchard.engine.prefill_price import PrefillPrice
from orchard.engine.runner import Runner
from orchard.engine.sampling.params import SamplingParams
from orchard.engine.speculation.make import make_speculation
from orchard.engine.speculation.rehearsal import rehearse
from orchard.engine.speculation.speculation import Speculation
from orchard.engine.ticket import Limits

log = logging.getLogger("orchard.engine")

_MOST_TOKENS_A_STEP = 2048
_PROMPTS_IN_A_PASS = 32
_Ways = tuple[dict[str, Any], ...]
_WAYS: _Ways = (
    {"temperature": 0.0},
    {},
    {"top_k": 20, "top_p": 0.9, "min_p": 0.01},
    {"top_p": 0.9},
    {"top_k": 20, "xtc_probability": 1.0, "xtc_threshold": 0.01},
    {"repetition_penalty": 1.1, "presence_penalty": 0.1, "frequency_penalty": 0.1, "frequency_context_size": 4},
    {"logit_bias": {0: 1.0}, "top_logprobs": 1, "thinking_budget": 1, "think_start": 1, "think_end": 0},
)
_ALONE_AND_TOGETHER = _WAYS[:1], _WAYS
_GREEDY = SamplingParams(seed=0, **_WAYS[0])
_PROPOSAL_LENGTHS = (1, 3, 7)  # proposed tokens of each row in a step that verifies
_PROPOSAL_LENGTHS_ALONE_ON_CUDA = (7, 15)  # on CUDA, other numbers are padded to these
_PROPOSAL_LENGTHS_ON_CPU = (3,)  # the CPU's kernels serve any number
_LONG_PROMPTS = ((300, 1), (600, 9), (2050, 1))  # tokens, rows

warm_models: set[str] = set()
"""The names of the models that this process has warmed up."""


def make_runner(
    model: LanguageModel,
    options: TextOptions,
    weights_bytes: int,
    wake: Callable[[], None],
    progress: Callable[[float], None] = lambda fraction: None,
    *,
    draft: LanguageModel | PredictionHead | None = None,
) -> Runner:
    """Make a runner for a loaded model and warm the model up, so that no request waits for compilation.

    `draft`: the model's draft model or MTP head. `weights_bytes`: the memory of both. `wake`: see `KVStore`.
    `progress` is called with the fraction that is done. Raise OrchardError if the model leaves no memory for requests.
    """
    attention.install_attention()
    if isinstance(draft, PredictionHead):
        model, draft = add_head(model, draft), None
    shares = _divide_memory(options, weights_bytes)
    options = calibration.check_kv_bits(model, options)
    name = calibration.calibration_key(model, options)
    known = calibration.load_calibration(name)
    in_pieces = known.in_pieces if known else calibration.reads_in_pieces(model, options)
    if not in_pieces:
        log.warning(
            "prompts are prefilled whole and not cached: the model's logits change if they are prefilled in chunks"
        )
    # The disk's thread scans its files during the warm-up.
    store = KVStore(model, options, shares.cache, wake, in_pieces=in_pieces)
    speculation = make_speculation(options, model.vocab_size, on_cuda=on_cuda())
    parts = _RunnerParts(model, options, known, speculation is not None, progress)
    if isinstance(model, HeadedModel) and not parts.verifies:
        log.warning("the model's MTP head is not used: the model can't verify its guesses")
        return make_runner(model.plain, options, weights_bytes, wake, progress)
    if draft and speculation and parts.verifies:
        parts.adopt(draft, speculation, shares.cache)
    _warm_up(parts, parts.verifies and speculation is not None, name, known is not None, progress)
    known = _complete_calibration(known, parts, name, in_pieces, progress)
    store.tokens_per_second = known.tokens_per_second
    mx.clear_cache()
    progress(1.0)
    limits = _make_limits(options, shares.rows, known.chunk, parts.pieces)
    limits = replace(limits, work=known.work or step_work.estimate_step_work(model))
    price = None if options.prefill_step_size else PrefillPrice(known.tokens_per_second, options.max_token_gap)
    runner = parts.runner(store, limits, speculation if parts.verifies else None, price)
    runner.limit_memory(shares)
    return runner


def _complete_calibration(
    known: calibration.Calibration | None,
    parts: "_RunnerParts",
    name: str,
    in_pieces: bool,
    progress: Callable[[float], None],
) -> calibration.Calibration:
    """Return the model's complete calibration; store it under `name` if any part of it is new."""
    if known is None:
        measured = calibration.measure_prefill(parts.model, lambda: progress(0.9))
        found = time.time()
        work = step_work.measure_step_work(parts.model, parts.options)
        whole = calibration.Calibration(
            parts.mode, parts.batches_prefill, *measured, found, in_pieces, parts.verify_mode, work
        )
    else:
        work = known.work or step_work.measure_step_work(parts.model, parts.options)
        whole = replace(known, verify_mode=parts.verify_mode, work=work)
    if whole != known:
        calibration.save_calibration(name, whole)
    return whole


def _make_limits(options: TextOptions, row_bytes: int, chunk: int, pieces: int) -> Limits:
    """Return the limits that the options set; take `chunk` and `pieces` for those that they don't set."""
    chunk = options.halve_tokens(options.prefill_step_size or chunk)
    idle_chunk = max(chunk, min(4 * chunk, _MOST_TOKENS_A_STEP))
    pieces = options.prompt_concurrency or pieces
    return Limits(options.decode_concurrency, row_bytes, chunk, idle_chunk, pieces=pieces)


class _RunnerParts:
    """The parts of a model's runners: what the calibration found or, if there is none, what is measured now."""

    def __init__(
        self,
        model: LanguageModel,
        options: TextOptions,
        known: calibration.Calibration | None,
        speculates: bool,
        progress: Callable[[float], None],
    ) -> None:
        self.model = model
        self.options = options
        self.mode = known.batch_mode if known else calibration.find_batch_mode(model, options)
        self.verify_mode = known.verify_mode if known else None
        """Which rows may verify proposed tokens; None: not measured yet."""
        if speculates and not self.verify_mode:
            self.verify_mode = calibration.find_verify_mode(model, options, self.mode)
        if speculates:
            self._log_who_speculates()
        progress(0.2)
        self.batches_prefill = (
            known.batched_prefill if known else calibration.gains_from_batched_prefill(model, options)
        )
        """Whether several prompts share a prefill pass."""
        progress(0.3)
        self.pieces = _PROMPTS_IN_A_PASS if self.batches_prefill else 4
        self._footprint = _measure_footprint(model, options)

    def _log_who_speculates(self) -> None:
        """Write to the log if not every row may verify proposed tokens."""
        if not self.verifies:
            log.warning("speculation is not used: this model can't take guessed tokens back")
        elif self.verify_mode is VerifyMode.ALONE:
            log.info("speculation works only while one answer is generated: others can't share a pass that verifies")

    @property
    def num_draft_tokens(self) -> int:
        """The most tokens that an MTP head may guess in a step."""
        return self.options.num_draft_tokens or DRAFT_TOKENS

    def adopt(self, draft: LanguageModel, speculation: Speculation, cache_bytes: int) -> None:
        """Use a draft model if it works; each row's footprint then includes its KV cache in the draft model."""
        if made := make_drafter(draft, self.options, self._footprint, cache_bytes):
            drafter, self._footprint = made
            speculation.adopt(drafter)

    @property
    def verifies(self) -> bool:
        """Whether any row may verify proposed tokens."""
        return self.verify_mode not in (None, VerifyMode.NEVER)

    def runner(
        self,
        store: KVStore,
        limits: Limits,
        speculation: Speculation | None = None,
        price: PrefillPrice | None = None,
    ) -> Runner:
        """Make a runner that caches prompts in `store`."""
        multiple, verify_mode = 8 if on_cuda() else 1, self.verify_mode or VerifyMode.NEVER
        batch = Batch(self.model, self.mode, multiple, traced=on_cuda(), verify_mode=verify_mode)
        if speculation and isinstance(self.model, HeadedModel):
            speculation.adopt(MtpProposer(self.model, batch, self.num_draft_tokens))
        return Runner(
            self.model,
            store,
            batch,
            limits,
            self._footprint,
            batched_prefill=self.batches_prefill,
            speculation=speculation,
            price=price,
        )

    def trial(self, speculation: Speculation | None = None) -> Runner:
        """Make a runner for the warm-up: it caches no prompts and has no memory limit."""
        limits = Limits(16, 2**62, _MOST_TOKENS_A_STEP, _MOST_TOKENS_A_STEP, pieces=self.pieces)
        return self.runner(KVStore(self.model, self.options), limits, speculation)


def _warm_up(parts: _RunnerParts, speculates: bool, name: str, known: bool, progress: Callable[[float], None]) -> None:
    """Run every kind of step once. If this process or an earlier one has done so, only check that the model works."""
    if name in warm_models or (known and has_kept_kernels()):
        warm_up_once(parts.trial())
    else:
        warm_up_every_way(parts.trial(), lambda: progress(0.5))
        if parts.batches_prefill:  # padding may double the tokens
            warm_up_prefill(parts.model, 2 * _MOST_TOKENS_A_STEP, lambda: progress(0.7))
        for ways, counts in _rehearsals() if speculates else ():
            for count in counts:
                progress(0.8)
                warm_up_verifying(parts.trial(rehearse(count, parts.model.vocab_size)), count, ways)
        if speculates and isinstance(parts.model, HeadedModel):
            most = parts.num_draft_tokens
            for ways in _ALONE_AND_TOGETHER:
                warm_up_verifying(parts.trial(rehearse(most, parts.model.vocab_size, uses_draft=True)), most, ways)
    warm_models.add(name)


def _rehearsals() -> list[tuple[_Ways, tuple[int, ...]]]:
    """Return the ways to sample, each with the numbers of proposed tokens to warm up."""
    if mx.default_device() == mx.cpu:
        return [(ways, _PROPOSAL_LENGTHS_ON_CPU) for ways in _ALONE_AND_TOGETHER]
    alone, together = _ALONE_AND_TOGETHER
    return [(alone, _PROPOSAL_LENGTHS_ALONE_ON_CUDA if on_cuda() else _PROPOSAL_LENGTHS), (together, _PROPOSAL_LENGTHS)]


def _divide_memory(options: TextOptions, weights_bytes: int) -> memory.Shares:
    shares = memory.divide_memory(options, weights_bytes)
    if not shares.rows:
        raise OrchardError(
            "model_failed",
            f"the model takes {weights_bytes:,} bytes; the memory limit of {memory.memory_limit(options):,} leaves "
            "nothing for requests",
        )
    if shares.cache < (wanted := options.prompt_cache_bytes or 0):
        log.warning("cached prompts may take %s bytes of memory, not %s: requests need the rest", shares.cache, wanted)
    return shares


def _measure_footprint(model: LanguageModel, options: TextOptions) -> Footprint:
    """Measure the memory of a row with one token, in the form in which a short row is kept."""
    cache = KVStore(model, options).new_cache()
    model.forward(mx.array([[0]], mx.uint32), cache)
    return kv_cache.footprint(cache)


def has_kept_kernels() -> bool:
    """Return whether earlier processes' kernels are in MLX's folder, so that a known model is already warm here."""
    if mx.default_device() == mx.gpu:
        return False
    folder = Path(tempfile.gettempdir()) / "mlx" / version("mlx") / "cpu"
    return folder.is_dir()


def warm_up_once(runner: Runner) -> None:
    """Check a model that is already warm: prefill a prompt and generate two tokens. Raise RuntimeError if it fails."""
    _run_jobs(runner, [Job("greedy", [0, 0], _GREEDY, max_tokens=2)])


def warm_up_every_way(runner: Runner, tick: Callable[[], None]) -> None:
    """Run one row and several, with every way to sample, and on a GPU long prompts; call `tick` in between.

    Raise RuntimeError if the model fails.
    """
    on_gpu = mx.default_device() == mx.gpu
    # Long prompts would take seconds on the CPU, and its kernels serve any length.
    length, tokens = (17, RUNS_BEFORE_TRACE + 3) if on_gpu else (3, 3)
    _run_jobs(runner, [Job("greedy", [0, 0], _GREEDY, max_tokens=tokens)])
    tick()
    draws = [SamplingParams(seed=0, **way) for way in _WAYS]
    _run_jobs(runner, [Job(f"mixed {number}", [0] * length, params, tokens) for number, params in enumerate(draws)])
    if on_gpu:
        for length, rows in _LONG_PROMPTS:
            tick()
            _run_jobs(runner, [Job("rows", [0] * length, _GREEDY, max_tokens=4, choices=rows)])
    mx.clear_cache()


def warm_up_verifying(runner: Runner, count: int, ways: _Ways) -> None:
    """Run a few steps that verify `count` tokens of one row for each way to sample.

    Raise RuntimeError if the model fails.
    """
    steps = RUNS_BEFORE_TRACE + 3 if on_cuda() else 2
    draws = [SamplingParams(seed=0, **way) for way in ways]
    most = (steps + 2) * (count + 1)  # the rows that join first may be two steps ahead
    _run_jobs(runner, [Job(f"verified {number}", [0, 0], params, most) for number, params in enumerate(draws)], steps)


def _run_jobs(runner: Runner, jobs: list[Job], steps: int | None = None) -> None:
    """Run jobs to their end, or until all of them have generated tokens in `steps` steps."""
    for job in jobs:
        runner.add(job)
    while not runner.is_idle and steps != 0:
        step = runner.step()
        if step.failures:
            raise RuntimeError(step.failures[0].message)
        if steps and len({one.job for one in step.tokens}) == len(jobs):
            steps -= 1
    for job in jobs:
        runner.cancel(job.id)
