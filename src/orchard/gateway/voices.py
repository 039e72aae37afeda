"""Voices that callers have made from recordings, and the recordings of people's consent, in files of one folder.

Each has two files that only their owner can read: ID.json, which says what it is, and ID.wav, the recording.
"""

import asyncio
import json
import os
import re
import secrets
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from orchard.core.errors import OrchardError
from orchard.core.tasks.speak import VoiceSample
from orchard.gateway.caller import Caller, environment_without_keys

MOST_OF_A_USER = 100
"""The most voices, and the most consents, that a user may keep."""
MOST_SAMPLE_BYTES = 10 * 2**20
"""The most bytes of a recording as it is sent, as in OpenAI's API."""
LEAST_SECONDS, MOST_SECONDS = 1, 30
"""How long a recording may last."""

_CHECK_SECONDS = 60
_AT_ONCE = 2
_ID = re.compile(r"(voice|cons)_[0-9a-f]{24}")

Prefix = Literal["voice", "cons"]
# What can't be found, the field to blame, and the remedy.
_LOST: dict[Prefix, tuple[str, str, str]] = {
    "voice": ("voice", "voice_id", "POST /v1/audio/voices makes one"),
    "cons": ("voice consent", "consent_id", "GET /v1/audio/voice_consents lists all"),
}


class KeptRecording(Struct, frozen=True):
    """A voice or a consent. `user`: see `Caller.user`; `language`: of a consent; `transcript`: of a voice's sample."""

    id: str
    user: str | None
    created_at: int
    name: str
    language: str = ""
    transcript: str = ""


class VoiceStore:
    """The voices and consents of one folder. Methods that are not `async` block: call them in a thread."""

    def __init__(self, folder: str, clock: Callable[[], float] = time.time) -> None:
        self._folder = Path(folder).expanduser()
        self._clock = clock
        self._few = asyncio.Semaphore(_AT_ONCE)
        # A caller's recordings are checked one by one, so that those of others don't wait for all of them.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._writing = threading.Lock()

    async def add(
        self,
        prefix: Prefix,
        caller: Caller,
        source: str,
        param: str,
        *,
        name: str,
        language: str = "",
        transcript: str = "",
    ) -> KeptRecording:
        """Check the recording in the file `source`, and keep it; `param` is the field to blame.

        Raise OrchardError: invalid_request if it can't be read, or is too short or too long; store_full if the caller
        has too many; unavailable if it can't be written.
        """
        id_ = f"{prefix}_{secrets.token_hex(12)}"
        made = KeptRecording(id_, caller.user, int(self._clock()), name, language, transcript)
        await asyncio.to_thread(self._check_room, prefix, caller)
        part = self._folder / f"{id_}.part"
        try:
            async with self._turns.setdefault(caller.name, asyncio.Lock()), self._few:
                await _convert_recording(source, str(part), param)
            await asyncio.to_thread(self._write, prefix, caller, made, part)
        except OSError as error:
            raise _disk_error(error) from None
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)
        return made

    def load(self, prefix: Prefix, caller: Caller, id_: str) -> KeptRecording:
        """Return what a caller has kept under an id. Raise OrchardError("voice_not_found")."""
        kept = self._read(id_) if _ID.fullmatch(id_) and id_.startswith(f"{prefix}_") else None
        if kept is None or not caller.can_see(kept.user):
            what, param, remedy = _LOST[prefix]
            message = f"no {what} with the id '{id_[:100]}' is kept: {remedy}"
            raise OrchardError("voice_not_found", message, param=param)
        return kept

    def list(self, prefix: Prefix, caller: Caller) -> list[KeptRecording]:
        """Return all that a caller has kept, the oldest first."""
        found = [self._read(file.stem) for file in self._folder.glob(f"{prefix}_*.json")]
        return sorted(
            (one for one in found if one and caller.can_see(one.user)), key=lambda one: (one.created_at, one.id)
        )

    def rename(self, prefix: Prefix, caller: Caller, id_: str, name: str) -> KeptRecording:
        """Give something a new name, and return it. Raise OrchardError."""
        renamed = replace(self.load(prefix, caller, id_), name=name)
        try:
            self._write_record(renamed)
        except OSError as error:
            raise _disk_error(error) from None
        return renamed

    def delete(self, prefix: Prefix, caller: Caller, id_: str) -> None:
        """Delete something with its recording. Raise OrchardError."""
        kept = self.load(prefix, caller, id_)
        try:
            for suffix in (".json", ".wav"):
                (self._folder / f"{kept.id}{suffix}").unlink(missing_ok=True)
        except OSError as error:
            raise _disk_error(error) from None

    async def find_sample(self, caller: Caller, voice: str | None) -> VoiceSample | None:
        """Return the recording of a caller's voice with this id; None: it is no id, or the caller has no such voice."""
        if voice is None or not _ID.fullmatch(voice):
            return None
        return await asyncio.to_thread(self._read_sample, caller, voice)

    def _read_sample(self, caller: Caller, id_: str) -> VoiceSample | None:
        try:
            kept = self.load("voice", caller, id_)
            return VoiceSample((self._folder / f"{kept.id}.wav").read_bytes(), kept.transcript or None)
        except (OrchardError, OSError):
            return None

    def _check_room(self, prefix: Prefix, caller: Caller) -> None:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise _disk_error(error) from None
        if sum(one.user == caller.user for one in self.list(prefix, caller)) >= MOST_OF_A_USER:
            what = "voices" if prefix == "voice" else "voice consents"
            raise OrchardError("store_full", f"{MOST_OF_A_USER} {what} are kept already: delete one of them first")

    def _read(self, id_: str) -> KeptRecording | None:
        with suppress(OSError, msgspec.DecodeError):
            return msgspec.json.decode((self._folder / f"{id_}.json").read_bytes(), type=KeptRecording)
        return None

    def _write(self, prefix: Prefix, caller: Caller, made: KeptRecording, part: Path) -> None:
        with self._writing:
            self._check_room(prefix, caller)  # others may have been kept meanwhile
            os.replace(part, self._folder / f"{made.id}.wav")
            self._write_record(made)

    def _write_record(self, made: KeptRecording) -> None:
        part = self._folder / f"{made.id}.{secrets.token_hex(4)}.part"
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(msgspec.json.encode(made))
        os.replace(part, self._folder / f"{made.id}.json")


async def _convert_recording(source: str, target: str, param: str) -> None:
    """Write a recording as a WAV file that every worker reads. A process does so, because the file may be hostile.

    Raise OrchardError (invalid_request, unavailable).
    """
    limits = (str(LEAST_SECONDS), str(MOST_SECONDS))
    command = [sys.executable, "-m", "orchard.backends.audio.sample_process", source, target, *limits]
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, env=environment_without_keys()
    )
    try:
        async with asyncio.timeout(_CHECK_SECONDS):
            told, _ = await process.communicate()
        answer = json.loads(told)
    except (TimeoutError, ValueError):
        answer = {"error": "it is broken"}
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if answer["error"] is not None:
        raise OrchardError("invalid_request", f"`{param}` can't be used: {answer['error']}", param=param)


def _disk_error(error: OSError) -> OrchardError:
    return OrchardError("unavailable", f"the recording can't be kept: {error.strerror or error}", retry_after=60)
