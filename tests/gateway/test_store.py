"""What is kept of responses and conversations, and for how long."""

import json
import multiprocessing
import sqlite3
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchard.core.errors import FailureKind, OrchardError
from orchard.gateway.store import Record, Store
from orchard.gateway.store_owner import Owner

TTL = 100.0


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Kept(Store):
    """A store that its tests can look into."""

    def __init__(self, path: Path | str, *, max_bytes: int = 2**30, archive: str | None = None) -> None:
        self.path = Path(path)
        self.clock = Clock()
        super().__init__(str(path), ttl=TTL, max_bytes=max_bytes, archive=archive, clock=self.clock)

    def answer(self, number: int, previous: int | None = None, *, conversation: str | None = None, **more: Any) -> None:
        """Keep a response of this number, whose input and output say it."""
        record = Record(response(number, previous, conversation, **more), [message(f"in{number}", "user")])
        if self.save(record):
            self.sweep()

    def before(self, number: int) -> list[str]:
        """The texts that a response which goes on from this one builds upon."""
        return texts(self.past(f"resp_{number}", None, ()).items)


def message(text: str, role: str) -> dict[str, Any]:
    return {"id": f"msg_{text}", "type": "message", "role": role, "content": text}


def response(number: int, previous: int | None, conversation: str | None, **more: Any) -> dict[str, Any]:
    about = {
        "id": f"resp_{number}",
        "status": "completed",
        "previous_response_id": None if previous is None else f"resp_{previous}",
        "conversation": conversation and {"id": conversation},
        "output": [message(f"out{number}", "assistant")],
    }
    return about | more


def texts(items: list[bytes]) -> list[str]:
    return [json.loads(item)["content"] for item in items]


def missing(kind: FailureKind, call: Any, *args: Any) -> OrchardError:
    with pytest.raises(OrchardError) as caught:
        call(*args)
    assert caught.value.kind == kind
    return caught.value


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Kept]:
    kept = Kept(tmp_path / "sub" / "responses.db")
    yield kept
    kept.close()


def test_a_response_outlives_the_server(store: Kept) -> None:
    store.answer(1, metadata={"a": "b"})
    store.close()
    again = Kept(store.path)
    found = again.load("resp_1")
    assert found.response["metadata"] == {"a": "b"}
    assert texts([bytes(item) for item in found.response["output"]]) == ["out1"]
    assert not found.running
    again.close()


def test_unknown_things(store: Kept) -> None:
    calls: tuple[Any, ...] = (store.load, store.delete, store.events, store.input_items)
    for call in calls:
        assert "'resp_9'" in missing("response_not_found", call, "resp_9").message
    calls = (store.conversation, store.delete_conversation, store.items)
    for call in calls:
        assert "'conv_9'" in missing("conversation_not_found", call, "conv_9").message
    assert missing("response_not_found", store.past, "resp_9", None, ()).param == "previous_response_id"
    assert missing("conversation_not_found", store.past, None, "conv_9", ()).param == "conversation"
    assert missing("item_not_found", store.past, None, None, ["msg_9"]).param == "input"


def test_a_chain(store: Kept) -> None:
    store.answer(1)
    store.answer(2, 1)
    store.answer(3, 1)
    store.answer(4, 2)
    assert store.before(4) == ["in1", "out1", "in2", "out2", "in4", "out4"]
    assert store.before(3) == ["in1", "out1", "in3", "out3"]
    assert [id_ for id_, _ in store.input_items("resp_2")] == ["msg_in1", "msg_out1", "msg_in2"]


def test_what_was_deleted_stays_in_what_goes_on_from_it(store: Kept) -> None:
    store.answer(1)
    store.answer(2, 1)
    store.delete("resp_1")
    missing("response_not_found", store.load, "resp_1")
    missing("response_not_found", store.past, "resp_1", None, ())
    assert store.before(2) == ["in1", "out1", "in2", "out2"]
    store.delete("resp_2")
    store.close()
    assert not any(b"in1" in path.read_bytes() for path in store.path.parent.iterdir())


