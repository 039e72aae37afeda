"""Raw prompts, without a chat template: text or tokens to continue, or a gap to fill in between two texts."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from orchard.core.errors import OrchardError


class _Middle(Struct, frozen=True):
    """The fill-in-the-middle tokens of a family of models. The answer comes last, after `last` if there is one."""

    before: str
    after: str
    last: str = ""
    after_first: bool = False


# From the tokenizers of Qwen2.5-Coder (also Granite), StarCoder, DeepSeek-Coder, Code Llama, GLM-4, Codestral.
_MIDDLES = (
    _Middle("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    _Middle("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    _Middle("<\uff5cfim▁begin\uff5c>", "<\uff5cfim▁hole\uff5c>", "<\uff5cfim▁end\uff5c>"),
    _Middle("▁<PRE>", "▁<SUF>", "▁<MID>"),
    _Middle("<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"),
    _Middle("[PREFIX]", "[SUFFIX]", after_first=True),
)


class RawPrompts:
    """Turns raw prompts into tokens for one model."""

    def __init__(self, tokenizer: Any, vocab_size: int) -> None:
        """`tokenizer` is mlx-lm's wrapper, `vocab_size` the width of the logits."""
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._middle = next(filter(self._knows, _MIDDLES), None)

    def check(self, tokens: tuple[int, ...], param: str) -> None:
        """Raise OrchardError, which blames `param`, if one of the tokens is not in the model's vocabulary."""
        wrong = next((token for token in tokens if not 0 <= token < self._vocab_size), None)
        if wrong is not None:
            message = f"{wrong} is not a token id of this model: the ids go from 0 to {self._vocab_size - 1}"
            raise OrchardError("invalid_request", message, param=param)

    def opened(self, tokens: Sequence[int]) -> list[int]:
        """Return the tokens of a prompt; an empty prompt gets a BOS token, or an end-of-turn token if there is none."""
        bos = self._tokenizer.bos_token_id
        return list(tokens) or [bos if bos is not None else min(self._tokenizer.eos_token_ids)]

    def encode(self, text: str) -> list[int]:
        """Tokenise a text, with the special tokens that the tokenizer adds; see `opened` for an empty one."""
        return self.opened(self._tokenizer.encode(text, verbose=False))

    def around(self, before: list[int], after: list[int]) -> list[int]:
        """Return the prompt for a text between two others. Raise OrchardError if the model has no tokens for this.

        `after` has no special tokens.
        """
        if self._middle is None:
            message = "`suffix` is not supported by this model: it has no tokens for filling in the middle"
            raise OrchardError("invalid_request", message, param="suffix")
        of = self._tokenizer.convert_tokens_to_ids
        # The BOS token comes first.
        opening = before[:1] if before[:1] == [self._tokenizer.bos_token_id] else []
        texts = [[of(self._middle.before), *before[len(opening) :]], [of(self._middle.after), *after]]
        first, second = reversed(texts) if self._middle.after_first else texts
        return [*opening, *first, *second, *([of(self._middle.last)] if self._middle.last else [])]

    def _knows(self, middle: _Middle) -> bool:
        texts = [text for text in (middle.before, middle.after, middle.last) if text]
        ids = [self._tokenizer.convert_tokens_to_ids(text) for text in texts]
        # A tokenizer returns its token for unknown text, or None, for a text that is not a token.
        return None not in ids and self._tokenizer.convert_ids_to_tokens(ids) == texts
