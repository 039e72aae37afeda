"""Rerankers: models that score how relevant a document is to a query."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx

from orchard.backends.embeddings.embedder import longest_text, padded
from orchard.backends.embeddings.networks import LIBRARY, PassCost, load_network
from orchard.backends.embeddings.service import BatchService, PassModel, ReadText
from orchard.backends.embeddings.texts import TextTokenizer
from orchard.backends.model_folder import Progress, read_config
from orchard.core.errors import OrchardError
from orchard.core.tasks.embed import too_long
from orchard.core.tasks.rerank import Relevance, Rerank, RerankOptions
from orchard.device.lane import give_way

# What Qwen3-Reranker was trained with: https://huggingface.co/Qwen/Qwen3-Reranker-0.6B
_HEAD = (
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    'provided. Note that the answer can only be "yes" or "no".<|im_end|>\n<|im_start|>user\n'
)
_TAIL = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
_INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"


class _Ranker(PassModel):
    result_bytes = 64

    def __init__(self, network: Any, texts: TextTokenizer, config: dict[str, Any]) -> None:
        self._network = network
        self._texts = texts
        self._padding = int(config.get("pad_token_id") or 0)
        self._cost = PassCost(network, config)

    def cost(self, rows: int, length: int) -> int:
        """Return the bytes, without weights, of a pass over `rows` texts of `length` tokens."""
        return self._cost.of(rows, length)

    def result(self, task: Rerank, found: float) -> Relevance:
        """Return a score."""
        return Relevance(found)


class PairClassifier(_Ranker):
    """A classifier of pairs with one label, whose probability is the score."""

    def read(self, task: Rerank) -> list[ReadText]:
        """Return the tokens of a pair of the query and each document. Raise OrchardError if a text is wrong."""
        if task.instruction is not None:
            message = "`instruction` is not taken by this model: leave it out."
            raise OrchardError("invalid_request", message, param="instruction")
        pairs = [(task.query, document) for document in task.documents]
        return self._texts.read(pairs, _params(task), truncate=task.truncate)

    def compute(self, texts: Sequence[ReadText]) -> Sequence[float]:
        """Return the score of each pair."""
        tokens, mask = padded([text.tokens for text in texts], self._padding)
        types, _ = padded([text.types for text in texts], 0)
        logits = self._network(tokens, attention_mask=mask, token_type_ids=types).logits
        return _floats(mx.sigmoid(logits[:, 0].astype(mx.float32)))


class AnsweringRanker(_Ranker):
    """A language model that answers yes or no; the score is the probability of yes against no (Qwen3-Reranker)."""

    def __init__(self, network: Any, texts: TextTokenizer, config: dict[str, Any]) -> None:
        super().__init__(network, texts, config)
        self._answers = mx.array([texts.id_of("no"), texts.id_of("yes")])
        self._head, self._tail = (texts.plain(text, texts.most).tokens for text in (_HEAD, _TAIL))

    def read(self, task: Rerank) -> list[ReadText]:
        """Return the tokens of a prompt for each document. Raise OrchardError if a text is wrong."""
        instruction = _INSTRUCTION if task.instruction is None else task.instruction
        question = f"<Instruct>: {instruction}\n<Query>: {task.query}\n<Document>: "
        around = len(self._head) + len(self._tail)
        room = self._texts.most - around
        asked = self._texts.plain(question, room)
        if asked.certain >= room or not asked.whole:
            least = "" if asked.whole else "at least "
            message = f"`query` leaves no room for a document: it has {least}{asked.certain + around} tokens with the "
            message += f"instruction and the rest of the prompt; this model reads at most {self._texts.most}."
            raise OrchardError("context_length_exceeded", message, param="query")
        found = []
        for param, document in zip(_params(task), task.documents, strict=True):
            give_way()
            tokens, whole = read = self._texts.plain(question + document, room)
            if not (whole and len(tokens) <= room) and not task.truncate:
                raise too_long(param, read.certain + around, self._texts.most, at_least=not whole)
            found.append(ReadText([*self._head, *tokens[:room], *self._tail]))
        return found

    def compute(self, texts: Sequence[ReadText]) -> Sequence[float]:
        """Return the score of each prompt."""
        tokens, mask = padded([text.tokens for text in texts], self._padding)
        language = self._network.language_model
        hidden = language.model(tokens)  # no token attends to the padding after it
        last = mx.take_along_axis(hidden, (mask.sum(axis=1, keepdims=True) - 1)[..., None], axis=1)[:, 0]
        head = language.lm_head if "lm_head" in language else language.model.embed_tokens.as_linear
        logits = head(last)
        no, yes = logits[:, self._answers].astype(mx.float32).T
        return _floats(mx.sigmoid(yes - no))


class RerankService(BatchService[RerankOptions]):
    """Serves a reranker."""

    @staticmethod
    def _load(path: Path, options: RerankOptions, progress: Progress, beat: Callable[[], None]) -> PassModel:
        config = read_config(path, LIBRARY)
        texts = TextTokenizer(path, longest_text(config))
        network, family = load_network(path, config, progress, beat, ranks=True)
        if not family.classifies:
            return AnsweringRanker(network, texts, config)
        if network.config.num_labels != 1:
            reason = f"it has {network.config.num_labels} labels, and a reranker has one"
            raise OrchardError("model_failed", f"the model in {path} can't be loaded: {reason}")
        return PairClassifier(network, texts, config)


def _params(task: Rerank) -> list[str]:
    return [f"documents[{index}]" for index in range(len(task.documents))]


def _floats(scores: mx.array) -> list[float]:
    found: Any = scores.tolist()
    return list(found)
