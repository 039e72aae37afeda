"""The local Hugging Face cache, as the gateway reads and changes it."""

from pathlib import Path

import pytest

from orchard.core.errors import OrchardError
from orchard.gateway.models import hub_cache


def test_a_folder_that_can_not_be_deleted_is_not_told_to_callers(tmp_path: Path) -> None:
    with pytest.raises(OrchardError, match=r"^models--org--tiny can't be deleted: No such file or directory$"):
        hub_cache.delete_repo(str(tmp_path / "models--org--tiny"))
