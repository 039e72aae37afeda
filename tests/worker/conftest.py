from tests.support.models import model, model_folder

__all__ = ["model", "model_folder"]
