"""Text models in mlx-lm's format."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_lm.utils
from mlx_lm.models.cache import make_prompt_cache

from orchard.backends.checkpoint import load_checkpoint
from orchard.backends.model_folder import FolderModel, Library, Progress, load_folder
from orchard.core.tasks.text_options import TextOptions
from orchard.engine.batching.model import LogitsAt
from orchard.engine.ranks.group import RankGroup

_DEFAULTS = TextOptions()


@dataclass(frozen=True, kw_only=True)
class TextModel(FolderModel):
    """A loaded model: the engine's `LanguageModel`."""

    vocab_size: int

    def new_cache(self) -> list[Any]:
        """Return an empty cache, one entry per layer."""
        cache: list[Any] = make_prompt_cache(self.network, self.max_kv_size)
        return cache

    def forward(
        self,
        tokens: mx.array,
        cache: list[Any],
        *,
        embeddings: mx.array | None = None,
        positions: mx.array | None = None,
        extras: dict[str, Any] | None = None,
    ) -> mx.array:
        """Read tokens (rows, n), append them to the cache, and return lazy logits (rows, n, vocab_size).

        `embeddings` (rows, n, width) replace the tokens' own, if mlx-lm's model takes them. Raise ValueError for
        `positions` and `extras`: a text model's positions are its cache's lengths.
        """
        if positions is not None or extras is not None:
            raise ValueError("a text model counts its positions itself, and takes nothing else")
        inputs = {} if embeddings is None else {"input_embeddings": embeddings}
        logits: mx.array = self.network(tokens, cache=cache, **inputs)
        return logits

    def drop_all(self) -> None:
        """Forget what is kept between requests: nothing."""

    def hidden_states(self, tokens: mx.array, cache: list[Any], **given: Any) -> mx.array:
        """Read tokens as `forward` does, and return the lazy last hidden states (rows, n, width)."""
        assert self.output, "the layer that computes the logits was not found"
        return self.output.inputs(lambda: self.forward(tokens, cache, **given))

    @property
    def logits_at(self) -> LogitsAt | None:
        """See `LanguageModel`."""
        if not (output := self.output):
            return None
        return lambda tokens, cache, places: output.run_at(lambda: self.forward(tokens, cache), places)


def load_text_model(
    path: str,
    options: TextOptions = _DEFAULTS,
    progress: Progress = lambda fraction: None,
    group: RankGroup | None = None,
) -> TextModel:
    """Load a model's folder: see `load_folder`."""
    loaded = load_folder(Path(path), options, progress, _MLX_LM, group=group)
    vocab_size = _run_one_token(loaded.network).shape[-1]
    return TextModel(**vars(loaded), vocab_size=vocab_size)


def _load_adapter(network: Any, adapter: Path) -> set[str]:
    mlx_lm.utils.load_adapters(network, str(adapter))
    weights: Any = mx.load(str(adapter / "adapters.safetensors"))
    return set(weights)


def _run_one_token(network: Any) -> mx.array:
    logits: mx.array = network(mx.array([[0]], mx.uint32))
    return logits


_MLX_LM = Library("mlx-lm", load_checkpoint, _run_one_token, _load_adapter)
