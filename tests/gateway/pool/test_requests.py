from orchard.core.request import Request, Sender
from orchard.core.tasks.generate import Generate
from orchard.gateway.metrics.counters import Metrics
from orchard.gateway.pool.requests import Requests
from orchard.gateway.replies.event_stream import EventStream


async def test_those_that_waited_for_the_model_are_taken_in_turns_of_their_callers() -> None:
    requests = Requests(60, str, lambda starved: None, lambda lease, was_submitted: None)
    metrics = Metrics()
    for name, caller in {"a1": "ann", "a2": "ann", "a3": "ann", "b1": "ben", "b2": "ben", "c1": "cem"}.items():
        request = Request(name, "m", Generate(prompt=name), sender=Sender(caller))
        requests.add(request, EventStream(), metrics.meter(request, "m"))
    taken = requests.take_waiting()
    assert [lease.request.id for lease in taken] == ["a1", "b1", "c1", "a2", "b2", "a3"]
    assert (requests.waiting_count, requests.submitted_count) == (0, 6)
    for lease in taken:
        lease.stream.close()
