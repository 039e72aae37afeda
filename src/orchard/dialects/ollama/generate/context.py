"""The field `context` of an answer, with which a caller continues the conversation in a later request.

Ollama's is the conversation's tokens. Only a worker has a model's tokenizer, so here it is the conversation's texts,
compressed: a mark, the number of bytes, and three bytes in each number that follows. Media are left out.
"""

import zlib
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from orchard.core.tasks.generate import Message, Role, TextPart
from orchard.dialects.common.json_body import invalid_field

MAX_BYTES = 1024 * 1024
"""The most bytes of a conversation in a context, before it is compressed. Answers to longer ones have none."""

_MARK = 0x4F52  # "OR"
_BYTES = 3
_FOREIGN = "must be the `context` of an earlier answer of this server."


class _Turn(Struct, array_like=True):
    role: Role
    text: str


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[_Turn])


def write_context(messages: Sequence[Message], answer: str) -> list[int] | None:
    """Return the context after an answer; None: the conversation is too long for one."""
    turns = [
        _Turn(message.role, "".join(part.text for part in message.parts if isinstance(part, TextPart)))
        for message in messages
    ]
    if sum(len(turn.text) for turn in turns) + len(answer) > MAX_BYTES:
        return None
    plain = _encoder.encode([*turns, _Turn("assistant", answer)])
    if len(plain) > MAX_BYTES:
        return None
    packed = zlib.compress(plain)
    padded = packed.ljust(-(-len(packed) // _BYTES) * _BYTES, b"\0")
    numbers = (int.from_bytes(padded[i : i + _BYTES], "big") for i in range(0, len(padded), _BYTES))
    return [_MARK, len(packed), *numbers]


def read_context(context: Sequence[int]) -> tuple[Message, ...]:
    """Return the conversation of a context. Raise OrchardError if this server has not made it."""
    if not context:
        return ()
    try:
        mark, length, *numbers = context
        packed = b"".join(number.to_bytes(_BYTES, "big") for number in numbers)[:length]
        unpacker = zlib.decompressobj()
        plain = unpacker.decompress(packed, MAX_BYTES)
        if mark != _MARK or not unpacker.eof:
            raise invalid_field("context", _FOREIGN)
        turns = _decoder.decode(plain)
    except (ValueError, OverflowError, RecursionError, zlib.error, msgspec.DecodeError):
        raise invalid_field("context", _FOREIGN) from None
    return tuple(Message(turn.role, (TextPart(turn.text),) if turn.text else ()) for turn in turns)
