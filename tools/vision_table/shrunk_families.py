"""What tests of media need for architectures with a generated small configuration: tokens, and their processor's files.

`config` is what the smallest configuration must contain in addition to what text needs.
"""

from dataclasses import replace
from typing import Any

from tests.support.vision_families import QWEN, QWEN_IDS, QWEN_PIXELS, VisionFamily, named

_PIXELS = {"preprocessor_config.json": QWEN_PIXELS | {"min_pixels": 64, "max_pixels": 8192}}
_PATCHES = {"patch_size": 4, "temporal_patch_size": 2, "spatial_merge_size": 2}
_PINPOINTS = [[32, 64], [64, 32], [64, 64]]
_GLM = VisionFamily(
    config={
        "image_token_id": "<|image|>",
        "image_token_index": "<|image|>",
        "video_token_id": "<|video|>",
        "video_token_index": "<|video|>",
        "vision_start_token_id": "<|begin_of_image|>",
        "vision_end_token_id": "<|end_of_image|>",
        "image_start_token_id": "<|begin_of_image|>",
        "image_end_token_id": "<|end_of_image|>",
        "video_start_token_id": "<|begin_of_video|>",
        "video_end_token_id": "<|end_of_video|>",
        "vision_config": {"patch_size": 4},
    },
    tokens=(
        *("<|begin_of_image|>", "<|image|>", "<|end_of_image|>"),
        *("<|begin_of_video|>", "<|video|>", "<|end_of_video|>"),
    ),
    image="<|begin_of_image|><|image|><|end_of_image|>",
    video="<|begin_of_video|><|video|><|end_of_video|>",
    files={
        "preprocessor_config.json": QWEN_PIXELS
        | {"image_processor_type": "Glm4vImageProcessor", "size": {"shortest_edge": 64, "longest_edge": 8192}}
    },
)
_GEMMA_TOKENS = {"boi": "<start_of_image>", "image": "<image_soft_token>", "eoi": "<end_of_image>"} | {
    "boa": "<start_of_audio>",
    "audio": "<audio_soft_token>",
    "eoa": "<end_of_audio>",
}
_KIMI: dict[str, Any] = {
    "tokens": ("<|media_start|>", "<|media_content|>", "<|media_pad|>", "<|media_end|>"),
    "image": "<|media_start|>image<|media_content|><|media_pad|><|media_end|>",
}
_MINICPM_TOKENS = ("<image>", "</image>", "<slice>", "</slice>", "<unk>", "<image_id>", "</image_id>")
_NO_PLACE: dict[str, Any] = {"image": "<image>", "tokens": ("<image>",)}

