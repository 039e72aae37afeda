"""Media become embeddings: what is encoded, what is kept, and that every family's parts fit together."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from mlx_vlm.models.base import InputEmbeddingsFeatures
from mlx_vlm.utils import prepare_inputs

from orchard.backends.vision.encoder import MediaEncoder, PlacedMedium, place_media, prompt_positions
from orchard.backends.vision.inputs import Medium
from orchard.backends.vision.model import VisionModel, load_vision_model
from orchard.core.media import MediaPart
from orchard.engine.batching.model import PromptEmbeddings
from tests.support.examples import some
from tests.support.media import film, picture, png, video
from tests.support.mrope import Grid, Words, reference_positions
from tests.support.tiny_models import check_close
from tests.support.vision_families import FAMILIES
from tests.support.vision_models import load_reference

Folders = Callable[[str], Path]

WORDS = [1, 2, 3, 4]
SIZES = [(32, 48), (32, 56)]


@pytest.fixture(scope="module")
def qwen(vision_folder: Folders) -> VisionModel:
    return load_vision_model(str(vision_folder("qwen3_vl")))


def image(model: VisionModel, name: str, seed: int) -> Medium:
    return model.reader.read(
        MediaPart("image", "", "", data=png(picture(seed, *SIZES[seed % 2 - 1]))), FAMILIES[name].image
    )


def prompt(model: VisionModel, name: str) -> tuple[list[int], list[PlacedMedium]]:
    """Words, a picture, words, another picture, words."""
    media = [image(model, name, seed) for seed in (1, 2)]
    tokens = [*WORDS, *media[0].tokens, *WORDS, *media[1].tokens, *WORDS]
    return tokens, place_media(tokens, media, model.reader.feature_ids)


def read(model: VisionModel, tokens: list[int], parts: list[PromptEmbeddings], cuts: list[int]) -> mx.array:
    """Read a prompt in pieces that end at `cuts`, from what was embedded; return the last token's logits."""
    cache = model.new_cache()
    start = 0
    for stop in [*cuts, len(tokens)]:
        piece = mx.array([tokens[start:stop]])
        part = next((part for part in reversed(parts) if part.start <= start), parts[0])
        if part.stop is None or start >= part.stop:
            positions = mx.arange(start, stop) + part.position_delta if model.mrope else None
            logits = model.forward(piece, cache, positions=positions)
        else:
            given = part.cut(start, stop)
            logits = model.forward(piece, cache, **given._asdict())
        start = stop
    return logits[:, -1]


def whole(model: VisionModel, folder: Path, name: str, tokens: list[int]) -> mx.array:
    """What mlx-vlm's model says to a whole prompt, with all media prepared and encoded in one go."""
    _, processor = load_reference(folder)
    inputs = prepare_inputs(
        processor, images=[picture(1, *SIZES[0]), picture(2, *SIZES[1])], prompts=FAMILIES[name].image * 2
    )
    for of_text in ("input_ids", "attention_mask", "mm_token_type_ids"):
        inputs.pop(of_text, None)
    ids = mx.array([tokens])
    types = mx.array(np.isin(np.array([tokens]), list(model.reader.feature_ids)).astype(np.int32))
    own = {"mm_token_type_ids": types} if model.attends_both_ways else {}
    pixels = inputs.pop("pixel_values")
    made = model.network.get_input_embeddings(ids, pixels, mask=mx.ones_like(ids), **inputs).to_dict()
    given = {name: value for name, value in made.items() if value is not None and name != "attention_mask_4d"} | own
    said: mx.array = model.network.language_model(ids, cache=model.new_cache(), **given).logits[:, -1]
    return said


