"""The prefix cache in memory, against a model that is a set of texts. Payloads are arrays of eight bytes a token."""

import zlib
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from orchard.engine.prefix_cache import radix_tree
from orchard.engine.prefix_cache.cache import Match, Miss, PrefixCache
from orchard.engine.prefix_cache.disk_io import DiskTier
from orchard.engine.prefix_cache.values import CacheScope, Cut, State

WIDTH = 8  # bytes a token
Text = tuple[int, ...]


def content(text: Sequence[int], start: int = 0) -> bytes:
    """What the payload of text[start:] holds: as in real ones, each token's bytes depend on those before."""
    sums = accumulate(text, lambda known, token: zlib.crc32(token.to_bytes(8, "little"), known), initial=7)
    return b"".join(value.to_bytes(WIDTH, "little") for value in list(sums)[start + 1 :])


def payload(text: Sequence[int], start: int = 0) -> Cut:
    both = np.frombuffer(content(text, start), np.uint8).reshape(1, 1, -1, WIDTH)
    return Cut({"one": mx.array(both[..., : WIDTH // 2]), "two": mx.array(both[..., WIDTH // 2 :])})


def data_of(piece: Cut, tokens: int) -> bytes:
    """What the first tokens of a payload hold."""
    halves = [np.array(piece.arrays[name]) for name in ("one", "two")]
    return np.concatenate(halves, axis=-1)[:, :, :tokens].tobytes()


def state(text: Sequence[int]) -> State:
    return State({"state": mx.array(np.frombuffer(content(text)[-WIDTH:] * 3, np.uint8))})


SNAPSHOT = 3 * WIDTH  # bytes


def new(
    budget: int = 10**9, needs_snapshot: bool = False, disk: DiskTier | None = None, most_texts: int | None = None
) -> PrefixCache:
    return PrefixCache(budget, needs_snapshot, disk, most_texts)


def put(cache: PrefixCache, text: Sequence[int], with_snapshot: bool = False, start: int | None = None) -> None:
    start = cache.count_covered(text) if start is None else start
    cache.insert(
        text, start, payload(text, start) if start < len(text) else None, state(text) if with_snapshot else None
    )


def shrink(cache: PrefixCache, to_bytes: int) -> None:
    """Evict what was used least recently until `to_bytes` are left; the budget stays."""
    budget = cache.counters["budget_bytes"]
    cache.limit(to_bytes)
    cache.limit(budget)


def look(
    cache: PrefixCache,
    text: Sequence[int],
    limit: int | None = None,
    disk: bool = True,
    media: Sequence[tuple[int, int]] = (),
) -> Match:
    """Find, and check that what is found is what was computed for this very text."""
    match = cache.find(text, len(text) if limit is None else limit, disk, media)
    data = b"".join(data_of(piece, used) for piece, used in match.pieces)
    assert content(text)[: len(data)] == data
    assert match.length <= known(match, text) <= len(text)
    if not match.cold:
        assert len(data) == match.length * WIDTH
    if match.snapshot is not None:
        assert mx.array_equal(match.snapshot.arrays["state"], state(text[: match.length]).arrays["state"])
    if miss := match.miss:
        assert miss.cached[: miss.place - miss.begin] == list(text[miss.begin : miss.place])
        assert miss.given == list(text[miss.begin : miss.begin + max(len(miss.cached), 1)])
    return match


def known(match: Match, text: Sequence[int]) -> int:
    """How many tokens are those of some cached text."""
    return match.miss.place if match.miss else len(text)


def check(cache: PrefixCache) -> None:
    """The cache's books are right, and a node in memory has its ancestors there."""
    memory: Any = cache._memory
    nodes = [node for node in memory.root.subtree() if node is not memory.root]
    held = [slot for node in nodes for slot in node.slots if slot.value is not None]
    assert set(held) == set(memory.order)
    assert memory.nbytes == sum(slot.value.nbytes for slot in held) <= memory.budget
    assert set(memory.dirty) <= set(held)
    for node in nodes:
        assert 0 < node.end - node.start <= radix_tree.MAX_EDGE
        assert node.start == node.parent.end
        assert node.parent.children[node.edge[: radix_tree.WIDTH]] is node
        assert node.payload.value is not None or node.payload.file is not None
        above = node.parent
        for slot in node.slots:
            if slot.value is not None and above is not memory.root:
                assert above.payload.value is not None
            if slot.file is not None and above is not memory.root:
                assert above.payload.file is not None


def long(seed: int, length: int) -> list[int]:
    return [(seed * 1_000_003 + n * 7919) % 150_000 for n in range(length)]


@pytest.fixture
def short_edges() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(radix_tree, "MAX_EDGE", 4)
        yield


@pytest.mark.usefixtures("short_edges")
def test_a_prefix_holds_a_medium_whole_where_the_rest_of_it_has_left_memory() -> None:
    """What left is a piece of an edge's length, not of the medium's."""
    lengths: list[int] = []
    for left in (20, 16, 12, 8, 4):
        cache = new()
        put(cache, range(20))
        shrink(cache, left * WIDTH)
        match = look(cache, range(20), media=[(1, 3), (6, 17)])
        assert (match.length, len(match.nodes)) == (sum(used for _, used in match.pieces), len(match.pieces))
        lengths.append(match.length)
    assert lengths == [20, 6, 6, 6, 4]


def test_the_medium_at_which_a_text_parts() -> None:
    cache = new()
    put(cache, range(20))
    media = [(2, 5), (6, 9), (9, 12)]
    for place, number in ((1, None), (2, 1), (5, None), (6, 2), (9, 3), (12, None)):
        text = [*range(place), *[99] * (20 - place)]
        assert (miss := look(cache, text, media=media).miss)
        assert (miss.place, miss.medium) == (place, number)


def test_an_empty_cache_knows_nothing() -> None:
    cache = new()
    match = look(cache, [1, 2, 3])
    assert (match.length, match.pieces, match.miss, match.cold) == (0, [], Miss(0, 0, [], [1]), False)
    assert cache.count_covered([1]) == 0
    assert not cache.has_snapshot([1])
    assert not cache.write_back(1000)
    called: list[int] = []
    cache.fetch(match, lambda: called.append(1))
    assert called == [1]


def test_a_prefix_is_found_to_the_token() -> None:
    cache = new()
    text = long(1, 2000)
    put(cache, text)
    for length in (1, 511, 512, 513, 1999, 2000):
        assert look(cache, text, length).length == length
        assert look(cache, [*text[:length], 150_001, 5]).length == length
    assert look(cache, [150_001, *text]).length == 0


def test_the_limit_may_lie_anywhere() -> None:
    cache = new()
    put(cache, [1, 2, 3, 4, 5])
    match = look(cache, [1, 2, 3, 4, 5], 4)
    assert (match.length, match.miss) == (4, None)
    assert look(cache, [1, 2], 0).length == 0


def test_text_is_shared() -> None:
    cache = new()
    one, other = [*long(1, 700), *long(2, 100)], [*long(1, 700), *long(3, 900)]
    put(cache, one)
    put(cache, other, start=0)  # the overlap is dropped
    assert cache.counters["bytes"] == (700 + 100 + 900) * WIDTH
    put(cache, one, start=300)
    assert cache.counters["bytes"] == (700 + 100 + 900) * WIDTH
    check(cache)


def test_what_doesnt_follow_on_is_ignored() -> None:
    cache = new()
    put(cache, [1, 2, 3])
    cache.insert([1, 2, 9, 4, 5], 3, payload([1, 2, 9, 4, 5], 3), None)
    cache.insert([1, 2, 3, 4], 0, None, state([1, 2, 3, 4]))
    cache.insert([], 0, None, None)
    assert cache.counters["bytes"] == 3 * WIDTH
    assert look(cache, [1, 2, 9, 4]).length == 2


def test_a_snapshot_makes_a_place_usable() -> None:
    cache = new(needs_snapshot=True)
    text = long(1, 1000)
    put(cache, text[:600], with_snapshot=True)
    put(cache, text)
    assert look(cache, text).length == 600
    put(cache, text[:100], with_snapshot=True)  # in the middle of a node
    assert cache.has_snapshot(text[:100])
    assert not cache.has_snapshot(text[:101])
    assert look(cache, text, 599).length == 100
    match = look(cache, text, 99)
    assert (match.length, match.snapshot, match.miss) == (0, None, None)
    assert cache.counters["bytes"] == 1000 * WIDTH + 2 * SNAPSHOT
    check(cache)


def test_a_match_says_where_the_prompt_left_the_closest_text() -> None:
    cache = new()
    put(cache, [*range(100), 1, 1, 1])
    put(cache, [*range(100), 2, 2, 2])
    around = list(range(84, 100))
    assert look(cache, [*range(100), 3, 3]).miss == Miss(100, 84, [*around, 2, 2, 2], [*around, 3, 3])
    look(cache, [*range(100), 1, 1])
    assert look(cache, [*range(100), 3]).miss == Miss(100, 84, [*around, 1, 1, 1], [*around, 3])
    assert look(cache, [*range(50), 7]).miss == Miss(50, 34, list(range(34, 66)), [*range(34, 50), 7])
    assert look(cache, [9]).miss == Miss(0, 0, list(range(16)), [9])
    assert look(cache, range(40)).miss is None
    text = [*range(87, 100), 2, 2, 2]
    assert look(cache, [*range(100), 2, 2, 2, 5]).miss == Miss(103, 87, text, text)


def test_scopes_find_only_their_own_and_what_they_share() -> None:
    cache = new()
    ann, ben = (replace(CacheScope.from_name(name), shared=20) for name in ("ann", "ben"))
    text = [*range(60)]
    put(cache, ann.add_salt(text))
    own = cache.find(ann.add_salt(text), 60, disk=False, scope=ann)
    other = cache.find(ben.add_salt(text), 60, disk=False, scope=ben)
    assert (own.length, other.length) == (60, 20)
    # The rest is another scope's: not even that there is one is told.
    assert other.miss == Miss(20, 4, text[4:20], text[4:20])
    assert cache.find(ben.add_salt([*range(10), 70]), 11, disk=False, scope=ben).miss == Miss(
        10, 0, text[:20], [*range(10), 70]
    )
    put(cache, ben.add_salt([*range(40), 7, 8, 9]))
    (found,) = [cache.find(ben.add_salt([*range(40), 6]), 41, disk=False, scope=ben).miss]
    assert found == Miss(40, 24, [*range(24, 40), 7, 8, 9], [*range(24, 40), 6])
    for scope in (CacheScope.from_name("cem"), CacheScope()):
        match = cache.find(scope.add_salt([500]), 1, disk=False, scope=scope)
        assert (match.length, match.miss) == (0, Miss(0, 0, [] if scope.salt else text[:16], [500]))
    check(cache)


def test_a_prompt_is_compared_with_few_of_many_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """One caller can have thousands of salts, and each of them begins another text."""
    cache = new()
    for number in range(1000):
        put(cache, CacheScope.from_name(f"{number}").add_salt([1, 2, 3]))
    put(cache, [5, 6])
    looks, shows = 0, CacheScope.shows

    def count(scope: CacheScope, place: int, id_: int) -> bool:
        nonlocal looks
        looks += 1
        return shows(scope, place, id_)

    monkeypatch.setattr(CacheScope, "shows", count)
    for scope, cached in ((CacheScope.from_name("new"), []), (CacheScope(), [5, 6])):
        assert cache.find(scope.add_salt([9]), 1, disk=False, scope=scope).miss == Miss(0, 0, cached, [9])
    assert looks < 600


def test_what_was_used_least_recently_goes_first() -> None:
    cache = new(budget=30 * WIDTH)
    for token in (1, 2, 3):
        put(cache, [token] * 10)
    look(cache, [1] * 10)
    put(cache, [4] * 10)
    assert [look(cache, [token] * 10).length for token in (1, 2, 3, 4)] == [10, 0, 10, 10]


def test_leaves_go_before_what_they_hang_on() -> None:
    cache = new(budget=40 * WIDTH)
    put(cache, [1] * 10 + [2] * 10)
    put(cache, [1] * 10 + [3] * 10)
    put(cache, [4] * 15)
    assert look(cache, [1] * 10 + [2] * 10).length == 10
    assert look(cache, [1] * 10 + [3] * 10).length == 20


def test_snapshots_go_by_their_own_use() -> None:
    cache = new(budget=30 * WIDTH + 2 * SNAPSHOT, needs_snapshot=True)
    text = [1] * 30
    for length in (10, 20):
        put(cache, text[:length], with_snapshot=True)
    look(cache, text[:15])
    put(cache, text, with_snapshot=True)
    assert [cache.has_snapshot(text[:length]) for length in (10, 20, 30)] == [True, False, True]


def test_more_than_the_budget_keeps_its_head() -> None:
    cache = new(budget=1000 * WIDTH)
    put(cache, long(1, 5000))
    assert look(cache, long(1, 5000)).length == 512
    check(cache)
    none = new(budget=0)
    put(none, [1, 2, 3], with_snapshot=True)
    assert none.counters["bytes"] == 0
    check(none)


def test_only_so_many_texts_are_kept() -> None:
    cache = new(most_texts=2)
    put(cache, long(1, 1500))
    put(cache, long(1, 2000))  # goes on with the first
    put(cache, [*long(1, 700), *long(2, 700)])
    assert look(cache, long(1, 2000)).length == 2000
    put(cache, long(3, 600))
    assert [look(cache, long(n, 600)).length for n in (1, 3)] == [600, 600]
    assert look(cache, long(1, 2000)).length == 2000
    assert look(cache, [*long(1, 700), *long(2, 700)]).length == 700
    put(cache, long(4, 100))
    put(cache, long(5, 100))
    assert [look(cache, long(n, 100)).length for n in (1, 3, 4, 5)] == [0, 0, 100, 100]
    assert cache.counters["bytes"] == 200 * WIDTH
    check(cache)


def test_a_new_budget_holds_at_once() -> None:
    cache = new(budget=3000 * WIDTH)
    put(cache, long(1, 2000))
    cache.limit(1000 * WIDTH)
    assert cache.counters["budget_bytes"] == 1000 * WIDTH
    assert 0 < cache.counters["bytes"] <= 1000 * WIDTH
    check(cache)
    cache.limit(3000 * WIDTH)
    put(cache, long(1, 2000))
    assert look(cache, long(1, 2000)).length == 2000


def test_memory_can_be_taken_back() -> None:
    cache = new()
    put(cache, long(1, 5000))
    match = look(cache, long(1, 5000))
    shrink(cache, 2000 * WIDTH)
    assert 1000 * WIDTH < cache.counters["bytes"] <= 2000 * WIDTH
    shrink(cache, 0)
    assert cache.counters["bytes"] == 0
    check(cache)
    assert sum(used for _, used in match.pieces) == 5000


def test_counters() -> None:
    cache = new()
    put(cache, [1, 2, 3])
    look(cache, [1, 2])
    look(cache, [1, 2], disk=False)
    look(cache, [5], disk=False)
    counters = cache.counters
    assert (counters["hits"], counters["misses"], counters["tokens"], counters["entries"]) == (1, 1, 2, 1)
    assert (counters["bytes"], counters["disk_bytes"]) == (3 * WIDTH, 0)


def test_a_payload_that_breaks_leaves_the_cache_whole() -> None:
    class Broken(Cut):
        def part(self, begin: int, end: int) -> Cut:
            if begin >= 512:
                raise MemoryError
            return super().part(begin, end)

    cache = new()
    with pytest.raises(MemoryError):
        cache.insert(long(1, 2000), 0, Broken(payload(long(1, 2000)).arrays), None)
    check(cache)
    assert look(cache, long(1, 2000)).length == 512


texts = st.lists(st.integers(0, 2), min_size=1, max_size=14).map(tuple)


class Unlimited(RuleBasedStateMachine):
    """Without a budget everything can be predicted."""

    needs_snapshot = False

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(radix_tree, "MAX_EDGE", 4)
        self.cache = new(needs_snapshot=self.needs_snapshot)
        self.token_mask: set[Text] = {()}
        self.snapshots: set[Text] = set()

    def teardown(self) -> None:
        self.patch.undo()

    @rule(text=texts, with_snapshot=st.booleans(), data=st.data())
    def insert(self, text: Text, with_snapshot: bool, data: st.DataObject) -> None:
        covered = self.cache.count_covered(text)
        assert covered == max(n for n in range(len(text) + 1) if text[:n] in self.token_mask)
        start = data.draw(st.integers(0, len(text)))
        put(self.cache, text, with_snapshot, start)
        if start <= covered and (start < len(text) or covered == len(text)):
            self.token_mask |= {text[:n] for n in range(len(text) + 1)}
            if with_snapshot:
                self.snapshots.add(text)

    @rule(text=texts, data=st.data())
    def find(self, text: Text, data: st.DataObject) -> None:
        limit = data.draw(st.integers(0, len(text)))
        places = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=4)))
        media = list(zip(places[::2], places[1::2], strict=False))
        match = look(self.cache, text, limit, media=media)
        usable = self.snapshots | {()} if self.needs_snapshot else self.token_mask
        whole = [n for n in range(limit + 1) if not any(start < n < stop for start, stop in media)]
        assert match.length == max(n for n in whole if text[:n] in usable)
        assert known(match, text) == max(n for n in range(len(text) + 1) if text[:n] in self.token_mask)
        assert (match.snapshot is not None) == (self.needs_snapshot and match.length > 0)
        if (miss := match.miss) and miss.cached:
            assert text[: miss.begin] + tuple(miss.cached) in self.token_mask
            assert miss.cached != miss.given or len(miss.cached) == miss.place - miss.begin

    @rule(text=texts)
    def snapshot(self, text: Text) -> None:
        assert self.cache.has_snapshot(text) == (text in self.snapshots)

    @invariant()
    def nothing_is_stored_twice(self) -> None:
        check(self.cache)
        assert self.cache.counters["bytes"] == (len(self.token_mask) - 1) * WIDTH + len(self.snapshots) * SNAPSHOT


class UnlimitedWithSnapshots(Unlimited):
    needs_snapshot = True


class Limited(RuleBasedStateMachine):
    """Under a budget: what was used last is there, as long as it fits."""

    budget = 40 * WIDTH

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(radix_tree, "MAX_EDGE", 4)
        self.cache = new(self.budget)
        self.last_use: list[Text] = []

    def teardown(self) -> None:
        self.patch.undo()

    @rule(text=texts)
    def insert(self, text: Text) -> None:
        put(self.cache, text)
        self.last_use.append(text)

    @rule(text=texts)
    def find(self, text: Text) -> None:
        match = look(self.cache, text)
        if match.length:
            self.last_use.append(text[: match.length])

    @precondition(lambda self: self.last_use)
    @rule()
    def shrunk(self) -> None:
        shrink(self.cache, self.budget // 2)
        self.last_use = []

    @invariant()
    def what_was_used_last_is_there(self) -> None:
        check(self.cache)
        needed: set[Text] = set()
        for count, text in enumerate(reversed(self.last_use), 1):
            needed |= {text[:n] for n in range(1, len(text) + 1)}
            # A use keeps whole nodes, so the last one of each text may bring up to three tokens more.
            if (len(needed) + 3 * count) * WIDTH > self.budget:
                break
            assert self.cache.count_covered(text) == len(text)


class Few(RuleBasedStateMachine):
    """Of the texts in memory, only so many are no other's beginning."""

    most = 3

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(radix_tree, "MAX_EDGE", 4)
        self.cache = new(30 * WIDTH, needs_snapshot=True, most_texts=self.most)

    def teardown(self) -> None:
        self.patch.undo()

    @rule(text=texts, with_snapshot=st.booleans())
    def insert(self, text: Text, with_snapshot: bool) -> None:
        put(self.cache, text, with_snapshot)

    @rule(text=texts)
    def find(self, text: Text) -> None:
        look(self.cache, text)

    @invariant()
    def they_are_few(self) -> None:
        check(self.cache)
        nodes = list(self.cache._memory.root.subtree())
        held = [node for node in nodes if node.payload.value is not None]
        above = {node.parent for node in held}
        assert sum(node not in above for node in held) <= self.most


TestUnlimited = Unlimited.TestCase
TestFew = Few.TestCase
TestUnlimitedWithSnapshots = UnlimitedWithSnapshots.TestCase
TestLimited = Limited.TestCase
