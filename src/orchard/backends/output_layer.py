"""Gets the input of a model's output layer, the last hidden states, or lets it compute the logits of some tokens only.

A pass through the network finds the layer, without its name: a separate layer, or the token embeddings again.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import mlx.core as mx
from mlx import nn

Note = Callable[[nn.Module, mx.array, mx.array], None]
ChangeInputs = Callable[[mx.array], mx.array]


class OutputLayer:
    """The layer of a network that computes its logits. Only the engine's thread uses it."""

    def __init__(self, network: nn.Module, run: Callable[[], mx.array]) -> None:
        """Find the layer; `run` lets the network read a token and returns the logits.

        Raise ValueError if no layer computes them.
        """
        seen: list[tuple[nn.Module, mx.array, mx.array]] = []
        with _watch_calls(
            [module for module in network.modules() if "weight" in module], lambda *call: seen.append(call)
        ):
            logits = run()
        found = [(layer, inputs) for layer, inputs, made in seen if made.shape == logits.shape]
        if not found:
            raise ValueError("none of its layers makes its logits")
        self._layer, inputs = found[-1]
        self.width = int(inputs.shape[-1])
        """How many numbers a hidden state has."""

    def inputs(self, run: Callable[[], Any]) -> mx.array:
        """Return the layer's lazy inputs (rows, n, width) in `run`, which lets the network read tokens."""
        seen: list[mx.array] = []
        with _watch_calls([self._layer], lambda layer, inputs, made: seen.append(inputs)):
            run()
        return seen[-1]

    def run_at(self, run: Callable[[], mx.array], places: mx.array) -> mx.array:
        """Return the lazy logits (rows, vocab_size) of `run`, which lets the network read tokens (rows, n).

        Row i has those after its token at `places[i]`, (rows,); no others are computed. Raise ValueError if the layer's
        output is only a part of the logits, as where an adapter adds to it.
        """

        def cut(inputs: mx.array) -> mx.array:
            if inputs.ndim == 2:  # the layer embeds the tokens, too
                return inputs
            return mx.take_along_axis(inputs, places[:, None, None], axis=1)

        with _watch_calls([self._layer], lambda layer, inputs, made: None, cut):
            logits = run()
        if logits.shape[1] != 1:
            raise ValueError("its logits are not the output of one layer")
        return logits[:, 0]


@contextmanager
def _watch_calls(layers: Sequence[nn.Module], note: Note, cut: ChangeInputs = lambda inputs: inputs) -> Iterator[None]:
    """Call `note` with each layer that is called, its inputs and its outputs. `cut` changes the inputs before that."""
    kinds: list[Any] = [type(layer) for layer in layers]
    try:
        for layer, kind in zip(layers, kinds, strict=True):
            layer.__class__ = _watched_class(kind)
            layer._note, layer._cut = note, cut
        yield
    finally:
        for layer, kind in zip(layers, kinds, strict=True):
            layer.__class__ = kind
            vars(layer).pop("_note", None)
            vars(layer).pop("_cut", None)


@functools.cache
def _watched_class(kind: Any) -> type:
    class WatchedLayer(kind):  # type: ignore[misc]
        _note: Note
        _cut: ChangeInputs

        def __call__(self, inputs: mx.array, *args: Any, **named: Any) -> Any:
            inputs = self._cut(inputs)
            made = super().__call__(inputs, *args, **named)
            if isinstance(made, mx.array):
                self._note(self, inputs, made)
            return made

        def as_linear(self, inputs: mx.array) -> mx.array:
            inputs = self._cut(inputs)
            made: mx.array = super().as_linear(inputs)
            self._note(self, inputs, made)
            return made

    return WatchedLayer
