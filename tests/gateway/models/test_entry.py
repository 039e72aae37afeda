from typing import get_args

import pytest

from orchard.core.errors import OrchardError
from orchard.core.media import MediaKind, MediaPart
from orchard.gateway.models.entry import ModelEntry


@pytest.mark.parametrize("model_kind", ["text", "embeddings"])
def test_a_model_of_text_reads_documents_only(model_kind: str) -> None:
    parts = {kind: MediaPart(kind, "https://x.test/", f"messages[{kind}]") for kind in get_args(MediaKind)}
    here = ModelEntry("a", "/a", None, model_kind)
    here.check_media([parts["document"]])
    for kind in ("image", "audio", "video"):
        with pytest.raises(OrchardError, match=r"mlx-orchard\[vision\]") as caught:
            here.check_media([parts["document"], parts[kind]])
        assert (caught.value.kind, caught.value.param) == ("invalid_request", f"messages[{kind}]")
    ModelEntry("a", "", None, "text").check_media(parts.values())  # what it is isn't known before its download
    ModelEntry("a", "/a", None, "vision").check_media(parts.values())
