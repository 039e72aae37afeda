"""Folders that somebody made to hurt the server: each is refused with a reason, soon, and the others are served."""

import json
import os
import shutil
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, cast

import httpx
import mlx.core as mx
import pytest

from orchard import folder_files
from orchard.backends.audio import listeners, whisper
from orchard.backends.audio.speakers import loading
from orchard.backends.embeddings.embedder import EmbeddingsService
from orchard.backends.embeddings.folder import read_recipe
from orchard.backends.embeddings.reranker import RerankService
from orchard.backends.images.service import ImageService
from orchard.backends.text import model as text
from orchard.backends.text import mtp
from orchard.backends.text.prompt import chat_template
from orchard.backends.text.prompt.chat_template import ChatTemplate
from orchard.backends.text.prompt.time_limit import run_with_time_limit
from orchard.backends.vision import model as vision
from orchard.config import ModelSettings, Settings
from orchard.core.errors import OrchardError
from orchard.core.tasks.embed import EmbeddingOptions
from orchard.core.tasks.generate import Count, Generate, Message, TextPart
from orchard.core.tasks.images import ImageOptions
from orchard.core.tasks.rerank import RerankOptions
from orchard.core.tasks.text_options import TextOptions
from orchard.gateway.models.registry import Registry
from tests.support.model_folders import make_model
from tests.support.models import model_folder
from tests.support.serving import serve
from tests.support.worker_caller import serving

__all__ = ["model_folder"]

Damage = Callable[[Path], object]
FILES = (
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "generation_config.json",
    "model.safetensors",
    "model.safetensors.index.json",
    "chat_template.jinja",
    "1_Pooling/config.json",
)


def pipe(name: str) -> Damage:
    def damage(folder: Path) -> None:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)

    return damage


def endless(name: str) -> Damage:
    def damage(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to("/dev/zero")

    return damage


def listening(folder: Path) -> None:
    """Put a socket in the place of config.json; its path must be short."""
    (folder / "config.json").unlink()
    here = os.getcwd()
    os.chdir(folder)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("config.json")
    finally:
        os.chdir(here)


def written(name: str, content: str) -> Damage:
    return lambda folder: (folder / name).write_text(content)


def edited(name: str, **fields: object) -> Damage:
    def damage(folder: Path) -> None:
        known = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps(known | fields))

    return damage


def large(name: str, size: int) -> Damage:
    def damage(folder: Path) -> None:
        (folder / name).touch()
        os.truncate(folder / name, size)

    return damage


def crowded(folder: Path) -> None:
    for number in range(folder_files.MOST_NAMES):
        (folder / f"{number}").touch()


def looped(folder: Path) -> None:
    (folder / "config.json").unlink()
    (folder / "config.json").symlink_to("config.json")


def index(shard: str) -> Damage:
    return written("model.safetensors.index.json", json.dumps({"weight_map": {"a": "model.safetensors", "b": shard}}))


