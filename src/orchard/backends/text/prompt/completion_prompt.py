"""Raw prompts, without a chat template: text or tokens to continue, or a gap to fill in between two texts."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from orchard.core.errors import OrchardError


class _FimTokens(Struct, frozen=True):
    """The fill-in-the-middle tokens of a family of models. The answer comes last, after `middle` if there is one."""

    prefix: str
    suffix: str
    middle: str = ""
    suffix_first: bool = False


# From the tokenizers of Qwen2.5-Coder (also Granite), StarCoder, DeepSeek-Coder, Code Llama, GLM-4, Codestral.
_FIM_TOKENS = (
    _FimTokens("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    _FimTokens("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    _FimTokens("<\uff5cfim▁begin\uff5c>", "<\uff5cfim▁hole\uff5c>", "<\uff5cfim▁end\uff5c>"),
    _FimTokens("▁<PRE>", "▁<SUF>", "▁<MID>"),
    _FimTokens("<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"),
    _FimTokens("[PREFIX]", "[SUFFIX]", suffix_first=True),
)


class RawPrompts:
    """Turns raw prompts into tokens for one model."""

    def __init__(self, tokenizer: Any, vocab_size: int) -> None:
        """`tokenizer` is mlx-lm's wrapper, `vocab_size` the width of the logits."""
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._fim_tokens = next(filter(self._has_tokens, _FIM_TOKENS), None)

    def check_tokens(self, tokens: tuple[int, ...], param: str) -> None:
        """Raise OrchardError, which blames `param`, if one of the tokens is not in the model's vocabulary."""
        unknown = next((token for token in tokens if not 0 <= token < self._vocab_size), None)
        if unknown is not None:
            message = f"{unknown} is not a token id of this model: the ids go from 0 to {self._vocab_size - 1}"
            raise OrchardError("invalid_request", message, param=param)

    def ensure_start(self, tokens: Sequence[int]) -> list[int]:
        """Return the tokens of a prompt; an empty prompt gets a BOS token, or an end-of-turn token if there is none."""
        bos = self._tokenizer.bos_token_id
        return list(tokens) or [bos if bos is not None else min(self._tokenizer.eos_token_ids)]

    def encode(self, text: str) -> list[int]:
        """Tokenise a text, with the special tokens that the tokenizer adds; see `ensure_start` for an empty one."""
        return self.ensure_start(self._tokenizer.encode(text, verbose=False))

    def fill_in_middle(self, prefix: list[int], suffix: list[int]) -> list[int]:
        """Return the prompt for a text between two others. Raise OrchardError if the model has no tokens for this.

        `suffix` has no special tokens.
        """
        if self._fim_tokens is None:
            message = "`suffix` is not supported by this model: it has no tokens for filling in the middle"
            raise OrchardError("invalid_request", message, param="suffix")
        token_id = self._tokenizer.convert_tokens_to_ids
        # The BOS token comes first.
        bos = prefix[:1] if prefix[:1] == [self._tokenizer.bos_token_id] else []
        texts = [
            [token_id(self._fim_tokens.prefix), *prefix[len(bos) :]],
            [token_id(self._fim_tokens.suffix), *suffix],
        ]
        first, second = reversed(texts) if self._fim_tokens.suffix_first else texts
        return [
            *bos,
            *first,
            *second,
            *([token_id(self._fim_tokens.middle)] if self._fim_tokens.middle else []),
        ]

    def _has_tokens(self, tokens: _FimTokens) -> bool:
        texts = [text for text in (tokens.prefix, tokens.suffix, tokens.middle) if text]
        ids = [self._tokenizer.convert_tokens_to_ids(text) for text in texts]
        # A tokenizer returns its token for unknown text, or None, for a text that is not a token.
        return None not in ids and self._tokenizer.convert_ids_to_tokens(ids) == texts
