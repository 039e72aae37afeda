"""The page at /docs: a list of the routes from the server's OpenAPI document. It loads nothing from elsewhere."""

from html import escape
from typing import Any

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_HEAD = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Orchard</title>
<style>body { font: 1rem/1.5 sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem }
summary { cursor: pointer } pre { overflow-x: auto }</style>
"""


def docs_page(spec: dict[str, Any]) -> str:
    """Return the HTML page for an OpenAPI document."""
    tags: dict[str, list[str]] = {}
    for path, methods in spec["paths"].items():
        for method, operation in methods.items():
            tags.setdefault(operation.get("tags", ["Server"])[0], []).append(_route_section(method, path, operation))
    sections = (f"<h2>{escape(tag)}</h2>\n{''.join(routes)}" for tag, routes in tags.items())
    title = f"<h1>{escape(spec['info']['title'])} {escape(spec['info']['version'])}</h1>\n"
    whole = '<p>All of this for programs: <a href="/openapi.json">/openapi.json</a></p>\n'
    return _HEAD + title + whole + "".join(sections)


def _route_section(method: str, path: str, operation: dict[str, Any]) -> str:
    name = f"<code>{method.upper()} {escape(path)}</code>"
    about = escape(operation.get("description", ""))
    content: dict[str, Any] = operation.get("requestBody", {}).get("content", {})
    body: dict[str, Any] = next((one.get("schema", {}) for one in content.values()), {})
    fields = "".join(f"<li><code>{escape(field)}</code></li>" for field in body.get("properties", {}))
    if not fields:
        return f"<p>{name} {about}</p>\n"
    return f"<details><summary>{name} {about}</summary>\n<ul>{fields}</ul>\n</details>\n"