ELSEWHERE = "its model.safetensors.index.json names a file that is not in its folder"
DAMAGES: dict[str, tuple[Damage, str]] = {
    **{f"pipe {name}": (pipe(name), f"its {name} is not a regular file") for name in FILES},
    "endless config": (endless("config.json"), "its config.json is not a regular file"),
    "endless weights": (endless("model.safetensors"), "its model.safetensors is not a regular file"),
    "socket": (listening, "its config.json is not a regular file"),
    "huge config": (large("config.json", 2**40), "its config.json has more than 67,108,864 bytes"),
    "huge tokenizer": (large("tokenizer.json", 2**40), "its tokenizer.json has more than 67,108,864 bytes"),
    "crowded": (crowded, "it has more than 10,000 files"),
    "loop": (looped, "config.json"),
    "index above": (index("../other/model.safetensors"), ELSEWHERE),
    "index elsewhere": (index("/etc/passwd"), ELSEWHERE),
    "deep config": (written("config.json", '{"a":' * 100_000), "config.json"),
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no test see the models of this machine."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))


@pytest.fixture
def folder(model_folder: Path, tmp_path: Path) -> Path:
    """A sound model, which the tests damage."""
    return Path(shutil.copytree(model_folder, tmp_path / "models" / "hostile"))


@pytest.mark.parametrize("name", DAMAGES)
def test_the_gateway_gives_a_reason_and_sees_the_others(folder: Path, name: str) -> None:
    damage, reason = DAMAGES[name]
    damage(folder)
    make_model(folder.parent / "sound")
    registry = Registry.from_settings(Settings(model_dir=str(folder.parent)))
    assert [entry.id for entry in registry.list_models()] == ["demo", "sound"]
    assert reason in registry.refused["hostile"]
    with pytest.raises(OrchardError, match="model 'hostile' can't be served: ") as raised:
        registry.find("hostile")
    assert reason in raised.value.message


@pytest.mark.parametrize("name", DAMAGES)
def test_the_worker_gives_a_reason(folder: Path, name: str) -> None:
    damage, reason = DAMAGES[name]
    damage(folder)
    with pytest.raises(OrchardError) as raised:
        text.load_text_model(str(folder))
    assert raised.value.kind == "model_failed"
    assert reason in raised.value.message


def _load_image(folder: Path) -> object:
    service = ImageService(str(folder), ImageOptions())
    return service._load(lambda fraction: None)


@pytest.mark.parametrize(
    "load",
    [
        lambda folder: vision.load_vision_model(str(folder)),
        lambda folder: EmbeddingsService._load(folder, EmbeddingOptions(), print, print),
        lambda folder: RerankService._load(folder, RerankOptions(), print, print),
        lambda folder: whisper.load_whisper(folder, print),
        lambda folder: listeners.load_listener(folder, print),
        lambda folder: loading.load_speaker(folder, print),
        lambda folder: mtp.load_head(cast(Any, None), folder),
        _load_image,
    ],
)  # fmt: skip
def test_every_kind_looks_at_the_files_first(folder: Path, load: Callable[[Path], object]) -> None:
    pipe("tokenizer.json")(folder)
    with pytest.raises(OrchardError, match=r"its tokenizer.json is not a regular file"):
        load(folder)


def test_links_to_one_file_of_weights_take_no_more_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(99):
        os.link(folder / "model.safetensors", folder / f"model{number}.safetensors")
    read: list[object] = []
    header = folder_files._read_open_header

    def counted(file: BinaryIO) -> dict[str, Any]:
        read.append(file)
        return header(file)

    monkeypatch.setattr(folder_files, "_read_open_header", counted)
    assert Registry.from_settings(Settings(model_dir=str(folder.parent))).find("hostile").id == "hostile"
    assert len(read) < 9


# What a folder may say, in files that are as they should be


def test_sizes_that_no_model_has_are_refused_before_anything_is_made(folder: Path) -> None:
    for key, value, reason in (
        ("vocab_size", 10**12, "vocab_size is 1,000,000,000,000, and models have at most"),
        ("num_hidden_layers", 10**9, "num_hidden_layers is 1,000,000,000, and models have at most"),
        ("num_hidden_layers", -5, "num_hidden_layers is -5, and must not be negative"),
        ("vocab_size", -1, "vocab_size is -1, and must not be negative"),
        ("hidden_size", [10**30], "hidden_size is 1,000,"),
    ):
        known = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(known | {key: value}))
        with pytest.raises(OrchardError, match=f"can't be loaded: in its config.json {reason}"):
            text.load_text_model(str(folder))
        (folder / "config.json").write_text(json.dumps(known))