def test_a_response_that_is_not_done_is_nothing_to_go_on_from(store: Kept) -> None:
    store.answer(1, status="in_progress")
    error = missing("invalid_request", store.past, "resp_1", None, ())
    assert error.param == "previous_response_id"


def test_items_that_are_referred_to(store: Kept) -> None:
    store.answer(1)
    store.answer(2)
    past = store.past("resp_1", None, ["msg_in1", "msg_out2"])
    assert texts(past.items) == ["in1", "out1"]
    assert {id_: texts([item]) for id_, item in past.referenced.items()} == {"msg_out2": ["out2"]}


def test_a_conversation(store: Kept) -> None:
    created = store.create("conv_1", {"a": "b"}, [message("first", "user")])
    assert store.conversation("conv_1") == (created, {"a": "b"})
    assert store.conversation("conv_1", {"c": "d"}) == (created, {"c": "d"})
    store.answer(1, conversation="conv_1")
    store.add_items("conv_1", [message("last", "user")])
    assert texts(store.past(None, "conv_1", ()).items) == ["first", "in1", "out1", "last"]
    store.delete_item("conv_1", "msg_in1")
    missing("item_not_found", store.delete_item, "conv_1", "msg_in1")
    assert [id_ for id_, _ in store.items("conv_1")] == ["msg_first", "msg_out1", "msg_last"]
    store.delete("resp_1")
    assert [id_ for id_, _ in store.items("conv_1")] == ["msg_first", "msg_out1", "msg_last"]
    store.delete_conversation("conv_1")
    missing("conversation_not_found", store.conversation, "conv_1")
    missing("item_not_found", store.past, None, None, ["msg_first"])


def test_what_a_conversation_held_is_of_its_responses_input(store: Kept) -> None:
    store.create("conv_1", {}, [message("first", "user")])
    store.answer(1, conversation="conv_1")
    store.add_items("conv_1", [message("between", "user")])
    store.answer(2, conversation="conv_1")
    store.answer(3, conversation="conv_1", status="failed")
    store.answer(4, 2)
    assert [id_ for id_, _ in store.input_items("resp_1")] == ["msg_first", "msg_in1"]
    before = ["msg_first", "msg_in1", "msg_out1", "msg_between"]
    assert [id_ for id_, _ in store.input_items("resp_2")] == [*before, "msg_in2"]
    assert [id_ for id_, _ in store.input_items("resp_4")] == ["msg_in2", "msg_out2", "msg_in4"]
    store.delete("resp_1")
    assert [id_ for id_, _ in store.input_items("resp_2")] == [*before, "msg_in2"]
    store.delete_item("conv_1", "msg_in2")
    store.delete_item("conv_1", "msg_out2")
    assert store.input_items("resp_2") == []  # nothing says any more where it stood


def test_a_thread_is_no_conversation(store: Kept) -> None:
    store.answer(1)
    missing("conversation_not_found", store.conversation, "resp_1")


def test_what_two_responses_say_in_one_conversation_stays_together(store: Kept) -> None:
    store.create("conv_1", {}, [])
    store.answer(1, conversation="conv_1", status="in_progress", output=[])
    store.answer(2, conversation="conv_1", status="in_progress", output=[])
    store.answer(3, conversation="conv_1", status="failed")
    assert store.items("conv_1") == []
    store.answer(1, conversation="conv_1")
    store.answer(2, conversation="conv_1")
    assert texts(store.past(None, "conv_1", ()).items) == ["in1", "out1", "in2", "out2"]


def test_a_response_whose_conversation_is_gone_is_kept(store: Kept) -> None:
    store.create("conv_1", {}, [])
    store.answer(1, conversation="conv_1", status="in_progress")
    store.delete_conversation("conv_1")
    store.answer(1, conversation="conv_1")
    assert store.load("resp_1").response["status"] == "completed"


def test_what_is_not_used_expires(store: Kept) -> None:
    store.answer(1)
    store.answer(2)
    store.create("conv_1", {}, [])
    store.clock.now += TTL - 1
    store.answer(3, 1)  # its thread begins anew
    store.add_items("conv_1", [message("x", "user")])
    store.clock.now += 1
    missing("response_not_found", store.load, "resp_2")
    missing("item_not_found", store.past, None, None, ["msg_in2"])
    assert store.before(3) == ["in1", "out1", "in3", "out3"]
    assert store.conversation("conv_1")
    store.clock.now += TTL - 1
    missing("response_not_found", store.past, "resp_3", None, ())
    missing("conversation_not_found", store.items, "conv_1")


