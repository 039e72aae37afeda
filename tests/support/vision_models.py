"""Folders of tiny models that look at pictures, hear sounds and watch films: random weights, in mlx-vlm's format."""

import importlib
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest
from mlx import nn
from mlx.utils import tree_flatten
from tokenizers import AddedToken, Tokenizer

from orchard.backends.vision.model import attends_both_ways, install_block_masks
from tests.support.models import SPECIAL, TEMPLATE, make_tokenizer
from tests.support.vision_families import FAMILIES, VisionFamily

# Media stand where the message has them, as what the family's processor expands.
_CONTENT = """}}
{%- if m.content is string %}{{ m.content }}{% else %}{% for part in m.content %}
{%- if part.type == 'image' %}{{ IMAGE }}{% elif part.type == 'audio' %}{{ AUDIO }}
{%- elif part.type == 'video' %}{{ VIDEO }}{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}"""


def make_vision_model(folder: Path, family: VisionFamily, *, vocabulary: int = 0, bits: int = 0) -> None:
    """Write a model whose greedy answers depend on all of their context and on each picture's pixels.

    `vocabulary`: how many tokens it has at least. `bits`: its text layers are quantised so, and the rest is bfloat16;
    then all weights are as mlx-vlm initialises them.
    """
    tokenizer = make_tokenizer(vocabulary - len(family.tokens))
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in family.tokens])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = _with_ids(family.config | {"eos_token_id": "<|im_end|>"}, tokenizer)
    module = importlib.import_module(f"mlx_vlm.models.{config['model_type']}")
    mx.random.seed(3)
    network = module.Model(model_config(module, json.loads(json.dumps(config))))
    if bits:
        config["quantization"] = {"group_size": 64, "bits": bits}
        network.set_dtype(mx.bfloat16)
        nn.quantize(network, **config["quantization"], class_predicate=_is_quantized)
    weights: dict[str, mx.array] = dict(tree_flatten(network.parameters()))
    if not bits:
        gains = family.gains | _GAINS | family.gains  # the family's come first, and override
        weights = {name: random_weight(name, weight, gains) for name, weight in weights.items()}
    mx.save_safetensors(str(folder / "model.safetensors"), weights)
    for file, content in {"config.json": config, **family.files}.items():
        (folder / file).write_text(json.dumps(content))
    (folder / "chat_template.jinja").write_text(_template(family))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "pad_token": SPECIAL[0],
        "clean_up_tokenization_spaces": False,
        "chat_template": _template(family),
        **family.tokenizer,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


@pytest.fixture(scope="session")
def vision_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Give the folder of one of FAMILIES, which no test writes to."""

    def make(name: str) -> Path:
        folder = tmp_path_factory.getbasetemp() / f"tiny-{name}"
        if not folder.exists():
            folder.mkdir()
            make_vision_model(folder, FAMILIES[name])
        return folder

    return make


def prompt(processor: Any, *kinds: str, text: str = "What is blue?") -> str:
    """Render a message of media ("image", "audio", "video") and a question."""
    content = [*({"type": kind} for kind in kinds), {"type": "text", "text": text}]
    rendered: str = processor.tokenizer.apply_chat_template(
        [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
    )
    return rendered


class _TakesPadding:
    """An image processor that is not told of `padding`: transformers 5 refuses it, mlx-vlm 0.7.10 gives it to all."""

    def __init__(self, image_processor: Any) -> None:
        self.__dict__["_image_processor"] = image_processor

    def __call__(self, images: Any, padding: Any = None, **options: Any) -> Any:
        return self._image_processor(images, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._image_processor, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._image_processor, name, value)


def load_reference(folder: Path, adapter_path: str | None = None) -> tuple[Any, Any]:
    """Load a folder's model and processor with mlx-vlm, so that its own `generate` works."""
    import mlx_vlm

    model, processor = mlx_vlm.load(str(folder), adapter_path=adapter_path)
    model.eval()  # nothing of an adapter is dropped out
    if attends_both_ways(model.language_model):
        install_block_masks(model)  # as transformers does, unlike mlx-vlm 0.7.10
    if hasattr(processor, "image_processor"):
        processor.image_processor = _TakesPadding(processor.image_processor)
    return model, processor


def logprobs_of(model: Any, processor: Any, text: str, **media: list[Any]) -> mx.array:
    """Return mlx-vlm's own log-probabilities (vocab_size,) after a text with `images`, `audio` and `videos`."""
    from mlx_vlm.generate import generate_step
    from mlx_vlm.utils import prepare_inputs

    inputs = prepare_inputs(processor, prompts=text, **media)
    prompt = [inputs.pop(name, None) for name in ("input_ids", "pixel_values", "attention_mask")]
    logprobs: mx.array = next(generate_step(prompt[0], model, *prompt[1:], max_tokens=1, temperature=0.0, **inputs))[1]
    return logprobs


def model_config(module: Any, config: dict[str, Any]) -> Any:
    """Read a configuration as mlx_vlm.utils.load_model does."""
    for part in ("text", "vision", "audio"):
        config.setdefault(f"{part}_config", {})
    read = module.ModelConfig.from_dict(config)
    for part in ("text", "vision", "audio", "perceiver", "projector"):
        given = config.get(f"{part}_config")
        if given is not None and hasattr(read, f"{part}_config"):
            setattr(read, f"{part}_config", getattr(module, f"{part.title()}Config").from_dict(given))
    return read


def _is_quantized(name: str, layer: nn.Module) -> bool:
    return hasattr(layer, "to_quantized") and "language_model" in name and layer.weight.shape[-1] % 64 == 0


def _with_ids(value: Any, tokenizer: Tokenizer) -> Any:
    if isinstance(value, dict):
        return {key: _with_ids(one, tokenizer) for key, one in value.items()}
    if isinstance(value, str):
        if value == "VOCABULARY":
            return tokenizer.get_vocab_size()
        number = tokenizer.token_to_id(value) if value.startswith(("<", "[", "]")) else None
        return value if number is None else number
    return value


def _template(family: VisionFamily) -> str:
    written = TEMPLATE.replace(" + m.content }}", _CONTENT)
    for name, text in (("IMAGE", family.image), ("AUDIO", family.audio), ("VIDEO", family.video)):
        written = written.replace(name, json.dumps(text))
    return written


_GAINS = {
    "embed_tokens": 4.0,
    "lm_head": 4.0,
    "o_proj": 2.0,
    "out_proj": 2.0,
    "down_proj": 2.0,
    "linear_fc2": 8.0,
    "multi_modal_projector": 4.0,
}


def random_weight(name: str, weight: mx.array, gains: dict[str, float] = _GAINS) -> mx.array:
    """Give a weight's random values: what carries the context is strong, and so is what a picture becomes."""
    if name.endswith("A_log"):
        return mx.log(mx.linspace(0.01, 0.1, weight.size).reshape(weight.shape))
    gain = next((gain for part, gain in gains.items() if part in name), 1.0)
    if weight.ndim < 2:
        sharp = name.endswith(("q_norm.weight", "q_layernorm.weight"))
        return weight + 2.0 if sharp else weight * gain
    return mx.random.normal(weight.shape) * (gain / math.sqrt(weight.size / weight.shape[0]))
