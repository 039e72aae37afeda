"""The parent of a rank, in a process of its own, with a rank that writes back what it gets."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from orchard.cluster.remote import MARK
from tests.support.scripts import write_script

_PATIENCE = 60.0
_START = "import sys; sys.executable = sys.argv.pop(1); from orchard.backends.ranks import keeper; keeper.main()"


def send(keeper: "subprocess.Popen[bytes]", *sent: bytes) -> None:
    assert keeper.stdin
    for data in sent:
        keeper.stdin.write(data)
        keeper.stdin.flush()


@pytest.fixture
def keeper(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    rank = write_script(tmp_path / "python", "exec cat")
    command = [sys.executable, "-P", "-c", _START, rank, "--env=MLX_A=b"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.read(len(MARK)) == MARK
        send(process, b"\0\0\0\1", b"a")
        assert process.stdout.read(5) == b"\0\0\0\1a"  # so the rank runs
        yield process
        process.kill()


def test_messages_reach_the_rank_without_signs_of_life(keeper: "subprocess.Popen[bytes]") -> None:
    assert keeper.stdin
    assert keeper.stdout
    send(keeper, bytes(4), b"\0\0\0\2a", b"b" + bytes(4) + b"\0\0\0\1", b"c")
    assert keeper.stdout.read(11) == b"\0\0\0\2ab\0\0\0\1c"
    (rank,) = psutil.Process(keeper.pid).children()
    keeper.stdin.close()
    assert keeper.wait(_PATIENCE) == 0
    assert not rank.is_running()


def test_a_message_that_is_too_long_ends_the_rank(keeper: "subprocess.Popen[bytes]") -> None:
    (rank,) = psutil.Process(keeper.pid).children()
    send(keeper, b"GET / HTTP/1.1\r\n\r\n")
    assert keeper.wait(_PATIENCE) == 0
    assert not rank.is_running()


def test_a_keeper_ends_with_its_rank(keeper: "subprocess.Popen[bytes]") -> None:
    (rank,) = psutil.Process(keeper.pid).children()
    rank.kill()
    assert keeper.wait(_PATIENCE) == 0
