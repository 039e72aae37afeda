"""Record what Silero's ONNX model says: `python -m tools.silero_vad.references WHEEL OUT_FILE`.

It needs onnxruntime, which is installed for this only. OUT_FILE is
tests/gateway/realtime/silero/references.npz: sounds of bytes on the mu-law curve, and the probability of each window.
"""

import sys
import zipfile
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from tools.silero_vad.levels import read_level, write_level

MODEL = "silero_vad/data/silero_vad.onnx"
RATE, WINDOW, CONTEXT = 16_000, 512, 64
CLIPS = Path(__file__).parents[2] / "tests" / "demo" / "clips" / "clips.npz"


def make_sounds() -> dict[str, NDArray[np.uint8]]:
    """Return sounds of a few seconds by name."""
    rng = np.random.default_rng(0)
    with np.load(CLIPS, allow_pickle=False) as file:
        voices, ends, data = (file[f"held_{name}"] for name in ("voices", "ends", "data"))
    pieces = np.split(read_level(data), ends[:-1])
    first, second = ([pieces[at] for at in np.flatnonzero(voices == voice)[:4]] for voice in np.unique(voices)[:2])
    pause = np.zeros(RATE // 2, np.float32)
    speech = np.concatenate([pause, *first, pause, *second, pause])
    time = np.arange(2 * RATE) / RATE
    chords = sum(np.sin(2 * np.pi * pitch * time) * np.exp(-(time % 0.5) * 4) for pitch in (220, 277.2, 329.6))
    breath = rng.standard_normal(2 * RATE) * np.sin(np.pi * time / 2) ** 2 * 0.02
    both = np.concatenate([pause, *first])
    both[: len(np.concatenate(second))] += np.concatenate(second)[: len(both)]
    return {
        "speech": write_level(speech),
        "noisy_speech": write_level(speech + rng.standard_normal(len(speech)) * 0.01),
        "two_speakers": write_level(both / 2),
        "noise": write_level(rng.standard_normal(2 * RATE) * 0.1),
        "music": write_level(np.asarray(chords) * 0.2),
        "breath": write_level(breath),
    }


def probabilities(session: "onnxruntime.InferenceSession", sound: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return what the model says of each window."""
    state, context, found = np.zeros((2, 1, 128), np.float32), np.zeros(CONTEXT, np.float32), []
    for begin in range(0, len(sound) - WINDOW + 1, WINDOW):
        window = sound[begin : begin + WINDOW]
        given = {"input": np.concatenate([context, window])[None], "state": state, "sr": np.array(RATE)}
        chance, state = session.run(None, given)
        context = window[-CONTEXT:]
        found.append(chance[0, 0])
    return np.array(found, np.float32)


def write_references(wheel: Path, out: Path) -> None:
    """Write sounds and probabilities into a file."""
    with zipfile.ZipFile(wheel) as archive:
        session = onnxruntime.InferenceSession(archive.read(MODEL))
    sounds = make_sounds()
    told = {f"{name}_probabilities": probabilities(session, read_level(sound)) for name, sound in sounds.items()}
    np.savez_compressed(out, allow_pickle=False, **sounds, **told)


if __name__ == "__main__":
    write_references(Path(sys.argv[1]), Path(sys.argv[2]))
