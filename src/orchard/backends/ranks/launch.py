"""Rank 0's side: it starts the other ranks, checks that all have the same files and versions, and loads the model."""

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import mlx.core as mx
from msgspec.structs import replace

from orchard.backends.model_folder import Progress
from orchard.backends.ranks.join import hold_addresses, join_group
from orchard.backends.ranks.messages import RankConnection, RankHost, RankLoaded, RankQuestion, RankStart
from orchard.backends.ranks.other_rank import GPUS, OtherRank
from orchard.backends.ranks.parallel import choose_backend, choose_parallel
from orchard.backends.ranks.shard import load_shard
from orchard.backends.text.model import TextModel
from orchard.cluster.host_facts import HostFacts, read_facts
from orchard.cluster.hostfile import LOCAL, ClusterHost, Hostfile, read_hostfile
from orchard.core.device_memory import RankReport
from orchard.core.errors import OrchardError
from orchard.core.tasks.text_options import TextOptions
from orchard.device.memory import available_bytes, recommended_bytes
from orchard.engine.memory import memory_limit
from orchard.engine.ranks.group import RankGroup

_START_SECONDS = 60.0  # for ssh, and to import MLX and the libraries; less than the watchdog usually allows
# Rank 0 alone reads the files that these options name.
_OWN_OPTIONS: dict[str, Any] = {"chat_template_file": None, "prompt_cache_shared": ()}


class RankLauncher:
    """Starts the ranks of one model, of which this process is rank 0."""

    def __init__(self, path: str, options: TextOptions) -> None:
        """`options` say which ranks there are."""
        self._path = path
        self._hosts_path = options.hosts
        self._others: list[OtherRank] = []
        self._group: RankGroup | None = None
        self.on_memory: Callable[[], None] = lambda: None
        """Called in a thread when the memory of another rank's host has changed."""
        self._problem: str | None = None
        try:
            self._hostfile = read_hostfile(options.hosts) if options.hosts else _local_hostfile(options.ranks)
        except ValueError as error:
            self._problem, self._hostfile = str(error), _local_hostfile(1)

    @property
    def memory_shares(self) -> int:
        """How many ranks share the memory that rank 0 has: those of this machine, unless each has a GPU of its own."""
        return 1 if mx.default_device() == mx.gpu else self._hostfile.local_ranks

    def load(self, options: TextOptions, progress: Progress) -> TextModel:
        """Start the other ranks, and load all shards of the model; return rank 0's. `progress`: see `load_folder`.

        The memory limit in `options` is that of each rank on this machine. From then on, this process ends when another
        rank ends. Raise OrchardError("model_failed") with the reason.
        """
        if self._problem:
            raise OrchardError("model_failed", self._problem)
        try:
            return self._load(options, progress)
        except BaseException:
            self.end()
            raise

    @property
    def reports(self) -> tuple[RankReport, ...]:
        """What is known of the other ranks."""
        return tuple(one.report for one in self._others)

    def allowed_bytes(self, weights_bytes: int) -> int | None:
        """Return what rank 0 may take, so that the rows have room on the other hosts, too; None: that isn't known.

        `weights_bytes`: what its weights take.
        """
        if not self._group:
            return None
        own = self._group.row_bytes
        rooms = [one.find_room() for one in self._others if not one.shares_memory]
        return min((int(weights_bytes + rows * own) for rows in rooms if rows is not None), default=None)

    def end(self) -> None:
        """End the other ranks for certain."""
        for one in self._others:
            one.end()

    def _load(self, options: TextOptions, progress: Progress) -> TextModel:
        hosts = self._hostfile.hosts
        backend = choose_backend(options, self._hostfile)
        options = replace(options, hosts=None, ranks=len(hosts))
        options = replace(options, parallel=choose_parallel(Path(self._path), options, backend))
        variables = dict(one.split("=", 1) for one in self._hostfile.envs)
        os.environ.update(variables)
        gpus = iter(_local_gpus()[1:])
        for rank, host in enumerate(hosts[1:], 1):
            gpu = next(gpus, None) if host.is_local else None
            self._others.append(OtherRank(rank, host, variables, gpu))
            self._others[-1].on_memory = lambda: self.on_memory()  # noqa: PLW0108 - it is set later
        for one, host in zip(self._others, hosts[1:], strict=True):
            one.channel.send(RankQuestion(host.find_path(self._path), host.ips))
        with ExitStack() as held:
            own = RankHost(read_facts(self._path), self._hold_addresses(held), recommended_bytes(), available_bytes())
            ranks = [own, *(one.wait_for(RankHost, _START_SECONDS, lambda: progress(0.0)) for one in self._others)]
            self._check_facts([rank.facts for rank in ranks])
            connection = RankConnection(
                backend, [rank.addresses for rank in ranks], [list(host.rdma) for host in hosts]
            )
            free_bytes = self._free_bytes(options, ranks) if options.parallel == "pipeline" else None
            starts = [
                RankStart(rank, connection, host.find_path(self._path) if rank else self._path, options, free_bytes)
                for rank, host in enumerate(hosts)
            ]
            for one, host, start in zip(self._others, hosts[1:], starts[1:], strict=True):
                there = replace(
                    options,
                    memory_limit=options.memory_limit if host.is_local else None,
                    prompt_cache_dir=host.find_path(options.prompt_cache_dir) if options.prompt_cache_dir else None,
                    **_OWN_OPTIONS,
                )
                one.channel.send(replace(start, options=there))
                one.expect_end()
        self._group = group = join_group(starts[0], [one.channel for one in self._others])
        model = load_shard(self._path, options, progress, group)
        for one in self._others:
            one.wait_for(RankLoaded, float("inf"), lambda: progress(1.0))
        return model

    def _hold_addresses(self, held: ExitStack) -> list[str]:
        ips = self._hostfile.hosts[0].ips
        try:
            return held.enter_context(hold_addresses(ips))
        except OSError as error:
            message = f"this machine must be the first host of {self._hosts_path}, and can't listen on its addresses"
            raise OrchardError("model_failed", f"{message} {', '.join(ips)}: {error.strerror}") from error

    def _free_bytes(self, options: TextOptions, ranks: Sequence[RankHost]) -> list[int]:
        """Return what each rank may take."""
        own = min(memory_limit(options), ranks[0].free_bytes // self.memory_shares)
        pairs = zip(self._others, ranks[1:], strict=True)
        return [own, *(own if one.shares_memory else min(rank.usable_bytes, rank.free_bytes) for one, rank in pairs)]

    def _check_facts(self, facts: Sequence[HostFacts]) -> None:
        problems = [
            f"{one.name}: {', '.join(found)}"
            for one, there in zip(self._others, facts[1:], strict=True)
            if (found := facts[0].find_differences(there))
        ]
        if problems:
            raise OrchardError(
                "model_failed", f"all ranks must have the same versions and files. {'; '.join(problems)}"
            )


def _local_hostfile(ranks: int) -> Hostfile:
    return Hostfile(tuple(ClusterHost(LOCAL, (LOCAL,)) for _ in range(ranks)))


def _local_gpus() -> list[str]:
    """Return the names of this machine's GPUs for CUDA, if models use them; rank 0 has the first."""
    if mx.default_device() != mx.gpu:
        return []
    if names := os.environ.get(GPUS):
        return names.split(",")
    return [str(number) for number in range(mx.device_count(mx.gpu))]
