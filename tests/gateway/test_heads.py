import pytest

from orchard.core.errors import OrchardError
from orchard.gateway.heads import MAX_BYTES, MAX_FIELDS, Head, Share, Shared


def test_a_head_has_so_many_bytes() -> None:
    head = Head()
    head.target(b"/" * 1000)
    head.field(b"a" * 1000, b"b" * (MAX_BYTES - 2004))
    assert head.size == MAX_BYTES
    with pytest.raises(OrchardError, match="65536 bytes") as refused:
        head.field(b"c", b"")
    assert refused.value.kind == "head_too_large"


def test_a_target_counts() -> None:
    head = Head()
    head.target(b"/" * MAX_BYTES)
    with pytest.raises(OrchardError, match="65536 bytes"):
        head.target(b"/")


def test_a_head_has_so_many_headers() -> None:
    head = Head()
    for _ in range(MAX_FIELDS):
        head.field(b"a", b"b")
    with pytest.raises(OrchardError, match="128 headers"):
        head.field(b"a", b"b")


def test_all_connections_share_what_heads_may_take() -> None:
    shared = Shared(10_000)
    first, second, third = Share(shared), Share(shared), Share(shared)
    first.take(4096 + 6000)
    second.take(4096 + 3000)
    assert shared.left == 1000
    with pytest.raises(OrchardError, match="too many bytes of request heads") as refused:
        third.take(4096 + 1001)
    assert refused.value.kind == "overloaded"
    third.take(4096)  # small heads always find their way in
    first.take(0)
    third.take(4096 + 7000)
    assert shared.left == 0


def test_what_one_connection_holds_is_counted_once() -> None:
    shared = Shared(10_000)
    share = Share(shared)
    for size in (5000, 9000, 14_096):
        share.take(size)
    assert shared.left == 0
    share.take(0)
    assert shared.left == 10_000
