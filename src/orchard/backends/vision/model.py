"""Models of text and media in mlx-vlm's format."""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_vlm.utils
import numpy as np
from mlx.utils import tree_flatten
from mlx_vlm.models.cache import make_prompt_cache
from mlx_vlm.trainer.peft import apply_lora_layers

from orchard import folder_files
from orchard.backends.kernels import cpu
from orchard.backends.kernels.rotary import UNUSED_POSITIONS, Rotary, install_rotary
from orchard.backends.model_folder import FolderModel, Library, Progress, forbid_code, load_folder, read_config
from orchard.backends.vision.cost import EncodingCost
from orchard.backends.vision.encoder import MOST_FEATURE_BYTES, MediaEncoder, PlacedMedium, prompt_positions
from orchard.backends.vision.inputs import MOST_INPUT_BYTES, MediaReader, Medium
from orchard.backends.vision.position_scale import PositionScale, scale_by_row
from orchard.backends.vision.shared_keys import mend_shared_keys
from orchard.core.errors import OrchardError
from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching.model import LogitsAt, PlacedRows, PromptEmbeddings, SlicedArray
from orchard.engine.memory import memory_limit

log = logging.getLogger("orchard.worker")

_DEFAULTS = TextOptions()
_ADAPTER_WEIGHTS = ("adapters.safetensors", "weights.safetensors")
# Architectures whose media are rejected, and why.
UNSERVED_MEDIA = {
    "falcon_ocr": "the tokens of its images see each other both ways and lie in two dimensions, which is not served",
    "granite_vision": "mlx-vlm 0.7.10 puts a whole image in the place of each of its tokens",
    "llava_next": "mlx-vlm 0.7.10 puts a whole image in the place of each of its tokens",
    "minicpmv4_7": "its images are cut up and have positions of their own, which is not served",
    "mllama": "it reads images by cross attention, which is not served",
    "paligemma": "its prompts' tokens see each other both ways, which mlx-vlm 0.7.10 does not pass on beside an image",
    "phi3_v": "in mlx-vlm 0.7.10, negative numbers stand for its images in prompts, which is not served",
}
_TYPE_NUMBERS = {"image": 1, "video": 2, "audio": 3}
_INPUT_SHARE, _FEATURE_SHARE = 1 / 32, 1 / 64  # of the memory limit: the most for cached media
_BEYOND_OFFSET = 2**30  # tokens
_LEAST_TOKENS = 1024  # of a prompt, embedded at once


class NoMediaError(Exception):
    """A folder's model can't be served with media; the message is the end of a sentence."""


