"""What Orchard uses inside of uvicorn, which any version may change: `pyproject.toml` bounds it from above.

To raise the bound, install the new version and read what fails here. Then run the tests of this folder and those of
tests/attack.
"""

import ast
import inspect
import textwrap
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import uvicorn
import uvicorn.server
from packaging.requirements import Requirement
from packaging.version import Version
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.server import ServerProtocol

from orchard.gateway.http import server
from orchard.gateway.http.connection import Connection
from orchard.gateway.http.websocket import Socket

PROJECT = Path(__file__).parents[3] / "pyproject.toml"


class Use(NamedTuple):
    """What is used of a class: methods with their parameters, and attributes. `ours`: the class that extends it."""

    theirs: type
    ours: type | None
    methods: str
    attributes: str


USES = [
    Use(
        HttpToolsProtocol,
        Connection,
        """
        __init__(self, config, server_state, app_state, _loop=None)
        connection_made(self, transport)
        connection_lost(self, exc)
        eof_received(self)
        data_received(self, data)
        handle_websocket_upgrade(self)
        on_body(self, body)
        on_header(self, name, value)
        on_headers_complete(self)
        on_message_begin(self)
        on_message_complete(self)
        on_response_complete(self)
        on_url(self, url)
        _should_upgrade(self)
        _unset_keepalive_if_required(self)
        _unsupported_upgrade_warning(self)
        """,
        "connections cycle flow headers loop parser pipeline transport url",
    ),
    Use(
        RequestResponseCycle,
        None,
        "",
        "body disconnected message_event more_body response_complete response_started scope",
    ),
    Use(FlowControl, None, "resume_reading(self)", "read_paused"),
    Use(
        WebSocketsSansIOProtocol,
        Socket,
        """
        __init__(self, config, server_state, app_state, _loop=None)
        connection_lost(self, exc)
        data_received(self, data)
        handle_events(self)
        keepalive_timeout(self)
        async receive(self)
        async send(self, message)
        send_receive_event_to_app(self)
        shutdown(self)
        """,
        "app_state close_sent conn curr_msg_data_type handshake_complete handshake_initiated initial_response loop "
        "ping_sent_at ping_timeout pong_timer read_paused transport",
    ),
    Use(
        ServerProtocol,
        None,
        """
        data_to_send(self)
        fail(self, code, reason='')
        reject(self, status, text)
        """,
        "events handshake_exc",
    ),
    Use(
        uvicorn.Server,
        server._Server,
        """
        __init__(self, config)
        handle_exit(self, sig, frame)
        run(self, sockets=None)
        async on_tick(self, counter)
        async shutdown(self, sockets=None)
        async startup(self, sockets=None)
        """,
        "server_state should_exit",
    ),
    Use(uvicorn.server.ServerState, None, "", "connections tasks"),
]


def own_names(kind: type, context: type[ast.expr_context] = ast.Store) -> set[str]:
    """The attributes of `self` that the methods of a class set, or read."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, context)]
    return {node.attr for node in found if isinstance(node.value, ast.Name) and node.value.id == "self"}


def names_of(kind: type) -> set[str]:
    return set().union(*({*vars(parent), *own_names(parent)} for parent in kind.__mro__[:-1]))


def heading(method: Any) -> str:
    signature = inspect.signature(method)
    bare = [given.replace(annotation=inspect.Parameter.empty) for given in signature.parameters.values()]
    plain = signature.replace(parameters=bare, return_annotation=inspect.Signature.empty)
    return f"{'async ' if inspect.iscoroutinefunction(method) else ''}{method.__name__}{plain}"


def methods_of(use: Use) -> dict[str, str]:
    lines = [line.strip() for line in use.methods.strip().splitlines()]
    return {line.removeprefix("async ").partition("(")[0]: line for line in lines}


@pytest.mark.parametrize("use", USES, ids=lambda use: use.theirs.__name__)
def test_what_is_used_is_there(use: Use) -> None:
    found = {name: heading(getattr(use.theirs, name)) for name in methods_of(use) if hasattr(use.theirs, name)}
    assert found == methods_of(use)
    assert set(use.attributes.split()) - names_of(use.theirs) == set()


@pytest.mark.parametrize("use", [use for use in USES if use.ours], ids=lambda use: use.theirs.__name__)
def test_the_lists_are_complete(use: Use) -> None:
    """What a class of ours reads and doesn't have of its own is listed, and no name of its own is one of theirs."""
    assert use.ours
    listed = {*methods_of(use), *use.attributes.split()}
    own = {*vars(use.ours), *own_names(use.ours)} - {"__module__", "__doc__", "__static_attributes__"}
    assert own_names(use.ours, ast.Load) - own - listed == set()
    assert own & names_of(use.theirs) - listed - set(dir(type("Empty", (), {}))) == set()


def test_the_next_version_is_not_installed_before_this_has_passed() -> None:
    needed = [Requirement(line) for line in tomllib.loads(PROJECT.read_text())["project"]["dependencies"]]
    (versions,) = [requirement.specifier for requirement in needed if requirement.name == "uvicorn"]
    major, minor, *_ = Version(uvicorn.__version__).release
    assert uvicorn.__version__ in versions
    assert f"{major}.{minor + 1}" not in versions
    assert f"{major + 1}.0" not in versions
