"""The sockets that a server opens."""

import socket

import pytest

from orchard.config import Settings
from orchard.core.errors import OrchardError
from orchard.gateway.http.listen import bind_sockets
from tests.support.serving import unused_port


def test_a_second_port_that_is_taken_is_left_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        sockets, problem = bind_sockets(Settings(port=0, also_port=port))
        assert len(sockets) == 1
        assert problem
        assert problem.startswith(f"also_port is not used: can't listen on 127.0.0.1:{port}: ")
        assert "--port" not in problem
        with pytest.raises(OrchardError, match="can't listen"):
            bind_sockets(Settings(port=port))
    sockets[0].close()


def test_a_second_port_that_is_free() -> None:
    port = unused_port()
    sockets, problem = bind_sockets(Settings(port=0, also_port=port))
    assert problem is None
    assert sockets[1].getsockname()[1] == port
    for one in sockets:
        one.close()
