"""Count the tokens of a predicted answer that are in the answer."""

from collections.abc import Sequence

_RARE = 8  # places of a token; the bits of others are kept


class PredictedText:
    """A prediction, and where each of its tokens stands: what all answers of a request count by."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self.length = len(tokens)
        self._places: dict[int, list[int]] = {}
        for place, token in enumerate(tokens):
            self._places.setdefault(token, []).append(place)
        self._kept: dict[int, int] = {}

    def bits_of(self, token: int) -> int:
        """Return a number whose bit i is 1 where the token stands at place i; 0: nowhere."""
        if token in self._kept or not (places := self._places.get(token)):
            return self._kept.get(token, 0)
        bits = bytearray(places[-1] // 8 + 1)
        for place in places:
            bits[place // 8] |= 1 << place % 8
        found = int.from_bytes(bits, "little")
        if len(places) > _RARE:
            self._kept[token] = found
        return found


class PredictionUse:
    """One answer and its prediction: how long the longest text is that both hold in order, with gaps.

    The count depends on the tokens alone, not on what was proposed when. It is a bit-parallel one: bit i is 0 where the
    longest such text grows by the prediction's token i (H. Hyyrö, "Bit-parallel LCS-length computation revisited",
    2004). So a token takes microseconds, however long the texts are.
    """

    def __init__(self, prediction: PredictedText) -> None:
        self._prediction = prediction
        self._all = self._bits = (1 << prediction.length) - 1

    def take(self, token: int) -> None:
        """Note the next token of the answer."""
        if places := self._prediction.bits_of(token):
            here = self._bits & places
            self._bits = (self._bits + here | self._bits - here) & self._all

    @property
    def accepted(self) -> int:
        """How many tokens of the prediction are in the answer, in its order."""
        return self._prediction.length - self._bits.bit_count()

    @property
    def rejected(self) -> int:
        """How many are not, so far."""
        return self._prediction.length - self.accepted
