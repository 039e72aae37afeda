"""A rank on a second host, over ssh to a real sshd: what is wrong there is said before anything is read."""

import shutil
from pathlib import Path

import pytest

from orchard.backends.ranks.launch import RankLauncher
from orchard.core.errors import OrchardError
from orchard.core.tasks.text_options import TextOptions
from tests.support.processes import wait_for_end
from tests.support.ring_mixes import make_split_model
from tests.support.sshd import SSHD, SshHost, ssh_host

pytestmark = pytest.mark.skipif(not SSHD, reason="there is no sshd: it comes with openssh-server")


def refusal(folder: Path, host: SshHost, folders: dict[str, str]) -> str:
    options = TextOptions(hosts=host.write_hostfile(folders))
    with pytest.raises(OrchardError) as refused:
        RankLauncher(str(folder), options).load(options, lambda fraction: None)
    alive = wait_for_end(host.processes(), 5)
    assert not alive
    return refused.value.message


def test_a_difference_between_hosts_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_split_model(tmp_path)
    (tmp_path / "host").mkdir()
    with ssh_host(tmp_path / "host") as host:
        monkeypatch.setenv("PATH", host.path)
        reason = refusal(folder, host, {})
        assert reason.startswith("rank 1 (second) can't load its part: ")
        assert "environment/bin/python: No such file" in reason
        host.add_environment(mlx_lm="0.1.0")
        shutil.copytree(folder, host.home / "copy")
        (host.home / "copy" / "config.json").write_text("{}")
        # A shell's own files may write something first.
        (host.home / ".bashrc").write_text("echo hello from this host\n")
        reason = refusal(folder, host, {str(folder): "~/copy"})
        assert reason.startswith(
            "all ranks must have the same versions and files. rank 1 (second): it has mlx-lm 0.1.0"
        )
        assert reason.endswith("its config.json is not that of this machine")
        (tmp_path / "host" / "user.pub").write_text("")
        assert "Permission denied (publickey" in refusal(folder, host, {})
