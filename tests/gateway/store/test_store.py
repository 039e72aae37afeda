"""What is kept of responses and conversations, and for how long."""

import contextlib
import json
import multiprocessing
import sqlite3
import stat
import tracemalloc
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.config import Settings
from orchard.core.errors import FailureKind, OrchardError
from orchard.gateway.caller import ANYONE, Caller
from orchard.gateway.store import conversations as store_conversations
from orchard.gateway.store import items as store_items
from orchard.gateway.store import responses as store_responses
from orchard.gateway.store import schema as store_schema
from orchard.gateway.store.conversations import Conversation
from orchard.gateway.store.items import Order, PageQuery
from orchard.gateway.store.responses import Past, ResponseRecord
from orchard.gateway.store.store import ResponseStore
from tests.support.examples import examples

TTL = 100.0
NEWEST = PageQuery()


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Kept(ResponseStore):
    """A store that its tests can look into; `caller` asks for everything."""

    def __init__(self, path: Path | str, *, caller: Caller = ANYONE, **settings: Any) -> None:
        self.path = Path(path)
        self.caller = caller
        self.clock = Clock()
        super().__init__(Settings(responses_path=str(path), responses_ttl=TTL, **settings), self.clock)

    def close(self) -> None:
        self.file.close()

    def answer(self, number: int, previous: int | None = None, *, conversation: str | None = None, **more: Any) -> None:
        """Keep a response of this number, whose input and output say it."""
        given = [message(f"in{number}", "user")]
        self.save(ResponseRecord(response(number, previous, conversation, **more), given, self.caller.user))

    def save(self, record: ResponseRecord) -> None:
        self.run(store_responses.save_response, record)

    def load(self, id_: str) -> tuple[dict[str, Any], str | None]:
        return self.run(store_responses.load_response, self.caller, id_)

    def events(self, id_: str) -> bytes | None:
        return self.run(store_responses.load_events, self.caller, id_)

    def fail(self, id_: str) -> None:
        self.run(store_responses.fail_response, self.caller, id_, "gone")

    def delete(self, id_: str) -> None:
        self.run(store_responses.delete_response, self.caller, id_)

    def input_items(self, id_: str) -> list[str]:
        found = self.run(store_responses.load_input_items, self.caller, id_, PageQuery(limit=100, order="asc"))
        return [item for item, _ in found.items]

    def past(self, previous: str | None, conversation: str | None, references: Sequence[str] = ()) -> Past:
        return self.run(store_responses.load_past, self.caller, previous, conversation, references)

    def before(self, number: int) -> list[str]:
        """The texts that a response which goes on from this one builds upon."""
        return texts(self.past(f"resp_{number}", None).items)

    def create(
        self, id_: str, metadata: dict[str, str], items: Sequence[dict[str, Any]], *, pinned: bool = False
    ) -> Conversation:
        return self.run(store_conversations.create_conversation, self.caller, id_, metadata, items, pinned=pinned)

    def conversation(self, id_: str) -> Conversation:
        return self.run(store_conversations.load_conversation, self.caller, id_)

    def update(self, id_: str, metadata: dict[str, str], *, pinned: bool | None = None) -> Conversation:
        return self.run(store_conversations.update_conversation, self.caller, id_, metadata, pinned=pinned)

    def search(self, words: str = "", wanted: PageQuery = NEWEST) -> list[str]:
        found, _ = self.run(store_conversations.search_conversations, self.caller, words, wanted)
        return [id_ for id_, _ in found]

    def responses(self, id_: str) -> list[dict[str, Any]]:
        page = self.run(store_conversations.load_responses_page, self.caller, id_, PageQuery(order="asc"))
        return [json.loads(response) for _, response in page.items]

    def delete_conversation(self, id_: str) -> None:
        self.run(store_conversations.delete_conversation, self.caller, id_)

    def add_items(self, id_: str, items: Sequence[dict[str, Any]]) -> None:
        self.run(store_conversations.add_conversation_items, self.caller, id_, items)

    def items(self, id_: str, wanted: PageQuery | None = None) -> list[str]:
        found = self.run(
            store_conversations.load_items_page, self.caller, id_, wanted or PageQuery(limit=100, order="asc")
        )
        return [item for item, _ in found.items]

    def delete_item(self, id_: str, item: str) -> None:
        self.run(store_conversations.delete_conversation_item, self.caller, id_, item)


