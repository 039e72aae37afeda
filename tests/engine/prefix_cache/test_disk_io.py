"""The prefix cache with files: restarts, kills, damage, budgets."""

import logging
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from orchard.engine.prefix_cache import cache_file, disk_io, radix_tree
from orchard.engine.prefix_cache.cache import Match, Miss, PrefixCache
from orchard.engine.prefix_cache.disk_io import DiskTier
from orchard.engine.prefix_cache.values import CacheScope, Cut, pack_tokens
from tests.engine.prefix_cache.test_cache import WIDTH, Text, check, known, long, look, new, put, shrink, texts
from tests.support.examples import examples

MODEL = "model-4bit"
SECONDS = 30


def settle(disk: DiskTier) -> None:
    """Wait until the I/O thread has done what it was told so far."""
    done = threading.Event()
    disk.read([], None, done.set)
    assert done.wait(SECONDS)


def fetch(cache: PrefixCache, text: Sequence[int]) -> Match:
    """Find, and read what is cold."""
    done = threading.Event()
    cache.fetch(cache.find(text, len(text)), done.set)
    assert done.wait(SECONDS)
    return cache.find(text, len(text), disk=False)


def save(cache: PrefixCache, disk: DiskTier) -> None:
    settle(disk)
    while cache.write_back(10**6):
        pass
    settle(disk)
    cache.count_covered([])  # takes the news in


def files(disk: DiskTier) -> list[Path]:
    return sorted(path for path in disk.folder.iterdir() if path.name != ".lock")


