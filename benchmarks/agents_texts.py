"""Texts such as coding agents read and write: source files, functions, logs and prose, from a seed.

They are made of a few hundred words, so a tokenizer makes about as many tokens of them as of real source text.
"""

import random
import re
from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


_NOUNS = re.findall(
    r"\w+",
    """
    account address batch branch buffer bucket cache channel client clock cluster column config context counter
    cursor device digest entry error event field file filter folder format frame graph group handle header index
    item job key label layer level limit line link list lock log map mask message method model module name node
    number object offset option order owner packet page parser path pattern payload plan point policy pool port
    prefix process profile query queue range rate record region request result route row rule sample schema scope
    segment server session setting shard signal size slot source stage state step stream string table target task
    text thread ticket timer token topic total trace tree type unit update user value vector version view window
    worker writer
    """,
)
_VERBS = re.findall(
    r"\w+",
    """
    add apply build check clear close collect compare compute copy count decode drop encode fetch find flush
    format join load lookup make merge move open parse pick print push read remove render reset resolve restore
    rotate run save scan select send sort split start stop store trim update validate wait write
    """,
)
_FILLER = re.findall(
    r"\w+",
    """
    a an and as at because before by each for from if in is it must never not of on only or so that the their then
    this to until when where which while with without
    """,
)


class Writer:
    """Writes texts; the same seed gives the same texts. Sizes are in characters, and nearly met."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)  # noqa: S311 - no secret

    def number(self, low: int, high: int) -> int:
        """Draw a number between two, which are included."""
        return self._random.randint(low, high)

    def name(self) -> str:
        """Make a name of three words and a number, which hardly occurs twice."""
        words = (self.pick(_VERBS), self.pick(_NOUNS), self.pick(_NOUNS))
        return f"{'_'.join(words)}_{self.number(0, 999)}"

    def sentence(self) -> str:
        """Write a sentence of about 60 characters."""
        words = [self.pick(self.pick((_NOUNS, _VERBS, _FILLER))) for _ in range(self.number(8, 15))]
        return f"{' '.join(words).capitalize()}."

    def prose(self, size: int) -> str:
        """Write a paragraph."""
        return self._fill(size, self.sentence, " ")

    def function(self, name: str) -> str:
        """Write a Python function of about 500 characters."""
        first, second, third = (self.pick(_NOUNS) for _ in range(3))
        body = [
            f"def {name}({first}: dict[str, int], {second}: list[str], limit: int = {self.number(1, 9999)}) -> int:",
            f'    """{self.sentence()}"""',
            f"    {third}_{self.number(0, 99)} = 0",
            f"    for position, entry in enumerate({second}):",
            f'        if entry.startswith("{self.pick(_NOUNS)}-{self.number(0, 9999)}") and position < limit:',
            f"            {first}[entry] = {first}.get(entry, {self.number(0, 99)}) + position",
            f"        # {self.sentence()}",
            f"    return sum({first}.values()) % {self.number(2, 9999)}",
        ]
        return "\n".join(body)

    def source(self, size: int) -> str:
        """Write a Python module."""
        start = f'"""{self.sentence()}"""\n\nimport json\nimport sys\n\n\n'
        return start + self._fill(size - len(start), lambda: self.function(self.name()), "\n\n\n") + "\n"

    def log(self, size: int) -> str:
        """Write what a run of tests prints."""
        return self._fill(size, self._log_line, "\n")

    def _log_line(self) -> str:
        place = f"tests/{self.pick(_NOUNS)}/test_{self.pick(_NOUNS)}.py::test_{self.name()}"
        return f"{place} {self.pick(('PASSED', 'PASSED', 'FAILED'))} [{self.number(0, 99):3}%]"

    def _fill(self, size: int, write: Callable[[], str], joint: str) -> str:
        """Join pieces until the size is nearest."""
        pieces, length = [piece := write()], len(piece)
        while length + len(piece) // 2 < size:
            pieces.append(piece := write())
            length += len(joint) + len(piece)
        return joint.join(pieces)

    def pick(self, choices: Sequence[T]) -> T:
        """Choose one of them."""
        return self._random.choice(choices)
