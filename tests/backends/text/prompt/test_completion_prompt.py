from collections.abc import Sequence
from typing import Any

import pytest
from mlx_lm.tokenizer_utils import TokenizerWrapper
from tokenizers import AddedToken
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from orchard.backends.text.prompt.completion_prompt import RawPrompts
from orchard.core.errors import OrchardError
from tests.support.models import make_tokenizer


def prompts(special: Sequence[str], *, bos: bool = False) -> tuple[RawPrompts, Any]:
    """Prompts for a tokenizer with more special tokens, which may put one before each text."""
    tokenizer = make_tokenizer()
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in [*special, "<s>"]])
    if bos:
        start = tokenizer.token_to_id("<s>")
        tokenizer.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", start)])
    hf = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>" if bos else None, clean_up_tokenization_spaces=False
    )
    return RawPrompts(TokenizerWrapper(hf, eos_token_ids=[0]), len(hf)), hf


@pytest.mark.parametrize(
    ("special", "expected"),
    [
        (("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"), "<|fim_prefix|>a <|fim_suffix|> b<|fim_middle|>"),
        (("<fim_prefix>", "<fim_suffix>", "<fim_middle>"), "<fim_prefix>a <fim_suffix> b<fim_middle>"),
        (("[PREFIX]", "[SUFFIX]"), "[SUFFIX] b[PREFIX]a "),
    ],
)
@pytest.mark.parametrize("bos", [False, True])
def test_the_middle_is_filled_in_as_the_model_learnt_it(special: tuple[str, ...], expected: str, bos: bool) -> None:
    raw, tokenizer = prompts(special, bos=bos)
    tokens = raw.fill_in_middle(raw.encode("a "), tokenizer.encode(" b", add_special_tokens=False))
    assert tokenizer.decode(tokens) == ("<s>" if bos else "") + expected


def test_a_model_that_cant_fill_in_says_so() -> None:
    raw, _ = prompts(())
    with pytest.raises(OrchardError) as caught:
        raw.fill_in_middle([1], [2])
    assert (caught.value.kind, caught.value.param) == ("invalid_request", "suffix")


def test_nothing_is_the_beginning_of_a_document() -> None:
    raw, tokenizer = prompts((), bos=True)
    assert raw.ensure_start(()) == raw.encode("") == [tokenizer.bos_token_id]
