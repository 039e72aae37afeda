"""The import law: which rooms of the house may import which, and which libraries. An arrow not in the table fails."""

import ast
import functools
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

import orchard
from orchard.environments.environment import IMAGES

SOURCE = Path(orchard.__file__).parent.parent


class Room(NamedTuple):
    """What a room may import: other rooms, and packages outside the standard library."""

    rooms: frozenset[str] | set[str] = frozenset()
    packages: frozenset[str] | set[str] = frozenset()


MLX = {"mlx", "mlx_lm", "mlx_vlm", "mlx_audio", "transformers", "tokenizers", "numpy"}
MEDIA = {"PIL", "miniaudio", "scipy", "soundfile"}
WEB = {"fastapi", "starlette", "uvicorn", "uvloop", "httptools", "httpx", "python_multipart"}

# A row of a folder within a room says what it may import beside what its room may.
LAW = {
    "core": Room(set(), {"msgspec"}),
    "environments": Room({"core"}, {"msgspec"}),
    "folder_files": Room(set(), {"msgspec"}),
    "system_memory": Room(set(), {"psutil"}),
    "cluster": Room({"folder_files", "system_memory"}, {"msgspec"}),
    "kinds": Room({"core", "environments"}, {"msgspec"}),
    "config": Room({"core", "kinds"}, {"msgspec"}),
    "wire": Room({"core"}, {"msgspec"}),
    "formats": Room({"core"}, {"msgspec"}),
    "dialects": Room({"core"}, {"msgspec"}),
    "device": Room({"core", "system_memory"}, {"mlx"}),
    "engine": Room({"core", "device"}, MLX | {"msgspec", "llguidance"}),
    "backends": Room(
        {"cluster", "core", "device", "engine", "folder_files", "system_memory"},
        MLX | MEDIA | {"msgspec", "psutil", "threadpoolctl"},
    ),
    "backends.text": Room({"formats"}),
    "backends.text.grammar": Room(set(), {"llguidance"}),
    "backends.text.prompt": Room(set(), {"jinja2", "pypdf"}),
    "gguf_job": Room(set(), {"msgspec"}),
    "gguf_import": Room({"core", "folder_files", "gguf_job"}, MLX | {"gguf", "msgspec"}),
    "worker": Room({"core", "device", "wire", "backends", "system_memory"}, {"mlx", "msgspec", "psutil"}),
    "gateway": Room(
        {"cluster", "core", "config", "dialects", "folder_files", "kinds", "system_memory", "wire"},
        WEB | {"msgspec", "huggingface_hub", "prometheus_client", "psutil"},
    ),
    # Its detector of speech is small enough for the gateway; it is imported with the first realtime session.
    "gateway.realtime": Room(set(), {"numpy", "threadpoolctl"}),
    "cli": Room(
        {"cluster", "core", "config", "environments", "folder_files", "formats", "gateway", "gguf_job", "kinds"},
        {"msgspec", "httpx", "huggingface_hub", "packaging", "rich", "typer", "yaml"},
    ),
    "demo": Room(set(), MLX | {"safetensors", "torch"}),  # its training script, which is run by hand
    "__main__": Room({"cli"}),
    "__init__": Room(),
}
# This module knows the folder of the bundled model.
EXTRA = {("orchard.gateway.models.sources", "demo")}
# Within a room: which packages of it a package may import, beside itself. The room's own name means the modules that
# lie directly in it. A package that isn't named here imports nothing of its room.
PACKAGES = {
    "backends": {"backends.kernels"},
    # Whisper's tokenizer, where a folder has none, is in the vocabulary.
    "backends.audio": {
        "backends",
        "backends.audio.diarization",
        "backends.audio.speakers",
        "backends.audio.vocabulary",
        "backends.kernels",
    },
    # It wraps a transcription model, and reads recordings as those do.
    "backends.audio.diarization": {"backends", "backends.audio"},
    "backends.audio.speakers": {"backends"},
    # It reads samples at the rate of recordings.
    "backends.audio.turn_detection": {"backends", "backends.audio"},
    "backends.bare": {"backends.kernels"},  # which knows whether a CPU is slow
    "backends.embeddings": {"backends", "backends.kernels"},
    "backends.images": {"backends"},
    # The text service serves media too; it needs the types of what reads them, and imports the code late.
    "backends.ranks": {"backends", "backends.text"},
    # It imports the code that starts ranks late.
    "backends.text": {
        "backends",
        "backends.kernels",
        "backends.ranks",
        "backends.text.prompt",
        "backends.vision",
    },
    "backends.text.grammar": {"backends"},
    "backends.text.prompt": {"backends", "backends.text", "backends.text.grammar", "backends.vision"},
    "backends.vision": {"backends", "backends.kernels", "backends.text", "backends.text.prompt"},
    "cli": {"cli.agents", "cli.cluster", "cli.models", "cli.server", "cli.service", "cli.settings", "cli.verify"},
    "cli.agents": {"cli", "cli.models", "cli.settings"},
    "cli.cluster": {"cli"},
    "cli.models": {"cli", "cli.settings"},
    "cli.server": {"cli", "cli.settings"},
    "cli.service": {"cli", "cli.settings"},
    "cli.verify": {"cli"},
    "core.tasks": {"core"},
    "dialects.openai": {"dialects.common", "dialects.openai.chat"},  # embeddings of conversations, as chat reads them
    "dialects.openai.chat": {"dialects.common", "dialects.openai"},
    "dialects.openai.completions": {"dialects.common", "dialects.openai"},
    "dialects.openai.responses": {"dialects.common", "dialects.openai"},
    "dialects.openai.images": {"dialects.common", "dialects.openai"},
    "dialects.openai.realtime": {"dialects.common", "dialects.openai"},
    "dialects.openai.transcriptions": {"dialects.common", "dialects.openai"},
    "dialects.anthropic": {"dialects.common"},
    "dialects.anthropic.messages": {"dialects.common", "dialects.anthropic"},
    "dialects.lmstudio": {"dialects.common"},
    "dialects.lmstudio.chat": {"dialects.common", "dialects.lmstudio"},
    "dialects.ollama": {"dialects.common"},
    "dialects.ollama.chat": {"dialects.common", "dialects.ollama"},
    # A prompt has images, as messages of a chat have.
    "dialects.ollama.generate": {"dialects.common", "dialects.ollama", "dialects.ollama.chat"},
    # `engine.start` makes a rank's runner, which is a kind of the engine's.
    "engine": {"engine.batching", "engine.drafting", "engine.ranks", "engine.sampling", "engine.speculation"},
    "engine.ranks": {"engine", "engine.batching", "engine.prefix_cache", "engine.sampling"},
    # Whose text a row's guesses may come from is a scope of the prefix cache.
    "engine.drafting": {"engine.batching", "engine.prefix_cache", "engine.sampling", "engine.speculation"},
    "engine.speculation": {"engine.prefix_cache", "engine.sampling"},
    "engine.batching": {"engine.prefix_cache", "engine.sampling", "engine.speculation"},
    "formats": {"formats.families"},
    "formats.families": {"formats"},
    "gateway.http": {"gateway", "gateway.metrics", "gateway.pool", "gateway.replies"},
    "gateway.media": {"gateway.http"},
    "gateway.metrics": {"gateway"},
    "gateway.models": {"gateway"},
    "gateway.pool": {"gateway", "gateway.metrics", "gateway.models", "gateway.replies"},
    "gateway.realtime": {
        "gateway",
        "gateway.http",
        "gateway.media",
        "gateway.pool",
        "gateway.realtime.silero",
        "gateway.voice",
    },
    "gateway.responses": {
        "gateway",
        "gateway.http",
        "gateway.media",
        "gateway.pool",
        "gateway.replies",
        "gateway.store",
        "gateway.summarize",
        "gateway.voice",
    },
    "gateway.routes": {
        "gateway",
        "gateway.http",
        "gateway.media",
        "gateway.metrics",
        "gateway.models",
        "gateway.pool",
        "gateway.realtime",
        "gateway.realtime.silero",
        "gateway.replies",
        "gateway.responses",
        "gateway.summarize",
        "gateway.voice",
    },
    "gateway.store": {"gateway", "gateway.media"},
    "gateway.summarize": {"gateway.models", "gateway.pool", "gateway.replies"},
    "gateway.voice": {"gateway", "gateway.media", "gateway.metrics", "gateway.pool", "gateway.replies"},
}
# A package of more modules is hard to survey; registries, of which each file is a row of a table, may be longer.
MOST_MODULES = 14
REGISTRIES = {"core.tasks", "formats.families", "gateway.routes"}


