import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from orchard.core.errors import OrchardError
from orchard.gateway import kept_images
from orchard.gateway.kept_images import KeptImages


def _is_kept(images: KeptImages, name: str) -> bool:
    try:
        return bool(images.find(name))
    except OrchardError:
        return False


async def test_an_image_is_found_by_its_name_alone() -> None:
    images = KeptImages()
    names = [images.keep(b"a", "png"), images.keep(b"b", "webp")]
    assert [images.find(name).data for name in names] == [b"a", b"b"]
    assert [images.find(name).media_type for name in names] == ["image/png", "image/webp"]
    assert len(set(names)) == 2
    assert all(len(name.partition(".")[0]) * 6 >= 128 for name in names)
    assert not _is_kept(images, names[0].removesuffix(".png"))


async def test_the_oldest_go_where_all_would_take_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_images, "MOST_BYTES", 10)
    images = KeptImages()
    names = [images.keep(bytes(4), "png") for _ in range(5)]
    assert [_is_kept(images, name) for name in names] == [False, False, False, True, True]
    larger = images.keep(bytes(7), "png")
    assert [_is_kept(images, name) for name in (*names, larger)] == [False] * 5 + [True]
    assert images._bytes == 7


async def test_an_image_goes_after_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    timers: list[tuple[float, Callable[[], None]]] = []

    def call_later(delay: float, call: Callable[..., None], *args: str) -> None:
        timers.append((delay, partial(call, *args)))

    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", call_later)
    images = KeptImages()
    names = [images.keep(bytes(size), "png") for size in (1, 2)]
    (delay, drop), _ = timers
    drop()
    assert delay == 3600
    assert [_is_kept(images, name) for name in names] == [False, True]
    assert images._bytes == 2
    with pytest.raises(OrchardError, match="for 60 minutes at most") as caught:
        images.find(names[0])
    assert caught.value.kind == "not_found"