class House:
    """A folder, and caches that live in it one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.disk: DiskTier | None = None

    def open(
        self, budget: int = 10**9, disk_budget: int = 10**9, needs_snapshot: bool = False, model: str = MODEL
    ) -> tuple[PrefixCache, DiskTier]:
        self.close()
        self.disk = disk = DiskTier(self.folder, model, disk_budget)
        cache = new(budget, needs_snapshot, disk)
        settle(disk)
        cache.count_covered([])
        return cache, disk

    def close(self) -> None:
        if self.disk is not None:
            self.disk.close(SECONDS)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path / "cache")
    yield house
    house.close()


def test_what_leaves_memory_stays_on_disk(house: House) -> None:
    cache, disk = house.open()
    text = long(1, 1500)
    put(cache, text)
    assert len(files(disk)) == 0
    save(cache, disk)
    assert len(files(disk)) == 3
    assert cache.counters["disk_bytes"] == sum(path.stat().st_size for path in files(disk))
    shrink(cache, 0)
    match = look(cache, text)
    assert (match.length, match.cold, match.pieces) == (1500, True, [])
    match = look(cache, text, disk=False)
    assert (match.length, match.cold, match.miss) == (0, False, None)
    assert fetch(cache, text).length == 1500
    assert not look(cache, text).cold
    check(cache)


def test_a_medium_is_in_memory_as_a_whole_or_not_at_all(house: House) -> None:
    cache, disk = house.open()
    text = long(1, 1500)
    put(cache, text)
    save(cache, disk)
    shrink(cache, 512 * WIDTH)
    match = look(cache, text, media=[(400, 900)])
    assert (match.length, match.cold, match.warm_length) == (1500, True, 400)
    assert look(cache, text, disk=False, media=[(400, 900)]).length == 400


def test_a_restart_finds_it_all(house: House) -> None:
    cache, disk = house.open(needs_snapshot=True)
    one, other = [*long(1, 700), *long(2, 900)], [*long(1, 600), *long(3, 50)]
    put(cache, one, with_snapshot=True)
    save(cache, disk)
    put(cache, other, with_snapshot=True)  # splits what is saved
    save(cache, disk)
    cache, disk = house.open(needs_snapshot=True)
    assert cache.counters["bytes"] == 0
    for text in (one, other):
        assert look(cache, text).cold
        assert fetch(cache, text).length == len(text)
        look(cache, text)
    check(cache)
    assert not cache.write_back(10**9)


def test_files_from_before_there_were_keys_belong_to_nobody(house: House) -> None:
    cache, disk = house.open()
    ann, ben = CacheScope.from_name("ann"), CacheScope.from_name("ben")
    plain, text = long(1, 700), ann.add_salt(long(2, 700))
    for one in (plain, text):
        put(cache, one)
        save(cache, disk)
    cache, disk = house.open()
    assert fetch(cache, list(text)).length == 700
    assert cache.find(ann.add_salt(plain), 700, scope=ann).length == 0
    for one in (plain, long(2, 700)):
        found = cache.find(ben.add_salt(one), 700, scope=ben)
        assert (found.length, found.miss) == (0, Miss(0, 0, [], one[:1]))
    check(cache)


def test_the_files_are_nobody_elses(house: House) -> None:
    cache, disk = house.open()
    put(cache, long(1, 100), with_snapshot=True)
    save(cache, disk)
    for folder in (house.folder, disk.folder):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for path in disk.folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_saved_node_may_be_split_cold_or_warm(house: House) -> None:
    cache, disk = house.open()
    text = long(1, 400)
    put(cache, text)
    save(cache, disk)
    put(cache, [*text[:300], 1])  # warm
    shrink(cache, 0)
    put(cache, [*text[:200], 2])  # cold: only the head comes into memory
    put(cache, text[:100])
    check(cache)
    assert len(files(disk)) == 1
    assert fetch(cache, text).length == 400
    look(cache, text)
    save(cache, disk)
    cache, disk = house.open()
    for whole in (text, [*text[:200], 2]):
        assert fetch(cache, whole).length == len(whole)
        look(cache, whole)
    check(cache)


def test_a_half_of_a_file_can_be_fetched_alone(house: House) -> None:
    cache, disk = house.open()
    put(cache, long(1, 400))
    save(cache, disk)
    shrink(cache, 0)
    put(cache, [*long(1, 100), 1])
    shrink(cache, 0)
    assert fetch(cache, [*long(1, 100), 2]).length == 100
    assert cache.counters["bytes"] == 100 * WIDTH
    assert look(cache, long(1, 400)).cold
    check(cache)


def test_what_is_brought_again_is_warm_without_reading(house: House) -> None:
    cache, disk = house.open()
    put(cache, long(1, 1000))
    save(cache, disk)
    shrink(cache, 0)
    put(cache, long(1, 1200))
    match = look(cache, long(1, 1200))
    assert (match.length, match.cold) == (1200, False)
    save(cache, disk)
    assert len(files(disk)) == 3


def test_more_than_the_memory_holds_is_not_promised(house: House) -> None:
    cache, disk = house.open(budget=1100 * WIDTH)
    for length in (500, 1000, 1500, 2000):
        put(cache, long(1, 1000)[:length] if length <= 1000 else long(2, length - 1000))
        save(cache, disk)
    cache, disk = house.open(budget=600 * WIDTH)
    assert look(cache, long(1, 1000)).length == 500
    assert fetch(cache, long(1, 1000)).length == 500


def test_a_snapshot_that_the_memory_cant_hold_is_not_promised(house: House) -> None:
    cache, disk = house.open(needs_snapshot=True)
    put(cache, long(1, 100), with_snapshot=True)
    save(cache, disk)
    cache, disk = house.open(budget=101 * WIDTH, needs_snapshot=True)
    assert (look(cache, long(1, 100)).length, look(cache, long(1, 100)).miss) == (0, None)


def test_a_snapshot_that_is_only_on_disk_is_fetched_before_it_is_used(house: House) -> None:
    cache, disk = house.open(needs_snapshot=True)
    text = long(1, 100)
    put(cache, text, with_snapshot=True)
    save(cache, disk)
    shrink(cache, 100 * WIDTH)  # the snapshot goes first
    match = look(cache, text)
    assert (match.length, match.cold, match.warm_length) == (100, True, 0)
    assert look(cache, text, disk=False).length == 0
    assert fetch(cache, text).snapshot is not None


def test_text_that_is_dropped_while_it_is_read_stays_dropped(house: House) -> None:
    cache, disk = house.open(disk_budget=20_000)
    put(cache, long(1, 1000))
    save(cache, disk)
    shrink(cache, 0)
    gate, answered = threading.Event(), threading.Event()

    def wait() -> None:
        assert gate.wait(SECONDS)

    disk.read([], None, wait)
    cache.fetch(cache.find(long(1, 1000), 1000), answered.set)
    put(cache, long(2, 1000))
    while cache.write_back(10**6):
        pass
    assert known(look(cache, long(1, 1000)), long(1, 1000)) == 0
    gate.set()
    assert answered.wait(SECONDS)
    assert look(cache, long(1, 1000)).length == 0
    assert cache.counters["bytes"] == 1000 * WIDTH
    check(cache)


@pytest.mark.parametrize("damage", ["bit", "truncated", "gone", "empty"])
def test_damage_found_on_reading(house: House, caplog: pytest.LogCaptureFixture, damage: str) -> None:
    cache, disk = house.open()
    text = long(1, 1500)
    put(cache, text)
    save(cache, disk)
    shrink(cache, 0)
    (path,) = (path for path in files(disk) if "-512." in path.name)
    data = path.read_bytes()
    match damage:
        case "bit":
            path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        case "truncated":
            path.write_bytes(data[:-1])
        case "empty":
            path.write_bytes(b"")
        case "gone":
            path.unlink()
    caplog.clear()
    match = fetch(cache, text)
    assert (match.length, look(cache, text).length) == (512, 512)
    assert len(caplog.records) == 1
    assert path.name in caplog.text
    settle(disk)
    assert len(files(disk)) == 1  # what came after it is of no use either
    check(cache)
    put(cache, text)
    save(cache, disk)
    assert len(files(disk)) == 3


def test_what_is_wrong_at_the_start_is_ignored(house: House, caplog: pytest.LogCaptureFixture) -> None:
    cache, disk = house.open()
    put(cache, long(1, 100))
    put(cache, long(2, 100))
    put(cache, long(3, 100))
    save(cache, disk)
    house.close()
    first, second, third = files(disk)
    truncated = first.read_bytes()[:-5]
    first.write_bytes(truncated)
    second.unlink()
    second.symlink_to(third)
    foreign = disk.folder / "notes.txt"
    foreign.write_text("mine")
    leftover = disk.folder / (second.name + ".tmp")
    leftover.write_bytes(truncated)
    (disk.folder / ("f" * 64 + "-0.payload.safetensors")).mkdir()
    other = disk.folder / ("e" * 64 + "-0.payload.safetensors")
    other.write_bytes(third.read_bytes().replace(MODEL.encode(), b"model-8bit"))
    pipe = disk.folder / ("d" * 64 + "-0.payload.safetensors")
    os.mkfifo(pipe)
    newer = disk.folder / ("c" * 64 + "-0.payload.safetensors")
    newer.write_bytes(third.read_bytes().replace(b'"version":"1"', b'"version":"2"'))
    renamed = disk.folder / ("b" * 64 + "-0.payload.safetensors")
    renamed.write_bytes(third.read_bytes())
    caplog.clear()
    cache, disk = house.open()
    assert sorted(look(cache, long(seed, 100)).length for seed in (1, 2, 3)) == [0, 0, 100]
    assert len(caplog.records) == 8
    assert all(record.levelno == logging.WARNING for record in caplog.records)
    for reason in ("truncated", "another model", "another version", "not one of the cache's", "its name is not"):
        assert reason in caplog.text
    assert foreign.read_text() == "mine"
    assert second.is_symlink()
    assert other.exists()
    assert not leftover.exists()
    assert not first.exists()


def test_a_file_in_a_wrong_place_is_dropped(house: House, caplog: pytest.LogCaptureFixture) -> None:
    cache, disk = house.open()
    put(cache, long(1, 1500))
    save(cache, disk)
    house.close()
    for path in files(disk):
        if "-512." in path.name:
            path.unlink()
    place = cache_file.FileIdentity(MODEL, "payload", "a" * 64, "", 0, radix_tree.make_tree().edge)
    word = pack_tokens([1])
    for start, text in ((0, word), (7, word), (0, b""), (-4, word)):
        bad = cache_file.FileIdentity(MODEL, "payload", place.key[:-1] + str(len(text)), "", start, text)
        cache_file.write_file(disk.folder, bad, {})
    caplog.clear()
    cache, disk = house.open()
    assert look(cache, long(1, 1500)).length == 512
    settle(disk)
    assert [path.name for path in files(disk) if "-512." in path.name or "-1024." in path.name] == []
    assert "what comes before it is gone" in caplog.text
    assert "its place is damaged" in caplog.text
    assert look(cache, [1]).length == 0
    check(cache)


def test_text_in_two_files_is_kept_once(house: House, tmp_path: Path) -> None:
    cache, disk = house.open()
    put(cache, long(1, 400))
    save(cache, disk)
    second = House(tmp_path / "second")
    cache, other = second.open()
    for length in (100, 400):
        put(cache, long(1, length))
        save(cache, other)
    house.close()
    second.close()
    for path in files(other):
        path.rename(disk.folder / path.name)
    cache, disk = house.open()
    check(cache)
    settle(disk)
    assert cache.counters["disk_entries"] == len(files(disk)) < 3
    text = look(cache, long(1, 400))
    assert text.length >= 100
    assert fetch(cache, long(1, 400)).length == text.length
    look(cache, long(1, 400))


def test_what_is_cached_before_the_folder_is_read_takes_its_files(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, disk = house.open()
    text = long(1, 300)
    for length in (100, 200, 300):
        put(cache, text[:length])
        save(cache, disk)
    house.close()
    kept = files(disk)
    gate = threading.Event()
    read_header = cache_file.read_header

    def slow(*arguments: Any) -> Any:
        assert gate.wait(SECONDS)
        return read_header(*arguments)

    monkeypatch.setattr(cache_file, "read_header", slow)
    house.disk = disk = DiskTier(house.folder, MODEL, 10**9)
    cache = new(disk=disk)
    put(cache, text[:250])
    put(cache, [*text[:50], 1])
    assert not cache.write_back(10**6)
    gate.set()
    settle(disk)
    cache.count_covered([])
    check(cache)
    save(cache, disk)
    assert set(files(disk)) > set(kept)
    for left in range(300, -1, -10):
        shrink(cache, left * WIDTH)
        check(cache)
    match = look(cache, text)
    assert (match.length, match.cold) == (300, True)
    for whole in (text, [*text[:50], 1]):
        assert fetch(cache, whole).length == len(whole)
        look(cache, whole)


def test_models_have_folders_of_their_own(house: House) -> None:
    cache, disk = house.open(model="one")
    put(cache, long(1, 100))
    save(cache, disk)
    kept = files(disk)
    cache, disk = house.open(model="other", disk_budget=0)
    assert look(cache, long(1, 100)).length == 0
    house.close()
    assert all(path.exists() for path in kept)


def test_a_worker_waits_for_the_last_one_to_leave_the_folder(house: House) -> None:
    cache, disk = house.open()
    put(cache, [1, 2, 3])
    save(cache, disk)
    second = DiskTier(house.folder, MODEL, 10**9)
    disk.close()
    other = new(disk=second)
    settle(second)
    assert fetch(other, [1, 2, 3]).length == 3
    second.close()


def test_two_workers_dont_share_a_folder(
    house: House, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_io, "SECONDS_FOR_LOCK", 0.0)
    cache, disk = house.open()
    put(cache, [1, 2, 3])
    second = DiskTier(house.folder, MODEL, 10**9)
    other = new(disk=second)
    settle(second)
    assert "two workers" in caplog.text
    put(other, [1, 2, 3])
    assert not other.write_back(10**6)
    second.close()
    save(cache, disk)
    assert len(files(disk)) == 1


@pytest.mark.parametrize("obstacle", ["file", "link"])
def test_a_folder_that_cant_be_used_is_no_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, obstacle: str
) -> None:
    if obstacle == "file":
        (tmp_path / "cache").write_text("")
    else:
        probe = House(tmp_path / "cache").open()[1]
        probe.close()
        (probe.folder / ".lock").unlink()
        probe.folder.rmdir()
        probe.folder.symlink_to(tmp_path)
    disk = DiskTier(tmp_path / "cache", MODEL, 10**9)
    cache = new(disk=disk)
    put(cache, [1, 2, 3])
    settle(disk)
    assert not cache.write_back(10**6)
    assert look(cache, [1, 2, 3]).length == 3
    assert len(caplog.records) == 1
    disk.close()


def test_the_disk_has_a_budget(house: House) -> None:
    cache, disk = house.open()
    put(cache, long(0, 500))
    save(cache, disk)
    size = files(disk)[0].stat().st_size
    cache, disk = house.open(disk_budget=3 * size + size // 2)
    for seed in (1, 2):
        put(cache, long(seed, 500))
        save(cache, disk)
    look(cache, long(0, 500))  # used last, though written first
    put(cache, long(3, 500))
    save(cache, disk)
    assert len(files(disk)) == 3
    shrink(cache, 0)
    assert [look(cache, long(seed, 500)).length for seed in range(4)] == [500, 0, 500, 500]
    check(cache)


def test_what_was_used_last_is_saved_first(house: House) -> None:
    """And what is saved after it doesn't take its room."""
    cache, disk = house.open()
    first, second, third = (long(seed, 400) for seed in (1, 2, 3))
    for text in (first, second, third):
        put(cache, text)
    look(cache, first, disk=False)
    settle(disk)
    cache.write_back(1)
    settle(disk)
    (path,) = files(disk)
    assert cache_file.read_header(path, MODEL).place.text == pack_tokens(first)
    disk.budget = int(2.5 * path.stat().st_size)
    save(cache, disk)
    cache, disk = house.open()
    assert [look(cache, text).length for text in (first, second, third)] == [400, 0, 400]


