"""Tries an architecture on a tiny configuration: how far its rows share a pass, and whether it reads media."""

import itertools
import json
import logging
import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
from mlx.utils import tree_flatten, tree_unflatten
from tests.support.media import film, heard, picture, png, sound, video, wav
from tests.support.vision_families import FAMILIES, VisionFamily
from tests.support.vision_models import load_reference, logprobs_of, make_vision_model, model_config, random_weight

from orchard.backends.vision.encoder import place
from orchard.backends.vision.model import VisionModel, has_mrope, load
from orchard.core.media import MediaKind, MediaPart
from orchard.core.tasks.text_options import SamplingDefaults, TextOptions
from orchard.engine.batching import attention
from orchard.engine.batching.batch import BatchMode
from orchard.engine.calibration import find_batch_mode
from tools.vision_table.architectures import Architecture
from tools.vision_table.by_hand import ADDITIONS
from tools.vision_table.families import MORE
from tools.vision_table.shrink import VOCABULARY, tiny

_MOST_WEIGHTS = 500_000_000  # of a language model; where an encoder is part of it, it is never computed
_TEXTS = (None, "llama", "qwen2", "mistral")  # types that a part's configuration may have to name
_VISIONS = (None, "siglip_vision_model", "clip_vision_model", "{}", "{}_vision", "llama4_vision_model")
_ALIKE = 0.01
_SAMPLES: dict[MediaKind, bytes] = {
    "image": png(picture(1)),
    "audio": wav(sound(1)),
    "video": video(film(1)),
}


class Trial(NamedTuple):
    """How far rows share a pass (None: not found out), which media gave what mlx-vlm gives, and what went wrong."""

    mode: BatchMode | None
    read: tuple[MediaKind, ...] = ()
    why: str = ""


def try_out(architecture: Architecture) -> Trial:
    """Try an architecture; what it raises is the reason why nothing was found out."""
    families = [one for one in (FAMILIES | MORE).values() if one.config["model_type"] == architecture.name]
    try:
        if not families:
            return _calibrated(_bare(architecture))
        trials = [_try_folder(family) for family in families]
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        return Trial(None, why=f"{type(error).__name__}: {first[:120]}")
    read = {kind for trial in trials for kind in trial.read}
    return Trial(trials[0].mode, tuple(kind for kind in architecture.takes if kind in read), trials[0].why)


def _calibrated(model: VisionModel, read: tuple[MediaKind, ...] = ()) -> Trial:
    """Find out how far rows share a pass, and why no further."""
    attention.install()
    log, heard_of = logging.getLogger("orchard.engine"), _Heard()
    level = log.level
    log.addHandler(heard_of)
    log.setLevel(logging.INFO)
    try:
        mode = find_batch_mode(model, TextOptions())
    finally:
        log.removeHandler(heard_of)
        log.setLevel(level)
    found = ["" if mode is BatchMode.SHARED else heard_of.why, _in_pieces(model)]
    return Trial(mode, read, "; ".join(filter(None, found)))


def _in_pieces(model: VisionModel) -> str:
    """Return what changes where a prompt is read in pieces; "": nothing."""
    tokens = [(7 * place * place + 3 * place) % VOCABULARY for place in range(60)]
    whole, pieces = (_last_logits(model, tokens, cuts) for cuts in ([60], [16, 32, 59, 60]))
    off, spread = float(mx.abs(whole - pieces).max()), float(mx.std(whole))
    return f"in pieces its logits change by {off:.3g}, they spread by {spread:.3g}" if off > _ALIKE * spread else ""


def _last_logits(model: VisionModel, tokens: list[int], cuts: list[int]) -> mx.array:
    cache = model.new_cache()
    for start, stop in itertools.pairwise([0, *cuts]):
        logits = model.forward(mx.array([tokens[start:stop]]), cache)
    return logits[0, -1]


class _Heard(logging.Handler):
    """Keeps the last reason that calibration gives against a mode."""

    why = ""

    def emit(self, record: logging.LogRecord) -> None:
        if found := re.search(r"\((.*)\)$", record.getMessage()):
            self.why = found[1]


def _try_folder(family: VisionFamily) -> Trial:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_vision_model(folder, family)
        model = load(name)
        read: list[MediaKind] = []
        not_read: list[str] = []
        for kind in sorted(model.reader.takes):
            try:
                wrong = "" if _reads(model, family, kind, folder) else "other log-probabilities than mlx-vlm's"
            except ValueError as error:
                wrong = str(error)
            if wrong:
                not_read.append(f"{kind}: {wrong}")
            else:
                read.append(kind)
        trial = _calibrated(model, tuple(read))
        return trial._replace(why="; ".join([*not_read, *([trial.why] if trial.why else [])]))


