"""Draws the next tokens of a batch of rows from the model's logits.

The order is that of vLLM, Hugging Face and, for XTC, text-generation-webui:

1. logprobs are taken from the model's own distribution, before anything below;
2. `logit_bias` is added;
3. `repetition_penalty` (over prompt and generated tokens: positive logits divided, negative multiplied), then
   `frequency_penalty` times the count and `presence_penalty` once are subtracted (over generated tokens);
   then tokens that the row's grammar doesn't allow are excluded;
4. temperature 0 takes the most likely token; otherwise logits are divided by the temperature;
5. `top_k`, then `top_p` (of what top_k left; the most likely token always stays), then `min_p` (relative to the most
   likely token) drop unlikely tokens; of ties at the edge, `top_k` keeps the lowest ids, the others keep all;
6. XTC drops likely tokens, by the probabilities after step 5;
7. one token is drawn, or `think_end` is forced (see `thinking_budget`).

Rows with the same path are drawn together; a row's path depends only on its own parameters.
Everything stays on the device: drawing waits for no result.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from orchard.engine.sampling import categorical
from orchard.engine.sampling.logprobs import Logprobs
from orchard.engine.sampling.params import Sample, SamplingParams
from orchard.engine.sampling.penalties import Penalties, TallyState
from orchard.engine.sampling.thinking_budget import ThinkingBudgets

ShareTokens = Callable[[mx.array], mx.array]
"""Returns the tokens that rank 0 has drawn, uint32 (B,), on each rank of a model; lazy. See `engine.ranks`."""

_MASK64 = (1 << 64) - 1
_GREEDY_BELOW = 1e-5  # dividing by a lower temperature only overflows
_HOTTEST = 1e30  # higher temperatures make no difference, and would exceed float32
_LEAST = -3e38  # about the least finite float32
_MIN_CANDIDATES = 64  # candidates for every top_k up to this


def _mix_bits(number: int) -> int:
    """Spread an integer over 64 bits (splitmix64, https://prng.di.unimi.it/splitmix64.c)."""
    number = (number + 0x9E3779B97F4A7C15) & _MASK64
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _MASK64
    return number ^ (number >> 31)


def _random_bits(bits: int, number: int) -> int:
    """Return the random bits of a draw's try with this number; `_mix_bits(bits)` decides about XTC."""
    return _mix_bits(bits + 1 + number) >> (64 - categorical.RANDOM_BITS)


class Draw(Struct, eq=False):
    """The next token of every row, perhaps not computed yet. `token` is uint32 (B,).

    `logprobs`: of the rows in `logprob_rows`, each (row, number of most likely tokens to report). `state`: arrays to
    compute with the draw.
    """

    token: mx.array
    logprobs: Logprobs | None
    logprob_rows: list[tuple[int, int]]
    state: list[mx.array]

    def launch(self) -> None:
        """Let the device begin; return at once."""
        wanted = self.logprobs.arrays() if self.logprobs else []
        mx.async_eval(self.token, wanted, self.state)  # type: ignore[no-untyped-call]
        self.state = []  # so that the next draw may write into the same memory

    def read(self) -> list[Sample]:
        """Wait for the tokens and return them. This queues no operation, so it doesn't wait for work launched later."""
        tokens: Any = self.token.tolist()
        samples = [Sample(token) for token in tokens]
        if self.logprobs is not None:
            for (row, count), scored in zip(self.logprob_rows, self.logprobs.read(), strict=True):
                samples[row] = replace(scored, top=scored.top[:count])
        return samples


class DrawsAhead(Struct):
    """Several tokens of each of `rows` rows: either draws of one token per row, or one draw of all, row by row."""

    draws: list[Draw]
    rows: int

    def launch(self) -> None:
        """Let the device begin; return at once."""
        for draw in self.draws:
            draw.launch()

    def read(self) -> list[Sequence[Sample]]:
        """Wait for the tokens; return each row's. No other work may have been launched since."""
        # MLX sleeps while it waits for an array. On CUDA, launching takes twice as long after a sleep.
        if mx.cuda.is_available():
            mx.synchronize()
        first, *others = [draw.read() for draw in self.draws]
        if others:
            return list(zip(first, *others, strict=True))
        count = len(first) // self.rows
        return [first[row * count : (row + 1) * count] for row in range(self.rows)]


@dataclass
class _Row:
    """One choice: its parameters, its seed, and how many tokens have been drawn."""

    params: SamplingParams
    seed: int
    draw_count: int

    def random_bits(self) -> int:
        """Return the 64 random bits of the next draw."""
        return _mix_bits(self.seed + self.draw_count)


@dataclass(frozen=True)
class _DrawPath:
    """How a row is drawn: from `width` sorted candidates (0: all the vocabulary, unsorted), with top-p or not."""

    greedy: bool
    width: int = 0
    nucleus: bool = False


def _draw_path(params: SamplingParams, vocab_size: int) -> _DrawPath:
    if params.temperature < _GREEDY_BELOW or params.top_p <= 0:
        return _DrawPath(True)
    if 0 < params.top_k < vocab_size:
        return _DrawPath(
            False, min(vocab_size, max(_MIN_CANDIDATES, 1 << (params.top_k - 1).bit_length())), params.top_p < 1
        )
    # XTC must know what top_p leaves, not only draw from it: the one case that sorts the vocabulary.
    sort = params.top_p < 1 and params.xtc_probability > 0
    return _DrawPath(False, vocab_size if sort else 0, params.top_p < 1)


class _DrawGroup:
    """The rows that take one path, n of them, and their parameters as arrays (n, 1)."""

    def __init__(self, path: _DrawPath, rows: list[int], params: list[SamplingParams], vocab_size: int) -> None:
        self.rows = rows
        self._path = path
        self._params = params
        self._temperature = _column([min(one.temperature, _HOTTEST) for one in params], mx.float32)
        self._top_k = _column([one.top_k if 0 < one.top_k < vocab_size else vocab_size for one in params], mx.int64)
        self._top_p = _column([categorical.fraction(one.top_p) for one in params], mx.int64)
        self._tries = [categorical.count_tries(one.top_p, vocab_size) for one in params]
        self._min_p = _column([min(max(one.min_p, 0.0), 1.0) for one in params], mx.float32)
        self._cuts = path.nucleus or any(one.min_p > 0 for one in params)
        self._xtc_threshold = _column([categorical.fraction(one.xtc_threshold) for one in params], mx.int64)
        self._xtc_keep = _id_masks([one.xtc_keep if one.xtc_probability > 0 else () for one in params], vocab_size)

    def choose(self, scores: mx.array, chances: list[int]) -> mx.array:
        """Draw tokens, uint32 (n,), from adjusted scores (n, vocab_size); `chances` are 64 random bits per row."""
        if self._path.greedy:
            return mx.argmax(scores, axis=-1)
        ids = None
        if self._path.width:
            ids = categorical.leading_ids(scores, self._path.width)
            scores = mx.take_along_axis(scores, ids, axis=-1)
        relative = categorical.likelihood(scores, self._temperature)
        if self._path.nucleus and ids is None:
            place = self._pick_nucleus(relative, chances)
        else:
            heavy = self._apply_xtc(self._cut_weights(relative), ids, chances)
            own = _column([_random_bits(bits, 0) for bits in chances], mx.int64)
            place = categorical.pick_places(heavy, categorical.race_times(own, heavy.shape[-1], ids)[:, 0])
        token = place if ids is None else mx.take_along_axis(ids, place, axis=-1)
        return token[:, 0].astype(mx.uint32)

    def _pick_nucleus(self, relative: mx.array, chances: list[int]) -> mx.array:
        most = max(self._tries)
        tosses = [
            [_random_bits(bits, number) if number < tries else -1 for number in range(most)]
            for bits, tries in zip(chances, self._tries, strict=True)
        ]
        heavy = categorical.weigh(relative)
        return categorical.pick_nucleus(relative, heavy, self._min_p, self._top_p, mx.array(tosses, mx.int64))

    def _cut_weights(self, relative: mx.array) -> mx.array:
        """Return the weights (n, m) after top_k, top_p and min_p; top_k and top_p need sorted tokens."""
        heavy = categorical.weigh(relative)
        if self._path.width:
            heavy = mx.where(mx.arange(self._path.width) < self._top_k, heavy, 0)
        if not self._cuts:
            return heavy
        floor = self._min_p
        if self._path.nucleus:
            floor = mx.maximum(floor, categorical.nucleus_floor(relative, heavy, self._top_p))
        return mx.where(relative >= floor, heavy, 0)

    def _apply_xtc(self, heavy: mx.array, ids: mx.array | None, chances: list[int]) -> mx.array:
        """Apply XTC to the rows whose random bits, which the host knows, select it."""
        pairs = zip(chances, self._params, strict=True)
        active = [_mix_bits(bits) < one.xtc_probability * (1 << 64) for bits, one in pairs]
        if not any(active):
            return heavy
        keep = self._xtc_keep
        if keep is not None and ids is not None:
            keep = mx.take_along_axis(keep, ids, axis=-1)
        return categorical.exclude_top_choices(heavy, self._xtc_threshold, keep, _column(active, mx.bool_))


def _column(values: list[Any], dtype: mx.Dtype) -> mx.array:
    return mx.array(values, dtype)[:, None]


def _id_masks(ids: list[tuple[int, ...]], vocab_size: int) -> mx.array | None:
    """Return a mask of each row's ids, bool (n, vocab_size); None if no row has any."""
    if not any(ids):
        return None
    marks = np.zeros((len(ids), vocab_size), dtype=bool)
    for row, some in enumerate(ids):
        marks[row, [id_ for id_ in some if 0 <= id_ < vocab_size]] = True
    return mx.array(marks)


class _DrawPlan:
    """What stays the same from draw to draw until rows join or leave."""

    def __init__(self, params: list[SamplingParams], vocab_size: int) -> None:
        paths: dict[_DrawPath, list[int]] = {}
        for row, one in enumerate(params):
            paths.setdefault(_draw_path(one, vocab_size), []).append(row)
        self._groups = [
            _DrawGroup(path, rows, [params[row] for row in rows], vocab_size) for path, rows in paths.items()
        ]
        order = np.argsort([row for group in self._groups for row in group.rows])
        self._places = mx.array(order.astype(np.uint32))
        biases = [(row, id_, value) for row, one in enumerate(params) for id_, value in one.logit_bias.items()]
        self._bias = tuple(mx.array(list(values)) for values in zip(*biases, strict=True))
        self.logprob_rows = [
            (row, min(one.top_logprobs, vocab_size)) for row, one in enumerate(params) if one.top_logprobs is not None
        ]

    def bias(self, scores: mx.array) -> mx.array:
        """Return scores (B, vocab_size) plus `logit_bias`."""
        if not self._bias:
            return scores
        rows, ids, values = self._bias
        return scores.at[rows, ids].add(values.astype(mx.float32))

    def choose(self, scores: mx.array, rows: list[_Row]) -> mx.array:
        """Draw tokens, uint32 (B,), from adjusted scores (B, vocab_size)."""
        if len(self._groups) == 1:
            return self._groups[0].choose(scores, [row.random_bits() for row in rows])
        tokens = [
            group.choose(scores[mx.array(group.rows)], [rows[row].random_bits() for row in group.rows])
            for group in self._groups
        ]
        return mx.concatenate(tokens)[self._places]

    def logprobs(self, token: mx.array, raw: mx.array) -> Logprobs | None:
        """Return the logprobs of `token` (B,) from the model's logits (B, vocab_size), for the rows that want them."""
        if not self.logprob_rows:
            return None
        if len(self.logprob_rows) < raw.shape[0]:
            rows = mx.array([row for row, _ in self.logprob_rows])
            token, raw = token[rows], raw[rows]
        return Logprobs.from_logits(raw, token, max(count for _, count in self.logprob_rows))


class Sampler:
    """Draws the tokens of a batch, one per row and step.

    A draw depends on the row's seed, choice, number of tokens, logits and tokens, never on other rows.
    """

    def __init__(self, vocab_size: int, share_tokens: ShareTokens | None = None) -> None:
        """`share_tokens`: what makes another process's tokens of this one's; None: they are drawn here alone."""
        self._vocab_size = vocab_size
        self._share_tokens = share_tokens
        self._rows: list[_Row] = []
        self._penalties = Penalties(vocab_size)
        self._budgets = ThinkingBudgets()
        self._plan: _DrawPlan | None = None
        self._plans_ahead: dict[int, _DrawPlan] = {}  # by the number of draws per row at once
        self._saved_states: list[tuple[list[TallyState], list[mx.array]]] = []  # before and after each draw ahead
        self._drawn_ahead = 0  # draws of each row that are not settled

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, params: SamplingParams, prompt: Sequence[int], choice: int, generated: Sequence[int] = ()) -> None:
        """Append a row; one that was stopped before continues after the tokens `generated`."""
        seed = _mix_bits(_mix_bits(params.seed & _MASK64) + choice)
        self._penalties.add(len(self._rows), params, prompt, generated)
        self._budgets.add(params, generated)
        self._rows.append(_Row(params, seed, len(generated)))
        self._plan, self._plans_ahead = None, {}

    def keep(self, rows: Sequence[int]) -> None:
        """Keep only these rows, in this order, each at most once."""
        self._penalties.keep(rows)
        self._rows = [self._rows[row] for row in rows]
        self._budgets.keep(rows)
        self._plan, self._plans_ahead = None, {}

    def draw(self, logits: mx.array, masks: mx.array | None = None) -> Draw:
        """Draw a token for each row from logits (B, vocab_size) of any float type, lazily.

        `masks`: the tokens that each row may draw, at least one: bits, int32 (B, words), as in `grammar.Words`.
        """
        if self._plan is None:
            self._plan = _DrawPlan([row.params for row in self._rows], self._vocab_size)
        raw = logits.astype(mx.float32)
        scores = self._budgets.forbid_end(self._penalties.apply(self._plan.bias(raw)))
        if masks is not None:
            scores = self._allow(scores, masks)
        token = self._plan.choose(scores, self._rows)
        if self._share_tokens:
            token = self._share_tokens(token)
        token = self._budgets.apply(token, [row.draw_count for row in self._rows])
        self._penalties.count(token)
        for row in self._rows:
            row.draw_count += 1
        state = self._penalties.state() + self._budgets.state()
        return Draw(token, self._plan.logprobs(token, raw), self._plan.logprob_rows, state)

    def draw_ahead(self, logits: mx.array, masks: mx.array | None = None) -> DrawsAhead:
        """Draw n tokens for each row, each as if those before it were valid, from logits (B, n, vocab_size), lazily.

        `masks`: see `draw`, (B, n, words). `settle` must follow, with how many of them are valid.
        """
        rows, count, _ = logits.shape
        if self._penalties.state() or self._budgets.state():
            self._saved_states, self._drawn_ahead = [self._save_state()], count
            draws = []
            for place in range(count):
                draws.append(self.draw(logits[:, place], None if masks is None else masks[:, place]))
                self._saved_states.append(self._save_state())
            return DrawsAhead(draws, rows)
        # No draw depends on those before it, so draw all at once.
        ahead = [_Row(row.params, row.seed, row.draw_count + place) for row in self._rows for place in range(count)]
        if count not in self._plans_ahead:
            self._plans_ahead[count] = _DrawPlan([row.params for row in ahead], self._vocab_size)
        plan, raw = self._plans_ahead[count], logits.reshape(rows * count, -1).astype(mx.float32)
        scores = plan.bias(raw)
        if masks is not None:
            scores = self._allow(scores, masks.reshape(rows * count, -1))
        token = plan.choose(scores, ahead)
        for row in self._rows:
            row.draw_count += count
        self._drawn_ahead = count
        return DrawsAhead([Draw(token, plan.logprobs(token, raw), plan.logprob_rows, [])], rows)

    def settle(self, stand: Sequence[int]) -> None:
        """Take row i back to its state after `stand[i]` draws of the last `draw_ahead`."""
        states, self._saved_states = self._saved_states, []
        for row, count in zip(self._rows, stand, strict=True):
            row.draw_count += count - self._drawn_ahead
        if states and any(count < self._drawn_ahead for count in stand):
            self._penalties.settle([penalties for penalties, _ in states], stand)
            self._budgets.settle([budgets for _, budgets in states], stand)

    def _allow(self, scores: mx.array, masks: mx.array) -> mx.array:
        """Return scores (n, vocab_size) that are -inf for tokens whose bits in `masks` (n, words) are 0."""
        bits = (masks[:, :, None] >> mx.arange(32, dtype=mx.int32)) & 1
        most = (bits - 0.5) * mx.inf  # on a CPU a minimum takes a fifth of the time of `where`
        # The scores of allowed tokens stay finite.
        return mx.minimum(mx.maximum(scores, _LEAST), most.reshape(len(scores), -1)[:, : self._vocab_size])

    def _save_state(self) -> tuple[list[TallyState], list[mx.array]]:
        return self._penalties.save_state(), self._budgets.state()
