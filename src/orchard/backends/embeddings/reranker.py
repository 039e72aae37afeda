"""Rerankers: models that score how relevant a document is to a query."""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import mlx.core as mx

from orchard.backends.beginnings import Beginning
from orchard.backends.embeddings.embedder import longest_text_tokens, pad_tokens
from orchard.backends.embeddings.networks import LIBRARY, PassCost, load_encoder_network
from orchard.backends.embeddings.service import BatchService, PassModel, TokenizedText
from orchard.backends.embeddings.texts import TextTokenizer
from orchard.backends.model_folder import Progress, read_config
from orchard.core.errors import OrchardError
from orchard.core.tasks.rerank import (
    MAX_PIECES,
    Relevance,
    Rerank,
    RerankOptions,
    document_too_long,
    query_too_long,
    too_many_pieces,
)
from orchard.device.lane import give_way

# The prompt that Qwen3-Reranker was trained with: https://huggingface.co/Qwen/Qwen3-Reranker-0.6B
_HEAD = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
)
_TAIL = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
_INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"


class TokenizedQuery(NamedTuple):
    """The text that the model gets before a document, which contains the query, and its tokens."""

    text: str
    tokens: list[int]


class _Ranker(PassModel):
    result_bytes = 64

    def __init__(self, network: Any, texts: TextTokenizer, config: dict[str, Any], frame_tokens: int) -> None:
        """`frame_tokens`: how many tokens a text has besides the query's and the document's."""
        self._network = network
        self._texts = texts
        self._room = texts.most - frame_tokens
        self._padding = int(config.get("pad_token_id") or 0)
        self._cost = PassCost(network, config)

    def read_task(self, task: Rerank) -> list[TokenizedText]:
        """Return the tokens of each document's pieces, each with the query. Raise OrchardError if a text is wrong."""
        ask = lru_cache(maxsize=1)(partial(self._read_query, task))  # most requests have one query
        found: list[TokenizedText] = []
        for number, document in enumerate(task.documents):
            give_way()
            asked = ask(*task.document_query(number))
            found += [
                self._join(asked, piece, number) for piece in self._document_pieces(task, asked, document, number)
            ]
            if len(found) > MAX_PIECES:
                raise too_many_pieces()
        return found

    def _document_pieces(self, task: Rerank, asked: TokenizedQuery, document: str, number: int) -> Iterator[list[int]]:
        """Yield the tokens of a document's pieces, each of which fits beside the query."""
        room = self._room - len(asked.tokens)
        most = room * task.pieces
        tokens, whole = read = self._read_document(asked, document, min(most, task.max_tokens or most))
        if task.max_tokens is not None and len(tokens) > task.max_tokens:
            tokens, whole = read = Beginning(tokens[: task.max_tokens], True)
        if task.truncate is False and (not whole or len(tokens) > most):
            raise document_too_long(task.document_field(number), read.least_tokens, most, at_least=not whole)
        for begin in range(0, max(1, min(len(tokens), most)), room):
            yield tokens[begin : min(begin + room, most)]

    def _fits(self, asked: Beginning) -> bool:
        """Return whether a query leaves room for a document."""
        return asked.is_whole and len(asked.tokens) < self._room

    def _check_query(self, asked: Beginning, param: str) -> None:
        """Raise OrchardError if a query leaves no room for a document."""
        if not self._fits(asked):
            around = self._texts.most - self._room
            raise query_too_long(param, asked.least_tokens + around, self._texts.most, at_least=not asked.is_whole)

    @abstractmethod
    def _read_query(self, task: Rerank, query: str, param: str) -> TokenizedQuery:
        """Return the query, with fewer tokens than there is room for. Raise OrchardError if it can't be read."""

    @abstractmethod
    def _read_document(self, asked: TokenizedQuery, document: str, most: int) -> Beginning:
        """Return a document's tokens; all of them unless there are more than `most`."""

    @abstractmethod
    def _join(self, asked: TokenizedQuery, piece: list[int], number: int) -> TokenizedText:
        """Return all tokens that the model reads for a piece."""

    def cost(self, rows: int, length: int) -> int:
        """Return the bytes of a pass over `rows` texts of `length` tokens, without the weights."""
        return self._cost.estimate_bytes(rows, length)

    def result(self, task: Rerank, found: float) -> Relevance:
        """Return a score."""
        return Relevance(found)


