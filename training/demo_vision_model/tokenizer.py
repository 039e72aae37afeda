"""Train the vision model's tokenizer, a small version of the text model's, and write the small files of its folder.

python -m demo_vision_model.tokenizer [--seed 1] [--vocab 1024]
"""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tokenizers import Tokenizer

from demo_model.tokenizer import train_on
from demo_vision_model.data import about_pictures, without_pictures
from demo_vision_model.pictures import LEAST_PIXELS, MOST_PIXELS
from demo_vision_model.scenes import scene
from demo_vision_model.template import END, PAD, START, TEMPLATE, VIDEO, render

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", START, END, PAD, VIDEO]
# Where training writes, and the name of what it writes there.
FOLDER = Path("demo-vision")
WEIGHTS = "weights.safetensors"


def corpus(seed: int, count: int) -> Iterator[str]:
    """Yield conversations as text, without the tokens that are added by hand."""
    rng = Random(f"tokenizer:{seed}")
    for _ in range(count):
        scenes = [scene(rng, "train", rng.randint(1, 5)) for _ in range(rng.randint(1, 2))]
        made = about_pictures(rng, "train", scenes, 4) if rng.random() < 0.8 else without_pictures(rng, "train", 3)
        # Answers count three times, so that the few words which they consist of become tokens.
        text = "".join(part * (3 if learn else 1) for part, learn in render(made.messages))
        for token in SPECIAL:
            text = text.replace(token, "\n")
        yield text


def train(seed: int, vocab: int, count: int = 6000) -> Tokenizer:
    """Train the tokenizer; the ids of the added tokens come first."""
    return train_on(corpus(seed, count), vocab, SPECIAL)


def write(tokenizer: Tokenizer, folder: Path) -> None:
    """Write the tokenizer, its settings, the chat template, the processor's settings and the generation defaults."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    plain = {"special": True, "normalized": False, "lstrip": False, "rstrip": False, "single_word": False}
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "processor_class": "Qwen3VLProcessor",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "bos_token": None,
        "unk_token": None,
        "image_token": PAD,
        "video_token": VIDEO,
        "vision_bos_token": START,
        "vision_eos_token": END,
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "model_max_length": 32768,
        "added_tokens_decoder": {str(index): {"content": token, **plain} for index, token in enumerate(SPECIAL)},
        "chat_template": TEMPLATE,
    }
    pictures = {
        "processor_class": "Qwen3VLProcessor",
        "image_processor_type": "Qwen2VLImageProcessorFast",
        "patch_size": 8,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
        "size": {"shortest_edge": LEAST_PIXELS, "longest_edge": MOST_PIXELS},
    }
    ends = {"pad_token_id": 0, "eos_token_id": [2, 0]}
    generation = {**ends, "do_sample": False, "temperature": 0.0, "max_new_tokens": 256}
    videos = {**pictures, "video_processor_type": "Qwen3VLVideoProcessor"}
    del videos["image_processor_type"]
    for name, data in (
        ("tokenizer_config.json", settings),
        ("preprocessor_config.json", pictures),
        ("video_preprocessor_config.json", videos),
        ("generation_config.json", generation),
    ):
        (folder / name).write_text(json.dumps(data, indent=1) + "\n")
    (folder / "chat_template.jinja").write_text(TEMPLATE)


def main() -> None:
    """Train and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--vocab", type=int, default=1024)
    parser.add_argument("--out", type=Path, default=FOLDER)
    arguments = parser.parse_args()
    write(train(arguments.seed, arguments.vocab), arguments.out)


if __name__ == "__main__":
    main()
