"""The bundled models; training/ in the repository has the scripts that made them.

Nothing here imports MLX, so that the gateway can use it.
"""

from pathlib import Path

MODEL_PATH = Path(__file__).parent / "model"
"""The folder of the text model."""
VISION_MODEL_PATH = Path(__file__).parent / "vision_model"
"""The folder of the model that looks at pictures."""
WHISPER_MODEL_PATH = Path(__file__).parent / "whisper_model"
"""The folder of the model that transcribes speech."""
