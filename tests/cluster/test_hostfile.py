"""The hosts of a model, as MLX's hostfile says them, and how each is reached."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from orchard.cluster.hostfile import ClusterHost, read_hostfile
from orchard.cluster.remote import command_on

FIRST, SECOND = {"ssh": "127.0.0.1", "ips": ["10.0.0.1"]}, {"ssh": "anna@studio", "ips": ["10.0.0.2"]}


def write(folder: Path, content: Any) -> str:
    (folder / "hosts.json").write_text(json.dumps(content))
    return str(folder / "hosts.json")


def test_both_of_mlx_s_forms_are_read(tmp_path: Path) -> None:
    """`mlx.distributed_config` writes the second."""
    assert [host.ssh for host in read_hostfile(write(tmp_path, [FIRST, SECOND])).hosts] == ["127.0.0.1", "anna@studio"]
    rdma = [{**FIRST, "rdma": [None, "rdma_en2"]}, {**SECOND, "rdma": ["rdma_en2", None]}]
    found = read_hostfile(write(tmp_path, {"backend": "jaccl", "envs": ["MLX_METAL_FAST_SYNCH=1"], "hosts": rdma}))
    assert (found.backend, found.envs, found.has_rdma) == ("jaccl", ("MLX_METAL_FAST_SYNCH=1",), True)
    assert found.local_ranks == 1
    assert not read_hostfile(write(tmp_path, [FIRST, SECOND])).has_rdma
    assert read_hostfile(write(tmp_path, [FIRST, FIRST, SECOND])).local_ranks == 2


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ([FIRST], r"hosts.json: `hosts` must be from 2 to 64 hosts, not 1$"),
        ([FIRST, {"ssh": "b"}], r"`hosts\[1\].ips` must be at least one address"),
        ([FIRST, {"ssh": "-oProxyCommand=evil", "ips": ["10.0.0.2"]}], r"`hosts\[1\].ssh` must be a name for ssh"),
        ([FIRST, {"ssh": "two words", "ips": ["10.0.0.2"]}], r"`hosts\[1\].ssh` must be a name for ssh"),
        ([FIRST, SECOND, SECOND], r"`hosts\[2\].ssh` must not be that of `hosts\[1\]`, anna@studio"),
        ([SECOND, FIRST, SECOND], r"`hosts\[2\].ssh` must not be that of `hosts\[0\]`"),
        ([FIRST, {**SECOND, "ips": ["8.8.8.8"]}], r"`hosts\[1\].ips` must be private addresses: .* 8.8.8.8 is not"),
        ([FIRST, {**SECOND, "ips": ["224.0.0.1"]}], "224.0.0.1 is not private"),
        ([FIRST, {**SECOND, "ips": ["studio.local"]}], "must be IPv4 addresses, .* not 'studio.local'"),
        ([FIRST, {**SECOND, "ips": ["fe80::1"]}], "must be IPv4 addresses"),
        ([FIRST, {**SECOND, "ip": "10.0.0.2"}], r"unknown field `ip`"),
        ([FIRST, {"ips": []}], "missing required field `ssh`"),
        ({"hosts": [FIRST, SECOND], "backend": "mpi"}, r"Invalid enum value 'mpi' - at `\$.backend`"),
        ({"hosts": [FIRST, SECOND], "envs": ["PYTHONPATH=/tmp"]}, "`envs` must be variables of MLX or NCCL"),
        ({"hosts": [FIRST, SECOND], "envs": ["MLX_RANK=1"]}, "none of MLX_HOSTFILE, .* not 'MLX_RANK=1'$"),
        ("text", "is not in MLX's format"),
    ],
)
def test_a_wrong_hostfile_says_which_field(tmp_path: Path, content: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_hostfile(write(tmp_path, content))


def test_a_missing_hostfile_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none.json can't be read: No such file"):
        read_hostfile(str(tmp_path / "none.json"))


def test_paths_are_those_of_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/anna")
    host = ClusterHost("studio", folders={"/data/models": "/Volumes/big", "~/other": "/o"})
    for here, there in {
        "/home/anna/models/one": "~/models/one",
        "/home/anna": "~",
        "/home/annabel": "/home/annabel",
        "/data/models/one": "/Volumes/big/one",
        "/data/models": "/Volumes/big",
        "/data/models2": "/data/models2",
        "/home/anna/other/x": "/o/x",
    }.items():
        assert host.find_path(here) == there
    assert ClusterHost("127.0.0.1").find_path("/home/anna/models") == "/home/anna/models"


def test_ssh_asks_nobody_and_runs_what_is_meant() -> None:
    command = command_on(ClusterHost("anna@studio", python="/opt/my env/bin/python"), "orchard.cluster.agent", ["a b"])
    assert command[0] == "ssh"
    assert "-oBatchMode=yes" in command
    assert command[-3:-1] == ["--", "anna@studio"]
    assert shlex.split(command[-1]) == ["/opt/my env/bin/python", "-P", "-m", "orchard.cluster.agent", "a b"]
    assert command_on(ClusterHost("127.0.0.1"), "m") == [sys.executable, "-P", "-m", "m"]
