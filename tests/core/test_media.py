"""What is said of a medium that a model can't read."""

import pytest

from orchard.core.media import MediaKind, MediaPart, unreadable_error


@pytest.mark.parametrize(
    ("takes", "words"),
    [
        (None, "it takes a vision model, and the extra mlx-orchard[vision]."),
        ((), "it is a vision model that is served for text only, and the log of its load says why."),
        (("image", "video"), "besides text it takes only images and videos."),
    ],
)
def test_why_a_medium_is_not_read(takes: tuple[MediaKind, ...] | None, words: str) -> None:
    error = unreadable_error(MediaPart("audio", "", "there"), takes)
    assert (error.kind, error.param) == ("invalid_request", "there")
    assert error.message == f"Audio can't be read by this model: {words}"
