from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_audio.stt.models.whisper.whisper import Model, ModelDimensions

from orchard.backends.audio import whisper_cpu
from orchard.backends.kernels import cpu

SIZES = {"n_mels": 80, "n_audio_ctx": 1500, "n_audio_state": 24, "n_audio_head": 2, "n_audio_layer": 1, "n_vocab": 99}
SIZES |= {"n_text_ctx": 16, "n_text_state": 24, "n_text_head": 3, "n_text_layer": 2}


def test_numpys_attention_gives_what_mlxs_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "is_slow", lambda: True)
    mx.random.seed(1)
    model: Any = Model(ModelDimensions.from_dict(SIZES), mx.float32)
    mel, tokens = mx.random.normal((1, 3000, 80)), mx.array([[3, 1, 4, 1, 5]])

    def told() -> list[Any]:
        heard = model.encoder(mel)
        logits, cache, _ = model.decoder(tokens, heard)
        following, _, _ = model.decoder(mx.array([[9]]), heard, kv_cache=cache)
        _, scores = model.forward_with_cross_qk(mel[0][None], tokens)
        return [np.array(one) for one in (heard, logits, following, *scores)]

    expected = told()
    whisper_cpu.adapt_whisper(model)
    assert type(model.encoder.blocks[0].attn).__name__ == "_NumpyAttention"
    for one, other in zip(told(), expected, strict=True):
        assert one == pytest.approx(other, abs=1e-4)


def test_where_mlx_is_fast_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "is_slow", lambda: False)
    model: Any = Model(ModelDimensions.from_dict(SIZES), mx.float32)
    whisper_cpu.adapt_whisper(model)
    assert type(model.encoder.blocks[0].attn).__name__ == "MultiHeadAttention"
