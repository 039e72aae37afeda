import ast
import sys
from pathlib import Path

import pytest

import orchard
from orchard.core.errors import OrchardError
from orchard.environments.environment import IMAGES, Environment

SOURCE = Path(orchard.__file__).parents[1]
PLATFORMS = ["darwin", "linux"]


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_list_for_images_has_what_mflux_needs_and_no_torch(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    packages = IMAGES.packages
    assert int(packages["huggingface-hub"].split(".")[0]) < 2
    assert {"mflux", "mlx", "pillow", "mlx-metal" if platform == "darwin" else "mlx-cpu"} <= set(packages)
    assert not [name for name in packages if name.startswith(("torch", "nvidia", "mlx-cuda"))]
    assert "/" not in IMAGES.packages_file.read_text(), "names and versions only"


def imported(start: str) -> set[str]:
    """Return the packages outside the standard library that a module imports, or a module of Orchard's that it does.

    The code is read and not run: what a function imports counts too.
    """
    todo, seen, packages = [start], set[str](), set[str]()
    while todo:
        module = todo.pop()
        file = SOURCE.joinpath(*module.split("."))
        file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
        if module in seen or not file.exists():
            continue
        seen.add(module)
        for node in ast.walk(ast.parse(file.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(f"{node.module}.{name}" for name in names)]
            for name in names:
                if name.startswith("orchard"):
                    todo.append(name)
                else:
                    packages.add(name.split(".")[0])
    return packages - sys.stdlib_module_names


@pytest.mark.parametrize("platform", PLATFORMS)
def test_the_list_has_what_every_worker_imports(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    needed = imported("orchard.worker.main") | imported("orchard.worker.isolated")
    for file in (SOURCE / "orchard" / "core").rglob("*.py"):
        needed |= imported(".".join(file.relative_to(SOURCE).with_suffix("").parts))
    assert {"msgspec", "psutil"} <= needed
    assert needed <= set(IMAGES.packages)


def test_another_list_or_another_python_has_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ORCHARD_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    listed = tmp_path / f"toy-{sys.platform}.txt"
    listed.write_text("one==1\n")
    toy = Environment("toy", tmp_path)
    first = toy.folder
    assert first.parent == tmp_path / "cache" / "orchard" / "environments"
    assert first.name.startswith("toy-")
    listed.write_text("one==2\n")
    second = toy.folder
    monkeypatch.setattr(sys, "version_info", (3, 99, 0))
    assert len({first, second, toy.folder}) == 3


def test_a_platform_without_a_list_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "plan9")
    with pytest.raises(OrchardError, match="there is no environment for images on plan9"):
        _ = IMAGES.command
