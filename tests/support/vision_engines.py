"""Engines on tiny models of mlx-vlm's, and jobs that show them pictures and let them hear sounds."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import mlx.core as mx
from msgspec.structs import replace

from orchard.backends.vision.encoder import place_media
from orchard.backends.vision.inputs import Medium
from orchard.backends.vision.model import VisionModel, load_vision_model
from orchard.core.media import MediaPart
from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching.job import Job, MediaSpan
from tests.support.engine_driver import Engines
from tests.support.media import picture, png, sound, wav
from tests.support.vision_families import FAMILIES
from tests.support.vision_models import make_vision_model


class VisionEngines(Engines):
    """As `Engines`; the kinds are those of FAMILIES."""

    def _make(self, folder: Path, kind: str, dtype: mx.Dtype) -> None:
        make_vision_model(folder, FAMILIES[kind])

    def _load(self, folder: Path, options: TextOptions) -> Any:
        return load_vision_model(str(folder), options)


@cache
def image(seed: int, height: int = 32, width: int = 48) -> MediaPart:
    return MediaPart("image", "", "", data=png(picture(seed, height, width)))


@cache
def audio(seed: int) -> MediaPart:
    return MediaPart("audio", "", "", data=wav(sound(seed)))


_READ: dict[tuple[str, MediaPart], Medium] = {}


def medium(model: VisionModel, kind: str, part: MediaPart) -> Medium:
    """Read a medium, as a worker does; once, since it takes longer than all else."""
    if (kind, part) not in _READ:
        placeholder = FAMILIES[kind].audio if part.kind == "audio" else FAMILIES[kind].image
        _READ[kind, part] = model.reader.read(part, placeholder)
    return _READ[kind, part]


def showing(model: VisionModel, kind: str, job: Job, parts: Sequence[list[int] | MediaPart], **fields: Any) -> Job:
    """Give a job like `job` whose prompt consists of words and media; a message ends after each list of words."""
    tokens: list[int] = []
    media: list[Medium] = []
    ends: list[int] = []
    for part in parts:
        if isinstance(part, MediaPart):
            media.append(medium(model, kind, part))
            tokens += media[-1].tokens
        else:
            tokens += part
            ends.append(len(tokens))
    own: dict[str, Any] = {"prompt": tokens, "boundaries": tuple(ends)}
    if media:
        placed = place_media(tokens, media, model.reader.feature_ids)
        spans = (MediaSpan(one.start, one.stop, one.medium.digest, model.can_divide(one.medium)) for one in placed)
        own |= {"spans": tuple(spans), "embed": lambda known: model.embed(tokens, placed, known)}
    return replace(job, **own, **fields)
