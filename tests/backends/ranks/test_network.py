"""A host that leaves the network while it computes: its cable is cut, so that nobody is told."""

import shutil
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.backends.ranks.test_failure import group, split, stream, task
from tests.support.processes import wait_for_end
from tests.support.ring_mixes import make_split_model
from tests.support.sshd import SSHD, network_namespace, ssh_host

_PATIENCE = 60.0
_SECONDS = 5.0


@pytest.mark.deep
@pytest.mark.timeout(300)
@pytest.mark.skipif(not SSHD, reason="there is no sshd: it comes with openssh-server")
def test_both_sides_of_a_link_that_is_cut_end(tmp_path: Path) -> None:
    watchdog = 45.0
    with network_namespace() as network:
        if not network:
            pytest.skip("this user may make no network namespaces")
        (tmp_path / "host").mkdir()
        with ssh_host(tmp_path / "host", network) as host:
            folder = make_split_model(tmp_path)
            host.add_environment()
            shutil.copytree(folder, host.home / "models" / "copy")
            with split(folder, host, watchdog_timeout=watchdog) as server, ThreadPoolExecutor(2) as callers:
                for is_idle in (False, True):
                    processes = group(server, host)
                    begun: list[Future[None]] = [Future(), Future()]
                    errors = [callers.submit(stream, server, folder, one) for one in begun if not is_idle]
                    for one in begun[: len(errors)]:
                        one.result(_PATIENCE)
                    network.link("down")
                    since = time.monotonic()
                    assert [one.result(_PATIENCE) for one in errors] == ["worker_crashed"] * len(errors)
                    alive = wait_for_end(processes.values(), watchdog + _SECONDS)
                    assert not alive
                    assert time.monotonic() - since < watchdog + _SECONDS
                    network.link("up")
                    body = task(folder, max_tokens=20)
                    until = time.monotonic() + _PATIENCE
                    # Loads that have failed meanwhile are not repeated before somebody asks for the model.
                    while (whole := httpx.post(f"{server.url}/v1/completions", json=body, timeout=_PATIENCE)).is_error:
                        assert time.monotonic() < until, whole.text
                        time.sleep(0.5)
                    assert whole.json()["usage"]["completion_tokens"] == 20
