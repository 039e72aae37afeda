"""Halves the time that the import of transformers takes.

The import searches the 2,500 files of transformers' models for `__all__`, line by line. It does so twice, because its
cache holds the results of 128 folders, and there are over 500.
"""

import functools
import importlib.util
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_READER_MODULE = "transformers.utils.import_utils"
_ALL = "__all__"


def install_quick_import() -> None:
    """Make transformers' import read each file once. Call this before anything imports transformers."""
    if _READER_MODULE not in sys.modules and not any(isinstance(one, _Finder) for one in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Finds the module that reads the files, and changes it as soon as it is imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _READER_MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec and spec.loader:
            execute = spec.loader.exec_module

            def run(module: ModuleType) -> None:
                execute(module)
                with suppress(AttributeError):  # another version may lack these functions
                    quicken(module)

            spec.loader.exec_module = run  # type: ignore[method-assign]
        return spec


def quicken(module: ModuleType) -> None:
    """Change `transformers.utils.import_utils`. Raise AttributeError if it lacks one of the changed functions."""
    folder, read = module.create_import_structure_from_path.__wrapped__, module.fetch__all__
    module.create_import_structure_from_path = functools.lru_cache(maxsize=None)(folder)  # type: ignore[attr-defined]
    module.fetch__all__ = functools.wraps(read)(functools.partial(_read_tail, read))  # type: ignore[attr-defined]


def _read_tail(read: Callable[[str], list[str]], content: str) -> list[str]:
    """Call `read`, which searches line by line, with only the part from the last line that starts with `__all__`."""
    begin = content.rfind("\n" + _ALL) + 1
    return read(content[begin:]) if begin or content.startswith(_ALL) else []
