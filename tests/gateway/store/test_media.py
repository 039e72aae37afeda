"""Media of stored items: each is kept once, as long as an item refers to it, and given back as it came."""

import base64
import copy
import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchard.config import Settings
from orchard.core.errors import OrchardError
from orchard.core.media import MediaPart
from orchard.dialects.common.media import MediaReference
from orchard.gateway.caller import ANYONE, Caller
from orchard.gateway.store import completions as store_completions
from orchard.gateway.store import conversations as store_conversations
from orchard.gateway.store import database, schema
from orchard.gateway.store import items as store_items
from orchard.gateway.store import media as store_media
from orchard.gateway.store import responses as store_responses
from orchard.gateway.store.items import PageQuery
from orchard.gateway.store.media import KnownMedia, pack_item, restore_item
from orchard.gateway.store.responses import Past, ResponseRecord
from orchard.gateway.store.store import ResponseStore

PNG = b"\x89PNG not really" * 100
URL = "https://x.test/a.png"
DIGEST = hashlib.sha256(PNG).hexdigest()
FETCHED = KnownMedia({URL: MediaPart("image", "", "p", PNG, "image/png")})


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


DATA = f"data:image/png;base64,{b64(PNG)}"
PARTS: list[dict[str, Any]] = [
    {"type": "input_image", "image_url": DATA, "detail": "auto"},
    {"type": "image_url", "image_url": {"url": DATA}},
    {"type": "input_image", "image_url": URL},
    {"type": "video_url", "video_url": {"url": URL}},
    {"type": "input_video", "video_url": DATA},
    {"type": "input_audio", "input_audio": {"data": b64(PNG), "format": "wav"}},
    {"type": "input_file", "file_data": b64(PNG), "filename": "a.png"},
    {"type": "input_file", "file_url": URL},
    {"type": "file", "file": {"file_data": DATA}},
]

