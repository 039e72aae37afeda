"""The requests of spoken conversations, without a pool."""

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from orchard.config import Settings, VoiceModels
from orchard.core.errors import OrchardError
from orchard.core.events import Finished, Output, Started, Usage
from orchard.core.request import Priority, Request, Task
from orchard.core.tasks.generate import Generate, Message, TextPart
from orchard.core.tasks.judge_turn import JudgeTurn, TurnJudgement
from orchard.core.tasks.speak import Sound, Speak, VoiceSample
from orchard.dialects.openai.realtime.schema import Transcription
from orchard.gateway.caller import ANYONE, Caller, Callers
from orchard.gateway.media.upload_folder import UploadFolder
from orchard.gateway.models.entry import ModelEntry
from orchard.gateway.replies.event_stream import EventStream
from orchard.gateway.voice.requests import VoiceRequests
from orchard.gateway.voices import VoiceStore

ANN = replace(ANYONE, user="u")
NO_VOICES = VoiceStore("no voices")


async def test_a_turn_that_is_cancelled_before_it_is_written_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def wait_for_a_thread(*_: Any) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(asyncio, "to_thread", wait_for_a_thread)
    folder = UploadFolder(tmp_path)
    made: list[tuple[int, Path]] = []
    new_file = folder.new_file

    def keep() -> tuple[int, Path]:
        made.append(new_file())
        return made[-1]

    monkeypatch.setattr(folder, "new_file", keep)
    parts: Any = (None, Settings(), None, folder)
    callers: Any = None
    requests = VoiceRequests(*parts, voices=NO_VOICES, callers=callers, caller=ANYONE)
    monkeypatch.setattr(requests, "transcription_model", lambda name: "ears")

    async def tell(_: str) -> None:
        """Tell nobody."""

    with pytest.raises(asyncio.CancelledError):
        await requests.transcribe(b"", 24_000, Transcription(), tell)
    ((number, path),) = made
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(number)
    assert not path.exists()
    folder.close()


VOICES = {
    "assistant": VoiceModels(chat="chat", transcription="ears", speech="mouth"),
    "one": VoiceModels(chat="both"),
    "two": VoiceModels(chat="both", speech="mouth"),
}


class Models:
    """Stands in for a pool: one entry for each name, and what is asked of them."""

    def __init__(self, **only: str) -> None:
        self.only = only
        self.registry = SimpleNamespace(configured_models=lambda: [self.find(name).entry for name in only.values()])
        self.asked: list[tuple[Request, bool]] = []

    def find(self, name: str) -> Any:
        entry = ModelEntry("chat" if name == "alias" else name, "", None, aliases=("alias",) if name == "alias" else ())
        kinds = {"ears": "transcription", "other-ears": "transcription", "mouth": "speech", "judge": "turn_detection"}
        return SimpleNamespace(entry=replace(entry, kind=kinds.get(name, "text"), voices=("Ann",)))

    def only_model(self, task: type[Task]) -> str | None:
        return self.only.get(task.__name__)

    def stream(self, request: Request, *, goes_on: bool) -> EventStream:
        self.asked.append((request, goes_on))
        stream = EventStream()
        found = TurnJudgement(0.9, True) if isinstance(request.task, JudgeTurn) else Sound(b"aa")
        stream.push([Started(0), Output.from_struct(found), Finished(("stop",), Usage(1, 7))])
        return stream


def make_requests(
    models: Models, name: str, priority: Priority = "normal", voices: VoiceStore = NO_VOICES
) -> VoiceRequests:
    origin = Request("req_1", name, Generate((Message("user", (TextPart("Hi"),)),)), priority)
    parts: Any = (models, Settings(realtime=VOICES), None, None)
    return VoiceRequests(*parts, voices=voices, callers=Callers(("key",)), caller=ANN, origin=origin)


@pytest.mark.parametrize(
    ("name", "models"),
    [
        ("assistant", VOICES["assistant"]),
        ("chat", VOICES["assistant"]),
        ("alias", VoiceModels(chat="alias", transcription="ears", speech="mouth")),
        ("both", VoiceModels(chat="both")),
        ("two", VOICES["two"]),
        ("other", VoiceModels(chat="other")),
    ],
)
def test_which_models_go_with_a_name(name: str, models: VoiceModels) -> None:
    assert make_requests(Models(), name).models == models


