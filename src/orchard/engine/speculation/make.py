"""Makes the proposers and the controller that an engine's options ask for."""

from orchard.core.tasks.text_options import TextOptions
from orchard.engine.speculation.cost_controller import WIDTHS_ALONE_ON_CUDA, WIDTHS_ON_CUDA, CostController
from orchard.engine.speculation.forced_tokens import ForcedProposer
from orchard.engine.speculation.ngram import NgramProposer
from orchard.engine.speculation.speculation import Speculation


def make_speculation(options: TextOptions, vocab_size: int, *, on_cuda: bool) -> Speculation | None:
    """Return the proposers and their controller; None if the options turn speculation off."""
    if not options.speculates:
        return None
    return Speculation([ForcedProposer(), NgramProposer()], make_controller(on_cuda), vocab_size)


def make_controller(on_cuda: bool) -> CostController:
    """Return a controller with the widths that suit the device."""
    if on_cuda:
        return CostController(widths_alone=WIDTHS_ALONE_ON_CUDA, widths_together=WIDTHS_ON_CUDA)
    return CostController()
