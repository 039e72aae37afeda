"""The families of tiny models that look at pictures, hear sounds and watch films: the least that mlx-vlm loads."""

from dataclasses import dataclass, field
from typing import Any

from tests.support.models import SLIDING_WINDOW

WINDOW = 2048


@dataclass(frozen=True)
class VisionFamily:
    """How to make a tiny model: its config.json and its processor's files.

    A string in `config` that is one of the `tokens` becomes the token's id. `image`, `audio` and `video` are what
    stands for a medium in a prompt, "" where the family takes none. `gains` make weights stronger, by parts of names.
    """

    config: dict[str, Any]
    tokens: tuple[str, ...]
    image: str
    audio: str = ""
    video: str = ""
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    tokenizer: dict[str, Any] = field(default_factory=dict)
    gains: dict[str, float] = field(default_factory=dict)


def named(**tokens: str) -> dict[str, Any]:
    """Name special tokens, as attributes of a tokenizer."""
    return {"extra_special_tokens": {f"{name}_token": token for name, token in tokens.items()}}


TEXT: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "intermediate_size": 64,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "vocab_size": "VOCABULARY",
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "max_position_embeddings": WINDOW,
    "tie_word_embeddings": False,
}
QWEN_TOKENS = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
QWEN_IDS = {
    "image_token_id": "<|image_pad|>",
    "video_token_id": "<|video_pad|>",
    "vision_start_token_id": "<|vision_start|>",
    "vision_end_token_id": "<|vision_end|>",
}
# A token is 8 x 8 pixels: patches of 4 x 4, of which 2 x 2 are merged.
QWEN_VISION: dict[str, Any] = {
    "depth": 2,
    "hidden_size": 32,
    "intermediate_size": 64,
    "out_hidden_size": 64,
    "num_heads": 2,
    "patch_size": 4,
    "spatial_patch_size": 4,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "num_position_embeddings": 16,
    "in_channels": 3,
}
QWEN_PIXELS = {"patch_size": 4, "temporal_patch_size": 2, "merge_size": 2}
QWEN_FILES = {
    "preprocessor_config.json": QWEN_PIXELS | {"min_pixels": 64, "max_pixels": 8192},
    "video_preprocessor_config.json": QWEN_PIXELS | {"min_pixels": 64, "max_pixels": 16384, "fps": 2.0},
}
QWEN: dict[str, Any] = {
    "tokens": QWEN_TOKENS,
    "image": "<|vision_start|><|image_pad|><|vision_end|>",
    "video": "<|vision_start|><|video_pad|><|vision_end|>",
    "files": QWEN_FILES,
}
CLIP: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "intermediate_size": 64,
    "num_attention_heads": 2,
    "image_size": 32,
    "patch_size": 8,
}

# What attention and MLPs give is normalised and then added to large embeddings, which also are the output's weights.
GEMMA_GAINS = {"embed_tokens": 1.0, "post_attention_layernorm": 8.0, "post_feedforward_layernorm": 8.0}
_GEMMA4_TEXT: dict[str, Any] = TEXT | {
    "model_type": "gemma4_text",
    "num_hidden_layers": 4,
    "global_head_dim": 32,
    "num_kv_shared_layers": 0,
    "hidden_size_per_layer_input": 0,
    "sliding_window": SLIDING_WINDOW,
    "layer_types": ["sliding_attention", "full_attention"] * 2,
    "use_bidirectional_attention": "vision",
    "tie_word_embeddings": True,
}
_GEMMA4: dict[str, Any] = {
    "model_type": "gemma4",
    "audio_config": None,
    "text_config": _GEMMA4_TEXT,
    "vision_config": {
        "model_type": "gemma4_vision",
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "global_head_dim": 16,
        "patch_size": 4,
        "pooling_kernel_size": 2,
        "position_embedding_size": 64,
        "default_output_length": 24,
    },
    "hidden_size": 64,
    "vocab_size": "VOCABULARY",
    "image_token_id": "<image_soft_token>",
    "audio_token_id": "<audio_soft_token>",
    "video_token_id": "<|video|>",
    "boi_token_id": "<start_of_image>",
    "eoi_token_id": "<end_of_image>",
    "boa_token_id": "<start_of_audio>",
    "eoa_token_id": "<end_of_audio>",
}
_GEMMA4_PIXELS = {"patch_size": 4, "pooling_kernel_size": 2}
_GEMMA4_FILES: dict[str, Any] = {
    "tokens": (
        "<start_of_image>",
        "<image_soft_token>",
        "<end_of_image>",
        "<|video|>",
        "<start_of_audio>",
        "<audio_soft_token>",
        "<end_of_audio>",
    ),
    "image": "<image_soft_token>",
    "video": "<|video|>",
    "files": {
        "processor_config.json": {
            "image_processor": _GEMMA4_PIXELS | {"max_soft_tokens": 24},
            "video_processor": _GEMMA4_PIXELS | {"max_soft_tokens": 70},
            "feature_extractor": {"fft_overdrive": True},  # without it, a mel filter is empty: transformers warns
        }
    },
    "gains": GEMMA_GAINS,
    "tokenizer": named(
        boi="<start_of_image>",
        image="<image_soft_token>",
        eoi="<end_of_image>",
        boa="<start_of_audio>",
        audio="<audio_soft_token>",
        eoa="<end_of_audio>",
    ),
}

