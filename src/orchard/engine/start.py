"""Makes a runner for a loaded model: divides the memory, then calibrates the model and warms it up while it serves.

A model serves as soon as one job has run. Until it is calibrated, it does what is right for any model: rows take turns,
nothing is proposed, chunks are short. In the warm-up each kind of step runs once, so that few requests wait for the
compilation of a kernel. On the CPU, MLX builds kernels with the machine's C++ compiler and keeps them in a temporary
folder for later processes. On a GPU it keeps them, too, but each process must load them.
"""

import itertools
import logging
import tempfile
import time
from collections.abc import Callable, Generator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlx.core as mx
from msgspec.structs import replace

from orchard.core.errors import OrchardError
from orchard.core.tasks.text_options import TextOptions
from orchard.engine import calibration, memory, step_work
from orchard.engine.batching import attention, kv_cache
from orchard.engine.batching.batch import Batch, BatchMode, VerifyMode
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
from orchard.engine.ranks.follower import FollowingRunner, FollowingScheduler
from orchard.engine.ranks.group import ModelOfRankZero, RankGroup
from orchard.engine.ranks.leader import LeadingRunner, LeadingScheduler
from orchard.engine.ranks.shared_store import SharedStore
from orchard.engine.runner import Runner
from orchard.engine.sampling.params import SamplingParams
from orchard.engine.scheduler import Scheduler
from orchard.engine.speculation.make import make_speculation
from orchard.engine.speculation.rehearsal import rehearse
from orchard.engine.speculation.speculation import Speculation
from orchard.engine.ticket import Limits

log = logging.getLogger("orchard.engine")

_MOST_TOKENS_A_STEP = 2048
_PROMPTS_IN_A_PASS = 32
_TRIAL_ROWS = 16
_ROW_TOKENS = 1024  # of the row by which ranks compare their memory
Units = Generator[None, None, None]
"""Work that is done a unit at a time, each by one `next`."""
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
    group: RankGroup | None = None,
) -> tuple[Runner, Units]:
    """Make a runner that can serve at once; return it with the rest of the start.

    The rest is calibration and warm-up, in short units: run one with each `next`, between two steps of the runner.
    `draft`: the model's draft model or MTP head. `weights_bytes`: the memory of both. `wake`: see `KVStore`.
    `progress` is called with the fraction that is done. `group`: the ranks that have the model; then nothing is left of
    the start. Raise OrchardError if the model leaves no memory for requests.
    """
    attention.install_attention()
    if group:
        return _make_shared_runner(model, options, weights_bytes, wake, progress, group=group)
    if isinstance(draft, PredictionHead):
        model, draft = add_head(model, draft), None
    shares = _divide_memory(options, weights_bytes)
    options = calibration.check_kv_bits(model, options)
    name = calibration.calibration_key(model, options)
    stored = calibration.load_calibration(name)
    found = stored or _find_least(model, options)
    progress(0.4)
    if not found.in_pieces:
        log.warning(
            "prompts are prefilled whole and not cached: the model's logits change if they are prefilled in chunks"
        )
    # The disk's thread scans its files meanwhile.
    store = KVStore(model, options, shares.cache, wake, in_pieces=found.in_pieces)
    speculation = make_speculation(options, model.vocab_size, on_cuda=on_cuda())
    start = _Start(model, options, found, speculation, shares.rows, is_tested=stored is not None)
    if speculation and (draft or isinstance(model, HeadedModel)):
        for _ in start.find_modes():  # they decide what a row takes
            progress(0.6)
        if isinstance(model, HeadedModel) and not start.verifies:
            log.warning("the model's MTP head is not used: the model can't verify its guesses")
            return make_runner(model.plain, options, weights_bytes, wake, progress)
        if draft and start.verifies:
            start.adopt_draft(draft, speculation, shares.cache)
    for _ in start.measure_work():  # by the high estimate, a large request would be refused
        progress(0.8)
    warm_up_once(start.trial())
    rate, gap = start.found.tokens_per_second, options.max_token_gap
    price = None if options.prefill_step_size else PrefillPrice(rate or start.found.chunk / gap, gap)
    runner = start.runner(store, start.limits, speculation if start.may_verify else None, price)
    runner.limit_memory(shares)
    store.tokens_per_second = rate
    mx.clear_cache()
    progress(1.0)
    return runner, start.finish(runner, name, stored)