def test_a_response_that_outlasts_what_it_goes_on_from(store: Kept) -> None:
    store.answer(1)
    store.clock.now += TTL
    store.sweep()
    store.answer(2, 1)
    assert store.load("resp_2")
    assert "'resp_1', which has expired" in missing("response_not_found", store.past, "resp_2", None, ()).message


def test_what_expires_is_erased_and_its_room_given_back(store: Kept) -> None:
    for number in range(100):
        store.answer(number, output=[message("secret" * 1000, "assistant")])
    store.clock.now += TTL
    store.sweep()
    assert store.path.stat().st_size < 200_000
    assert not any(b"secret" in path.read_bytes() for path in store.path.parent.iterdir())


def test_what_expires_is_archived(tmp_path: Path) -> None:
    store = Kept(tmp_path / "responses.db", archive=str(tmp_path / "archive"))
    store.answer(1)
    store.answer(2, 1)
    store.create("conv_1", {"a": "b"}, [message("first", "user")])
    store.answer(3, conversation="conv_1")
    store.clock.now += TTL
    store.sweep()
    store.close()
    files = {path.name: json.loads(path.read_text()) for path in (tmp_path / "archive").iterdir()}
    assert set(files) == {"resp_1.json", "conv_1.json"}
    chain, conversation = files["resp_1.json"], files["conv_1.json"]
    assert [one["id"] for one in chain["responses"]] == ["resp_1", "resp_2"]
    assert chain["responses"][1]["previous_response_id"] == "resp_1"
    assert [item["content"] for one in chain["responses"] for item in (*one["input"], *one["output"])] == [
        "in1",
        "out1",
        "in2",
        "out2",
    ]
    assert conversation["metadata"] == {"a": "b"}
    assert [item["content"] for item in conversation["items"]] == ["first", "in3", "out3"]
    assert chain["created_at"] + TTL == chain["archived_at"]
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "archive").iterdir()]
    assert modes == [0o600, 0o600]


def test_what_cannot_be_archived_is_kept_until_it_can(tmp_path: Path) -> None:
    (tmp_path / "archive").write_text("no folder")
    store = Kept(tmp_path / "responses.db", archive=str(tmp_path / "archive"))
    store.answer(1)
    store.clock.now += TTL
    store.sweep()
    missing("response_not_found", store.load, "resp_1")
    (tmp_path / "archive").unlink()
    store.sweep()
    assert (tmp_path / "archive" / "resp_1.json").exists()
    store.close()


def test_what_was_used_least_recently_makes_room(tmp_path: Path) -> None:
    store = Kept(tmp_path / "responses.db", max_bytes=400_000)
    store.answer(0)
    for number in range(1, 100):
        store.clock.now += 0.1
        store.answer(number, output=[message("x" * 20_000, "assistant")])
        store.answer(1000 + number, 0)
    assert store.load("resp_0")
    assert store.load("resp_99")
    missing("response_not_found", store.load, "resp_1")
    assert store.path.stat().st_size < 800_000
    store.close()


def test_a_run_whose_server_is_gone_has_failed(store: Kept) -> None:
    store.save(Record(response(1, None, None, status="in_progress"), [], owner="me"))
    assert (store.load("resp_1").running, store.load("resp_1").owner) == (True, "me")
    store.fail("resp_1", "gone")
    found = store.load("resp_1").response
    assert (found["status"], found["error"]) == ("failed", {"code": "server_error", "message": "gone"})


