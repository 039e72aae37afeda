"""Loading models with media: what a folder says, what is wrong with it, adapters, and code that is never run."""

import json
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_vlm.utils
import numpy as np
import pytest
from mlx.utils import tree_flatten
from mlx_vlm.trainer.peft import get_peft_model, save_adapter
from mlx_vlm.utils import load_model
from transformers import AutoTokenizer

from orchard.backends.text import model as text
from orchard.backends.vision import model as model_module
from orchard.backends.vision.encoder import MOST_FEATURE_BYTES
from orchard.backends.vision.inputs import MOST_INPUT_BYTES
from orchard.backends.vision.model import NoMediaError, VisionModel, load_vision_model
from orchard.core.errors import OrchardError
from orchard.core.tasks.text_options import SamplingDefaults, TextOptions
from orchard.engine.batching import attention
from orchard.engine.batching.batch import Batch, BatchSlot
from orchard.engine.engine import Engine
from tests.support.cuda_attention import as_on_cuda
from tests.support.models import SLIDING_WINDOW
from tests.support.tiny_models import check_close
from tests.support.vision_families import WINDOW

Folders = Callable[[str], Path]


@pytest.fixture(scope="module")
def qwen(vision_folder: Folders) -> VisionModel:
    return load_vision_model(str(vision_folder("qwen3_vl")))


@pytest.fixture
def folder(vision_folder: Folders, tmp_path: Path) -> Path:
    """A copy of a model's folder."""
    shutil.copytree(vision_folder("qwen3_vl"), tmp_path / "model")
    return tmp_path / "model"


def edit(file: Path, **fields: object) -> None:
    content = json.loads(file.read_text()) | fields
    file.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


def logits(model: VisionModel, *tokens: int) -> mx.array:
    return model.forward(mx.array([tokens]), model.new_cache())


def test_what_a_folder_says(qwen: VisionModel, vision_folder: Folders) -> None:
    assert qwen.context_window == WINDOW
    assert qwen.eos_token_ids == {qwen.tokenizer.convert_tokens_to_ids("<|im_end|>")}
    assert qwen.defaults == SamplingDefaults()
    assert logits(qwen, 1, 2).shape == (1, 2, qwen.vocab_size)
    assert (qwen.mrope, qwen.tokens_per_second, qwen.attends_both_ways) == (True, 0.0, False)
    # What one library has cached is not the other's.
    assert qwen.fingerprint != text.load_text_model(str(vision_folder("qwen3_vl"))).fingerprint


def test_what_is_kept_of_media_is_part_of_what_the_model_takes(vision_folder: Folders) -> None:
    folder, options, before = str(vision_folder("llava")), TextOptions(memory_limit=2**30), mx.get_active_memory()
    engine = Engine(lambda: load_vision_model(folder, options), lambda step: None, options)
    kept = engine.start().result(60).cache_bytes
    assert kept == 2**30 // 32 + 2**30 // 64
    assert kept < engine.weights_bytes < kept + before + 2**24
    engine.close()
    assert engine.join(30)
    most = load_vision_model(folder, TextOptions(memory_limit=2**40))
    assert most.cache_bytes == MOST_INPUT_BYTES + MOST_FEATURE_BYTES
    assert most.reader._cache._most_bytes == MOST_INPUT_BYTES
    assert most.encoder._cache._most_bytes == MOST_FEATURE_BYTES


def test_films_of_qwen_2_5_have_times(vision_folder: Folders) -> None:
    assert load_vision_model(str(vision_folder("qwen2_5_vl"))).tokens_per_second == 2.0


def test_options(folder: Path) -> None:
    (folder / "generation_config.json").write_text('{"temperature": 0.5, "max_new_tokens": 7}')
    told: list[float] = []
    model = load_vision_model(str(folder), TextOptions(context_length=100, max_kv_size=9), told.append)
    assert (model.context_window, model.max_new_tokens) == (100, 7)
    assert model.defaults == SamplingDefaults(temperature=0.5)
    assert [layer.max_size for layer in model.new_cache()] == [9, 9, 9]
    assert told == sorted(told)
    assert 0 < told[0] < told[-1] <= 1


def test_rows_have_positions_of_their_own(qwen: VisionModel) -> None:
    """In a batch the cache's offset is one for each row, and positions may be given for each."""
    cache = qwen.new_cache()
    qwen.forward(mx.array([[1, 2, 3], [4, 5, 6]]), cache)
    plain = qwen.forward(mx.array([[7], [8]]), cache)
    cache = qwen.new_cache()
    qwen.forward(mx.array([[1, 2, 3], [4, 5, 6]]), cache)
    given = qwen.forward(mx.array([[7], [8]]), cache, positions=mx.array([3, 3]))
    assert mx.array_equal(plain, given)


