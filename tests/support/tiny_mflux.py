"""mflux with small numbers: its own code, in which layers are narrow and few, and random models that fit it.

It runs in the environment for images, by its path: nothing but that environment's packages and `orchard` can be
imported. `build FAMILY FOLDER` writes a model as mflux saves it, `draw` draws with mflux alone what standard input
says, and `work` is a worker of Orchard.
"""

import importlib.abc
import importlib.machinery
import json
import re
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

WORDS = 512
IMAGE_PAD = 500
_NARROW = {3072: 128, 18432: 768, 12288: 256, 1536: 128, 24: 1, 4096: 64, 768: 64}
_VAE = {512: 64, 256: 64, 128: 64}

# What numbers stand for in mflux's modules below a package, the longest name first. Widths stay multiples of 64, so
# that weights can be quantised, and heads keep the sizes that positions are rotated in.
NUMBERS: dict[str, dict[int, int]] = {
    "mflux.models.flux.model.flux_transformer": _NARROW,
    "mflux.models.flux.model.flux_transformer.time_text_embed": {},
    "mflux.models.flux.model.flux_text_encoder.clip_encoder": {768: 64, 3072: 128, 12: 1, 49408: WORDS},
    "mflux.models.flux.model.flux_text_encoder.t5_encoder": {4096: 64, 10240: 128, 24: 1, 32128: WORDS},
    "mflux.models.flux.model.flux_vae": _VAE,
    "mflux.models.flux2.model.flux2_vae.decoder": _VAE,
    "mflux.models.flux2.model.flux2_vae.encoder": _VAE,
    "mflux.models.flux2.model.flux2_vae.vae": _VAE,
    "mflux.models.flux2.model.flux2_text_encoder.qwen3_text_encoder": {36: 28, 32: 1, 8: 1, 128: 64, 151936: WORDS},
    "mflux.models.qwen.model.qwen_transformer": {3072: 128, 24: 1, 60: 1, 3584: 128},
    "mflux.models.qwen.model.qwen_text_encoder": {
        3584: 128,
        28: 1,
        4: 1,
        18944: 128,
        152064: WORDS,
        151655: IMAGE_PAD,
    },
    "mflux.models.qwen.model.qwen_text_encoder.qwen_vision_transformer": {1280: 128, 3584: 128, 32: 2, 16: 2},
    "mflux.models.qwen.model.qwen_text_encoder.qwen_vision_rotary_embedding": {},
    "mflux.models.qwen.model.qwen_text_encoder.qwen_vision_patch_embed": {},
    "mflux.models.qwen.model.qwen_text_encoder.qwen_text_encoder": {},
    "mflux.models.qwen.model.qwen_text_encoder.qwen_rope": {},
    "mflux.models.qwen.model.qwen_vae": {384: 64, 192: 32, 96: 16},
    "mflux.models.z_image.model.z_image_transformer.transformer": {3840: 384, 30: 3, 2560: 64},
    "mflux.models.z_image.model.z_image_text_encoder": {2560: 64, 36: 2, 32: 1, 8: 1, 9728: 128, 151936: WORDS},
    "mflux.models.z_image.model.z_image_vae": _VAE,
}


