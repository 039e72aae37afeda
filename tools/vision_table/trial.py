"""Tests an architecture on a tiny configuration: how far its rows share a pass, and whether it reads media."""

import itertools
import logging
import re
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import mlx.core as mx
from mlx.utils import tree_flatten, tree_unflatten
from tests.support.units import finish
from tests.support.vision_families import FAMILIES, VisionFamily
from tests.support.vision_models import make_vision_model, random_weight

from orchard.backends.vision.model import UNSERVED_MEDIA, VisionModel, has_mrope, load_vision_model
from orchard.core.errors import OrchardError
from orchard.core.media import MediaKind
from orchard.core.tasks.text_options import SamplingDefaults, TextOptions
from orchard.engine.batching import attention
from orchard.engine.batching.batch import BatchMode
from orchard.engine.calibration import find_batch_mode
from tools.vision_table import smallest
from tools.vision_table.architectures import Architecture
from tools.vision_table.families import MORE
from tools.vision_table.media_trial import misread, placeholder_of
from tools.vision_table.shrunk_families import SHRUNK, VOCABULARIES

_MOST_WEIGHTS = 500_000_000  # of a language model; where an encoder is part of it, it is never computed
_ALIKE = 0.01


class Trial(NamedTuple):
    """How far rows share a pass (None: not found out), which media gave what mlx-vlm gives, and what went wrong.

    `refused`: which media that mlx-vlm takes Orchard does not.
    """

    mode: BatchMode | None
    read: tuple[MediaKind, ...] = ()
    why: str = ""
    refused: tuple[MediaKind, ...] = ()


def try_out(architecture: Architecture) -> Trial:
    """Try an architecture; what it raises is the reason why nothing was found out."""
    try:
        families = list(_families(architecture))
        if not families:
            refused = architecture.takes if architecture.name in UNSERVED_MEDIA else ()
            return _calibrated(_bare(architecture))._replace(refused=refused)
        trials = [_try_folder(architecture, family) for family in families]
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        return Trial(None, why=f"{type(error).__name__}: {first[:120]}")
    read = {kind for trial in trials for kind in trial.read}
    return trials[0]._replace(
        read=tuple(kind for kind in architecture.takes if kind in read),
        refused=tuple(kind for kind in architecture.takes if all(kind in trial.refused for trial in trials)),
    )


def _families(architecture: Architecture) -> Iterator[VisionFamily]:
    """Return the families of an architecture."""
    yield from (one for one in (FAMILIES | MORE).values() if one.config["model_type"] == architecture.name)
    if by_hand := SHRUNK.get(architecture.name):
        yield smallest.family(architecture, by_hand)


def _calibrated(model: VisionModel) -> Trial:
    """Find out how far rows share a pass, and why no further."""
    attention.install_attention()
    log, heard_of = logging.getLogger("orchard.engine"), _Heard()
    level = log.level
    log.addHandler(heard_of)
    log.setLevel(logging.INFO)
    try:
        mode = finish(find_batch_mode(model, TextOptions()))
    finally:
        log.removeHandler(heard_of)
        log.setLevel(level)
    found = ["" if mode is BatchMode.SHARED else heard_of.why, _in_pieces(model)]
    return Trial(mode, why="; ".join(filter(None, found)))


def _in_pieces(model: VisionModel) -> str:
    """Return what changes where a prompt is read in pieces; "": nothing."""
    tokens = [(7 * place * place + 3 * place) % model.vocab_size for place in range(60)]
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


def _try_folder(architecture: Architecture, family: VisionFamily) -> Trial:
    with tempfile.TemporaryDirectory() as name:
        make_vision_model(Path(name), family, vocabulary=VOCABULARIES.get(architecture.name, 0))
        model = load_vision_model(name)
        read: list[MediaKind] = []
        not_read: list[str] = []
        # Without a placeholder a kind is not tried.
        placeholders = {kind: placeholder_of(family, kind) for kind in architecture.takes if kind in model.reader.kinds}
        takes = [kind for kind, text in placeholders.items() if not text or model.reader.expand_placeholder(kind, text)]
        for kind in filter(placeholders.get, takes):
            try:
                wrong = misread(model, family, kind, Path(name))
            except (OrchardError, ValueError) as error:
                wrong = str(error)
            if wrong:
                not_read.append(f"{kind}: {wrong}")
            else:
                read.append(kind)
        trial = _calibrated(model)
        refused = tuple(kind for kind in architecture.takes if kind not in takes)
        return Trial(trial.mode, tuple(read), "; ".join(filter(None, [*not_read, trial.why])), refused)


def _bare(architecture: Architecture) -> VisionModel:
    """Return a random model of the smallest configuration, without a processor."""
    network, config = smallest.network(architecture, smallest.configuration(architecture))
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
