"""mlx-audio's own loop over recordings, with answers of a stub."""

from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import pytest
from mlx_audio.stt.models.whisper.whisper import Model, ModelDimensions

from orchard.backends.bare import transcription

SIZES = {
    "n_mels": 8,
    "n_audio_ctx": 6,
    "n_audio_state": 32,
    "n_audio_head": 2,
    "n_audio_layer": 1,
    "n_vocab": 64,
    "n_text_ctx": 16,
    "n_text_state": 32,
    "n_text_head": 2,
    "n_text_layer": 1,
}
RESULTS = {
    "sure.wav": SimpleNamespace(text=" One.", segments=[{"temperature": 0.0}]),
    "unsure.wav": SimpleNamespace(text="Two", segments=[{"temperature": 0.0}, {"temperature": 0.4}]),
    "other.wav": SimpleNamespace(text="Three", segments=None),  # of another kind of model
}


@pytest.mark.parametrize(("slow", "dtype", "options"), [(True, mx.float32, {"fp16": False}), (False, mx.float16, {})])
def test_a_slow_cpu_hears_in_float32(
    slow: bool, dtype: mx.Dtype, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model(ModelDimensions.from_dict(SIZES), mx.float16)
    model.set_dtype(mx.float16)  # as its files are

    def generate(_: Any, file: str, **given: Any) -> Any:
        assert given == options
        assert {model.dtype, model.decoder.token_embedding.weight.dtype} == {dtype}
        return RESULTS[file]

    monkeypatch.setattr(transcription, "is_slow", lambda: slow)
    monkeypatch.setattr("mlx_audio.stt.utils.load_model", lambda path: model)
    monkeypatch.setattr(Model, "generate", generate)
    assert transcription.transcribe_recordings(path="", recordings=list(RESULTS)) == [
        {"text": "One.", "temperature": 0.0},
        {"text": "Two", "temperature": 0.4},
        {"text": "Three", "temperature": 0.0},
    ]