@pytest.mark.parametrize("name", ["tokenizer_config.json", "config.json", "processor_config.json", "adapter.json"])
def test_code_of_a_folder_never_runs(folder: Path, tmp_path: Path, name: str) -> None:
    """Whichever file asks for it, and if several do."""
    (folder / "evil.py").write_text(f"open({str(tmp_path / 'was-run')!r}, 'w')\nclass Evil: pass\n")
    kinds = ("AutoConfig", "AutoTokenizer", "AutoProcessor", "AutoModel", "AutoImageProcessor")
    auto_map = {kind: ["evil.Evil", "evil.Evil"] if kind == "AutoTokenizer" else "evil.Evil" for kind in kinds}
    known = json.loads((folder / name).read_text()) if (folder / name).exists() else {}
    fields = {
        "auto_map": auto_map,
        "tokenizer_class": "Evil",
        "processor_class": "Evil",
        "image_processor_type": "Evil",
    }
    (folder / name).write_text(json.dumps(known | fields))
    for load in (text.load_text_model, vision.load_vision_model, _load_embedder):
        with suppress(OrchardError, vision.NoMediaError):
            load(str(folder))
    assert not (tmp_path / "was-run").exists()


def _load_embedder(path: str) -> object:
    return EmbeddingsService._load(Path(path), EmbeddingOptions(), print, print)


def ruinous(folder: Path) -> None:
    """Give a tokenizer a pattern that tries every way to divide a word."""
    known = json.loads((folder / "tokenizer.json").read_text())
    split = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
    known["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [split, known["pre_tokenizer"]]}
    (folder / "tokenizer.json").write_text(json.dumps(known))


async def test_a_pattern_that_backtracks_fails_one_request_only(folder: Path) -> None:
    ruinous(folder)
    async with serving(folder) as caller:
        task = Generate((Message("user", (TextPart("a" * 60 + "!"),)),), max_tokens=2)
        failed = await caller.failure("bad", task)
        assert failed.kind == "internal"
        assert "retry-limit-in-match" in failed.message
        assert (await caller.failure("count", Count(task))).kind == "internal"
        good = await caller.ask("good", Generate((Message("user", (TextPart("Hello"),)),), max_tokens=2))
        assert good.usage.completion_tokens == 2


SLOW = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"


@pytest.mark.parametrize("template", [SLOW, "{% if tools %}" + SLOW + "{% endif %}{{ messages[0].content }}"])
def test_a_template_that_never_ends_fails_the_load_once(
    folder: Path, template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    edited("tokenizer_config.json", chat_template=template)(folder)
    monkeypatch.setattr(chat_template, "_RENDER_SECONDS", 0.5)
    late: list[str] = []

    def watched(seconds: float, work: Callable[[], str]) -> str:
        try:
            return run_with_time_limit(seconds, work)
        except TimeoutError:
            late.append(template)
            raise

    monkeypatch.setattr(chat_template, "run_with_time_limit", watched)
    with pytest.raises(OrchardError, match="chat template did not finish within") as raised:
        ChatTemplate(text.load_text_model(str(folder)).tokenizer, None)
    assert (raised.value.kind, len(late)) == ("model_failed", 1)


# Adapters

LORA = {"fine_tune_type": "lora", "num_layers": 1, "lora_parameters": {"rank": 2, "scale": 1.0, "dropout": 0.5}}


def make_adapter(folder: Path, config: dict[str, Any]) -> Path:
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps(config))
    mx.save_safetensors(str(folder / "adapters.safetensors"), {"../../other": mx.zeros((1,))})
    return folder


def lora(**fields: object) -> dict[str, Any]:
    return LORA | {"lora_parameters": {"rank": 2, "scale": 1.0, "dropout": 0.5} | fields}


@pytest.mark.parametrize(
    "config",
    [
        LORA,
        lora(rank=10**12),
        lora(rank=-1),
        lora(keys=["../../x"]),
        LORA | {"num_layers": 10**12},
        LORA | {"num_layers": -5},
        LORA | {"base_model_name_or_path": "../../../etc", "fine_tune_type": "full"},
    ],
)
def test_an_adapter_of_nonsense_is_refused(folder: Path, tmp_path: Path, config: dict[str, Any]) -> None:
    adapter = make_adapter(tmp_path / "adapter", config)
    with pytest.raises(OrchardError, match=r"the adapter in .* can't be applied: "):
        text.load_text_model(str(folder), TextOptions(adapter_path=str(adapter)))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (pipe("adapter_config.json"), "its adapter_config.json is not a regular file"),
        (pipe("adapters.safetensors"), "its adapters.safetensors is not a regular file"),
        (large("adapter_config.json", 2**40), "its adapter_config.json has more than"),
    ],
)
def test_files_of_an_adapter_are_looked_at_first(folder: Path, tmp_path: Path, damage: Damage, reason: str) -> None:
    adapter = make_adapter(tmp_path / "adapter", LORA)
    damage(adapter)
    with pytest.raises(OrchardError, match=f"the adapter in .* can't be applied: {reason}"):
        text.load_text_model(str(folder), TextOptions(adapter_path=str(adapter)))


