from tests.support.models import model, model_folder
from tests.support.vision_models import vision_folder

__all__ = ["model", "model_folder", "vision_folder"]