NAMES = st.sampled_from(["content", "image_url", "url", "file_data", "input_audio", "data"])
CONTENTS = st.recursive(
    st.one_of(st.none(), st.text(), st.sampled_from([DATA, URL, b64(PNG)])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=9,
)


def message(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"id": "msg_1", "type": "message", "role": "user", "content": list(parts), **fields}


class TestPacking:
    @pytest.mark.parametrize("part", PARTS)
    @pytest.mark.parametrize("name", ["content", "output", "content_parts"])
    def test_a_medium_is_taken_out_and_put_back(self, part: dict[str, Any], name: str) -> None:
        item = {"id": "x", name: [{"type": "input_text", "text": DATA}, part]}
        before = copy.deepcopy(item)
        found, media = pack_item(item, FETCHED)
        assert media == {DIGEST: PNG}
        assert item == before
        text = msgspec.json.encode(found)
        assert text.count(b64(PNG).encode()) == 1  # in the text
        assert json.loads(restore_item(text, media)) == item

    def test_what_is_known_of_it(self) -> None:
        (link, data, bare) = pack_item(message(PARTS[2], PARTS[0], PARTS[6]), FETCHED)[0]["content"]
        assert MediaReference.parse(link["image_url"]) == MediaReference(DIGEST, "image/png", URL)
        assert MediaReference.parse(data["image_url"]) == MediaReference(DIGEST, "image/png", "data:image/png;base64,")
        assert MediaReference.parse(bare["file_data"]) == MediaReference(DIGEST, "", "")

    @pytest.mark.parametrize(
        "part",
        [
            {"type": "input_image", "image_url": "https://x.test/other.png"},
            {"type": "input_image", "image_url": "data:image/png;base64,QUJ"},
            {"type": "input_image", "image_url": "data:image/png,abc"},
            {"type": "input_image", "image_url": "data:"},
            {"type": "input_image", "image_url": b64(PNG)},
            {"type": "input_file", "file_data": "no base64"},
            {"type": "input_file", "file_data": ""},
            {"type": "input_image", "image_url": 5},
            {"type": "input_image", "image_url": None, "input_audio": {"data": None}},
            {"type": "input_image", "image_url": MediaReference(DIGEST, "image/png", URL).url},
            "x",
        ],
    )
    def test_what_is_none_stays(self, part: Any) -> None:
        item = message(part)
        assert pack_item(item, FETCHED) == (item, {})

    def test_one_that_was_kept_before_is_referred_to(self) -> None:
        item = message({"type": "input_image", "image_url": MediaReference(DIGEST, "image/png", URL).url})
        assert pack_item(item, KnownMedia(kept={DIGEST: PNG})) == (item, {DIGEST: PNG})

    def test_one_that_is_not_known_is_not_put_back(self) -> None:
        item = msgspec.json.encode(message({"type": "input_image", "image_url": MediaReference(DIGEST, "", URL).url}))
        assert restore_item(item, {}) == item

    @given(CONTENTS)
    def test_any_item_comes_back(self, content: Any) -> None:
        item = message() | {"content": content}
        found, media = pack_item(item, FETCHED)
        assert json.loads(restore_item(msgspec.json.encode(found), media)) == json.loads(msgspec.json.encode(item))


class Kept(ResponseStore):
    """A store that its tests can look into."""

    def __init__(self, path: Path, **settings: Any) -> None:
        self.path = path
        super().__init__(Settings(responses_path=str(path), **settings))

    def answer(
        self, id_: str, *given: dict[str, Any], previous: str | None = None, known: KnownMedia = FETCHED
    ) -> None:
        body: dict[str, Any] = {
            "id": id_,
            "previous_response_id": previous,
            "conversation": None,
            "status": "completed",
            "output": [],
        }
        self.run(store_responses.save_response, ResponseRecord(body, given, media=known))

    def past(self, previous: str | None, *references: str) -> Past:
        return self.run(store_responses.load_past, ANYONE, previous, None, references)

    def listed(self, id_: str) -> list[Any]:
        found = self.run(store_responses.load_input_items, ANYONE, id_, PageQuery(order="asc"))
        return [json.loads(item) for _, item in found.items]

    def media(self) -> list[tuple[str, bytes]]:
        return self.file.run(lambda db: db.execute("SELECT hash, data FROM media").fetchall())


@pytest.fixture
def store(tmp_path: Path) -> Any:
    kept = Kept(tmp_path / "store.db")
    yield kept
    kept.file.close()


def test_each_is_kept_once_while_something_refers_to_it(store: Kept) -> None:
    store.answer("resp_1", message(*PARTS))
    store.answer("resp_2", message(PARTS[0]))
    assert store.media() == [(DIGEST, PNG)]
    store.run(store_responses.delete_response, ANYONE, "resp_1")
    assert store.media() == [(DIGEST, PNG)]
    store.answer("resp_2", message(PARTS[0]))  # its new state, as of one that runs
    assert store.media() == [(DIGEST, PNG)]
    store.run(store_responses.delete_response, ANYONE, "resp_2")
    assert store.media() == []
    assert PNG not in store.path.read_bytes()


def test_whether_another_key_has_stored_one_changes_nothing(store: Kept) -> None:
    for number, name in enumerate(("ann", "ben", "ann")):
        id_ = f"conv_{number}"
        store.run(store_conversations.create_conversation, Caller(name), id_, {}, [message(PARTS[0])])
        listed = store.run(store_conversations.load_items_page, Caller(name), id_, PageQuery(order="asc"))
        assert [json.loads(item) for _, item in listed.items] == [message(PARTS[0])]
    assert [data for _, data in store.media()] == [PNG, PNG]


def test_items_are_listed_as_they_came(store: Kept) -> None:
    store.answer("resp_1", message(*PARTS))
    assert store.listed("resp_1") == [message(*PARTS)]


def test_what_a_request_continues_has_them_beside_the_items(store: Kept) -> None:
    store.answer("resp_1", message(*PARTS))
    store.answer(
        "resp_2", message({"type": "input_image", "image_url": f"data:;base64,{b64(b'other')}"}), previous="resp_1"
    )
    past = store.past("resp_2")
    assert past.media == {DIGEST: PNG, hashlib.sha256(b"other").hexdigest(): b"other"}
    assert all(b64(PNG).encode() not in item for item in past.items)
    assert past.extent.bytes == sum(map(len, past.items))
    assert store.past("resp_1").media == {DIGEST: PNG}


def test_only_those_of_what_is_referred_to_are_read(store: Kept) -> None:
    other = message({"type": "input_image", "image_url": f"data:;base64,{b64(b'other')}"}, id="msg_2")
    store.answer("resp_1", message(PARTS[2]), other)
    output = {"id": "msg_out", "type": "message", "role": "assistant", "content": []}
    body = {"id": "resp_2", "previous_response_id": "resp_1", "conversation": None, "status": "completed"}
    store.run(store_responses.save_response, ResponseRecord(body | {"output": [output]}, []))
    past = store.past(None, "msg_out", "msg_2")
    assert (past.media, set(past.referenced)) == (
        {hashlib.sha256(b"other").hexdigest(): b"other"},
        {"msg_out", "msg_2"},
    )
    # A copy of what was referred to refers to the same medium.
    store.answer("resp_3", json.loads(past.referenced["msg_2"]), known=KnownMedia(kept=past.media))
    store.run(store_responses.delete_response, ANYONE, "resp_2")
    store.run(store_responses.delete_response, ANYONE, "resp_1")
    assert store.listed("resp_3") == [other]


def test_more_than_a_request_may_have_is_refused(store: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    store.answer("resp_1", message(PARTS[0]))
    monkeypatch.setattr(store_media, "MAX_REQUEST_BYTES", len(PNG))
    assert store.past("resp_1").media
    monkeypatch.setattr(store_media, "MAX_REQUEST_BYTES", len(PNG) - 1)
    with pytest.raises(OrchardError) as caught:
        store.past("resp_1")
    assert caught.value.kind == "payload_too_large"


def test_nobody_reads_a_medium_by_its_digest(store: Kept) -> None:
    store.answer("resp_1", message(PARTS[0]))
    thief = message({"type": "x", "image_url": MediaReference(DIGEST, "", "").url}) | {"type": "web_search_call"}
    store.answer("resp_2", thief, known=store_media.NO_MEDIA)
    assert store.listed("resp_2") == [thief]
    assert store.past("resp_2").media == {}


def test_conversations(store: Kept) -> None:
    store.run(store_conversations.create_conversation, ANYONE, "conv_1", {}, [message(PARTS[0])])
    store.run(store_conversations.add_conversation_items, ANYONE, "conv_1", [message(PARTS[5], id="msg_2")])
    assert store.media() == [(DIGEST, PNG)]
    listed = store.run(store_conversations.load_items_page, ANYONE, "conv_1", PageQuery(order="asc"))
    assert [json.loads(item) for _, item in listed.items] == [message(PARTS[0]), message(PARTS[5], id="msg_2")]
    assert json.loads(store.run(store_conversations.load_item, ANYONE, "conv_1", "msg_2")) == message(
        PARTS[5], id="msg_2"
    )
    for id_ in ("msg_1", "msg_2"):
        assert store.media()
        store.run(store_conversations.delete_conversation_item, ANYONE, "conv_1", id_)
    assert store.media() == []


def test_chat_completions(store: Kept) -> None:
    given = {"id": "chat-0", "role": "user", "content": None, "content_parts": [PARTS[1], PARTS[8]]}
    completion = {"id": "chat", "model": "m", "metadata": {}}
    store.run(store_completions.save_completion, ANYONE, completion, [given])
    assert store.media() == [(DIGEST, PNG)]
    found = store.run(store_completions.load_messages, ANYONE, "chat", PageQuery())
    assert [json.loads(item) for _, item in found.items] == [given]
    assert store.run(store_completions.search_completions, ANYONE, None, {}, PageQuery()).items
    store.run(store_completions.delete_completion, ANYONE, "chat")
    assert store.media() == []


def test_a_conversation_is_as_large_as_its_items_and_their_media(store: Kept) -> None:
    store.answer("resp_1", message(PARTS[0]), message(PARTS[2]))
    store.answer("resp_2")
    size = store.file.run(lambda db: [store_items.thread_bytes(db, id_) for id_ in ("resp_1", "resp_2")])
    assert len(PNG) < size[0] - size[1] < 2 * len(PNG)


def test_they_count_as_stored(tmp_path: Path) -> None:
    store = Kept(tmp_path / "store.db", responses_max_bytes=2**20)
    big = KnownMedia({URL: MediaPart("image", "", "p", b"x" * 2**19, "image/png")})
    other = KnownMedia({URL: MediaPart("image", "", "p", b"y" * 2**19, "image/png")})
    store.answer("resp_1", message(PARTS[2]), known=big)
    store.answer("resp_2", message(PARTS[2]), known=big)
    assert len(store.listed("resp_1")) == 1  # once is enough for both
    store.answer("resp_3", message(PARTS[2]), known=other)
    assert [data[:1] for _, data in store.media()] == [b"y"]
    with pytest.raises(OrchardError) as caught:
        store.answer("resp_4", message(PARTS[2]), known=KnownMedia({URL: MediaPart("image", "", "p", b"z" * 2**20)}))
    assert caught.value.kind == "payload_too_large"
    store.file.close()


def test_archives_hold_what_was_sent(tmp_path: Path) -> None:
    store = Kept(tmp_path / "store.db", responses_archive_dir=str(tmp_path / "old"), responses_ttl=1e-6)
    store.answer("resp_1", message(PARTS[0]))
    store.run(store_conversations.create_conversation, ANYONE, "conv_1", {}, [message(PARTS[0])])
    chat = {"id": "chat-0", "content_parts": [PARTS[1]]}
    store.run(store_completions.save_completion, ANYONE, {"id": "chat", "model": "m", "metadata": {}}, [chat])
    store.sweep()
    assert json.loads((tmp_path / "old" / "chat.json").read_text())["messages"] == [chat]
    assert json.loads((tmp_path / "old" / "resp_1.json").read_text())["responses"][0]["input"] == [message(PARTS[0])]
    assert json.loads((tmp_path / "old" / "conv_1.json").read_text())["items"] == [message(PARTS[0])]
    store.file.close()


def test_an_older_file_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "SCRIPTS", schema.SCRIPTS[:4])
    old = Kept(tmp_path / "store.db")
    item = json.dumps(message(PARTS[0]))

    def fill(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO threads (id, created, expires) VALUES ('resp_1', 0, 1e12)")
        db.execute("INSERT INTO responses VALUES ('resp_1', 'resp_1', NULL, 'completed', NULL, '{}', NULL)")
        row = "INSERT INTO items (id, thread, response, output, item) VALUES ('msg_1', 'resp_1', 'resp_1', 0, ?)"
        db.execute(row, (item.encode(),))

    old.file.run(fill)
    old.file.close()
    monkeypatch.undo()
    store = Kept(tmp_path / "store.db")
    assert store.listed("resp_1") == [message(PARTS[0])]
    assert store.past("resp_1").media == {}
    store.answer("resp_2", message(PARTS[0]), previous="resp_1")
    assert store.past("resp_2").media == {DIGEST: PNG}
    store.file.close()
