import pytest

from orchard.core.errors import OrchardError
from orchard.gateway.http.heads import MAX_BYTES, MAX_FIELDS, Head


def test_a_head_has_so_many_bytes() -> None:
    head = Head()
    head.count_target(b"/" * 1000)
    head.count_field(b"a" * 1000, b"b" * (MAX_BYTES - 2004))
    assert head.size == MAX_BYTES
    with pytest.raises(OrchardError, match="65536 bytes") as refused:
        head.count_field(b"c", b"")
    assert refused.value.kind == "head_too_large"


def test_a_target_counts() -> None:
    head = Head()
    head.count_target(b"/" * MAX_BYTES)
    with pytest.raises(OrchardError, match="65536 bytes"):
        head.count_target(b"/")


def test_a_head_has_so_many_headers() -> None:
    head = Head()
    for _ in range(MAX_FIELDS):
        head.count_field(b"a", b"b")
    with pytest.raises(OrchardError, match="128 headers"):
        head.count_field(b"a", b"b")
