"""Multi-token-prediction (MTP) heads of the Qwen3.5 family, in mlx-vlm's format: in the model's folder or another one.

Both libraries leave a head's weights (`mtp.*`) out of the model. mlx-vlm reads them as a separate model, which uses the
embeddings and the output layer of the main model.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx_vlm.speculative.drafters import load_drafter
from mlx_vlm.speculative.drafters.mtp_split import detect_mtp_splitter
from mlx_vlm.speculative.drafters.qwen3_5_mtp import Qwen3_5MTPDraftModel

from orchard.backends.kernels import fused, quantized
from orchard.backends.kernels.rotary import UNUSED_POSITIONS, install_rotary
from orchard.backends.model_folder import LoadedModel, evaluate_weights, explain_load_errors, fingerprint, read_config
from orchard.backends.output_layer import OutputLayer
from orchard.core.errors import OrchardError
from orchard.engine.drafting.head import PredictionHead

log = logging.getLogger("orchard.worker")

_LIBRARY = "mlx-vlm"


class MtpHead(PredictionHead):
    """A head with mlx-vlm's layer."""

    def __init__(self, draft: Qwen3_5MTPDraftModel, network: nn.Module, output: OutputLayer, fingerprint: str) -> None:
        """`draft`: the head, which is bound to the model's `network`; `output`: the network's output layer."""
        self._draft = draft.bind(network)
        self._output = output
        self._fingerprint = fingerprint
        self._rotary = install_rotary(draft)

    @property
    def fingerprint(self) -> str:
        """See `PredictionHead`."""
        return self._fingerprint

    def watch(self, read: Callable[[], mx.array]) -> tuple[mx.array, mx.array]:
        """See `PredictionHead`."""
        outputs: list[mx.array] = []
        hidden = self._output.inputs(lambda: outputs.append(read()))
        return outputs[0], hidden

    def read(
        self,
        tokens: mx.array,
        before: mx.array,
        cache: Any,
        first: int | mx.array,
        *,
        embeddings: mx.array | None = None,
        positions: mx.array | None = None,
    ) -> mx.array:
        """See `PredictionHead`."""
        inputs = self._draft._input_embed(tokens) if embeddings is None else embeddings
        if positions is None and self._rotary is None:
            count = mx.arange(tokens.shape[1])
            positions = mx.broadcast_to(mx.array(first).reshape(-1, 1) + count, (3, *tokens.shape))
        if self._rotary:
            self._rotary.offset = first if positions is None else None
        try:
            hidden: mx.array = self._draft._forward_hidden(
                inputs, before, [cache], UNUSED_POSITIONS if positions is None else positions
            )
        finally:
            if self._rotary:
                self._rotary.offset = None
        return hidden

    def logits(self, hidden: mx.array) -> mx.array:
        """See `PredictionHead`."""
        logits: mx.array = self._draft._lm_head_fn(hidden)
        return logits


def load_own_head(model: LoadedModel, folder: Path) -> MtpHead | None:
    """Load the head in the model's own folder; return None if there is none or, with a warning, it can't be used."""
    try:
        return load_head(model, folder) if detect_mtp_splitter(folder) else None
    except Exception as error:
        log.warning("the model's MTP head is not used: %s", error)
        return None


def load_head(model: LoadedModel, folder: Path) -> MtpHead:
    """Load the head in a folder of the Qwen3.5 family: that of a separate head, or of a model.

    Raise OrchardError("model_failed") with the reason if it can't guess for the model.
    """
    read_config(folder, _LIBRARY)
    with explain_load_errors(folder, _LIBRARY):
        draft, _ = load_drafter(str(folder), "mtp", lazy=True)
    output = OutputLayer(model.network, lambda: model.forward(mx.array([[0]], mx.uint32), model.new_cache()))
    if reason := _misfit(draft, output.width):
        raise OrchardError("model_failed", f"the MTP head in {folder} can't guess for this model: {reason}")
    nothing = mx.zeros((1, 1, output.width))
    fused.fuse_layers(draft, lambda: draft._forward_hidden(nothing, nothing, None, UNUSED_POSITIONS))
    evaluate_weights(folder, draft, lambda fraction: None, _LIBRARY)
    quantized.adapt_quantized_layers(draft)
    log.info("the MTP head in %s guesses next tokens", folder)
    return MtpHead(draft, model.network, output, f"mtp {fingerprint(folder, None, _LIBRARY)}")


def _misfit(draft: Qwen3_5MTPDraftModel, width: int) -> str:
    """Return why a head can't guess for a model with hidden states of this width; "" if it can."""
    if len(draft.layers) != 1:
        return f"it has {len(draft.layers)} layers; only heads of one layer are served"
    hidden_size = draft.config.text_config.hidden_size
    return "" if hidden_size == width else f"its hidden_size is {hidden_size:,}, and the model's is {width:,}"
