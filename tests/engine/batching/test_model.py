"""Embedded prompts: what of them a pass takes."""

import mlx.core as mx
import pytest

from orchard.engine.batching.model import Piece, PlacedRows, PromptEmbeddings, SlicedArray, cuda_kernel


def test_a_piece_has_the_rows_of_its_own_tokens() -> None:
    given = PromptEmbeddings(
        start=10,
        embeddings=mx.arange(12).reshape(1, 6, 2),
        positions=mx.arange(18).reshape(3, 1, 6),
        extras={
            "types": SlicedArray(mx.arange(6)[None]),
            "inputs": SlicedArray(mx.arange(12).reshape(2, 1, 6), axis=2),
            "deepstack": PlacedRows([mx.arange(3)[:, None], mx.arange(3, 6)[:, None]], [1, 2, 4]),
        },
    )
    assert given.stop == 16
    piece = given.cut(12, 15)
    assert piece.embeddings is not None
    assert piece.embeddings.tolist() == [[[4, 5], [6, 7], [8, 9]]]
    assert piece.positions is not None
    assert piece.positions.tolist() == [[[2, 3, 4]], [[8, 9, 10]], [[14, 15, 16]]]
    assert piece.extras is not None
    assert piece.extras["types"].tolist() == [[2, 3, 4]]
    assert piece.extras["inputs"].tolist() == [[[2, 3, 4]], [[8, 9, 10]]]
    assert [rows.tolist() for rows in piece.extras["deepstack"]] == [[[1], [2]], [[4], [5]]]
    assert "deepstack" not in (given.cut(15, 16).extras or {})


def test_what_was_not_given_is_not_in_a_piece() -> None:
    assert PromptEmbeddings(3, position_delta=7).cut(4, 9) == Piece()
    assert PromptEmbeddings(3).stop is None


def test_kernels_of_other_sources_have_other_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mx.fast, "cuda_kernel", lambda name, *given: name)
    names = [
        cuda_kernel("join", ["a"], ["b"], source, header) for source in ("b = a;", "b = -a;") for header in ("", "//")
    ]
    assert len({*names, cuda_kernel("join", ["a"], ["b"], "b = a;")}) == 4
    assert all(name.startswith("join_") for name in names)
