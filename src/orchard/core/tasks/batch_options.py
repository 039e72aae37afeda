"""Options of models that answer with a single forward pass, which texts of several requests share."""

from typing import Annotated

from orchard.core.request import LoadOptions
from orchard.core.setting import Positive, QueueSize, setting, when_unset


class BatchOptions(LoadOptions, frozen=True, kw_only=True):
    """None: decided from the model and the machine."""

    queue_size: QueueSize = 1024
    batch_tokens: Annotated[
        Positive | None,
        setting("concurrency", "The most tokens, with padding, in a batch of texts to embed or rank."),
        when_unset("chosen for the device", example="8192"),
    ] = None
