"""Embedding models."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from orchard.backends.embeddings.folder import DenseLayer, VectorRecipe, least_limit, load_dense_weights, read_recipe
from orchard.backends.embeddings.networks import LIBRARY, Family, PassCost, load_encoder_network, text_config
from orchard.backends.embeddings.pooling import activate, normalize, pool
from orchard.backends.embeddings.service import BatchService, PassModel, TokenizedText
from orchard.backends.embeddings.texts import TextTokenizer
from orchard.backends.model_folder import Progress, read_config
from orchard.core.errors import OrchardError
from orchard.core.media import unreadable_error
from orchard.core.model_config import context_window
from orchard.core.tasks.embed import (
    Embed,
    Embedding,
    EmbeddingOptions,
    MixedInput,
    dimensions_error,
    input_too_long,
    unknown_prompt_error,
)
from orchard.core.tasks.generate import Generate
from orchard.core.tasks.media import input_media


class Embedder(PassModel):
    """An embedding model: computes the vectors of texts."""

    def __init__(
        self,
        network: Any,
        family: Family,
        recipe: VectorRecipe,
        texts: TextTokenizer,
        config: dict[str, Any],
        *,
        truncate: bool = False,
    ) -> None:
        """`truncate`: whether to cut long texts if a task doesn't say."""
        self._network = network
        self._family = family
        self._recipe = recipe
        self._texts = texts
        self._truncate = truncate
        self._cost = PassCost(network, config)
        self._vocabulary = int(config["vocab_size"])
        self._padding = int(config.get("pad_token_id") or 0)
        self._dense = [] if family.has_dense else [(load_dense_weights(layer), layer) for layer in recipe.dense]
        self.width = int(self.vectors(mx.zeros((1, 1), mx.int32), mx.ones((1, 1), mx.int32)).shape[1])

    @property
    def result_bytes(self) -> int:
        """The bytes per vector."""
        return self.width * 4

    def read_task(self, task: Embed) -> list[TokenizedText]:
        """Return the tokens of the inputs, with the prompt before texts. Raise OrchardError if an input is wrong."""
        self._check_dimensions(task.dimensions)
        prompt = self._prompt(task.prompt_name)
        params = task.params
        truncate = self._truncate if task.truncate is None else task.truncate
        places = [index for index, given in enumerate(task.inputs) if isinstance(given, str)]
        texts = [prompt + self._texts.cut_text(str(task.inputs[index])) for index in places]
        if self._recipe.lower:
            texts = [text.lower() for text in texts]
        read = self._texts.read_texts(texts, [params[index] for index in places], truncate=truncate)
        found = dict(zip(places, read, strict=True))
        return [
            found[index] if isinstance(given, str) else self._read_tokens(given, params[index], truncate)
            for index, given in enumerate(task.inputs)
        ]

    def cost(self, rows: int, length: int) -> int:
        """Return the bytes of a pass over `rows` texts of `length` tokens, without the weights."""
        return self._cost.estimate_bytes(rows, length) + rows * self.width * 8

    def compute(self, texts: Sequence[TokenizedText]) -> list[np.ndarray[Any, Any]]:
        """Return the vector of each text, float32."""
        tokens, mask = pad_tokens([text.tokens for text in texts], self._padding)
        vectors = self.vectors(tokens, mask)
        mx.eval(vectors)
        return list(np.array(vectors))

    def vectors(self, tokens: mx.array, mask: mx.array) -> mx.array:
        """Return the vectors (rows, width) of padded tokens (rows, n) and their mask."""
        pooled = pool(self._family.hidden(self._network, tokens, mask), mask, self._recipe.pooling)
        if self._family.has_dense:
            for layer in self._network.dense:
                pooled = layer(pooled)
        for weights, layer in self._dense:
            pooled = _apply_dense(pooled, weights, layer)
        return normalize(pooled) if self._recipe.normalize else pooled

    def result(self, task: Embed, found: np.ndarray[Any, Any]) -> Embedding:
        """Return a vector; cut it and normalise it again if the task wants fewer dimensions."""
        if task.dimensions and task.dimensions < self.width:
            found = found[: task.dimensions]
            found = found / max(float(np.linalg.norm(found)), 1e-12)
        return Embedding(found.astype("<f4").tobytes())

    def _prompt(self, name: str | None) -> str:
        prompts = self._recipe.prompts
        if name is not None and name not in prompts:
            raise unknown_prompt_error(prompts)
        name = name or self._recipe.prompt
        return prompts[name] if name else ""

    def _check_dimensions(self, dimensions: int | None) -> None:
        if dimensions is None or dimensions == self.width:
            return
        if not self._recipe.matryoshka:
            why = f"must be {self.width}: this model may not give fewer. `is_matryoshka` or `matryoshka_dimensions` in "
            why += "its config.json would allow it, or the server's setting `matryoshka`"
        elif dimensions > self.width:
            why = f"must be at most {self.width}, which is what this model gives"
        elif self._recipe.sizes and dimensions not in self._recipe.sizes:
            sizes = ", ".join(map(str, self._recipe.sizes))
            why = f"must be {self.width} or one of {sizes}, the `matryoshka_dimensions` that the model was trained for"
        else:
            return
        raise dimensions_error(why)

    def _read_tokens(
        self, tokens: tuple[int, ...] | MixedInput | Generate, param: str, truncate: bool
    ) -> TokenizedText:
        if not isinstance(tokens, tuple):
            for part in input_media(tokens):
                raise unreadable_error(part)
            message = "`messages` must be left out: only models that generate text make embeddings of conversations."
            raise OrchardError("invalid_request", message, param=param)
        if wrong := next((token for token in tokens if token >= self._vocabulary), None):
            message = f"`{param}` has the token {wrong}; this model's tokens are 0 to {self._vocabulary - 1}."
            raise OrchardError("invalid_request", message, param=param)
        if len(tokens) > self._texts.most and not truncate:
            raise input_too_long(param, len(tokens), self._texts.most)
        return TokenizedText(tokens[: self._texts.most])


