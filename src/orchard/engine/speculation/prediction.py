"""Counts the tokens of a predicted answer that are in the answer."""

from collections.abc import Sequence

_RARE = 8  # places of a token; the bits of more frequent tokens are kept


class PredictedText:
    """A prediction and the places of each of its tokens, shared by all answers of a request."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self.length = len(tokens)
        self._places: dict[int, list[int]] = {}
        for place, token in enumerate(tokens):
            self._places.setdefault(token, []).append(place)
        self._frequent_bits: dict[int, int] = {}

    def bits_of(self, token: int) -> int:
        """Return a number whose bit i is 1 if the token is at place i; 0 if it is nowhere."""
        if token in self._frequent_bits or not (places := self._places.get(token)):
            return self._frequent_bits.get(token, 0)
        bits = bytearray(places[-1] // 8 + 1)
        for place in places:
            bits[place // 8] |= 1 << place % 8
        found = int.from_bytes(bits, "little")
        if len(places) > _RARE:
            self._frequent_bits[token] = found
        return found


class PredictionUse:
    """Computes the length of the longest common subsequence of one answer and its prediction.

    It depends on the tokens alone, not on what was proposed. The computation is bit-parallel: bit i is 0 where the
    subsequence grows by the prediction's token i (H. Hyyrö, "Bit-parallel LCS-length computation revisited", 2004). So
    a token takes microseconds even in long texts.
    """

    def __init__(self, prediction: PredictedText) -> None:
        self._prediction = prediction
        self._all_bits = self._bits = (1 << prediction.length) - 1

    def take(self, token: int) -> None:
        """Add the next token of the answer."""
        if places := self._prediction.bits_of(token):
            here = self._bits & places
            self._bits = (self._bits + here | self._bits - here) & self._all_bits

    @property
    def accepted_tokens(self) -> int:
        """How many tokens of the prediction are in the answer, in the same order."""
        return self._prediction.length - self._bits.bit_count()

    @property
    def rejected_tokens(self) -> int:
        """How many tokens of the prediction are not in the answer so far."""
        return self._prediction.length - self.accepted_tokens
