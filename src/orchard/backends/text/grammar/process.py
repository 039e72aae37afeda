"""Writes grammars in a separate process.

Some schemas, patterns and grammars take hours or all memory to compile, and llguidance's recursion can overflow its
stack. A request with one of them is rejected, and others are not affected.
"""

from collections.abc import Iterator, Mapping

import msgspec

from orchard.backends.helper_process import Answer, HelperLimits, HelperProcess, TooLargeError, TooSlowError
from orchard.backends.text.grammar import input_grammar, lark
from orchard.backends.text.grammar.writer import GrammarRequest, GrammarText, GrammarWriter

LIMITS = HelperLimits(cpu_seconds=5.0, seconds=60.0, memory_bytes=2 * 2**30)
"""What writing one grammar may take."""

_encoder = msgspec.msgpack.Encoder()
_request_decoder = msgspec.msgpack.Decoder(GrammarRequest)
_text_decoder = msgspec.msgpack.Decoder(GrammarText | None)


class GrammarProcess:
    """Writes grammars in a process, which the first grammar starts. Only one thread may call `write`."""

    def __init__(self, special_tokens: Mapping[str, int], limits: HelperLimits = LIMITS) -> None:
        """See `GrammarWriter`."""
        self._process = HelperProcess(f"{__name__}:make_answer", limits, _encoder.encode(dict(special_tokens)))

    def write(self, request: GrammarRequest) -> GrammarText | None:
        """Call `GrammarWriter.write` in the process. Raise what it raises; ValueError also if it takes too much."""
        try:
            (answer,) = self._process.ask(_encoder.encode(request))
        except TooSlowError:
            raise ValueError("compiling it takes too long") from None
        except TooLargeError:
            raise ValueError("compiling it takes too much memory") from None
        result: GrammarText | None = _text_decoder.decode(answer)
        return result

    def close(self) -> None:
        """End the process. Any thread may call this."""
        self._process.close()


def make_answer(special_tokens: bytes) -> Answer:
    """Return the function that writes grammars in the process.

    `special_tokens`: the special tokens and their ids, in msgpack.
    """
    writer = GrammarWriter(msgspec.msgpack.decode(special_tokens, type=dict[str, int]))
    last_salt = b""

    def answer(question: bytes) -> Iterator[bytes]:
        nonlocal last_salt
        request = _request_decoder.decode(question)
        if request.salt != last_salt:  # or the time would tell which grammars others use
            for cached in (lark.terminal_fault, lark.repetition_fault, input_grammar.escape_class):
                cached.cache_clear()
            last_salt = request.salt
        yield _encoder.encode(writer.write(request))

    return answer