def message(text: str, role: str) -> dict[str, Any]:
    return {"id": f"msg_{text}", "type": "message", "role": role, "content": text}


def long_message(size: int) -> dict[str, Any]:
    return message("long", "assistant") | {"content": "x" * size}


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


def missing(kind: FailureKind, call: Any, *args: Any, **more: Any) -> OrchardError:
    with pytest.raises(OrchardError) as caught:
        call(*args, **more)
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
    found, owner = again.load("resp_1")
    assert found["metadata"] == {"a": "b"}
    assert texts([bytes(item) for item in found["output"]]) == ["out1"]
    assert owner is None
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
    assert store.past(None, None, ["msg_9"]).referenced == {}


def test_a_chain(store: Kept) -> None:
    store.answer(1)
    store.answer(2, 1)
    store.answer(3, 1)
    store.answer(4, 2)
    assert store.before(4) == ["in1", "out1", "in2", "out2", "in4", "out4"]
    assert store.before(3) == ["in1", "out1", "in3", "out3"]
    assert store.input_items("resp_2") == ["msg_in1", "msg_out1", "msg_in2"]


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


def test_a_deleted_response_keeps_no_stream(store: Kept) -> None:
    """Its place in the chain stays, but nothing that it has told."""
    store.save(ResponseRecord(response(1, None, None), [], store.caller.user, events=b"told"))
    store.answer(2, 1)
    assert store.events("resp_1") == b"told"
    store.delete("resp_1")
    with contextlib.closing(sqlite3.connect(store.path)) as db:
        assert db.execute("SELECT id, body, events FROM responses WHERE id = 'resp_1'").fetchall() == [
            ("resp_1", None, None)
        ]


def test_a_response_that_is_not_done_is_nothing_to_go_on_from(store: Kept) -> None:
    store.answer(1, status="in_progress")
    error = missing("invalid_request", store.past, "resp_1", None, ())
    assert error.param == "previous_response_id"


def test_references_take_up_the_chain_of_the_newest_output(store: Kept) -> None:
    store.answer(1)
    store.answer(2)
    store.answer(3, 1)
    store.answer(4, 3)
    ids = ["msg_in1", "msg_out1", "msg_in2", "msg_out2", "msg_in3", "msg_out3", "msg_in4", "msg_none"]
    found = store.past(None, None, ids)
    assert found.items == []
    assert {id_: texts([item]) for id_, item in found.referenced.items()} == {
        "msg_in1": ["in1"],
        "msg_out1": ["out1"],
        "msg_in3": ["in3"],
        "msg_out3": ["out3"],
    }
    assert store.past("resp_1", None, ["msg_out2"]).referenced == {}


def test_references_may_be_to_a_conversation_up_to_a_response(store: Kept) -> None:
    store.create("conv_1", {}, [message("first", "user")])
    store.answer(1, conversation="conv_1")
    store.answer(2, conversation="conv_1")
    ids = ["msg_first", "msg_out1", "msg_in2"]
    assert list(store.past(None, None, ids).referenced) == ["msg_first", "msg_out1"]


def test_of_two_items_with_one_id_the_newer_is_meant(store: Kept) -> None:
    store.answer(1)
    store.save(ResponseRecord(response(2, 1, None), [message("in1", "user") | {"content": "newer"}], store.caller.user))
    assert texts([store.past(None, None, ["msg_in1", "msg_out2"]).referenced["msg_in1"]]) == ["newer"]


