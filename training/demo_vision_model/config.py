"""The model's shape, as in its config.json."""

from typing import Any

TEXT: dict[str, Any] = {
    "model_type": "qwen3_vl_text", "hidden_size": 192, "num_hidden_layers": 5, "intermediate_size": 448,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 1024, "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "rope_scaling": {"rope_type": "default", "mrope_section": [12, 10, 10], "mrope_interleaved": True},
    "max_position_embeddings": 32768, "attention_bias": False, "hidden_act": "silu", "tie_word_embeddings": True,
    "eos_token_id": 2, "pad_token_id": 0, "dtype": "bfloat16",
}  # fmt: skip
VISION: dict[str, Any] = {
    "model_type": "qwen3_vl", "depth": 4, "hidden_size": 128, "intermediate_size": 512, "num_heads": 4,
    "in_channels": 3, "patch_size": 8, "temporal_patch_size": 2, "spatial_merge_size": 2, "out_hidden_size": 192,
    "num_position_embeddings": 256, "deepstack_visual_indexes": [1], "hidden_act": "gelu_pytorch_tanh",
}  # fmt: skip
CONFIG: dict[str, Any] = {
    "model_type": "qwen3_vl", "architectures": ["Qwen3VLForConditionalGeneration"],
    "text_config": TEXT, "vision_config": VISION, "tie_word_embeddings": True, "vocab_size": 1024,
    "vision_start_token_id": 3, "vision_end_token_id": 4, "image_token_id": 5, "video_token_id": 6,
    "eos_token_id": [2, 0], "pad_token_id": 0, "dtype": "bfloat16",
}  # fmt: skip
