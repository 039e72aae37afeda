"""Loads mlx-audio's speech models."""

import contextlib
import io
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mlx_audio.tts.utils
from transformers import AutoTokenizer, PreTrainedConfig

from orchard import folder_files
from orchard.backends.audio.speakers.models import SPEAKERS, UntestedModel
from orchard.backends.audio.speakers.speaker import Speaker
from orchard.backends.model_folder import evaluate_weights, explain_load_errors, forbid_code, read_config
from orchard.backends.service import Progress
from orchard.core.errors import OrchardError
from orchard.core.voices import voices

log = logging.getLogger("orchard.worker")

_LIBRARY = "mlx-audio"
# What can't be installed beside Orchard's libraries, and how uvx installs it beside mlx-audio's own server.
_PHONEMISERS = {"kitten": "--with phonemizer-fork", "kokoro": "--with 'misaki[en]' --with pip"}
_TOKENIZER_FILES = "config.json tokenizer.json tokenizer_config.json special_tokens_map.json"
# The files of other repositories that mlx-audio reads, as `hf download` takes them; workers find them only in the
# Hugging Face cache. Files are named where their repository has much more.
_OTHER_FILES = {
    "chatterbox": ("mlx-community/S3TokenizerV2",),
    "chatterbox_turbo": ("mlx-community/S3TokenizerV2",),
    "dia": ("mlx-community/descript-audio-codec-44khz",),
    "echo_tts": ("jordand/fish-s1-dac-min",),
    "irodori_tts": ("Aratako/Semantic-DACVAE-Japanese-32dim",),
    "llama": ("mlx-community/snac_24khz",),
    "outetts": ("mlx-community/dac-speech-24khz-1.5kbps",),
    "qwen3": ("mlx-community/snac_24khz",),
    "sesame": ("kyutai/moshiko-pytorch-bf16 tokenizer-e351c8d8-checkpoint125.safetensors",),
    "vibevoice": (f"Qwen/Qwen2.5-0.5B {_TOKENIZER_FILES}",),
}
# What they also read if their own folder has no tokenizer.
_OTHER_TOKENIZERS = {
    "llama": f"mlx-community/orpheus-3b-0.1-ft-bf16 {_TOKENIZER_FILES}",
    "sesame": f"unsloth/Llama-3.2-1B {_TOKENIZER_FILES}",
}


def load_speaker(folder: Path, progress: Progress) -> Speaker:
    """Load a speech model; download nothing and run no code in its folder.

    `progress` is called with the fraction that has been read. Raise OrchardError("model_failed") with the reason.
    """
    config = read_config(folder, _LIBRARY)
    model_type = str(config.get("model_type"))
    kind = mlx_audio.tts.utils.MODEL_REMAPPING.get(model_type, model_type)
    if packages := _PHONEMISERS.get(model_type):
        why = (
            "it needs a phonemiser that can't be installed beside Orchard's libraries. mlx-audio's own server runs it: "
        )
        command = f"uvx --python 3.12 --from 'mlx-audio[server,tts]' {packages} mlx_audio.server --port 8001"
        raise OrchardError("model_failed", f"{_refusal(folder)} {why}{command}")
    with explain_load_errors(folder, _LIBRARY), forbid_code():
        with contextlib.redirect_stdout(io.StringIO()) as said:  # the library prints what it does
            network = _load_network(folder, kind)
        log.debug("%s says: %s", _LIBRARY, said.getvalue())
        if kind not in SPEAKERS:
            log.warning("speech models of the type %s were not tested with Orchard", model_type)
        files = [os.path.relpath(path, folder) for path in folder_files.walk_folder(folder)]
        speaker = SPEAKERS.get(kind, UntestedModel)(network, voices(config, files), folder)
    evaluate_weights(folder, network, progress, _LIBRARY)
    return speaker


def _load_network(folder: Path, kind: str) -> Any:
    has_tokenizer = folder_files.has_tokenizer(folder_files.list_names(folder))
    try:
        with _use_tokenizer(folder) if has_tokenizer else contextlib.nullcontext():
            return mlx_audio.tts.utils.load_model(folder, lazy=True, model_type=kind)
    except Exception as error:
        wanted = [*_OTHER_FILES.get(kind, ())]
        if not has_tokenizer and kind in _OTHER_TOKENIZERS:
            wanted.append(_OTHER_TOKENIZERS[kind])
        if wanted:
            commands = " and ".join(f"'hf download {one}'" for one in wanted)
            why = f"it also needs files of other repositories: if the cache lacks them, {commands} fetches them"
            raise OrchardError("model_failed", f"{_refusal(folder)} {why} ({_first_line(error)})") from error
        raise


def _refusal(folder: Path) -> str:
    return f"the model in {folder} can't be loaded:"


@contextmanager
def _use_tokenizer(folder: Path) -> Iterator[None]:
    """Let a model that asks for the tokenizer of another repository read that of its own folder."""
    original = AutoTokenizer.__dict__["from_pretrained"]

    def read(cls: type, name: str, *args: Any, **named: Any) -> Any:
        if not os.path.exists(name):
            name = str(folder)
            named["config"] = PreTrainedConfig()  # transformers can't read the config.json of all speech models
        return original.__func__(cls, name, *args, **named)

    AutoTokenizer.from_pretrained = classmethod(read)
    try:
        yield
    finally:
        AutoTokenizer.from_pretrained = original


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)[:200]
