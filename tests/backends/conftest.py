from tests.models import model, model_folder

__all__ = ["model", "model_folder"]
