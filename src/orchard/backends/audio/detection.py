"""Finds speech in a recording by its loudness."""

import numpy as np
from numpy.typing import NDArray

from orchard.core.tasks.transcribe import SpeechDetection

_FRAMES_PER_SECOND = 100


def speech_frames(levels: NDArray[np.float32], detection: SpeechDetection) -> list[tuple[int, int]]:
    """Return the ranges of frames in which somebody may speak, each as (first, last + 1).

    `levels`: the loudness of each frame, on a logarithmic scale; its 5th and 95th percentiles count as the quietest and
    the loudest. The result is empty if no frame is louder than the threshold.
    """
    quiet, loud = np.percentile(levels, (5, 95))
    is_loud = levels > quiet + detection.threshold * (loud - quiet)
    at = np.flatnonzero(is_loud)
    if not len(at):
        return []
    padding, silence = round(detection.padding * _FRAMES_PER_SECOND), round(detection.silence * _FRAMES_PER_SECOND)
    breaks = np.flatnonzero(np.diff(at) > max(silence, 1))
    starts = np.maximum(at[np.concatenate([[0], breaks + 1])] - padding, 0)
    ends = np.minimum(at[np.concatenate([breaks, [len(at) - 1]])] + 1 + max(padding, silence), len(levels))
    found: list[tuple[int, int]] = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found