FAMILIES: dict[str, VisionFamily] = {
    "qwen3_vl": VisionFamily(
        config={
            "model_type": "qwen3_vl",
            "text_config": TEXT
            | {"model_type": "qwen3_vl_text", "num_hidden_layers": 3}
            | {"rope_scaling": {"rope_type": "default", "mrope_section": [6, 5, 5], "mrope_interleaved": True}},
            "vision_config": QWEN_VISION | {"model_type": "qwen3_vl", "deepstack_visual_indexes": [0, 1]},
            **QWEN_IDS,
        },
        **QWEN,
    ),
    "llava": VisionFamily(
        config={
            "model_type": "llava",
            "text_config": TEXT | {"model_type": "llama"},
            "vision_config": CLIP | {"model_type": "clip_vision_model"},
            "image_token_index": "<image>",
            "vision_feature_layer": -2,
            "vision_feature_select_strategy": "default",
        },
        tokens=("<image>",),
        image="<image>\n",
        files={
            "preprocessor_config.json": {
                "image_processor_type": "CLIPImageProcessor",
                "size": {"shortest_edge": 32},
                "crop_size": {"height": 32, "width": 32},
            },
            "processor_config.json": {
                "patch_size": 8,
                "vision_feature_select_strategy": "default",
                "num_additional_image_tokens": 1,
            },
        },
    ),
    "qwen3_5": VisionFamily(
        config={
            "model_type": "qwen3_5",
            "text_config": TEXT
            | {"model_type": "qwen3_5_text", "num_hidden_layers": 3, "full_attention_interval": 3}
            | {"linear_num_value_heads": 2, "linear_num_key_heads": 1, "linear_conv_kernel_dim": 4}
            | {"linear_key_head_dim": 32, "linear_value_head_dim": 32}
            | {
                "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}
                | {"mrope_section": [3, 3, 2], "mrope_interleaved": True}
            },
            "vision_config": QWEN_VISION | {"model_type": "qwen3_5"},
            **QWEN_IDS,
        },
        **QWEN,
    ),
    "qwen2_5_vl": VisionFamily(
        config=TEXT
        | {
            "model_type": "qwen2_5_vl",
            "bos_token_id": None,
            "rope_scaling": {"type": "mrope", "mrope_section": [6, 5, 5]},
            "vision_config": QWEN_VISION
            | {"model_type": "qwen2_5_vl", "window_size": 16, "fullatt_block_indexes": [1], "tokens_per_second": 2},
            **QWEN_IDS,
        },
        **QWEN,
    ),
    "gemma3": VisionFamily(
        config={
            "model_type": "gemma3",
            "text_config": TEXT
            | {"model_type": "gemma3_text", "num_hidden_layers": 4, "sliding_window": SLIDING_WINDOW}
            | {"sliding_window_pattern": 2, "query_pre_attn_scalar": 32, "mm_tokens_per_image": 4},
            "vision_config": CLIP | {"model_type": "siglip_vision_model"},
            "image_token_index": "<image_soft_token>",
            "hidden_size": 64,
        },
        tokens=("<start_of_image>", "<image_soft_token>", "<end_of_image>"),
        image="<start_of_image>",
        files={
            "preprocessor_config.json": {
                "image_processor_type": "Gemma3ImageProcessor",
                "size": {"height": 32, "width": 32},
            },
            "processor_config.json": {"image_seq_length": 4},
        },
        tokenizer=named(boi="<start_of_image>", image="<image_soft_token>", eoi="<end_of_image>"),
        gains=GEMMA_GAINS | {"mm_input_projection": 200.0},
    ),
    "gemma4": VisionFamily(config=_GEMMA4, **_GEMMA4_FILES),
    "gemma4_per_layer": VisionFamily(
        config=_GEMMA4
        | {
            "text_config": _GEMMA4_TEXT
            | {"num_hidden_layers": 6, "num_kv_shared_layers": 2, "hidden_size_per_layer_input": 8}
            | {"vocab_size_per_layer_input": "VOCABULARY"}
            | {"layer_types": ["sliding_attention", "full_attention"] * 3}
        },
        **_GEMMA4_FILES,
    ),
    "gemma4_audio": VisionFamily(
        config=_GEMMA4
        | {
            "audio_config": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
            | {"subsampling_conv_channels": [8, 4], "output_proj_dims": 64}
        },
        audio="<audio_soft_token>",
        **_GEMMA4_FILES,
    ),
    "idefics3": VisionFamily(
        config={
            "model_type": "idefics3",
            "text_config": TEXT | {"model_type": "llama"},
            "vision_config": CLIP | {"model_type": "idefics3"},
            "image_token_id": "<image>",
            "scale_factor": 2,
            "vocab_size": "VOCABULARY",
        },
        tokens=(
            "<image>",
            "<fake_token_around_image>",
            "<end_of_utterance>",
            "<global-img>",
            *(f"<row_{row}_col_{column}>" for row in (1, 2) for column in (1, 2)),
        ),
        image="<image>",
        files={
            "preprocessor_config.json": {
                "image_processor_type": "Idefics3ImageProcessor",
                "size": {"longest_edge": 64},
                "max_image_size": {"longest_edge": 32},
            },
            "processor_config.json": {"image_seq_len": 4},
        },
        gains={"modality_projection": 8.0},
    ),
    "qwen3_omni_moe": VisionFamily(
        config={
            "model_type": "qwen3_omni_moe",
            "enable_audio_output": False,
            "thinker_config": {
                "text_config": TEXT
                | {"model_type": "qwen3_omni_moe_text", "num_experts": 4}
                | {
                    "num_experts_per_tok": 2,
                    "moe_intermediate_size": 32,
                    "decoder_sparse_step": 1,
                    "mlp_only_layers": [],
                }
                | {"rope_scaling": {"rope_type": "default", "mrope_section": [6, 5, 5], "mrope_interleaved": True}},
                "vision_config": QWEN_VISION
                | {"model_type": "qwen3_omni_moe_vision_encoder", "deepstack_visual_indexes": [0, 1], "image_size": 16},
                "audio_config": {"d_model": 32, "encoder_layers": 2, "num_hidden_layers": 2, "encoder_ffn_dim": 64}
                | {"encoder_attention_heads": 2, "num_mel_bins": 128, "output_dim": 64, "downsample_hidden_size": 8},
                **QWEN_IDS,
                "position_id_per_seconds": 13,
                "audio_token_id": "<|audio_pad|>",
                "audio_start_token_id": "<|audio_start|>",
                "audio_end_token_id": "<|audio_end|>",
            },
            "talker_config": {
                "text_config": TEXT
                | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
                | {"decoder_sparse_step": 1, "mlp_only_layers": []},
            },
        },
        **QWEN
        | {
            "tokens": (*QWEN_TOKENS, "<|audio_start|>", "<|audio_end|>", "<|audio_pad|>"),
            "audio": "<|audio_start|><|audio_pad|><|audio_end|>",
            "files": QWEN_FILES
            | {
                "preprocessor_config.json": QWEN_PIXELS
                | {"min_pixels": 64, "max_pixels": 8192}
                | {"feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 128, "sampling_rate": 16000}
                | {"hop_length": 160, "n_fft": 400, "chunk_length": 30, "return_attention_mask": True}
            },
            "tokenizer": named(
                image="<|image_pad|>",
                video="<|video_pad|>",
                audio="<|audio_pad|>",
                vision_bos="<|vision_start|>",
                vision_eos="<|vision_end|>",
                audio_bos="<|audio_start|>",
                audio_eos="<|audio_end|>",
            ),
        },
    ),
}