@dataclass(frozen=True, kw_only=True)
class VisionModel(FolderModel):
    """A loaded model: the engine's `LanguageModel`, and the reader and the encoder of its media.

    `mrope`: tokens have positions in three dimensions, in the last axis if `mrope_last`; `rotary`: rotates text
    faster, if possible. `scale`: scales queries by their positions, if the model does. `tokens_per_second`: how many
    positions a second of a video spans; 0: one for each frame. `attends_both_ways`: the tokens of an image attend to
    each other. `type_names`: the arguments that tell which tokens are media. `cache_bytes`: the most for media that are
    cached between requests.
    """

    vocab_size: int
    reader: MediaReader
    encoder: MediaEncoder
    mrope: bool
    tokens_per_second: float
    attends_both_ways: bool
    cost: EncodingCost
    mrope_last: bool = False
    type_names: tuple[str, ...] = ()
    rotary: Rotary | None = None
    scale: PositionScale | None = None
    cache_bytes: int = 0

    def __post_init__(self) -> None:
        """Correct what the library gets wrong in the network."""
        mend_shared_keys(self.network.language_model)

    def new_cache(self) -> list[Any]:
        """Return an empty cache, one entry per layer."""
        cache: list[Any] = make_prompt_cache(self.network.language_model, self.max_kv_size)
        return cache

    def forward(
        self,
        tokens: mx.array,
        cache: list[Any],
        *,
        embeddings: mx.array | None = None,
        positions: mx.array | None = None,
        extras: dict[str, Any] | None = None,
    ) -> mx.array:
        """Read tokens (rows, n), append them to the cache, and return lazy logits (rows, n, vocab_size).

        `embeddings`, `positions` and `extras` are those of `embed`. Raise ValueError for positions if the model counts
        them itself.
        """
        given = dict(extras or {})
        if embeddings is not None:
            given["inputs_embeds"] = embeddings
        if self.mrope:
            numbers = self._positions(tokens, cache, positions)
            given["position_ids"] = numbers.transpose(1, 2, 0) if self.mrope_last else numbers
        elif positions is not None:
            raise ValueError("this model counts its positions itself")
        if self.scale and isinstance(cache[0].offset, mx.array):
            self.scale.offset = cache[0].offset
        try:
            logits: mx.array = self.network.language_model(tokens, cache=cache, **given).logits
        finally:
            if self.rotary:
                self.rotary.offset = None
            if self.scale:
                self.scale.offset = None
        return logits

    def hidden_states(self, tokens: mx.array, cache: list[Any], **given: Any) -> mx.array:
        """Read tokens as `forward` does, and return the lazy last hidden states (rows, n, width)."""
        assert self.output, "the layer that computes the logits was not found"
        return self.output.inputs(lambda: self.forward(tokens, cache, **given))

    @property
    def logits_at(self) -> LogitsAt | None:
        """See `LanguageModel`."""
        if not (output := self.output):
            return None
        return lambda tokens, cache, places: output.run_at(lambda: self.forward(tokens, cache), places)

    def _positions(self, tokens: mx.array, cache: Sequence[Any], positions: mx.array | None) -> mx.array:
        """Return positions (3, rows, n): the given ones, or those that continue each row's cache."""
        counting = [layer for layer in cache if hasattr(layer, "offset")]
        first = counting[0].offset
        if isinstance(first, mx.array):
            # mlx-vlm's layers cut their masks after the longest row, and would wait for the device to find it. Here no
            # mask is longer, and nothing else uses these offsets.
            for layer in counting:
                layer.offset = _BEYOND_OFFSET
        if positions is not None and positions.ndim == 3:
            return positions
        rows, count = tokens.shape
        if positions is not None:
            first = positions.reshape(rows, count)[:, 0]
        if self.rotary:
            self.rotary.offset = first
            return UNUSED_POSITIONS
        return mx.broadcast_to(mx.array(first).reshape(-1, 1) + mx.arange(count), (3, rows, count))

    def embed(self, tokens: Sequence[int], media: Sequence[PlacedMedium], known: int) -> PromptEmbeddings:
        """Return the embeddings of a prompt from its token `known` on, which must not be inside a medium.

        They end with the prompt or with a medium, so that not all media are in memory at once. Only the engine's thread
        calls this.
        """
        positions, delta = prompt_positions(len(tokens), media, self.tokens_per_second) if self.mrope else (None, 0)
        left = [placed for placed in media if placed.stop > known]
        if not left:
            return PromptEmbeddings(known, position_delta=delta)
        now = left[:1]
        for placed in left[1:]:
            if now[-1].stop - known >= _LEAST_TOKENS:
                break
            now.append(placed)
        stop = now[-1].stop
        if len(now) == len(left) and len(tokens) - known <= _LEAST_TOKENS:
            stop = len(tokens)  # the few tokens after the last medium need no separate pass
        made = self.encoder.embed(tokens, known, stop, now)
        own = None if positions is None else positions[..., known:stop]
        types: dict[str, SlicedArray | PlacedRows] = {name: _token_types(known, stop, now) for name in self.type_names}
        return made._replace(positions=own, position_delta=delta, extras=made.extras | types)

    def drop_all(self) -> None:
        """Forget the encoded media that are cached between requests. Only the engine's thread calls this."""
        self.encoder.drop_all()

    def can_divide(self, medium: Medium) -> bool:
        """Return whether a medium's tokens may be read in several passes, as they only attend to earlier tokens."""
        return not (self.attends_both_ways and medium.kind in ("image", "video"))

    def media_bytes(self, media: Sequence[PlacedMedium]) -> int:
        """Return the most bytes that encoding media takes at any time, including the prompt's embeddings."""
        if not media:
            return 0
        tokens = _LEAST_TOKENS + max(one.stop - one.start for one in media)  # embedded at once
        return max(self.cost.encoding_bytes(one.medium) for one in media) + self.cost.embedding_bytes(tokens)


def _token_types(start: int, stop: int, media: Sequence[PlacedMedium]) -> SlicedArray:
    """Return the types of a prompt's tokens from `start` to `stop` (1, tokens), as transformers numbers them."""
    types = np.zeros((1, stop - start), np.int32)
    for placed in media:
        types[0, placed.places - start] = _TYPE_NUMBERS[placed.medium.kind]
    return SlicedArray(mx.array(types))


