import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchard.config import ModelSettings, Settings, VoiceModels, options_of
from orchard.core.errors import OrchardError
from orchard.core.request import Adapter
from orchard.core.tasks.images import ImageOptions
from orchard.core.tasks.text_options import TextOptions
from orchard.core.tasks.transcribe import TranscribeOptions
from orchard.gateway.models import hub_cache
from orchard.gateway.models.catalogue import CATALOGUE, find_repo
from orchard.gateway.models.download import Downloads
from orchard.gateway.models.entry import ModelEntry
from orchard.gateway.models.registry import Registry, resolve_model
from orchard.gateway.models.sources import BUNDLED
from orchard.kinds import IMAGE, VISION
from tests.support.embedding_models import MINILM
from tests.support.model_folders import cache_model, make_model, some_weights


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty Hugging Face cache."""
    from huggingface_hub import constants

    path = tmp_path / "hub"
    path.mkdir()
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(path))
    return path


@pytest.fixture
def folder(tmp_path: Path, cache: Path) -> Path:
    """A folder that looks like a model, beside an empty cache."""
    return make_model(tmp_path / "Tiny-1B")


@pytest.fixture
def model_dir(tmp_path: Path, cache: Path) -> Path:
    path = tmp_path / "models"
    path.mkdir()
    return path


def ids(registry: Registry) -> list[str]:
    return [entry.id for entry in registry.list_models()]


def make_adapter(folder: Path) -> str:
    folder.mkdir()
    for name in ("adapter_config.json", "adapters.safetensors"):
        (folder / name).touch()
    return str(folder)


def refused(registry: Registry, name: str, adapter: str | None = None) -> OrchardError:
    with pytest.raises(OrchardError) as raised:
        registry.find(name, Adapter(adapter) if adapter else None)
    return raised.value


# What a user types


def test_the_demo_is_always_here(cache: Path) -> None:
    entry = resolve_model("demo")
    assert entry.id == "demo"
    assert entry.context_window
    assert entry.capabilities == ("tools", "thinking")
    assert ids(Registry.from_settings(Settings())) == ["demo"]


def test_a_model_of_embeddings_reads_as_much_as_its_texts_may_have() -> None:
    assert json.loads((MINILM / "config.json").read_text())["max_position_embeddings"] == 512
    assert resolve_model(str(MINILM)).context_window == 256


@pytest.mark.parametrize(
    ("weights", "config"), [("weights.npz", {}), ("weights.safetensors", {"model_type": "whisper"})]
)
def test_a_whisper_model_needs_no_file_of_a_tokenizer(model_dir: Path, weights: str, config: dict[str, str]) -> None:
    folder = model_dir / "org" / "whisper"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"n_mels": 80, "n_audio_state": 384, "n_vocab": 51_865} | config))
    (folder / weights).write_bytes(some_weights(100))
    entry = Registry.from_settings(Settings(model_dir=str(model_dir))).find("org/whisper")
    assert (entry.id, entry.kind, entry.size_bytes) == ("org/whisper", "transcription", 100)


def test_a_folder_is_served_under_its_name(folder: Path) -> None:
    entry = resolve_model(str(folder))
    assert (entry.id, entry.path, entry.context_window, entry.size_bytes) == ("Tiny-1B", str(folder), 4096, 100)
    assert (entry.kind, entry.capabilities) == ("text", ("tools",))
    assert entry.created == int((folder / "config.json").stat().st_mtime)


def test_a_name_must_fit_into_json(folder: Path) -> None:
    odd = folder.rename(folder.parent / "caf\udce9")
    with pytest.raises(OrchardError, match="surrogates not allowed"):
        resolve_model(str(odd))


@pytest.mark.parametrize(
    "name", ["nowhere", "org/nowhere", "not a name!", "/no/such/folder", "", "~nobody/model", "a" * 5000, "a\0b"]
)
def test_a_name_that_is_nothing(name: str, cache: Path) -> None:
    with pytest.raises(OrchardError) as raised:
        resolve_model(name)
    assert raised.value.kind == "model_not_found"
    assert "orchard pull" in raised.value.message
    assert "such as" not in raised.value.message


def test_a_name_that_is_nearly_a_short_one(cache: Path) -> None:
    with pytest.raises(OrchardError, match="nor a short name for one \\(such as 'qwen3:8b', "):
        resolve_model("qwen3:8bit")


@pytest.mark.parametrize(
    ("file", "content", "reason"),
    [
        ("config.json", None, "no config.json"),
        ("config.json", "{", "can't be read"),
        ("config.json", "[" * 100_000, "can't be read"),
        ("config.json", b'{"model_type": "\xff"}', "can't be read"),
        ("config.json", "[]", "not a JSON object"),
        ("config.json", "{}", "model_type"),
        ("model.safetensors", None, "safetensors"),
        (
            "model.safetensors.index.json",
            '{"weight_map": {"a": "model.safetensors", "b": "model-2.safetensors"}}',
            "1 of its 2 files",
        ),
    ],
)
def test_a_folder_that_is_no_model_says_why(folder: Path, file: str, content: str | bytes | None, reason: str) -> None:
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(OrchardError, match=reason):
        resolve_model(str(folder))


# The cache


def test_a_cached_model_is_found_by_its_id(cache: Path) -> None:
    snapshot = cache_model(cache, "org/Tiny-1B")
    registry = Registry.from_settings(Settings())
    entry = registry.find("org/Tiny-1B")
    assert (entry.path, entry.context_window, entry.repo) == (str(snapshot), 4096, "org/Tiny-1B")
    assert (entry.configured, resolve_model("org/Tiny-1B").path) == (False, str(snapshot))
    assert ids(registry) == ["demo", "org/Tiny-1B"]


def test_found_models_run_as_the_settings_say(cache: Path) -> None:
    cache_model(cache, "org/a")
    text = TextOptions(context_length=1000)
    entry = Registry.from_settings(Settings(text=text, ttl=60)).find("org/a")
    assert (entry.options, entry.ttl, entry.context_window) == (text, 60, 1000)


def test_a_cache_that_is_a_file_holds_nothing(cache: Path) -> None:
    cache.rmdir()
    cache.write_text("no folder")
    assert ids(Registry.from_settings(Settings())) == ["demo"]


def test_what_is_no_whole_model_is_not_listed(cache: Path) -> None:
    cache_model(cache, "org/half", shards=3, here=2)
    cache_model(cache, "org/nothing", here=0)
    numbered = cache_model(cache, "org/no-index", shards=3, here=2)
    (numbered / "model.safetensors.index.json").unlink()
    (cache / "models--a--b--c").mkdir()
    (cache / "datasets--org--data").mkdir()
    registry = Registry.from_settings(Settings())
    assert ids(registry) == ["demo"]
    assert refused(registry, "org/half").kind == "model_not_found"


def test_a_download_that_ends_while_the_server_runs_is_seen(cache: Path) -> None:
    registry = Registry.from_settings(Settings())
    snapshot = cache_model(cache, "org/new", shards=2, here=1)
    assert refused(registry, "org/new").kind == "model_not_found"
    (snapshot / "model-00002-of-00002.safetensors").write_bytes(some_weights(150))
    assert registry.find("org/new").size_bytes == 250
    assert ids(registry) == ["demo", "org/new"]
    shutil.rmtree(snapshot.parent.parent)
    assert refused(registry, "org/new").kind == "model_not_found"
    assert ids(registry) == ["demo"]


def test_what_does_not_change_is_read_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = cache_model(cache, "org/a")
    old = (snapshot.stat().st_mtime - 60,) * 2
    os.utime(snapshot / "config.json", old)
    os.utime(snapshot, old)
    registry = Registry.from_settings(Settings())
    # With the times as they were nobody looks into the file.
    (snapshot / "config.json").write_text("{}")
    os.utime(snapshot / "config.json", old)
    assert registry.find("org/a").context_window == 4096
    (snapshot / "config.json").write_text(json.dumps({"model_type": "qwen3", "max_position_embeddings": 8192}))
    assert registry.find("org/a").context_window == 8192


def test_a_file_that_grows_in_its_place_is_seen_at_last(model_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_model(model_dir / "copied")
    os.truncate(folder / "model.safetensors", 90)
    for path in (folder / "config.json", folder):
        os.utime(path, (10**9, 10**9))
    registry = Registry.from_settings(Settings(model_dir=str(model_dir)))
    (folder / "model.safetensors").write_bytes(some_weights(100))
    assert "10 bytes are missing" in refused(registry, "copied").message
    later = time.monotonic() + 60
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert registry.find("copied").size_bytes == 100


def test_revisions(cache: Path) -> None:
    main = cache_model(cache, "org/a", commit="111")
    other = cache_model(cache, "org/a", commit="222", ref="v2")
    registry = Registry.from_settings(
        Settings(
            models=(
                ModelSettings(model_path="org/a", revision="v2", served_model_name="by-tag"),
                ModelSettings(model_path="org/a", revision="111", served_model_name="by-commit"),
            )
        )
    )
    assert [registry.find(name).path for name in ("by-tag", "by-commit")] == [str(other), str(main)]
    with pytest.raises(OrchardError, match="can't be served"):
        Registry.from_settings(Settings(models=(ModelSettings(model_path="org/a", revision="v3"),)))
    with pytest.raises(OrchardError, match="can't be served"):
        Registry.from_settings(Settings(models=(ModelSettings(model_path="org/a", revision="../snapshots/111"),)))
    for folder in ("demo", str(main)):
        with pytest.raises(OrchardError, match="has no revisions"):
            Registry.from_settings(Settings(models=(ModelSettings(model_path=folder, revision="v2"),)))


def test_an_old_snapshot_serves_while_the_new_one_is_downloaded(cache: Path) -> None:
    old = cache_model(cache, "org/a", commit="111")
    new = cache_model(cache, "org/a", commit="222", here=0)
    registry = Registry.from_settings(Settings())
    assert registry.find("org/a").path == str(old)
    (new / "model.safetensors").write_bytes(some_weights(100))
    assert registry.find("org/a").path == str(new)


def test_a_model_without_a_main_branch_here_is_found(cache: Path) -> None:
    snapshot = cache_model(cache, "org/a", ref=None)
    assert Registry.from_settings(Settings()).find("org/a").path == str(snapshot)


def test_the_newest_snapshot_is_served_if_there_is_no_main_branch(cache: Path) -> None:
    snapshots = {commit: cache_model(cache, "org/a", commit=commit, ref=None) for commit in ("111", "333", "222")}
    for seconds, commit in enumerate(("222", "333", "111")):
        os.utime(snapshots[commit], (seconds, seconds))
    assert Registry.from_settings(Settings()).find("org/a").path == str(snapshots["111"])


# Folders


def test_sub_folders_are_models(model_dir: Path) -> None:
    plain, owned = make_model(model_dir / "plain"), make_model(model_dir / "org" / "owned")
    make_model(model_dir / "plain" / "inner")
    make_model(model_dir / ".hidden")
    make_model(model_dir / "a" / "b" / "too-deep")
    registry = Registry.from_settings(Settings(model_dir=str(model_dir)))
    assert ids(registry) == ["demo", "org/owned", "plain"]
    assert (registry.find("plain").path, registry.find("org/owned").path) == (str(plain), str(owned))
    for name in ("plain/inner", ".hidden", "a/b/too-deep", "org"):
        assert refused(registry, name).kind == "model_not_found"


def test_gguf_is_called_by_its_name(cache: Path, model_dir: Path) -> None:
    make_model(model_dir / "org" / "whole")
    snapshot = cache / "models--org--cached-GGUF" / "snapshots" / "c0ffee"
    for folder in (model_dir / "plain", model_dir / "org" / "owned", snapshot):
        folder.mkdir(parents=True)
        (folder / "tiny.Q8_0.gguf").touch()
    registry = Registry.from_settings(Settings(model_dir=str(model_dir)))
    assert ids(registry) == ["demo", "org/whole"]
    assert list(registry.refused) == ["org/cached-GGUF", "org/owned", "plain"]
    assert all("it is in GGUF" in reason and "mlx-community" in reason for reason in registry.refused.values())
    for name in ("plain", "org/owned", "org/cached-GGUF", "tiny.Q8_0.gguf"):
        error = refused(registry, name)
        assert error.kind == "model_not_found"
        assert f"model '{name}' can't be served: it is in GGUF" in error.message
    assert "GGUF" not in refused(registry, "org").message


def test_no_other_path_is_taken(model_dir: Path, tmp_path: Path) -> None:
    make_model(model_dir / "inside")
    outside = make_model(tmp_path / "outside")
    registry = Registry.from_settings(Settings(model_dir=str(model_dir)))
    names = ["../outside", "inside/../../outside", str(outside), f"/{outside}", "./inside", "inside/", "inside/.", "..",
             "", "~", "inside\0", "//inside", "inside//", "../models/inside", "..\\outside"]  # fmt: skip
    for name in names:
        assert refused(registry, name).kind == "model_not_found", name


@pytest.fixture(scope="module")
def walled(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    """A registry over a folder with one model, beside which there is another model."""
    root = tmp_path_factory.mktemp("walled")
    make_model(root / "models" / "inside")
    make_model(root / "outside")
    return Registry.from_settings(Settings(model_dir=str(root / "models")))


@given(st.lists(st.sampled_from(["..", ".", "inside", "outside", "", "~", "models", "\\", "\0", " "]), max_size=6))
def test_no_path_leads_out(walled: Registry, parts: list[str]) -> None:
    name = "/".join(parts)
    if name == "inside":
        assert walled.find(name).path.endswith("models/inside")
    else:
        assert refused(walled, name).kind == "model_not_found"


def test_a_link_in_the_folder_is_its_owners_choice(model_dir: Path, tmp_path: Path) -> None:
    (model_dir / "linked").symlink_to(make_model(tmp_path / "elsewhere"))
    registry = Registry.from_settings(Settings(model_dir=str(model_dir)))
    assert registry.find("linked").path == str(model_dir / "linked")


def test_a_folder_that_comes_later_is_seen(model_dir: Path) -> None:
    registry = Registry.from_settings(Settings(model_dir=str(model_dir)))
    make_model(model_dir / "later")
    assert registry.find("later").id == "later"


# Configured models


def test_configured_models_come_first_and_hide_found_ones(cache: Path, folder: Path) -> None:
    cache_model(cache, "org/a")
    cache_model(cache, "org/b")
    models = (
        ModelSettings(model_path=str(folder), served_model_name="org/a", aliases=("short",), ttl=5, pinned=True),
        ModelSettings(model_path="demo", on_demand=True, text=TextOptions(decode_concurrency=2)),
    )
    registry = Registry.from_settings(Settings(models=models, ttl=60))
    assert ids(registry) == ["org/a", "demo", "org/b"]
    first, second = registry.configured_models()
    assert registry.find("org/a") == registry.find("short") == first
    assert (first.path, first.ttl, first.pinned, first.on_demand) == (str(folder), 5, True, False)
    assert (second.ttl, second.on_demand, second.text.decode_concurrency, second.configured) == (60, True, 2, True)


def test_a_renamed_model_is_not_found_a_second_time(cache: Path, model_dir: Path) -> None:
    cache_model(cache, "org/a")
    make_model(model_dir / "b")
    models = (
        ModelSettings(model_path="org/a", served_model_name="gpt-4"),
        ModelSettings(model_path=str(model_dir / "b"), served_model_name="gpt-5"),
    )
    registry = Registry.from_settings(Settings(models=models, model_dir=str(model_dir)))
    assert ids(registry) == ["gpt-4", "gpt-5", "demo"]
    assert registry.find("org/a").id == "gpt-4"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {}),
        ({}, {"served_model_name": "x", "aliases": ("demo",)}),
        ({"served_model_name": "x", "aliases": ("y",)}, {"served_model_name": "y"}),
        ({"served_model_name": "x", "aliases": ("z",)}, {"served_model_name": "y", "aliases": ("z",)}),
    ],
)
def test_names_that_clash(first: dict[str, Any], second: dict[str, Any], cache: Path) -> None:
    models = tuple(ModelSettings(model_path="demo", **more) for more in (first, second))
    with pytest.raises(OrchardError, match="two models of the configuration are called"):
        Registry.from_settings(Settings(models=models))


def test_a_missing_model_says_how_to_get_it(cache: Path) -> None:
    with pytest.raises(OrchardError, match="'orchard pull org/a' fetches it"):
        Registry.from_settings(Settings(models=(ModelSettings(model_path="org/a"),)))


def test_what_the_configuration_says_of_a_model_goes_before_its_files(cache: Path, tmp_path: Path) -> None:
    template = tmp_path / "t.jinja"
    template.write_text("<think>")
    text = TextOptions(chat_template_file=str(template), context_length=10**6)
    registry = Registry.from_settings(
        Settings(models=(ModelSettings(model_path="demo", model_type="image-edit", text=text),))
    )
    entry = registry.find_local("demo")
    assert (entry.kind, entry.capabilities, entry.context_window) == ("image", ("thinking",), 32768)


def test_a_configured_model_that_is_deleted_stays_known(folder: Path) -> None:
    registry = Registry.from_settings(Settings(models=(ModelSettings(model_path=str(folder)),)))
    shutil.rmtree(folder)
    assert registry.find("Tiny-1B").path == str(folder)  # its load says what is wrong
    assert ids(registry) == ["Tiny-1B", "demo"]


# Kinds


def test_a_model_of_images_is_recognised_and_has_options_of_its_own(cache: Path) -> None:
    snapshot = cache_model(cache, "org/a", config={})
    (snapshot / "model_index.json").touch()
    images = ImageOptions(quantize=8)
    registry = Registry.from_settings(replace(Settings(), image=images))
    entry = registry.find("org/a")
    assert (entry.kind, entry.backend, entry.options) == ("image", IMAGE, images)
    own = replace(ModelSettings(model_path="org/a"), image=ImageOptions(config_name="flux-dev"))
    entry = Registry.from_settings(replace(Settings(models=(own,)), image=images)).find("org/a")
    assert entry.options == options_of(own, ImageOptions)


def test_a_speech_model_has_the_voices_of_its_folder(cache: Path, model_dir: Path) -> None:
    folder = make_model(model_dir / "csm", config={"model_type": "sesame"})
    (folder / "prompts").mkdir()
    (folder / "prompts" / "ann.wav").write_bytes(b"RIFF")
    make_model(model_dir / "orpheus", config={"model_type": "llama"})
    settings = Settings(
        model_dir=str(model_dir), models=(ModelSettings(model_path=str(model_dir / "orpheus"), model_type="speech"),)
    )
    registry = Registry.from_settings(settings)
    found = {name: registry.find(name) for name in ("csm", "orpheus")}
    assert {name: (one.kind, one.voices[:2]) for name, one in found.items()} == {
        "csm": ("speech", ("ann",)),
        "orpheus": ("speech", ("tara", "leah")),
    }


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        ({"model_type": "vibevoice", "architectures": ["VibeVoiceForASRTraining"]}, "transcription"),
        ({"model_type": "vibevoice", "architectures": ["VibeVoiceForConditionalGeneration"]}, "speech"),
        ({"model_type": "vibevoice"}, "speech"),
    ],
)
def test_models_of_one_type_speak_or_transcribe(model_dir: Path, config: dict[str, Any], kind: str) -> None:
    make_model(model_dir / "v", config=config)
    assert Registry.from_settings(Settings(model_dir=str(model_dir))).find("v").kind == kind


def test_a_vision_model_has_a_backend_of_its_own(cache: Path) -> None:
    cache_model(cache, "org/v", config={"model_type": "qwen3_vl", "vision_config": {"depth": 1}})
    entry = Registry.from_settings(Settings()).find("org/v")
    assert (entry.kind, entry.backend, entry.capabilities) == ("vision", VISION, ("vision", "tools"))


# Names that are not here


def test_the_closest_names_are_told(cache: Path) -> None:
    for name in ("org/Qwen3-4B-4bit", "org/Llama-3-8B", "other/gemma-2"):
        cache_model(cache, name)
    registry = Registry.from_settings(Settings())
    assert "the closest name is 'org/Qwen3-4B-4bit'" in refused(registry, "qwen3-4b").message
    assert "'demo', 'org/Llama-3-8B', 'org/Qwen3-4B-4bit', 'other/gemma-2'" in refused(registry, "zzz").message
    assert "the closest names are 'demo-vision'" in refused(registry, "demo-vison").message
    assert "the closest names are 'demo-whisper'" in refused(registry, "demo-wisper").message
    assert refused(registry, "x" * 10**5).kind == "model_not_found"


def test_the_name_of_an_assistant_is_one_of_its_chat_model(cache: Path) -> None:
    voices = {"assistant": VoiceModels(chat="demo"), "demo-whisper": VoiceModels(chat="demo")}
    registry = Registry.from_settings(Settings(realtime=voices))
    assert registry.find("assistant").id == "demo"
    assert registry.find("demo-whisper").id == "demo-whisper"
    with pytest.raises(OrchardError, match="no model 'assistan' here"):
        registry.find("assistan")


def test_the_fallback_answers_for_names_that_are_not_here(cache: Path) -> None:
    cache_model(cache, "org/a")
    registry = Registry.from_settings(Settings(fallback_model="demo"))
    assert registry.find("claude-opus-4").id == registry.find_local("gpt-4").id == "demo"
    assert registry.find("org/a").id == "org/a"
    with pytest.raises(OrchardError, match=r"no model 'nothing' here; .*; fallback_model names it"):
        Registry.from_settings(Settings(fallback_model="nothing"))


@pytest.mark.parametrize(
    "name", ["openai/tiny-1b", "Tiny-1B:latest", "TINY-1b", "openai/Tiny-1B:latest", "OpenAI/helper"]
)
def test_other_spellings_of_a_name(folder: Path, name: str) -> None:
    settings = Settings(models=(ModelSettings(model_path=str(folder), aliases=("Helper",)),), fallback_model="demo")
    registry = Registry.from_settings(settings)
    for find in (registry.find, registry.find_exact, registry.find_local):
        assert find(name).id == "Tiny-1B"
    assert registry.find("openai/tiny").id == "demo"
    assert registry.find("openai/DEMO-vision").id == "demo-vision"


def test_a_spelling_that_fits_two_models_finds_none(model_dir: Path) -> None:
    for name in ("one", "ONE", "two:latest", "two"):
        make_model(model_dir / name)
    registry = Registry.from_settings(Settings(model_dir=str(model_dir)))
    assert registry.find("ONE").id == "ONE"
    assert registry.find("two").id == "two"
    assert refused(registry, "One").kind == "model_not_found"
    assert refused(registry, "Two:latest").kind == "model_not_found"
    assert refused(registry, "openai/" + "o" * 10**6).kind == "model_not_found"


def test_short_names(cache: Path) -> None:
    registry = Registry.from_settings(Settings())
    assert refused(registry, "gemma").kind == "model_not_found"
    for model in CATALOGUE:
        cache_model(cache, model.repo)
    for model in CATALOGUE:
        for name in model.names:
            assert registry.find(name).id == resolve_model(name).id == model.repo
    for name in ("GEMMA", "openai/gemma", "Gemma3:4B", "gemma3:latest"):
        assert registry.find(name).id == resolve_model(name).id == find_repo("gemma")
    assert registry.find(CATALOGUE[0].repo).aliases == ()


@pytest.mark.parametrize("alias", ["gemma", "Gemma"])
def test_a_configured_alias_goes_before_a_short_name(cache: Path, alias: str) -> None:
    repo = find_repo("gemma")
    assert repo
    cache_model(cache, repo)
    models = (ModelSettings(model_path="demo", aliases=(alias,)), ModelSettings(model_path=repo))
    assert Registry.from_settings(Settings(models=models)).find("gemma").id == "demo"


def test_a_short_name_of_the_fallback_model(cache: Path) -> None:
    cache_model(cache, CATALOGUE[0].repo)
    registry = Registry.from_settings(Settings(fallback_model=CATALOGUE[0].names[0]))
    assert registry.find("claude-sonnet").id == CATALOGUE[0].repo


def test_a_short_name_of_a_configured_model(cache: Path) -> None:
    repo = find_repo("qwen")
    assert repo
    cache_model(cache, repo)
    registry = Registry.from_settings(Settings(models=(ModelSettings(model_path=repo, served_model_name="mine"),)))
    assert registry.find("qwen").id == "mine"


def test_a_configured_model_by_its_path(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "link").symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    for written in ("./link/", "link", "~/link", f"{tmp_path}/link"):
        model = ModelSettings(model_path=written, served_model_name="mine", aliases=("also",))
        registry = Registry.from_settings(Settings(models=(model,)))
        names = ("mine", "also", written, written.rstrip("/"), f"{tmp_path}/link", f"{tmp_path}/link/", str(folder))
        for name in (*names, "link", "Tiny-1B"):
            assert registry.find(name).id == "mine", (written, name)
        for name in (f"{tmp_path}/./link", "../link", str(tmp_path), f"{folder}/config.json", "/"):
            assert refused(registry, name).kind == "model_not_found"
        assert ids(registry) == ["mine", "demo"]


def test_a_served_name_goes_before_a_folders(folder: Path, tmp_path: Path) -> None:
    other = make_model(tmp_path / "elsewhere" / "Tiny-1B")
    models = (ModelSettings(model_path=str(other), served_model_name="x"), ModelSettings(model_path=str(folder)))
    registry = Registry.from_settings(Settings(models=models))
    assert (registry.find("Tiny-1B").path, registry.find(str(other)).id) == (str(folder), "x")


def test_a_configured_folder_is_known_by_what_it_is_found_as(cache: Path, model_dir: Path) -> None:
    """It must not be loaded a second time, with other options."""
    snapshot = cache_model(cache, "org/a")
    local = make_model(model_dir / "org" / "b")
    models = (
        ModelSettings(model_path=str(snapshot), served_model_name="a"),
        ModelSettings(model_path=str(local), served_model_name="b"),
    )
    registry = Registry.from_settings(Settings(models=models, model_dir=str(model_dir)))
    assert (registry.find("org/a").id, registry.find("org/b").id) == ("a", "b")
    assert ids(registry) == ["a", "b", "demo"]


def test_a_short_name_whose_model_is_not_here_says_what_to_pull(cache: Path) -> None:
    message = refused(Registry.from_settings(Settings()), "Gemma").message
    repo = find_repo("gemma")
    assert f"'Gemma' is short for '{repo}', which 'orchard pull {repo}' downloads" in message


def test_an_id_of_the_hub_that_is_not_here_says_how_to_pull_it(cache: Path) -> None:
    registry = Registry.from_settings(Settings())
    assert "'orchard pull org/Some-1B' downloads it" in refused(registry, "org/Some-1B").message
    for name in ("gpt-4o", "a/b/c", "../x"):
        assert "orchard pull" not in refused(registry, name).message


# Adapters


def test_an_adapter_makes_another_model(cache: Path, tmp_path: Path) -> None:
    path = make_adapter(tmp_path / "poet")
    model = ModelSettings(model_path="demo", aliases=("d",), adapters={"poet": path}, pinned=True)
    registry = Registry.from_settings(Settings(models=(model, ModelSettings(model_path="demo", served_model_name="x"))))
    assert ids(registry) == ["demo", "demo:poet", "x"]
    base, adapted = registry.find("d"), registry.find("d", Adapter("poet"))
    assert adapted == registry.find("demo:poet") == registry.find("demo:poet", Adapter("poet"))
    assert (adapted.base, adapted.text.adapter_path, adapted.path) == ("demo", path, base.path)
    assert (base.text.adapter_path, base.base) == (None, None)
    assert (adapted.aliases, adapted.pinned, adapted.on_demand) == ((), False, True)
    error = refused(registry, "demo", "painter")
    assert (error.kind, error.param) == ("invalid_request", "adapters")
    assert "it has 'poet'" in error.message
    assert "no adapter 'poet'; its configuration names none" in refused(registry, "x", "poet").message
    assert "no adapter '/etc'" in refused(registry, "demo", "/etc").message


def test_an_adapter_by_its_folder(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_adapter(tmp_path / "poet")
    (tmp_path / "link").symlink_to("poet")
    one = make_adapter(tmp_path / "own")
    models = (
        ModelSettings(model_path="demo", adapters={"rhymes": "./link/"}),
        ModelSettings(model_path="demo", served_model_name="x", text=TextOptions(adapter_path=one)),
    )
    registry = Registry.from_settings(Settings(models=models))
    for name in ("rhymes", "./link/", "./link", f"{tmp_path}/link", f"{tmp_path}/link/", f"{tmp_path}/poet"):
        assert registry.find("demo", Adapter(name)).id == "demo:rhymes"
    for name in ("own", one):
        assert registry.find("x", Adapter(name, "adapter_path")).id == "x"
    for name in ("link", "poet", "../own", f"{tmp_path}/own", "demo:rhymes"):
        assert refused(registry, "demo", name).param == "adapters"
    with pytest.raises(OrchardError) as raised:
        registry.find("x", Adapter("/etc", "adapter_path"))
    assert (raised.value.kind, raised.value.param) == ("invalid_request", "adapter_path")


def test_an_adapter_that_is_none_is_an_error_at_start(tmp_path: Path, cache: Path) -> None:
    with pytest.raises(OrchardError, match=r"adapter 'poet' of model 'demo' .* has no adapter_config.json"):
        Registry.from_settings(Settings(models=(ModelSettings(model_path="demo", adapters={"poet": str(tmp_path)}),)))


@pytest.mark.parametrize("field", ["adapters", "adapter_path"])
def test_an_adapter_of_a_model_that_can_have_none_is_an_error_at_start(tmp_path: Path, cache: Path, field: str) -> None:
    poet = make_adapter(tmp_path / "poet")
    given: Any = {"adapters": {"poet": poet}} if field == "adapters" else {"text": TextOptions(adapter_path=poet)}
    model = ModelSettings(model_path=str(MINILM), served_model_name="minilm", **given)
    with pytest.raises(OrchardError, match=r"can't be served: models of the kind 'embeddings' take no `adapters`"):
        Registry.from_settings(Settings(models=(model,)))


# Models to be downloaded


def test_with_leave_to_download_a_model_need_not_be_here(cache: Path) -> None:
    models = (ModelSettings(model_path="org/configured", served_model_name="mine"),)
    registry = Registry.from_settings(Settings(models=models, allow_download=True))
    assert (registry.find("mine").path, registry.find("mine").repo) == ("", "org/configured")
    assert (registry.find("org/asked").path, registry.find("org/asked").repo) == ("", "org/asked")
    assert registry.find("gemma").repo == find_repo("gemma")
    for name in ("plain", "a/b/c", "../x", "org/..", "org/a b", "-org/a", "org/" + "a" * 100):
        assert refused(registry, name).kind == "model_not_found", name
    snapshot = cache_model(cache, "org/configured")
    assert registry.find("mine").path == str(snapshot)


async def test_a_downloaded_model_that_can_have_no_adapter_is_an_error(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = TextOptions(adapter_path=make_adapter(tmp_path / "poet"))
    models = (ModelSettings(model_path="org/configured", served_model_name="mine", text=own),)
    registry = Registry.from_settings(Settings(models=models, allow_download=True))

    async def fetch(repo: str, revision: str | None) -> None:
        cache_model(cache, repo, config={"model_type": "bert"})

    monkeypatch.setattr(registry.downloads, "fetch", fetch)
    with pytest.raises(OrchardError, match=r"was downloaded, but .*models of the kind 'embeddings' take no `adapters`"):
        await registry.fetch(registry.find("mine"))


# As tests make it


def test_given_entries_are_all_there_is() -> None:
    entries = [ModelEntry("a", "", None, "fake", aliases=("b",)), ModelEntry("a:x", "", None, "fake", base="a")]
    registry = Registry(entries)
    assert (registry.list_models(), registry.configured_models()) == (entries, entries)
    assert registry.find("b") == entries[0]
    assert registry.find("b", Adapter("x")) == entries[1]
    assert refused(registry, "demo").message.startswith("no model 'demo' here; this server has 'a', 'b', 'a:x'; ")


def test_the_layout_is_that_of_huggingface_hub(cache: Path) -> None:
    from huggingface_hub.file_download import repo_folder_name
    from huggingface_hub.utils import HFValidationError, validate_repo_id

    for name in (
        "org/a",
        "a",
        "a.b/c_d-e",
        "a--b/c",
        "a/..",
        "a/b/c",
        ".a/b",
        "a-/b",
        "a/b.",
        "_a/b",
        "",
        "é/b",
        "a/b\n",
    ):
        try:
            validate_repo_id(name)
            valid = True
        except HFValidationError:
            valid = False
        assert hub_cache.is_repo_id(name) == valid, name
        if valid:
            (cache / repo_folder_name(repo_id=name, repo_type="model")).mkdir()
            assert hub_cache.repo_folder(name)


def test_a_draft_model_is_found_as_models_are(folder: Path, cache: Path) -> None:
    """By a folder, the name demo, or an id; its weights count."""
    snapshot = cache_model(cache, "org/small")
    bare = Registry.from_settings(Settings(models=(ModelSettings(model_path=str(folder)),))).find("Tiny-1B")
    for name, found in ((str(folder), str(folder)), ("demo", BUNDLED["demo"].folder), ("org/small", str(snapshot))):
        settings = ModelSettings(model_path=str(folder), text=TextOptions(draft_model_path=name))
        entry = Registry.from_settings(Settings(models=(settings,))).find("Tiny-1B")
        assert entry.text.draft_model_path == found
        assert entry.size_bytes > bare.size_bytes


@pytest.mark.parametrize(
    ("name", "words"), [("nonsuch", "no model 'nonsuch'"), ("org/none", "not in the local Hugging Face cache")]
)
def test_a_draft_model_that_is_not_here(folder: Path, name: str, words: str) -> None:
    settings = ModelSettings(model_path=str(folder), text=TextOptions(draft_model_path=name))
    with pytest.raises(OrchardError, match=f"can't be served: its draft model '{name}' can't be found: .*{words}"):
        Registry.from_settings(Settings(models=(settings,)))


@pytest.mark.parametrize("name", ["demo", "nonsuch", "org/none"])
def test_a_draft_model_is_neither_needed_nor_counted_without_speculation(folder: Path, name: str) -> None:
    bare = Registry.from_settings(Settings(models=(ModelSettings(model_path=str(folder)),))).find("Tiny-1B")
    options = TextOptions(draft_model_path=name, speculation="off")
    settings = ModelSettings(model_path=str(folder), text=options)
    entry = Registry.from_settings(Settings(models=(settings,))).find("Tiny-1B")
    assert (entry.size_bytes, entry.options) == (bare.size_bytes, options)


def test_a_model_on_several_ranks_has_no_adapters(folder: Path, tmp_path: Path) -> None:
    for name in ("adapter_config.json", "adapters.safetensors"):
        (tmp_path / name).touch()
    settings = ModelSettings(model_path=str(folder), adapters={"own": str(tmp_path)}, text=TextOptions(ranks=2))
    with pytest.raises(OrchardError, match="adapter_path can't be combined with ranks above 1"):
        Registry.from_settings(Settings(models=(settings,)))


@pytest.mark.parametrize("options", [{"draft_model_path": "demo"}, {"ranks": 2}])
def test_models_of_other_kinds_have_neither_draft_nor_ranks(cache: Path, options: dict[str, Any]) -> None:
    settings = ModelSettings(model_path=str(MINILM), text=TextOptions(**options))
    with pytest.raises(OrchardError, match=f"models of the kind 'embeddings' take no `{next(iter(options))}`"):
        Registry.from_settings(Settings(models=(settings,)))


def with_diarizer(path: str, name: str, **settings: Any) -> ModelSettings:
    return ModelSettings(model_path=path, transcription=TranscribeOptions(diarizer=name), **settings)  # type: ignore[call-arg]


def test_a_diarizer_is_found_as_models_are(cache: Path) -> None:
    """Its weights count, and it is only for transcription models."""
    snapshot = cache_model(cache, "org/small")
    bare = Registry.from_settings(Settings(models=(ModelSettings(model_path="demo-whisper"),))).find("demo-whisper")
    settings = Settings(models=(with_diarizer("demo-whisper", "org/small"),))
    entry = Registry.from_settings(settings).find("demo-whisper")
    assert isinstance(entry.options, TranscribeOptions)
    assert entry.options.diarizer == str(snapshot)
    assert entry.size_bytes > bare.size_bytes
    with pytest.raises(OrchardError, match=r"its diarizer 'org/none' can't be found: .*not in the local Hugging"):
        Registry.from_settings(Settings(models=(with_diarizer("demo-whisper", "org/none"),)))
    with pytest.raises(OrchardError, match="models of the kind 'embeddings' take no `diarizer`"):
        Registry.from_settings(Settings(models=(with_diarizer(str(MINILM), "org/small"),)))


@pytest.fixture
def fetched(cache: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What has been downloaded."""
    done: list[str] = []

    async def fetch(self: Downloads, repo: str, revision: str | None) -> None:
        done.append(repo)
        cache_model(cache, repo)

    monkeypatch.setattr(Downloads, "fetch", fetch)
    return done


