"""Makes a tokenizer from the metadata of a GGUF file, which reads texts as llama.cpp does.

llama.cpp's code says how texts are split for each `tokenizer.ggml.pre`, which tokens end an answer, and which merges a
vocabulary with scores has: https://github.com/ggml-org/llama.cpp/blob/master/src/llama-vocab.cpp. The conversion in
transformers reads numbers of SmolLM in another way, and an unknown `pre` as if it were GPT-2's.
"""

from typing import NamedTuple

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from orchard.gguf_import.header import Metadata, UnusableFileError

_UNKNOWN, _CONTROL, _USER_DEFINED = 2, 3, 4  # kinds of tokens that no merges make
_MOST_TOKEN_CHARS = 2048
_MOST_CHARS = 2**24  # of all tokens; Gemma 3's have 2 million
_SPLIT_WORDS = 512  # longer tokens are not made by merges of scores
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
_ENGLISH = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_REST = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_LLAMA3 = [f"{_ENGLISH}|{_REST % '{1,3}'}"]
_QWEN2 = [f"{_ENGLISH}|{_REST % ''}"]
_DIGITS = [r"\p{N}", _GPT2]


class _Splitting(NamedTuple):
    """How texts are split before merges: expressions that are applied one after the other.

    `whole_words`: a word that is a token is not merged; `adds_bos`: a text begins with the first token by default.
    """

    expressions: list[str]
    whole_words: bool = False
    adds_bos: bool = False


_LLAMA3_SPLITTING = _Splitting(_LLAMA3, whole_words=True, adds_bos=True)
_SPLITTINGS = {
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral"), _LLAMA3_SPLITTING),
    **dict.fromkeys(("dbrx", "smaug-bpe"), _Splitting(_LLAMA3)),
    "tekken": _Splitting([_TEKKEN], whole_words=True, adds_bos=True),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen", "megrez", "stablelm2", "hunyuan"), _Splitting(_QWEN2)),
    **dict.fromkeys(("smollm", "refact", "command-r", "starcoder", "codeshell", "exaone"), _Splitting(_DIGITS)),
    **dict.fromkeys(("gpt-2", "phi-2", "mpt", "olmo"), _Splitting([_GPT2])),
    "default": _Splitting([r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]"]),
}
"""By `tokenizer.ggml.pre`."""
_END_TEXTS = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "<|end_of_text|>",
    "<eos>",
    "<｜end▁of▁sentence｜>",
}
"""Tokens that end an answer, whatever the metadata say of them."""


class TokenizerParts(NamedTuple):
    """A tokenizer, the tokens that end an answer, and whether there is a chat template."""

    tokenizer: PreTrainedTokenizerFast
    end_ids: list[int]
    has_template: bool


class _Vocabulary(NamedTuple):
    metadata: Metadata
    tokens: list[str]
    kinds: list[int]
    ids: dict[str, int]

    def special(self, name: str, default: int | None = None) -> int | None:
        """Return the number of a special token; None if there is none."""
        key = f"tokenizer.ggml.{name}_token_id"
        number = self.metadata.integer(key) if key in self.metadata else default
        return number if number is not None and number < len(self.tokens) else None


def make_tokenizer(metadata: Metadata, rows: int, stops: list[str], system: str) -> TokenizerParts:
    """Return the tokenizer of a model with so many rows of embeddings. Raise UnusableFileError.

    `stops`: texts that end an answer, too, if they are tokens; `system`: the system prompt of chats that have none.
    """
    vocabulary = _read_vocabulary(metadata, rows)
    kind = metadata.text("tokenizer.ggml.model")
    if kind not in ("gpt2", "llama"):
        raise UnusableFileError(f"its tokenizer is of a kind ('{kind[:100]}') that can't be imported")
    made, adds_bos = _byte_level(vocabulary) if kind == "gpt2" else _sentence_piece(vocabulary)
    return _finish(made, vocabulary, adds_bos, stops, system)


def _read_vocabulary(metadata: Metadata, rows: int) -> _Vocabulary:
    tokens = metadata.texts("tokenizer.ggml.tokens")
    if len(tokens) > rows:
        raise UnusableFileError(f"it has {len(tokens):,} tokens, and embeddings of {rows:,}")
    tokens = [token or f"[EMPTY_{number}]" for number, token in enumerate(tokens)]
    if (longest := max(map(len, tokens), default=0)) > _MOST_TOKEN_CHARS:
        raise UnusableFileError(f"it has a token of {longest:,} characters")
    if (total := sum(map(len, tokens))) > _MOST_CHARS:
        raise UnusableFileError(f"its tokens have {total:,} characters")
    if not tokens:
        raise UnusableFileError("it has no tokens")
    ids = {token: number for number, token in enumerate(tokens)}
    if len(ids) < len(tokens):
        raise UnusableFileError("its tokens are not all different")
    key = "tokenizer.ggml.token_type"
    kinds = metadata.numbers(key).tolist() if key in metadata else [1] * len(tokens)
    if len(kinds) != len(tokens):
        raise UnusableFileError(f"its {key} has {len(kinds):,} values, and it has {len(tokens):,} tokens")
    kinds = [_CONTROL if token in _END_TEXTS else kind for token, kind in zip(tokens, kinds, strict=True)]
    return _Vocabulary(metadata, tokens, kinds, ids)