def install_block_masks(network: Any) -> None:
    """Let the tokens of an image attend to each other in Gemma 4's layers with a sliding window, within that window.

    transformers does so, whatever else is in the prompt. mlx-vlm 0.7.10 does it in all layers and beyond the window,
    but not after tokens that were read before, such as a cached beginning of the prompt.
    """
    model = network.language_model.model
    made = model._make_masks

    def overlay(mask: mx.array, types: mx.array) -> mx.array:
        """Return a mask (..., n, earlier places + n) with the blocks of these n tokens."""
        blocks = model._block_sequence_ids_for_mask(types)
        own = mx.arange(types.shape[-1])
        alike = (blocks[..., None] == blocks[:, None]) & (blocks[..., None] != -1)
        alike &= own[:, None] - own < model.window_size
        before = mask.shape[-1] - types.shape[-1]
        return mask | mx.pad(alike, [(0, 0), (0, 0), (before, 0)])[:, None]

    def masks(hidden: mx.array, cache: list[Any], mm_token_type_ids: mx.array | None = None) -> list[Any]:
        causal: list[Any] = made(hidden, cache)
        if mm_token_type_ids is None:
            return causal
        blocks = made(hidden, cache, mm_token_type_ids)
        kinds = [layer.layer_type == "sliding_attention" for layer in model.layers]
        return [one if slides else other for one, other, slides in zip(blocks, causal, kinds, strict=True)]

    object.__setattr__(model, "_apply_blockwise_bidirectional_overlay", overlay)
    object.__setattr__(model, "_make_masks", masks)


def load_vision_model(
    path: str, options: TextOptions = _DEFAULTS, progress: Progress = lambda fraction: None
) -> VisionModel:
    """Load a model's folder: see `load_folder`. Raise NoMediaError if it can only be served without media."""
    folder = Path(path)
    config = read_config(folder, _MLX_VLM.name)
    with forbid_code():
        processor = _load_processor(folder, config)
        loaded = load_folder(folder, options, progress, _MLX_VLM, template=_read_chat_template(folder))
    network = loaded.network
    cpu.use_numpy(network, cpu.MANY_ROWS)  # the rows are patches, audio frames or a long prompt's tokens
    if both_ways := attends_both_ways(network.language_model):
        install_block_masks(network)
    input_bytes, feature_bytes = _cache_limits(options)
    reader = MediaReader(processor, network, input_bytes)
    if reason := UNSERVED_MEDIA.get(config["model_type"]):
        log.warning("the model is served without images, audio and video: %s", reason)
        reader.kinds = frozenset()
    elif not reader.kinds:
        raise NoMediaError("mlx-vlm's model has no part for images, audio or video")
    mrope = has_mrope(network, config)
    is_ernie = config["model_type"] == "ernie4_5_moe_vl"
    model = VisionModel(
        **vars(loaded),
        vocab_size=0,
        reader=reader,
        encoder=MediaEncoder(network, reader.feature_ids, feature_bytes),
        mrope=mrope,
        rotary=install_rotary(network.language_model) if mrope else None,
        scale=scale_by_row(network.language_model),
        tokens_per_second=_tokens_per_second(config),
        attends_both_ways=both_ways,
        cost=EncodingCost(network),
        mrope_last=is_ernie,
        # ERNIE has separate experts for images, which mlx-vlm 0.7.10 doesn't use when it generates.
        type_names=("token_type_ids",) if is_ernie else ("mm_token_type_ids",) if both_ways else (),
        cache_bytes=input_bytes + feature_bytes if reader.kinds else 0,
    )
    return replace(model, vocab_size=model.forward(mx.array([[0]], mx.int32), model.new_cache()).shape[-1])


def attends_both_ways(language_model: Any) -> bool:
    """Return whether the tokens of an image or a video attend to each other in a network's language model."""
    config = getattr(language_model, "config", None)
    return getattr(config, "use_bidirectional_attention", None) == "vision"


def _cache_limits(options: TextOptions) -> tuple[int, int]:
    """Return the most bytes for cached prepared media, and for cached features."""
    most = memory_limit(options)
    return min(MOST_INPUT_BYTES, int(most * _INPUT_SHARE)), min(MOST_FEATURE_BYTES, int(most * _FEATURE_SHARE))


def has_mrope(network: Any, config: Mapping[str, Any]) -> bool:
    """Return whether a network's tokens have positions in three dimensions, by its configuration or its defaults."""
    text = getattr(network.config, "text_config", None)
    defaults = [getattr(text, name, None) for name in ("rope_scaling", "rope_parameters")]
    return any(_has_key(one, "mrope_section") for one in (config, *defaults))


