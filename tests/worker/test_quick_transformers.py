"""What transformers finds in its files is the same, whether they are read in its own way or in the quicker one."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import transformers
from transformers.utils import import_utils

from orchard.worker import quick_transformers


def test_it_finds_in_all_files_what_the_library_finds() -> None:
    quick = import_utils.fetch__all__
    files = [
        path
        for path in (Path(transformers.__file__).parent / "models").rglob("*.py")
        if "__pycache__" not in path.parts
    ]
    texts = [path.read_text(encoding="utf-8") for path in files]
    assert [quick(text) for text in texts] == [quick.__wrapped__(text) for text in texts]
    assert sum(map(bool, map(quick, texts))) > 1000


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ('__all__ = ["A"]', ["A"]),
        ('__all__ = ["A"]\nx = 1\n__all__ = ["B", "C"]\n', ["B", "C"]),
        ('x = 1\n__all__ = [\n    "A",\n    "B",\n]\nmore()\n', ["A", "B"]),
        ("print(__all__)\n  __all__ = []\n", []),
    ],
)
def test_it_finds_what_the_library_finds(text: str, names: list[str]) -> None:
    quick = import_utils.fetch__all__
    assert quick(text) == quick.__wrapped__(text) == names


def test_every_folder_is_remembered() -> None:
    about = import_utils.create_import_structure_from_path.cache_info()
    assert about.maxsize is None
    assert about.hits > 500  # without it, each folder is read twice


def test_another_version_is_left_as_it_is() -> None:
    with pytest.raises(AttributeError):
        quick_transformers.quicken(ModuleType("import_utils"))
    # The module is changed once at most, and not after its import.
    before = list(sys.meta_path)
    quick_transformers.install_quick_import()
    assert sys.meta_path == before


def test_a_version_that_works_in_another_way_is_imported(tmp_path: Path) -> None:
    package = tmp_path / "transformers" / "utils"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("from .utils.import_utils import found\n")
    (package / "__init__.py").touch()
    (package / "import_utils.py").write_text("found = 7\n")
    script = (
        "import sys; from orchard.worker.quick_transformers import install_quick_import as install;"
        "before = list(sys.meta_path);"
        f"install(); install(); sys.path.insert(0, {str(tmp_path)!r}); import transformers;"
        "assert transformers.found == 7 and sys.meta_path == before"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
