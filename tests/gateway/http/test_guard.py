"""Which names a request may be sent to, and which web pages may send it."""

from typing import Any

import httpx
import pytest

from orchard.config import Settings
from orchard.core.errors import OrchardError
from orchard.gateway.http.guard import Guard, host_name
from orchard.gateway.replies.errors import Dialects, error_response
from orchard.gateway.routes.table import ROUTES
from tests.support.gateway_client import body
from tests.support.serving import Server

CHAT = "/v1/chat/completions"
HERE = "localhost:8000"
ANSWERS = tuple(end for group in ROUTES for end in group.answers)


def status(headers: dict[str, str], method: str = "POST", path: str = CHAT, /, **settings: Any) -> int:
    """What a request gets that reaches the server at 192.168.1.5."""
    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "server": ("192.168.1.5", 8000),
        "state": {"id": "req_1", "dialects": Dialects()},
    }
    try:
        Guard(Settings(**settings), ANSWERS).check(scope)
    except OrchardError as error:
        return error_response(scope, error).status_code
    return 200


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:8000",
        "localhost.:8000",
        "localhost:",
        "api.localhost",
        "127.0.0.1:8000",
        "127.8.9.10",
        "[::1]:8000",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]:8000",
        "192.168.1.5:8000",
        "[::ffff:192.168.1.5]",
        "named.example:8000",
        "my_box",
        "[2001:DB8:0::1]:80",
        "given.example",
    ],
)
def test_names_of_this_server(host: str) -> None:
    allowed = ("named.example", "my_box", "2001:db8::1")
    assert status({"host": host}, "GET", "/", host="given.example", allowed_hosts=allowed) == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8000",
        "localhost.evil.example",
        "notlocalhost",
        "127.0.0.1.evil.example",
        "192.168.1.6",
        "[::2]:8000",
        "[::ffff:10.0.0.1]",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_names_of_others(host: str, method: str) -> None:
    assert status({"host": host}, method, "/v1/models") == 403
    assert status({"host": host}, method, "/v1/models", api_keys=("key",)) == 200


@pytest.mark.parametrize(
    "host",
    ["", " ", "a b", "localhost:x", "http://localhost", "::1", "[::1", "a@localhost", "localhost/", "localhost:123456"],
)
def test_what_is_no_host(host: str) -> None:
    assert status({"host": host}, "GET", "/") == 400
    assert status({"host": host}, "GET", "/", api_keys=("key",)) == 400


def test_a_host_is_read_without_its_port() -> None:
    assert [host_name(given) for given in ("A.b:1", "[FE80::1%eth0]:1", "a.", "a..")] == ["a.b", "fe80::1", "a", "a."]


ELSEWHERE: list[dict[str, str]] = [
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "http://localhost:3000"},
    {"origin": "http://localhost"},
    {"origin": "https://evil.example", "sec-fetch-site": "same-origin"},
    {"origin": f"http://{HERE}", "sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
]
APPS = ["vscode-webview://1abc", "app://obsidian.md", "tauri://localhost", "https://tauri.localhost", "file://"]
CHANGES = [
    ("POST", "/unload"),
    ("POST", "/v1/models/demo/load"),
    ("POST", "/v1/responses/resp_1/cancel"),
    ("POST", "/v1/conversations"),
    ("DELETE", "/v1/responses/resp_1"),
    ("POST", "/v1/chat/completions/chatcmpl_1"),
]


@pytest.mark.parametrize("headers", ELSEWHERE)
@pytest.mark.parametrize(("method", "path"), [*CHANGES, ("POST", CHAT)])
def test_pages_of_other_sites_change_nothing(headers: dict[str, str], method: str, path: str) -> None:
    assert status({"host": HERE} | headers, method, path) == 403
    assert status({"host": HERE} | headers, method, path, api_keys=("key",)) == 403
    assert status({"host": HERE} | headers, "GET", path) == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": f"http://{HERE}"},
        {"origin": f"https://{HERE}", "sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "none"},
        {"sec-fetch-site": "same-origin"},
    ],
)
@pytest.mark.parametrize(("method", "path"), CHANGES)
def test_programs_and_pages_of_this_server_may(headers: dict[str, str], method: str, path: str) -> None:
    assert status({"host": HERE} | headers, method, path) == 200


@pytest.mark.parametrize("origin", APPS)
@pytest.mark.parametrize("fetch", [{}, {"sec-fetch-site": "cross-site"}])
def test_desktop_apps_may_ask_for_answers_only(origin: str, fetch: dict[str, str]) -> None:
    headers = {"host": HERE, "origin": origin, **fetch}
    for path in (CHAT, "/v1/responses", "/v1/messages", "/openai/deployments/demo/chat/completions"):
        assert status(headers, "POST", path) == 200
    for method, path in CHANGES:
        assert status(headers, method, path) == 403
        assert status(headers, method, path, cors_origins=(origin,)) == 200


@pytest.mark.parametrize("origin", ["https://good.example", "null"])
def test_origins_that_cors_names_may(origin: str) -> None:
    headers = {"host": HERE, "origin": origin, "sec-fetch-site": "cross-site"}
    assert status(headers, "POST", "/unload", cors_origins=("*",)) == 200
    assert status(headers, "POST", "/unload", cors_origins=("https://good.example",)) == (
        403 if origin == "null" else 200
    )


def test_an_app_may_use_every_route_that_generates(server: Server) -> None:
    paths = httpx.get(f"{server.url}/openapi.json").json()["paths"]
    generating = [path for path, methods in paths.items() if "model" in _fields(methods.get("post", {}))]
    for path in ("/api/pull", "/api/v1/models/load", "/api/v1/models/download"):  # these change the server's models
        generating.remove(path)
        assert status({"host": HERE, "origin": "app://x"}, "POST", path) == 403
    assert CHAT in generating
    for path in generating:
        assert status({"host": HERE, "origin": "app://x"}, "POST", path) == 200, path


def _fields(operation: dict[str, Any]) -> dict[str, Any]:
    content = operation.get("requestBody", {}).get("content", {})
    fields: dict[str, Any] = content.get("application/json", {}).get("schema", {}).get("properties", {})
    return fields


def test_the_server_asks_its_guard(server: Server) -> None:
    refused = httpx.post(f"{server.url}/unload", headers={"sec-fetch-site": "cross-site"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
    assert refused.headers["x-request-id"].startswith("req_")
    anthropic = httpx.post(f"{server.url}/v1/messages", json=body(), headers={"origin": "null"})
    assert (anthropic.status_code, anthropic.json()["error"]["type"]) == (403, "permission_error")
    strange = httpx.get(f"{server.url}/v1/models", headers={"host": "evil.example"})
    assert strange.status_code == 403
    assert "--allowed-host evil.example" in strange.json()["error"]["message"]
    assert httpx.get(f"{server.url}/v1/models", headers={"host": f"localhost:{server.port}"}).status_code == 200
