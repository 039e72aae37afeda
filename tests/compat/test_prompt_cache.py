"""Prompts that an older version cached on disk are used, and the answers are those of a model that caches nothing."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.compat.bridge import FIXTURES, expected
from tests.compat.engines import engine, make_model

FOLDERS = expected("prompts.json")
COUNTED = expected("names.json")["fields"]["/v1/cache"]


@pytest.mark.parametrize("name", FOLDERS)
def test_cached_prompts_are_used(tmp_path: Path, name: str) -> None:
    given: dict[str, Any] = FOLDERS[name]
    kind, options, prompt, marks = given["kind"], given["options"], given["prompt"], tuple(given["boundaries"])
    assert make_model(tmp_path, kind) == given["config"], "make_architecture makes another model: write this one here"
    cache = tmp_path / "prompts"
    shutil.copytree(FIXTURES / "prompts" / name, cache)
    # Up to a boundary, all of it, and its answer: as somebody would go on.
    other = [*prompt[: marks[0]], *given["other"]]
    longer = [*prompt, *given["answer"], *given["other"]]
    asked = [(other, ()), (prompt, marks), (longer, ())]
    with engine(tmp_path, kind, prompt_cache_bytes=0, **options) as fresh:
        wanted = [fresh.ask(tokens, 8, marks) for tokens, marks in asked]
    with engine(tmp_path, kind, prompt_cache_dir=str(cache), **options) as warm:
        found = [warm.ask(tokens, 8, marks) for tokens, marks in asked]
        counters = warm.counters()
    assert [answer.tokens for answer in found] == [answer.tokens for answer in wanted]
    assert [answer.cached for answer in wanted] == [0, 0, 0]
    assert [answer.cached for answer in found] == given["cached"]
    assert counters.keys() >= {name for _, _, name in (name.partition("counters.") for name in COUNTED) if name}
    assert [one.name for one in cache.iterdir()] == [one.name for one in (FIXTURES / "prompts" / name).iterdir()]
