"""Dashboards and scripts find the metrics and the fields that they know. New ones are welcome."""

from typing import Any

import httpx
import pytest

from tests.compat import names
from tests.compat.bridge import expected

GIVEN = expected("names.json")
# What the scripted model lacks; the engine is asked for it in test_prompt_cache.
OF_ENGINE = "models[].counters."


@pytest.fixture(scope="module")
def used(open_to_all: httpx.Client) -> httpx.Client:
    names.use(open_to_all)
    return open_to_all


def test_metrics_keep_their_names_types_and_labels(used: httpx.Client) -> None:
    found = names.metrics(used)
    assert {name: _kept(found.get(name), about) for name, about in GIVEN["metrics"].items()} == GIVEN["metrics"]


def _kept(found: Any, known: Any) -> Any:
    """Return what of a metric was known before."""
    if found is None:
        return None
    labels = {
        label: [value for value in values if value in known["labels"].get(label, ())]
        for label, values in found["labels"].items()
    }
    return found | {"labels": {label: labels[label] for label in known["labels"] if label in labels}}


@pytest.mark.parametrize("path", GIVEN["fields"])
def test_fields_keep_their_names_and_types(used: httpx.Client, path: str) -> None:
    known = {name: kind for name, kind in GIVEN["fields"][path].items() if not name.startswith(OF_ENGINE)}
    found = names.fields(used, path)
    assert {name: found.get(name) for name in known} == known | {
        name: kind for name, kind in found.items() if name in known and "null" in (kind, known[name])
    }
