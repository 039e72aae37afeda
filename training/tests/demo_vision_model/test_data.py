"""What training reads: conversations, their text and tokens, and batches."""

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import jinja2
import numpy as np
import pytest
from orchard.demo import VISION_MODEL_PATH

from demo_model.text import Split
from demo_vision_model import batches, questions, template, tokenizer
from demo_vision_model.config import CONFIG
from demo_vision_model.data import Conversation, about_pictures, without_pictures
from demo_vision_model.pictures import FACTOR, fitted
from demo_vision_model.scenes import COLOURS, PLACES, SHAPES


def conversation(seed: int, split: Split = "train") -> Conversation:
    rng = Random(f"{split}:{seed}")
    sizes = [(128, 128)] * (seed % 3)
    if not sizes:
        return without_pictures(rng, split, 4)
    return about_pictures(rng, split, batches.scenes_for(rng, split, sizes), 4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small files that training writes, of a tokenizer that has read less."""
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer.write(tokenizer.train(1, CONFIG["vocab_size"], 500), folder)
    return folder


def test_the_bundled_folder_has_this_template() -> None:
    assert (VISION_MODEL_PATH / "chat_template.jinja").read_text() == template.TEMPLATE


def test_a_seed_fixes_a_conversation() -> None:
    assert [conversation(seed) for seed in range(30)] == [conversation(seed) for seed in range(30)]
    assert conversation(1) != conversation(4)


def test_pictures_are_shown_before_they_are_asked_about() -> None:
    for seed in range(45):
        made = conversation(seed)
        shown = 0
        answers = iter(made.kinds)
        for message in made.messages:
            if message["role"] == "user" and isinstance(message["content"], list):
                shown += sum(part["type"] == "image" for part in message["content"])
            elif message["role"] == "assistant":
                assert shown >= {"text": 0, "one of two": 2, "which": 2, "apart": 2}.get(next(answers), 1)
        assert shown == len(made.scenes) == seed % 3
        assert next(answers, None) is None


def test_only_training_is_asked_with_words_out_of_place_and_none_that_tell_what_is_meant() -> None:
    telling = re.compile(r"circles?|squares?|red|blue|where|how many|differ", re.I)
    changed = 0
    for text in (
        "Where is my red circle, friend?",
        "Please tell me how many squares there are.",
        "How do they differ, then?",
    ):
        for seed in range(20):
            other = questions.disturbed(Random(seed), text)
            assert telling.findall(other) == telling.findall(text)
            changed += other != text
    assert changed > 50
    assert questions.disturbed(Random(1), "What colour?") == "What colour?"


def test_the_rendering_is_the_template() -> None:
    # As transformers renders it.
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True, autoescape=False)  # noqa: S701 - no HTML
    written = environment.from_string(template.TEMPLATE)
    for seed in range(40):
        messages = conversation(seed).messages
        ours = "".join(part for part, _ in template.render(messages))
        assert written.render(messages=messages) == ours
        begun = written.render(messages=messages[:-1], add_generation_prompt=True)
        assert ours.removeprefix(begun) == f"{messages[-1]['content']}<|im_end|>\n"


def test_what_is_learnt_is_what_the_assistant_writes() -> None:
    for seed in range(20):
        messages = conversation(seed).messages
        learnt = [part for part, learn in template.render(messages) if learn]
        assert learnt == [f"{m['content']}<|im_end|>" for m in messages if m["role"] == "assistant"]


def test_every_answer_takes_few_tokens(folder: Path) -> None:
    words = batches.tokenizer(folder)
    for name in (*COLOURS, *SHAPES, *(word for place in PLACES for word in place.split())):
        assert len(words.encode(name).ids) == 1, name
    splits: tuple[Split, ...] = ("train", "seen", "held")
    for seed in range(45):
        made = conversation(seed, splits[seed // 3 % 3])
        for kind, message in zip(made.kinds, (m for m in made.messages if m["role"] == "assistant"), strict=True):
            ids = words.encode(message["content"]).ids
            assert words.decode(ids) == message["content"]
            if kind != "text":
                # A word is a token, and so are a space and a mark.
                assert len(ids) <= len(re.findall(r"\w+|\W", message["content"])), message


def test_the_configuration_is_the_tokenizers(folder: Path) -> None:
    words = batches.tokenizer(folder)
    assert words.get_vocab_size() <= CONFIG["vocab_size"]
    assert words.token_to_id("<|im_end|>") == CONFIG["eos_token_id"][0] == CONFIG["text_config"]["eos_token_id"]
    for key, token in (
        ("vision_start_token_id", template.START), ("vision_end_token_id", template.END),
        ("image_token_id", template.PAD), ("video_token_id", template.VIDEO),
    ):  # fmt: skip
        assert words.token_to_id(token) == CONFIG[key]
    vision = CONFIG["vision_config"]
    for name in ("preprocessor_config.json", "video_preprocessor_config.json"):
        settings: dict[str, Any] = json.loads((folder / name).read_text())
        assert settings["patch_size"] * settings["merge_size"] == FACTOR
        assert (settings["patch_size"], settings["merge_size"]) == (vision["patch_size"], vision["spatial_merge_size"])


def test_a_batch_is_the_same_for_the_same_seed(folder: Path) -> None:
    one, same, other = (batches.make(folder, "test", number, 6) for number in (5, 5, 6))
    assert np.array_equal(one.tokens, same.tokens)
    assert one.kinds == same.kinds
    assert all(np.array_equal(a, b) for a, b in zip(one.pictures, same.pictures, strict=True))
    assert not np.array_equal(one.tokens, other.tokens)


def test_a_batch_has_places_for_its_pictures_and_answers_to_learn(folder: Path) -> None:
    numbers = set()
    for number in (0, 1, 2, 3, 35):
        batch = batches.make(folder, "places", number, 2)
        numbers.add(len(batch.pictures))
        places = [picture[0, :, :, 0].size // FACTOR**2 for picture in batch.pictures]
        for row, kinds in zip(batch.tokens, batch.kinds, strict=True):
            pads = int((row == CONFIG["image_token_id"]).sum())
            # A long row is cut, so that a second picture which comes late may be missing.
            assert sum(places[:1]) <= pads <= sum(places)
            end = CONFIG["eos_token_id"][0] | batches.LEARN
            assert (row == end).sum() == len(kinds)
            # A row of text may begin with a question that is too long.
            assert row[row != 0][-1] == end or not (places or kinds)
            assert not row[0] & batches.LEARN
    assert numbers == {0, 1, 2}


def test_pictures_of_every_grid_are_trained() -> None:
    sizes = [(short, round(short * ratio / 20)) for short in (90, 130, 260, 500) for ratio in range(20, 41)]
    made = {tuple(side // FACTOR for side in fitted(*size)) for wide in sizes for size in (wide, wide[::-1])}
    assert made <= set(batches.GRIDS)
    for grid in batches.GRIDS:
        size = batches.size_for(Random(str(grid)), grid)
        assert fitted(*size) == (grid[0] * FACTOR, grid[1] * FACTOR)


def test_processes_make_the_batches_that_the_seed_fixes(folder: Path) -> None:
    source = batches.batches(folder, 3, 2, workers=2)
    for number in range(3):
        batch, expected = next(source), batches.make(folder, "train:3", number, 2)
        assert np.array_equal(batch.tokens, expected.tokens)
        assert all(np.array_equal(a, b) for a, b in zip(batch.pictures, expected.pictures, strict=True))
