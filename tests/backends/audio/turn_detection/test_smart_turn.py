import json
import math
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from orchard.backends.audio.decode import RATE
from orchard.backends.audio.turn_detection.smart_turn import SmartTurn, load_smart_turn
from orchard.core.errors import OrchardError
from orchard.core.tasks.judge_turn import JudgeTurn
from tests.support.sounds import noise
from tests.support.turn_models import make_smart_turn


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> SmartTurn:
    return load_smart_turn(make_smart_turn(tmp_path_factory.mktemp("turns")), lambda fraction: None)


@pytest.mark.parametrize("seconds", [0.3, 5.0, 11.3])
def test_a_judgement_is_the_librarys(model: SmartTurn, seconds: float) -> None:
    sound = noise(seconds)
    expected = model._network.predict_endpoint(sound.astype(np.float32) / np.float32(32768))
    found = model.judge(JudgeTurn(sound.tobytes(), RATE))
    assert found.probability == expected.probability
    assert found.is_over == bool(expected.prediction)


def test_sounds_are_judged_apart_at_every_rate(model: SmartTurn) -> None:
    """The same tone at another rate is the same for the model."""

    def judge(hertz: float, rate: int) -> float:
        tone = np.sin(2 * np.pi * hertz * np.arange(2 * rate) / rate) * 9000
        found = model.judge(JudgeTurn(tone.astype("<i2").tobytes(), rate)).probability
        return math.log(found / (1 - found))

    assert judge(200, 24_000) == pytest.approx(judge(200, RATE), abs=0.2)
    assert judge(200, 8_000) == pytest.approx(judge(200, RATE), abs=0.2)
    assert abs(judge(200, RATE) - judge(900, RATE)) > 1


@pytest.mark.parametrize("bias", [-50.0, 50.0])
def test_its_threshold_decides(tmp_path: Path, bias: float) -> None:
    model = load_smart_turn(make_smart_turn(tmp_path, bias=bias), lambda fraction: None)
    assert model.judge_samples(np.zeros(RATE, np.float32)).is_over == (bias > 0)


def test_memory_that_is_short_once_is_tried_again(model: SmartTurn, monkeypatch: pytest.MonkeyPatch) -> None:
    judge, fails = type(model._network).predict_endpoint, [False, True]

    def short(self: Any, samples: Any) -> Any:
        if fails.pop():
            raise RuntimeError("[malloc] Unable to allocate 8 bytes.")
        return judge(self, samples)

    monkeypatch.setattr(type(model._network), "predict_endpoint", short)
    model.judge_samples(np.zeros(RATE, np.float32))
    assert fails == []


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"model_type": "silero_vad"}, "models of the type silero_vad are not served for turn detection"),
        ({"processor_config": {"sampling_rate": 8}}, "it reads 8 samples per second, and 16,000 are served"),
        ({"encoder_config": {"d_model": 48}}, "its weights do not fit its config.json"),
    ],
    ids=str,
)
def test_other_models_are_refused(tmp_path: Path, change: dict[str, Any], match: str) -> None:
    folder = make_smart_turn(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | change))
    with pytest.raises(OrchardError, match=match):
        load_smart_turn(folder, lambda fraction: None)


def test_broken_weights_are_refused(tmp_path: Path) -> None:
    folder = make_smart_turn(tmp_path)
    weights: Any = mx.load(str(folder / "model.safetensors"))
    weights["classifier_6.bias"] = mx.array([float("nan")])
    mx.save_safetensors(str(folder / "model.safetensors"), weights)
    with pytest.raises(OrchardError, match="its weights give no probability"):
        load_smart_turn(folder, lambda fraction: None)
