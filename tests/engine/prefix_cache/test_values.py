"""Payloads of real MLX arrays, through host memory, the cache and the disk."""

from collections.abc import Sequence
from pathlib import Path

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchard.engine.prefix_cache.cache import Match, PrefixCache
from orchard.engine.prefix_cache.disk_io import DiskTier
from orchard.engine.prefix_cache.values import (
    EVERYBODY,
    MEDIUM,
    CacheScope,
    Cut,
    State,
    condense_text,
    is_medium,
    media_ids,
    pack_tokens,
    token_of,
    unpack_tokens,
)
from tests.engine.prefix_cache.test_cache import shrink
from tests.engine.prefix_cache.test_disk_io import fetch, settle

TYPES = [mx.bfloat16, mx.float16, mx.float32, mx.uint32, mx.int8, mx.uint8, mx.int32, mx.bool_]


def arrays(tokens: int, seed: int = 0) -> dict[str, mx.array]:
    """Keys and values as they are, and quantised: words and scales of different widths."""
    key = mx.random.key(seed)
    return {
        "0.keys": mx.random.normal((1, 2, tokens, 8), key=key).astype(mx.bfloat16),
        "0.values": mx.random.normal((1, 1, tokens, 16), key=key).astype(mx.bfloat16),
        "1.words": mx.random.randint(0, 2**31 - 1, (1, 2, tokens, 4), key=key).astype(mx.uint32),
    }


def same(one: State | None, other: State) -> bool:
    return (
        one is not None
        and one.arrays.keys() == other.arrays.keys()
        and all(
            one.arrays[name].dtype == other.arrays[name].dtype and mx.array_equal(one.arrays[name], other.arrays[name])
            for name in one.arrays
        )
    )


def joined(match: Match) -> Cut:
    pieces: Sequence[tuple[Cut, int]] = match.pieces
    return Cut(
        {
            name: mx.concatenate([piece.arrays[name][:, :, :used] for piece, used in pieces], axis=2)
            for name in pieces[0][0].arrays
        }
    )


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_every_type_survives_the_host(dtype: mx.Dtype) -> None:
    values = mx.random.randint(-(2**31), 2**31 - 1, (1, 2, 6, 4), key=mx.random.key(1)).astype(dtype)
    cut = Cut({"a": values, "none": mx.zeros((1, 0, 6, 4), dtype)})
    host = cut.to_host()
    assert sum(len(array.data) for array in host.values()) == cut.nbytes
    assert same(Cut.from_host(host), cut)
    assert same(State.from_host(State({"a": values}).to_host()), State({"a": values}))


def test_bfloat16_keeps_every_bit() -> None:
    bits = mx.arange(2**16, dtype=mx.uint32).astype(mx.uint16).reshape(1, 1, -1, 1)
    back = Cut.from_host(Cut({"a": bits.view(mx.bfloat16)}).to_host())
    assert mx.array_equal(back.arrays["a"].view(mx.uint16), bits)


def test_a_transposed_array_is_written_as_it_reads() -> None:
    values = mx.arange(24, dtype=mx.float32).reshape(1, 3, 2, 4).swapaxes(1, 2).astype(mx.bfloat16)
    assert same(Cut.from_host(Cut({"a": values}).to_host()), Cut({"a": values}))


def test_a_part_owns_its_memory() -> None:
    mx.synchronize()
    before = mx.get_active_memory()
    whole = Cut({"a": mx.ones((1, 1, 10_000, 64), mx.bfloat16)})
    part = whole.part(5000, 5100)
    del whole
    mx.synchronize()
    assert part.nbytes == 100 * 64 * 2
    assert mx.get_active_memory() - before <= part.nbytes + 2**14


def test_parts_lie_in_stacks_of_one_form() -> None:
    wide = {f"{layer}.{index}": mx.random.normal((1, 2, 9, 4)) for layer in range(6) for index in range(2)}
    whole = Cut(wide | {"6.0": mx.random.normal((1, 1, 9, 4)), "6.1": mx.zeros((1, 2, 9, 4), mx.float16)})
    part = whole.part(1, 8)
    assert [len(stack.names) for stack in part.stacks] == [8, 4, 1, 1]
    for cut, begin, stop in ((part, 1, 8), (part.part(2, 5), 3, 6)):
        assert same(cut, Cut({name: array[:, :, begin:stop] for name, array in whole.arrays.items()}))
        assert list(cut.arrays) == list(whole.arrays)