def test_room_is_not_made_at_the_cost_of_what_a_file_hangs_on(house: House) -> None:
    cache, disk = house.open()
    for seed in (1, 2):
        put(cache, long(seed, 1000))
        save(cache, disk)
    size = sum(path.stat().st_size for path in files(disk))
    cache, disk = house.open(disk_budget=size + 1000)
    put(cache, long(1, 1500))  # nobody has looked for it, so its files are the oldest
    save(cache, disk)
    shrink(cache, 0)
    assert [look(cache, long(seed, 1500)).length for seed in (1, 2)] == [1500, 512]


def test_what_was_used_last_outlives_a_restart(house: House) -> None:
    cache, disk = house.open()
    for seed in (1, 2, 3):
        put(cache, long(seed, 1000))
        save(cache, disk)
    look(cache, long(1, 1000))
    settle(disk)
    size = sum(path.stat().st_size for path in files(disk))
    cache, disk = house.open(disk_budget=size * 3 // 5)
    settle(disk)
    # The oldest text goes from its end: what is left of it can still be used.
    assert [look(cache, long(seed, 1000)).length for seed in (1, 2, 3)] == [1000, 0, 512]
    assert cache.counters["disk_bytes"] == sum(path.stat().st_size for path in files(disk)) <= size * 3 // 5


def test_a_text_longer_than_the_disk_is_saved_as_far_as_it_fits(house: House) -> None:
    cache, disk = house.open(disk_budget=30_000)
    put(cache, long(1, 5000), with_snapshot=True)
    save(cache, disk)
    assert len(files(disk)) >= 2
    assert cache.counters["disk_bytes"] <= 30_000
    assert not cache.write_back(10**9)
    shrink(cache, 0)
    assert look(cache, long(1, 5000)).length == 512 * len(files(disk))


def test_tend_does_a_little_at_a_time(house: House) -> None:
    cache, disk = house.open()
    put(cache, long(1, 512 * 5))
    calls = 1
    while cache.write_back(1):
        calls += 1
    settle(disk)
    assert (calls, len(files(disk))) == (5, 5)


def test_a_slow_disk_holds_tend_up_and_wakes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_io, "_MAX_BACKLOG", 1)
    gate, woken = threading.Event(), threading.Event()
    write = cache_file.write_file

    def slow(*arguments: Any) -> None:
        assert gate.wait(SECONDS)
        write(*arguments)

    monkeypatch.setattr(cache_file, "write_file", slow)
    disk = DiskTier(tmp_path, MODEL, 10**9, woken.set)
    cache = new(disk=disk)
    settle(disk)
    put(cache, long(1, 512 * 2))
    assert not cache.write_back(10**9)  # one is under way; nothing can be done before it is written
    gate.set()
    assert woken.wait(SECONDS)
    assert not cache.write_back(10**9) or not cache.write_back(10**9)
    settle(disk)
    assert len(files(disk)) == 2
    disk.close()