def test_a_conversation(store: Kept) -> None:
    begin = store.clock.now
    created = store.create("conv_1", {"a": "b"}, [message("first", "user")])
    assert created == store.conversation("conv_1") == Conversation(begin, begin, False, {"a": "b"})
    store.clock.now += 1
    updated = store.update("conv_1", {"c": "d"})
    assert updated == store.conversation("conv_1") == Conversation(begin, begin + 1, False, {"c": "d"})
    store.answer(1, conversation="conv_1")
    store.add_items("conv_1", [message("last", "user")])
    assert texts(store.past(None, "conv_1", ()).items) == ["first", "in1", "out1", "last"]
    store.delete_item("conv_1", "msg_in1")
    missing("item_not_found", store.delete_item, "conv_1", "msg_in1")
    assert store.items("conv_1") == ["msg_first", "msg_out1", "msg_last"]
    store.delete("resp_1")
    assert store.items("conv_1") == ["msg_first", "msg_out1", "msg_last"]
    store.delete_conversation("conv_1")
    missing("conversation_not_found", store.conversation, "conv_1")
    assert store.past(None, None, ["msg_first"]).referenced == {}


def test_what_a_conversation_held_is_of_its_responses_input(store: Kept) -> None:
    store.create("conv_1", {}, [message("first", "user")])
    store.answer(1, conversation="conv_1")
    store.add_items("conv_1", [message("between", "user")])
    store.answer(2, conversation="conv_1")
    store.answer(3, conversation="conv_1", status="failed")
    store.answer(4, 2)
    assert store.input_items("resp_1") == ["msg_first", "msg_in1"]
    before = ["msg_first", "msg_in1", "msg_out1", "msg_between"]
    assert store.input_items("resp_2") == [*before, "msg_in2"]
    assert store.input_items("resp_4") == ["msg_in2", "msg_out2", "msg_in4"]
    store.delete("resp_1")
    assert store.input_items("resp_2") == [*before, "msg_in2"]
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
    assert store.load("resp_1")[0]["status"] == "completed"


def test_pinned_conversations_stay(store: Kept) -> None:
    store.create("conv_1", {}, [message("first", "user")], pinned=True)
    store.create("conv_2", {}, [], pinned=True)
    store.update("conv_2", {}, pinned=False)
    store.answer(1, conversation="conv_1")
    store.clock.now += TTL
    store.sweep()
    assert store.conversation("conv_1").pinned
    assert store.load("resp_1")
    assert texts(store.past("resp_1", None).items) == ["in1", "out1"]
    assert "msg_out1" in store.past(None, None, ["msg_out1"]).referenced
    missing("conversation_not_found", store.conversation, "conv_2")
    assert store.update("conv_1", {}).pinned  # not said: as before
    store.update("conv_1", {}, pinned=False)
    store.clock.now += TTL
    store.sweep()
    missing("conversation_not_found", store.conversation, "conv_1")


def test_a_full_store_keeps_pinned_conversations_and_names_them(tmp_path: Path) -> None:
    store = Kept(tmp_path / "responses.db", responses_max_bytes=400_000)
    for number, title in enumerate(("Trip", "Taxes"), start=1):
        store.create(f"conv_{number}", {"title": title}, [long_message(80_000)], pinned=True)
    store.create("conv_3", {}, [long_message(80_000)])
    store.answer(4, output=[long_message(80_000)])  # conv_3 makes room
    missing("conversation_not_found", store.conversation, "conv_3")
    full = missing("store_full", store.answer, 5, output=[long_message(200_000)])
    assert "conv_1 (Trip), conv_2 (Taxes)" in full.message
    assert store.search() == ["conv_2", "conv_1"]
    missing("response_not_found", store.load, "resp_5")
    store.delete_conversation("conv_1")
    store.answer(5, output=[long_message(200_000)])
    missing("payload_too_large", store.answer, 6, output=[long_message(500_000)])
    store.close()


