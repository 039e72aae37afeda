"""The map of the code is true: every file and function that it names exists, and each hop leads to the next."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.test_imports import LAW, MLX, WEB

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "orchard"
MAP = (ROOT / "docs" / "architecture.md").read_text()
PAGES = {
    "docs/architecture.md": MAP,
    "docs/decisions.md": (ROOT / "docs" / "decisions.md").read_text(),
    "docs/recipes.md": (ROOT / "docs" / "recipes.md").read_text(),
}
MOST_HOPS = 8
_FILE = r"`((?:[\w-]+/)+(?:[\w-]+\.(?:py|md|yaml))?|(?:config|kinds|wire)\.py)`"


def table(heading: str) -> list[list[str]]:
    """Return the cells of the last table below a heading of the map."""
    section = re.split(r"^## ", MAP.partition(f"\n## {heading}\n")[2], flags=re.MULTILINE)[0]
    rows = re.findall(r"^\| (.*) \|$", section.replace("| |", "|  |"), re.MULTILINE)
    first = max(
        index for index, line in enumerate(rows) if line.startswith(("hop |", "folder |", "part |", "to change"))
    )
    return [[cell.strip() for cell in row.split("|")] for row in rows[first + 1 :]]


@cache
def definitions(file: Path) -> dict[str, ast.AST]:
    """Return what a module defines: `name`, and `Class.method` or `Class.field`."""

    def found(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.AST]]:
        for node in body:
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    yield prefix + name, node
                case ast.ClassDef(name=name, body=inner):
                    yield prefix + name, node
                    yield from found(inner, f"{prefix}{name}.")
                case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                    yield prefix + name, node

    return dict(found(ast.parse(file.read_text()).body, ""))


def place(path: str) -> Path:
    """Return what a page names; a path begins at the package or at the repository's root."""
    return SOURCE / path if (SOURCE / path).exists() else ROOT / path


@pytest.mark.parametrize("page", PAGES)
def test_every_file_and_function_exists(page: str) -> None:
    text = re.sub(r"^```.*?^```", "", PAGES[page], flags=re.DOTALL | re.MULTILINE)
    named = re.findall(_FILE + r"((?:(?:,| or| and)? `[A-Za-z_]+(?:\.[a-z_]+)?`(?![/\w]))*)", text)
    named += re.findall(_FILE + r" \| `([\w.]+)`", text)
    assert named
    for path, names in named:
        if "<" in path:
            continue
        assert place(path).exists(), path
        if path.endswith(".py"):
            for name in re.findall(r"[\w.]+", names.replace(" or ", " ").replace(" and ", " ")):
                assert name in definitions(place(path)), f"{path} {name}"


def test_each_hop_is_called_by_one_of_those_before_it() -> None:
    before: list[set[str]] = []
    for number, file, function, _, how in table("A request, from the route to the model and back"):
        assert number == str(len(before) + 1)
        name, all_names = function.strip("`"), definitions(SOURCE / file.strip("`"))
        owner, _, method = name.rpartition(".")
        if how == "call":
            assert method in set().union(*before[-4:]), f"nothing before hop {number} calls {name}"
        called = words(all_names[name])
        private = (all_names.get(f"{owner}.{word}") for word in called if word.startswith("_"))
        # A private method that a hop calls belongs to the hop.
        before.append(called.union(*(words(node) for node in private if node)))


def words(node: ast.AST) -> set[str]:
    """Return the names in a function."""
    found = (one for one in ast.walk(node) if isinstance(one, ast.Attribute | ast.Name))
    return {one.attr if isinstance(one, ast.Attribute) else one.id for one in found}


def test_the_worker_is_reached_in_few_hops() -> None:
    hops = [how for *_, how in table("A request, from the route to the model and back")]
    assert 1 < hops.index("socket") <= MOST_HOPS


def test_every_folder_has_a_line() -> None:
    told = [row[0].strip("`") for row in table("Folders")]
    folders = {file.parent.relative_to(SOURCE).as_posix() for file in SOURCE.rglob("*.py")}
    assert sorted(told) == sorted(folders)
    for folder, purpose in ((row[0].strip("`"), row[1]) for row in table("Folders")):
        for name in re.findall(r"`(\w+\.py)`", purpose):
            assert (SOURCE / folder / name).exists(), f"{folder}/{name}"


def test_the_import_law_is_the_one_that_is_tested() -> None:
    sets = {"MLX": MLX, "web": WEB}
    told = {
        room.strip("` ").replace("/", "."): (
            set(filter(None, rooms.split(", "))),
            {one for name in filter(None, packages.split(", ")) for one in sets.get(name, {name})},
        )
        for names, rooms, packages in table("Who may import what")
        for room in names.split(",")
    }
    assert told == {name: (room.rooms, room.packages) for name, room in LAW.items() if not name.startswith("__")}
    for name, packages in sets.items():
        (words,) = re.findall(rf'"{name}" means ([^.]*)\.', MAP)
        assert set(re.split(r", | and ", words)) == packages