@pytest.mark.parametrize("kind", ["qwen2_5_vl", "qwen3_vl", "qwen3_5", "llava"])
def test_rows_use_the_kernel_of_cuda(vision_folder: Folders, kind: str) -> None:
    """Though mlx-vlm's layers cut the masks that they get."""
    model = load_vision_model(str(vision_folder(kind)))
    attention.install_attention()
    caches = [model.new_cache() for _ in range(4)]
    for number, cache in enumerate(caches):
        model.forward(mx.array([[*range(1, 4 + number % 2)]]), cache)
    batch = Batch(model)
    batch.arrange([BatchSlot(cache, 3 + number) for number, cache in enumerate(caches[:2])])
    with as_on_cuda() as calls:
        together, failed = batch.forward(mx.array([7, 8]))
    assert not failed
    assert together is not None
    alone = [model.forward(mx.array([[7 + number]]), cache)[0, -1] for number, cache in enumerate(caches[2:])]
    check_close(together, mx.stack(alone), kind)
    assert calls == [0] * sum(hasattr(layer, "offset") for layer in model.new_cache())


def test_a_model_that_counts_itself_takes_no_positions(vision_folder: Folders) -> None:
    model = load_vision_model(str(vision_folder("llava")))
    with pytest.raises(ValueError, match="counts its positions itself"):
        model.forward(mx.array([[1]]), model.new_cache(), positions=mx.array([0]))


def test_a_template_of_processors_only(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()
    edit(folder / "tokenizer_config.json", chat_template=None)
    assert load_vision_model(str(folder)).tokenizer.chat_template is None
    (folder / "chat_template.json").write_text(json.dumps({"chat_template": "<think>{{ messages[0].content }}"}))
    assert load_vision_model(str(folder)).tokenizer.chat_template == "<think>{{ messages[0].content }}"
    other = folder / "other.jinja"
    other.write_text("other")
    assert load_vision_model(str(folder), TextOptions(chat_template_file=str(other))).tokenizer.chat_template == "other"


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda folder: (folder / "config.json").unlink(), "no config.json"),
        (lambda folder: (folder / "config.json").write_text("{"), "config.json is not JSON"),
        (lambda folder: (folder / "model.safetensors").unlink(), r"no model\*.safetensors"),
        (lambda folder: (folder / "model.safetensors").write_text("no tensors"), "not in safetensors format"),
        (lambda folder: edit(folder / "config.json", num_hidden_layers=10**6), "have at most 2,048"),
        (lambda folder: edit(folder / "config.json", model_file="evil.py"), "Python code of its own"),
    ],
)
def test_damage_is_told_in_a_sentence(folder: Path, damage: Callable[[Path], None], words: str) -> None:
    damage(folder)
    (folder / "evil.py").write_text("raise SystemExit('this was run')")
    with pytest.raises(OrchardError, match=words) as caught:
        load_vision_model(str(folder))
    assert caught.value.kind == "model_failed"
    assert "\n" not in caught.value.message