def _find_least(model: LanguageModel, options: TextOptions) -> calibration.Calibration:
    """Find out what must be known of a model before it serves."""
    in_pieces = calibration.reads_in_pieces(model, options)
    draws_from_prompt = in_pieces and calibration.draws_from_prompt(model, options)
    return calibration.assume_least(in_pieces=in_pieces, draws_from_prompt=draws_from_prompt)


def _make_shared_runner(
    model: LanguageModel,
    options: TextOptions,
    weights_bytes: int,
    wake: Callable[[], None],
    progress: Callable[[float], None],
    *,
    group: RankGroup,
) -> tuple[Runner, Units]:
    """Make this rank's runner. All ranks do this together, and what rank 0 finds out counts.

    Speeds are not measured, because ranks that measure take different numbers of passes: the price of prefill follows
    from the first steps.
    """
    calibrated = ModelOfRankZero(model, group)
    shares = _share_memory(model, options, weights_bytes, group)
    name = calibration.calibration_key(model, options)
    stored = group.agree(calibration.load_calibration(name), calibration.Calibration | None)
    in_pieces = stored is None and calibration.reads_in_pieces(calibrated, options)
    found = stored or calibration.assume_least(in_pieces=in_pieces, draws_from_prompt=False)
    progress(0.2)
    start = _Start(model, options, found, None, shares.rows, is_tested=stored is not None, group=group)
    for _ in itertools.chain(start.measure_work(), start.find_modes()):
        progress(0.4)
    start.found = group.agree(start.found, calibration.Calibration)
    if group.is_leader and start.found != stored:
        calibration.save_calibration(name, start.found)
    warm_up_once(start.trial())
    progress(0.6)
    for _ in start.warm_up():
        progress(0.8)
    store = _make_shared_store(model, options, shares.cache, wake, group, in_pieces=start.found.in_pieces)
    price = None
    if group.is_leader and not options.prefill_step_size:
        price = PrefillPrice(start.found.chunk / options.max_token_gap, options.max_token_gap)
    runner = start.runner(store, start.limits, price=price, shared=True)
    if group.is_leader:
        runner.limit_memory(shares)  # the others get it as their first order
    mx.clear_cache()
    progress(1.0)
    return runner, (None for _ in ())


def _share_memory(model: LanguageModel, options: TextOptions, weights_bytes: int, group: RankGroup) -> memory.Shares:
    """Divide the memory so that the rows have room on all ranks; return the shares of rank 0."""
    own = _divide_memory(options, weights_bytes)
    group.row_bytes = _measure_footprint(model, options).bytes(_ROW_TOKENS)
    # How many rows of some length there is room for. Rank 0 counts bytes, of which a row may take others elsewhere.
    rows = own.rows / max(group.row_bytes, 1)
    least = group.find_least(rows).item()
    assert isinstance(least, float)
    part = min(1.0, least / rows)
    return group.agree(memory.Shares(*(int(nbytes * part) for nbytes in own)), memory.Shares)


