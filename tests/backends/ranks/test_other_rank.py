"""Another rank as rank 0 sees it, where something else answers: what it sends ends its load with the reason."""

from pathlib import Path

import pytest

from orchard.backends.ranks.messages import RankHost
from orchard.backends.ranks.other_rank import OtherRank
from orchard.cluster.hostfile import ClusterHost
from orchard.cluster.remote import MARK
from orchard.core.errors import OrchardError
from tests.support.scripts import write_script

_MARK = MARK.decode().replace("\0", r"\000")


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (r"\377\377\377\377", r"what it sent is no message \(it would have 4,294,967,295 bytes\)$"),
        (r"\000\000\000\001\301", r"what it sent is no message \("),
        (r"\000\000\000\002\221\001", r"what it sent is no message \("),
        (r"\000\000\000\020\222\250progress", r"rank 1 can't load its part: its process ended$"),
        ("", "its process ended$"),
    ],
)
def test_what_is_no_message_is_said(tmp_path: Path, sent: str, reason: str) -> None:
    other = write_script(tmp_path / "python", f"printf '{_MARK}{sent}'")
    rank = OtherRank(1, ClusterHost("127.0.0.1", ("127.0.0.1",), python=other), {})
    try:
        with pytest.raises(OrchardError, match=reason):
            rank.wait_for(RankHost, 30.0, lambda: None)
    finally:
        rank.end()


def test_a_shell_that_writes_without_end_is_not_waited_for(tmp_path: Path) -> None:
    other = write_script(tmp_path / "python", "exec yes")
    rank = OtherRank(1, ClusterHost("127.0.0.1", ("127.0.0.1",), python=other), {})
    try:
        with pytest.raises(OrchardError, match="its process ended"):
            rank.wait_for(RankHost, 30.0, lambda: None)
    finally:
        rank.end()
