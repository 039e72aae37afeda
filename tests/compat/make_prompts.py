"""Writes the folders of cached prompts: `python -m tests.compat.make_prompts`."""

import os
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

from tests.compat.bridge import FIXTURES, write
from tests.compat.engines import engine, make_model

_WORDS = 300
# A model's kind and its options, by the folder's name: full attention, a sliding window, a recurrent state.
_FOLDERS: dict[str, tuple[str, dict[str, Any]]] = {
    "full-attention": ("qwen3", {}),
    "quantized": ("qwen3", {"kv_bits": 8, "kv_group_size": 32}),
    "sliding-window": ("gemma3_text", {}),
    "recurrent": ("lfm2", {}),
}


def main() -> None:
    """Write the folders, and what is in them."""
    rng = random.Random(1)
    written = {name: _make(name, rng, *of) for name, of in _FOLDERS.items()}
    write("prompts.json", written)


def _make(name: str, rng: random.Random, kind: str, options: dict[str, Any]) -> dict[str, Any]:
    prompt, other = ([rng.randrange(_WORDS) for _ in range(length)] for length in (24, 6))
    folder = FIXTURES / "prompts" / name
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        base, copy = Path(scratch), Path(scratch) / "copy"
        os.environ["ORCHARD_CACHE_DIR"] = scratch
        config = make_model(base, kind)
        with engine(base, kind, prompt_cache_dir=str(folder), **options) as writing:
            answer = writing.ask(prompt, 4, (18,)).tokens
        for lock in folder.rglob(".lock"):
            lock.unlink()
        shutil.copytree(folder, copy)
        asked = [[*prompt[:18], *other], prompt, [*prompt, *answer, *other]]
        with engine(base, kind, prompt_cache_dir=str(copy), **options) as reading:
            cached = [reading.ask(tokens, 8).cached for tokens in asked]
    about = {"kind": kind, "options": options, "prompt": prompt, "boundaries": [18], "answer": answer, "other": other}
    return about | {"cached": cached, "config": config}


if __name__ == "__main__":
    main()
