"""The near side of an agent, with a host on which something else answers."""

from pathlib import Path

import pytest

from orchard.cluster.agent import DescribeHost, HostDescription
from orchard.cluster.agent_client import AgentClient, HostError
from orchard.cluster.hostfile import ClusterHost
from orchard.cluster.remote import MARK
from tests.support.scripts import write_script


@pytest.mark.parametrize("answer", ["{", '{"type": "unknown"}', '{"type": "time", "milliseconds": 1.0}'])
def test_what_is_no_answer_is_an_error_of_the_host(tmp_path: Path, answer: str) -> None:
    mark = MARK.decode().replace("\0", r"\000")
    other = write_script(tmp_path / "python", f"printf '{mark}'\nread line\necho '{answer}'")
    host = ClusterHost("127.0.0.1", ("127.0.0.1",), python=other)
    with AgentClient(host) as agent, pytest.raises(HostError, match="what it sent is no answer"):
        agent.ask(DescribeHost([]), HostDescription)
