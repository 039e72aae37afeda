"""MLX's hostfile: the hosts that share a model, with the name that ssh knows and the addresses of each.

The format is that of `mlx.launch --hostfile`. Orchard adds two fields, which MLX ignores: `python` and `folders`.
"""

import ipaddress
import os
import re
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from orchard import folder_files

DistributedBackend = Literal["ring", "jaccl", "nccl"]
"""What connects ranks: TCP, RDMA over Thunderbolt, or NVIDIA's library."""

LOCAL = "127.0.0.1"
"""The value of `ssh` that means this machine. As with mlx.launch, its ranks are started without ssh."""
_SSH_NAME = re.compile(r"[^\s\x00-\x1f\x7f-][^\s\x00-\x1f\x7f]*")
_VARIABLE = re.compile(r"((?:MLX|NCCL)_[A-Z0-9_]+)=([^\x00-\x1f]*)")
# A rank gets these from Orchard.
_OWN_VARIABLES = {
    *("MLX_RANK", "MLX_HOSTFILE", "MLX_WORLD_SIZE", "MLX_IBV_DEVICES", "MLX_JACCL_COORDINATOR"),
    *("NCCL_HOST_IP", "NCCL_PORT"),
}
_MOST_HOSTS = 64


class ClusterHost(Struct, frozen=True, forbid_unknown_fields=True):
    """A host. `ssh`: what ssh calls it; 127.0.0.1: this machine. `ips`: its addresses, on which its rank listens.

    `rdma`: its RDMA device for each host, None for itself. `python`: the interpreter of Orchard's environment there;
    None: at the same place as here. `folders`: folders here, and what they are called there.
    """

    ssh: str
    ips: tuple[str, ...] = ()
    rdma: tuple[str | list[str] | None, ...] = ()
    python: str | None = None
    folders: dict[str, str] = {}

    @property
    def is_local(self) -> bool:
        """Whether it is this machine, so that no ssh is needed."""
        return self.ssh == LOCAL

    def find_path(self, path: str) -> str:
        """Return what a path of this machine is called there; `~` is the home folder of the user there."""
        if self.is_local:
            return path
        here = os.path.abspath(path)
        pairs = {os.path.abspath(os.path.expanduser(folder)): there for folder, there in self.folders.items()}
        pairs = {os.path.expanduser("~"): "~"} | pairs
        for folder, there in sorted(pairs.items(), key=lambda pair: -len(pair[0])):
            if here == folder or here.startswith(f"{folder.rstrip('/')}/"):
                return os.path.join(there, os.path.relpath(here, folder)).removesuffix("/.")
        return here


class Hostfile(Struct, frozen=True, forbid_unknown_fields=True):
    """The hosts, in the order of their ranks; the first is this machine. `envs`: variables of all ranks."""

    hosts: tuple[ClusterHost, ...]
    backend: Literal["", "ring", "jaccl", "nccl"] = ""
    envs: tuple[str, ...] = ()

    @property
    def local_ranks(self) -> int:
        """How many ranks are on this machine."""
        return 1 + sum(host.is_local for host in self.hosts[1:])

    @property
    def has_rdma(self) -> bool:
        """Whether it names an RDMA device for each connection between two hosts."""
        pairs = [(host, number) for number, host in enumerate(self.hosts)]
        return all(
            len(host.rdma) == len(self.hosts)
            and all((name is None) == (other == own) for other, name in enumerate(host.rdma))
            for host, own in pairs
        )


_decoder = msgspec.json.Decoder(Hostfile | list[ClusterHost])


def read_hostfile(path: str) -> Hostfile:
    """Read and check a hostfile. Raise ValueError with a sentence that names the file and the field."""
    file = Path(path).expanduser()
    try:
        found = _decoder.decode(folder_files.read_file(file, folder_files.MOST_JSON_BYTES))
    except OSError as error:
        raise ValueError(f"the hostfile {file} can't be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the hostfile {file} is not in MLX's format: {error}") from error
    hostfile = found if isinstance(found, Hostfile) else Hostfile(tuple(found))
    try:
        _check(hostfile)
    except ValueError as error:
        raise ValueError(f"the hostfile {file}: {error}") from error
    return hostfile


def _check(hostfile: Hostfile) -> None:
    if not 2 <= len(hostfile.hosts) <= _MOST_HOSTS:
        raise ValueError(f"`hosts` must be from 2 to {_MOST_HOSTS} hosts, not {len(hostfile.hosts)}")
    for number, host in enumerate(hostfile.hosts):
        if not _SSH_NAME.fullmatch(host.ssh):
            raise ValueError(f"`hosts[{number}].ssh` must be a name for ssh, not {host.ssh!r}")
        if (same := [one.ssh for one in hostfile.hosts].index(host.ssh)) != number and not host.is_local:
            raise ValueError(
                f"`hosts[{number}].ssh` must not be that of `hosts[{same}]`, {host.ssh}: only this machine, {LOCAL}, "
                "may have several ranks"
            )
        if not host.ips:
            raise ValueError(f"`hosts[{number}].ips` must be at least one address, because the rank listens there")
        for ip in host.ips:
            _check_address(f"`hosts[{number}].ips`", ip)
    for variable in hostfile.envs:
        named = _VARIABLE.fullmatch(variable)
        if not named or named[1] in _OWN_VARIABLES:
            raise ValueError(
                f"`envs` must be variables of MLX or NCCL, such as MLX_METAL_FAST_SYNCH=1, and none of "
                f"{', '.join(sorted(_OWN_VARIABLES))}, which Orchard sets itself; not {variable!r}"
            )


def _check_address(field: str, ip: str) -> None:
    """Raise ValueError unless a rank may listen on an address: ranks neither authenticate nor encrypt messages."""
    try:
        address = ipaddress.IPv4Address(ip)
    except ValueError:
        raise ValueError(f"{field} must be IPv4 addresses, because MLX connects no others, not {ip!r}") from None
    if address.is_global or address.is_unspecified or address.is_multicast:
        raise ValueError(
            f"{field} must be private addresses: what ranks send is not encrypted, and {ip} is not private"
        )
