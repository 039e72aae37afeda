"""A pipeline of mflux: loaded from a folder, it draws one image at a time."""

import contextlib
import copy
import logging
import os
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten
from PIL import Image

from orchard.backends.images.describer import describe_image, describer_folder
from orchard.backends.images.drawing import Drawing, Pictures
from orchard.backends.images.presets import Preset
from orchard.backends.images.weights import read_without_torch
from orchard.core.errors import OrchardError
from orchard.core.tasks.images import ImageOptions

log = logging.getLogger("orchard.worker")

_STORED_BITS = 16
_PIECE_BYTES = 2**30
_LONGEST_PROMPT = 2**20  # tokens, for a tokenizer that must not truncate
# These encoders read only the beginning of a prompt, by design; another encoder reads all of it.
_SUMMARISERS = {"clip"}
_CONFIGURATIONS = "mflux.models.common.config.model_config:AVAILABLE_MODELS"
_DECODER = "mflux.models.common.vae.vae_util:VAEUtil"
_PIXELS = "mflux.utils.image_util:ImageUtil"

# on_step(number of finished steps, function that decodes the unfinished image): may raise, which ends the image.
OnStep = Callable[[int, Callable[[], Image.Image]], None]


class Pipeline:
    """A loaded model. Only the thread that owns MLX uses it, except for `check_prompts`."""

    def __init__(self, preset: Preset, model: Any) -> None:
        self._preset = preset
        self._model = model
        self._latents = pkgutil.resolve_name(preset.latents) if preset.latents else None
        self._counters = {
            kind: _copy_unpadded(tokenizer)
            for kind, tokenizer in getattr(model, "tokenizers", {}).items()
            if kind not in _SUMMARISERS and hasattr(tokenizer, "padding")
        }
        self._drawing: Drawing | None = None
        self._on_step: OnStep | None = None
        self._done = 0
        model.callbacks.register(self)

    @classmethod
    def load(cls, preset: Preset, folder: Path, options: ImageOptions, progress: Callable[[float], None]) -> "Pipeline":
        """Load a model with all its weights. Raise OrchardError("model_failed") if its options don't fit it."""
        adapters = _adapter_arguments(preset, options)
        os.environ["TQDM_DISABLE"] = "1"  # mflux's import of tqdm reads it; progress bars would fill the log
        read_without_torch()
        bits = None if options.quantize == _STORED_BITS else options.quantize
        with _log_prints():
            config = pkgutil.resolve_name(_CONFIGURATIONS)[preset.alias]
            made = pkgutil.resolve_name(preset.type)
            model = made(quantize=bits, model_path=str(folder), model_config=config, **adapters)
        if bits and model.bits != bits:  # mflux ignores `bits` for stored quantised weights
            message = f"its weights are stored with {model.bits} bits, so quantize can't be {bits}; 16 means as stored"
            raise OrchardError("model_failed", message)
        _load_weights(model, progress)
        return cls(preset, model)

    def check_prompts(self, drawing: Drawing) -> None:
        """Raise OrchardError("invalid_request") if a prompt is longer than the model can read.

        This has its own tokenizers, so that one other thread may call it.
        """
        for name, prompt in (("prompt", drawing.prompt), ("negative_prompt", drawing.negative_prompt)):
            for counter in self._counters.values() if prompt else ():
                tokens = counter.tokenize(prompt, max_length=_LONGEST_PROMPT).input_ids.shape[-1]
                if tokens > counter.max_length:
                    message = f"`{name}` has {tokens:,} tokens, and the model reads at most {counter.max_length:,}"
                    raise OrchardError("invalid_request", message, param=name)

    @property
    def can_describe(self) -> bool:
        """Whether it can turn plain text into the JSON that the preset needs."""
        return self._preset.json_prompt and describer_folder() is not None

    def describe(self, text: str) -> str:
        """Return a text as a JSON description of an image. Raise OrchardError if that fails."""
        folder = describer_folder()
        if folder is None:  # it was deleted a moment ago
            raise OrchardError("invalid_request", "`prompt` must be a JSON object", param="prompt")
        with _log_prints():
            return describe_image(text, folder, self._model.bits)

    def draw(self, drawing: Drawing, pictures: Pictures, seed: int, on_step: OnStep) -> Image.Image:
        """Return an image. `on_step` is also called before the first step, with 0."""
        if drawing is not self._drawing:  # mflux would keep every prompt
            getattr(self._model, "prompt_cache", {}).clear()
        self._drawing, self._on_step, self._done = drawing, on_step, 0
        arguments: dict[str, Any] = {
            "seed": seed,
            "prompt": drawing.prompt,
            "num_inference_steps": drawing.steps,
            "width": drawing.width,
            "height": drawing.height,
        }
        if drawing.guidance is not None:
            arguments["guidance"] = drawing.guidance
        if drawing.negative_prompt is not None:
            arguments["negative_prompt"] = drawing.negative_prompt
        if self._preset.can_edit:
            several = self._preset.pictures_in == "image_paths"
            arguments[self._preset.pictures_in] = list(pictures.images) if several else pictures.images[0]
        if self._preset.mask:
            arguments["masked_image_path"] = pictures.mask
        try:
            with _log_prints():
                made: Image.Image = self._model.generate_image(**arguments).image
            return made
        finally:
            self._on_step = None
            mx.clear_cache()

    def call_before_loop(self, latents: mx.array, config: Any, **_: Any) -> None:
        """Note, as a callback of mflux, that the prompt is encoded."""
        self._report_step(latents, config)

    def call_in_loop(self, latents: mx.array, config: Any, **_: Any) -> None:
        """Note, as a callback of mflux, that a step is done."""
        if not mx.all(mx.isfinite(latents)).item():  # the image would be black
            message = (
                "the model computed no image, as happens where numbers overflow; try another seed or less guidance"
            )
            raise OrchardError("internal", message)
        self._done += 1
        self._report_step(latents, config)

    def _report_step(self, latents: mx.array, config: Any) -> None:
        assert self._on_step
        self._on_step(self._done, lambda: self._decode_latents(latents, config))

    def _decode_latents(self, latents: mx.array, config: Any) -> Image.Image:
        """Decode a step's latents to an image, as mflux decodes those of the last step."""
        vae, tiling = self._model.vae, self._model.tiling_config
        assert self._latents, "a preset without it has no partial images"
        unpacked = self._latents.unpack_latents(latents=latents, height=config.height, width=config.width)
        if hasattr(vae, "decode_packed_latents"):
            pixels = vae.decode_packed_latents(unpacked, tiling_config=tiling)
        else:
            pixels = pkgutil.resolve_name(_DECODER).decode(vae=vae, latent=unpacked, tiling_config=tiling)
        image: Image.Image = pkgutil.resolve_name(_PIXELS).to_pil(pixels)
        return image