def test_nothing_can_be_cut_too() -> None:
    nothing = Cut({}).part(2, 5)
    assert (nothing.nbytes, nothing.to_host()) == (0, {})


def test_arrays_go_through_memory_and_disk(tmp_path: Path) -> None:
    text = list(range(1000))
    whole, state = Cut(arrays(1000)), State({"conv": mx.random.normal((1, 3, 5)).astype(mx.bfloat16)})
    disk = DiskTier(tmp_path, "model", 10**9)
    cache = PrefixCache(10**9, True, disk)
    settle(disk)
    cache.insert(text, 0, whole, state)
    cache.insert([*text[:700], 5], 700, Cut(arrays(1, 1)), state)  # splits a node
    assert same(joined(cache.find(text, 1000)), whole)
    while cache.write_back(10**6):
        pass
    shrink(cache, 0)
    match = fetch(cache, text)
    assert (match.length, match.cold) == (1000, False)
    assert same(joined(match), whole)
    assert same(match.snapshot, state)
    disk.close()

    disk = DiskTier(tmp_path, "model", 10**9)
    cache = PrefixCache(10**9, True, disk)
    settle(disk)
    match = fetch(cache, text)
    assert same(joined(match), whole)
    assert same(match.snapshot, state)
    disk.close()


def test_ids_of_a_medium() -> None:
    """They are the same in every process, in files, too; none is a token's, and no two are the same."""
    assert media_ids(b"a picture", 2) == [13975083432185302065, 10005358229332035057]
    ids = [*media_ids(b"one", 2000), *media_ids(b"another", 2000)]
    assert len({id_ >> 32 for id_ in ids}) == len({id_ % 2**32 for id_ in ids}) == len(ids)
    assert min(ids) >= MEDIUM
    assert media_ids(b"one", 3) == ids[:3]
    assert unpack_tokens(pack_tokens(ids)) == ids


TEXTS = st.lists(st.one_of(st.integers(0, 2**31 - 1), st.integers(0, 3), st.sampled_from(media_ids(b"any", 4))))


@given(TEXTS, TEXTS)
def test_condensed_texts_tell_texts_apart(one: list[int], other: list[int]) -> None:
    assert (condense_text(pack_tokens(one)) == condense_text(pack_tokens(other))) == (one == other)
    assert condense_text(pack_tokens(one + other)) == condense_text(pack_tokens(one)) + condense_text(
        pack_tokens(other)
    )


def test_a_condensed_text_without_media_has_four_bytes_a_token() -> None:
    assert condense_text(pack_tokens([0, 1, 2**31 - 1])) == b"\0\0\0\0\1\0\0\0\xff\xff\xff\x7f"


TEXTS = st.lists(st.integers(0, 2**31 - 1) | st.sampled_from(media_ids(b"medium", 8)), max_size=12)
SCOPES = st.builds(
    lambda name, shared: replace(CacheScope.from_name(name), shared=shared), st.text(), st.integers(0, 6)
)


@given(TEXTS, SCOPES)
def test_a_salt_hides_a_text_from_other_scopes_and_not_from_its_own(text: list[int], scope: CacheScope) -> None:
    salted = scope.add_salt(text)
    assert list(salted[: scope.shared]) == text[: scope.shared]
    assert [token_of(id_) for id_ in salted if not is_medium(id_)] == [id_ for id_ in text if not is_medium(id_)]
    own = enumerate(salted[scope.shared :], scope.shared)
    assert all(scope.shows(place, id_) for place, id_ in own)
    other = replace(CacheScope.from_name("another"), shared=scope.shared)
    if scope.salt and len(text) > scope.shared:
        assert salted[scope.shared] != other.add_salt(text)[scope.shared]
        assert not other.shows(scope.shared, salted[scope.shared])
        assert is_medium(text[scope.shared]) or not EVERYBODY.shows(scope.shared, salted[scope.shared])
        assert len({condense_text(pack_tokens(one)) for one in (text, salted, other.add_salt(text))}) == 3
