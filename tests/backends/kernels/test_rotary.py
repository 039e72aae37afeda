"""Text in models with M-RoPE is rotated as mlx-vlm does it, but by MLX's own kernel."""

import runpy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mlx.core as mx
import pytest
from mlx import nn
from mlx_vlm.models.cache import make_prompt_cache
from mlx_vlm.models.rope_utils import MRoPERotaryEmbedding
from mlx_vlm.utils import load_model

from orchard.backends.kernels import rotary
from orchard.backends.vision.model import load_vision_model
from tests.support.tiny_models import check_close

Folders = Callable[[str], Path]


@pytest.mark.parametrize("name", ["qwen3_vl", "qwen2_5_vl", "qwen3_5", "qwen3_omni_moe"])
def test_text_is_rotated_by_one_position(vision_folder: Folders, name: str) -> None:
    model, theirs = load_vision_model(str(vision_folder(name))), load_model(vision_folder(name)).language_model
    cache, plain = model.new_cache(), make_prompt_cache(theirs)
    assert model.rotary is not None
    model.rotary._embedding.fused_apply = False  # on Metal, mlx-vlm has a kernel of its own
    for tokens, start in (([[1, 2, 3], [4, 5, 6]], 0), ([[7, 8], [9, 10]], 3), ([[11], [12]], 5)):
        given, count = mx.array(tokens), len(tokens[0])
        positions = mx.broadcast_to(mx.arange(start, start + count), (3, 2, count))
        expected = theirs(given, cache=plain, position_ids=positions).logits
        check_close(model.forward(given, cache), expected, (name, start))
    again = model.new_cache()
    shifted = model.forward(mx.array([[1, 2, 3]]), again, positions=mx.arange(40, 43))
    own = theirs(
        mx.array([[1, 2, 3]]), cache=make_prompt_cache(theirs), position_ids=mx.full((3, 1, 3), 40) + mx.arange(3)
    )
    check_close(shifted, own.logits, name)


def test_for_text_no_angles_are_computed(vision_folder: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_vision_model(str(vision_folder("qwen3_vl")))
    assert model.rotary is not None
    computed: list[object] = []
    of = type(model.rotary._embedding)
    monkeypatch.setattr(of, "__call__", lambda self, *given: computed.append(given))
    cache = model.new_cache()
    model.forward(mx.array([[1, 2, 3]]), cache)
    model.forward(mx.array([[4]]), cache, positions=mx.array([9]))
    assert not computed


def test_angles_are_computed_once_a_pass(vision_folder: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load_vision_model(str(vision_folder("qwen3_vl")))
    assert model.rotary is not None
    computed: list[object] = []
    of = type(model.rotary._embedding)
    original = of.__call__
    monkeypatch.setattr(of, "fused_apply", False, raising=False)

    def compute(self: object, *given: object) -> object:
        computed.append(given)
        return original(self, *given)

    monkeypatch.setattr(of, "__call__", compute)
    positions = mx.arange(9).reshape(3, 1, 3)
    model.forward(mx.array([[1, 2, 3]]), model.new_cache(), positions=positions)
    assert len(computed) == 1


def test_a_pass_that_failed_leaves_nothing(vision_folder: Folders) -> None:
    model = load_vision_model(str(vision_folder("qwen3_vl")))
    assert model.rotary is not None
    with pytest.raises(ValueError, match="64 elements"):
        model.forward(mx.array([[1]]), model.new_cache(), embeddings=mx.zeros((1, 1, 63)))
    assert model.rotary.offset is None


def test_another_rotation_stays(vision_folder: Folders) -> None:
    assert load_vision_model(str(vision_folder("llava"))).rotary is None


def test_a_rotation_above_the_layers_stays() -> None:
    """PaddleOCR-VL's layers are given its angles."""
    network = nn.Module()
    network.rotary_emb = MRoPERotaryEmbedding(32, mrope_section=[6, 5, 5])
    assert rotary.install_rotary(network) is not None
    network = nn.Module()
    network.rotary_emb = MRoPERotaryEmbedding(32, mrope_section=[6, 5, 5])
    network.layers = [nn.Module()]
    assert rotary.install_rotary(network) is None


def test_what_stands_for_positions_can_be_evaluated_in_any_thread() -> None:
    """mlx-vlm does it in the engine's thread, for Qwen3-Omni; another one imports the module."""
    made = runpy.run_path(str(rotary.__file__))["UNUSED_POSITIONS"]
    thread = ThreadPoolExecutor(1)
    assert thread.submit(made.tolist).result() == [[[0]], [[0]], [[0]]]
    thread.shutdown()