class PairClassifier(_Ranker):
    """A classifier of pairs with one label, whose probability is the score."""

    def __init__(self, network: Any, texts: TextTokenizer, config: dict[str, Any]) -> None:
        self._frame = texts.pair_frame()
        super().__init__(network, texts, config, self._frame.token_count)

    def _read_query(self, task: Rerank, query: str, param: str) -> TokenizedQuery:
        if task.instruction is not None:
            message = "`instruction` is not taken by this model: leave it out."
            raise OrchardError("invalid_request", message, param="instruction")
        asked = self._texts.tokenise_plain(query, self._room)
        if task.truncate and not self._fits(asked):
            asked = Beginning(asked.tokens[: self._room // 2], True)
        self._check_query(asked, param)
        return TokenizedQuery(query, asked.tokens)

    def _read_document(self, asked: TokenizedQuery, document: str, most: int) -> Beginning:
        return self._texts.tokenise_plain(document, most)

    def _join(self, asked: TokenizedQuery, piece: list[int], number: int) -> TokenizedText:
        return self._frame.join(asked.tokens, piece, number)

    def compute(self, texts: Sequence[TokenizedText]) -> Sequence[float]:
        """Return the score of each pair."""
        tokens, mask = pad_tokens([text.tokens for text in texts], self._padding)
        types, _ = pad_tokens([text.types for text in texts], 0)
        logits = self._network(tokens, attention_mask=mask, token_type_ids=types).logits
        return _scores_of(mx.sigmoid(logits[:, 0].astype(mx.float32)))


class AnsweringRanker(_Ranker):
    """A language model that answers yes or no; the score is the probability of yes against no (Qwen3-Reranker)."""

    def __init__(self, network: Any, texts: TextTokenizer, config: dict[str, Any]) -> None:
        self._answers = mx.array([texts.token_id("no"), texts.token_id("yes")])
        self._head, self._tail = (texts.tokenise_plain(text, texts.most).tokens for text in (_HEAD, _TAIL))
        super().__init__(network, texts, config, len(self._head) + len(self._tail))

    def _read_query(self, task: Rerank, query: str, param: str) -> TokenizedQuery:
        instruction = _INSTRUCTION if task.instruction is None else task.instruction
        question = f"<Instruct>: {instruction}\n<Query>: {query}\n<Document>:"
        asked = self._texts.tokenise_plain(question, self._room)
        self._check_query(asked, param)
        return TokenizedQuery(question, asked.tokens)

    def _read_document(self, asked: TokenizedQuery, document: str, most: int) -> Beginning:
        # The space may be part of the document's first token, so both texts are tokenised together.
        before = len(asked.tokens)
        tokens, whole = self._texts.tokenise_plain(f"{asked.text} {document}", before + most)
        return Beginning(tokens[before:], whole)

    def _join(self, asked: TokenizedQuery, piece: list[int], number: int) -> TokenizedText:
        return TokenizedText([*self._head, *asked.tokens, *piece, *self._tail], choice=number)

    def compute(self, texts: Sequence[TokenizedText]) -> Sequence[float]:
        """Return the score of each prompt."""
        tokens, mask = pad_tokens([text.tokens for text in texts], self._padding)
        language = self._network.language_model
        hidden = language.model(tokens)  # no token attends to the padding after it
        last = mx.take_along_axis(hidden, (mask.sum(axis=1, keepdims=True) - 1)[..., None], axis=1)[:, 0]
        head = language.lm_head if "lm_head" in language else language.model.embed_tokens.as_linear
        logits = head(last)
        no, yes = logits[:, self._answers].astype(mx.float32).T
        return _scores_of(mx.sigmoid(yes - no))


class RerankService(BatchService[RerankOptions]):
    """Serves a reranker."""

    @staticmethod
    def _load(path: Path, options: RerankOptions, progress: Progress, beat: Callable[[], None]) -> PassModel:
        config = read_config(path, LIBRARY)
        texts = TextTokenizer(path, longest_text_tokens(config))
        network, family = load_encoder_network(path, config, progress, beat, is_ranker=True)
        if not family.classifies:
            return AnsweringRanker(network, texts, config)
        if network.config.num_labels != 1:
            reason = f"it has {network.config.num_labels} labels, and a reranker has one"
            raise OrchardError("model_failed", f"the model in {path} can't be loaded: {reason}")
        return PairClassifier(network, texts, config)


def _scores_of(scores: mx.array) -> list[float]:
    found: Any = scores.tolist()
    return list(found)
