"""Folders that people have: what mlx-lm does with each, and what the gateway and a worker do."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx
import mlx_lm
import mlx_lm.utils
import pytest
from mlx import nn
from mlx.utils import tree_flatten

from orchard.backends import checkpoint
from orchard.backends.text.model import TextModel, load_text_model
from orchard.core.errors import OrchardError
from orchard.gateway.models.model_files import FolderReader

Change = Callable[[Path], object]
LOADS = ""


class Row(NamedTuple):
    """What was done to a sound folder; the error of mlx-lm, the gateway's reason and the worker's (LOADS: none).

    `quantised`: the weights are, so that the logits differ a little from the sound folder's.
    """

    change: Change
    library: str
    gateway: str
    worker: str
    quantised: bool = False


def every(*changes: Change) -> Change:
    return lambda folder: [change(folder) for change in changes]


def edited(name: str, **fields: object) -> Change:
    def edit(folder: Path) -> None:
        known = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(known | fields))

    return edit


def written(name: str, content: str) -> Change:
    return lambda folder: (folder / name).write_text(content)


def removed(*names: str) -> Change:
    def remove(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return remove


def renamed(name: str, other: str) -> Change:
    return lambda folder: (folder / name).rename(folder / other)


def weights(change: Callable[[dict[str, mx.array]], dict[str, mx.array]]) -> Change:
    def edit(folder: Path) -> None:
        file = str(folder / "model.safetensors")
        known: dict[str, mx.array] = mx.load(file)  # type: ignore[assignment]
        mx.save_safetensors(file, change(known))

    return edit


def added(**arrays: mx.array) -> Change:
    return weights(lambda known: known | arrays)


def quantised(folder: Path) -> None:
    """Quantise the weights, and leave config.json as it is."""
    network, _ = mlx_lm.utils.load_model(folder)
    nn.quantize(network, group_size=32, bits=8)
    mx.save_safetensors(str(folder / "model.safetensors"), dict(tree_flatten(network.parameters())))


def sharded(*here: int, total: int = 2) -> Change:
    """Divide the weights into two files, and keep these of them, numbered as some of `total`."""

    def divide(folder: Path) -> None:
        known: Any = mx.load(str(folder / "model.safetensors"))
        names = sorted(known)
        for number in here:
            part = names[: len(names) // 2] if number == 1 else names[len(names) // 2 :]
            file = folder / f"model-{number:05}-of-{total:05}.safetensors"
            mx.save_safetensors(str(file), {name: known[name] for name in part})
        (folder / "model.safetensors").unlink()

    return divide


def index(*files: str) -> Change:
    return written("model.safetensors.index.json", json.dumps({"weight_map": dict(enumerate(files))}))


def label(**fields: object) -> Change:
    return edited("config.json", quantization_config=fields)


PACKED = added(**{"model.layers.0.mlp.up_proj.qweight": mx.zeros((8, 8), mx.int32)})
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 123\n"
UNKNOWN = r"Received 2 parameters not in model:\s+bar.weight,\s+foo.weight"
INSTANTIATE = "Couldn't instantiate the backend tokenizer"
NO_TOKENS = "the tokenizer .* it has no file of tokens"
NO_TOKENIZER = "it has no tokenizer: copy tokenizer.json"

TABLE: dict[str, Row] = {
    "sound": Row(lambda folder: None, LOADS, LOADS, LOADS),
    # Configurations
    "infinity": Row(edited("config.json", time_step_limit=[0.0, float("inf")]), LOADS, LOADS, LOADS),
    "not a number": Row(edited("config.json", dropout=float("nan")), LOADS, LOADS, LOADS),
    "infinite settings": Row(edited("tokenizer_config.json", max_length=float("inf")), LOADS, LOADS, LOADS),
    "byte order mark": Row(
        lambda folder: (folder / "config.json").write_bytes(b"\xef\xbb\xbf" + (folder / "config.json").read_bytes()),
        "Unexpected UTF-8 BOM",
        r"its config.json can't be read \(Unexpected UTF-8 BOM",
        "its config.json is not JSON",
    ),
    # Files of weights
    "two files": Row(every(sharded(1, 2), index("model-00001-of-00002.safetensors")), LOADS, LOADS, LOADS),
    "stale index": Row(index("model-00001-of-00002.safetensors"), LOADS, LOADS, LOADS),
    "broken index": Row(written("model.safetensors.index.json", "{"), LOADS, LOADS, LOADS),
    "left over part": Row(
        lambda folder: shutil.copy(folder / "model.safetensors", folder / "model-00001-of-00003.safetensors"),
        LOADS,
        LOADS,
        LOADS,
    ),
    "one of two files": Row(sharded(1), "Missing", "it is not complete: 1 of its 2 files", "Missing 1. parameters: .*"),
    "one of two in the index": Row(
        every(sharded(1, total=1), index("model-00001-of-00001.safetensors", "other.safetensors")),
        "Missing",
        "it is not complete: 1 of its 2 files",
        "Missing 1. parameters: .*",
    ),
    "link to nothing": Row(
        every(removed("model.safetensors"), lambda folder: (folder / "model.safetensors").symlink_to("none")),
        "Failed to open file",
        "it is not complete: 1 of its 1 files of weights are not here",
        r"it has no model\*.safetensors",
    ),
    "truncated": Row(
        lambda folder: (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:-1000]),
        "exceeding the size of the file",
        "its model.safetensors is not complete: 1,000 bytes are missing",
        "its model.safetensors is not complete: 1,000 bytes are missing",
    ),
    "git-lfs pointer": Row(
        written("model.safetensors", POINTER),
        "Invalid json header length",
        "its model.safetensors is a pointer of git-lfs: 'git lfs pull'",
        "its model.safetensors is a pointer of git-lfs: 'git lfs pull'",
    ),
    "PyTorch": Row(
        renamed("model.safetensors", "pytorch_model.bin"),
        "No safetensors found",
        r"in PyTorch's format \(pytorch_model.bin\): .* 'orchard pull ID', or .* 'mlx_lm.convert --hf-path ID'",
        r"it has no model\*.safetensors",
    ),
    "GGUF": Row(
        renamed("model.safetensors", "model-Q4_K_M.gguf"),
        "No safetensors found",
        "it is in GGUF, .* 'orchard import FILE' .* 'orchard pull ID'",
        r"it has no model\*.safetensors",
    ),
    "PEFT adapter": Row(
        every(
            renamed("model.safetensors", "adapter_model.safetensors"),
            renamed("config.json", "adapter_config.json"),
        ),
        "No such file",
        "it is a LoRA adapter and not a model: .* `adapters` .* PEFT's",
        "it has no config.json",
    ),
    # Names of weights
    "computed frequencies": Row(
        added(**{"model.layers.0.self_attn.rotary_emb.inv_freq": mx.zeros((8,))}), "inv_freq", LOADS, LOADS
    ),
    "prefix": Row(
        weights(lambda known: {f"language_model.{name}": value for name, value in known.items()}),
        "language_model.lm_head.weight",
        LOADS,
        LOADS,
    ),
    "unknown names": Row(added(**{"foo.weight": mx.zeros(8), "bar.weight": mx.zeros(8)}), UNKNOWN, LOADS, UNKNOWN),
    # Quantisation
    "quantised in silence": Row(quantised, "Received 32 parameters", LOADS, LOADS, quantised=True),
    "quantised, without a method": Row(
        every(quantised, label(bits=8, group_size=32)), "quant_method", LOADS, LOADS, quantised=True
    ),
    "quantised, as other numbers": Row(
        every(quantised, edited("config.json", quantization={"bits": 4, "group_size": 64})),
        LOADS,
        LOADS,
        LOADS,
        quantised=True,
    ),
    "plain, without a method": Row(label(bits=8, group_size=32), "quant_method", LOADS, LOADS),
    "plain, called AWQ": Row(label(quant_method="awq", bits=4), "model_dtype", LOADS, LOADS),
    "plain, called GPTQ": Row(label(quant_method="gptq", bits=8), "Only bits=8", LOADS, LOADS),
    "AWQ in silence": Row(PACKED, "qweight", LOADS, "its weights are packed as AWQ and GPTQ do it"),
    "AWQ with eight bits": Row(
        every(PACKED, label(quant_method="awq", bits=8)),
        "Only bits=8",
        LOADS,
        "its weights are packed by AWQ with 8 bits, and only 4 bits can be loaded",
    ),
    # Tokenizers
    "no tokenizer": Row(
        removed("tokenizer.json", "tokenizer_config.json"),
        LOADS,
        NO_TOKENIZER,
        NO_TOKENS,
    ),
    "half a tokenizer": Row(
        removed("tokenizer.json"),
        INSTANTIATE,
        "it has only the tokenizer's settings, tokenizer_config.json: copy tokenizer.json",
        NO_TOKENS,
    ),
    "a tokenizer of bytes": Row(
        every(removed("tokenizer.json"), edited("tokenizer_config.json", tokenizer_class="ByT5Tokenizer")),
        LOADS,
        LOADS,
        LOADS,
    ),
}


@pytest.fixture(params=TABLE)
def row(request: pytest.FixtureRequest) -> Row:
    return TABLE[request.param]


@pytest.fixture
def folder(row: Row, model_folder: Path, tmp_path: Path) -> Path:
    path = tmp_path / "model"
    shutil.copytree(model_folder, path)
    row.change(path)
    return path


def test_what_mlx_lm_does(row: Row, folder: Path) -> None:
    """If this fails, mlx-lm has changed: what Orchard corrects may not be needed any more."""
    if row.library == LOADS:
        mlx_lm.load(str(folder))
        return
    with pytest.raises(Exception, match=row.library):
        mlx_lm.load(str(folder))


def test_what_the_gateway_says(row: Row, folder: Path) -> None:
    if row.gateway == LOADS:
        FolderReader().read(str(folder))
        return
    with pytest.raises(ValueError, match=row.gateway):
        FolderReader().read(str(folder))


def test_what_a_worker_does(row: Row, folder: Path, model: TextModel) -> None:
    if row.worker == LOADS:
        loaded = load_text_model(str(folder))
        tokens = mx.array([[1, 2, 3]])
        logits, expected = (each.forward(tokens, each.new_cache()) for each in (loaded, model))
        assert mx.allclose(logits, expected, atol=0.5 if row.quantised else 1e-5), mx.abs(logits - expected).max()
        return
    with pytest.raises(OrchardError, match=row.worker) as raised:
        load_text_model(str(folder))
    assert raised.value.kind == "model_failed"
    assert "\n" not in raised.value.message


def test_what_mlx_lm_loads_is_served() -> None:
    """But for a folder without a tokenizer, which would answer with empty texts."""
    unserved = {name for name, row in TABLE.items() if row.library == LOADS and row.gateway + row.worker != LOADS}
    assert unserved == {"no tokenizer"}


@pytest.mark.parametrize("zeros", [True, False])
@pytest.mark.parametrize("outputs", [8, 40, 256])
def test_weights_that_are_repacked_in_parts_are_the_librarys(outputs: int, zeros: bool) -> None:
    weights = {
        "a.qweight": mx.random.randint(0, 2**31 - 1, (128, outputs // 8)),
        "a.scales": mx.random.uniform(shape=(2, outputs)).astype(mx.float16),
        "norm.weight": mx.ones(128),
    }
    if zeros:
        weights["a.qzeros"] = mx.random.randint(0, 2**31 - 1, (2, outputs // 8))
    found, told = checkpoint._repack_in_parts(dict(weights), {"bits": 4, "group_size": 64})
    expected, also_told = checkpoint._repack(dict(weights), {"bits": 4, "group_size": 64})
    assert told == also_told
    assert found.keys() == expected.keys()
    for name in expected:
        assert found[name].dtype == expected[name].dtype
        assert mx.array_equal(found[name], expected[name]).item()
