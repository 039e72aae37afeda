"""The format of every architecture that mlx-lm and mlx-vlm load, by the committed table `architectures.tsv`.

Its columns: the architecture, which is a module of a library's `models`; the public chat template, or what else tells
the format; the names of the parsers of calls and of reasoning; and the texts of the template that decide, with two
spaces between them. Instead of a parser of calls: `base`, models without a chat template; `none`, no model that chats;
`unknown`, no template was read, or its format isn't read. `json`: the template shows no format of calls.
"""

import re
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from orchard.formats.registry import choose_family

_NO_FORMAT = ("base", "none", "unknown")
_WORD = re.compile(r"[A-Za-z]{3,}")


class Row(NamedTuple):
    architecture: str
    source: str
    calls: str
    reasoning: str
    marks: str = ""


TABLE = [
    Row(*line.split("\t"))
    for line in Path(__file__).with_name("architectures.tsv").read_text().splitlines()
    if not line.startswith("#")
]
FORMATS = [row for row in TABLE if row.calls not in _NO_FORMAT]
MARKED = [row for row in FORMATS if row.marks]


@pytest.mark.parametrize("library", ["mlx_lm", "mlx_vlm"])
def test_every_module_of_a_library_is_in_the_table(library: str) -> None:
    spec = find_spec(library)
    assert spec
    assert spec.origin
    models = Path(spec.origin).parent / "models"
    modules = {path.stem for path in models.iterdir() if not path.name.startswith(("_", "."))}
    missing = modules - {row.architecture for row in TABLE}
    assert not missing, f"add rows to architectures.tsv for {sorted(missing)}"


def test_architectures_are_in_order_and_each_has_one_row() -> None:
    names = [row.architecture for row in TABLE]
    assert names == sorted(set(names))


@pytest.mark.parametrize("row", FORMATS, ids=lambda row: row.architecture)
def test_its_parsers_are_known_and_its_source_is_named(row: Row) -> None:
    assert choose_family("", tool_call_parser=row.calls, reasoning_parser=row.reasoning).name
    assert re.fullmatch(r"(llama\.cpp|vLLM( recipe| docs)?): \S+", row.source)


@pytest.mark.parametrize("row", MARKED, ids=lambda row: row.architecture)
def test_its_template_is_recognised(row: Row) -> None:
    found, named = (
        choose_family(row.marks),
        choose_family("", tool_call_parser=row.calls, reasoning_parser=row.reasoning),
    )
    assert (found.name, found.reasoning_tags) == (named.name, named.reasoning_tags)


@pytest.mark.parametrize("row", MARKED, ids=lambda row: row.architecture)
def test_a_template_with_other_tags_is_not_taken_for_a_known_one(row: Row) -> None:
    """As the next version of a family may name its tags."""
    other = _WORD.sub(lambda word: f"{word[0][:2]}X{word[0][2:]}", row.marks)
    found = choose_family(other)
    assert (found.name, found.reasoning_tags) == ("json", None), other
