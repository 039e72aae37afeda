from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tools.silero_vad.levels import read_level

from orchard.gateway.realtime.silero.network import WINDOW, VoiceDetector

SOUNDS = ("speech", "noisy_speech", "two_speakers", "noise", "music", "breath")


@pytest.fixture(scope="module")
def references() -> dict[str, NDArray[np.float32]]:
    """Sounds, and what Silero's ONNX model says of each window: see tools/silero_vad/references.py."""
    with np.load(Path(__file__).parent / "references.npz", allow_pickle=False) as file:
        return dict(file)


@pytest.mark.parametrize("name", SOUNDS)
def test_it_says_what_the_onnx_model_says(references: dict[str, NDArray[np.float32]], name: str) -> None:
    sound, expected = read_level(references[name].astype(np.uint8)), references[f"{name}_probabilities"]
    detector = VoiceDetector()
    for _ in range(2):
        told = [detector.listen(sound[begin : begin + WINDOW]) for begin in range(0, len(expected) * WINDOW, WINDOW)]
        assert np.abs(told - expected).max() < 1e-4
        detector.reset()  # nothing of the first time is left
    assert (max(expected) > 0.9) == ("spe" in name)


def test_the_sounds_are_all_that_are_recorded(references: dict[str, NDArray[np.float32]]) -> None:
    assert {name for name in references if not name.endswith("_probabilities")} == set(SOUNDS)
