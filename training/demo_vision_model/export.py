"""Write the trained weights as a folder that mlx-vlm (and transformers) loads: bfloat16, by their usual names.

python -m demo_vision_model.export --run FOLDER --out FOLDER
"""

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

from demo_vision_model.card import CARD, card
from demo_vision_model.config import CONFIG, VISION
from demo_vision_model.tokenizer import FOLDER, WEIGHTS

MOST_BYTES = 8_000_000
_PATCHES = "model.visual.patch_embed.proj.weight"


def exported(weights: dict[str, Any]) -> dict[str, Any]:
    """Return weights, arrays of MLX, in bfloat16; the patches' projection becomes one of two equal frames."""
    import mlx.core as mx

    size = VISION["patch_size"]
    frame = weights[_PATCHES].reshape(-1, 3, 1, size, size) / 2
    weights = weights | {_PATCHES: mx.concatenate([frame, frame], axis=2)}
    return {name: value.astype(mx.bfloat16) for name, value in weights.items()}


def stored(folder: Path) -> int:
    """Return the bytes of a model's folder. Raise ValueError if they are too many for a package."""
    size = sum(file.stat().st_size for file in folder.iterdir() if file.is_file())
    if size > MOST_BYTES:
        raise ValueError(f"the folder has {size:,} bytes, and at most {MOST_BYTES:,} are allowed")
    return size


def main() -> None:
    """Write the weights, the configuration and the card, and fail if the folder is too big."""
    import mlx.core as mx

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, default=FOLDER, help="the folder that training wrote")
    parser.add_argument("--out", type=Path, required=True, help="the model's folder")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for small in (*arguments.run.glob("*.json"), *arguments.run.glob("*.jinja")):
        shutil.copy(small, arguments.out)
    weights: Any = mx.load(str(arguments.run / WEIGHTS))
    mx.save_safetensors(str(arguments.out / "model.safetensors"), exported(weights), {"format": "pt"})
    (arguments.out / "config.json").write_text(json.dumps(CONFIG, indent=1) + "\n")
    (arguments.out / CARD).write_text(card({}))
    print(f"{stored(arguments.out):,} bytes")


if __name__ == "__main__":
    main()