def violations(source: Path) -> list[str]:
    """Every import of the package under `source` that the law does not allow."""
    modules = {_module(file, source): file for file in (source / "orchard").rglob("*.py")}
    return [
        f"{module} imports {imported}"
        for module, file in sorted(modules.items())
        for imported in sorted(set(_imports(module, file, modules)))
        if not _allowed(module, imported, modules)
    ]


def _module(file: Path, source: Path) -> str:
    return ".".join(file.relative_to(source).with_suffix("").parts).removesuffix(".__init__")


@functools.cache
def _nodes(code: str) -> Sequence[ast.AST]:
    """All that stands in a file's code; most tests look at all files."""
    return tuple(ast.walk(ast.parse(code)))


def _imports(module: str, file: Path, modules: dict[str, Path]) -> Iterator[str]:
    for node in _nodes(file.read_text()):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.split(".") if file.stem == "__init__" else module.split(".")[:-1]
                parents = package[: len(package) - node.level + 1]
                base = ".".join([*parents, base] if base else parents)
            for alias in node.names:
                name = f"{base}.{alias.name}"
                yield name if name in modules else base


def _allowed(module: str, imported: str, modules: Collection[str]) -> bool:
    room, rows = _room(module), _rows(module)
    if not rows:
        return False
    top = imported.split(".", maxsplit=1)[0]
    if top != "orchard":
        return top in sys.stdlib_module_names or any(top in row.packages for row in rows)
    target = _room(imported)
    if imported == "orchard":  # only __version__ is there
        return True
    if target == room:
        own, other = _package(module, modules), _package(imported, modules)
        return other == own or other in PACKAGES.get(own, set())
    return any(target in row.rooms for row in rows) or (module, target) in EXTRA


