"""Which preset runs a folder."""

import json
from pathlib import Path
from typing import Any

import pytest

from orchard.backends.images.presets import PRESETS
from orchard.backends.images.recognise import preset_for
from orchard.core.errors import OrchardError


def folder_with(path: Path, pipeline: str | None = None, **config: Any) -> Path:
    (path / "transformer").mkdir(parents=True)
    if pipeline:
        (path / "model_index.json").write_text(json.dumps({"_class_name": pipeline}))
    if config:
        (path / "transformer" / "config.json").write_text(json.dumps(config))
    return path


@pytest.mark.parametrize(
    ("name", "pipeline", "config", "expected"),
    [
        ("anything", "FluxPipeline", {"guidance_embeds": False}, "flux-schnell"),
        ("FLUX.1-dev", "FluxPipeline", {"guidance_embeds": True}, "flux-dev"),
        ("flux.1_krea-dev-8bit", "FluxPipeline", {"guidance_embeds": True}, "flux-krea-dev"),
        ("anything", "FluxKontextPipeline", {}, "flux-kontext-dev"),
        ("anything", "FluxFillPipeline", {}, "flux-fill-dev"),
        ("FLUX.2-klein-4B", "Flux2KleinPipeline", {"num_layers": 5}, "flux2-klein-4b"),
        ("FLUX.2-klein-base-9B", "Flux2KleinPipeline", {"num_layers": 8}, "flux2-klein-base-9b"),
        ("anything", "QwenImagePipeline", {}, "qwen-image"),
        ("anything", "QwenImageEditPlusPipeline", {"zero_cond_t": True}, "qwen-image-edit-2511"),
        ("anything", "QwenImageEditPlusPipeline", {"num_layers": 60}, "qwen-image-edit"),
        ("Z-Image-Turbo", "ZImagePipeline", {}, "z-image-turbo"),
        ("Z-Image", "ZImagePipeline", {}, "z-image"),
        ("Fibo-lite", "BriaFiboPipeline", {}, "fibo-lite"),
        ("FIBO", None, {}, "fibo"),
        ("krea-2-turbo-mflux-q4", "Krea2Pipeline", {}, "krea-2"),
        ("Qwen-Image-2.1-Turbo", None, {}, "qwen-image-2.1-turbo"),
        ("FLUX.1-schnell-mflux-4bit", None, {}, "flux-schnell"),
    ],
)
def test_a_folder_is_recognised(
    tmp_path: Path, name: str, pipeline: str | None, config: dict[str, Any], expected: str
) -> None:
    assert preset_for(folder_with(tmp_path / name, pipeline, **config), None).name == expected


def test_a_snapshot_has_the_name_of_its_repository(tmp_path: Path) -> None:
    folder = tmp_path / "models--Tongyi-MAI--Z-Image-Turbo" / "snapshots" / "0123"
    assert preset_for(folder_with(folder), None).name == "z-image-turbo"


@pytest.mark.parametrize(
    ("pipeline", "config", "listed"),
    [
        (None, {}, tuple(PRESETS)),
        ("FluxPipeline", {"guidance_embeds": True}, ("flux-dev", "flux-krea-dev")),
        ("StableDiffusionPipeline", {}, tuple(name for name, preset in PRESETS.items() if not preset.pipelines)),
    ],
)
def test_one_that_is_not_gets_the_presets_that_it_may_have(
    tmp_path: Path, pipeline: str | None, config: dict[str, Any], listed: tuple[str, ...]
) -> None:
    with pytest.raises(OrchardError, match="set config_name to one of") as caught:
        preset_for(folder_with(tmp_path / "mine", pipeline, **config), None)
    assert caught.value.message.endswith(", ".join(listed))


def test_a_preset_may_be_named(tmp_path: Path) -> None:
    mine = folder_with(tmp_path / "mine", "FluxPipeline", guidance_embeds=True)
    assert preset_for(mine, "flux-krea-dev") is PRESETS["flux-krea-dev"]
    klein = folder_with(tmp_path / "klein", "Flux2KleinPipeline", num_layers=5)
    assert preset_for(klein, "flux2-klein-edit-4b").can_edit


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("flux-pro", "there is no config_name 'flux-pro': it must be one of flux-schnell, "),
        ("flux-schnell", "its files are no model for config_name 'flux-schnell'; they fit flux-dev, flux-krea-dev"),
        ("qwen-image", "its files are no model for config_name 'qwen-image'; they fit flux-dev, flux-krea-dev"),
    ],
)
def test_a_name_that_does_not_fit_is_refused(tmp_path: Path, name: str, message: str) -> None:
    mine = folder_with(tmp_path / "mine", "FluxPipeline", guidance_embeds=True)
    with pytest.raises(OrchardError) as caught:
        preset_for(mine, name)
    assert caught.value.message.startswith(message)


@pytest.mark.parametrize("text", ["[" * 100_000, "{", "[]", '{"_class_name": 5}'])
def test_files_that_anybody_may_have_written_break_nothing(tmp_path: Path, text: str) -> None:
    folder = folder_with(tmp_path / "FIBO")
    (folder / "model_index.json").write_text(text)
    (folder / "transformer" / "config.json").write_text(text)
    if text.endswith("5}"):
        with pytest.raises(OrchardError):
            preset_for(folder, None)
    else:
        assert preset_for(folder, None).name == "fibo"
