"""Makes what an engine speculates with, as its options say."""

from orchard.core.tasks.text_options import TextOptions
from orchard.engine.speculation.cost_controller import CostController
from orchard.engine.speculation.forced import ForcedProposer
from orchard.engine.speculation.ngram import NgramProposer
from orchard.engine.speculation.speculation import Speculation


def make_speculation(options: TextOptions, vocab_size: int) -> Speculation | None:
    """Return the proposers and their controller, for logits of that width; None where the options turn them off."""
    if options.speculation == "off":
        return None
    return Speculation([ForcedProposer(), NgramProposer()], CostController(), vocab_size)
