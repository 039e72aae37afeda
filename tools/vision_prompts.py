"""Write the prompts that transformers makes of conversations with media, as records for tests.

`python -m tools.vision_prompts folders FOLDER`, in the project's environment, writes the processors of tiny models.
`python -m tools.vision_prompts records FOLDER`, in one with torch, torchvision and transformers 5.23 beside the
project's packages, writes tests/backends/text/prompt/vision_templates/records.json.
"""

import json
import sys
from pathlib import Path
from typing import Any

from PIL import Image
from tests.support.vision_prompts import (
    PROCESSORS,
    RECORDS,
    SIZES,
    SPECIAL_TOKENS,
    TEMPLATES,
    Said,
    kinds_of,
    served,
    text_of,
)
from tests.support.vision_prompts import conversations as conversations_of


def write_folders(folder: Path) -> None:
    """Write the folders of the tiny models of PROCESSORS."""
    from tests.support.vision_families import FAMILIES
    from tests.support.vision_models import make_vision_model

    for name in PROCESSORS:
        (folder / name).mkdir(parents=True)
        make_vision_model(folder / name, FAMILIES[name])


def rendered(processor: Any, messages: list[Said], placeholders: list[str], **variables: Any) -> str | None:
    """Return the prompt; None if the template rejects these messages or leaves out a text, a call or a medium.

    A message without media has a text first, then blocks: some templates write nothing of one or the other.
    """
    parts = [part for message in messages for part in message["content"]]
    needed = [part["text"].strip() for part in parts if part["type"] == "text"]
    needed += ["look"] if variables.get("tools") else []
    for given in ([_with_text(message) for message in messages], messages):
        try:
            text: str = processor.apply_chat_template(given, tokenize=False, add_generation_prompt=True, **variables)
        except Exception as error:  # templates raise all kinds of errors to reject messages
            print(f"  {error}")
            continue
        media = sum(part["type"] != "text" for part in parts)
        if all(one in text for one in needed) and sum(map(text.count, placeholders)) == media:
            return text
    return None


def _with_text(message: Said) -> Said:
    texts = [part.get("text") for part in message["content"]]
    return message if None in texts else message | {"content": "".join(texts)}


def records_of(folder: Path) -> dict[str, Any]:
    """Return the prompts of the public templates, and prompts with the tokens of the tiny models' processors."""
    from transformers import AutoProcessor, PreTrainedTokenizerFast

    texts: dict[str, Any] = {}
    for name, template in TEMPLATES.items():
        print(name)
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / PROCESSORS[0] / "tokenizer.json"))
        tokenizer.chat_template = text_of(template)
        tokenizer.add_special_tokens(dict(SPECIAL_TOKENS))
        texts[name] = {
            title: rendered(tokenizer, messages, list(template.tokens.values()), **variables)
            for title, messages, variables in conversations_of(template)
        }
    ids: dict[str, Any] = {}
    for name in PROCESSORS:
        processor = AutoProcessor.from_pretrained(folder / name)
        template = TEMPLATES[name]
        processor.chat_template = text_of(template)
        ids[name] = {}
        for title, messages, variables in conversations_of(template):
            prompt = rendered(processor, messages, [template.image], **variables)
            if prompt is not None and kinds_of(messages) == {"image"}:
                images = [Image.new("RGB", size) for size in SIZES[: prompt.count(template.image)]]
                tokens = processor(text=[prompt], images=images, return_tensors="pt")["input_ids"][0].tolist()
                ids[name][title] = " ".join(map(str, tokens))
    return {"texts": texts, "ids": ids}


if __name__ == "__main__":
    what, where = sys.argv[1], Path(sys.argv[2])
    if what == "folders":
        write_folders(where)
    else:
        print("without a public template:", ", ".join(served()[1]))
        RECORDS.write_text(json.dumps(records_of(where), indent=1, ensure_ascii=False) + "\n", "utf-8")