# Other files that a user names, and folders of folders


@pytest.mark.parametrize("damage", [pipe, endless])
def test_a_file_for_the_chat_template(folder: Path, tmp_path: Path, damage: Callable[[str], Damage]) -> None:
    damage("template.jinja")(tmp_path)
    options = TextOptions(chat_template_file=str(tmp_path / "template.jinja"))
    models = (ModelSettings(model_path=str(folder), text=options),)
    assert Registry.from_settings(Settings(models=models)).find("hostile").capabilities == ()
    with pytest.raises(OrchardError, match="can't be read: it is not a regular file"):
        text.load_text_model(str(folder), options)


def test_a_link_to_itself_hides_no_other_model(folder: Path) -> None:
    (folder.parent / "again").symlink_to("again")
    (folder.parent / "up").symlink_to(".")
    assert [entry.id for entry in Registry.from_settings(Settings(model_dir=str(folder.parent))).list_models()] == [
        "demo",
        "hostile",
        "up/hostile",
    ]


def test_a_pipe_in_the_cache(folder: Path, tmp_path: Path) -> None:
    repo = tmp_path / "hub" / "models--org--piped"
    (repo / "snapshots").mkdir(parents=True)
    shutil.copytree(folder, repo / "snapshots" / "c0ffee")
    (repo / "snapshots" / "again").symlink_to("again")
    (repo / "refs").mkdir()
    os.mkfifo(repo / "refs" / "main")
    assert [entry.id for entry in Registry.from_settings(Settings()).list_models()] == ["demo", "org/piped"]


def test_a_module_of_an_embedding_model_is_in_its_folder(folder: Path) -> None:
    module = {"path": "../other", "type": "sentence_transformers.models.Pooling"}
    (folder / "modules.json").write_text(json.dumps([module]))
    with pytest.raises(OrchardError, match=r"its modules.json names a folder that is not in its own \(../other\)"):
        read_recipe(folder, {})


# A whole server


def test_a_server_starts_among_hostile_folders_and_serves_the_others(folder: Path) -> None:
    for number, (damage, _) in enumerate(DAMAGES.values()):
        damage(Path(shutil.copytree(folder, folder.parent / f"hostile-{number}", symlinks=True)))
    late = Path(shutil.copytree(folder, folder.parent / "late"))  # what the gateway can't see fails the load
    edited("config.json", vocab_size=10**12)(late)
    os.mkfifo(folder.parent / "pipe")
    with (
        serve((), spare=False, model_dir=str(folder.parent)) as server,
        httpx.Client(base_url=server.url, timeout=60) as client,
    ):
        listed = client.get("/v1/models").json()
        assert {"demo", "hostile", "late"} == {model["id"] for model in listed["data"]}
        reasons = {one["id"]: one["reason"] for one in listed["not_served"]}
        assert len(reasons) == len(DAMAGES)
        for name, reason in reasons.items():
            error = client.get(f"/v1/models/{name}").json()["error"]
            assert error["message"].startswith(f"model '{name}' can't be served: {reason}")
            assert str(folder.parent) not in error["message"]
        body: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
        failed = client.post("/v1/chat/completions", json=body | {"model": "late"})
        assert "vocab_size is 1,000,000,000,000" in failed.json()["error"]["message"]
        assert client.post("/v1/chat/completions", json=body | {"model": "hostile"}).status_code == 200