def _tokens_per_second(config: Mapping[str, Any]) -> float:
    """Return how many positions a second of a video spans (Qwen2.5-VL, Qwen-Omni); 0: one for each frame."""
    thinker, vision = (config.get(part) or {} for part in ("thinker_config", "vision_config"))
    return float(thinker.get("position_id_per_seconds") or vision.get("tokens_per_second") or 0)


def _load_processor(folder: Path, config: Mapping[str, Any]) -> Any:
    """Load a folder's processor. Raise NoMediaError if mlx-vlm doesn't know the model or the folder lacks its files.

    Raise OrchardError("model_failed") if a package is missing that mlx-vlm needs only for this kind of model.
    """
    try:
        mlx_vlm.utils.get_model_and_args(dict(config))  # mlx-vlm's own module; code in the folder is never run
    except ModuleNotFoundError as error:
        module = str(error.name).partition(".")[0]
        package = {"cv2": "opencv-python"}.get(module, module)
        needs = f"mlx-vlm needs the package {package} for models of the kind {config['model_type']!r}"
        install = f"uv pip install {package}, or pip install {package}"
        raise OrchardError("model_failed", f"{needs}. Install it in Orchard's environment: {install}") from error
    except (ValueError, KeyError, ImportError) as error:
        raise NoMediaError(f"mlx-vlm does not know its architecture ({error})") from error
    if not _has_media_weights(folder):
        raise NoMediaError("its weights are those of the language model only")
    try:
        processor = mlx_vlm.utils.load_processor(folder, add_detokenizer=False, trust_remote_code=False)
        own = mlx_vlm.utils.load_image_processor(folder)
    except Exception as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise NoMediaError(f"its processor can't be loaded ({first})") from error
    if own is not None:
        processor.image_processor = own
    if not hasattr(processor, "tokenizer"):
        raise NoMediaError("its folder has no files of a processor")
    # Only this thread could compute a processor's lazy arrays, such as the filters of Inkling's.
    parts = [vars(part) for part in vars(processor).values() if hasattr(part, "__dict__")]
    mx.eval([value for part in parts for value in part.values() if isinstance(value, mx.array)])
    return processor


_MEDIA_WEIGHTS = re.compile(r"vision|visual|image|audio|speech|(^|[._])(vit|vpm|sam|mm)[._]")


def _has_media_weights(folder: Path) -> bool:
    """Return whether the name of a weight in a folder is that of a media encoder."""
    files = list(folder.glob("*.safetensors"))
    for file in files:
        try:
            names = folder_files.read_header(file)
        except (OSError, ValueError):
            return True  # the load says what is wrong with it
        if any(_MEDIA_WEIGHTS.search(name) for name in names):
            return True
    return not files


def _read_chat_template(folder: Path) -> str | None:
    """Return the chat template in a file that only processors read; None if there is none."""
    try:
        template = folder_files.read_json(folder / "chat_template.json")["chat_template"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return template if isinstance(template, str) else None


def _has_key(config: Any, key: str) -> bool:
    return isinstance(config, Mapping) and (key in config or any(_has_key(value, key) for value in config.values()))


def _load_vision_network(folder: Path) -> tuple[Any, dict[str, Any]]:
    return mlx_vlm.utils.load_model(folder, lazy=True), mlx_vlm.utils.load_config(folder)


def _read_one_token(network: Any) -> mx.array:
    cache = make_prompt_cache(network.language_model)
    logits: mx.array = network.language_model(mx.array([[0]], mx.int32), cache=cache).logits
    return logits


def _apply_vision_adapter(network: Any, adapter: Path) -> set[str]:
    """Apply an adapter to a network. Raise ValueError if its weights don't fit, which mlx-vlm doesn't check."""
    apply_lora_layers(network, str(adapter))
    file = next(adapter / name for name in _ADAPTER_WEIGHTS if (adapter / name).is_file())
    weights: Any = mx.load(str(file))
    known = dict(tree_flatten(network.parameters()))
    if missing := weights.keys() - known.keys():
        raise ValueError(f"incompatible weights\nthe model has no {min(missing)}")
    try:
        _read_one_token(network)
    except ValueError as error:  # two shapes can't be multiplied
        raise ValueError(f"incompatible weights\n{error}") from error
    return set(weights)


_MLX_VLM = Library("mlx-vlm", _load_vision_network, _read_one_token, _apply_vision_adapter, _ADAPTER_WEIGHTS)