def test_a_full_disk_is_no_failure(
    house: House, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    cache, disk = house.open()
    put(cache, long(1, 1000))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        save(cache, disk)
    assert files(disk) == []
    assert cache.counters["disk_bytes"] == 0
    assert "No space left" in caplog.text
    assert look(cache, long(1, 1000)).length == 1000
    check(cache)
    put(cache, long(1, 1100))
    save(cache, disk)
    assert len(files(disk)) == 3


def test_what_follows_a_file_that_was_not_written_goes_too(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    fsync = os.fsync
    calls: list[int] = []

    def fail_once(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 1:
            raise OSError(5, "Input/output error")
        fsync(descriptor)

    cache, disk = house.open()
    put(cache, long(1, 1000))
    monkeypatch.setattr(os, "fsync", fail_once)
    save(cache, disk)
    settle(disk)
    assert len(calls) == 2
    assert files(disk) == []
    assert look(cache, long(1, 1000), disk=False).length == 1000
    check(cache)


def test_evicted_before_it_was_written(house: House) -> None:
    cache, _ = house.open()
    put(cache, long(1, 1000))
    while cache.write_back(10**6):
        pass
    shrink(cache, 0)
    assert fetch(cache, long(1, 1000)).length == 1000  # the I/O thread keeps the order
    look(cache, long(1, 1000))


def test_payloads_that_cant_be_copied_are_not_saved(house: House, caplog: pytest.LogCaptureFixture) -> None:
    class Stuck(Cut):
        def part(self, begin: int, end: int) -> "Stuck":
            return self

        def to_host(self) -> Any:
            raise RuntimeError("no memory")

    cache, disk = house.open()
    cache.insert([1, 2, 3], 0, Stuck({}), None)
    save(cache, disk)
    assert "could not be copied" in caplog.text
    assert cache.find([1, 2, 3], 3).length == 3


def test_payloads_that_cant_be_made_again_are_given_up(
    house: House, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(arrays: Any) -> Any:
        raise ValueError("other shapes")

    monkeypatch.setattr(Cut, "from_host", refuse)
    cache, disk = house.open()
    put(cache, [1, 2, 3])
    save(cache, disk)
    shrink(cache, 0)
    assert fetch(cache, [1, 2, 3]).length == 0
    settle(disk)
    assert files(disk) == []
    assert "can't be used" in caplog.text


def test_close_finishes_what_was_handed_over(house: House) -> None:
    cache, disk = house.open()
    put(cache, long(1, 5000))
    while cache.write_back(10**6):
        pass
    disk.close(SECONDS)
    assert len(files(disk)) == 10
    disk.close()
    called = threading.Event()
    cache.fetch(cache.find(long(1, 10), 10), called.set)
    shrink(cache, 0)
    cache.fetch(cache.find(long(1, 10), 10), called.set)
    assert called.is_set()
    assert not cache.find(long(1, 10), 10).length or cache.find(long(1, 10), 10).cold


def test_a_close_that_cant_wait_still_answers_fetches(house: House) -> None:
    cache, disk = house.open()
    put(cache, long(1, 2000))
    save(cache, disk)
    shrink(cache, 0)
    gate, stuck = threading.Event(), threading.Event()

    def wait() -> None:
        stuck.set()
        assert gate.wait(SECONDS)

    disk.read([], None, wait)
    assert stuck.wait(SECONDS)
    answered = [threading.Event() for _ in range(5)]
    for event in answered:
        cache.fetch(cache.find(long(1, 2000), 2000), event.set)
    put(cache, long(2, 2000))
    while cache.write_back(10**6):
        pass
    disk.close(timeout=0)
    gate.set()
    assert all(event.wait(SECONDS) for event in answered)


def test_close_from_another_thread_in_the_middle_of_work(house: House) -> None:
    cache, disk = house.open()
    put(cache, long(1, 5000))
    closer = threading.Thread(target=disk.close)
    for step in range(200):
        put(cache, long(step, 600))
        cache.write_back(10**4)
        if step == 50:
            closer.start()
        if step % 10 == 0:
            done = threading.Event()
            cache.fetch(cache.find(long(1, 5000), 5000), done.set)
            assert done.wait(SECONDS)
        shrink(cache, 8000 * WIDTH)
        look(cache, long(step, 600), disk=False)
    closer.join(SECONDS)
    check(cache)
    cache, disk = house.open()
    check(cache)


WRITER = """
import os, signal, sys
from pathlib import Path
from orchard.engine.prefix_cache.disk_io import DiskTier
from orchard.engine.prefix_cache.values import Cut
from tests.engine.prefix_cache.test_cache import long, new, put

left = int(sys.argv[3])

def die(descriptor):
    global left
    left -= 1
    if left == 0:
        os.truncate(descriptor, os.fstat(descriptor).st_size // 2)
        os.kill(os.getpid(), signal.SIGKILL)

os.fsync = die
disk = DiskTier(Path(sys.argv[1]), sys.argv[2], 10**9)
cache = new(disk=disk)
seed = 0
while True:
    seed += 1
    put(cache, [*long(1, 600), *long(seed, 600)])
    cache.write_back(10**6)
"""


@pytest.mark.parametrize("files_begun", [1, 2, 3, 40])
def test_kill_in_the_middle_of_writing(house: House, caplog: pytest.LogCaptureFixture, files_begun: int) -> None:
    arguments = [sys.executable, "-c", WRITER, str(house.folder), MODEL, str(files_begun)]
    assert subprocess.run(arguments, timeout=100, check=False).returncode == -signal.SIGKILL
    (folder,) = house.folder.iterdir()
    assert len([path for path in folder.iterdir() if path.suffix == ".tmp"]) == 1
    caplog.clear()
    cache, disk = house.open()
    assert caplog.records == []
    assert not [path for path in files(disk) if path.suffix == ".tmp"]
    check(cache)
    known = cache.counters["disk_entries"]
    assert known == len(files(disk))
    assert known == files_begun - 1
    for seed in range(2, 50):
        text = [*long(1, 600), *long(seed, 600)]
        fetch(cache, text)
        assert not look(cache, text).cold
    assert cache.counters["disk_entries"] == known
    assert caplog.records == []


class Disk(RuleBasedStateMachine):
    """Whatever happens, what is found is right, the books are, and what should be there is."""

    needs_snapshot = False
    budget = 60 * WIDTH
    disk_budget = 12_000

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(radix_tree, "MAX_EDGE", 4)
        self.patch.setattr(os, "fsync", lambda descriptor: None)
        logging.disable(logging.CRITICAL)
        self.temporary = TemporaryDirectory()
        self.house = House(Path(self.temporary.name))
        self.restart()

    def teardown(self) -> None:
        self.house.close()
        self.temporary.cleanup()
        self.patch.undo()
        logging.disable(logging.NOTSET)

    @rule()
    def restart(self) -> None:
        self.cache, self.disk = self.house.open(self.budget, self.disk_budget, self.needs_snapshot)

    @rule(text=texts, with_snapshot=st.booleans())
    def insert(self, text: Text, with_snapshot: bool) -> None:
        put(self.cache, text, with_snapshot)
        if not with_snapshot:
            assert self.cache.count_covered(text) == len(text)

    @rule(text=texts, limit=st.integers(0, 14))
    def find(self, text: Text, limit: int) -> None:
        match = look(self.cache, text, min(limit, len(text)))
        if not match.cold:
            assert match.length == look(self.cache, text, min(limit, len(text)), disk=False).length

    @rule(text=texts)
    def fetch(self, text: Text) -> None:
        expected = look(self.cache, text).length
        assert fetch(self.cache, text).length == expected
        assert look(self.cache, text).length == expected

    @rule(text=texts, other=texts)
    def fetch_late(self, text: Text, other: Text) -> None:
        """Something else happens while files are read."""
        done = threading.Event()
        self.cache.fetch(self.cache.find(text, len(text)), done.set)
        put(self.cache, other, with_snapshot=True)
        self.cache.write_back(100)
        assert done.wait(SECONDS)
        look(self.cache, text)

    @rule(limit=st.sampled_from([1, 100, 10**6]))
    def write_back(self, limit: int) -> None:
        self.cache.write_back(limit)

    @rule(to=st.integers(0, 60))
    def shrink(self, to: int) -> None:
        shrink(self.cache, to * WIDTH)

    @rule(data=st.data())
    def damage(self, data: st.DataObject) -> None:
        settle(self.disk)
        here = files(self.disk)
        if not here:
            return
        path = data.draw(st.sampled_from(here))
        if data.draw(st.booleans()):
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[:-1])
        self.restart()

    @invariant()
    def the_books_are_right(self) -> None:
        settle(self.disk)
        self.cache.count_covered([])
        check(self.cache)
        settle(self.disk)
        sizes = {path.name: path.stat().st_size for path in files(self.disk)}
        index: Any = self.cache._disk
        assert {name: record.size for name, record in index._files.items()} == sizes
        assert index.nbytes == sum(sizes.values()) <= self.disk_budget


class DiskWithSnapshots(Disk):
    needs_snapshot = True


def few(machine: type[RuleBasedStateMachine]) -> Any:
    case = machine.TestCase
    case.settings = examples(40, stateful_step_count=30)
    return case


TestDisk = few(Disk)
TestDiskWithSnapshots = few(DiskWithSnapshots)
