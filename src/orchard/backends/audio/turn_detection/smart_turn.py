"""mlx-audio's Smart Turn: a model that hears whether somebody who has paused has finished speaking."""

import contextlib
import io
import logging
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx_audio.vad.utils
import numpy as np
from mlx.utils import tree_flatten

from orchard.backends.audio.decode import RATE
from orchard.backends.model_folder import evaluate_weights, explain_load_errors, forbid_code, read_config
from orchard.backends.resampling import Samples, resample
from orchard.core.model_config import TURN_DETECTION_KINDS
from orchard.core.tasks.judge_turn import JudgeTurn, TurnJudgement
from orchard.device.out_of_memory import retry_once

log = logging.getLogger("orchard.worker")

_LIBRARY = "mlx-audio"


class SmartTurn:
    """A loaded model. Only the thread that owns MLX uses it."""

    def __init__(self, network: Any) -> None:
        """Raise ValueError if the network reads no samples at `RATE`."""
        if (rate := network.config.processor_config.sampling_rate) != RATE:
            raise ValueError(f"it reads {rate:,} samples per second, and {RATE:,} are served")
        self._network = network
        self.weights_bytes = sum(array.nbytes for _, array in tree_flatten(network.parameters()))

    def judge(self, task: JudgeTurn) -> TurnJudgement:
        """Judge a turn. Raise OrchardError("insufficient_memory")."""
        samples = np.frombuffer(task.sound, "<i2").astype(np.float32) / np.float32(32768)
        return self.judge_samples(
            np.concatenate([np.zeros(0, np.float32), *resample(iter([samples]), task.rate, RATE)])
        )

    def judge_samples(self, samples: Samples) -> TurnJudgement:
        """Judge samples in [-1, 1] at `RATE`. Raise OrchardError("insufficient_memory")."""
        found = retry_once(lambda: self._network.predict_endpoint(samples))
        mx.clear_cache()
        return TurnJudgement(found.probability, bool(found.prediction))


def load_smart_turn(folder: Path, progress: Callable[[float], None]) -> SmartTurn:
    """Load a model; download nothing and run no code in its folder. Raise OrchardError("model_failed")."""
    config = read_config(folder, _LIBRARY)
    with explain_load_errors(folder, _LIBRARY), forbid_code():
        if (kind := config.get("model_type")) not in TURN_DETECTION_KINDS:
            raise ValueError(f"models of the type {kind} are not served for turn detection")
        with contextlib.redirect_stdout(io.StringIO()) as said:  # the library prints what it does
            network = mlx_audio.vad.utils.load_model(folder, lazy=True, strict=True)
        log.debug("%s says: %s", _LIBRARY, said.getvalue())
        found = SmartTurn(network)
    evaluate_weights(folder, network, progress, _LIBRARY)
    with explain_load_errors(folder, _LIBRARY):  # weights with wrong shapes only fail now
        if not math.isfinite(found.judge_samples(np.zeros(RATE, np.float32)).probability):
            raise ValueError("its weights give no probability: they are broken")
    return found
