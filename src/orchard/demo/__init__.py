"""The bundled demo model; tools/demo_model in the repository has the scripts that made it.

``MODEL_PATH`` is the model's folder. Nothing here imports MLX, so that the gateway can use it.
"""

from pathlib import Path

MODEL_PATH = Path(__file__).parent / "model"
