"""The console's files: who gets them, how, and how many bytes they are."""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from orchard.gateway.routes.console import FOLDER
from tests.support.serving import Server, serve

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
MOST_BYTES = 250_000
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def locked() -> Iterator[Server]:
    with serve(api_keys=("the-key",), spare=False) as server:
        yield server


def test_browsers_get_a_page_and_others_what_they_got_before(locked: Server) -> None:
    """Neither needs a key: the page asks for one."""
    page = httpx.get(locked.url, headers=BROWSER)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "<script" in page.text
    for accept in ("*/*", "application/json"):
        other = httpx.get(locked.url, headers={"accept": accept})
        assert (other.json()["name"], other.headers["vary"]) == ("Orchard", "Accept")
    assert "Accept" in page.headers["vary"]


def test_all_that_the_page_loads_is_here(locked: Server) -> None:
    named = set(re.findall(r'(?:src|href)="([^"]+)"', httpx.get(locked.url, headers=BROWSER).text))
    for file in FOLDER.glob("*.js"):
        named |= {f"/console/{name}" for name in re.findall(r'(?:from|import\() ?"\./([^"]+)"', file.read_text())}
    assert len(named) > 10
    for path in named:
        assert httpx.get(locked.url + path).status_code == 200, path


def test_the_policy_allows_no_inline_script_and_nothing_from_elsewhere(locked: Server) -> None:
    page = httpx.get(locked.url, headers=BROWSER)
    policy = dict(part.split(" ", 1) for part in page.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert (policy["script-src"], policy["style-src"], policy["connect-src"]) == ("'self'", "'self'", "'self'")
    assert policy["frame-ancestors"] == "'none'"
    assert not re.search(r"<script(?![^>]* src=)|<style|style=| on\w+=", page.text)
    for file in FOLDER.glob("*.js"):
        assert not re.search("innerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|eval\\(", file.read_text()), file


def test_a_file_is_sent_once_and_compressed(locked: Server) -> None:
    url = f"{locked.url}/console/vendor/marked.js"
    with httpx.stream("GET", url, headers={"accept-encoding": "gzip"}) as first:
        sent = b"".join(first.iter_raw())
    assert gzip.decompress(sent) == (FOLDER / "vendor" / "marked.js").read_bytes()
    assert httpx.get(url, headers={"accept-encoding": "identity"}).content == gzip.decompress(sent)
    again = httpx.get(url, headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("name", ["", "nothing.js", "../config.py", "%2e%2e/config.py", "vendor", "vendor/LICENSE"])
def test_no_other_file_is_sent(locked: Server, name: str) -> None:
    assert httpx.get(f"{locked.url}/console/{name}", headers=locked.headers).status_code == 404


def test_all_files_together_are_small() -> None:
    files = [file for file in FOLDER.rglob("*") if file.is_file()]
    assert sum(len(gzip.compress(file.read_bytes())) for file in files) < MOST_BYTES


def test_the_clients_page_is_that_of_the_documentation() -> None:
    assert (FOLDER / "clients.md").read_text() == (ROOT / "docs" / "clients.md").read_text()


def test_a_server_without_the_console() -> None:
    with serve(console=False, spare=False) as server:
        assert httpx.get(server.url, headers=BROWSER).json()["name"] == "Orchard"
        assert httpx.get(f"{server.url}/console/app.js").status_code == 404
