"""`orchard cluster check`: whether the hosts of a hostfile can share a model, and what to mend."""

import contextlib
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.filesize import decimal

from orchard.cli.doctor import print_finding
from orchard.cli.machine import Finding
from orchard.cluster.agent import DescribeHost, HostDescription, LinkTime, ListeningHost, ListenOnHost, TimeLink
from orchard.cluster.agent_client import AgentClient, HostError
from orchard.cluster.host_facts import HostFacts
from orchard.cluster.hostfile import LOCAL, ClusterHost, Hostfile, read_hostfile
from orchard.core.errors import OrchardError
from orchard.gateway.models.registry import resolve_model

_SLOW_MILLISECONDS = 2.0  # a cable takes less than one
_OPEN = (
    "What ranks send over the ring is neither keyed nor encrypted: who is in the network of these addresses can read "
    "it, and can connect while they start."
)
_CLOSED_NETWORK = "Use a network of their own, such as Thunderbolt cables."


def check_hosts(path: str, models: Sequence[str]) -> bool:
    """Print each finding as soon as it is made. Return False if one is a problem.

    Raise OrchardError if the hostfile is wrong, a model is not on this machine, or this machine can't be examined.
    """
    try:
        hostfile = read_hostfile(path)
    except ValueError as error:
        raise OrchardError("invalid_request", str(error)) from error
    folders = {name: resolve_model(name).path for name in models}
    console, well = Console(), True
    for finding in _examine_hosts(hostfile, folders):
        well = well and finding.status != "problem"
        print_finding(console, finding)
    console.print("These hosts can share models." if well else "These hosts can't share models until that is mended.")
    return well


def _examine_hosts(hostfile: Hostfile, folders: dict[str, str]) -> Iterator[Finding]:
    with contextlib.ExitStack() as stack:
        first, *rest = hostfile.hosts
        hosts = [ClusterHost(LOCAL, first.ips), *rest]
        agents = [stack.enter_context(AgentClient(host)) for host in hosts]
        try:
            own = agents[0].ask(DescribeHost(list(folders.values())), HostDescription)
        except HostError as error:
            raise OrchardError("unavailable", f"this machine can't be examined: {error}") from error
        yield _memory_finding("this machine", own)
        reached = [agents[0]]
        for host, agent in zip(rest, agents[1:], strict=True):
            question = DescribeHost([host.find_path(folder) for folder in folders.values()])
            try:
                description = agent.ask(question, HostDescription)
            except HostError as error:
                yield _unreached_finding(host, str(error))
                continue
            reached.append(agent)
            yield _memory_finding(host.ssh, description)
            yield from _compare(host, list(folders), own.facts, description.facts)
        if not folders:
            yield Finding("ok", "models", "no files are compared, because no model is named")
        if len(reached) == len(agents):
            yield from _examine_links(hostfile.hosts, agents)
        yield Finding("warning", "security", _OPEN, _CLOSED_NETWORK)


def _unreached_finding(host: ClusterHost, reason: str) -> Finding:
    if "No module named" in reason or "No such file" in reason or "not found" in reason:
        advice = (
            f"Install Orchard there, and name its interpreter as `python` of the host '{host.ssh}' in the hostfile."
        )
    else:
        advice = f"'ssh {host.ssh} true' must work without a question: see the keys and the configuration of ssh."
    return Finding("problem", host.ssh, f"it can't be reached: {reason}", advice)


def _memory_finding(name: str, description: HostDescription) -> Finding:
    versions = ", ".join(f"{package} {version}" for package, version in description.facts[0].versions.items())
    memory = f"{decimal(description.free_bytes)} of {decimal(description.total_bytes)} of memory are free"
    return Finding("ok", name, f"{versions}; {memory}")


def _compare(host: ClusterHost, names: list[str], own: list[HostFacts], there: list[HostFacts]) -> Iterator[Finding]:
    plain = [HostFacts(one[0].versions, {}) for one in (own, there)]
    if different := plain[0].find_differences(plain[1]):
        yield Finding("problem", host.ssh, "; ".join(different), "Install the same versions on all hosts.")
    for name, here, other in zip(names, own, there, strict=False):
        problems = HostFacts({}, here.files).find_differences(HostFacts({}, other.files, other.problem))
        if problems:
            advice = "Copy the model's folder, or name its place as `folders` of the host in the hostfile."
            yield Finding("problem", host.ssh, f"{name}: {'; '.join(problems)}", advice)
        else:
            yield Finding("ok", host.ssh, f"{name}: its files are those of this machine")


def _examine_links(hosts: Sequence[ClusterHost], agents: Sequence[AgentClient]) -> Iterator[Finding]:
    """Time the links of the ring, on all addresses of each host."""
    count = len(hosts)
    for number in range(count if count > 2 else 1):
        other = (number + 1) % count
        for own_ip, ip in zip(hosts[number].ips, hosts[other].ips, strict=False):
            name = f"{own_ip} to {ip}"
            try:
                port = agents[other].ask(ListenOnHost(ip), ListeningHost).port
            except HostError as error:
                advice = f"Host {other + 1} of the file must have this address" + (
                    ": it is this machine." if not other else "."
                )
                yield Finding("problem", "link", f"{ip} can't be listened on: {error}", advice)
                continue
            try:
                took = agents[number].ask(TimeLink(own_ip, ip, port), LinkTime).milliseconds
            except HostError as error:
                advice = "Look at the cable, the addresses and the firewall: the system chooses the ports of ranks."
                yield Finding("problem", "link", f"{name}: no connection ({error})", advice)
                continue
            seen = f"{name}: {took:.2f} ms there and back"
            if took > _SLOW_MILLISECONDS:
                advice = "Each token takes several such times: use cables, not Wi-Fi."
                yield Finding("warning", "link", seen, advice)
            else:
                yield Finding("ok", "link", seen)
