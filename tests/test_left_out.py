"""What `packaging/overrides.txt` leaves out is needed by nothing that Orchard imports."""

import importlib.metadata
import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import mlx_lm.models
import mlx_vlm.models
import pytest
from packaging.requirements import Requirement

import orchard
from tests.support.examples import some

ROOT = Path(__file__).parents[1]
OVERRIDES = [
    Requirement(line)
    for line in (ROOT / "packaging" / "overrides.txt").read_text().splitlines()
    if not line.startswith("#")
]
# The left-out packages' modules, and those of what only these bring.
MODULES = ["cv2", "datasets", "dill", "multiprocess", "pandas", "pyarrow", "xxhash"]
# In a process that finds none of them, as in an environment without them: print what can't be imported, and why.
IMPORT = f"""
import importlib, json, sys
from importlib.machinery import PathFinder

class Finder(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in {MODULES} else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Finder
failed = {{}}
for name in json.load(sys.stdin):
    try:
        importlib.import_module(name)
    except (Exception, SystemExit) as error:
        failed[name] = getattr(error, "name", None) or str(error)
print(json.dumps(failed))
"""


def failures(names: list[str]) -> dict[str, str]:
    command = [sys.executable, "-W", "ignore", "-c", IMPORT]
    printed = subprocess.run(command, input=json.dumps(names), stdout=subprocess.PIPE, text=True, check=True).stdout
    failed: dict[str, str] = json.loads(printed.splitlines()[-1])
    return failed


def modules_of(package: object) -> list[str]:
    path, name = package.__path__, package.__name__  # type: ignore[attr-defined]
    return [f"{name}.{found.name}" for found in pkgutil.iter_modules(path)]


def test_the_process_finds_none_of_them() -> None:
    assert failures([*MODULES, "numpy"]) == {name: name for name in MODULES}


def test_every_module_of_orchard_is_imported() -> None:
    found = pkgutil.walk_packages(orchard.__path__, "orchard.")
    names = [module.name for module in found if not module.name.endswith("__main__")]
    assert len(names) > 300
    assert failures(names) == {}


def test_every_architecture_is_imported_but_one() -> None:
    """Those of mlx-vlm and mlx-lm; of mlx-audio, `orchard.backends` imports what it uses. olmo needs a package, too.

    `make test` takes every tenth of them.
    """
    missing = {"mlx_vlm.models.multi_modality": "cv2", "mlx_lm.models.olmo": "1"}
    names = [*modules_of(mlx_vlm.models), *modules_of(mlx_lm.models)]
    assert len(names) > 300
    assert failures(list({*some(names, 10), *missing})) == missing


@pytest.mark.parametrize("name", ["mlx-vlm", "mlx-audio"])
def test_the_overrides_are_still_needed(name: str) -> None:
    """Each of them is for what one of these packages asks for."""
    asked = [Requirement(line) for line in importlib.metadata.requires(name) or ()]
    plain = {need.name: need for need in asked if not need.marker or need.marker.evaluate({"extra": ""})}
    if name == "mlx-vlm":
        assert {override.name for override in OVERRIDES} - {"mlx"} <= plain.keys()
    else:
        assert [specifier.operator for specifier in plain["mlx"].specifier] == ["=="]