def test_pinned_conversations_of_one_user_leave_room_for_others(tmp_path: Path) -> None:
    """A user's may take half of what others' leave."""
    store = Kept(tmp_path / "responses.db", caller=Caller("ann"), responses_max_bytes=400_000)

    def refused(number: int, size: int) -> str:
        full = missing("store_full", store.create, f"conv_{number}", {}, [long_message(size)], pinned=True)
        return str(full.message)

    refused(0, 210_000)
    store.create("conv_1", {"title": "Trip"}, [long_message(150_000)], pinned=True)
    store.create("conv_2", {}, [long_message(60_000)])
    assert "conv_1 (Trip)" in missing("store_full", store.update, "conv_2", {}, pinned=True).message
    assert "conv_1 (Trip)" in refused(3, 60_000)
    store.caller = Caller("ben")
    store.create("conv_4", {}, [long_message(110_000)], pinned=True)
    assert "conv_1" not in refused(5, 30_000)
    store.close()


def test_pinned_conversations_without_items_take_room_too(tmp_path: Path) -> None:
    store = Kept(tmp_path / "responses.db", caller=Caller("ann"), responses_max_bytes=400_000)
    notes = {"notes": "x" * 30_000}
    for number in range(6):
        store.create(f"conv_{number}", notes, [], pinned=True)
    missing("store_full", store.create, "conv_6", notes, [], pinned=True)
    store.caller = Caller("ben")
    store.create("conv_7", {}, [long_message(100_000)])
    full = missing("store_full", store.create, "conv_8", {}, [long_message(300_000)])
    assert "conv_" not in full.message
    store.close()


