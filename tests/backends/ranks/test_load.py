"""What the load of a part of a model takes."""

from pathlib import Path

import mlx.core as mx
from mlx import nn

from orchard.backends.model_folder import evaluate_weights

_ROWS, _PARTS, _LAYERS = 2**14, 8, 512  # sixteen tensors in each group of an ordinary load


class Part(nn.Module):  # type: ignore[misc]
    """The first part of each of many tensors in a file."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        whole = mx.load(str(file))
        assert isinstance(whole, dict)
        self.layers = [mx.contiguous(array[: _ROWS // _PARTS]) for _, array in sorted(whole.items())]


def peak(file: Path, *, splits: bool) -> int:
    part, before = Part(file), mx.get_active_memory()
    mx.reset_peak_memory()
    shares: list[float] = []
    evaluate_weights(file.parent, part, shares.append, "mlx-lm", splits=splits)
    assert shares[-1] == 1.0
    assert [array[0].item() for array in part.layers] == list(range(_LAYERS))
    return mx.get_peak_memory() - before


def test_whole_tensors_are_read_one_after_the_other(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    mx.save_safetensors(str(file), {f"{number:03}": mx.full((_ROWS,), number) for number in range(_LAYERS)})
    whole = _ROWS * mx.float32.size
    few = _LAYERS * whole // _PARTS + 2.5 * whole  # two, and something for what other tests have left
    assert peak(file, splits=True) <= few < peak(file, splits=False)
