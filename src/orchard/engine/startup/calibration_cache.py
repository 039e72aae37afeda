"""The results of calibrating a model, kept from one load to the next.

There is one small file for each model, machine and set of options, named after all that the results depend on: another
version of a library or of the engine, other weights or another device make another name. So none is ever out of date.
"""

import logging
import os
import platform
import tempfile
import time
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import mlx.core as mx
import msgspec
from msgspec import Meta, Struct

from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching.batch import BatchMode
from orchard.engine.batching.model import LanguageModel

log = logging.getLogger("orchard.engine")

_MOST_BYTES = 4096
_MOST_FILES = 512
_SECONDS_BELIEVED = 24 * 3600  # the device may have been busy when it was timed


class Calibration(Struct, frozen=True, forbid_unknown_fields=True):
    """How far rows share a pass, whether prompts share one; prompt tokens that a step reads beside rows, and a second.

    `found`: when, in seconds since 1970.
    """

    batch_mode: BatchMode
    batched_prefill: bool
    chunk: Annotated[int, Meta(ge=1)]
    tokens_per_second: Annotated[float, Meta(gt=0)]
    found: float


def key(model: LanguageModel, options: TextOptions) -> str:
    """Return a name for all that a model's calibration depends on."""
    sources = sorted(Path(__file__).parent.parent.rglob("*.py"))
    parts = [
        model.fingerprint,
        [options.kv_bits, options.kv_group_size, options.quantized_kv_start, options.max_kv_size],
        [version(name) for name in ("mlx", "mlx-lm", "mlx-orchard")],
        # Whoever works on the engine changes it without a new version.
        [(source.name, source.stat().st_size, source.stat().st_mtime_ns) for source in sources],
        [str(mx.default_device()), sorted(mx.device_info().items()), platform.node(), os.cpu_count()],
        sorted(item for item in os.environ.items() if item[0].startswith("MLX_")),
    ]
    return blake2b(msgspec.json.encode(parts), digest_size=16).hexdigest()


def recall(name: str) -> Calibration | None:
    """Return what is stored under a key; None where there is nothing, or it is too old or broken."""
    try:
        with (_folder() / f"{name}.json").open("rb") as file:
            calibration = msgspec.json.decode(file.read(_MOST_BYTES), type=Calibration)
    except (OSError, RuntimeError, msgspec.MsgspecError):  # RuntimeError: there is no home
        return None
    return calibration if 0 <= time.time() - calibration.found < _SECONDS_BELIEVED else None


def remember(name: str, calibration: Calibration) -> None:
    """Store a calibration under a key. Where that fails, the next load calibrates again."""
    try:
        folder = _folder()
        folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder, suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.encode(calibration))
        Path(temporary).replace(folder / f"{name}.json")
        files = list(folder.iterdir())
        if len(files) > _MOST_FILES:
            for old in sorted(files, key=lambda path: path.stat().st_mtime)[:-_MOST_FILES]:
                old.unlink(missing_ok=True)  # another worker may have removed it
    except (OSError, RuntimeError) as error:
        log.info("the results of calibrating the model can't be stored: %s", error)


def _folder() -> Path:
    if own := os.environ.get("ORCHARD_CACHE_DIR"):
        return Path(own) / "models"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "orchard" / "models"