def test_the_only_model_that_speaks_goes_with_every_chat_model() -> None:
    assert make_requests(Models(Speak="mouth"), "other").speech_model() == "mouth"
    # The server's fallback answers for names, and does not speak for that.
    alone = make_requests(Models(Speak="chat", Transcribe="chat"), "other")
    assert (alone.speaks, alone.transcribes) == (False, False)
    with pytest.raises(OrchardError, match="no speech model goes with this") as refused:
        alone.speech_model("modalities")
    assert refused.value.param == "modalities"


def test_a_session_that_transcribes_may_name_its_model_later() -> None:
    assert make_requests(Models(Transcribe="ears"), "other").choose_models(None, chats=False) == "ears"
    several = make_requests(Models(one="ears", two="other-ears"), "other")
    assert several.choose_models(None, chats=False) == ""
    assert several.transcription_model("ears") == "ears"
    with pytest.raises(OrchardError, match="no transcription model goes with this"):
        several.transcription_model(None)
    with pytest.raises(OrchardError, match="no transcription model goes with this"):
        make_requests(Models(), "other").choose_models(None, chats=False)


async def test_a_pause_is_judged_by_the_model_of_the_entry_or_the_only_one() -> None:
    models = Models(JudgeTurn="judge")
    assert await make_requests(models, "other").judge_turn(b"abcd", 24_000)
    ((request, _),) = models.asked
    assert (request.model, request.task) == ("judge", JudgeTurn(b"abcd", 24_000))
    for none in (Models(), Models(JudgeTurn="chat")):  # the fallback for other tasks
        with pytest.raises(OrchardError, match="must be 'server_vad', or `turn_detection` null") as refused:
            make_requests(none, "other").turn_detection_model()
        assert refused.value.param == "session.audio.input.turn_detection.type"


async def test_a_voice_is_one_of_the_model_or_of_openai() -> None:
    requests = make_requests(Models(), "assistant")
    for voice in (None, "ann", "Ann", "alloy", "ALLOY"):
        await requests.check_voice(voice, "audio.voice")
    with pytest.raises(OrchardError, match="must be one of this model's: 'Ann'") as refused:
        await requests.check_voice("Bob", "audio.voice")
    assert refused.value.param == "audio.voice"


async def test_a_voice_that_the_caller_has_made_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    made, voices = VoiceSample(b"RIFF"), VoiceStore("voices")

    async def find_sample(caller: Caller, voice: str | None) -> VoiceSample | None:
        return made if (caller, voice) == (ANN, "voice_1") else None

    monkeypatch.setattr(voices, "find_sample", find_sample)
    models = Models()
    requests = make_requests(models, "assistant", voices=voices)
    await requests.check_voice("voice_1", "audio.voice")
    assert [data async for data in requests.speak("Hi", "voice_1", 1.0, lambda _: None)] == [b"aa"]
    ((request, _),) = models.asked
    assert request.task == Speak("Hi", "voice_1", None, 1.0, "pcm", made)


async def test_what_speaks_an_answer_has_its_caller_its_priority_and_its_id() -> None:
    models, counted = Models(), list[Usage]()
    requests = make_requests(models, "assistant", "background")
    forms: tuple[Literal["pcm", "wav"], ...] = ("pcm", "wav")
    for form in forms:
        assert [data async for data in requests.speak("Hi", "ann", 1.0, counted.append, form)] == [b"aa"]
    assert [(one.id, one.model, one.priority, one.sender.caller, goes_on) for one, goes_on in models.asked] == [
        ("req_1-voice1", "mouth", "background", "u", True),
        ("req_1-voice2", "mouth", "background", "u", True),
    ]
    assert [one.task for one, _ in models.asked] == [Speak("Hi", "ann", None, 1.0, form) for form in forms]
    assert counted == [Usage(1, 7)] * 2
