"""Train the demo model's tokenizer, and write the small files of the model's folder.

Byte-level BPE over pieces that never mix: runs of letters (split where the case changes), single digits, runs of marks
and spaces, line ends, and everything else. A word is therefore the same tokens wherever it stands, after a space, a
quote or a bracket, which is what lets a tiny model say back words it has never seen.

    python -m demo_model.tokenizer [--seed 1] [--vocab 3072]
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

from orchard.demo import MODEL_PATH
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from demo_model.data import training_conversations
from demo_model.template import TEMPLATE, render

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
VISIBLE = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]
PIECES = (
    r"\p{N}|\p{Lu}?[\p{Ll}\p{Lt}\p{Lm}\p{Lo}\p{M}]+|\p{Lu}+(?!\p{Ll})|\p{Lu}"
    r"|[\r\n]+|[\t -/:-@\[-`{-~]+|[^\p{L}\p{N}\x00-\x7f]"
)
# A shard number that training never reaches, so that the tokenizer's text is not the model's.
SHARD = 1_000_000


def corpus(seed: int, count: int) -> Iterator[str]:
    """Yield conversations as text, without the tokens that are added by hand."""
    for conversation in training_conversations(seed, SHARD, count):
        text = "".join(part for part, _ in render(conversation.messages, conversation.tools, conversation.thinking))
        for token in (*SPECIAL, *VISIBLE):
            text = text.replace(token, "\n")
        yield text


def train(seed: int, vocab: int, count: int = 30_000) -> Tokenizer:
    """Train the tokenizer; ids 0 to 8 are the added tokens."""
    tokenizer = train_on(corpus(seed, count), vocab, [*SPECIAL, *VISIBLE])
    data = json.loads(tokenizer.to_str())
    for added in data["added_tokens"]:
        added["special"] = added["content"] in SPECIAL
    return Tokenizer.from_str(json.dumps(data))


def train_on(texts: Iterator[str], vocab: int, special: list[str]) -> Tokenizer:
    """Train a tokenizer on texts; the ids of the special tokens come first."""
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(PIECES), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        max_token_length=16, show_progress=False,
    )  # fmt: skip
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def write(tokenizer: Tokenizer, folder: Path) -> None:
    """Write the tokenizer, its settings, the chat template and the generation defaults."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    added = {
        str(index): {
            "content": token,
            "special": token in SPECIAL,
            "normalized": False,
            "lstrip": False,
            "rstrip": False,
            "single_word": False,
        }
        for index, token in enumerate((*SPECIAL, *VISIBLE))
    }
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "bos_token": None,
        "unk_token": None,
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 32768,
        "added_tokens_decoder": added,
        "chat_template": TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=1) + "\n")
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    generation = {
        "bos_token_id": None, "pad_token_id": 0, "eos_token_id": [2, 0],
        "do_sample": False, "temperature": 0.0, "max_new_tokens": 1024,
    }  # fmt: skip
    (folder / "generation_config.json").write_text(json.dumps(generation, indent=1) + "\n")


def main() -> None:
    """Train and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--vocab", type=int, default=3072)
    parser.add_argument("--out", type=Path, default=MODEL_PATH)
    arguments = parser.parse_args()
    write(train(arguments.seed, arguments.vocab), arguments.out)


if __name__ == "__main__":
    main()
