"""The prompt at the head of an answer, where a request wants it back."""

from collections.abc import Sequence

from msgspec.structs import replace

from orchard.core.events import Event, Logprob, Text
from orchard.engine.sampling.params import Sample
from orchard.worker.output import Vocabulary


class Echo:
    """What each choice of a request begins with: the prompt's text, and its tokens' log-probabilities if wanted."""

    def __init__(
        self, vocabulary: Vocabulary, text: str, tokens: Sequence[int], choices: int, top_logprobs: int | None
    ) -> None:
        """`text` is the prompt as the caller gave it; in `tokens` the beginning of a document may stand before it."""
        self._vocabulary = vocabulary
        self._text = text
        self._tokens = tokens
        self._choices = range(choices)
        self._head = 2  # tokens that may be written otherwise than they stand in the text
        self.top_logprobs = top_logprobs
        """As many of the likeliest tokens are told for each of the prompt's own; None: nothing is scored."""

    def begin(self) -> list[Event]:
        """Return the text, with the token that nothing stands before."""
        first = () if self.top_logprobs is None else (self._logprob(Sample(self._tokens[0])),)
        return [Text(self._text, choice, first) for choice in self._choices if self._text or first]

    def score(self, samples: Sequence[Sample]) -> list[Event]:
        """Return the log-probabilities of the prompt's next tokens."""
        logprobs = tuple(map(self._logprob, samples))
        return [Text("", choice, logprobs) for choice in self._choices]

    def _logprob(self, sample: Sample) -> Logprob:
        """Return a token's log-probability, with those of its bytes that are in the text.

        A beginning of a document has none, and some tokenizers put a space before the first word.
        """
        found = self._vocabulary.logprob(sample, prompt=True)
        if not self._head:
            return found
        self._head -= 1
        data = found.token.bytes
        taken = next((some for some in (data, data.removeprefix(b" ")) if self._text.encode().startswith(some)), b"")
        self._head = 0 if taken else self._head
        return replace(found, token=replace(found.token, bytes=taken))
