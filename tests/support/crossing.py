"""What a worker reads of what its gateway writes."""

from msgspec import msgpack
from msgspec.structs import replace

from orchard import wire
from orchard.core.request import Request
from orchard.core.tasks.generate import Count, Generate

_tasks = msgpack.Decoder(Generate | Count)


def crossed(request: Request) -> Request:
    """Return a request to a text model as its worker reads it; the rest of it stays in the gateway."""
    found = wire._decoder.decode(b"".join(wire.encode_submission(request))[4:])
    assert isinstance(found, wire.Submit)
    return replace(request, id=found.request_id, task=_tasks.decode(found.task), priority=found.priority)
