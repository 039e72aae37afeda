"""`orchard search` and `orchard recommend`, with a Hub of the tests."""

import sys
from pathlib import Path

import pytest
from rich.text import Text

from orchard.cli import machine
from orchard.cli.models import hub as hub_command
from orchard.config import Settings
from orchard.core.errors import OrchardError
from orchard.gateway.models.catalogue import CATALOGUE, USES
from tests.support.hub import Hub
from tests.support.model_folders import cache_model, make_model

GB = 10**9


@pytest.fixture(autouse=True)
def _a_machine(hub_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    probed = {"memory_bytes": 16 * GB, "usable_bytes": 2000}
    monkeypatch.setattr(machine, "probe_mlx", lambda: probed)


@pytest.fixture
def repo(hub: Hub, tmp_path: Path) -> str:
    """A model of 1,900 bytes, which has little room."""
    folder = hub.repos["org/Tight-MLX"] = make_model(tmp_path / "tight")
    size = sum(path.stat().st_size for path in folder.iterdir())
    (folder / "more.txt").write_bytes(bytes(1900 - size))
    (folder / "tight.gguf").write_bytes(bytes(5000))  # nothing that is downloaded
    hub.uses["org/Tight-MLX"] = "text-generation"
    return "org/Tight-MLX"


def test_search_shows_what_a_model_is_for_how_large_it_is_and_whether_it_fits(
    hub: Hub, repo: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hub_command.print_hub_models(["tight", "mlx"], Settings())
    head, row, advice = capsys.readouterr().out.splitlines()
    assert head.split() == ["For", "Name", "Size", "Fits"]
    assert row.split() == ["chat", repo, "1.9", "kB", "tight"]
    assert "'orchard pull NAME'" in advice
    hub_command.print_hub_models(["tight"], Settings(memory_limit=1800))
    assert capsys.readouterr().out.splitlines()[1].rstrip().endswith("no")
    hub_command.print_hub_models(["tight"], Settings(memory_limit=10_000))
    assert capsys.readouterr().out.splitlines()[1].rstrip().endswith("yes")


def test_search_says_what_is_here(hub: Hub, hub_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache_model(hub_cache, "org/tiny")
    hub.asked.clear()
    hub_command.print_hub_models(["org/tiny"], Settings())
    rows = {line.split()[1]: line for line in capsys.readouterr().out.splitlines()[1:-1]}
    assert rows["org/tiny"].endswith("100 bytes  yes, here")
    assert not any(asked.endswith("/org/tiny") for asked in hub.asked)


def test_the_hub_writes_no_control_characters_to_the_terminal(
    hub: Hub, repo: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.repos["org/tight\x1b[2J"] = hub.repos[repo]
    hub_command.print_hub_models(["tight"], Settings())
    assert "\x1b" not in capsys.readouterr().out


def test_a_search_that_finds_nothing(hub: Hub) -> None:
    with pytest.raises(OrchardError, match="no model in MLX's format for 'no such'"):
        hub_command.print_hub_models(["no", "such"], Settings())


def test_a_short_name_is_searched_by_its_id(hub: Hub, repo: str, capsys: pytest.CaptureFixture[str]) -> None:
    hub.repos[CATALOGUE[0].repo] = hub.repos[repo]
    hub_command.print_hub_models([CATALOGUE[0].names[1]], Settings())
    assert CATALOGUE[0].repo in capsys.readouterr().out


def test_a_short_name_that_is_a_word_too_finds_all_that_have_it(
    hub: Hub, repo: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ids = [model.repo for model in CATALOGUE if "qwen3-8b" in model.names] + ["org/Qwen3-30B", "org/qwen3-0.6b-8bit"]
    hub.repos |= dict.fromkeys(ids, hub.repos[repo])
    try:
        hub_command.print_hub_models(["qwen3"], Settings())  # a short name of the first one
    finally:
        for each in ids:
            del hub.repos[each]
    shown = capsys.readouterr().out
    assert all(each in shown for each in ids)


def test_a_hub_that_cannot_be_reached(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(OrchardError, match=r"http://127\.0\.0\.1:9 can't be searched: "):
        hub_command.print_hub_models(["x"], Settings())


def test_recommend_names_models_for_every_use(
    hub: Hub, repo: str, hub_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    best = next(model for model in CATALOGUE if model.memory_gb.get("chat") == 16)
    hub.repos[best.repo] = hub.repos[repo]
    hub_command.recommend_models(Settings())
    out, err = capsys.readouterr()
    head, _, *rows, _ = out.splitlines()
    assert head.startswith("Models may take 2.0 kB of 16.0 GB here. The choice is of 20")
    assert list(dict.fromkeys(row.split()[0] for row in rows)) == list(USES)
    assert rows[0].split() == ["chat", best.names[0], "1.9", "kB", "tight"]
    assert rows[1].split()[-1] == "unknown"
    assert err.startswith("orchard: some sizes are unknown: there is no model '")
    del hub.repos[best.repo]


def test_a_machine_where_mlx_does_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "probe_mlx", lambda: machine.Finding("problem", "MLX", "MLX is broken", "Mend it."))
    with pytest.raises(OrchardError, match="MLX is broken; Mend it"):
        hub_command.recommend_models(Settings())


@pytest.mark.parametrize("columns", [40, 80])
def test_no_line_is_wider_than_the_terminal(
    hub: Hub, repo: str, columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    hub_command.recommend_models(Settings())
    table = capsys.readouterr().out.splitlines()[1:-1]
    assert max(Text.from_ansi(line).cell_len for line in table) <= columns
