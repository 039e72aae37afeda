"""The model's shape, as in its config.json, with the names of mlx-examples."""

from typing import Any

from demo_whisper_model import tokenizer
from demo_whisper_model.clips import MELS

CONFIG: dict[str, Any] = {
    "model_type": "whisper", "n_mels": MELS, "n_vocab": tokenizer.VOCABULARY,
    "n_audio_ctx": 1500, "n_audio_state": 176, "n_audio_head": 4, "n_audio_layer": 4,
    "n_text_ctx": 448, "n_text_state": 176, "n_text_head": 4, "n_text_layer": 2,
}  # fmt: skip
# Whose attention training ties to the sound of the word that comes next: word timestamps are read from it.
ALIGNMENT_HEADS = [[1, 0], [1, 1]]
GENERATION: dict[str, Any] = {"alignment_heads": ALIGNMENT_HEADS}
PREPROCESSOR: dict[str, Any] = {
    "feature_extractor_type": "WhisperFeatureExtractor", "processor_class": "WhisperProcessor", "feature_size": MELS,
    "sampling_rate": 16_000, "hop_length": 160, "chunk_length": 30, "n_fft": 400, "padding_value": 0.0,
    "return_attention_mask": False,
}  # fmt: skip
