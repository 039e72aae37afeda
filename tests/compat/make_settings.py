"""Writes what each variable, flag and file of `orchard serve` sets: `python -m tests.compat.make_settings`.

The files themselves, fixtures/*.yaml, are written by hand.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.compat.bridge import FIXTURES, options, served, write

# What the values below speak of, in the working directory.
_FOLDERS = ("lora", "lora-two", "models")
_FILES = {"chat.jinja": "{{ messages }}", "keys.txt": "key-of-the-file\n"}

_VALUES = {
    "model": "org/some-model",
    "model_type": "multimodal",
    "served_model_name": "small",
    "adapter_path": "lora",
    "model_dir": "models",
    "fallback_model": "demo",
    "allow_download": "true",
    "max_loaded_models": "3",
    "memory_limit": "24GB",
    "ttl": "601",
    "queue_timeout": "301",
    "watchdog_timeout": "121",
    "host": "127.0.0.2",
    "port": "8001",
    "log_level": "warning",
    "debug": "true",
    "log_file": "orchard.log",
    "no_log_file": "false",
    "shutdown_grace": "21",
    "api_key": "key-one,key-two",
    "api_key_file": "keys.txt",
    "admin_key": "key-three",
    "cors_origin": "http://localhost:3000",
    "allowed_host": "orchard.example.com",
    "context_length": "4096",
    "context_overflow": "summarize",
    "chat_template_file": "chat.jinja",
    "tool_call_parser": "hermes",
    "reasoning_parser": "qwen3",
    "message_converter": "glm4_moe",
    "stable_prompts": "false",
    "max_tokens": "1000",
    "enable_thinking": "true",
    "thinking_budget": "2048",
    "temperature": "0.3",
    "top_p": "0.91",
    "top_k": "21",
    "min_p": "0.05",
    "repetition_penalty": "1.05",
    "repetition_context_size": "22",
    "presence_penalty": "0.15",
    "presence_context_size": "23",
    "frequency_penalty": "0.25",
    "frequency_context_size": "24",
    "xtc_probability": "0.35",
    "xtc_threshold": "0.45",
    "seed": "7",
    "decode_concurrency": "33",
    "queue_size": "34",
    "prompt_concurrency": "5",
    "prefill_step_size": "513",
    "max_kv_size": "8192",
    "kv_bits": "4",
    "kv_group_size": "32",
    "quantized_kv_start": "100",
    "prompt_cache_bytes": "4GB",
    "prompt_cache_size": "101",
    "prompt_cache_dir": "prompts",
    "prompt_cache_dir_bytes": "11GiB",
    "responses_path": "responses.db",
    "responses_ttl": "3601",
    "responses_max_bytes": "2GiB",
    "responses_archive_dir": "archive",
    "responses_max_background": "65",
    "max_requests": "1025",
    "max_connections": "4097",
    "max_body_bytes": "33MiB",
    "max_body_bytes_in_flight": "257MiB",
    "head_timeout": "31",
    "body_timeout": "61",
    "keep_alive_interval": "16",
    "cache_timeout": "6",
    # These have no effect yet.
    "trust_remote_code": "false",
    "enable_auto_tool_choice": "true",
    "disable_batching": "false",
    "draft_model_path": "org/small-model",
    "num_draft_tokens": "3",
    "config_name": "flux2-klein-4b",
    "quantize": "4",
    "lora_paths": "style,other-style",
    "lora_scales": "0.5,0.75",
    "disable_auto_resize": "false",
}
_SYNONYMS = {
    "model_path": "model",
    "on_demand_idle_timeout": "ttl",
    "api_keys": "api_key",
    "admin_keys": "admin_key",
    "cors_origins": "cors_origin",
    "allowed_origins": "cors_origin",
    "allowed_hosts": "allowed_host",
    "temp": "temperature",
    "batch_completion_size": "decode_concurrency",
    "max_num_seqs": "decode_concurrency",
    "batch_prefill_size": "prompt_concurrency",
    "batch_prefill_step_size": "prefill_step_size",
    "prompt_cache_max_bytes": "prompt_cache_bytes",
    "max_bytes": "prompt_cache_bytes",
    "draft_model": "draft_model_path",
}
_VARIABLES = {
    "PRELOAD_MODEL": "model",
    "MLX_VLM_PRELOAD_MODEL": "model",
    "PRELOAD_ADAPTER": "adapter_path",
    "MLX_VLM_PRELOAD_ADAPTER": "adapter_path",
    "MLX_VLM_SERVER_API_KEY": "api_key",
    "MLX_VLM_MAX_TOKENS": "max_tokens",
    "MLX_VLM_ENABLE_THINKING": "enable_thinking",
    "MLX_VLM_THINKING_BUDGET": "thinking_budget",
    "MLX_VLM_MAX_NUM_SEQS": "decode_concurrency",
    "PREFILL_STEP_SIZE": "prefill_step_size",
    "MAX_KV_SIZE": "max_kv_size",
    "KV_BITS": "kv_bits",
    "KV_GROUP_SIZE": "kv_group_size",
    "QUANTIZED_KV_START": "quantized_kv_start",
    "MLX_TRUST_REMOTE_CODE": "trust_remote_code",
}
# Those of other commands and of workers set nothing here, and are known all the same.
_OTHER_VARIABLES = {"ORCHARD_URL": "http://127.0.0.1:8001", "ORCHARD_CACHE_DIR": "cache"}


def main() -> None:
    """Write it all."""
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name in _FOLDERS:
            Path(name).mkdir()
        for name, text in _FILES.items():
            Path(name).write_text(text)
        found = _found()
        os.chdir(here)
    write("settings.json", found)


def _found() -> dict[str, Any]:
    defaults = served().settings
    flags = list(_flags())
    names = dict.fromkeys(
        flag[0].removeprefix("--no-").removeprefix("--") for flag in flags if "--no-log" not in flag[0]
    )
    variables = {f"ORCHARD_{name.upper().replace('-', '_')}": _value(name.replace("-", "_")) for name in names}
    variables["ORCHARD_NO_LOG_FILE"] = "true"
    variables |= {variable: _VALUES[name] for variable, name in _VARIABLES.items()} | _OTHER_VARIABLES
    files = {path.name: served("--config", str(path)).settings for path in sorted(FIXTURES.glob("*.yaml"))}
    return {
        "folders": _FOLDERS,
        "files": _FILES,
        "defaults": defaults,
        "variables": {
            f"{variable}={value}": _new(defaults, served(**{variable: value}).settings)
            for variable, value in variables.items()
        },
        "flags": {" ".join(flag): _new(defaults, served(*flag).settings) for flag in flags},
        **files,
    }


def _new(defaults: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    return {path: value for path, value in settings.items() if path not in defaults or defaults[path] != value}


def _flags() -> Iterator[tuple[str, ...]]:
    for option in options()["serve"]:
        name = option.removeprefix("--").replace("-", "_")
        if _is_switch(name):
            yield (option,)
        elif name not in ("models", "config"):
            yield option, _value(name)


def _is_switch(name: str) -> bool:
    return name.startswith("no_") or _value(name) in ("true", "false")


def _value(name: str) -> str:
    name = _SYNONYMS.get(name, name)
    return _VALUES.get(name) or _VALUES.get(name.removeprefix("default_"), "")


if __name__ == "__main__":
    main()
