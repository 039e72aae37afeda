"""Tiny models of more families than the tests run, each with its processor's files."""

from typing import Any

from tests.support.vision_families import (
    CLIP,
    FAMILIES,
    GEMMA_GAINS,
    QWEN,
    QWEN_IDS,
    QWEN_VISION,
    TEXT,
    VisionFamily,
    named,
)

_SPARSE: dict[str, Any] = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
}
_PIXTRAL_FILES: dict[str, dict[str, Any]] = {
    "preprocessor_config.json": {"size": {"longest_edge": 64}, "patch_size": 8},
    "processor_config.json": {"patch_size": 8},
}
_PIXTRAL_TOKENS = ("[IMG]", "[IMG_BREAK]", "[IMG_END]")
_LLAVA = FAMILIES["llava"]
_IDEFICS = FAMILIES["idefics3"]

MORE: dict[str, VisionFamily] = {
    "qwen2_vl": VisionFamily(
        config=TEXT
        | {
            "model_type": "qwen2_vl",
            "rope_scaling": {"type": "mrope", "mrope_section": [6, 5, 5]},
            "vision_config": QWEN_VISION
            | {"model_type": "qwen2_vl", "embed_dim": 32, "hidden_size": 64, "mlp_ratio": 2},
            **QWEN_IDS,
        },
        **QWEN,
    ),
    "qwen3_vl_moe": VisionFamily(
        config={
            "model_type": "qwen3_vl_moe",
            "text_config": FAMILIES["qwen3_vl"].config["text_config"] | _SPARSE | {"model_type": "qwen3_vl_moe_text"},
            "vision_config": QWEN_VISION | {"model_type": "qwen3_vl_moe", "deepstack_visual_indexes": [0, 1]},
            **QWEN_IDS,
        },
        **QWEN,
    ),
    "qwen3_5_moe": VisionFamily(
        config={
            "model_type": "qwen3_5_moe",
            "text_config": FAMILIES["qwen3_5"].config["text_config"]
            | _SPARSE
            | {"model_type": "qwen3_5_moe_text", "shared_expert_intermediate_size": 32},
            "vision_config": QWEN_VISION | {"model_type": "qwen3_5_moe"},
            **QWEN_IDS,
        },
        **QWEN,
    ),
    "pixtral": VisionFamily(
        config={
            "model_type": "pixtral",
            "text_config": TEXT | {"model_type": "mistral"},
            "vision_config": CLIP | {"model_type": "pixtral", "head_dim": 16, "image_size": 64},
            "image_token_index": "[IMG]",
            "vision_feature_layer": -1,
            "vision_feature_select_strategy": "full",
        },
        tokens=_PIXTRAL_TOKENS,
        image="[IMG]",
        files=_PIXTRAL_FILES,
    ),
    "mistral3": VisionFamily(
        config={
            "model_type": "mistral3",
            "text_config": TEXT | {"model_type": "mistral"},
            "vision_config": CLIP | {"model_type": "pixtral", "head_dim": 16, "image_size": 64},
            "image_token_index": "[IMG]",
            "spatial_merge_size": 2,
            "vision_feature_layer": -1,
        },
        tokens=_PIXTRAL_TOKENS,
        image="[IMG]",
        files=_PIXTRAL_FILES | {"processor_config.json": {"patch_size": 8, "spatial_merge_size": 2}},
    ),
    "smolvlm": VisionFamily(
        config=_IDEFICS.config
        | {
            "model_type": "smolvlm",
            "vision_config": CLIP | {"model_type": "smolvlm_vision"},
            "image_token_id": "<image>",
        },
        tokens=_IDEFICS.tokens,
        image="<image>",
        files=_IDEFICS.files
        | {
            "preprocessor_config.json": {
                "image_processor_type": "SmolVLMImageProcessor",
                "size": {"longest_edge": 64},
                "max_image_size": {"longest_edge": 32},
            }
        },
        gains=_IDEFICS.gains,
    ),
    "llava_next": VisionFamily(
        config=_LLAVA.config
        | {"model_type": "llava_next", "image_grid_pinpoints": [[32, 64], [64, 32], [64, 64]]}
        | {"vision_config": CLIP | {"model_type": "clip_vision_model"}},
        tokens=_LLAVA.tokens,
        image=_LLAVA.image,
        files={
            "preprocessor_config.json": {
                "image_processor_type": "LlavaNextImageProcessor",
                "size": {"shortest_edge": 32},
                "crop_size": {"height": 32, "width": 32},
                "image_grid_pinpoints": [[32, 64], [64, 32], [64, 64]],
            },
            "processor_config.json": _LLAVA.files["processor_config.json"],
        },
    ),
    "internvl_chat": VisionFamily(
        config={
            "model_type": "internvl_chat",
            "text_config": TEXT | {"model_type": "qwen2"},
            "vision_config": CLIP | {"model_type": "intern_vit_6b"},
            "image_token_index": "<IMG_CONTEXT>",
            "downsample_ratio": 0.5,
        },
        tokens=("<img>", "</img>", "<IMG_CONTEXT>"),
        image="<image>\n",
        files={"preprocessor_config.json": {"size": 32}},
    ),
    "paligemma": VisionFamily(
        config={
            "model_type": "paligemma",
            "text_config": TEXT
            | {"model_type": "gemma2", "query_pre_attn_scalar": 32, "sliding_window": 16}
            | {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0},
            "vision_config": CLIP | {"model_type": "siglip_vision_model", "projection_dim": 64},
            "image_token_index": "<image>",
            "hidden_size": 64,
        },
        tokens=("<image>",),
        image="<image>",
        files={
            "preprocessor_config.json": {
                "image_processor_type": "SiglipImageProcessor",
                "size": {"height": 32, "width": 32},
                "image_seq_length": 16,
            }
        },
        gains=GEMMA_GAINS | {"multi_modal_projector": 100.0},
        tokenizer=named(image="<image>") | {"bos_token": "<|endoftext|>"},
    ),
}
