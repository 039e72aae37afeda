"""M-RoPE's positions: mlx-vlm's own against the papers'."""

import importlib
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.support.mrope import Grid, Words, reference_positions

MERGE = 2
START, END, IMAGE, VIDEO = 101, 102, 103, 104


@dataclass(frozen=True)
class Picture:
    rows: int
    columns: int


@dataclass(frozen=True)
class Film:
    groups: int
    rows: int
    columns: int
    seconds: Fraction  # that a group of frames lasts


Part = int | Picture | Film  # so many tokens of text

sides = st.integers(1, 5)
pictures = st.builds(Picture, sides, sides)
films = st.builds(Film, st.integers(1, 4), sides, sides, st.sampled_from([Fraction(1, 2), Fraction(1), Fraction(2)]))
texts = st.integers(1, 6)


class Prompt:
    """A prompt's tokens and grids, as the family's processor gives them, and its parts for the reference.

    `stamped`: films have the time of each group of frames before it, as text. `rate`: numbers of time in a second.
    """

    def __init__(self, parts: list[Part], stamped: bool, rate: int | None = None) -> None:
        self.tokens: list[int] = []
        self.parts: list[Words | Grid] = []
        self.images: list[list[int]] = []
        self.videos: list[list[int]] = []
        for part in parts:
            if isinstance(part, int):
                self._write([7] * part)
            elif isinstance(part, Picture):
                self.images.append([1, part.rows * MERGE, part.columns * MERGE])
                self._look(IMAGE, Grid(part.rows, part.columns))
            else:
                self.videos.append([part.groups, part.rows * MERGE, part.columns * MERGE])
                self._watch(part, stamped, part.seconds * rate if rate else Fraction(1))

    def _write(self, tokens: list[int]) -> None:
        self.tokens += tokens
        self.parts.append(Words(len(tokens)))

    def _look(self, token: int, grid: Grid) -> None:
        self._write([START])
        self.tokens += [token] * (grid.groups * grid.rows * grid.columns)
        self.parts.append(grid)
        self._write([END])

    def _watch(self, film: Film, stamped: bool, step: Fraction) -> None:
        if not stamped:
            self._look(VIDEO, Grid(film.rows, film.columns, film.groups, step))
            return
        for _ in range(film.groups):
            self._write([8, 8, 8])
            self._look(VIDEO, Grid(film.rows, film.columns))


def mlx_vlm_positions(family: str, prompt: Prompt) -> tuple[NDArray[np.int64], int]:
    config: Any = SimpleNamespace(
        vision_config=SimpleNamespace(spatial_merge_size=MERGE, tokens_per_second=2),
        image_token_id=IMAGE,
        video_token_id=VIDEO,
        vision_start_token_id=START,
    )
    language = importlib.import_module(f"mlx_vlm.models.{family}.language").LanguageModel
    model = language.__new__(language)  # it needs no weights
    model.config = config
    positions, delta = model.get_rope_index(
        mx.array([prompt.tokens]),
        mx.array(prompt.images) if prompt.images else None,
        mx.array(prompt.videos) if prompt.videos else None,
    )
    numbers = np.array(positions)
    if family == "ernie4_5_moe_vl":  # gives (rows, n, 3)
        numbers = numbers.transpose(2, 0, 1)
    one_row = np.broadcast_to(numbers, (3, 1, len(prompt.tokens)))[:, 0]
    return one_row, int(np.array(delta).item())


def agree(family: str, prompt: Prompt) -> bool:
    """Compare mlx-vlm's numbers with the reference's."""
    positions, delta = mlx_vlm_positions(family, prompt)
    right, right_delta = reference_positions(prompt.parts)
    return np.array_equal(positions, right) and delta == right_delta


def test_the_reference_counts_a_film_and_the_text_after_it() -> None:
    positions, delta = reference_positions([Grid(2, 3, groups=2), Words(2)])
    assert positions.T.tolist() == [
        [0, 0, 0], [0, 0, 1], [0, 0, 2], [0, 1, 0], [0, 1, 1], [0, 1, 2],
        [1, 0, 0], [1, 0, 1], [1, 0, 2], [1, 1, 0], [1, 1, 1], [1, 1, 2],
        [3, 3, 3], [4, 4, 4],
    ]  # fmt: skip
    assert delta == 5 - 14


def test_the_reference_numbers_groups_by_their_seconds() -> None:
    """With 25 numbers a second, groups of two frames at one frame a second are 50 apart, as Qwen2.5-VL's are."""
    positions, _ = reference_positions([Words(1), Grid(1, 1, groups=3, step=Fraction(50)), Words(1)])
    assert positions[0].tolist() == [0, 1, 51, 101, 102]
    assert positions[1].tolist() == [0, 1, 1, 1, 102]


STAMPED = ["qwen3_vl", "qwen3_vl_moe", "qwen3_5"]
OTHERS = [
    "qwen2_vl",
    "qwen2_5_vl",
    "qwen3_omni_moe",
    "glm4v",
    "glm4v_moe",
    "glm_ocr",
    "paddleocr_vl",
    "ernie4_5_moe_vl",
]


@pytest.mark.parametrize("family", STAMPED + OTHERS)
@given(st.lists(texts | pictures, min_size=1, max_size=6))
def test_mlx_vlm_numbers_texts_and_pictures_as_the_papers_do(family: str, parts: list[Part]) -> None:
    assert agree(family, Prompt(parts, stamped=False))


@pytest.mark.parametrize("family", STAMPED)
@given(st.lists(texts | pictures | films, min_size=1, max_size=5))
def test_mlx_vlm_numbers_films_with_times_as_text_as_the_paper_does(family: str, parts: list[Part]) -> None:
    assert agree(family, Prompt(parts, stamped=True))


@given(st.lists(texts | pictures | films, min_size=1, max_size=5))
def test_mlx_vlm_numbers_films_whose_groups_are_counted_as_the_paper_does(parts: list[Part]) -> None:
    assert agree("qwen2_vl", Prompt(parts, stamped=False))


@pytest.mark.parametrize(("family", "rate"), [("qwen2_5_vl", 2), ("qwen3_omni_moe", 13)])
def test_mlx_vlm_counts_groups_where_the_papers_count_seconds(family: str, rate: int) -> None:
    """So the backend must number films of these families itself. When mlx-vlm does it, nobody needs this test."""
    film = Prompt([2, Film(3, 2, 2, Fraction(1)), 1], stamped=False, rate=rate)
    (right, *_), (counted, *_) = reference_positions(film.parts)[0], mlx_vlm_positions(family, film)[0]
    assert right[3::4].tolist() == [3, 3 + rate, 3 + 2 * rate, 4 + 2 * rate]
    assert counted[3::4].tolist() == [3, 4, 5, 6]
