import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten
from mlx_lm.tuner.utils import linear_to_lora_layers

from orchard.backends.model_folder import explain_load_errors
from orchard.backends.text.model import TextModel, load_text_model
from orchard.core.errors import OrchardError
from orchard.core.tasks.text_options import SamplingDefaults, TextOptions
from orchard.device.out_of_memory import is_out_of_memory
from tests.support.models import WINDOW


def test_what_a_folder_says(model: TextModel) -> None:
    assert model.context_window == WINDOW
    assert model.eos_token_ids == {model.tokenizer.convert_tokens_to_ids("<|im_end|>")}
    assert model.vocab_size == len(model.tokenizer) + 5
    assert model.defaults == SamplingDefaults(temperature=0.7, top_k=20)
    assert model.forward(mx.array([[1, 2]]), model.new_cache()).shape == (1, 2, model.vocab_size)


def edited(name: str, **fields: object) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = folder / name
        content = json.loads(path.read_text()) | fields
        path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))

    return edit


def written(name: str, content: str, encoding: str = "utf-8") -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / name).write_text(content, encoding)

    return write


def cut(name: str) -> Callable[[Path], None]:
    def shorten(folder: Path) -> None:
        (folder / name).write_bytes((folder / name).read_bytes()[:-1000])

    return shorten


def removed(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (removed("config.json"), "no config.json"),
        (written("config.json", "{"), "config.json is not JSON"),
        (written("config.json", "[1, 2]"), "config.json is not a JSON object"),
        (written("config.json", '{"a": "é"}', "latin-1"), "config.json is not UTF-8"),
        (written("generation_config.json", "[1, 2]"), "generation_config.json is not a JSON object"),
        (written("generation_config.json", '{"a": "é"}', "latin-1"), "generation_config.json is not UTF-8"),
        (edited("config.json", model_type=None), "config.json has no 'model_type'"),
        (edited("config.json", model_type="frobnicator"), "does not know its architecture .*frobnicator"),
        (edited("config.json", model_file="evil.py"), "Python code of its own"),
        (edited("config.json", num_hidden_layers=3), "weights do not fit"),
        (edited("config.json", hidden_size=48), "weights do not fit"),
        (
            edited("config.json", num_hidden_layers=10**6),
            "num_hidden_layers is 1,000,000, and models have at most 2,048",
        ),
        (edited("config.json", vocab_size=10**9), "vocab_size is 1,000,000,000, and models have at most 16,777,216"),
        (edited("config.json", text_config={"hidden_size": 10**30}), "hidden_size is 1,0.*, and models have at most"),
        (removed("model.safetensors"), r"no model\*.safetensors"),
        (written("model.safetensors", "no tensors"), "its model.safetensors is not in safetensors format"),
        (cut("model.safetensors"), "its model.safetensors is not complete: 1,000 bytes are missing"),
        (removed("tokenizer.json"), "tokenizer .* missing or can't be loaded"),
        (written("tokenizer.json", "{"), "tokenizer .* missing or can't be loaded"),
    ],
)
def test_damage_is_told_in_a_sentence(
    model_folder: Path, tmp_path: Path, damage: Callable[[Path], None], words: str
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(model_folder, folder)
    damage(folder)
    with pytest.raises(OrchardError, match=words) as caught:
        load_text_model(str(folder))
    assert caught.value.kind == "model_failed"
    assert "\n" not in caught.value.message


def test_memory_that_runs_out_is_no_damage(model_folder: Path) -> None:
    with pytest.raises(OrchardError, match="memory ran out") as caught, explain_load_errors(model_folder, "mlx-lm"):
        raise RuntimeError("cudaMallocAsync(&data, size, stream) failed: out of memory")
    assert is_out_of_memory(caught.value)


def test_the_tokenizer_is_not_read_beside_a_size_that_no_model_has(
    model_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """transformers makes a list of as many layers: with 10^9 of them it takes minutes, and 8 GB."""
    folder = tmp_path / "model"
    shutil.copytree(model_folder, folder)
    edited("config.json", num_hidden_layers=10**6)(folder)
    read: list[object] = []
    monkeypatch.setattr("orchard.backends.model_folder._load_tokenizer", lambda *given: read.append(given))
    with pytest.raises(OrchardError, match="num_hidden_layers"):
        load_text_model(str(folder))
    assert not read


LORA = {"fine_tune_type": "lora", "num_layers": 1, "lora_parameters": {"rank": 2, "scale": 1.0, "dropout": 0.5}}


def make_adapter(folder: Path, adapter: Path) -> None:
    """Write LoRA weights that change what the model says."""
    network = load_text_model(str(folder)).network
    network.freeze()
    linear_to_lora_layers(network, LORA["num_layers"], LORA["lora_parameters"])
    weights = {name: weight + 0.5 for name, weight in tree_flatten(network.trainable_parameters())}
    (adapter / "adapter_config.json").write_text(json.dumps(LORA))
    mx.save_safetensors(str(adapter / "adapters.safetensors"), weights)


def test_an_adapter_is_laid_over_the_model(model_folder: Path, model: TextModel, tmp_path: Path) -> None:
    make_adapter(model_folder, tmp_path)
    adapted = load_text_model(str(model_folder), TextOptions(adapter_path=str(tmp_path)))
    tokens = mx.array([[1, 2, 3]])
    first, again, plain = (each.forward(tokens, each.new_cache()) for each in (adapted, adapted, model))
    assert mx.array_equal(first, again)  # nothing is dropped out
    assert not mx.allclose(first, plain)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (removed("adapter_config.json"), "it has no adapter_config.json"),
        (removed("adapters.safetensors"), "it has no adapters.safetensors"),
        (written("adapter_config.json", "{"), "its adapter_config.json is broken"),
        (written("adapter_config.json", "[]"), "its adapter_config.json is broken"),
        (written("adapter_config.json", "{}"), "its adapter_config.json is broken"),
        (edited("adapter_config.json", lora_parameters={"rank": 3, "scale": 1.0, "dropout": 0}), "do not fit"),
        (written("adapters.safetensors", "none"), "its files are broken"),
    ],
)
def test_a_damaged_adapter_is_told_in_a_sentence(
    model_folder: Path, tmp_path: Path, damage: Callable[[Path], None], words: str
) -> None:
    make_adapter(model_folder, tmp_path)
    damage(tmp_path)
    with pytest.raises(OrchardError, match=f"the adapter in .* can't be applied: .*{words}") as caught:
        load_text_model(str(model_folder), TextOptions(adapter_path=str(tmp_path)))
    assert caught.value.kind == "model_failed"
    assert "\n" not in caught.value.message


