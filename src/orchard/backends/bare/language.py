"""mlx-lm's and mlx-vlm's own loops over models that generate text, and what the device's rounding does to them."""

import statistics
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten

_ROUNDING_TOKENS = 8
_COPY_BYTES = 2**28
_COPIES = 5


def run_language_model(
    *,
    path: str,
    kind: str,
    chats: Sequence[Sequence[dict[str, str]]],
    max_tokens: int,
    rounds: int,
    speed_tokens: int,
    question: str,
    pictures: Sequence[str],
) -> dict[str, Any]:
    """Answer chats and a question about pictures greedily, and measure the speed of decode.

    `kind`: "text" (mlx-lm) or "vision" (mlx-vlm). `rounds`: how often the decode of `speed_tokens` tokens is timed.
    `pictures`: files; each is asked about alone.

    Return for each chat the prompt's token ids and the answer (`prompts`, `texts`), the answers about the pictures
    (`pictures`; none if the library can't read them), `rounding` (see `_rounding`),
    `spread` (the standard deviation of logits), tokens per second of each round (`rates`), the bytes of the weights and
    of memory that can be copied in a second (`bandwidth`), and the seconds of the load.
    """
    begin = time.perf_counter()
    loop: _Loop = _VisionLoop(path) if kind == "vision" else _TextLoop(path)
    mx.eval(loop.network.parameters())
    load_seconds = time.perf_counter() - begin
    prompts = [loop.render(chat) for chat in chats]
    texts = [loop.answer(prompt, max_tokens) for prompt in prompts]
    rounding, spread = _rounding(loop, max(prompts, key=len)) if prompts else (0.0, 0.0)
    longest = max(prompts, key=len, default=[1] * 16)
    rates = [_decode_rate(loop, longest, speed_tokens) for _ in range(rounds)]
    return {
        "prompts": prompts,
        "texts": texts,
        "rounding": rounding,
        "spread": spread,
        "rates": rates,
        "load_seconds": load_seconds,
        "weights_bytes": sum(array.nbytes for _, array in tree_flatten(loop.network.parameters())),
        "bandwidth": _bandwidth(),
        "pictures": _describe_all(loop, pictures, question, max_tokens),
    }


class _Loop(ABC):
    """A loaded model and its tokenizer."""

    network: Any
    tokenizer: Any
    end_ids: frozenset[int]
    logits_type: mx.Dtype = mx.float32
    """In which the model computes its logits."""

    @abstractmethod
    def tokens(self, prompt: Sequence[int], count: int) -> Iterator[int]:
        """Yield the greedy answer's tokens."""

    @abstractmethod
    def new_cache(self) -> list[Any]:
        """Return an empty cache."""

    @abstractmethod
    def logits(self, tokens: Sequence[int], cache: list[Any]) -> mx.array:
        """Return the logits (n, vocab_size) of tokens, float32."""

    def render(self, chat: Sequence[dict[str, str]]) -> list[int]:
        """Return a chat as the prompt's token ids, by the model's own template; without one, only the texts."""
        if not self.tokenizer.chat_template:
            return list(self.tokenizer.encode("\n".join(message["content"] for message in chat)))
        ids = self.tokenizer.apply_chat_template(list(chat), add_generation_prompt=True, return_dict=False)
        return list(ids)

    def answer(self, prompt: Sequence[int], count: int) -> str:
        """Return the greedy answer."""
        return self.decode(self.tokens(prompt, count), with_special=True)

    def decode(self, tokens: Iterable[int], *, with_special: bool) -> str:
        """Return the text of tokens until the answer's end; `with_special`: as completions have it, not chats."""
        made: list[int] = []
        for token in tokens:
            if token in self.end_ids:
                break
            made.append(token)
        return str(self.tokenizer.decode(made, skip_special_tokens=not with_special))


class _TextLoop(_Loop):
    """mlx-lm's."""

    def __init__(self, path: str) -> None:
        from mlx_lm import load

        self.network, self.tokenizer = load(path)[:2]
        self.end_ids = frozenset(self.tokenizer.eos_token_ids)

    def tokens(self, prompt: Sequence[int], count: int) -> Iterator[int]:
        from mlx_lm.generate import generate_step

        for token, _ in generate_step(mx.array(list(prompt)), self.network, max_tokens=count):
            yield int(token)

    def new_cache(self) -> list[Any]:
        from mlx_lm.models.cache import make_prompt_cache

        return list(make_prompt_cache(self.network))

    def logits(self, tokens: Sequence[int], cache: list[Any]) -> mx.array:
        logits: mx.array = self.network(mx.array([list(tokens)]), cache=cache)[0]
        self.logits_type = logits.dtype
        return logits.astype(mx.float32)


