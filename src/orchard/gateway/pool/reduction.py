"""How much less a model may take after its process has run out of memory."""

_LEAST_ROOM = 32  # a limit must leave at least the weights' size divided by this beside the weights


class Reduction:
    """The reduction of one model. It grows with each such crash, so that no limit is tried twice.

    What the machine really had is unknown, and the weights can't become smaller. So what the model may take beside
    them is halved, and so are the passes of its requests.
    """

    def __init__(self) -> None:
        self.halvings = 0
        self.limit: int | None = None
        """The most bytes that the model may take; None: its share."""
        self.note = ""
        """What happened and what follows from it; empty: there is no reduction."""
        self.is_last = False
        """There was no smaller limit to try."""

    def halve(self, limit: int, weights_bytes: int) -> None:
        """Count a crash of a process that might take `limit` bytes, of which the weights take `weights_bytes`."""
        room = max(0, limit - weights_bytes) // 2
        self.halvings += 1
        self.limit = weights_bytes + room
        self.is_last = room < max(1, weights_bytes // _LEAST_ROOM)
        lack = f"memory ran out, with a limit of {limit:,} bytes, of which the weights take {weights_bytes:,}"
        if self.is_last:
            self.note = (
                f"{lack}; a smaller limit would leave too little. Quit other programs, unload other models, or use a "
                "version with fewer bits. Unload this model to let it try its whole share again"
            )
        else:
            self.note = (
                f"{lack}; until it is unloaded on request, its limit is {self.limit:,} bytes, and it reads prompts in "
                "smaller pieces"
            )
