"""The page on finding models has the rows of the table."""

import re
from pathlib import Path

from orchard.gateway.models import catalogue
from orchard.gateway.models.catalogue import CATALOGUE, CatalogueModel

PAGE = Path(__file__).parents[2] / "docs" / "models.md"


def row(model: CatalogueModel) -> str:
    names = ", ".join(f"`{name}`" for name in model.names)
    uses = ", ".join(f"{use} ({memory} GB)" for use, memory in model.memory_gb.items())
    return f"| {names} | {model.repo} | {uses} | {model.source} |"


def test_the_page_has_the_rows_of_the_table() -> None:
    text = PAGE.read_text()
    assert re.findall(r"^\| `.*$", text, re.MULTILINE) == [row(model) for model in CATALOGUE]
    assert f"was made on {catalogue.DATE}" in text