def _rows(module: str) -> list[Room]:
    inner = module.removeprefix("orchard.") if "." in module else "__init__"
    return [row for name, row in LAW.items() if f"{inner}.".startswith(f"{name}.")]


def _room(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def _package(module: str, modules: Collection[str]) -> str:
    """Name the package of a module, without `orchard`."""
    inner = module.removeprefix("orchard.")
    is_package = any(other.startswith(module + ".") for other in modules)
    return inner if is_package else inner.rpartition(".")[0] or inner


def test_the_source_keeps_the_law() -> None:
    assert violations(SOURCE) == []


def test_workers_of_images_import_what_their_environment_has() -> None:
    """Nothing else is installed there; mflux itself is loaded by name."""
    modules = {_module(file, SOURCE): file for file in (SOURCE / "orchard").rglob("*.py")}
    seen: set[str] = set()
    waiting = ["orchard.worker.main", "orchard.backends.images.service"]
    while waiting:
        if (module := waiting.pop()) in modules and module not in seen:
            seen.add(module)
            waiting += _imports(module, modules[module], modules)
    outside = {imported for module in seen for imported in _imports(module, modules[module], modules)}
    packages = {name.split(".")[0] for name in outside} - sys.stdlib_module_names - {"orchard"}
    assert packages == {"PIL", "mlx", "msgspec", "psutil"}
    assert {"mlx", "msgspec", "pillow", "psutil"} <= IMAGES.packages.keys()
    assert {name for name in seen if name.startswith("orchard.engine")} == set()


def test_no_package_is_hard_to_survey() -> None:
    sizes = Counter(
        ".".join(file.relative_to(SOURCE / "orchard").parent.parts)
        for file in (SOURCE / "orchard").rglob("*.py")
        if file.stem != "__init__"
    )
    assert {name: size for name, size in sizes.items() if size > MOST_MODULES and name not in REGISTRIES} == {}


def test_no_two_classes_have_one_name() -> None:
    """Schemas repeat the words of an API, each its own."""
    places: dict[str, list[str]] = {}
    for file in sorted((SOURCE / "orchard").rglob("*.py")):
        for node in _nodes(file.read_text()):
            if isinstance(node, ast.ClassDef) and file.stem != "schema":
                places.setdefault(node.name, []).append(str(file.relative_to(SOURCE)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}


@pytest.mark.parametrize(
    ("file", "code", "expected"),
    [
        ("core/a.py", "import orchard.gateway.app", "orchard.core.a imports orchard.gateway.app"),
        ("core/a.py", "from orchard import gateway", "orchard.core.a imports orchard.gateway"),
        ("core/a.py", "from ..gateway import app", "orchard.core.a imports orchard.gateway.app"),
        ("core/__init__.py", "from .. import gateway", "orchard.core imports orchard.gateway"),
        ("core/a.py", "def late():\n    import fastapi", "orchard.core.a imports fastapi"),
        ("wire.py", "from orchard.config import Settings", "orchard.wire imports orchard.config"),
        ("gateway/a.py", "import mlx.core as mx", "orchard.gateway.a imports mlx.core"),
        ("gateway/a.py", "from orchard.worker.main import main", "orchard.gateway.a imports orchard.worker.main"),
        ("gateway/a.py", "from orchard.demo import MODEL_PATH", "orchard.gateway.a imports orchard.demo"),
        (
            "dialects/openai/chat/a.py",
            "import orchard.dialects.anthropic.errors",
            "orchard.dialects.openai.chat.a imports orchard.dialects.anthropic.errors",
        ),
        (
            "dialects/common/a.py",
            "import orchard.dialects.anthropic.errors",
            "orchard.dialects.common.a imports orchard.dialects.anthropic.errors",
        ),
        (
            "engine/sampling/a.py",
            "from ..batching import b",
            "orchard.engine.sampling.a imports orchard.engine.batching.b",
        ),
        ("cli/a.py", "from orchard.worker import main", "orchard.cli.a imports orchard.worker.main"),
        ("backends/a.py", "import jinja2", "orchard.backends.a imports jinja2"),
        ("backends/text/a.py", "import jinja2", "orchard.backends.text.a imports jinja2"),
        ("new/a.py", "import json", "orchard.new.a imports json"),
    ],
)  # fmt: skip
def test_a_bad_arrow_is_found(tmp_path: Path, file: str, code: str, expected: str) -> None:
    others = ("worker/main.py", "demo/__init__.py", "dialects/anthropic/errors.py", "engine/batching/b.py")
    for name in ("gateway/__init__.py", "gateway/app.py", *others, file):
        path = tmp_path / "orchard" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "orchard" / file).write_text(code)
    assert violations(tmp_path) == [expected]


@pytest.mark.parametrize(
    ("file", "code"),
    [
        (
            "core/a.py",
            "import json, msgspec\nfrom orchard.core import b\nfrom . import b\nfrom orchard import __version__",
        ),
        ("dialects/openai/chat/parse.py", "from orchard.dialects.openai import errors\nfrom . import schema"),
        ("gateway/models/sources.py", "from orchard.demo import MODEL_PATH"),
        ("__main__.py", "from orchard.cli import main"),
        ("backends/text/prompt/a.py", "import jinja2, mlx.core\nfrom orchard.formats import registry"),
    ],
)
def test_a_good_arrow_is_not(tmp_path: Path, file: str, code: str) -> None:
    for name in ("core/b.py", "dialects/openai/chat/schema.py", "dialects/openai/errors.py", file):
        path = tmp_path / "orchard" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "orchard" / file).write_text(code)
    assert violations(tmp_path) == []


def test_gateway_and_command_line_leave_mlx_alone() -> None:
    modules = (
        "orchard.gateway.http.server",
        "orchard.gateway.routes.app",
        "orchard.cli.serve",
        "orchard.cli.agents.start",
        "orchard.cli.run",
        "orchard.cli.service.manage",
        "orchard.cli.models.local",
        "orchard.cli.models.pull",
        "orchard.cli.bench",
        "orchard.cli.doctor",
    )
    # The first scrape imports prometheus_client, which takes long.
    program = f"""
import importlib, sys
for module in {modules}:
    importlib.import_module(module)
    print(module, {MLX | {"prometheus_client"}} & set(sys.modules))
"""
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert told.splitlines() == [f"{module} set()" for module in modules]
