"""The architectures that mlx-vlm has, and what they are for."""

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import mlx_vlm.models
from mlx_vlm.models import base

from orchard.core.media import MediaKind

_OTHER_PURPOSES = {
    "clef": "decide between given answers",
    "colidefics3": "make embeddings of pages",
    "colqwen2_5": "make embeddings of pages",
    "d1": "decide between given answers",
    "d1_omni": "decide between given answers",
    "decider2": "decide between given answers",
    "diffusion_gemma": "write by diffusion, not token by token",
    "embedding_gemma2": "make embeddings",
    "laya": "decide between given answers",
    "falcon_perception": "find objects in images",
    "florence2": "have an encoder and a decoder",
    "llada2_moe": "write by diffusion, not token by token",
    "nemotron_labs_diffusion": "write by diffusion, not token by token",
    "nemotron_parse": "have an encoder and a decoder",
    "nemotron_voicechat": "listen and speak at once",
    "qwen3_vl_embedding": "make embeddings",
    "sam3": "find objects in images",
    "sam3_1": "find objects in images",
}


class Architecture(NamedTuple):
    """A package of mlx-vlm. `why`: what it is for, where it does not chat."""

    name: str
    kind: Literal["media", "text", "other"]
    takes: tuple[MediaKind, ...] = ()
    why: str = ""

    @property
    def module(self) -> Any:
        """The package."""
        return importlib.import_module(f"mlx_vlm.models.{self.name}")


def names() -> list[str]:
    """Return the names of all packages."""
    return sorted(found.name for found in pkgutil.iter_modules(mlx_vlm.models.__path__) if found.ispkg)


def architecture(name: str) -> Architecture:
    """Return what a package is for."""
    module = importlib.import_module(f"mlx_vlm.models.{name}")
    if why := _OTHER_PURPOSES.get(name):
        return Architecture(name, "other", why=why)
    model, config = getattr(module, "Model", None), getattr(module, "ModelConfig", None)
    if not hasattr(model, "get_input_embeddings") or not dataclasses.is_dataclass(config):
        return Architecture(name, "other", why="are not language models that continue a text")
    fields = _fields(config)
    if not fields & {"vision_config", "audio_config"}:
        return Architecture(name, "text")
    return Architecture(name, "media", tuple(_takes(name, module, fields)))


def _fields(config: Any) -> set[str]:
    """Return the names of a configuration's fields, with those of its thinker, the part that chats."""
    found = {field.name for field in dataclasses.fields(config)}
    thinker = getattr(inspect.getmodule(config), "ThinkerConfig", None)
    return found | ({field.name for field in dataclasses.fields(thinker)} if thinker else set())


def _takes(name: str, module: Any, fields: set[str]) -> Iterator[MediaKind]:
    """Return what both the processor and the model take."""
    options = {option for processor in _processors(name, module) for option in _options(processor)}
    reads = inspect.getsource(module.Model.get_input_embeddings)
    if "vision_config" in fields:
        yield "image"
    if options & {"audio", "audios"} and ("audio" in reads or "input_features" in reads):
        yield "audio"
    if "videos" in options and "video" in reads:
        yield "video"


def _processors(name: str, module: Any) -> Iterator[type]:
    """Return the classes of the architecture's own processors, or of those of others that it uses."""
    for found in pkgutil.iter_modules(module.__path__):
        if found.name.startswith("processing"):
            part = importlib.import_module(f"{module.__name__}.{found.name}")
            yield from (one for key, one in vars(part).items() if key.endswith("Processor") and isinstance(one, type))
    yield from _PATCHED.get(name, ())


def _options(processor: type) -> list[str]:
    """Return the names of what a processor is called with, if it prepares texts."""
    call = getattr(processor, "process", None) or vars(processor).get("__call__")
    named = list(inspect.signature(call).parameters) if call else []
    return named if "text" in named else []


_PATCHED: dict[str, list[type]] = {}
_install = base.install_auto_processor_patch


def _record(target_model_types: Any, processor_cls: type) -> Any:
    """Do what mlx-vlm's function does, and remember whose processor an architecture uses."""
    for one in [target_model_types] if isinstance(target_model_types, str) else target_model_types:
        _PATCHED.setdefault(one, []).append(processor_cls)
    return _install(target_model_types, processor_cls)


base.install_auto_processor_patch = _record
