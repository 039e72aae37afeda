"""Turns a medium's bytes into the input of the model's encoder, with the model's own processor."""

import contextlib
import copy
import hashlib
import inspect
import io
import logging
import wave
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import mlx.core as mx
import numpy as np
from mlx_vlm.prompt_utils import get_message_json
from mlx_vlm.utils import resolve_video_sampling
from PIL import Image

from orchard.backends.bounded_cache import BoundedCache
from orchard.backends.vision.decode import FilmDecoder, decode_audio, decode_image
from orchard.backends.vision.resize import resize_image
from orchard.core.errors import OrchardError
from orchard.core.media import MAX_PIXELS, MediaKind, MediaOptions, MediaPart, media_error

log = logging.getLogger("orchard.worker")

_TOKEN_KEYS = (
    *(f"{kind}_token_{name}" for kind in ("image", "video", "audio") for name in ("id", "index")),
    *(f"{kind}_context_token_id" for kind in ("img", "video", "sound")),
    "image_patch_id",
)
# For models that find a medium's places by the tokens around them.
_PLACE_TOKENS = {"minicpmo": "<unk>"}
# A processor's outputs for the text; the others are for the encoder.
_TEXT_OUTPUTS = {"input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids"}
_SAMPLE_RATE = 16_000
MOST_INPUT_BYTES = 512 * 2**20


class Medium(NamedTuple):
    """A medium as the model's processor has prepared it.

    `text`: its text in the prompt, in which its features replace `features` tokens. `inputs`: the encoder's inputs.
    `grid`: the times, rows and columns of these tokens, and `seconds` from one time to the next, if the processor tells
    them. `digest`: equal for equal media that are processed in the same way.
    `description`: for the log.
    """

    kind: MediaKind
    digest: bytes
    text: str
    tokens: list[int]
    features: int
    inputs: dict[str, Any]
    grid: tuple[int, int, int] | None = None
    seconds: float = 1.0
    description: str = ""

    @property
    def bytes(self) -> int:
        """The bytes of the encoder's inputs."""
        return sum(int(array.nbytes) for value in self.inputs.values() for array in arrays_of(value))


Check = Callable[[Medium], None]


class _DecodedMedium(NamedTuple):
    """A decoded medium as the processor's arguments, and everything that distinguishes it from others of its kind.

    `seconds` from one time of a video to the next; `description`: its size, before and after resizing.
    """

    arguments: dict[str, Any]
    identity: list[Any]
    description: str
    seconds: float = 1.0