class _Narrow(importlib.machinery.SourceFileLoader):
    """Compiles a module of mflux with other numbers."""

    def get_code(self, fullname: str) -> types.CodeType:
        """Return the module's code; that which Python has cached has the old numbers."""
        name = max((name for name in NUMBERS if f"{fullname}.".startswith(f"{name}.")), key=len)
        source = self.get_data(self.path).decode()
        if "t5_self_attention" in fullname:  # 64 heads of one
            source = source.replace("(1, -1, 64, 64)", "(1, -1, 64, 1)")
        numbers = NUMBERS[name]
        narrow = re.sub(r"(?<![\w.])\d+(?![\w.])", lambda found: str(numbers.get(int(found[0]), found[0])), source)
        return compile(narrow, self.path, "exec")


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of a module whose numbers are small; None for any other."""
        if not any(f"{fullname}.".startswith(f"{name}.") for name in NUMBERS):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec and spec.origin and spec.origin.endswith(".py"):
            spec.loader = _Narrow(fullname, spec.origin)
        return spec


def shrink() -> None:
    """Make every later import of mflux narrow, and let it compute in float32, in which CPUs are fast."""
    sys.meta_path.insert(0, _Finder())
    import mlx.core as mx
    from mflux.models.common.config.model_config import AVAILABLE_MODELS, ModelConfig

    ModelConfig.precision = mx.float32
    mx.disable_compile()  # a compiler takes seconds
    for name in ("flux2-klein-4b", "flux2-klein-base-4b"):
        config = AVAILABLE_MODELS[name]
        config.transformer_overrides.update(
            num_layers=1, num_single_layers=1, num_attention_heads=1, joint_attention_dim=192
        )
        config.text_encoder_overrides.update(hidden_size=64, intermediate_size=128)


def build(family: str, folder: Path) -> None:
    """Write a random model of a family as mflux saves it, with the tokenizers that it needs."""
    import mlx.core as mx
    from mflux.models.common.config.model_config import AVAILABLE_MODELS
    from mflux.models.common.weights.saving.model_saver import ModelSaver

    mx.random.seed(sum(family.encode()))
    alias, initializer, definition, tokenizers = _family(family)
    model = types.SimpleNamespace(model_config=AVAILABLE_MODELS[alias], small_text_encoder=False)
    if family.startswith("flux1"):
        weights = types.SimpleNamespace(num_transformer_blocks=lambda: 1, num_single_transformer_blocks=lambda: 1)
        initializer._init_models(model, model.model_config, weights)
    elif family == "qwen-edit":
        initializer._init_edit_models(model)
    else:
        initializer._init_models(model)
    for component in definition.get_components():
        module = getattr(model, component.model_attr or component.name)
        ModelSaver._save_weights(str(folder), None, module, component.hf_subdir)
    for name, kind in tokenizers.items():
        _write_tokenizer(folder / name, kind)


def _family(family: str) -> tuple[str, Any, Any, dict[str, str]]:
    """Return mflux's alias, what makes the parts of such a model, where they are saved, and its tokenizers."""
    if family.startswith("flux1"):
        from mflux.models.flux.flux_initializer import FluxInitializer
        from mflux.models.flux.weights.flux_weight_definition import FluxWeightDefinition

        aliases = {"flux1": "schnell", "flux1-dev": "dev", "flux1-kontext": "dev-kontext", "flux1-fill": "dev-fill"}
        return aliases[family], FluxInitializer, FluxWeightDefinition, {"tokenizer": "clip", "tokenizer_2": "t5"}
    if family.startswith("flux2"):
        from mflux.models.flux2.flux2_initializer import Flux2Initializer
        from mflux.models.flux2.weights.flux2_weight_definition import Flux2KleinWeightDefinition

        return "flux2-klein-4b", Flux2Initializer, Flux2KleinWeightDefinition, {"tokenizer": "qwen"}
    if family.startswith("qwen"):
        from mflux.models.qwen.qwen_initializer import QwenImageInitializer
        from mflux.models.qwen.weights.qwen_weight_definition import QwenWeightDefinition

        alias = "qwen-image-edit" if family == "qwen-edit" else "qwen-image"
        return alias, QwenImageInitializer, QwenWeightDefinition, {"tokenizer": "qwen"}
    from mflux.models.z_image.weights.z_image_weight_definition import ZImageWeightDefinition
    from mflux.models.z_image.z_image_initializer import ZImageInitializer

    return "z-image-turbo", ZImageInitializer, ZImageWeightDefinition, {"tokenizer": "qwen"}


def _write_tokenizer(folder: Path, kind: str) -> None:
    """Write a tokenizer of bytes."""
    from tokenizers import pre_tokenizers
    from transformers import CLIPTokenizer, Qwen2Tokenizer, T5Tokenizer

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    if kind == "t5":
        pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0), *((chr(n), -3.0) for n in range(33, 127))]
        T5Tokenizer(vocab=pieces, extra_ids=0).save_pretrained(folder)
    elif kind == "clip":
        words = [*letters, *(letter + "</w>" for letter in letters)]
        words = [*words[: WORDS - 2], "<|startoftext|>", "<|endoftext|>"]
        CLIPTokenizer(vocab={word: at for at, word in enumerate(words)}, merges=[]).save_pretrained(folder)
    else:
        words = [*letters, *(f"<unused{at}>" for at in range(IMAGE_PAD - len(letters)))]
        special = ["<|image_pad|>", "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>"]
        vocab = {word: at for at, word in enumerate([*words, *special])}
        tokenizer = Qwen2Tokenizer(vocab=vocab, merges=[], additional_special_tokens=special)
        tokenizer.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
        tokenizer.save_pretrained(folder)
        # Where mflux reads them itself:
        (folder / "vocab.json").write_text(json.dumps(vocab))
        (folder / "merges.txt").write_text("#version: 0.2\n")
        config = json.loads((folder / "tokenizer_config.json").read_text())
        config["added_tokens_decoder"] = {vocab[word]: {"content": word} for word in special}
        config["chat_template"] = tokenizer.chat_template
        (folder / "tokenizer_config.json").write_text(json.dumps(config))


def draw(order: dict[str, Any]) -> None:
    """Draw with mflux alone: `type`, `alias` and `model` make a pipeline; each of `images` is drawn to its file `to`.

    With `latents`, the class that unpacks them, mflux also saves the image of every step beside it. With `save`, it
    saves the model in that folder.
    """
    import pkgutil

    from mflux.callbacks.instances.stepwise_handler import StepwiseHandler
    from mflux.models.common.config.model_config import AVAILABLE_MODELS

    model = pkgutil.resolve_name(order["type"])(model_config=AVAILABLE_MODELS[order["alias"]], **order["model"])
    for image in order["images"]:
        file = Path(image.pop("to"))
        if order.get("latents"):
            steps = StepwiseHandler(model, str(file.with_suffix("")), pkgutil.resolve_name(order["latents"]))
            model.callbacks.register(steps)
        model.generate_image(**image).image.save(file)
    if order.get("save"):
        model.save_model(order["save"])


def work() -> None:
    """Be a worker of Orchard, with the arguments that the gateway gave."""
    import runpy

    package = Path(__file__).parents[2] / "src" / "orchard"
    runpy.run_path(str(package / "worker" / "isolated.py"), run_name="__main__")


if __name__ == "__main__":
    shrink()
    match sys.argv[1:]:
        case ["build", family, folder]:
            build(family, Path(folder))
        case ["draw"]:
            draw(json.load(sys.stdin))
        case _:
            work()
