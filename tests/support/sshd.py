"""A real sshd on the loopback, which logs in the user that runs the tests, with a home folder of its own."""

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
NAME = "second"


class SshHost(NamedTuple):
    """`path`: the PATH with an `ssh` that knows the host as `NAME`. `home`: its home folder. `pid`: that of sshd."""

    path: str
    home: Path
    pid: int

    @property
    def python(self) -> Path:
        """The interpreter of its own environment."""
        return self.home / "environment" / "bin" / "python"

    def add_environment(self, **versions: str) -> None:
        """Make an environment with all packages of this one; some of them say that they have other versions."""
        venv.create(self.python.parents[1], symlinks=True)
        (packages,) = self.python.parents[1].glob("lib/python*/site-packages")
        here = [sysconfig.get_path("purelib"), str(Path(orchard.__file__).parents[1])]
        (packages / "here.pth").write_text("\n".join(here))
        for name, version in versions.items():
            (info := packages / f"{name}-{version}.dist-info").mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")

    def write_hostfile(self, folders: dict[str, str]) -> str:
        """Write a file with this machine and the host; return its path."""
        second = {"ssh": NAME, "ips": ["127.0.0.1"], "python": str(self.python), "folders": folders}
        file = self.home / "hosts.json"
        file.write_text(json.dumps([{"ssh": "127.0.0.1", "ips": ["127.0.0.1"]}, second]))
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
def ssh_host(folder: Path) -> Iterator[SshHost]:
    """Run sshd; `folder` is an empty folder. Needs `SSHD`."""
    home, bin_ = folder / "home", folder / "bin"
    for one in (home, bin_):
        one.mkdir()
    for key in ("host", "user"):
        subprocess.run([KEYGEN, "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
    port = unused_port()
    files = {
        "sshd_config": f"""
            Port {port}
            ListenAddress 127.0.0.1
            HostKey {folder}/host
            AuthorizedKeysFile {folder}/user.pub
            PasswordAuthentication no
            StrictModes no
            UsePAM no
            PidFile none
            SetEnv HOME={home} ORCHARD_CACHE_DIR={home}/cache
        """,
        "known_hosts": f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}",
        "ssh_config": f"""
            Host {NAME}
                HostName 127.0.0.1
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
    server = subprocess.Popen([SSHD, "-D", "-e", "-f", folder / "sshd_config"], stderr=subprocess.PIPE)
    assert server.stderr
    try:
        while b"Server listening" not in (line := server.stderr.readline()):
            assert line, "sshd did not start"
        yield SshHost(f"{bin_}:{os.environ['PATH']}", home, server.pid)
    finally:
        for process in psutil.Process(server.pid).children(recursive=True):
            process.kill()
        server.kill()
        server.wait()
        server.stderr.close()
