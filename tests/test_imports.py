"""The import law: which rooms of the house may import which, and which libraries. An arrow not in the table fails."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import orchard

SOURCE = Path(orchard.__file__).parent.parent


class Room(NamedTuple):
    """What a room may import: other rooms, and packages outside the standard library."""

    rooms: frozenset[str] | set[str] = frozenset()
    packages: frozenset[str] | set[str] = frozenset()


MLX = {"mlx", "mlx_lm", "mlx_vlm", "transformers", "tokenizers", "numpy"}
WEB = {"fastapi", "starlette", "uvicorn", "uvloop", "httptools", "httpx"}

LAW = {
    "core": Room(set(), {"msgspec"}),
    "config": Room({"core"}, {"msgspec"}),
    "wire": Room({"core"}, {"msgspec"}),
    "formats": Room({"core"}, {"msgspec"}),
    "dialects": Room({"core"}, {"msgspec"}),
    "engine": Room({"core"}, MLX | {"msgspec", "llguidance"}),
    "backends": Room({"core", "engine"}, MLX | {"msgspec"}),
    "worker": Room({"core", "wire", "formats", "engine", "backends"}, MLX | {"msgspec", "llguidance", "psutil"}),
    "gateway": Room({"core", "config", "wire", "dialects"}, WEB | {"msgspec", "huggingface_hub", "prometheus_client"}),
    "cli": Room(
        {"core", "config", "formats", "gateway"}, {"msgspec", "httpx", "huggingface_hub", "rich", "typer", "yaml"}
    ),
    "demo": Room(set(), MLX | {"safetensors", "torch"}),  # its training script, which is run by hand
    "__main__": Room({"cli"}),
    "__init__": Room(),
}
# The registry knows where the bundled model lies.
EXTRA = {("orchard.gateway.registry", "demo")}
# Dialects never import each other. A dialect may be several files that begin with its name; these serve all of them.
SHARED_BY_DIALECTS = {
    "decoding",
    "openai_errors",
    "openai_fields",
    "openai_grammar",
    "openai_output",
    "openai_thinking",
    "openai_tools",
}
DIALECTS = (
    "openai_chat",
    "openai_completions",
    "openai_responses",
    "openai_embeddings",
    "openai_audio",
    "openai_images",
    "anthropic_messages",
)


def violations(source: Path) -> list[str]:
    """Every import of the package under `source` that the law does not allow."""
    modules = {_module(file, source): file for file in (source / "orchard").rglob("*.py")}
    return [
        f"{module} imports {imported}"
        for module, file in sorted(modules.items())
        for imported in sorted(set(_imports(module, file, modules)))
        if not _allowed(module, imported)
    ]


def _module(file: Path, source: Path) -> str:
    return ".".join(file.relative_to(source).with_suffix("").parts).removesuffix(".__init__")


def _imports(module: str, file: Path, modules: dict[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
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


def _allowed(module: str, imported: str) -> bool:
    room = _room(module)
    if room not in LAW:
        return False
    top = imported.split(".", maxsplit=1)[0]
    if top != "orchard":
        return top in sys.stdlib_module_names or top in LAW[room].packages
    target = _room(imported)
    if imported == "orchard":  # only __version__ is there
        return True
    if room == target == "dialects":
        return _siblings(module, imported)
    return target == room or target in LAW[room].rooms or (module, target) in EXTRA


def _room(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def _siblings(module: str, imported: str) -> bool:
    return imported.rsplit(".", maxsplit=1)[-1] in SHARED_BY_DIALECTS or _dialect(module) == _dialect(imported)


def _dialect(module: str) -> str:
    name = module.rsplit(".", maxsplit=1)[-1]
    return next((dialect for dialect in DIALECTS if name == dialect or name.startswith(dialect + "_")), name)


def test_the_source_keeps_the_law() -> None:
    assert violations(SOURCE) == []


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
        ("dialects/y.py", "from orchard.dialects import x", "orchard.dialects.y imports orchard.dialects.x"),
        ("dialects/decoding.py", "import orchard.dialects.x", "orchard.dialects.decoding imports orchard.dialects.x"),
        ("cli/a.py", "from orchard.worker import main", "orchard.cli.a imports orchard.worker.main"),
        ("new/a.py", "import json", "orchard.new.a imports json"),
    ],
)  # fmt: skip
def test_a_bad_arrow_is_found(tmp_path: Path, file: str, code: str, expected: str) -> None:
    for name in ("gateway/__init__.py", "gateway/app.py", "worker/main.py", "demo/__init__.py", "dialects/x.py", file):
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
        ("dialects/openai_chat.py", "from orchard.dialects import openai_chat_body, openai_errors"),
        ("gateway/registry.py", "from orchard.demo import MODEL_PATH"),
        ("__main__.py", "from orchard.cli import main"),
    ],
)
def test_a_good_arrow_is_not(tmp_path: Path, file: str, code: str) -> None:
    for name in ("core/b.py", "dialects/openai_chat_body.py", "dialects/openai_errors.py", file):
        path = tmp_path / "orchard" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "orchard" / file).write_text(code)
    assert violations(tmp_path) == []


@pytest.mark.parametrize(
    "module",
    [
        "orchard.gateway.server",
        "orchard.cli.serve",
        "orchard.cli.chat",
        "orchard.cli.models",
        "orchard.cli.bench",
        "orchard.cli.doctor",
    ],
)
def test_gateway_and_command_line_leave_mlx_alone(module: str) -> None:
    program = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert MLX.isdisjoint(loaded.split())