class MediaReader:
    """Reads media for one model. Only one thread at a time may use it; no method evaluates anything with MLX."""

    def __init__(self, processor: Any, network: Any, most_bytes: int = MOST_INPUT_BYTES) -> None:
        """`processor` and `network` are mlx-vlm's; the network is not kept. `most_bytes`: the media cache's limit."""
        self._recorder = _Recorder(processor.tokenizer)
        self._processor = copy.copy(processor)
        self._processor.tokenizer = self._recorder
        self._tokenizer = processor.tokenizer
        self._cache: BoundedCache[Medium] = BoundedCache(most_bytes)
        self._films = FilmDecoder()
        self._model_type = str(network.config.model_type)
        call = getattr(self._processor, "process", self._processor)
        self._call = call
        self._parameters = inspect.signature(call).parameters
        self.feature_ids = frozenset(_token_ids(network.config, processor))
        """The tokens of a prompt whose embeddings are replaced by media."""
        self.kinds = self._find_kinds(network)
        """The kinds of media that the model takes."""
        self._images: Any = getattr(processor, "image_processor", None)
        self._merge = int(getattr(self._images, "merge_size", None) or 1)
        # Processors of Qwen's kind have both bounds, and round to whole patches.
        self._sizes_images = hasattr(self._images, "min_pixels") and hasattr(self._images, "max_pixels")
        side = getattr(self._images, "patch_size", None)
        # Jina's processor has such bounds, too, but splits images.
        self._patch = side if isinstance(side, int) and hasattr(self._images, "merge_size") else 0
        extractor = getattr(processor, "feature_extractor", None)
        self._sample_rate = int(getattr(extractor, "sampling_rate", None) or _SAMPLE_RATE)

    def close(self) -> None:
        """End the process that decodes videos. Any thread may call this."""
        self._films.close()

    def _find_kinds(self, network: Any) -> frozenset[MediaKind]:
        has = {name for name, part in media_parts(network)}
        known = {name for name, _ in _config_values(network.config)}
        found: set[MediaKind] = set()
        if any("vision" in name or "visual" in name for name in has) or not has:
            found.add("image")
            # Some processors have an argument for videos but can't read them (GLM-4.1V).
            reads = "videos" in self._parameters and getattr(self._processor, "video_processor", None) is not None
            if reads and any(name.startswith(("video_token", "video_context_token")) for name in known):
                found.add("video")
        if any("audio" in name or "sound" in name for name in has) and {"audio", "audios"} & self._parameters.keys():
            found.add("audio")
        return frozenset(found)

    def usual_placeholders(self, kind: MediaKind) -> Iterator[str]:
        """Yield mlx-vlm's placeholders for a medium, for a model whose chat template doesn't write one."""
        with contextlib.suppress(ValueError):  # it knows no such model
            message = get_message_json(self._model_type, "Qtext", num_images=1, num_audios=0)
            content = message["content"] if isinstance(message, dict) else message
            if kind == "image" and isinstance(content, str):
                yield content.replace("Qtext", "")
        token = getattr(self._processor, f"{kind}_token", None)
        yield token if isinstance(token, str) else f"<{kind}>"

    def expand_placeholder(self, kind: MediaKind, placeholder: str) -> str | None:
        """Return the processor's text for a small medium with this placeholder; None: it doesn't replace that.

        Videos aren't tried, because making one takes longer than reading one.
        """
        made = {"image": _small_image, "audio": _small_sound}
        if kind not in made:
            return placeholder
        try:
            return self.read(MediaPart(kind, "", "", data=made[kind]()), placeholder).text
        except OrchardError:
            return None

    def read(
        self, part: MediaPart, placeholder: str, check: Check = lambda expected: None, salt: bytes = b""
    ) -> Medium:
        """Decode and prepare a medium with this placeholder, or return it from the cache: later turns repeat it.

        Only media with the same `salt` have the same digest, and so are cached together. `check` is called before
        preparing an image that may become large, and may raise. Raise OrchardError("invalid_request") that blames the
        part if it can't be read.
        """
        key = salt, part.kind, hashlib.sha256(part.data).digest(), part.options, placeholder
        medium = self._cache.get(key, lambda: self._prepare_medium(part, placeholder, check, salt))
        log.debug("%s: %s", part.param, medium.description)
        return medium

    def _prepare_medium(self, part: MediaPart, placeholder: str, check: Check, salt: bytes) -> Medium:
        decoded = self._decode_part(part)
        if part.kind == "image" and self._sizes_images and self._patch:
            check(self._estimate_image(part, decoded.arguments["images"][0].size))
        digest = hashlib.sha256(salt + part.kind.encode())
        for piece in decoded.identity:
            digest.update(np.ascontiguousarray(piece).data if isinstance(piece, np.ndarray) else repr(piece).encode())
        try:
            with self._use_bounds(self._pixel_bounds(part)):
                made = self._run_processor(placeholder, decoded.arguments)
        except OrchardError:
            raise
        except Exception as error:
            log.info("the model's processor rejects a medium", exc_info=error)
            raise media_error(part, f"the model's processor rejects it: {error or type(error).__name__}") from error
        text, tokens, inputs = made
        features = self._count_features(tokens)
        if not features or not inputs:
            raise media_error(part, "it is too short or too small for the model")
        grid = self._grid(inputs)
        shapes = {name: value.shape for name, value in inputs.items() if hasattr(value, "shape")}
        told = f"{decoded.description}; it takes {features} tokens, in a grid of {grid}, and is encoded from {shapes}"
        return Medium(part.kind, digest.digest(), text, tokens, features, inputs, grid, decoded.seconds, told)

    def _estimate_image(self, part: MediaPart, size: tuple[int, int]) -> Medium:
        """Estimate what a processor that resizes images itself makes of an image, without allocating it."""
        bounds = {"min_pixels": self._images.min_pixels, "max_pixels": self._images.max_pixels} | self._pixel_bounds(
            part
        )
        pixels = min(max(size[0] * size[1], bounds["min_pixels"] or 1), bounds["max_pixels"] or MAX_PIXELS)
        patches = pixels // self._patch**2
        times = int(getattr(self._images, "temporal_patch_size", None) or 1)
        made = np.broadcast_to(np.float32(), (patches, 3 * times * self._patch**2))
        tokens = [0] * (patches // self._merge**2)
        return Medium("image", b"", "", tokens, len(tokens), {"pixel_values": made})

    def _pixel_bounds(self, part: MediaPart) -> dict[str, int]:
        """Return the bounds in pixels for a processor that resizes images itself; {}: its own bounds.

        A requested bound replaces the processor's.
        """
        least, most = part.options.min_pixels, part.options.max_pixels
        if part.kind != "image" or not self._sizes_images or (least is None and most is None):
            return {}
        own_least, own_most = self._images.min_pixels or 1, self._images.max_pixels or MAX_PIXELS
        if least is None:
            least = min(own_least, most or own_least)
        return {"min_pixels": least, "max_pixels": most or max(own_most, least)}

    @contextlib.contextmanager
    def _use_bounds(self, bounds: Mapping[str, int]) -> Iterator[None]:
        """Set these bounds in the image processor: few processors of mlx-vlm pass arguments for them."""
        own = {name: getattr(self._images, name) for name in bounds}
        for name, bound in bounds.items():
            setattr(self._images, name, bound)
        try:
            yield
        finally:
            for name, bound in own.items():
                setattr(self._images, name, bound)

    def _decode_part(self, part: MediaPart) -> _DecodedMedium:
        match part.kind:
            case "image":
                whole = decode_image(part)
                image = resize_image(whole, part.options, has_bounds=not self._sizes_images)
                told = f"an image of {_format_size(whole.size)} pixels, as {_format_size(image.size)}"
                return _DecodedMedium(
                    {"images": [image]}, [np.asarray(whole), whole.size, _size_options(part.options)], told
                )
            case "audio":
                samples = decode_audio(part, self._sample_rate)
                name = "audio" if "audio" in self._parameters else "audios"
                told = f"a sound, as {len(samples)} samples at {self._sample_rate} Hz"
                return _DecodedMedium({name: [samples]}, [samples, len(samples)], told)
        return self._decode_film(part)

    def _decode_film(self, part: MediaPart) -> _DecodedMedium:
        wished = {name: value for name in ("fps", "max_frames") if (value := getattr(part.options, name)) is not None}
        film = self._films.decode(part, resolve_video_sampling(self._processor, wished))
        frames, seen = film.frames, film.metadata
        component = getattr(self._processor, "video_processor", None)
        given = {"videos": [frames], "fps": [seen.sampled_fps], "video_metadata": [seen]}
        given = {name: value for name, value in given.items() if name == "videos" or name in self._parameters}
        known = [frames, frames.shape, seen.frames_indices, seen.fps, _size_options(part.options)]
        told = f"{len(frames)} of {seen.total_num_frames} frames of {_format_size(film.size)} pixels"
        told += f", as {_format_size((frames.shape[3], frames.shape[2]))}"
        seconds = int(getattr(component, "temporal_patch_size", None) or 1) / seen.sampled_fps
        return _DecodedMedium(given, known, told, seconds)

    def _count_features(self, tokens: Sequence[int]) -> int:
        return sum(token in self.feature_ids for token in tokens)

    def _run_processor(self, placeholder: str, given: dict[str, Any]) -> tuple[str, list[int], dict[str, Any]]:
        """Return the text that the processor makes of a placeholder, its tokens, and the encoder's inputs."""
        if "add_special_tokens" in self._parameters:
            given = given | {"add_special_tokens": False}
        self._recorder.text = None
        made = self._call(text=placeholder, return_tensors="mlx", **given)
        tokens = [int(token) for token in np.asarray(_to_numpy(made["input_ids"])).reshape(-1)]
        text = self._text_of_tokens(placeholder, tokens)
        made = {"pixel_values" if name == "images" else name: value for name, value in made.items()}
        inputs = {
            name: _to_numpy(value) for name, value in made.items() if name not in _TEXT_OUTPUTS and value is not None
        }
        return text, tokens, inputs

    def _text_of_tokens(self, placeholder: str, tokens: list[int]) -> str:
        """Return the text of a processor's tokens: what it tokenised or, if that lacks features, the decoded tokens."""
        for text in (self._recorder.text, self._decode_tokens(placeholder, tokens)):
            if text is not None:
                again = self._tokenizer.encode(text, add_special_tokens=False)
                if self._count_features(again) == self._count_features(tokens):
                    return text
        raise ValueError("its tokens have no text")

    def _decode_tokens(self, placeholder: str, tokens: list[int]) -> str | None:
        """Return the text of tokens that a processor has built from a placeholder; None if they have none."""
        if min(tokens, default=0) < 0:  # in Phi-3.5-vision and FastVLM, these stand for what has no token
            return None
        begin = int(tokens[:1] == [getattr(self._tokenizer, "bos_token_id", None)])
        text: str = self._tokenizer.decode(tokens[begin:], skip_special_tokens=False)
        # DeepSeek-OCR's processor leaves out the last token.
        end = placeholder[len(placeholder.rstrip()) :]
        return text.removesuffix(end) + end

    def _grid(self, inputs: Mapping[str, Any]) -> tuple[int, int, int] | None:
        found = inputs.get("image_grid_thw", inputs.get("video_grid_thw"))
        if found is None:
            return None
        times, rows, columns = (int(size) for size in np.asarray(found).reshape(-1)[:3])
        return times, rows // self._merge, columns // self._merge


class _Recorder:
    """A tokenizer that remembers the text that it has tokenised."""

    def __init__(self, tokenizer: Any) -> None:
        self._of = tokenizer
        self.text: str | None = None

    def __call__(self, text: Any, *args: Any, **named: Any) -> Any:
        self.text = text[0] if isinstance(text, list) else text
        return self._of(text, *args, **named)

    def encode(self, text: Any, *args: Any, **named: Any) -> Any:
        """Tokenise a text as the tokenizer does."""
        self.text = text
        return self._of.encode(text, *args, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._of, name)


def _size_options(options: MediaOptions) -> tuple[Any, ...]:
    """Return all options that determine how an image is resized."""
    return options.resize_shape, options.detail == "low", options.min_pixels, options.max_pixels


def _format_size(size: tuple[int, int]) -> str:
    return f"{size[0]} x {size[1]}"


def _small_image() -> bytes:
    written = io.BytesIO()
    Image.new("RGB", (64, 64), (128, 128, 128)).save(written, "PNG")
    return written.getvalue()


def _small_sound() -> bytes:
    written = io.BytesIO()
    with wave.open(written, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(_SAMPLE_RATE)
        file.writeframes(b"\0\1" * _SAMPLE_RATE)
    return written.getvalue()


def _to_numpy(value: Any) -> Any:
    """Return MLX arrays as NumPy arrays, also in lists, for use in another thread."""
    if isinstance(value, list):
        return [_to_numpy(one) for one in value]
    if not isinstance(value, mx.array):
        return value
    return np.array(value.astype(mx.float32) if value.dtype == mx.bfloat16 else value)


def arrays_of(value: Any) -> Iterator[Any]:
    """Yield the arrays of an encoder's input, which may be lists of arrays of several sizes."""
    if isinstance(value, list | tuple):
        for one in value:
            yield from arrays_of(one)
    elif hasattr(value, "nbytes"):
        yield value


def media_parts(network: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a network that aren't its language model, with their names."""
    inner = getattr(network, "thinker", network)
    for name, part in inner.items():
        if name != "language_model" and hasattr(part, "parameters"):
            yield name, part


def _config_values(config: Any) -> Iterator[tuple[str, Any]]:
    yield from vars(config).items()
    if (thinker := getattr(config, "thinker_config", None)) is not None:
        yield from vars(thinker).items()


def _token_ids(config: Any, processor: Any) -> Iterator[int]:
    known = [*_config_values(config), *((key, getattr(processor, key, None)) for key in _TOKEN_KEYS)]
    for name, value in known:
        if name in _TOKEN_KEYS and isinstance(value, int) and value >= 0:
            yield value
    # Gemma 3n has tokens whose embeddings come from the encoders, such as those after an image and after audio.
    if first := getattr(getattr(config, "vision_config", None), "vocab_offset", None):
        yield from range(first, config.text_config.vocab_size)
    if token := _PLACE_TOKENS.get(str(config.model_type)):
        yield processor.tokenizer.convert_tokens_to_ids(token)