def with_draft(**options: Any) -> Registry:
    """A registry with leave to download a model and its draft."""
    text = TextOptions(draft_model_path="org/small", **options)
    settings = ModelSettings(model_path="org/large", served_model_name="mine", text=text)
    return Registry.from_settings(Settings(models=(settings,), allow_download=True))


async def test_a_draft_model_is_downloaded_with_its_model(cache: Path, fetched: list[str]) -> None:
    registry = with_draft()
    cache_model(cache, "org/large")
    assert registry.find("mine").path == ""
    entry = await registry.fetch(registry.find("mine"))
    assert fetched == ["org/large", "org/small"]
    assert Path(entry.text.draft or "").is_relative_to(cache)
    await registry.fetch(entry)
    assert fetched == ["org/large", "org/small", "org/large"]


async def test_a_diarizer_is_downloaded_with_its_model(
    cache: Path, fetched: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = with_diarizer("org/ears", "org/who", model_type="whisper", served_model_name="ears")
    registry = Registry.from_settings(Settings(models=(settings,), allow_download=True))
    entry = await registry.fetch(registry.find("ears"))
    assert fetched == ["org/ears", "org/who"]
    assert isinstance(entry.options, TranscribeOptions)
    assert Path(entry.options.diarizer or "").is_relative_to(cache)


async def test_a_draft_model_is_not_downloaded_without_speculation(cache: Path, fetched: list[str]) -> None:
    registry = with_draft(speculation="off")
    assert (await registry.fetch(registry.find("mine"))).path
    assert fetched == ["org/large"]
