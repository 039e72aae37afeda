"""The server that a command talks to."""

from pathlib import Path

import pytest

from orchard.cli import own_server
from orchard.cli.endpoint import ChatClient, ServerError
from orchard.core.errors import OrchardError


def test_a_server_of_its_own_ends_with_it(unloadable: Path) -> None:
    with own_server.start_server(str(unloadable)) as client:
        assert client.list_models()[0] == "unloadable"
    with ChatClient(client.url) as later, pytest.raises(ServerError, match="no server answers"):
        later.list_models()


def test_a_server_of_its_own_that_cannot_start_says_why() -> None:
    with pytest.raises(ServerError, match=r"^no model 'nonsuch'"), own_server.start_server("nonsuch"):
        pass


def test_a_remote_server_without_models() -> None:
    with pytest.raises(OrchardError, match="serves no model"):
        own_server.choose_model([], None, "http://x")


def test_the_bundled_model_is_asked_for_though_it_is_not_listed() -> None:
    assert own_server.choose_model(["org/other"], "demo", "http://x") == "demo"
    assert own_server.choose_model(["org/other"], None, "http://x") == "org/other"


@pytest.mark.parametrize("name", ["llama3.2:3b", "LLAMA3.2", "mlx-community/llama-3.2-3b-instruct-4BIT"])
def test_a_model_by_a_short_name_or_in_another_case(name: str) -> None:
    ids = ["first", "mlx-community/Llama-3.2-3B-Instruct-4bit"]
    assert own_server.choose_model(ids, name, "http://x") == ids[1]


def test_a_model_by_its_folder(unloadable: Path) -> None:
    assert own_server.choose_model(["first", "unloadable"], str(unloadable), "http://x") == "unloadable"
