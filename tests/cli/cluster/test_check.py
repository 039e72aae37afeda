"""`orchard cluster check`: what it says of hosts, over ssh to a real sshd."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchard.cli.app import app
from tests.cluster.test_host_facts import make_model
from tests.support.sshd import SSHD, ssh_host


def check(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["cluster", "check", *arguments], env={"COLUMNS": "400"}, catch_exceptions=True)
    return done.exit_code, done.output + str(done.exception or "")


def test_a_wrong_hostfile_is_refused(tmp_path: Path) -> None:
    (tmp_path / "hosts.json").write_text("[]")
    code, said = check(str(tmp_path / "hosts.json"))
    assert (code, "`hosts` must be from 2 to 64 hosts" in said) == (1, True)


def test_hosts_of_this_machine_have_the_same_and_a_link(tmp_path: Path) -> None:
    """No address of another machine can be listened on."""
    model = make_model(tmp_path / "model")
    host = {"ssh": "127.0.0.1", "ips": ["127.0.0.1"]}
    (tmp_path / "hosts.json").write_text(json.dumps([host, host]))
    code, said = check(str(tmp_path / "hosts.json"), str(model))
    assert "its files are those of this machine" in said
    assert "127.0.0.1 to 127.0.0.1: " in said
    assert "neither keyed nor encrypted" in said
    assert said.splitlines()[-1] == "These hosts can share models."
    assert code == 0
    (tmp_path / "hosts.json").write_text(json.dumps([host, {**host, "ips": ["192.0.2.7"]}]))
    code, said = check(str(tmp_path / "hosts.json"))
    assert "192.0.2.7 can't be listened on: Cannot assign requested address" in said
    assert code == 1


def test_a_machine_that_cannot_be_examined_is_an_error_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = {"ssh": "127.0.0.1", "ips": ["127.0.0.1"]}
    (tmp_path / "hosts.json").write_text(json.dumps([host, host]))
    monkeypatch.setattr(sys, "executable", "/bin/false")
    code, said = check(str(tmp_path / "hosts.json"))
    assert (code, "this machine can't be examined: it ended with exit code 1" in said) == (1, True)


@pytest.mark.skipif(not SSHD, reason="there is no sshd: it comes with openssh-server")
def test_what_is_wrong_with_a_host_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model(tmp_path / "model")
    (tmp_path / "host").mkdir()
    with ssh_host(tmp_path / "host") as host:
        monkeypatch.setenv("PATH", host.path)
        code, said = check(host.write_hostfile({}))
        assert "second" in said
        assert "Install Orchard there" in said
        assert code == 1
        host.add_environment(mlx_lm="0.1.0")
        shutil.copytree(model, host.home / "copy")
        (host.home / "copy" / "config.json").write_text("{}")
        code, said = check(host.write_hostfile({str(model): "~/copy"}), str(model))
        assert "it has mlx-lm 0.1.0, and this machine has" in said
        assert "its config.json is not that of this machine" in said
        assert "127.0.0.1 to 127.0.0.1: " in said
        assert code == 1
        (tmp_path / "host" / "user.pub").write_text("")
        code, said = check(host.write_hostfile({}))
        assert "Permission denied (publickey" in said
        assert "'ssh second true' must work without a question" in said