def test_so_many_conversations_may_be_pinned(store: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchard.gateway.store.store._MOST_PINNED", 2)
    for number in range(2):
        store.create(f"conv_{number}", {}, [], pinned=True)
    assert "at most 2" in missing("store_full", store.create, "conv_2", {}, [], pinned=True).message
    store.create("conv_2", {}, [])


def test_a_search_that_takes_too_long_is_given_up(store: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        store.create(f"conv_{number}", {}, [long_message(1000)])
    monkeypatch.setattr("orchard.gateway.store.conversations._SEARCH_SECONDS", -1.0)
    monkeypatch.setattr("orchard.gateway.store.conversations._OPERATIONS_PER_LOOK", 10)
    assert missing("overloaded", store.search, "nowhere").param == "query"
    monkeypatch.undo()
    assert store.search("nowhere") == []


def test_conversations_are_listed_by_their_last_change(store: Kept) -> None:
    for number in (1, 2, 3):
        store.create(f"conv_{number}", {}, [])
        store.clock.now += 1
    store.answer(1, conversation="conv_1")
    store.answer(2)  # has no conversation
    assert store.search() == ["conv_1", "conv_3", "conv_2"]
    assert store.search(wanted=PageQuery("conv_1", 1)) == ["conv_3"]
    assert store.search(wanted=PageQuery(order="asc")) == ["conv_2", "conv_3", "conv_1"]
    store.clock.now += TTL - 2
    assert store.search() == ["conv_1", "conv_3"]


def test_conversations_are_found_by_their_title_and_texts(store: Kept) -> None:
    parts = [{"type": "input_text", "text": "Wie heißt"}, {"type": "input_text", "text": "die STRASSE?"}]
    store.create("conv_1", {"title": "Über Städte", "color": "red"}, [message("x", "user") | {"content": parts}])
    store.create("conv_2", {}, [])
    store.answer(7, conversation="conv_2")
    assert store.search("städte") == store.search("straße") == store.search("HEISST") == ["conv_1"]
    assert store.search("OUT7") == ["conv_2"]
    for words in ("red", "color", "input_text", "assistant", "%", "msg_"):
        assert store.search(words) == []


@examples(50)
@given(st.text(), st.text(), st.text(min_size=1))
def test_a_search_finds_any_piece_of_a_title_or_a_text(title: str, text: str, words: str) -> None:
    store = Kept(":memory:")
    store.create("conv_1", {"title": title}, [message("x", "user") | {"content": text}])
    for piece in (title, text[1:], words):
        is_there = any(piece.casefold() in whole.casefold() for whole in (title, text))
        assert store.search(piece) == ["conv_1"] * (is_there or not piece)
    store.close()


def test_a_damaged_item_does_not_stop_a_search(store: Kept) -> None:
    store.create("conv_1", {}, [message("first", "user"), message("second", "user")])
    with contextlib.closing(sqlite3.connect(store.path)) as db, db:
        db.execute("UPDATE items SET item = ? WHERE id = 'msg_first'", (b"\xff{",))
    assert store.search("second") == ["conv_1"]


def test_the_responses_of_a_conversation_tell_its_branches(store: Kept) -> None:
    store.create("conv_1", {}, [])
    store.answer(1, conversation="conv_1")
    store.answer(2, 1)
    store.answer(3, 1)
    store.answer(4)
    told = [
        (one["id"], one["previous_response_id"], one["input"][0]["content"], one["output"][0]["content"])
        for one in store.responses("conv_1")
    ]
    assert told == [
        ("resp_1", None, "in1", "out1"),
        ("resp_2", "resp_1", "in2", "out2"),
        ("resp_3", "resp_1", "in3", "out3"),
    ]
    store.delete("resp_3")
    assert [one["id"] for one in store.responses("conv_1")] == ["resp_1", "resp_2"]


def test_what_is_not_used_expires(store: Kept) -> None:
    store.answer(1)
    store.answer(2)
    store.create("conv_1", {}, [])
    store.clock.now += TTL - 1
    store.answer(3, 1)  # its thread begins anew
    store.add_items("conv_1", [message("x", "user")])
    store.clock.now += 1
    missing("response_not_found", store.load, "resp_2")
    assert store.past(None, None, ["msg_out2"]).referenced == {}
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
    store = Kept(tmp_path / "responses.db", responses_archive_dir=str(tmp_path / "archive"))
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
    store = Kept(tmp_path / "responses.db", responses_archive_dir=str(tmp_path / "archive"))
    store.answer(1)
    store.clock.now += TTL
    store.sweep()
    missing("response_not_found", store.load, "resp_1")
    (tmp_path / "archive").unlink()
    store.sweep()
    assert (tmp_path / "archive" / "resp_1.json").exists()
    store.close()


def test_what_was_used_least_recently_makes_room(tmp_path: Path) -> None:
    store = Kept(tmp_path / "responses.db", responses_max_bytes=400_000)
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
    store.save(ResponseRecord(response(1, None, None, status="in_progress"), [], owner="me"))
    found, owner = store.load("resp_1")
    assert (found["status"], owner) == ("in_progress", "me")
    store.fail("resp_1")
    found, owner = store.load("resp_1")
    assert owner is None
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


def test_a_damaged_row_harms_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "responses.db"
    store = Kept(path, responses_archive_dir=str(tmp_path / "archive"))
    for number in range(3):
        store.answer(number)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE responses SET body = x'7b22ff' WHERE id = 'resp_1'")
        connection.execute("UPDATE items SET item = x'7b22ff' WHERE id = 'msg_out2'")
    connection.close()
    assert "damaged" in missing("unavailable", store.load, "resp_1").message
    assert store.load("resp_0")
    store.clock.now += TTL
    store.sweep()
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM threads").fetchone() == (0,)
    connection.close()
    assert [file.name for file in (tmp_path / "archive").iterdir()] == ["resp_0.json"]
    assert "is damaged, and is deleted without being archived" in caplog.text
    store.close()


def test_what_was_stored_before_the_clock_was_set_back_expires_in_time(store: Kept) -> None:
    store.answer(1)
    store.clock.now += 10_000  # the clock is wrong
    store.answer(2)
    store.answer(3)
    store.clock.now -= 10_000
    store.sweep()
    store.clock.now += TTL / 2
    store.sweep()
    store.answer(4, 3)  # its thread begins anew
    store.clock.now += TTL / 2
    store.sweep()
    for number in (1, 2):
        missing("response_not_found", store.load, f"resp_{number}")
    assert store.before(4) == ["in3", "out3", "in4", "out4"]


def test_another_servers_longer_time_to_live_holds(store: Kept) -> None:
    longer = ResponseStore(Settings(responses_path=str(store.path), responses_ttl=10 * TTL), store.clock)
    longer.run(store_responses.save_response, ResponseRecord(response(1, None, None), [message("in1", "user")]))
    longer.file.close()
    for step in (-1, TTL, TTL):  # clocks are adjusted by seconds
        store.clock.now += step
        store.sweep()
    assert store.load("resp_1")


def test_a_file_that_cannot_be_used_is_said_to_be_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = Kept(tmp_path / "file" / "responses.db")
    error = missing("unavailable", store.load, "resp_1")
    assert error.retry_after
    assert str(tmp_path) not in error.message


def test_in_memory() -> None:
    store = Kept(":memory:", responses_max_bytes=200_000)
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


@examples(60)
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


# Users


ANN, BEN, ADMIN = Caller("ann"), Caller("ben"), Caller("root", admin=True)


def as_caller(store: Kept, caller: Caller) -> Kept:
    store.caller = caller
    return store


def test_what_one_user_stores_is_not_there_for_another(store: Kept) -> None:
    store.caller = ANN
    store.answer(1)
    store.create("conv_1", {"a": "b"}, [message("first", "user")])
    for other in (BEN, ANYONE):
        store.caller = other
        responses: tuple[Any, ...] = (store.load, store.events, store.fail, store.delete, store.input_items)
        for call in responses:
            missing("response_not_found", call, "resp_1")
        missing("response_not_found", store.past, "resp_1", None)
        conversations: tuple[Any, ...] = (store.conversation, store.delete_conversation, store.items)
        for call in conversations:
            missing("conversation_not_found", call, "conv_1")
        missing("conversation_not_found", store.update, "conv_1", {})
        missing("conversation_not_found", store.add_items, "conv_1", [])
        missing("conversation_not_found", store.delete_item, "conv_1", "msg_first")
        missing("conversation_not_found", store.past, None, "conv_1")
        missing("conversation_not_found", store.run, store_conversations.load_item, other, "conv_1", "msg_first")
        missing("conversation_not_found", store.run, store_conversations.related_items, other, "conv_1", [], [])
    for owner in (ANN, ADMIN):
        store.caller = owner
        assert store.load("resp_1")[0]["status"] == "completed"
        assert store.items("conv_1") == ["msg_first"]


def test_what_an_admin_adds_stays_the_users(store: Kept) -> None:
    as_caller(store, ANN).answer(1)
    as_caller(store, ADMIN).answer(2, 1)
    assert as_caller(store, ANN).before(2) == ["in1", "out1", "in2", "out2"]


def test_a_reference_finds_what_the_callers_own_responses_said(store: Kept) -> None:
    as_caller(store, ANN).answer(1)
    as_caller(store, BEN).answer(2)
    store.create("conv_1", {}, [message("first", "user")])
    assert list(store.past(None, None, ["msg_out2"]).referenced) == ["msg_out2"]
    for elsewhere in ("msg_out1", "msg_in2", "msg_first"):  # another's; of ids that callers choose
        assert store.past(None, None, [elsewhere]).referenced == {}
        assert as_caller(store, ADMIN).past(None, None, [elsewhere]).referenced == {}
        store.caller = BEN
    store.answer(3, 2)
    store.delete("resp_2")
    assert store.past(None, None, ["msg_out2"]).referenced == {}
    assert list(store.past(None, None, ["msg_out2", "msg_out3"]).referenced) == ["msg_out2", "msg_out3"]


def test_a_file_from_before_there_were_users(tmp_path: Path) -> None:
    path = tmp_path / "responses.db"
    with contextlib.closing(sqlite3.connect(path)) as old, old:
        old.executescript(store_schema.SCRIPTS[0] + "PRAGMA user_version = 1;")
        old.execute("INSERT INTO threads VALUES ('resp_1', 0, 1e9, NULL)")
        old.execute("INSERT INTO threads VALUES ('conv_1', 7, 1e9, '{}')")
        body = json.dumps(response(1, None, None) | {"output": []}).encode()
        old.execute("INSERT INTO responses VALUES ('resp_1', 'resp_1', NULL, 'completed', NULL, ?, NULL)", (body,))
        item = json.dumps(message("out1", "assistant")).encode()
        columns = "id, thread, response, output, item"
        old.execute(f"INSERT INTO items ({columns}) VALUES ('msg_out1', 'resp_1', 'resp_1', 1, ?)", (item,))  # noqa: S608
    store = Kept(path)
    for caller in (ANYONE, ADMIN):
        assert as_caller(store, caller).before(1) == ["out1"]
    missing("response_not_found", as_caller(store, ANN).load, "resp_1")
    as_caller(store, ANYONE).answer(2, 1)
    assert store.before(2) == ["out1", "in2", "out2"]
    assert store.conversation("conv_1") == Conversation(7, 7, False, {})
    store.close()
    assert not list(tmp_path.glob("*.broken*"))


# Room


def test_what_is_in_use_does_not_expire(store: Kept) -> None:
    store.create("conv_1", {}, [])
    for number in (1, 2, 3):
        store.answer(number)
    store.answer(4, status="in_progress")
    store.in_use = frozenset({"conv_1", "resp_1", "resp_4"})
    for _ in range(4):
        store.clock.now += TTL / 2
        store.sweep()
    assert store.conversation("conv_1")
    assert store.load("resp_1")
    assert store.load("resp_4")
    missing("response_not_found", store.load, "resp_2")
    store.in_use = frozenset()
    store.clock.now += TTL
    missing("conversation_not_found", store.conversation, "conv_1")
    missing("response_not_found", store.load, "resp_4")


def test_what_is_in_use_makes_no_room(tmp_path: Path) -> None:
    store = Kept(tmp_path / "responses.db", responses_max_bytes=400_000)
    long = [message("x" * 20_000, "assistant")]
    store.answer(1, output=long)
    store.save(ResponseRecord(response(2, None, None, status="in_progress"), [], owner="another server"))
    store.answer(3, output=long)
    store.in_use = frozenset({"resp_1"})
    for number in range(10, 60):
        store.clock.now += 0.1
        store.answer(number, output=long)
    assert store.load("resp_1")
    assert store.load("resp_2")
    missing("response_not_found", store.load, "resp_3")
    store.close()


def test_what_can_never_have_room_is_refused_and_costs_nobody_theirs(tmp_path: Path) -> None:
    store = Kept(tmp_path / "responses.db", responses_max_bytes=400_000)
    store.answer(1)
    error = missing("payload_too_large", lambda: store.answer(2, output=[message("x" * 500_000, "assistant")]))
    assert "400000" in error.message
    missing("response_not_found", store.load, "resp_2")
    assert store.load("resp_1")
    store.create("conv_1", {}, [])
    assert "400000" in missing("payload_too_large", store.add_items, "conv_1", [message("x" * 500_000, "user")]).message
    assert store.items("conv_1") == []
    store.close()


def test_a_conversation_can_have_no_more_than_a_request_can_go_on_from(tmp_path: Path) -> None:
    store = Kept(tmp_path / "responses.db", max_body_bytes=10_000)
    store.create("conv_1", {}, [message("x" * 3000, "user")])
    error = missing("payload_too_large", store.add_items, "conv_1", [message("y" * 3000, "user")])
    assert "12114 bytes of items, at most 10000 are allowed" in error.message
    assert len(store.items("conv_1")) == 1
    missing("payload_too_large", store.create, "conv_2", {}, [message("x" * 11_000, "user")])
    store.answer(1, output=[message("x" * 3000, "assistant")])
    store.answer(2, 1, output=[message("y" * 3000, "assistant")])
    assert "at most 10000" in missing("payload_too_large", store.past, "resp_2", None).message
    store.close()


def test_a_conversation_has_a_limit_of_items_and_of_parts(store: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_items, "MAX_ITEMS", 3)
    monkeypatch.setattr(store_items, "MAX_PARTS", 5)
    store.create("conv_1", {}, [message("a", "user"), message("b", "user"), message("c", "user")])
    assert "4 items, at most 3" in missing("payload_too_large", store.add_items, "conv_1", [message("d", "")]).message
    parts = {"id": "msg_p", "type": "message", "role": "user", "content": [{}] * 3}
    store.create("conv_2", {}, [parts])
    error = missing("payload_too_large", store.add_items, "conv_2", [parts | {"id": "msg_q"}])
    assert "6 content parts, at most 5" in error.message


# Pages


@examples(40)
@given(st.integers(0, 8), st.integers(1, 4), st.sampled_from(["asc", "desc"]))
def test_pages_give_every_item_once(count: int, limit: int, order: Order) -> None:
    store = Kept(":memory:")
    store.create("conv_1", {}, [message(f"{i}", "user") for i in range(count)])
    store.answer(1, conversation="conv_1", status="failed")
    listed: list[str] = []
    after, more = None, True
    while more:
        found = store.run(store_conversations.load_items_page, ANYONE, "conv_1", PageQuery(after, limit, order))
        assert len(found.items) <= limit
        listed += [id_ for id_, _ in found.items]
        after, more = listed[-1] if listed else None, found.more
        assert more == (len(listed) < count)
    assert listed == [f"msg_{i}" for i in range(count)][:: 1 if order == "asc" else -1]
    store.close()


def test_a_page_after_an_unknown_item(store: Kept) -> None:
    store.create("conv_1", {}, [message("a", "user")])
    assert missing("item_not_found", store.items, "conv_1", PageQuery("msg_b")).param == "after"


def test_a_page_is_all_that_is_read(store: Kept) -> None:
    store.create("conv_1", {}, [message(f"{i} " + "x" * 100_000, "user") for i in range(100)])
    first = store.items("conv_1", PageQuery(limit=1, order="asc"))[0]
    tracemalloc.start()
    try:
        assert len(store.items("conv_1", PageQuery(first, 2, "asc"))) == 2
        store.run(store_conversations.load_item, ANYONE, "conv_1", first)
        call = message("new", "user")["id"]
        assert store.run(store_conversations.related_items, ANYONE, "conv_1", [call], ["call_1"]) == []
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


# A disk that is full


def fill(store: Kept) -> None:
    """Let the file have no more pages, as on a disk that is full."""
    connection = store.file._connection
    assert connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")


def test_a_full_disk_is_said_once_a_minute(store: Kept, caplog: pytest.LogCaptureFixture) -> None:
    store.answer(1)
    fill(store)
    for number in range(2, 13):
        missing("unavailable", lambda n=number: store.answer(n, output=[message("x" * 100_000, "assistant")]))
    assert store.load("resp_1")
    assert [record.getMessage() for record in caplog.records] == [
        f"the store of responses, {store.path}, can't be used: database or disk is full"
    ]


def test_conversations_that_cannot_be_archived_are_said_once_a_minute(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "archive").write_text("no folder")
    store = Kept(tmp_path / "responses.db", responses_archive_dir=str(tmp_path / "archive"))
    for number in range(5):
        store.answer(number)
    store.clock.now += TTL
    store.sweep()
    assert len(caplog.records) == 1
    store.close()