class _VisionLoop(_Loop):
    """mlx-vlm's."""

    def __init__(self, path: str) -> None:
        import mlx_vlm

        self.network, self._processor = mlx_vlm.load(path)
        self.tokenizer = getattr(self._processor, "tokenizer", self._processor)
        self.end_ids = frozenset(self.tokenizer.stopping_criteria.eos_token_ids)

    def tokens(self, prompt: Sequence[int], count: int) -> Iterator[int]:
        from mlx_vlm.generate import generate_step

        ids = mx.array([list(prompt)])
        for token, _ in generate_step(ids, self.network, None, None, max_tokens=count, temperature=0.0):
            yield int(token)

    def describe(self, picture: str, question: str, count: int) -> str:
        """Return the greedy answer to a question about a picture."""
        from mlx_vlm.generate import generate_step
        from mlx_vlm.prompt_utils import apply_chat_template
        from mlx_vlm.utils import prepare_inputs

        prompt = apply_chat_template(self._processor, self.network.config, question, num_images=1)
        inputs = prepare_inputs(self._processor, images=[picture], prompts=prompt, add_special_tokens=False)
        given = [inputs.pop(name, None) for name in ("input_ids", "pixel_values", "attention_mask")]
        steps = generate_step(given[0], self.network, *given[1:], max_tokens=count, temperature=0.0, **inputs)
        return self.decode((int(token) for token, _ in steps), with_special=False)

    def new_cache(self) -> list[Any]:
        from mlx_vlm.models.cache import make_prompt_cache

        return list(make_prompt_cache(self.network.language_model))

    def logits(self, tokens: Sequence[int], cache: list[Any]) -> mx.array:
        read = self.network.language_model(mx.array([list(tokens)]), cache=cache)
        logits: mx.array = read.logits[0]
        self.logits_type = logits.dtype
        return logits.astype(mx.float32)


def _describe_all(loop: _Loop, pictures: Sequence[str], question: str, count: int) -> list[str]:
    """Return the answers about pictures; none if the library can't read them."""
    if not isinstance(loop, _VisionLoop):
        return []
    try:
        return [loop.describe(picture, question, count) for picture in pictures]
    except Exception as error:
        print(f"the library's loop reads no pictures: {error}", file=sys.stderr)
        return []


def _rounding(loop: _Loop, prompt: Sequence[int]) -> tuple[float, float]:
    """Return the greatest change of a logit when the last tokens are read one by one, not in one pass; and the spread.

    Both are the same sums in exact arithmetic, so the change is what rounding does on this device. It counts as no less
    than the last bit of the largest logit, as another kernel may round where these two don't differ.
    """
    tail = min(_ROUNDING_TOKENS, len(prompt) - 1)
    whole = loop.logits(prompt, loop.new_cache())[-tail:]
    cache = loop.new_cache()
    mx.eval(loop.logits(prompt[:-tail], cache))
    single = mx.concatenate([loop.logits([token], cache) for token in prompt[-tail:]])
    last_bit = float(mx.abs(whole).max()) * float(mx.finfo(loop.logits_type).eps)
    return max(float(mx.abs(whole - single).max()), last_bit), float(mx.std(whole))


def _decode_rate(loop: _Loop, prompt: Sequence[int], count: int) -> float:
    """Return the tokens per second of decode, after the first token."""
    stamps = [time.perf_counter() for _ in loop.tokens(prompt, count)]
    return (len(stamps) - 1) / (stamps[-1] - stamps[0])


def _bandwidth() -> float:
    """Return the bytes per second that the device reads and writes in a copy of a large array (median)."""
    array = mx.zeros((_COPY_BYTES // 4,), mx.float32)
    mx.eval(array)
    seconds = []
    for number in range(1, _COPIES + 1):
        begin = time.perf_counter()
        mx.eval(array + number)
        seconds.append(time.perf_counter() - begin)
    return 2 * _COPY_BYTES / statistics.median(seconds)