def _make_shared_store(
    model: LanguageModel,
    options: TextOptions,
    budget: int,
    wake: Callable[[], None],
    group: RankGroup,
    *,
    in_pieces: bool,
) -> SharedStore:
    """Make this rank's store. All ranks drop the same cached prompts at the same time, so they must count them alike.

    Ranks of a pipeline have different numbers of layers. That is made up for if all layers are of one kind.
    """
    if not group.is_pipeline:
        return SharedStore(model, options, budget, wake, group.find_extremes, in_pieces=in_pieces)
    cache = model.new_cache()
    mx.eval(model.forward(mx.array([[0]], mx.uint32), cache))
    size = kv_cache.layer_bytes(cache) or 0
    extremes = [extreme.item() for extreme in group.find_extremes(size)]  # on all ranks, whatever comes of it
    if extremes != [size, size] or not size:
        log.warning("prompts are not cached: the model's layers differ, and each rank has other ones")
        budget = 0
    layers, _ = (extreme.item() for extreme in group.find_extremes(len(cache)))
    assert isinstance(layers, int)
    return SharedStore(model, options, budget, wake, group.find_extremes, in_pieces=in_pieces, counted_layers=layers)


class _Start:
    """The start of a model: what is known of it, and the rest of what must be found out."""

    def __init__(
        self,
        model: LanguageModel,
        options: TextOptions,
        found: calibration.Calibration,
        speculation: Speculation | None,
        row_bytes: int,
        *,
        is_tested: bool,
        group: RankGroup | None = None,
    ) -> None:
        """`speculation`: what will propose tokens, if the model can verify them. `row_bytes`: the memory for rows.

        `is_tested`: `found` says what rows and prompts can share. `group`: the ranks that have the model.
        """
        self._model = model
        self._group = group
        self._options = options
        self.found = found
        """What has been found out so far."""
        self._speculates = speculation is not None
        self._row_bytes = row_bytes
        self._is_tested = is_tested
        self._footprint = _measure_footprint(model, options)
        if group:
            self._footprint = group.agree(self._footprint, Footprint)
        if self._speculates and found.verify_mode:
            self._log_who_speculates()

    @property
    def limits(self) -> Limits:
        """The limits that the options set, and what was found for those that they don't set."""
        options, found = self._options, self.found
        chunk = options.halve_tokens(options.prefill_step_size or found.chunk)
        idle_chunk = max(chunk, min(4 * chunk, _MOST_TOKENS_A_STEP))
        pieces = options.prompt_concurrency or self._pieces
        work = found.work or step_work.estimate_step_work(self._model)
        return Limits(options.decode_concurrency, self._row_bytes, chunk, idle_chunk, pieces=pieces, work=work)

    @property
    def _pieces(self) -> int:
        return _PROMPTS_IN_A_PASS if self.found.batched_prefill else 4

    @property
    def verifies(self) -> bool:
        """Whether it is known that some row may verify proposed tokens."""
        return self.found.verify_mode not in (None, VerifyMode.NEVER)

    @property
    def may_verify(self) -> bool:
        """Whether some row may verify proposed tokens, as far as is known."""
        return self.found.verify_mode is not VerifyMode.NEVER

    @property
    def _num_draft_tokens(self) -> int:
        """The most tokens that an MTP head may guess in a step."""
        return self._options.num_draft_tokens or DRAFT_TOKENS

    def measure_work(self) -> Units:
        """Measure what a step takes, unless that is known."""
        if not self.found.work:
            work = yield from step_work.measure_step_work(self._model, self._options)
            self.found = replace(self.found, work=work)

    def find_modes(self) -> Units:
        """Find out what rows and prompts can share, and which rows may verify, as far as that isn't known."""
        if not self._is_tested:
            tested = ModelOfRankZero(self._model, self._group) if self._group else self._model
            # In a pipeline, a rank makes the last layer's keys depend on what it sends, as one array.
            modes = [] if self._group and self._group.is_pipeline else [BatchMode.SHARED]
            mode = yield from calibration.find_batch_mode(tested, self._options, [*modes, BatchMode.BY_LENGTH])
            self.found = replace(self.found, batch_mode=mode)
            yield
            batched = calibration.gains_from_batched_prefill(tested, self._options, may_time=self._group is None)
            self.found = replace(self.found, batched_prefill=batched)
            self._is_tested = True
            yield
        if self._speculates and not self.found.verify_mode:
            verify_mode = yield from calibration.find_verify_mode(self._model, self._options, self.found.batch_mode)
            self.found = replace(self.found, verify_mode=verify_mode)
            self._log_who_speculates()

    def _log_who_speculates(self) -> None:
        """Write to the log if not every row may verify proposed tokens."""
        if not self.verifies:
            log.warning("speculation is not used: this model can't take guessed tokens back")
        elif self.found.verify_mode is VerifyMode.ALONE:
            log.info("speculation works only while one answer is generated: others can't share a pass that verifies")

    def adopt_draft(self, draft: LanguageModel, speculation: Speculation, cache_bytes: int) -> None:
        """Use a draft model if it works; each row's footprint then includes its KV cache in the draft model."""
        if made := make_drafter(draft, self._options, self._footprint, cache_bytes):
            drafter, self._footprint = made
            speculation.adopt(drafter)

    def runner(
        self,
        store: KVStore,
        limits: Limits,
        speculation: Speculation | None = None,
        price: PrefillPrice | None = None,
        *,
        shared: bool = False,
    ) -> Runner:
        """Make a runner that caches prompts in `store`. `shared`: rank 0 decides for the others what it does."""
        found, multiple = self.found, 8 if on_cuda() else 1
        verify_mode = found.verify_mode or VerifyMode.NEVER
        batch = Batch(self._model, found.batch_mode, multiple, traced=on_cuda(), verify_mode=verify_mode)
        if speculation and isinstance(self._model, HeadedModel):
            speculation.adopt(MtpProposer(self._model, batch, self._num_draft_tokens))
        make: type[Runner] = Runner
        scheduler: Scheduler | None = None
        if shared and (group := self._group):
            make = LeadingRunner if group.is_leader else FollowingRunner
            scheduler = LeadingScheduler(limits, price, group.send) if group.is_leader else FollowingScheduler(limits)
        return make(
            self._model,
            store,
            batch,
            limits,
            self._footprint,
            batched_prefill=found.batched_prefill,
            draws_from_prompt=found.draws_from_prompt and not shared,
            speculation=speculation,
            price=price,
            scheduler=scheduler,
            share_tokens=self._group.share if self._group else None,
        )

    def trial(self, speculation: Speculation | None = None) -> Runner:
        """Make a runner for the warm-up: it caches no prompts and has no memory limit."""
        limits = Limits(_TRIAL_ROWS, 2**62, _MOST_TOKENS_A_STEP, _MOST_TOKENS_A_STEP, pieces=self._pieces)
        return self.runner(KVStore(self._model, self._options), limits, speculation)

    def finish(self, runner: Runner, name: str, stored: calibration.Calibration | None) -> Units:
        """Calibrate what is not `stored`, warm the model up, measure old speeds again, and store it all as `name`.

        First comes what running requests gain from. `runner` adopts what is found.
        """
        runner.reserve(self._trial_bytes)
        try:
            yield from self._finish(runner, name, stored)
        finally:
            runner.reserve(0)

    def _finish(self, runner: Runner, name: str, stored: calibration.Calibration | None) -> Units:
        is_warm = name in warm_models or (stored is not None and stored.measured_at > 0 and has_kept_kernels())
        for _ in self.find_modes():
            self._hand_over(runner)
            yield
        self._hand_over(runner)
        if self.found != stored:
            calibration.save_calibration(name, self.found)  # the process may end before the rest is done
        if not is_warm:
            yield from self.warm_up()
            warm_models.add(name)
        if self.found.speeds_are_old:
            chunk, rate = yield from calibration.measure_prefill(self._model)
            self.found = replace(self.found, chunk=chunk, tokens_per_second=rate, measured_at=time.time())
        self._hand_over(runner)
        if self.found != stored:
            calibration.save_calibration(name, self.found)

    @property
    def _trial_bytes(self) -> int:
        """The bytes that a unit takes, at most: one long pass with its padding, or several shorter rows."""
        work, most = self.limits.work, 2 * _MOST_TOKENS_A_STEP
        rows = max(self._footprint.bytes(most), *(rows * self._footprint.bytes(size) for size, rows in _LONG_PROMPTS))
        return work.chunk(most, most) + rows + _TRIAL_ROWS * work.row

    def _hand_over(self, runner: Runner) -> None:
        """Let a runner use what has been found out."""
        found = self.found
        runner.adopt(found, self.limits)
        if not self.may_verify:
            runner.speculation = None
        runner.store.tokens_per_second = found.tokens_per_second

    def warm_up(self) -> Units:
        """Run every kind of step once."""
        yield from warm_up_every_way(self.trial())
        if self.found.batched_prefill:  # padding may double the tokens
            yield from warm_up_prefill(
                self._model, 2 * _MOST_TOKENS_A_STEP, logits=self.found.draws_from_prompt, traced=on_cuda()
            )
        if not (self._speculates and self.verifies):
            return
        for ways, counts in _rehearsals():
            for count in counts:
                yield from warm_up_verifying(self.trial(rehearse(count, self._model.vocab_size)), count, ways)
        if isinstance(self._model, HeadedModel):
            most = self._num_draft_tokens
            for ways in _ALONE_AND_TOGETHER:
                speculation = rehearse(most, self._model.vocab_size, uses_draft=True)
                yield from warm_up_verifying(self.trial(speculation), most, ways)


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
    """Check a model: prefill a prompt and generate two tokens. Raise RuntimeError if it fails."""
    for _ in _run_jobs(runner, [Job("greedy", [0, 0], _GREEDY, max_tokens=2)]):
        pass


