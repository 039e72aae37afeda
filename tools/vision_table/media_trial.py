"""Tests whether a model reads media as mlx-vlm's own model does."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_vlm.utils import VideoMetadata, prepare_inputs
from tests.support.media import film, heard, picture, png, sound, video, wav
from tests.support.vision_families import VisionFamily
from tests.support.vision_models import load_reference, logprobs_of

from orchard.backends.vision.encoder import place_media
from orchard.backends.vision.inputs import Medium
from orchard.backends.vision.model import VisionModel
from orchard.backends.vision.shared_keys import mend_shared_keys
from orchard.core.media import MediaKind, MediaPart

_ALIKE = 0.01
# Of each kind two, which are not alike.
_SAMPLES: dict[MediaKind, list[bytes]] = {
    "image": [png(picture(seed)) for seed in (1, 2)],
    "audio": [wav(sound(seed)) for seed in (1, 2)],
    "video": [video(film(seed)) for seed in (1, 2)],
}
# The first of each, as mlx-vlm takes it; at two frames a second all frames of a film are looked at.
_THEIRS: dict[MediaKind, dict[str, list[Any]]] = {
    "image": {"images": [picture(1)]},
    "audio": {"audio": [heard(_SAMPLES["audio"][0])]},
    "video": {"videos": [film(1)], "video_metadata": [VideoMetadata(4, 2.0, [0, 1, 2, 3])]},
}


def placeholder_of(family: VisionFamily, kind: MediaKind) -> str:
    """Return what stands for a medium in the prompts of a family."""
    return {"image": family.image, "audio": family.audio, "video": family.video}[kind]


def misread(model: VisionModel, family: VisionFamily, kind: MediaKind, folder: Path) -> str:
    """Return what is wrong with the log-probabilities after a prompt with a medium; "": they are those of mlx-vlm.

    Of videos, where mlx-vlm doesn't number frames by their seconds: "" if another video has other ones.
    """
    placeholder = placeholder_of(family, kind)
    with ThreadPoolExecutor(1) as thread:  # the server reads media in another thread than models, too
        parts = [MediaPart(kind, "", "", data=data) for data in _SAMPLES[kind]]
        one, other = thread.map(lambda part: model.reader.read(part, placeholder), parts)
    text = f"The sea {placeholder} is blue."
    tokens = _tokens(model, text.replace(placeholder, one.text))
    logprobs = _logprobs(model, one, tokens)
    if bool(
        (
            mx.abs(logprobs - _logprobs(model, other, _tokens(model, text.replace(placeholder, other.text)))) < _ALIKE
        ).all()
    ):
        return "another one changes nothing"
    if kind == "video" and model.tokens_per_second:
        return ""
    network, processor = load_reference(folder)
    mend_shared_keys(network.language_model)
    theirs = np.array(prepare_inputs(processor, prompts=text, **_THEIRS[kind])["input_ids"]).reshape(-1).tolist()
    if _aligned(tokens, theirs):
        logprobs = _logprobs(model, one, theirs)
    expected = logprobs_of(network, processor, text, **_THEIRS[kind])
    return "" if bool((mx.abs(logprobs - expected) < _ALIKE).all()) else "other log-probabilities than mlx-vlm's"


def _aligned(own: list[int], theirs: list[int]) -> bool:
    """Return whether a processor only begins with a token of its own, and may leave out the last (DeepSeek-OCR)."""
    return len(theirs) - len(own) in (0, 1) and theirs[1:] == own[: len(theirs) - 1]


def _tokens(model: VisionModel, text: str) -> list[int]:
    tokens: list[int] = model.tokenizer.encode(text, add_special_tokens=False)
    return tokens


def _logprobs(model: VisionModel, medium: Medium, tokens: list[int]) -> mx.array:
    """Return the log-probabilities after the tokens of a text in which a medium stands."""
    piece = model.embed(tokens, place_media(tokens, [medium], model.reader.feature_ids), 0).cut(0, len(tokens))
    logits = model.forward(
        mx.array([tokens]),
        model.new_cache(),
        embeddings=piece.embeddings,
        positions=piece.positions,
        extras=piece.extras,
    )[0, -1]
    return logits - mx.logsumexp(logits)
