"""Shows a model's folder without the weights of some files, for libraries that would open all of them.

A rank of a pipeline needs only the weights of its own layers. mlx-lm's own `sharded_load` leaves the others out. Then
a model's `sanitize`, which renames and joins weights, must work without them; here it sees all names, shapes and types.
"""

import os
import re
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from orchard import folder_files

_LENGTH_BYTES = 8  # of the header's length, which precedes it: see `folder_files.read_header`
_LAYER = re.compile(r"(.*?\blayers)\.(\d+)\.")


def find_weights(folder: Path) -> list[str]:
    """Return the names of the files of weights that mlx-lm loads."""
    return sorted(file.name for file in folder.glob("model*.safetensors"))


def find_files_of_others(folder: Path, layers: range, count: int) -> set[str]:
    """Return the names of the files that have nothing but weights of other layers than these of `count`.

    Raise OSError or ValueError if a file's header can't be read.
    """
    names = {file: folder_files.read_header(folder / file).keys() - {"__metadata__"} for file in find_weights(folder)}
    found = {file: [_LAYER.match(name) for name in own] for file, own in names.items()}
    numbers: dict[str, set[int]] = {}
    for one in (match for matches in found.values() for match in matches if match):
        numbers.setdefault(one[1], set()).add(int(one[2]))
    # A short stack of layers is something else, which every rank may have.
    stacks = {stack for stack, known in numbers.items() if known >= set(range(count))}
    return {
        file
        for file, matches in found.items()
        if all(match and match[1] in stacks and int(match[2]) not in layers for match in matches)
    }


@contextmanager
def hide_weights(folder: Path, hidden: Collection[str]) -> Iterator[Path]:
    """Yield a folder with links to a folder's files, and files with nothing but a header in place of the `hidden` ones.

    If nothing is hidden, it is the folder itself. Hidden tensors can be loaded in this context. Whoever reads one after
    it gets MLX's RuntimeError.
    Raise OSError, or ValueError if a hidden file is no regular one.
    """
    if not hidden:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="orchard-") as made:
        view = Path(made)
        for name in folder_files.list_names(folder):
            if name in hidden:
                with folder_files.open_regular_file(folder / name) as file:
                    length = file.read(_LENGTH_BYTES)
                    header = file.read(min(int.from_bytes(length, "little"), folder_files.MOST_JSON_BYTES))
                (view / name).write_bytes(length + header)
                os.truncate(view / name, os.stat(folder / name).st_size)  # MLX compares it; no disk space is taken
            else:
                (view / name).symlink_to((folder / name).absolute())
        try:
            yield view
        finally:
            for name in hidden:
                os.truncate(view / name, 0)
