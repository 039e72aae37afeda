"""A real sshd on the loopback or in a network namespace. Who runs the tests can log in, with a home of its own."""

import json
import os
import shutil
import subprocess
import sysconfig
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil

import orchard
from tests.support.serving import unused_port

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")
KEYGEN = shutil.which("ssh-keygen") or ""
IP = shutil.which("ip", path=f"{os.environ['PATH']}:/usr/sbin:/sbin") or ""
NAME = "second"
PLENTY = 2**60
"""More memory than any machine has, in bytes."""
_MEMORY = """
import pathlib

import psutil

usual, file = psutil.virtual_memory, pathlib.Path({file!r})


def limited():
    found = usual()
    return found._replace(available=min(found.available, int(file.read_text())))


psutil.virtual_memory = limited
"""


class Namespace(NamedTuple):
    """A network namespace, the device of this machine that leads to it, and the addresses of both ends."""

    name: str
    device: str
    addresses: tuple[str, str]

    def link(self, state: str) -> None:
        """Let the link be "up" or "down"."""
        subprocess.run([IP, "link", "set", self.device, state], check=True)


@contextmanager
def network_namespace() -> Iterator[Namespace | None]:
    """Make a namespace with a link to this one; None: that is not allowed here."""
    name, there = f"orchard{os.getpid()}", f"orb{os.getpid()}"
    made = Namespace(name, f"ora{os.getpid()}", ("10.147.0.1", "10.147.0.2"))
    commands = [
        f"netns add {name}",
        f"link add {made.device} type veth peer name {there} netns {name}",
        f"addr add {made.addresses[0]}/30 dev {made.device}",
        f"link set {made.device} up",
        f"-n {name} addr add {made.addresses[1]}/30 dev {there}",
        f"-n {name} link set {there} up",
        f"-n {name} link set lo up",
    ]
    try:
        is_allowed = bool(IP) and all(
            subprocess.run([IP, *command.split()], check=False, capture_output=True).returncode == 0
            for command in commands
        )
        yield made if is_allowed else None
    finally:
        for command in (f"link del {made.device}", f"netns del {name}") if IP else ():
            subprocess.run([IP, *command.split()], check=False, capture_output=True)


class SshHost(NamedTuple):
    """`path`: the PATH with an `ssh` that knows the host as `NAME`. `home`: its home folder. `pid`: that of sshd.

    `addresses`: this machine's and its own, which reach each other.
    """

    path: str
    home: Path
    pid: int
    addresses: tuple[str, str]

    @property
    def python(self) -> Path:
        """The interpreter of its own environment."""
        return self.home / "environment" / "bin" / "python"

    def leave_memory(self, free_bytes: int) -> None:
        """Let so much memory be free there, at most."""
        file = self.home / "free_bytes"
        file.with_suffix(".new").write_text(str(free_bytes))
        file.with_suffix(".new").rename(file)

    def add_environment(self, **versions: str) -> None:
        """Make an environment with all packages of this one; some of them say that they have other versions."""
        venv.create(self.python.parents[1], symlinks=True)
        (packages,) = self.python.parents[1].glob("lib/python*/site-packages")
        here = [sysconfig.get_path("purelib"), str(Path(orchard.__file__).parents[1])]
        (packages / "here.pth").write_text("\n".join([*here, "import its_memory"]))
        self.leave_memory(PLENTY)
        (packages / "its_memory.py").write_text(_MEMORY.format(file=str(self.home / "free_bytes")))
        for name, version in versions.items():
            (info := packages / f"{name}-{version}.dist-info").mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")

    def write_hostfile(self, folders: dict[str, str]) -> str:
        """Write a file with this machine and the host; return its path."""
        here, there = self.addresses
        second = {"ssh": NAME, "ips": [there], "python": str(self.python), "folders": folders}
        file = self.home / "hosts.json"
        file.write_text(json.dumps([{"ssh": "127.0.0.1", "ips": [here]}, second]))
        return str(file)

    def processes(self) -> list[psutil.Process]:
        """What was started through it and still runs."""
        return psutil.Process(self.pid).children(recursive=True)

    def find_rank(self) -> tuple[psutil.Process, psutil.Process]:
        """Return the keeper and its rank, of which there is only one."""
        (keeper,) = [
            one for one in self.processes() if one.name() != "sh" and "orchard.backends.ranks.keeper" in one.cmdline()
        ]
        (rank,) = keeper.children()
        return keeper, rank


@contextmanager
def ssh_host(folder: Path, network: Namespace | None = None) -> Iterator[SshHost]:
    """Run sshd, in a namespace if there is one; `folder` is an empty folder. Needs `SSHD`."""
    addresses = network.addresses if network else ("127.0.0.1", "127.0.0.1")
    enter = [IP, "netns", "exec", network.name] if network else []
    home, bin_ = folder / "home", folder / "bin"
    for one in (home, bin_):
        one.mkdir()
    for key in ("host", "user"):
        subprocess.run([KEYGEN, "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
    port = unused_port()
    files = {
        "sshd_config": f"""
            Port {port}
            ListenAddress {addresses[1]}
            HostKey {folder}/host
            AuthorizedKeysFile {folder}/user.pub
            PasswordAuthentication no
            StrictModes no
            UsePAM no
            PidFile none
            SetEnv HOME={home} ORCHARD_CACHE_DIR={home}/cache
        """,
        "known_hosts": f"[{addresses[1]}]:{port} {(folder / 'host.pub').read_text()}",
        "ssh_config": f"""
            Host {NAME}
                HostName {addresses[1]}
                Port {port}
                IdentityFile {folder}/user
                IdentitiesOnly yes
                UserKnownHostsFile {folder}/known_hosts
        """,
        # What stands in a user's own configuration.
        "bin/ssh": f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/ssh_config "$@"\n',
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    (bin_ / "ssh").chmod(0o755)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # sshd wants it
    assert SSHD
    server = subprocess.Popen([*enter, SSHD, "-D", "-e", "-f", folder / "sshd_config"], stderr=subprocess.PIPE)
    assert server.stderr
    try:
        while b"Server listening" not in (line := server.stderr.readline()):
            assert line, "sshd did not start"
        yield SshHost(f"{bin_}:{os.environ['PATH']}", home, server.pid, addresses)
    finally:
        for process in psutil.Process(server.pid).children(recursive=True):
            process.kill()
        server.kill()
        server.wait()
        server.stderr.close()
