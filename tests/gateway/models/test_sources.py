"""Where models are, and how they are deleted."""

from pathlib import Path

import pytest

from orchard.core.errors import OrchardError
from orchard.gateway.models import sources


def test_a_folder_that_can_not_be_deleted_is_not_told_to_callers(tmp_path: Path) -> None:
    with pytest.raises(OrchardError, match=r"^models--org--tiny can't be deleted: No such file or directory$"):
        sources.delete_folder(str(tmp_path / "models--org--tiny"))