SHRUNK: dict[str, VisionFamily] = {
    "aya_vision": VisionFamily(
        config={"image_token_index": "<|IMG_PATCH|>"},
        tokens=(
            *("<|START_OF_IMG|>", "<|END_OF_IMG|>", "<|IMG_PATCH|>", "<|IMG_LINE_BREAK|>", "<image>"),
            *("TILE_1", "TILE_2", "TILE_GLOBAL"),
        ),
        image="<image>",
        files={
            "preprocessor_config.json": {
                "image_processor_type": "GotOcr2ImageProcessor",
                "size": {"height": 32, "width": 32},
                "max_patches": 4,
            },
            "processor_config.json": {"patch_size": 16, "img_size": 32, "downsample_factor": 1},
        },
        gains={"multi_modal_projector": 100.0},
    ),
    "cohere_compass": VisionFamily(
        config={
            "image_token_id": "<|IMAGE_PAD|>",
            "vision_start_token_id": "<|VISION_START|>",
            "vision_end_token_id": "<|VISION_END|>",
            "vision_config": {"patch_size": 4, "deepstack_visual_indexes": [0, 1]},
        },
        tokens=("<|VISION_START|>", "<|IMAGE_PAD|>", "<|VISION_END|>"),
        image="<|VISION_START|><|IMAGE_PAD|><|VISION_END|>",
        tokenizer=named(image="<|IMAGE_PAD|>"),
        files=_PIXELS,
    ),
    "dots_ocr": VisionFamily(
        config={
            "image_token_id": "<|imgpad|>",
            "text_config": {"vocab_size": "VOCABULARY"},
            "vocab_size": "VOCABULARY",
            "vision_config": {"patch_size": 4, "temporal_patch_size": 1},
        },
        tokens=("<|img|>", "<|imgpad|>", "<|endofimg|>"),
        image="<|img|><|imgpad|><|endofimg|>",
        files={
            "preprocessor_config.json": QWEN_PIXELS
            | {"image_processor_type": "Qwen2VLImageProcessor", "temporal_patch_size": 1}
            | {"min_pixels": 64, "max_pixels": 8192}
        },
    ),
    "fastvlm": VisionFamily(config={}, files={"preprocessor_config.json": {}}, **_NO_PLACE),
    # The encoder of its pictures has no configuration that is small.
    "gemma3n": VisionFamily(
        config={
            "image_token_id": "<image_soft_token>",
            "image_token_index": "<image_soft_token>",
            "audio_token_id": "<audio_soft_token>",
            "audio_soft_tokens_per_image": 8,
            "vision_config": {"hidden_size": 2048, "vocab_offset": "<end_of_image>"},
            "audio_config": {
                "input_feat_size": 128,
                "hidden_size": 64,
                "conf_num_attention_heads": 2,
                "conf_num_hidden_layers": 2,
                "vocab_offset": "<end_of_audio>",
            },
        },
        tokens=(
            *("<start_of_image>", "<start_of_audio>"),
            *("<end_of_image>", "<image_soft_token>", "<end_of_audio>", "<audio_soft_token>"),
        ),
        image="<image_soft_token>",
        audio="<audio_soft_token>",
        tokenizer=named(**_GEMMA_TOKENS),
        files={
            "preprocessor_config.json": {
                "image_processor_type": "SiglipImageProcessor",
                "size": {"height": 256, "width": 256},
                "feature_extractor_type": "Gemma3nAudioFeatureExtractor",
            },
            "processor_config.json": {"audio_seq_length": 8},
        },
    ),
    "gemma4_unified": VisionFamily(
        config={
            "text_config": {
                "num_hidden_layers": 4,
                "layer_types": ["sliding_attention", "full_attention"] * 2,
                "global_head_dim": 32,
            },
            "vision_config": {
                "patch_size": 16,
                "pooling_kernel_size": 3,
                "model_patch_size": 48,
                "mm_embed_dim": 64,
                "mm_posemb_size": 64,
                "output_proj_dims": 64,
            },
            "audio_config": {"output_proj_dims": 640, "hidden_size": 640},
            **{f"{name}_token_id": token for name, token in _GEMMA_TOKENS.items()},
            "eoa_token_index": "<end_of_audio>",
            "video_token_id": "<|video|>",
        },
        tokens=(*_GEMMA_TOKENS.values(), "<|video|>"),
        image="<image_soft_token>",
        audio="<audio_soft_token>",
        video="<|video|>",
        tokenizer=named(**_GEMMA_TOKENS),
        files={"processor_config.json": {"image_processor": {}, "video_processor": {"max_soft_tokens": 70}}},
    ),
    "glm4v": _GLM,
    "glm4v_moe": _GLM,
    "glm5_next": replace(_GLM, config=_GLM.config | {"vision_config": {"patch_size": 14}}),
    "glm_ocr": _GLM,
    "granite_vision": VisionFamily(
        config={"image_token_index": "<image>", "image_grid_pinpoints": _PINPOINTS},
        tokens=("<image>",),
        image="<image>\n",
        files={
            "preprocessor_config.json": {
                "image_processor_type": "LlavaNextImageProcessor",
                "size": {"height": 32, "width": 32},
                "crop_size": {"height": 32, "width": 32},
                "image_grid_pinpoints": _PINPOINTS,
            },
            "processor_config.json": {"patch_size": 8, "vision_feature_select_strategy": "full"},
        },
    ),
    "idefics2": VisionFamily(
        config={"image_token_id": "<image>", "image_token_index": "<image>"},
        tokens=("<image>", "<fake_token_around_image>", "<end_of_utterance>"),
        image="<image>",
        files={
            "preprocessor_config.json": {
                "image_processor_type": "Idefics2ImageProcessor",
                "size": {"shortest_edge": 32, "longest_edge": 64},
            },
            "processor_config.json": {"image_seq_len": 64},
        },
    ),
    "indic_ocr": VisionFamily(config=QWEN_IDS | {"vision_config": _PATCHES}, **QWEN),
    "inkling": VisionFamily(
        config={"image_token_id": "<|unused_200054|>", "audio_token_id": "<|unused_200053|>"},
        tokens=("<|unused_200054|>", "<|unused_200053|>", "<|content_image|>", "<|content_audio_input|>"),
        image="<|content_image|><|unused_200054|>",
        audio="<|content_audio_input|><|unused_200053|>",
        files={"processor_config.json": {}},
    ),
    "internvl": VisionFamily(
        config={"image_token_id": "<IMG_CONTEXT>"},
        tokens=("<img>", "</img>", "<IMG_CONTEXT>"),
        image="<IMG_CONTEXT>\n",
        files={"processor_config.json": {"image_seq_length": 4}},
    ),
    "kimi_k25": VisionFamily(
        config={"media_placeholder_token_id": "<|media_pad|>", "vision_config": {"patch_size": 4}},
        files={"preprocessor_config.json": {"media_proc_cfg": {"patch_size": 4}}},
        **_KIMI,
    ),
    "kimi_k3": VisionFamily(
        config={
            "media_placeholder_token_id": "<|media_pad|>",
            "vision_config": {
                "patch_size": 14,
                "vt_hidden_size": 64,
                "vt_intermediate_size": 64,
                "vt_num_attention_heads": 2,
                "vt_num_hidden_layers": 2,
                "qkv_hidden_size": 64,
                "mm_hidden_size": 64,
                "text_hidden_size": 64,
            },
        },
        files={"preprocessor_config.json": {}},
        **_KIMI,
    ),
    "kimi_vl": VisionFamily(
        config={"media_placeholder_token_id": "<|media_pad|>", "vision_config": {"patch_size": 14}},
        files={"preprocessor_config.json": {}},
        **_KIMI,
    ),
    "lfm2_vl": VisionFamily(
        config={"image_token_id": "<image>", "image_token_index": "<image>"},
        tokens=("<image>", "<|image_start|>", "<|image_end|>", "<|img_thumbnail|>"),
        image="<image>",
        tokenizer=named(
            image="<image>",
            image_start="<|image_start|>",
            image_end="<|image_end|>",
            image_thumbnail="<|img_thumbnail|>",
        ),
        files={
            "preprocessor_config.json": {
                "encoder_patch_size": 8,
                "patch_size": 8,
                "tile_size": 32,
                "min_image_tokens": 1,
                "max_image_tokens": 16,
                "max_num_patches": 64,
            },
            "processor_config.json": {},
        },
    ),
    "llama4": VisionFamily(
        config={
            "image_token_id": "<|patch|>",
            "image_token_index": "<|patch|>",
            "vision_config": {
                "patch_size": 14,
                "image_size": 28,
                "intermediate_size": 256,
                "pixel_shuffle_ratio": 0.5,
                "projector_input_dim": 64,
                "projector_output_dim": 64,
                "vision_output_dim": 64,
            },
        },
        tokens=(
            *("<|image_start|>", "<|image_end|>", "<|image|>", "<|patch|>"),
            *("<|tile_x_separator|>", "<|tile_y_separator|>"),
        ),
        image="<|image|>",
        files={"preprocessor_config.json": {"size": {"height": 28, "width": 28}, "max_patches": 4}},
    ),
    "llava_onevision": VisionFamily(
        config={"image_token_index": "<image>", "video_token_index": "<video>", "image_grid_pinpoints": _PINPOINTS},
        tokens=("<image>", "<video>"),
        image="<image>",
        video="<video>",
        files={
            "preprocessor_config.json": {
                "image_processor_type": "LlavaOnevisionImageProcessor",
                "size": {"height": 32, "width": 32},
                "image_grid_pinpoints": _PINPOINTS,
            },
            "processor_config.json": {"num_image_tokens": 16, "vision_feature_select_strategy": "full"},
            "video_preprocessor_config.json": {"size": {"height": 32, "width": 32}},
        },
    ),
    "mage_vl": VisionFamily(
        config=QWEN_IDS | {"vision_config": {"patch_size": 4, "temporal_patch_size": 1}},
        **QWEN
        | {"files": {"preprocessor_config.json": _PIXELS["preprocessor_config.json"] | {"temporal_patch_size": 1}}},
    ),
    "mimo_v2": VisionFamily(
        config=QWEN_IDS | {"audio_token_id": "<|audio_pad|>", "vision_config": _PATCHES},
        **QWEN | {"tokens": (*QWEN["tokens"], "<|audio_pad|>", "<|mimo_audio_start|>")},
    ),
    "minicpmo": VisionFamily(
        config={
            "patch_size": 14,
            "image_size": 448,
            "vision_config": {"patch_size": 14, "image_size": 448},
            "audio_config": {"d_model": 64, "encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 256},
        },
        tokens=(*_MINICPM_TOKENS, "<|audio_start|>", "<|audio_end|>"),
        image="<image>./</image>",
        audio="<audio>./</audio>",
        files={"preprocessor_config.json": {"patch_size": 14, "scale_resolution": 448}},
    ),
    "minicpmv4_6": VisionFamily(
        config={
            "patch_size": 14,
            "image_size": 56,
            "insert_layer_id": 0,
            "vision_config": {"patch_size": 14, "image_size": 56},
        },
        tokens=(*_MINICPM_TOKENS, "<|image_pad|>", "<|video_pad|>"),
        image="<|image_pad|>",
        files={"preprocessor_config.json": {"patch_size": 14, "scale_resolution": 56, "max_slice_nums": 1}},
    ),
    "minimax_m3_vl": VisionFamily(
        config={
            "image_token_id": "]<]image[>[",
            "image_token_index": "]<]image[>[",
            "video_token_id": "]<]video[>[",
            "video_token_index": "]<]video[>[",
            "vision_config": {"patch_size": 4, "temporal_patch_size": 2},
        },
        tokens=("]<]image[>[", "]<]video[>[", "]<]start of image[>[", "]<]end of image[>["),
        image="]<]image[>[",
        video="]<]video[>[",
        files=_PIXELS,
    ),
    "molmo": VisionFamily(
        config={
            "text_config": {"additional_vocab_size": 32},
            "vision_config": {"image_num_layers": 2, "vit_layers": [-1, -2]},
        },
        tokens=("<im_start>", "<im_end>", "<im_patch>", "<im_col>"),
        image="<image>",
        files={"preprocessor_config.json": {"max_crops": 1}},
    ),
    "molmo2": VisionFamily(
        config={
            "image_patch_id": "<im_patch>",
            "image_low_res_id": "<im_low>",
            "image_start_token_id": "<im_start>",
            "image_end_token_id": "<im_end>",
            "image_col_id": "<im_col>",
            "low_res_image_start_token_id": "<low_res_im_start>",
            "vision_config": {"adapter_config": {"vit_layers": [-1, -2], "text_hidden_size": 64}},
        },
        tokens=("<im_start>", "<im_end>", "<im_patch>", "<im_col>", "<low_res_im_start>", "<|image|>", "<im_low>"),
        image="<|image|>",
    ),
    "moondream3": VisionFamily(
        config={"vision_config": {"crop_size": 32, "max_crops": 2, "overlap_margin": 1}}, **_NO_PLACE
    ),
    "muse_glimmer": VisionFamily(
        config={
            "image_token_id": "<|patch|>",
            "video_token_id": "<|video|>",
            "out_hidden_size": 256,
            "projector_hidden_size": 64,
            "vision_config": {"patch_size": 14, "temporal_patch_size": 2},
        },
        tokens=("<|image_start|>", "<|patch|>", "<|image_end|>", "<|video|>"),
        image="<|patch|>",
        files={"processor_config.json": {}},
    ),
    "nemotron_h_nano_omni": VisionFamily(
        config={
            "img_context_token_id": "<image>",
            "image_token_index": "<image>",
            "video_context_token_id": "<image>",
            "sound_context_token_id": "<so_embedding>",
            "vit_hidden_size": 64,
            "projector_hidden_size": 64,
            "vision_config": {"min_num_patches": 4, "max_num_patches": 64, "max_resolution": 64},
            "sound_config": {
                "hidden_size": 64,
                "intermediate_size": 64,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
                "subsampling_conv_channels": 8,
                "projection_hidden_size": 64,
            },
        },
        tokens=("<img>", "<image>", "</img>", "<so_embedding>", "<so_start>", "<so_end>", "<video>"),
        image="<image>",
        audio="<so_embedding>",
        video="<video>",
        files={
            "preprocessor_config.json": {
                "patch_size": 8,
                "min_num_patches": 4,
                "max_num_patches": 64,
                "video_target_num_patches": 16,
                "norm_mean": [0.5] * 3,
                "norm_std": [0.5] * 3,
            }
        },
    ),
    "paddleocr_vl": VisionFamily(
        config={
            "image_token_id": "<|IMAGE_PLACEHOLDER|>",
            "video_token_id": -1,
            "vision_start_token_id": "<|IMAGE_START|>",
            "vision_end_token_id": "<|IMAGE_END|>",
            "hidden_size": 1024,
            "text_config": {"hidden_size": 1024},
            "head_dim": 32,
            "rope_scaling": {"type": "default", "mrope_section": [6, 5, 5]},
            "rope_parameters": {"mrope_section": [6, 5, 5]},
            "use_bias": False,
            "vision_config": {"patch_size": 4},
        },
        tokens=("<|IMAGE_START|>", "<|IMAGE_PLACEHOLDER|>", "<|IMAGE_END|>"),
        image="<|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|>",
        files={"preprocessor_config.json": _PIXELS["preprocessor_config.json"] | {"temporal_patch_size": 1}},
    ),
    "phi3_v": VisionFamily(config={}, files={"preprocessor_config.json": {"num_crops": 1}}, **_NO_PLACE),
    "phi4mm": VisionFamily(config={}, tokens=("<|image_1|>", "<|audio_1|>"), image="<|image_1|>", audio="<|audio_1|>"),
    "qwen4_exp": VisionFamily(config=QWEN_IDS | {"vision_config": _PATCHES | {"spatial_patch_size": 4}}, **QWEN),
    "step3p7": VisionFamily(
        config={
            "image_token_id": "<im_patch>",
            "vision_config": {"patch_size": 14, "image_size": 728, "width": 64, "layers": 2, "heads": 2},
        },
        tokens=("<im_start>", "<im_patch>", "<im_end>", "<patch_start>", "<patch_end>", "<patch_newline>"),
        image="<im_patch>",
    ),
}
# Whose processor knows the numbers of its tokens: so many tokens there must be.
VOCABULARIES = {"dots_ocr": 151_667}
