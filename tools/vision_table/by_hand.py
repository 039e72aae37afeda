"""What the smallest configuration of an architecture needs in addition to what the names of its fields imply."""

from typing import Any

from tools.vision_table.shrink import VOCABULARY

_MROPE = {"type": "default", "mrope_section": [6, 5, 5]}
_HYBRID: dict[str, Any] = {
    "num_hidden_layers": 4,
    "full_attention_interval": 2,
    "rope_parameters": {
        "type": "default",
        "mrope_section": [3, 3, 2],
        "rope_theta": 10000.0,
        "partial_rotary_factor": 0.5,
    },
}
_SLIDING = {"num_hidden_layers": 4, "sliding_window_pattern": 2}

ADDITIONS: dict[str, dict[str, Any]] = {
    "aya_vision": {"text_config": _SLIDING},
    "diffusion_gemma": {"text_config": {"top_k_experts": 2}},
    "ernie4_5_moe_vl": {
        "mrope_section": [6, 6, 4],
        "freq_allocation": 4,
        "moe_num_experts": [4, 4],
        "moe_intermediate_size": [32, 32],
    },
    "gemma3n": {
        "text_config": {
            "num_hidden_layers": 4,
            "intermediate_size": [64] * 4,
            "layer_types": ["sliding_attention", "full_attention"] * 2,
            "activation_sparsity_pattern": [0.0] * 4,
            "hidden_size_per_layer_input": 8,
            "laurel_rank": 8,
            "altup_num_inputs": 2,
            "num_kv_shared_layers": 2,
        },
        "vision_config": {"hidden_size": 64},
    },
    "glm4v": {"eos_token_id": [1]},
    "glm4v_moe": {"eos_token_id": [1], "text_config": {"rope_theta": 10000.0}},
    "glm5_next": {
        "text_config": {
            "qk_rope_head_dim": 0,
            "head_dim": 0,
            "linear_head_dim": 32,
            "linear_num_heads": 2,
            "layer_types": ["linear_attention", "deepseek_sparse_attention"],
            "index_head_dim": 32,
            "index_n_heads": 2,
            "qk_head_dim": 32,
        }
    },
    "hunyuan_vl": {"text_config": {"rope_scaling": {"type": "xdrope", "xdrope_section": [4, 4, 4, 4]}}},
    "indic_ocr": {"text_config": _HYBRID},
    "kimi_k3": {
        "text_config": {
            "hidden_act": "situ",
            "kv_lora_rank": 32,
            "q_lora_rank": 32,
            "qk_nope_head_dim": 32,
            "qk_rope_head_dim": 32,
            "v_head_dim": 32,
            "linear_attn_config": {
                "kda_layers": [1],
                "full_attn_layers": [2],
                "num_heads": 2,
                "head_dim": 32,
                "short_conv_kernel_size": 4,
            },
        }
    },
    "lfm2_vl": {"text_config": {"layer_types": ["conv", "full_attention"], "block_dim": 64, "conv_dim": 64}},
    "llama4": {"text_config": {"num_hidden_layers": 4, "intermediate_size_mlp": 64, "num_experts_per_tok": 1}},
    "mimo_v2": {"text_config": {"hybrid_layer_pattern": [0, 1], "moe_layer_freq": [0, 1]}},
    "minicpmo": {"text_config": {"rope_scaling": _MROPE}},
    "minicpmv4_6": {"text_config": _HYBRID},
    "minicpmv4_7": {"text_config": _HYBRID, "image_token_id": 300, "video_token_id": 301},
    "mistral3": {"text_config": {"model_type": "mistral", "rope_theta": 10000.0}},
    "molmo": {"text_config": {"embedding_size": VOCABULARY}},
    "multi_modality": {
        "vision_config": {"params": {}},
        "projector_config": {"params": {"projector_type": "mlp_gelu", "depth": 2}},
    },
    "muse_spark": {
        "text_config": {
            "rope_parameters": {"rope_theta": 10000.0},
            "layer_rope_theta": [10000.0, 0.0],
            "layer_types": ["sliding_attention", "full_attention"],
            "moe_hidden_size": 64,
        },
        "audio_config": None,
    },
    "nemotron_h_nano_omni": {
        "text_config": {
            "hybrid_override_pattern": ["M", "*", "-"],
            "mamba_num_heads": 2,
            "mamba_head_dim": 32,
            "ssm_state_size": 32,
            "conv_kernel": 4,
            "n_groups": 1,
        }
    },
    "paddleocr_vl": {"rope_theta": 10000.0},
    "phi3_v": {"num_key_value_heads": 2},
    "qwen2_5_vl": {"rope_scaling": {"type": "mrope", "mrope_section": [6, 5, 5]}},
    "qwen2_vl": {"rope_scaling": {"type": "mrope", "mrope_section": [6, 5, 5]}},
    "qwen3_5": {"text_config": _HYBRID},
    "qwen3_5_moe": {"text_config": _HYBRID},
    "qwen4_exp": {"text_config": _HYBRID},
    "step3p7": {
        "text_config": {
            "sliding_window": 16,
            "num_attention_groups": 2,
            "moe_num_experts": 4,
            "moe_top_k": 2,
            "share_expert_dim": 32,
            "layer_types": ["sliding_attention", "full_attention"],
        }
    },
    "unlimited_ocr": {"text_config": {"kv_lora_rank": None, "qk_nope_head_dim": 0, "qk_rope_head_dim": 0}},
    "deepseekocr_2": {"vision_config": {"width": {}}},
}
