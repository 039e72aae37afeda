"""Tokenises texts, with the model's special tokens around them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from transformers import AutoTokenizer

from orchard.backends.embeddings.service import ReadText
from orchard.core.errors import OrchardError
from orchard.core.tasks.embed import too_long


class TextTokenizer:
    """A model's tokenizer, and the most tokens of a text that the model can read."""

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

    def read(self, texts: Sequence[Any], params: Sequence[str], *, truncate: bool) -> list[ReadText]:
        """Return the tokens of texts or of pairs of texts. `params`: the fields that they came in.

        With `truncate`, cut off the end of a text that is too long, or of the longer text of a pair; without it, raise
        OrchardError.
        """
        found = self._tokenizer.encode_batch(list(texts))
        for index, one in enumerate(found):
            if len(one.ids) > self.most:
                if not truncate:
                    raise too_long(params[index], len(one.ids), self.most)
                (found[index],) = self._cutter.encode_batch([texts[index]])
            if not one.ids:
                raise OrchardError("invalid_request", f"`{params[index]}` has no tokens.", param=params[index])
        return [ReadText(one.ids, one.type_ids) for one in found]

    def plain(self, text: str) -> list[int]:
        """Return a text's tokens without special tokens."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def id_of(self, token: str) -> int:
        """Return the id of a token. Raise OrchardError("model_failed") if there is none."""
        found: int | None = self._tokenizer.token_to_id(token)
        if found is None:
            raise OrchardError("model_failed", f"the model's tokenizer has no token '{token}'")
        return found