class EmbeddingsService(BatchService[EmbeddingOptions]):
    """Serves an embedding model."""

    @staticmethod
    def _load(path: Path, options: EmbeddingOptions, progress: Progress, beat: Callable[[], None]) -> PassModel:
        config = read_config(path, LIBRARY)
        recipe = read_recipe(path, config, options.matryoshka)
        texts = TextTokenizer(path, longest_text_tokens(config, recipe.max_tokens))
        network, family = load_encoder_network(path, config, progress, beat)
        return Embedder(network, family, recipe, texts, text_config(config), truncate=options.embeddings_truncate)


def longest_text_tokens(config: dict[str, Any], limit: int | None = None) -> int:
    """Return the most tokens that a text may have by a config.json and, if given, `limit`."""
    window = context_window(config)
    if window and "roberta" in str(config.get("model_type")):  # its positions begin after the padding token's id
        window -= int(config.get("pad_token_id", 1)) + 1
    return least_limit(window, limit)


def pad_tokens(texts: Sequence[Sequence[int]], padding: int) -> tuple[mx.array, mx.array]:
    """Return tokens (rows, n), padded at their end, and their mask (rows, n): 1 for a text's tokens."""
    longest = max(map(len, texts))
    tokens = np.full((len(texts), longest), padding, np.int32)
    mask = np.zeros((len(texts), longest), np.int32)
    for row, text in enumerate(texts):
        tokens[row, : len(text)] = text
        mask[row, : len(text)] = 1
    return mx.array(tokens), mx.array(mask)


def _apply_dense(values: mx.array, weights: dict[str, mx.array], layer: DenseLayer) -> mx.array:
    found = values @ weights["weight"].T.astype(mx.float32)
    return activate(found + weights["bias"] if "bias" in weights else found, layer.activation)
