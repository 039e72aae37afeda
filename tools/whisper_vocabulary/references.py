"""Write the tokens of texts in OpenAI's tokenizer: `python -m tools.whisper_vocabulary.references SDIST FILE`.

It needs tiktoken, and runs `tokenizer.py` of OpenAI's package (see `tools.whisper_vocabulary.__main__`). FILE is
tests/backends/audio/vocabulary/openai.json: the script keeps its texts and writes the rest anew.
"""

import json
import random
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from tools.whisper_vocabulary.sdist import VOCABULARIES, read

_SIZES = {51_864: (False, 99), 51_865: (True, 99), 51_866: (True, 100)}
_LISTS = 20


def main(sdist: Path, file: Path) -> None:
    """Write the file: for each size of a vocabulary what becomes of the texts, and of lists of tokens."""
    texts = json.loads(file.read_text("utf-8"))["texts"]
    with tempfile.TemporaryDirectory() as folder:
        theirs = _tokenizers(sdist, Path(folder))
        found = {size: _told(theirs, texts, *about) for size, about in _SIZES.items()}
    file.write_text(json.dumps({"texts": texts, "sizes": found}, ensure_ascii=False) + "\n", "utf-8")


def _tokenizers(sdist: Path, folder: Path) -> Any:
    """Load their module, which finds the vocabularies beside its file."""
    (folder / "assets").mkdir()
    for file in VOCABULARIES.values():
        (folder / "assets" / Path(file).name).write_bytes(read(sdist, file))
    module = ModuleType("openai_tokenizer")
    module.__file__ = str(folder / "tokenizer.py")
    sys.modules[module.__name__] = module  # its dataclass looks itself up
    exec(compile(read(sdist, "whisper/tokenizer.py"), module.__file__, "exec"), vars(module))  # noqa: S102
    return module


def _told(theirs: Any, texts: Sequence[str], multilingual: bool, languages: int) -> dict[str, Any]:
    found = theirs.get_tokenizer(multilingual, num_languages=languages)
    numbers = random.Random(3)
    ends = (found.eot, found.timestamp_begin)
    lists = [[numbers.randrange(end) for _ in range(12)] for end in ends for _ in range(_LISTS)]
    special = sorted(found.special_tokens.items(), key=lambda item: item[1])
    times = ("<|0.00|>", "<|0.02|>", "<|17.34|>", "<|30.00|>")
    return {
        "encoded": [found.encode(text) for text in texts],
        "lists": lists,
        "decoded": [found.decode_with_timestamps(tokens) for tokens in lists],
        "special": {name: at for name, at in special if name in times or "." not in name},
        "non_speech": found.non_speech_tokens,
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
