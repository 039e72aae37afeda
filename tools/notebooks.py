"""Run the notebooks of examples/ against a server, and save their output.

.venv/bin/python -m tools.notebooks [--url http://127.0.0.1:8000] [NAME ...]

examples/README.md says which server they need. tests/examples/test_notebooks.py runs them all and says how to save
their outputs; tests/images/test_notebooks.py does so for those about images, which need their own environment.
"""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib.font_manager  # noqa: F401  # makes its font cache: a notebook would show a line about that
import nbformat
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from nbformat import NotebookNode

FOLDER = Path(__file__).parents[1] / "examples"
_SECONDS_A_CELL = 120
_IMAGES = "image_"
_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def names(*, images: bool) -> list[str]:
    """Return the names of the notebooks that need the environment for images, or those of all others."""
    return sorted(path.stem for path in FOLDER.glob("*.ipynb") if path.stem.startswith(_IMAGES) == images)


@contextmanager
def kernel(url: str) -> Iterator[KernelManager]:
    """Start a kernel whose notebooks talk to a server. Notebooks may share it: it imports libraries once."""
    environment = {**os.environ, "ORCHARD_URL": url, "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    manager = KernelManager()
    manager.start_kernel(env=environment, cwd=str(FOLDER))
    try:
        yield manager
    finally:
        manager.shutdown_kernel(now=True)


def executed(path: Path, manager: KernelManager) -> NotebookNode:
    """Return a notebook with its new outputs. Raise nbclient's CellExecutionError if a cell fails."""
    notebook = nbformat.read(path, as_version=4)
    forget = nbformat.v4.new_code_cell("%reset_selective -f .")
    notebook.cells.insert(0, forget)  # what the last notebook has left in the kernel
    NotebookClient(notebook, km=manager, timeout=_SECONDS_A_CELL, record_timing=False, coalesce_streams=True).execute()
    del notebook.cells[0]
    notebook.metadata = nbformat.from_dict(_METADATA)
    for count, cell in enumerate((cell for cell in notebook.cells if cell.cell_type == "code"), start=1):
        cell.execution_count = count
        for output in cell.outputs:
            output.pop("execution_count", None)
            if output.output_type == "execute_result":
                output.execution_count = count
            if "image/png" in output.get("data", {}):
                output.data.pop("image/jpeg", None)  # the same picture
    return notebook


def main() -> None:
    """Run notebooks, and write them with their outputs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "names",
        metavar="NAME",
        nargs="*",
        help="notebooks, without .ipynb; all but those about images if none is named",
    )
    parser.add_argument("--out", type=Path, default=FOLDER, help="the folder to write them to")
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="the server's address")
    arguments = parser.parse_args()
    with kernel(arguments.url) as manager:
        for name in arguments.names or names(images=False):
            path = FOLDER / f"{name}.ipynb"
            nbformat.write(executed(path, manager), arguments.out / path.name)
            print(path.name)


if __name__ == "__main__":
    main()
