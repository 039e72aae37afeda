"""Tokenises texts, with the model's special tokens around them."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct
from tokenizers import Encoding, Tokenizer
from transformers import AutoTokenizer

from orchard.backends.beginnings import (
    CHARS_AT_ONCE,
    MARGIN_TOKENS,
    Beginning,
    first_length,
    next_length,
    read_beginning,
    tokenise_in_lane,
)
from orchard.backends.embeddings.service import TokenizedText
from orchard.core.errors import OrchardError
from orchard.core.tasks.embed import input_too_long, too_many_characters
from orchard.device.lane import give_way

_CHARS_FACTOR = 4  # tokenizers may leave out white space, and read any unknown word as one token


class TextTokenizer:
    """A model's tokenizer, and the most tokens and characters of a text that the model can read."""

    def __init__(self, folder: Path, most: int) -> None:
        """Read a folder's tokenizer; no code of the folder is run. Raise OrchardError("model_failed")."""
        try:
            # An explicit False: by default transformers asks on the terminal whether code of the folder may run.
            loaded: Any = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
            self.most = min(most, loaded.model_max_length)
            self._tokenizer: Tokenizer = Tokenizer.from_str(loaded.backend_tokenizer.to_str())
            self._cutter: Tokenizer = Tokenizer.from_str(loaded.backend_tokenizer.to_str())
        except Exception as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            reason = f"the tokenizer in {folder} is missing or can't be loaded: {lines[0]}"
            raise OrchardError("model_failed", reason) from error
        for one in (self._tokenizer, self._cutter):
            one.no_padding()
        self._tokenizer.no_truncation()
        self._cutter.enable_truncation(self.most)
        self._longest = max(map(len, self._tokenizer.get_vocab()), default=1)
        self.most_chars = self._chars_of(self.most)

    def cut_text(self, text: str) -> str:
        """Return a text; if it is very long, a beginning that is still too long for the model."""
        return text[: self.most_chars + 1]

    def read_texts(self, texts: Sequence[str], params: Sequence[str], *, truncate: bool) -> list[TokenizedText]:
        """Return the tokens of texts. `params`: the request's field of each text.

        With `truncate`, cut off the end of a text that is too long; without it, raise OrchardError. Only the beginning
        of a long text is tokenised. Smaller work may go first, between batches.
        """
        found: list[TokenizedText] = []
        for batch in _split_batches(texts):
            # `_fit_text` tokenises longer texts.
            short = self._tokenizer.encode_batch(["" if len(text) > CHARS_AT_ONCE else text for text in batch])
            for text, tokens in zip(batch, short, strict=True):
                found.append(self._fit_text(text, tokens, params[len(found)], truncate=truncate))
            give_way()
        return found

    def _fit_text(self, text: str, short: Encoding, param: str, *, truncate: bool) -> TokenizedText:
        """Return those tokens of a text that fit. `short`: all of its tokens, if the text is short."""
        length = len(text)
        if length > self.most_chars and not truncate:
            raise too_many_characters(param, self.most_chars, self.most)
        tokens, chars = (short, length) if length <= CHARS_AT_ONCE else self._read_beginning(text)
        if len(tokens.ids) > self.most:
            if not truncate:
                whole = chars == length
                raise input_too_long(
                    param, len(tokens.ids) - (0 if whole else MARGIN_TOKENS), self.most, at_least=not whole
                )
            (tokens,) = self._cutter.encode_batch([text[:chars]])
        if not tokens.ids:
            raise OrchardError("invalid_request", f"`{param}` has no tokens.", param=param)
        return TokenizedText(tokens.ids, tokens.type_ids)

    def _read_beginning(self, text: str) -> tuple[Encoding, int]:
        """Return the tokens of as much of a text as the model can read, and how many characters that is."""
        end = min(len(text), self.most_chars)
        chars = min(end, first_length(self.most))
        while True:
            (tokens,) = tokenise_in_lane(chars, partial(self._tokenizer.encode_batch, [text[:chars]]))
            if chars == end or (certain := len(tokens.ids) - MARGIN_TOKENS) > self.most:
                return tokens, chars
            chars = min(end, next_length(chars, certain, self.most))

    def tokenise_plain(self, text: str, most: int) -> Beginning:
        """Return a text's tokens without special tokens; all of them unless there are more than `most`."""
        return read_beginning(
            text, most, self._chars_of(most), lambda part: self._tokenizer.encode(part, add_special_tokens=False).ids
        )

    def _chars_of(self, tokens: int) -> int:
        """Return the most characters of a text that has at most `tokens` tokens."""
        return max(CHARS_AT_ONCE, _CHARS_FACTOR * tokens * self._longest)

    def pair_frame(self) -> "PairFrame":
        """Return the special tokens of a pair of texts."""
        found = self._tokenizer.encode("a", "b")
        first, second = ([n for n, text in enumerate(found.sequence_ids) if text == part] for part in (0, 1))
        if not first or not second:
            raise OrchardError("model_failed", "the model's tokenizer has no tokens for the letters a and b")
        parts = slice(first[0]), slice(first[-1] + 1, second[0]), slice(second[-1] + 1, None)
        before, between, after = (TokenizedText(found.ids[part], found.type_ids[part]) for part in parts)
        return PairFrame(before, between, after, (found.type_ids[first[0]], found.type_ids[second[0]]))

    def token_id(self, token: str) -> int:
        """Return the id of a token. Raise OrchardError("model_failed") if there is none."""
        found: int | None = self._tokenizer.token_to_id(token)
        if found is None:
            raise OrchardError("model_failed", f"the model's tokenizer has no token '{token}'")
        return found


class PairFrame(Struct, frozen=True):
    """The special tokens before, between and after a pair of texts; `types`: the types of the texts' own tokens."""

    before: TokenizedText
    between: TokenizedText
    after: TokenizedText
    types: tuple[int, int]

    @property
    def token_count(self) -> int:
        """The number of special tokens."""
        return sum(len(part.tokens) for part in (self.before, self.between, self.after))

    def join(self, first: Sequence[int], second: Sequence[int], choice: int) -> TokenizedText:
        """Return the tokens of a pair, whose result belongs to `choice`."""
        before, between, after = self.before, self.between, self.after
        tokens = [*before.tokens, *first, *between.tokens, *second, *after.tokens]
        kinds = [self.types[0]] * len(first), [self.types[1]] * len(second)
        return TokenizedText(tokens, [*before.types, *kinds[0], *between.types, *kinds[1], *after.types], choice)


def _split_batches(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield texts in order, in batches of at most `CHARS_AT_ONCE` characters or one longer text."""
    begin = chars = 0
    for place, text in enumerate(texts):
        chars += len(text)
        if chars > CHARS_AT_ONCE and place > begin:
            yield texts[begin:place]
            begin, chars = place, len(text)
    yield texts[begin:]
