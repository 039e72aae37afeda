"""API keys and origins on the command line."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchard.cli import serve as serve_command
from orchard.cli.app import app
from orchard.cli.endpoint import first_key
from orchard.cli.settings.values import KINDS
from orchard.config import Settings
from orchard.gateway.pool import worker_process
from tests.support.command import orchard, orchard_process
from tests.support.serving import serve


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """The settings that `orchard serve` would have served with."""
    settings: list[Settings] = []
    monkeypatch.setattr(serve_command, "serve_models", lambda given, *_: settings.append(given))
    return settings


def test_keys_come_from_flags_the_environment_and_files(served: list[Settings], tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# ours\nfrom-file\n\n  another  \n#no\n")
    config = tmp_path / "orchard.yaml"
    config.write_text(f"server: {{api_keys: [y], api_key_file: {file}}}")
    run = CliRunner().invoke
    run(app, ["serve", "--api-key", "a", "--api-key", "b,a"])
    run(app, ["serve", "--api-key-file", str(file)], env={"ORCHARD_API_KEY": "c, d"})
    run(app, ["serve", "--api-key", "e"], env={"ORCHARD_API_KEY": "c"})
    run(app, ["serve"], env={"ORCHARD_API_KEY": ""})
    run(app, ["serve", "--config", str(config)])
    run(app, ["serve", "--config", str(config)], env={"ORCHARD_API_KEYS": "z"})
    assert [settings.api_keys for settings in served] == [
        ("a", "b"),
        ("c", "d", "from-file", "another"),
        ("e",),
        (),
        ("y", "from-file", "another"),
        ("z", "from-file", "another"),
    ]


def test_admin_keys_are_given_like_the_others(served: list[Settings]) -> None:
    run = CliRunner().invoke
    run(app, ["serve", "--admin-key", "a,b", "--api-key", "c"])
    run(app, ["serve"], env={"ORCHARD_ADMIN_KEY": "d"})
    assert [(settings.admin_keys, settings.api_keys) for settings in served] == [(("a", "b"), ("c",)), (("d",), ())]
    assert all(settings.asks_for_keys for settings in served)


def test_who_shares_cached_prompts(served: list[Settings], tmp_path: Path) -> None:
    config = tmp_path / "orchard.yaml"
    config.write_text("server: {api_keys: [a, b, c], prompt_cache_sharing: {ours: [a, b], theirs: c}}")
    run = CliRunner().invoke
    run(app, ["serve", "--api-key", "a", "--prompt-cache-sharing", "all"])
    run(app, ["serve", "--config", str(config)])
    run(app, ["serve"], env={"ORCHARD_PROMPT_CACHE_SHARING": "keys"})
    found = [settings.prompt_cache_sharing for settings in served]
    assert found == ["all", {"ours": ("a", "b"), "theirs": ("c",)}, "keys"]


@pytest.mark.parametrize(
    ("sharing", "wrong"),
    [
        ("secret", "must be keys, all, or a mapping of groups to lists of keys"),
        ("[a]", "must be keys, all, or a mapping of groups to lists of keys, not a list"),
        ("{ours: [a, secret]}", "the group 'ours' has a key that is not one of the server's keys"),
        ("{ours: [a], theirs: [a]}", "the group 'theirs' has a key that is not one of the server's keys, or that"),
    ],
)
def test_groups_of_keys_that_cannot_be(served: list[Settings], tmp_path: Path, sharing: str, wrong: str) -> None:
    config = tmp_path / "orchard.yaml"
    config.write_text(f"server: {{api_keys: [a], prompt_cache_sharing: {sharing}}}")
    result = CliRunner().invoke(app, ["serve", "--config", str(config)], env={"COLUMNS": "300"})
    assert (result.exit_code, served) == (1, [])
    assert wrong in str(result.exception)
    assert "secret" not in str(result.exception)


@pytest.mark.parametrize("key", ["", ",", "a b", "schlüssel", "a\tb"])
def test_what_can_be_no_key_is_refused_without_being_repeated(served: list[Settings], key: str) -> None:
    result = CliRunner().invoke(app, ["serve", "--api-key", key], env={"COLUMNS": "200"})
    assert (result.exit_code, served) == (2, [])
    assert "must be made of printable ASCII characters without spaces" in result.output
    assert "schlüssel" not in result.output


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "contains no key"),
        (b"# nothing\n\n", "contains no key"),
        (b"\xff\xfe", "it is not text"),
        (b"two words", "without spaces"),
        (None, "there is no file"),
    ],
)
def test_a_file_without_keys_is_refused(tmp_path: Path, content: bytes | None, words: str) -> None:
    file = tmp_path / "keys"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ValueError, match=words) as caught:
        KINDS["key file"].read(str(file))
    assert "two words" not in str(caught.value)


def test_a_server_that_has_no_keys_though_it_should_does_not_start(served: list[Settings], tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["serve", "--api-key-file", str(tmp_path / "none")])
    assert (result.exit_code, served) == (2, [])


def test_origins(served: list[Settings]) -> None:
    run = CliRunner().invoke
    run(app, ["serve", "--cors-origin", "https://Example.com", "--cors-origin", "http://localhost:3000"])
    run(app, ["serve", "--cors-origin", "*"])
    run(app, ["serve", "--allowed-origins", "http://a,http://b"])
    assert [settings.cors_origins for settings in served] == [
        ("https://example.com", "http://localhost:3000"),
        ("*",),
        ("http://a", "http://b"),
    ]


def test_allowed_hosts(served: list[Settings]) -> None:
    run = CliRunner().invoke
    run(
        app,
        ["serve", "--allowed-host", "Example.com.", "--allowed-host", "[2001:DB8::0:1]", "--allowed-host", "my_box"],
    )
    run(app, ["serve"])
    assert [settings.allowed_hosts for settings in served] == [("example.com", "2001:db8::1", "my_box"), ()]


def test_clients_send_the_first_of_several() -> None:
    assert [first_key(given) for given in (None, "", "a", "a, b", " ")] == [None, None, "a", "a", None]


SAY = ("run", "-p", "hello there", "--url")


def test_the_chat_sends_its_key() -> None:
    with serve(api_keys=("the-key",)) as server:
        assert orchard(*SAY, server.url, ORCHARD_API_KEY="the-key,another").stdout == "hello there\n"
        refused = orchard(*SAY, server.url, ORCHARD_API_KEY="wrong")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "the API key is wrong" in refused.stderr


def test_help_shows_no_key() -> None:
    shown = orchard_process("serve", "--help", ORCHARD_API_KEY="the-secret").stdout
    assert "--api-key-file" in shown
    assert "the-secret" not in shown


def test_workers_are_given_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORCHARD_API_KEY", "the-secret")
    monkeypatch.setenv("ORCHARD_API_KEYS", "the-secret")
    monkeypatch.setenv("ORCHARD_ADMIN_KEY", "the-secret")
    assert "the-secret" not in worker_process._environment().values()


def test_the_banner_shows_how_to_send_a_key() -> None:
    text = serve_command.banner({"demo": "text"}, "http://127.0.0.1:8000", has_keys=True)
    assert 'curl http://127.0.0.1:8000/v1/chat/completions -H "authorization: Bearer $ORCHARD_API_KEY" -H' in text
    assert "any API key" not in text
