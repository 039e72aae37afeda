"""Makes `tokens.json`: hashes of the tokens that llama.cpp makes of 2,000 texts with small vocabularies.

It needs an environment with llama.cpp, and Orchard's:

uv venv /tmp/record
uv pip install --python /tmp/record llama-cpp-python
.venv/bin/python -m tests.gguf_import.record /tmp/record/bin/python
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.gguf_import.texts import digest, mixed_texts
from tests.gguf_import.tiny_models import write_vocabulary_file

RECORD = Path(__file__).parent / "tokens.json"
VOCABULARIES = {
    **{pre: ("gpt2", pre, "") for pre in ("llama-bpe", "dbrx", "tekken", "qwen2", "smollm", "gpt-2", "default")},
    "scores": ("llama", "default", ""),
    "scores, phi-3": ("llama", "default", "Phi-3 mini"),
}
"""The kind of a vocabulary, how texts are split, and the model's name."""
_PROGRAM = """
import json, sys, llama_cpp
model = llama_cpp.Llama(sys.argv[1], vocab_only=True, verbose=False)
print(json.dumps([model.tokenize(text.encode(), special=True) for text in json.load(sys.stdin)]))
"""


def texts_for(name: str) -> list[str]:
    """Return the texts that a vocabulary is tried with.

    After a special token of Phi-3, llama.cpp leaves out white space in ASCII only, and the original tokenizer all.
    """
    texts = mixed_texts(2000)
    return [text for text in texts if not {"\u00a0", "\u3000"} & {*text}] if "phi-3" in name else texts


def main() -> None:
    found = {}
    for name, (kind, pre, model) in VOCABULARIES.items():
        texts = texts_for(name)
        with tempfile.TemporaryDirectory() as folder:
            file = write_vocabulary_file(Path(folder, "words.gguf"), kind, pre=pre, name=model)
            command = [sys.argv[1], "-c", _PROGRAM, str(file)]
            told = subprocess.run(command, input=json.dumps(texts), check=True, stdout=subprocess.PIPE, text=True)
        found[name] = digest(json.loads(told.stdout))
    RECORD.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