def _reads(model: VisionModel, family: VisionFamily, kind: MediaKind, folder: Path) -> bool:
    """Return whether a prompt with a medium has the log-probabilities that mlx-vlm's own model gives.

    Of videos, where mlx-vlm doesn't number frames by their seconds: whether another video has other ones.
    """
    placeholder = {"image": family.image, "audio": family.audio, "video": family.video}[kind]
    text = f"The sea {placeholder} is blue."
    logprobs = _logprobs(model, kind, _SAMPLES[kind], text, placeholder)
    if kind == "video" and model.tokens_per_second:
        other = _logprobs(model, kind, video(film(2)), text, placeholder)
        return bool((mx.abs(logprobs - other) > _ALIKE).any())
    network, processor = load_reference(folder)
    media: dict[MediaKind, dict[str, list[Any]]] = {
        "image": {"images": [picture(1)]},
        "audio": {"audio": [heard(_SAMPLES["audio"])]},
        "video": {"videos": [film(1)]},  # at two frames a second all of them are looked at
    }
    expected = logprobs_of(network, processor, text, **media[kind])
    return bool((mx.abs(logprobs - expected) < _ALIKE).all())


def _logprobs(model: VisionModel, kind: MediaKind, data: bytes, text: str, placeholder: str) -> mx.array:
    """Return the log-probabilities after a text in which a medium stands."""
    medium = model.reader.read(MediaPart(kind, "", "", data=data), placeholder)
    tokens: list[int] = model.tokenizer.encode(text.replace(placeholder, medium.text), add_special_tokens=False)
    piece = model.embed(tokens, place(tokens, [medium], model.reader.feature_ids), 0).cut(0, len(tokens))
    logits = model.forward(
        mx.array([tokens]),
        model.new_cache(),
        embeddings=piece.embeddings,
        positions=piece.positions,
        extras=piece.extras,
    )[0, -1]
    return logits - mx.logsumexp(logits)


def _bare(architecture: Architecture) -> VisionModel:
    """Return a random model of the smallest configuration, without a processor."""
    config = _config(architecture)
    network = _network(architecture, config)
    language = network.language_model
    weights: list[tuple[str, mx.array]] = tree_flatten(language.parameters())
    if (count := sum(array.size for _, array in weights)) > _MOST_WEIGHTS:
        raise ValueError(f"its smallest configuration has {count:,} weights")
    mx.random.seed(7)
    language.update(tree_unflatten([(name, random_weight(name, array)) for name, array in weights]))
    model = VisionModel(
        network=network,
        tokenizer=None,
        eos_token_ids=frozenset(),
        context_window=1024,
        vocab_size=0,
        defaults=SamplingDefaults(),
        fingerprint=architecture.name,
        max_new_tokens=None,
        max_kv_size=None,
        reader=None,  # type: ignore[arg-type]
        encoder=None,  # type: ignore[arg-type]
        cost=None,  # type: ignore[arg-type]
        mrope=has_mrope(network, config),
        tokens_per_second=0,
        attends_both_ways=False,
        mrope_last=architecture.name == "ernie4_5_moe_vl",
    )
    return replace(model, vocab_size=model.forward(mx.array([[0]]), model.new_cache()).shape[-1])


def _config(architecture: Architecture) -> dict[str, Any]:
    """Return the smallest configuration; a part's fields stand at the top, too, where some architectures want them."""
    config = tiny(architecture.module.ModelConfig, architecture.module)
    return _merged((config.get("text_config") or {}) | config, ADDITIONS.get(architecture.name, {}))


def _merged(config: dict[str, Any], additions: dict[str, Any]) -> dict[str, Any]:
    merged = dict(config)
    for key, value in additions.items():
        old = merged.get(key)
        merged[key] = _merged(old, value) if isinstance(value, dict) and isinstance(old, dict) else value
    return merged


def _network(architecture: Architecture, config: dict[str, Any]) -> Any:
    """Construct a model, with the first types of its parts that it knows."""
    first: Exception | None = None
    for text, vision in itertools.product(_TEXTS, _VISIONS):
        tried = json.loads(json.dumps(config))
        for part, named in (("text_config", text), ("vision_config", vision)):
            if named is not None and isinstance(tried.get(part), dict):
                tried[part]["model_type"] = named.format(architecture.name)
        try:
            return architecture.module.Model(model_config(architecture.module, tried))
        except ValueError as error:
            if "not supported" not in str(error) and "nsupported model type" not in str(error):
                raise
            first = first or error
    assert first is not None
    raise first
