"""Write the trained weights as a folder that mlx-audio loads: float16, with the tokenizer.

python -m demo_whisper_model.export --run FOLDER --out FOLDER
"""

import argparse
import json
from pathlib import Path
from typing import Any

from demo_whisper_model import tokenizer
from demo_whisper_model.card import CARD, card
from demo_whisper_model.config import CONFIG, GENERATION, PREPROCESSOR

MOST_BYTES = 7_000_000


def exported(weights: dict[str, Any]) -> dict[str, Any]:
    """Return weights, arrays of MLX, in float16; those of convolutions get MLX's order of axes."""
    import mlx.core as mx

    turned = {name: value.transpose(0, 2, 1) if value.ndim == 3 else value for name, value in weights.items()}
    return {name: value.astype(mx.float16) for name, value in turned.items()}


def stored(folder: Path) -> int:
    """Return the bytes of a model's folder. Raise ValueError if they are too many for a package."""
    size = sum(file.stat().st_size for file in folder.iterdir() if file.is_file())
    if size > MOST_BYTES:
        raise ValueError(f"the folder has {size:,} bytes, and at most {MOST_BYTES:,} are allowed")
    return size


def write(weights: dict[str, Any], folder: Path) -> None:
    """Write a model's folder; `weights` are those of training, as arrays of MLX."""
    import mlx.core as mx

    tokenizer.write(folder)
    mx.save_safetensors(str(folder / "model.safetensors"), exported(weights), {"format": "mlx"})
    files = {"config.json": CONFIG, "generation_config.json": GENERATION, "preprocessor_config.json": PREPROCESSOR}
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content) + "\n")
    (folder / CARD).write_text(card({}))


def main() -> None:
    """Write the folder, and fail if it is too big."""
    import mlx.core as mx

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True, help="the folder that training wrote")
    parser.add_argument("--out", type=Path, required=True, help="the model's folder")
    arguments = parser.parse_args()
    weights: Any = mx.load(str(arguments.run / "weights.safetensors"))
    write(weights, arguments.out)
    print(f"{stored(arguments.out):,} bytes")


if __name__ == "__main__":
    main()