@pytest.mark.parametrize("name", some(list(FAMILIES), 3))
def test_pieces_say_what_the_whole_says(vision_folder: Folders, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However a prompt is cut, within media or without, and from wherever it is embedded."""
    folder = vision_folder(name)
    model = load_vision_model(str(folder))
    tokens, placed = prompt(model, name)
    expected = whole(model, folder, name, tokens)
    at_once = [model.embed(tokens, placed, 0)]
    assert at_once[0].stop == len(tokens)  # the words behind the last picture need no pass of their own
    middle = placed[0].stop + 2
    within = [placed[0].start + 3, placed[1].start + 5] if model.can_divide(placed[0].medium) else []
    for cuts in ([middle], [*within, placed[1].stop + 1], []):
        ends = sorted({*cuts, placed[1].stop})
        check_close(read(model, tokens, at_once, ends), expected, (name, cuts))
    monkeypatch.setattr("orchard.backends.vision.model._LEAST_TOKENS", 1)
    later = [model.embed(tokens, placed, known) for known in (0, placed[0].stop, middle, placed[1].stop)]
    assert [one.stop for one in later] == [placed[0].stop, placed[1].stop, placed[1].stop, None]
    ends = [placed[0].stop, middle, placed[1].stop]
    check_close(read(model, tokens, later, ends), expected, name)


def test_a_model_may_be_told_which_tokens_are_media(qwen: VisionModel) -> None:
    """ERNIE has other experts for them."""
    tokens, media = prompt(qwen, "qwen3_vl")
    told = replace(qwen, type_names=("token_type_ids",)).embed(tokens, media, 2).cut(2, len(tokens)).extras
    assert told is not None
    assert told["token_type_ids"].tolist() == [[int(token in qwen.reader.feature_ids) for token in tokens[2:]]]
    assert "token_type_ids" not in qwen.embed(tokens, media, 2).extras


def test_a_prompt_whose_text_looks_like_media_is_refused(qwen: VisionModel) -> None:
    medium = image(qwen, "qwen3_vl", 1)
    with pytest.raises(ValueError, match="25 tokens stand for media"):
        place_media([*medium.tokens, *WORDS, min(qwen.reader.feature_ids)], [medium], qwen.reader.feature_ids)


class Counted:
    """A network that counts how often it encodes."""

    def __init__(self, network: Any) -> None:
        self._network = network
        self.encoded = 0

    def get_input_embeddings(self, ids: mx.array, pixels: Any, **given: Any) -> Any:
        self.encoded += pixels is not None
        return self._network.get_input_embeddings(ids, pixels, **given)


def test_what_was_encoded_is_kept_within_its_bytes(qwen: VisionModel) -> None:
    network = Counted(qwen.network)
    first, second, third = (image(qwen, "qwen3_vl", seed) for seed in (1, 2, 3))
    size = qwen.encoder.encode(first).bytes
    assert size == 24 * 64 * 4 * 3  # rows of its tokens, and of two deepstack layers
    encoder = MediaEncoder(network, qwen.reader.feature_ids, most_bytes=size * 5 // 2)
    for medium in (first, first, second, first, third):
        encoder.encode(medium)
    assert network.encoded == 3
    encoder.encode(first)  # the second had been asked for before it
    assert network.encoded == 3
    encoder.encode(second)
    assert network.encoded == 4


def test_cached_features_are_the_same(qwen: VisionModel) -> None:
    tokens, placed = prompt(qwen, "qwen3_vl")
    first, again = (qwen.embed(tokens, placed, 0) for _ in range(2))
    assert first.embeddings is not None
    assert again.embeddings is not None
    assert mx.array_equal(first.embeddings, again.embeddings)
    assert first.extras.keys() == again.extras.keys() == {"deepstack_visual_embeds", "visual_pos_masks"}


class Peculiar:
    """A network that makes something else of a medium than embeddings in the places of its tokens."""

    def __init__(self, made: InputEmbeddingsFeatures) -> None:
        self._made = made

    def get_input_embeddings(self, ids: mx.array, pixels: Any, **given: Any) -> InputEmbeddingsFeatures:
        return self._made


@pytest.mark.parametrize(
    ("longer", "given", "words"),
    [
        (0, {"cross_attention_states": mx.zeros((1, 4, 64))}, "by cross attention, which is not served"),
        (7, {}, "other tokens for the medium than its processor"),
    ],
)
def test_a_medium_is_never_left_out(qwen: VisionModel, longer: int, given: dict[str, Any], words: str) -> None:
    """As those of Llama 3.2 Vision and LLaVA-NeXT would be in mlx-vlm 0.7.10."""
    medium = image(qwen, "qwen3_vl", 1)
    made = InputEmbeddingsFeatures(mx.zeros((1, len(medium.tokens) + longer, 64)), **given)
    with pytest.raises(ValueError, match=words):
        MediaEncoder(Peculiar(made), qwen.reader.feature_ids).encode(medium)


@pytest.mark.parametrize(("name", "rate"), [("qwen2_5_vl", 2), ("qwen3_omni_moe", 13)])
def test_films_are_numbered_by_their_seconds(vision_folder: Folders, name: str, rate: int) -> None:
    """Two frames a group, at two frames a second: a group lasts a second."""
    model = load_vision_model(str(vision_folder(name)))
    part = MediaPart("video", "", "", data=video(film(1, 6), rate=2.0))
    medium = model.reader.read(part, FAMILIES[name].video)
    assert (medium.grid, medium.seconds) == ((3, 4, 6), 1.0)
    tokens = [*WORDS, *medium.tokens, *WORDS]
    embedded = model.embed(tokens, place_media(tokens, [medium], model.reader.feature_ids), 0)
    parts: list[Words | Grid] = [Words(5), Grid(4, 6, groups=3, step=Fraction(rate)), Words(5)]
    expected, delta = reference_positions(parts)
    assert embedded.positions is not None
    assert np.array_equal(np.array(embedded.positions[:, 0]), expected[:, : embedded.stop])
    assert embedded.position_delta == delta


@pytest.mark.parametrize("name", ["qwen2_5_vl", "qwen3_vl"])
def test_positions_of_films(vision_folder: Folders, name: str) -> None:
    """Qwen2.5-VL counts the seconds between frames, Qwen3-VL writes them down and counts each time as a picture."""
    model = load_vision_model(str(vision_folder(name)))
    tokens = 6 * 4  # a time has so many
    grid, seconds = (3, 4, 6), 1.25
    between = 0 if name == "qwen2_5_vl" else 2
    feature = min(model.reader.feature_ids)
    frames = [*WORDS[:between], *[feature] * tokens] * 3
    medium = Medium("video", b"", "", frames, 3 * tokens, {}, grid, seconds)
    placed = place_media([*WORDS, *frames, *WORDS], [medium], model.reader.feature_ids)
    found, delta = prompt_positions(len(frames) + 8, placed, model.tokens_per_second)
    parts: list[Words | Grid] = [Grid(4, 6, 3, Fraction(5, 2))]
    if between:
        parts = [Words(2), Grid(4, 6)] * 3
    expected, ahead = reference_positions([Words(4), *parts, Words(4)])
    assert np.array_equal(np.array(found)[:, 0], expected)
    assert delta == ahead