def test_only_the_owner_may_read_it(store: Kept) -> None:
    store.answer(1)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in store.path.parent.iterdir()}
    assert modes == dict.fromkeys(("responses.db", "responses.db-wal", "responses.db-shm"), 384)
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("damage", ["noise", "torn", "version"])
def test_a_broken_file_is_set_aside(tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "responses.db"
    store = Kept(path)
    for number in range(50):
        store.answer(number, output=[message("x" * 1000, "assistant")])
    store.close()
    if damage == "noise":
        path.write_bytes(b"this is no database " * 1000)
    elif damage == "torn":
        content = bytearray(path.read_bytes())
        content[4096:] = b"\xff" * (len(content) - 4096)
        path.write_bytes(content)
    else:
        with sqlite3.connect(path) as connection:
            connection.execute("PRAGMA user_version = 99")
        connection.close()
    again = Kept(path)
    again.answer(7)
    assert again.load("resp_7")
    missing("response_not_found", again.load, "resp_8")
    again.close()
    (aside,) = tmp_path.glob("responses.db.broken-*")
    assert aside.stat().st_size > 10_000
    assert "a new one begins" in caplog.text


def test_a_file_that_cannot_be_used_is_said_to_be_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = Kept(tmp_path / "file" / "responses.db")
    error = missing("unavailable", store.load, "resp_1")
    assert error.retry_after
    assert str(tmp_path) not in error.message


def test_in_memory() -> None:
    store = Kept(":memory:", max_bytes=200_000)
    for number in range(30):
        store.answer(number, output=[message("x" * 20_000, "assistant")])
    assert store.load("resp_29")
    missing("response_not_found", store.load, "resp_0")
    store.close()


def _fill(path: str, first: int) -> None:
    store = Kept(path)
    for number in range(first, first + 40):
        store.answer(number)
        store.answer(number + 1000, number)
        store.sweep()
    store.close()


def test_several_servers_share_a_file(tmp_path: Path) -> None:
    path = str(tmp_path / "responses.db")
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_fill, args=(path, place * 100)) for place in range(2)]
    for process in processes:
        process.start()
    with ThreadPoolExecutor(3) as threads:
        list(threads.map(_fill, [path] * 3, (200, 300, 400)))
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    store = Kept(path)
    for place in range(5):
        for number in range(place * 100, place * 100 + 40):
            assert store.before(number + 1000) == [
                f"in{number}",
                f"out{number}",
                f"in{number + 1000}",
                f"out{number + 1000}",
            ]
    store.close()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["answer", "go on", "delete", "wait"]), st.integers(0, 9), st.integers(0, 9)),
        max_size=25,
    )
)
def test_any_history(steps: list[tuple[str, int, int]]) -> None:
    """The store against a model of it: each response's own conversation, and when its thread expires."""
    store = Kept(":memory:")
    said: dict[int, list[str]] = {}
    threads: dict[int, int] = {}
    ends: dict[int, float] = {}

    def alive(number: int) -> bool:
        return number in said and ends[threads[number]] > store.clock.now

    for i, (step, first, second) in enumerate(steps):
        if step == "wait":
            store.clock.now += first * 15
            store.sweep()
        elif step == "delete" and alive(first):
            store.delete(f"resp_{first}")
            del said[first]
        elif step in ("answer", "go on") and first not in threads:
            previous = second if step == "go on" and alive(second) else None
            store.answer(first, previous)
            said[first] = [*(said[second] if previous is not None else []), f"in{first}", f"out{first}"]
            threads[first] = threads[second] if previous is not None else i
            ends[threads[first]] = store.clock.now + TTL
    for number in threads:
        if alive(number):
            assert store.before(number) == said[number]
        else:
            missing("response_not_found", store.load, f"resp_{number}")
    store.close()


def test_a_servers_mark_goes_with_it(tmp_path: Path) -> None:
    path = str(tmp_path / "sub" / "responses.db")
    first, second = Owner(path), Owner(path)
    assert not second.lives(first.token)
    first.hold()
    assert second.lives(first.token)
    first.release()
    assert not second.lives(first.token)
    assert not list((tmp_path / "sub").iterdir())


def test_a_mark_that_a_dead_server_left_is_swept_up(tmp_path: Path) -> None:
    path = str(tmp_path / "responses.db")
    (tmp_path / "responses.db-server-dead").touch()
    assert not Owner(path).lives("dead")
    assert not list(tmp_path.iterdir())


def test_a_mark_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    missing("unavailable", Owner(str(tmp_path / "file" / "responses.db")).hold)
