"""The page on audio says what each kind of transcription model takes."""

import inspect
from importlib import import_module
from pathlib import Path

from orchard.backends.audio import listeners
from orchard.core.model_config import TRANSCRIPTION_KINDS

PAGE = Path(__file__).parents[2] / "docs" / "audio.md"
HEAD = "| kind | `language` | `prompt` | `temperature` | times of segments and words |\n|---|---|---|---|---|\n"


def row(kind: str) -> str:
    module = import_module(f"mlx_audio.stt.models.{kind}")
    model = module.Qwen3ASRModel if kind == "qwen3_asr" else module.Model  # which holds one of those
    takes = (
        kind in listeners._LANGUAGES,
        kind in listeners._PROMPTS,
        "temperature" in inspect.signature(model.generate).parameters,
        kind in listeners._KINDS_WITH_TIMES,
    )
    return "".join([f"| `{kind}` |", *(" yes |" if one else " |" for one in takes), "\n"])


def test_the_table_is_that_of_the_code() -> None:
    kinds = sorted(set(TRANSCRIPTION_KINDS.values()))
    assert f"\n{HEAD}{''.join(map(row, kinds))}\n" in PAGE.read_text()