def warm_up_every_way(runner: Runner) -> Units:
    """Run one row and several, with every way to sample, and on a GPU long prompts; each step is a unit.

    Raise RuntimeError if the model fails.
    """
    on_gpu = mx.default_device() == mx.gpu
    # Long prompts would take seconds on the CPU, and its kernels serve any length.
    length, tokens = (17, RUNS_BEFORE_TRACE + 3) if on_gpu else (3, 3)
    yield from _run_jobs(runner, [Job("greedy", [0, 0], _GREEDY, max_tokens=tokens)])
    draws = [SamplingParams(seed=0, **way) for way in _WAYS]
    yield from _run_jobs(
        runner, [Job(f"mixed {number}", [0] * length, params, tokens) for number, params in enumerate(draws)]
    )
    if on_gpu:
        for length, rows in _LONG_PROMPTS:
            yield from _run_jobs(runner, [Job("rows", [0] * length, _GREEDY, max_tokens=4, choices=rows)])
    mx.clear_cache()


def warm_up_verifying(runner: Runner, count: int, ways: _Ways) -> Units:
    """Run a few steps that verify `count` tokens of one row for each way to sample; each step is a unit.

    Raise RuntimeError if the model fails.
    """
    steps = RUNS_BEFORE_TRACE + 3 if on_cuda() else 2
    draws = [SamplingParams(seed=0, **way) for way in ways]
    most = (steps + 2) * (count + 1)  # the rows that join first may be two steps ahead
    jobs = [Job(f"verified {number}", [0, 0], params, most) for number, params in enumerate(draws)]
    yield from _run_jobs(runner, jobs, steps)


def _run_jobs(runner: Runner, jobs: list[Job], steps: int | None = None) -> Units:
    """Run jobs to their end, or until all of them have generated tokens in `steps` steps."""
    for job in jobs:
        runner.add(job)
    while not runner.is_idle and steps != 0:
        step = runner.step()
        if step.failures:
            raise RuntimeError(step.failures[0].message)
        if steps and len({one.job for one in step.tokens}) == len(jobs):
            steps -= 1
        yield
    for job in jobs:
        runner.cancel(job.id)
