"""Every page for readers: its links lead somewhere, its tables are tables, and it tells of every metric."""

import re
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path

import pytest

from orchard.gateway.memory_status import MemoryStatus
from orchard.gateway.metrics.counters import Metrics
from orchard.gateway.metrics.exposition import render_metrics
from tools import readme_picture

ROOT = Path(__file__).parents[2]
PAGES = [
    path.relative_to(ROOT).as_posix()
    for path in (*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("*/README.md"))
]


def prose(path: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors(path: Path) -> set[str]:
    """The anchors that GitHub gives a page's headings."""
    headings = re.findall(r"^#+ (.+)$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_a_file_and_a_heading(page: str) -> None:
    path = ROOT / page
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", prose(path)):
        file, _, anchor = target.partition("#")
        linked = path.parent / file if file else path
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


@pytest.mark.parametrize("page", PAGES)
def test_rows_belong_to_a_table_and_have_its_columns(page: str) -> None:
    columns = 0
    for before, line in pairwise(["", *prose(ROOT / page).splitlines(), ""]):
        if not line.startswith("|"):
            continue
        cells = len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`]*`", "", line))) - 1
        if not before.startswith("|"):
            columns = cells
        assert cells == columns, line
        if not before.startswith("|"):
            assert re.search(rf"^{re.escape(line)}\n\|[-:|]+\|$", prose(ROOT / page), re.MULTILINE), line


def test_the_page_on_monitoring_names_every_metric() -> None:
    memory = MemoryStatus(total_bytes=1, available_bytes=1, others_bytes=1, limit_bytes=1, budget_bytes=1)
    text = render_metrics(Metrics(), {}, memory, "text/plain")[0].decode()
    ours = set(re.findall(r"^# TYPE (orchard_\w+) \w+$", text, re.MULTILINE))
    told = set(re.findall(r"^\| `(orchard_\w+)`", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE))
    assert told == ours


def test_the_readme_quotes_measured_figures() -> None:
    section = (ROOT / "README.md").read_text().partition("| |")[2].partition("\n\n")[0]
    quoted = set(re.findall(r"\d[\d,.]*\d (?:tokens/s|ms|s)\b", section))
    measured = set(re.findall(r"[\d,.]*\d", (ROOT / "docs" / "performance.md").read_text()))
    assert len(quoted) > 10
    assert {figure.partition(" ")[0] for figure in quoted} <= measured


def test_the_picture_shows_the_commands_of_its_script_and_loads_nothing() -> None:
    svg = readme_picture.PICTURE.read_text()
    shown = "".join(ET.fromstring(svg).itertext()).replace("\xa0", " ")  # noqa: S314 - our own file
    for command in (readme_picture.SERVE, *readme_picture.COMMANDS):
        assert re.sub(r"\s", "", command) in re.sub(r"\s", "", shown)
    assert len(svg) < 60_000
    for loader in ("@font-face", "@import", "href", "src=", "url(http"):
        assert loader not in svg
