"""The table of vision models: it has every architecture, and what it says of one was tried."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from tools.vision_table.architectures import Architecture, architecture, names
from tools.vision_table.page import PAGE, named, with_table
from tools.vision_table.shrink import tiny
from tools.vision_table.trial import Trial, _bare, _in_pieces, try_out

from orchard.backends.vision.model import attends_both_ways
from orchard.engine.batching.batch import BatchMode
from tests.support.examples import some

WRITE = "`python -m tools.vision_table` writes it anew"


def test_the_page_has_every_architecture() -> None:
    assert named(PAGE.read_text()) == set(names()), WRITE


def test_lines_of_the_page() -> None:
    page = (
        "Before\n<!-- media -->\nold\n<!-- end -->\n<!-- text -->\n<!-- end -->\n<!-- other -->\n<!-- end -->\nAfter\n"
    )
    rows = [
        (Architecture("a", "media", ("image", "video")), Trial(BatchMode.SHARED, ("image",))),
        (Architecture("b", "media", ("image",)), Trial(BatchMode.SEQUENTIAL, (), "a `kind` of its own")),
        (Architecture("c", "media", ("audio",)), Trial(None, why="ValueError: no | such")),
        (Architecture("f", "media", ("image",)), Trial(BatchMode.BY_LENGTH, (), "image: no; Unbatchable: OddCache")),
        (Architecture("g", "media", ("image", "video")), Trial(BatchMode.SHARED, ("image",), "", ("video",))),
        (Architecture("h", "media", ("image",)), Trial(BatchMode.SHARED, (), "", ("image",))),
        (Architecture("d", "text"), None),
        (Architecture("e", "other", why="make embeddings"), None),
    ]
    written = with_table(page, rows)
    assert "| `a` | yes | images, video | rows, images |\n" in written
    assert "| `b` | no, they take turns | images | rows. `a 'kind' of its own` |\n" in written
    assert "| `c` | not known | audio | no: `ValueError: no / such` |\n" in written
    assert "| `f` | rows of equal length | images | rows. Of image: no. Its cache is a `OddCache` |\n" in written
    assert "| `g` | yes | images | rows, images |\n" in written
    assert "| `h` | yes | texts only | rows |\n" in written
    assert "<!-- text -->\n`d`\n<!-- end -->" in written
    assert "<!-- other -->\n- make embeddings: `e`\n<!-- end -->\nAfter\n" in written
    assert "old" not in written
    assert named(written) == set("abcdefgh")
    assert with_table(written, rows) == written


@dataclass
class TextConfig:
    hidden_size: int
    layer_names: list[str]
    ratio: float
    model_type: str
    head_dim: int | None = None
    num_attention_groups: int | None = None
    dropout: float = 0.5


@dataclass
class ModelConfig:
    text_config: TextConfig
    parts: dict[str, Any] = field(default_factory=dict)
    vocab_size: int = 150_000


def test_a_configuration_shrinks() -> None:
    assert tiny(ModelConfig, SimpleNamespace(__name__="some.family")) == {
        "text_config": {"hidden_size": 64, "layer_names": [], "ratio": 1.0, "model_type": "text", "head_dim": 32},
        "vocab_size": 400,
    }


@pytest.mark.parametrize(
    ("name", "kind", "takes"),
    [
        ("qwen3_vl", "media", ("image", "video")),
        ("qwen3_omni_moe", "media", ("image", "audio", "video")),
        ("llava", "media", ("image",)),
        ("phi4mm", "media", ("image", "audio")),
        ("llama", "text", ()),
        ("bert", "other", ()),
        ("florence2", "other", ()),
    ],
)
def test_what_an_architecture_takes(name: str, kind: str, takes: tuple[str, ...]) -> None:
    found = architecture(name)
    assert (found.kind, found.takes) == (kind, takes)


# Positions in the last axis; those that only the defaults tell of; a language model without a configuration.
@pytest.mark.parametrize("name", ["ernie4_5_moe_vl", "minicpmo", "glm_ocr", "internvl_chat"])
def test_rows_share_a_pass(name: str) -> None:
    trial = try_out(architecture(name))
    assert (trial.mode, trial.why) == (BatchMode.SHARED, "")


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("internvl_chat", ("image",)),
        *some(
            [
                ("qwen3_vl", ("image", "video")),
                ("pixtral", ("image",)),
                ("gemma4", ("image", "audio", "video")),
                ("smolvlm", ("image",)),
                ("cohere_compass", ("image",)),
                ("minicpmo", ("image", "audio")),
                ("nemotron_h_nano_omni", ("image", "audio", "video")),
            ],
            4,
        ),
        ("minicpmv4_6", ("image",)),
        ("paddleocr_vl", ("image",)),
    ],
)
def test_media_are_read_as_mlx_vlm_reads_them(name: str, read: tuple[str, ...]) -> None:
    assert try_out(architecture(name)).read == read


@pytest.mark.parametrize(
    ("name", "read", "refused"), [("llava_next", (), ("image",)), ("glm4v", ("image",), ("video",))]
)
def test_media_that_are_refused(name: str, read: tuple[str, ...], refused: tuple[str, ...]) -> None:
    trial = try_out(architecture(name))
    assert (trial.read, trial.refused) == (read, refused)


@pytest.mark.parametrize(
    ("name", "whole"), [("gemma4_unified", True), ("cohere_compass", False), ("muse_glimmer", False)]
)
def test_whose_pictures_are_not_cut(name: str, whole: bool) -> None:
    """mlx-vlm makes masks in which tokens see later ones for the first only, whatever it says of reading in pieces."""
    model = _bare(architecture(name))
    assert attends_both_ways(model.network.language_model) is whole
    assert hasattr(model.network.language_model.model, "_apply_blockwise_bidirectional_overlay") is whole
    assert _in_pieces(model) == ""


def test_a_trial_says_what_goes_wrong() -> None:
    trial = try_out(Architecture("prism_hadamard_qwen35", "media"))
    assert trial == Trial(None, why="ValueError: Hadamard packs require 2-bit affine weights, group size 128")


def test_a_trial_reads_a_prompt_in_pieces() -> None:
    """The tokens of PaliGemma's prompts see each other both ways."""
    assert "in pieces its logits change" in try_out(architecture("paligemma")).why


def test_gemma_3n_reads_prompts_in_pieces() -> None:
    """In mlx-vlm 0.7.10, its layers that share keys rotate queries by where a pass ends."""
    assert _in_pieces(_bare(architecture("gemma3n"))) == ""
