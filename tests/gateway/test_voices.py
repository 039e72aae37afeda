import asyncio
import shutil
import stat
import wave
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchard.core.errors import OrchardError
from orchard.core.tasks.speak import RATE
from orchard.gateway import voices
from orchard.gateway.caller import ANYONE, Caller
from orchard.gateway.voices import KeptRecording, VoiceStore
from tests.support.sounds import noise, wav

ANN, BO, ADMIN = Caller("ann"), Caller("bo"), Caller("root", admin=True)


@pytest.fixture
def times() -> Iterator[float]:
    return iter(range(100, 10_000))


@pytest.fixture
def store(tmp_path: Path, times: Iterator[float]) -> VoiceStore:
    return VoiceStore(str(tmp_path / "voices"), times.__next__)


@pytest.fixture
def source(tmp_path: Path) -> str:
    (tmp_path / "upload").write_bytes(wav(noise(1.5, 16_000)))
    return str(tmp_path / "upload")


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep recordings as they come, without a process for each."""

    async def copy(source: str, target: str, param: str) -> None:
        shutil.copy(source, target)

    monkeypatch.setattr(voices, "_convert_recording", copy)


async def test_a_recording_is_kept_as_models_read_it_and_only_for_its_owner(
    store: VoiceStore, source: str, tmp_path: Path
) -> None:
    made = await store.add("voice", ANN, source, "audio_sample", name="Me", transcript="Hello")
    assert made == KeptRecording(made.id, "ann", 100, "Me", "", "Hello")
    sample = await store.find_sample(ANN, made.id)
    assert sample
    assert sample.transcript == "Hello"
    with wave.open(str(tmp_path / "voices" / f"{made.id}.wav")) as file:
        assert file.getparams()[:4] == (1, 2, RATE, RATE * 3 // 2)
    files = list((tmp_path / "voices").iterdir())
    assert sorted(file.suffix for file in files) == [".json", ".wav"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE((tmp_path / "voices").stat().st_mode) == 0o700
    assert VoiceStore(str(tmp_path / "voices")).list("voice", ANN) == [made], "the next server has it, too"
    store.delete("voice", ANN, made.id)
    assert (list((tmp_path / "voices").iterdir()), await store.find_sample(ANN, made.id)) == ([], None)


async def test_a_recording_that_cant_be_used(store: VoiceStore, tmp_path: Path) -> None:
    (tmp_path / "upload").write_bytes(wav(noise(31, 8000), 8000))
    with pytest.raises(OrchardError, match="`recording` can't be used: it must last 1 to 30 seconds") as raised:
        await store.add("cons", ANN, str(tmp_path / "upload"), "recording", name="Me", language="en")
    assert (raised.value.kind, raised.value.param) == ("invalid_request", "recording")
    assert list((tmp_path / "voices").iterdir()) == []


@pytest.mark.usefixtures("unchecked")
async def test_nobody_else_sees_what_a_user_keeps(store: VoiceStore, source: str) -> None:
    voice = await store.add("voice", ANN, source, "audio_sample", name="Me")
    consent = await store.add("cons", ANN, source, "recording", name="Yes", language="en")
    for caller in (BO, ANYONE):
        assert await store.find_sample(caller, voice.id) is None
        assert store.list("voice", caller) == store.list("cons", caller) == []
        for work in (store.load, store.delete):
            with pytest.raises(OrchardError) as raised:
                work("cons", caller, consent.id)
            assert (raised.value.kind, raised.value.param) == ("voice_not_found", "consent_id")
            assert raised.value.message.endswith("is kept: GET /v1/audio/voice_consents lists all")
        with pytest.raises(OrchardError):
            store.rename("cons", caller, consent.id, "Mine")
    assert store.list("voice", ADMIN) == [voice]
    renamed = store.rename("cons", ANN, consent.id, "No")
    assert (store.load("cons", ANN, consent.id), renamed.name) == (renamed, "No")


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("id_", ["", "voice_", "../voice_" + "0" * 24, "voice_" + "0" * 24, "voice_" + "g" * 24, "\0"])
async def test_ids_that_name_nothing(store: VoiceStore, source: str, id_: str) -> None:
    kept = await store.add("cons", ANN, source, "recording", name="Yes", language="en")
    with pytest.raises(OrchardError) as raised:
        store.load("voice", ANN, id_)
    assert (raised.value.kind, raised.value.param) == ("voice_not_found", "voice_id")
    assert await store.find_sample(ANN, id_) is await store.find_sample(ANN, kept.id) is None


@pytest.mark.usefixtures("unchecked")
async def test_a_user_keeps_only_so_many(store: VoiceStore, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(voices, "MOST_OF_A_USER", 2)
    first = await store.add("voice", ANN, source, "audio_sample", name="1")
    await store.add("voice", ANN, source, "audio_sample", name="2")
    with pytest.raises(OrchardError, match="2 voices are kept already") as raised:
        await store.add("voice", ANN, source, "audio_sample", name="3")
    assert raised.value.kind == "store_full"
    await store.add("voice", BO, source, "audio_sample", name="4")
    await store.add("cons", ANN, source, "recording", name="5", language="en")
    store.delete("voice", ANN, first.id)
    await store.add("voice", ANN, source, "audio_sample", name="6")
    assert [one.name for one in store.list("voice", ANN)] == ["2", "6"]


@pytest.mark.usefixtures("unchecked")
async def test_many_at_once_dont_exceed_the_limit(
    store: VoiceStore, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(voices, "MOST_OF_A_USER", 2)
    adding = (store.add("voice", ANN, source, "audio_sample", name=str(number)) for number in range(6))
    results = await asyncio.gather(*adding, return_exceptions=True)
    assert len(store.list("voice", ANN)) == sum(isinstance(one, KeptRecording) for one in results) == 2


async def test_a_folder_that_cant_be_written(tmp_path: Path, source: str) -> None:
    (tmp_path / "voices").write_text("a file")
    with pytest.raises(OrchardError, match="the recording can't be kept") as raised:
        await VoiceStore(str(tmp_path / "voices")).add("voice", ANN, source, "audio_sample", name="Me")
    assert raised.value.kind == "unavailable"


async def test_one_callers_recordings_are_checked_one_by_one_and_others_go_in_between(
    store: VoiceStore, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: asyncio.Queue[str] = asyncio.Queue()
    may_end = asyncio.Event()

    async def check(source: str, target: str, param: str) -> None:
        begun.put_nowait(param)
        await may_end.wait()
        shutil.copy(source, target)

    monkeypatch.setattr(voices, "_convert_recording", check)
    async with asyncio.TaskGroup() as tasks:
        for number in range(3):
            tasks.create_task(store.add("voice", ANN, source, f"ann {number}", name="Me"))
        tasks.create_task(store.add("voice", BO, source, "bo", name="Me"))
        assert "bo" in {await begun.get(), await begun.get()}
        may_end.set()
    assert begun.qsize() == 2