def _adapter_arguments(preset: Preset, options: ImageOptions) -> dict[str, Any]:
    """Return mflux's arguments for adapters; mflux would search the Hub for unknown adapters.

    Raise OrchardError if the preset takes no adapters, or if an adapter is not a file that is safe to read.
    """
    if len(options.lora_scales) not in (0, len(options.lora_paths)):
        message = (
            f"lora_scales has {len(options.lora_scales)} numbers, and lora_paths {len(options.lora_paths)} files; "
        )
        message += "give one number for each file, or none"
        raise OrchardError("model_failed", message)
    for path in options.lora_paths:
        if not path.endswith(".safetensors") or not os.path.isfile(_expand_path(path)):
            message = f"'{path}' of lora_paths is not a file that ends with .safetensors; download the adapter's file"
            raise OrchardError("model_failed", message)
    if not options.lora_paths:
        return {}
    if not preset.loras:
        raise OrchardError("model_failed", f"{preset.name} takes no LoRA adapters; remove lora_paths")
    return {"lora_paths": list(map(_expand_path, options.lora_paths)), "lora_scales": list(options.lora_scales)}


def _copy_unpadded(tokenizer: Any) -> Any:
    """Return a copy of a tokenizer that shares nothing with it and doesn't pad."""
    copied = copy.deepcopy(tokenizer)
    copied.padding = "do_not_pad"
    return copied


def _expand_path(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))


def _load_weights(model: Any, progress: Callable[[float], None]) -> None:
    """Read the weights, which mflux has loaded lazily, piece by piece."""
    arrays = [array for _, array in tree_flatten(model.parameters())]
    total = sum(array.nbytes for array in arrays) or 1
    done = 0
    piece: list[mx.array] = []
    while arrays or piece:
        if arrays:
            piece.append(arrays.pop())
        if not arrays or sum(array.nbytes for array in piece) >= _PIECE_BYTES:
            mx.eval(piece)
            done += sum(array.nbytes for array in piece)
            piece = []
            progress(done / total)


class _LogWriter:
    """A file that writes a library's prints to the log."""

    def write(self, text: str) -> int:
        if line := text.strip():
            log.info("mflux: %s", line)
        return len(text)

    def flush(self) -> None:
        """Do nothing."""


@contextlib.contextmanager
def _log_prints() -> Iterator[None]:
    with contextlib.redirect_stdout(_LogWriter()):
        yield