def test_weights_that_do_not_fit(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    edit(folder / "config.json", text_config=config["text_config"] | {"hidden_size": 48})
    with pytest.raises(OrchardError, match=r"weights do not fit its config\.json"):
        load_vision_model(str(folder))


def test_an_architecture_of_mlx_lm_only_has_no_media(folder: Path) -> None:
    edit(folder / "config.json", model_type="frobnicator")
    with pytest.raises(NoMediaError, match=r"mlx-vlm does not know its architecture .*frobnicator"):
        load_vision_model(str(folder))


def test_a_kind_that_needs_another_package_says_which(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which `packaging/overrides.txt` leaves out."""
    for name in [name for name in sys.modules if name.startswith("mlx_vlm.models.multi_modality")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cv2", None)
    edit(folder / "config.json", model_type="multi_modality")
    with pytest.raises(
        OrchardError,
        match=r"needs the package opencv-python for models of the kind 'multi_modality'.*"
        r"uv pip install opencv-python, or pip install opencv-python",
    ) as caught:
        load_vision_model(str(folder))
    assert caught.value.kind == "model_failed"


def test_media_that_mlx_vlm_reads_wrongly_are_not_taken(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(model_module.UNSERVED_MEDIA, "qwen3_vl", "it reads them upside down")
    assert load_vision_model(str(folder)).reader.kinds == frozenset()
    assert "served without images, audio and video: it reads them upside down" in caplog.text
    assert {"falcon_ocr", "granite_vision", "llava_next", "mllama", "paligemma"} <= model_module.UNSERVED_MEDIA.keys()


@pytest.mark.parametrize("known", [0, 5, 40])
def test_gemmas_images_see_themselves_within_the_window(vision_folder: Callable[[str], Path], known: int) -> None:
    """As in transformers: in layers with a window only, after any cached beginning, and beside a sound, too."""
    model = load_vision_model(str(vision_folder("gemma4")))
    inner, cache = model.network.language_model.model, model.new_cache()
    if known:
        model.forward(mx.zeros((1, known), mx.int32), cache)
    types = np.array([0, 3, 3, 0, *[1] * 20, 0, 2, 2, 0])
    count = len(types)
    masks = inner._make_masks(mx.zeros((1, count, 64)), cache, mx.array(types)[None])
    seen = {layer.layer_type: mask for layer, mask in zip(inner.layers, masks, strict=True)}
    assert isinstance(seen["full_attention"], str)
    queries, keys = np.arange(count)[:, None], np.arange(-min(known, SLIDING_WINDOW - 1), count)
    image, video = np.arange(4, 24), np.arange(25, 27)
    alike = np.any([np.isin(queries, own) & np.isin(keys, own) for own in (image, video)], axis=0)
    expected = ((keys <= queries) | alike) & (queries - keys < SLIDING_WINDOW)
    assert np.array(seen["sliding_attention"])[0, 0, :, -keys.size :].tolist() == expected.tolist()


def test_arrays_of_a_processor_can_be_used_in_any_thread(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Media are read in another one than models, which can't compute what waits from there (Inkling's filters)."""
    loaded = mlx_vlm.utils.load_processor

    def load_lazily(*args: Any, **options: Any) -> Any:
        processor = loaded(*args, **options)
        processor.image_processor.filters = mx.arange(3) + 1
        return processor

    monkeypatch.setattr(mlx_vlm.utils, "load_processor", load_lazily)
    reader = load_vision_model(str(folder)).reader
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(reader._images.filters.tolist).result() == [1, 2, 3]


def test_code_of_a_folder_is_not_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where a processor of mlx-vlm trusts it whatever it is told, as GOT's does."""
    (folder / "evil.py").write_text("raise SystemExit('this was run')")
    edit(
        folder / "tokenizer_config.json",
        auto_map={"AutoTokenizer": ["evil.Evil", "evil.Evil"]},
        tokenizer_class="Evil",
    )

    def trusting(path: Path, **given: object) -> object:
        return AutoTokenizer.from_pretrained(path, trust_remote_code=True)

    monkeypatch.setattr("mlx_vlm.utils.load_processor", trusting)
    with pytest.raises(NoMediaError, match="it wants to run Python code of its own, which is never done"):
        load_vision_model(str(folder))


def test_another_processor_makes_another_model(folder: Path) -> None:
    """Prompts that were cached with what it made of the same pixels are of no use any more."""
    before = load_vision_model(str(folder))
    edit(folder / "preprocessor_config.json", image_mean=[0.1, 0.2, 0.3])
    assert load_vision_model(str(folder)).fingerprint != before.fingerprint
    assert text.load_text_model(str(folder)).fingerprint != before.fingerprint


def make_adapter(folder: Path, adapter: Path) -> None:
    """Write LoRA weights, in mlx-vlm's format, that change what the model says."""
    network = get_peft_model(load_model(folder), rank=2, verbose=False)
    weights = {name: weight + 0.5 for name, weight in tree_flatten(network.trainable_parameters())}
    network.load_weights(list(weights.items()), strict=False)
    adapter.mkdir()
    save_adapter(network, adapter / "adapters.safetensors")


def test_an_adapter_is_laid_over_the_model(folder: Path, qwen: VisionModel, tmp_path: Path) -> None:
    make_adapter(folder, tmp_path / "adapter")
    adapted = load_vision_model(str(folder), TextOptions(adapter_path=str(tmp_path / "adapter")))
    first, again = logits(adapted, 1, 2, 3), logits(adapted, 1, 2, 3)
    assert mx.array_equal(first, again)  # nothing is dropped out
    assert not mx.allclose(first, logits(qwen, 1, 2, 3))
    assert adapted.fingerprint != qwen.fingerprint


def reshaped(adapter: Path) -> None:
    weights: Any = mx.load(str(adapter / "adapters.safetensors"))
    name = next(name for name in weights if name.endswith("q_proj.lora_a"))
    mx.save_safetensors(str(adapter / "adapters.safetensors"), weights | {name: weights[name][1:]})


def renamed(adapter: Path) -> None:
    weights: Any = mx.load(str(adapter / "adapters.safetensors"))
    mx.save_safetensors(str(adapter / "adapters.safetensors"), {f"other.{name}": one for name, one in weights.items()})


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda adapter: (adapter / "adapter_config.json").unlink(), "it has no adapter_config.json"),
        (lambda adapter: (adapter / "adapters.safetensors").unlink(), "it has no adapters.safetensors"),
        (lambda adapter: (adapter / "adapter_config.json").write_text("{}"), "its adapter_config.json is broken"),
        (lambda adapter: (adapter / "adapters.safetensors").write_text("none"), "its files are broken"),
        (reshaped, "its weights do not fit the model"),
        (renamed, "its weights do not fit the model"),
    ],
)
def test_a_damaged_adapter_is_told_in_a_sentence(
    folder: Path, tmp_path: Path, damage: Callable[[Path], None], words: str
) -> None:
    make_adapter(folder, tmp_path / "adapter")
    damage(tmp_path / "adapter")
    with pytest.raises(OrchardError, match=f"the adapter in .* can't be applied: .*{words}") as caught:
        load_vision_model(str(folder), TextOptions(adapter_path=str(tmp_path / "adapter")))
    assert "\n" not in caught.value.message
