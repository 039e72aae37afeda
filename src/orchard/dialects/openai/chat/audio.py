"""Spoken answers: how one is asked for, and the fields that have its sound."""

import base64
from collections.abc import Sequence

from msgspec import Struct

from orchard.core.events import Output
from orchard.core.tasks.speak import Sound, SoundFormat
from orchard.dialects.openai.output import Fields

SECONDS = 3600
"""How long a later turn may refer to a spoken answer by its id."""


class ChatAudio(Struct, frozen=True):
    """How an answer is spoken, and the `id` of its sound. `voice` None: the model's first one."""

    id: str
    voice: str | None
    format: SoundFormat

    def fields(self, transcript: str, sounds: Sequence[Output], created: int) -> Fields:
        """Return the `audio` of a whole message; `created` is its time in seconds since the epoch."""
        data = b"".join(sound.read(Sound).data for sound in sounds)
        return {
            "id": self.id,
            "data": base64.b64encode(data).decode(),
            "expires_at": created + SECONDS,
            "transcript": transcript,
        }


def sound_delta(sound: Output) -> Fields:
    """Return what a piece of sound adds to the `audio` of a message."""
    return {"data": base64.b64encode(sound.read(Sound).data).decode()}