def test_a_cache_may_have_a_limit(model_folder: Path, model: TextModel) -> None:
    limited = load_text_model(str(model_folder), TextOptions(max_kv_size=9)).new_cache()
    assert [cache.max_size for cache in limited] == [9, 9]
    assert not hasattr(model.new_cache()[0], "max_size")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (None, SamplingDefaults()),
        ("nonsense", SamplingDefaults()),
        ("{}", SamplingDefaults()),
        ('{"top_k": 1e999, "temperature": Infinity, "top_p": NaN, "min_p": -1e999}', SamplingDefaults()),
        ('{"do_sample": false, "temperature": 0.7}', SamplingDefaults(temperature=0.0)),
        ('{"do_sample": true, "temperature": 1, "top_p": 0.9}', SamplingDefaults(temperature=1.0, top_p=0.9)),
        ('{"top_k": null, "min_p": "x", "top_p": true, "temperature": -1}', SamplingDefaults()),
        ('{"repetition_penalty": 0, "top_k": 5.0}', SamplingDefaults(top_k=5)),
        ('{"repetition_penalty": 1.1}', SamplingDefaults(repetition_penalty=1.1)),
    ],
)
def test_generation_defaults(
    model_folder: Path, tmp_path: Path, content: str | None, expected: SamplingDefaults
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(model_folder, folder)
    (folder / "generation_config.json").unlink()
    if content is not None:
        (folder / "generation_config.json").write_text(content)
    assert load_text_model(str(folder)).defaults == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(7, 7), (0, None), (-1, None), (True, None), (7.5, None), ("7", None), (None, None)]
)
def test_how_long_an_answer_becomes(model_folder: Path, tmp_path: Path, value: object, expected: int | None) -> None:
    folder = tmp_path / "model"
    shutil.copytree(model_folder, folder)
    (folder / "generation_config.json").write_text(json.dumps({"max_new_tokens": value}))
    assert load_text_model(str(folder)).max_new_tokens == expected


def test_progress_is_told_while_weights_are_read(model_folder: Path) -> None:
    told: list[float] = []
    load_text_model(str(model_folder), progress=told.append)
    assert told == sorted(told)
    assert len(told) > 3
    assert 0 < told[0] < told[-1] <= 1.0


@pytest.mark.parametrize(("length", "window"), [(7, 7), (WINDOW + 1, WINDOW)])
def test_the_window_may_be_made_smaller(model_folder: Path, length: int, window: int) -> None:
    assert load_text_model(str(model_folder), TextOptions(context_length=length)).context_window == window


def test_another_chat_template(model_folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "other.jinja"
    file.write_text("<think>{{ messages[0].content }} é", "utf-8")
    tokenizer = load_text_model(str(model_folder), TextOptions(chat_template_file=str(file))).tokenizer
    assert tokenizer.chat_template == "<think>{{ messages[0].content }} é"
    # What mlx-lm takes from a template it takes from this one.
    assert tokenizer.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=False) == "<think>Hi é"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file or directory"),
        (b"x" * (2**20 + 1), "it has more than 1,048,576 bytes"),
        (b"abc\xff", r"it is not UTF-8 \(byte 3\)"),
    ],
)
def test_a_chat_template_that_can_not_be_read(
    model_folder: Path, tmp_path: Path, content: bytes | None, words: str
) -> None:
    file = tmp_path / "other.jinja"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(OrchardError, match=f"the chat template in .*other.jinja can't be read: {words}") as caught:
        load_text_model(str(model_folder), TextOptions(chat_template_file=str(file)))
    assert caught.value.kind == "model_failed"


def test_a_load_leaves_no_record_of_random_weights(model_folder: Path) -> None:
    """MLX's key would remember every weight that was made and never computed."""
    load_text_model(str(model_folder))
    graph = io.StringIO()
    state: Any = mx.random.state
    mx.export_to_dot(graph, state[0])
    assert "->" not in graph.getvalue()


@pytest.mark.parametrize(("fields", "window"), [({"max_position_embeddings": None}, 32_768), ({}, WINDOW)])
def test_the_window(model_folder: Path, tmp_path: Path, fields: dict[str, object], window: int) -> None:
    from orchard.backends.model_folder import _choose_context_window

    class Limitless:
        model_max_length = 10**30

    config = json.loads((model_folder / "config.json").read_text()) | fields
    assert _choose_context_window(config, Limitless()) == window
