"""How one row's next token is drawn from the model's logits.

The order is that of vLLM and Hugging Face:

1. log-probabilities are taken from the model's own distribution, before anything below;
2. `logit_bias` is added;
3. `repetition_penalty` (over prompt and generated tokens: positive logits divided, negative multiplied), then
   `frequency_penalty` times the count and `presence_penalty` once are subtracted (over generated tokens);
4. temperature 0 takes the likeliest token; otherwise logits are divided by the temperature;
5. `top_k`, then `top_p` (of what top_k left; the likeliest token always stays), then `min_p` (relative to the
   likeliest token) cut the tail off; tokens that tie with the last one kept by `top_k` or `top_p` may go either way;
6. one token is drawn.

Everything is float32 and stays on the device: nothing here waits for a result.
"""

import math
from typing import Any

import mlx.core as mx
import numpy as np

from orchard.engine.job import Sample, SamplingParams

_MASK64 = (1 << 64) - 1
_GREEDY_BELOW = 1e-5  # dividing by less than this only overflows
_SMALLEST_LOGPROB = -9999.0  # JSON has no infinity; OpenAI writes this number too


def _mix(number: int) -> int:
    """Spread an integer over 64 bits (splitmix64, https://prng.di.unimi.it/splitmix64.c)."""
    number = (number + 0x9E3779B97F4A7C15) & _MASK64
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _MASK64
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _MASK64
    return number ^ (number >> 31)


class Draw:
    """A token that has been asked for and perhaps not been computed yet."""

    def __init__(self, token: mx.array, logprob: mx.array | None, top: tuple[mx.array, mx.array] | None) -> None:
        """`token` (1,); `logprob` (1, 1); `top` ids and log-probabilities, both (1, k)."""
        self.token = token
        self._logprob = logprob
        self._top = top

    def launch(self) -> None:
        """Let the device begin; returns at once."""
        mx.async_eval(self.token, self._logprob, self._top)  # type: ignore[no-untyped-call]

    def read(self) -> Sample:
        """Wait for the token. No new operation is queued, so this doesn't wait for work launched later."""
        token: Any = self.token.item()
        if self._logprob is None:
            return Sample(token)
        top: list[tuple[int, float]] = []
        if self._top is not None:
            rows: list[Any] = [array.tolist() for array in self._top]
            (ids,), (values,) = rows
            top = sorted(((id_, _finite(value)) for id_, value in zip(ids, values, strict=True)), key=_likeliest_first)
        logprob: Any = self._logprob.item()
        return Sample(token, _finite(logprob), tuple(top))


def _likeliest_first(token: tuple[int, float]) -> tuple[float, int]:
    return -token[1], token[0]


def _finite(logprob: float) -> float:
    return max(logprob, _SMALLEST_LOGPROB) if math.isfinite(logprob) else _SMALLEST_LOGPROB


class Sampler:
    """Draws the tokens of one choice. The i-th draw depends on seed, choice, i and logits alone, never on company."""

    def __init__(self, params: SamplingParams, prompt: list[int], vocab_size: int, choice: int = 0) -> None:
        self._params = params
        self._vocab_size = vocab_size
        self._seed = _mix(_mix(params.seed & _MASK64) + choice)
        self._drawn = 0
        self._bias: tuple[mx.array, mx.array] | None = None
        if params.logit_bias:
            self._bias = mx.array(list(params.logit_bias)), mx.array(list(params.logit_bias.values()), mx.float32)
        self._counts: mx.array | None = None
        if params.repetition_penalty != 1 or params.presence_penalty or params.frequency_penalty:
            self._counts = mx.zeros((vocab_size,), mx.float32)
        self._in_prompt: mx.array | None = None
        if params.repetition_penalty != 1:
            seen = np.zeros(vocab_size, dtype=bool)
            seen[np.asarray(prompt)] = True
            self._in_prompt = mx.array(seen)

    def draw(self, logits: mx.array) -> Draw:
        """Draw from logits (1, vocab_size), lazily."""
        raw = logits.astype(mx.float32)
        scores = self._adjust(raw)
        greedy = self._params.temperature < _GREEDY_BELOW
        token = mx.argmax(scores, axis=-1) if greedy else self._sample(scores / self._params.temperature)
        if self._counts is not None:
            self._counts = self._counts.at[token].add(1.0)
        self._drawn += 1
        return self._with_logprobs(token, raw)

    def _adjust(self, scores: mx.array) -> mx.array:
        params = self._params
        if self._bias is not None:
            ids, values = self._bias
            scores = scores.at[:, ids].add(values)
        if self._counts is None:
            return scores
        generated = self._counts > 0
        if self._in_prompt is not None:
            penalised = mx.where(scores > 0, scores / params.repetition_penalty, scores * params.repetition_penalty)
            scores = mx.where(generated | self._in_prompt, penalised, scores)
        return scores - (params.frequency_penalty * self._counts + params.presence_penalty * generated)

    def _sample(self, scores: mx.array) -> mx.array:
        params = self._params
        key = mx.random.key(_mix(self._seed + self._drawn))
        cut_k, cut_p = 0 < params.top_k < self._vocab_size, params.top_p < 1
        ids = None
        if cut_k:
            ids = mx.argpartition(-scores, kth=params.top_k - 1, axis=-1)[:, : params.top_k]
            scores = mx.take_along_axis(scores, ids, axis=-1)
        if cut_p:
            order = mx.argsort(-scores, axis=-1)
            scores = mx.take_along_axis(scores, order, axis=-1)
            ids = order if ids is None else mx.take_along_axis(ids, order, axis=-1)
            before = mx.cumsum(mx.softmax(scores, axis=-1), axis=-1, inclusive=False)
            # Nothing stands before the likeliest token, so it stays, also where top_p is 0.
            scores = mx.where((before > 0) & (before >= params.top_p), -mx.inf, scores)
        if params.min_p > 0:
            floor = mx.max(scores, axis=-1, keepdims=True) + min(math.log(params.min_p), 0.0)
            scores = mx.where(scores < floor, -mx.inf, scores)
        place = mx.random.categorical(scores, key=key)
        return place if ids is None else mx.take_along_axis(ids, place[:, None], axis=-1)[:, 0]

    def _with_logprobs(self, token: mx.array, raw: mx.array) -> Draw:
        count = self._params.top_logprobs
        if count is None:
            return Draw(token, None, None)
        logprobs = raw - mx.logsumexp(raw, axis=-1, keepdims=True)
        drawn = mx.take_along_axis(logprobs, token[:, None], axis=-1)
        count = min(count, self._vocab_size)
        if count == 0:
            return Draw(token, drawn, None)
        ids = mx.argpartition(-logprobs, kth=count - 1, axis=-1)[:, :count]
        return Draw(token, drawn, (ids, mx.take_along_axis(logprobs, ids, axis=-1)))
