"""What scripts and dashboards know a server by: the names of its metrics, and the fields of what it says of itself."""

import json
import sys
from collections.abc import Iterator
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

PATHS = ("/v1/stats", "/health", "/v1/cache", "/ready", "/v1/models")
# Labels whose values are written by the server, not by its callers.
_CLOSED = ("le", "state", "kind", "reason", "outcome", "route", "status")


def use(client: httpx.Client) -> None:
    """Let something be counted of each kind, with the scripted model."""
    client.post("/v1/models/fake/load").raise_for_status()
    client.post("/v1/models/fake/unload").raise_for_status()
    for script in ({"pieces": 3}, {"refuse": "context_length_exceeded"}):
        message = {"role": "user", "content": json.dumps(script)}
        client.post("/v1/chat/completions", json={"model": "fake", "messages": [message]})


def metrics(client: httpx.Client) -> dict[str, Any]:
    """Return type and labels of each sample of /metrics by its name, with the values of labels that the server sets."""
    found: dict[str, Any] = {}
    for family in text_string_to_metric_families(client.get("/metrics").text):
        for sample in family.samples:
            about = found.setdefault(sample.name, {"type": family.type, "labels": {}})
            for label, value in sample.labels.items():
                values = about["labels"].setdefault(label, [])
                if label in _CLOSED and value not in values:
                    values.append(value)
    for about in found.values():
        about["labels"] = {label: sorted(values) for label, values in about["labels"].items()}
    of_linux = () if sys.platform == "linux" else ("process_",)
    return {name: about for name, about in found.items() if not name.startswith(of_linux)}


def fields(client: httpx.Client, path: str) -> dict[str, str]:
    """Return the type of each field of a JSON body, by the keys that lead to it; `*` stands for a model's name."""
    return dict(_fields("", client.get(path).raise_for_status().json()))


def _fields(path: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _fields(f"{path}.{'*' if name in ('fake', 'demo') else name}".lstrip("."), inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _fields(f"{path}[]", inner)
    else:
        kinds = {bool: "boolean", int: "number", float: "number", str: "text", type(None): "null"}
        yield path, kinds[type(value)]
