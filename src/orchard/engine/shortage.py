"""Decides what the engine gives up when allocations fail: more with each failure, and less again after calm steps.

1. MLX's cached buffers, which the caller frees after each failure;
2. the cached prompts;
3. half of the running jobs with each failure; they wait;
4. the job itself, if it fails again and again though it is alone and nothing else is left.

After `_CALM` steps without a failure, twice as many jobs may run, and the order begins anew. If memory then runs out,
it takes twice as many steps until the next time: a failure makes jobs begin again, and a prompt may take more steps.
"""

from msgspec import Struct

_CALM = 64
_TRIES_ALONE = 3  # failures of a job that is alone, with no token between them
_MANY = 64  # jobs; a limit of more is lifted


class LoneJob(Struct, frozen=True):
    """A job that was alone when an allocation failed, and how many tokens and prompt logprobs it had produced."""

    job: str
    output_count: int


class Shortage:
    """What is given up in one engine. It uses no MLX, no clock and no thread."""

    def __init__(self) -> None:
        self.max_running: int | None = None
        """The most jobs that may run; None: any number."""
        self._failures = 0
        self._calm = 0
        self._waits = 0  # the next time that more jobs may run comes after `_CALM` * 2^this steps
        self._has_raised = False  # more jobs may run since the last failure
        self._lone_job: LoneJob | None = None
        self._tries = 0  # of `_lone_job`

    def note_failure(self, running: int, lone_job: LoneJob | None) -> None:
        """Note a failure with `running` jobs; `lone_job` if that was one."""
        self._failures, self._calm = self._failures + 1, 0
        self._tries = self._tries + 1 if lone_job and lone_job == self._lone_job else 1
        self._lone_job = lone_job
        self._waits, self._has_raised = self._waits + self._has_raised, False
        if self._failures > 2 and running > 1:
            self.max_running = running // 2

    @property
    def takes_prompts(self) -> bool:
        """Whether the cached prompts are to be given up."""
        return max(self._failures, self._tries) > 1

    @property
    def is_hopeless(self) -> bool:
        """Whether the job that was alone is to fail."""
        return self._lone_job is not None and self._tries >= _TRIES_ALONE

    def note_calm_step(self) -> bool:
        """Note a step without a failure; return whether `max_running` has changed."""
        if not (self._failures or self.max_running):
            return False
        self._calm += 1
        if self._calm < _CALM << self._waits:
            return False
        self._failures = self._calm = 0
        if self.max_running is None:
            return False
        self.max_running = None if self.max_running >= _MANY else 2 * self.max_running
        self._waits, self._has_raised = max(self._waits - self._has_raised, 0), self.max_running is not None
        return True
