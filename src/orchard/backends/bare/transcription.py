"""mlx-audio's own loop over models that transcribe."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx

from orchard.backends.kernels.cpu import is_slow


def transcribe_recordings(*, path: str, recordings: Sequence[str]) -> list[dict[str, Any]]:
    """Transcribe files, each alone. Return each one's `text`, and the highest `temperature` at which it was drawn."""
    from mlx_audio.stt.models.whisper.whisper import Model
    from mlx_audio.stt.utils import load_model

    model, options = load_model(path), {}
    if is_slow() and isinstance(model, Model):  # in half precision, a word takes seconds
        model.set_dtype(mx.float32)
        model.dtype, options = mx.float32, {"fp16": False}
    return [_hear(model, file, options) for file in recordings]


def _hear(model: Any, file: str, options: dict[str, Any]) -> dict[str, Any]:
    result = model.generate(file, **options)
    segments = [one for one in getattr(result, "segments", None) or () if isinstance(one, dict)]
    temperatures = [float(one.get("temperature", 0.0)) for one in segments]
    return {"text": str(result.text).strip(), "temperature": max(temperatures, default=0.0)}