def _byte_level(vocabulary: _Vocabulary) -> tuple[Tokenizer, bool]:
    """Return a tokenizer whose merges are of bytes, and whether it puts its first token before a text by default."""
    pre = vocabulary.metadata.text("tokenizer.ggml.pre", "default")
    if pre not in _SPLITTINGS:
        raise UnusableFileError(f"its texts are split in a way ('{pre[:100]}') that can't be imported")
    splitting = _SPLITTINGS[pre]
    merges = []
    for text in vocabulary.metadata.texts("tokenizer.ggml.merges"):
        left, _, right = text[1:].partition(" ")  # the first character may be a space
        pair = text[:1] + left, right
        if all(part in vocabulary.ids for part in (*pair, "".join(pair))):
            merges.append(pair)
    made = Tokenizer(models.BPE(vocabulary.ids, merges, ignore_merges=splitting.whole_words))
    splits = [pre_tokenizers.Split(Regex(one), "isolated") for one in splitting.expressions]
    bytes_of = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.pre_tokenizer = pre_tokenizers.Sequence([*splits, bytes_of])
    made.decoder = decoders.ByteLevel()
    return made, splitting.adds_bos


def _sentence_piece(vocabulary: _Vocabulary) -> tuple[Tokenizer, bool]:
    """Return a tokenizer whose merges make likelier tokens first, and bytes stand for unknown characters."""
    metadata, ids = vocabulary.metadata, vocabulary.ids
    scores = metadata.numbers("tokenizer.ggml.scores").tolist()
    if len(scores) != len(ids):
        raise UnusableFileError(f"it has {len(scores):,} scores, and {len(ids):,} tokens")
    merges = [
        (-scores[number], ids[token[:at]], ids[token[at:]])
        for token, number in ids.items()
        if len(token) <= _SPLIT_WORDS
        for at in range(1, len(token))
        if token[:at] in ids and token[at:] in ids
    ]
    pairs = [(vocabulary.tokens[left], vocabulary.tokens[right]) for _, left, right in sorted(merges)]
    unknown = vocabulary.special("unknown", 0)
    made = Tokenizer(
        models.BPE(ids, pairs, unk_token=vocabulary.tokens[unknown or 0], fuse_unk=True, byte_fallback=True)
    )
    spaces = normalizers.Replace(" ", "▁")
    prefix = metadata.flag("tokenizer.ggml.add_space_prefix", True)
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), spaces]) if prefix else spaces
    strip = [decoders.Strip(" ", 1, 0)] if prefix else []
    whole = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    made.decoder = decoders.Sequence(whole)
    return made, True


def _finish(made: Tokenizer, vocabulary: _Vocabulary, adds_bos: bool, stops: list[str], system: str) -> TokenizerParts:
    """Add the special tokens, the first and last token of a text, and the chat template."""
    metadata, tokens = vocabulary.metadata, vocabulary.tokens
    is_sentence_piece = metadata.text("tokenizer.ggml.model") == "llama"
    bos = vocabulary.special("bos", 1 if is_sentence_piece else None)
    eos = vocabulary.special("eos", 2 if is_sentence_piece else None)
    _add_special_tokens(made, vocabulary)
    first = [bos] if metadata.flag("tokenizer.ggml.add_bos_token", adds_bos) and bos is not None else []
    last = [eos] if metadata.flag("tokenizer.ggml.add_eos_token", False) and eos is not None else []
    if first or last:
        made.post_processor = processors.TemplateProcessing(
            single=[*(tokens[one] for one in first), "$A", *(tokens[one] for one in last)],
            special_tokens=[(tokens[one], one) for one in {*first, *last}],
        )
    ends = [eos, vocabulary.special("eot"), vocabulary.special("eom")]
    ends += [vocabulary.ids.get(text) for text in (*_END_TEXTS, *stops)]
    template = metadata.text("tokenizer.chat_template", "")
    names = {"bos_token": bos, "eos_token": eos, "pad_token": vocabulary.special("padding")}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=made,
        chat_template=_with_system(template, system) or None,
        clean_up_tokenization_spaces=False,
        **{name: tokens[number] for name, number in names.items() if number is not None},
    )
    return TokenizerParts(tokenizer, sorted({one for one in ends if one is not None}), bool(template))


def _add_special_tokens(made: Tokenizer, vocabulary: _Vocabulary) -> None:
    """Add the tokens that are found in a text before it is split, the longest ones first."""
    name = vocabulary.metadata.text("general.name", "").lower()
    strips = "phi-3" in name or "phi3" in name  # llama.cpp does so for these models
    plain = ("<unk>", "<s>", "<|endoftext|>")
    for kind, add in (
        (_CONTROL, made.add_special_tokens),
        (_UNKNOWN, made.add_special_tokens),
        (_USER_DEFINED, made.add_tokens),
    ):
        add(
            [
                AddedToken(token, normalized=False, rstrip=strips and token not in plain)
                for token, its in zip(vocabulary.tokens, vocabulary.kinds, strict=True)
                if its == kind
            ]
        )


def _with_system(template: str, system: str) -> str:
    """Return a chat template that puts a system prompt before a chat that has none."""
    if not (template and system):
        return template
    words = system.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return (
        "{%- if not messages or messages[0]['role'] != 'system' -%}"
        f"{{%- set messages = [{{'role': 'system', 'content': '{words}'}}] + (messages or []) -%}}"
        "{%- endif -%}" + template
    )
