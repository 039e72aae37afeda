"""Write Whisper's vocabularies and their licence: `python -m tools.whisper_vocabulary SDIST OUT_FOLDER`.

SDIST is OpenAI's own package, as `pip download --no-deps --no-binary openai-whisper openai-whisper==20250625` fetches
it. OUT_FOLDER is src/orchard/backends/audio/vocabulary.
"""

import sys
from pathlib import Path

import numpy as np

from tools.whisper_vocabulary.merges import merges, words
from tools.whisper_vocabulary.sdist import VOCABULARIES, read


def write(sdist: Path, out: Path) -> None:
    """Write `merges.npz` and `LICENSE` into a folder."""
    found = {name: np.array(merges(words(read(sdist, file))), np.uint16) for name, file in VOCABULARIES.items()}
    np.savez_compressed(out / "merges.npz", allow_pickle=False, **found)
    (out / "LICENSE").write_bytes(read(sdist, "LICENSE"))


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
