"""The service of a model that may take images, audio and video besides text."""

import importlib.util
import logging
from typing import TYPE_CHECKING

from orchard.backends.model_folder import Progress
from orchard.backends.text.model import TextModel
from orchard.backends.text.prompt.chat_template import ChatTemplate
from orchard.backends.text.prompt.media import PromptMedia
from orchard.backends.text.service import TextService
from orchard.core.tasks.text_options import TextOptions
from orchard.device.memory import recommended_bytes

if TYPE_CHECKING:
    from orchard.backends.vision.model import VisionModel

log = logging.getLogger("orchard.worker")

_HAS_MLX_VLM = importlib.util.find_spec("mlx_vlm") is not None


class VisionService(TextService):
    """Serves one model from a folder in mlx-vlm's format; if that fails, as a model for text only."""

    @staticmethod
    def prepare() -> int:
        """Import mlx-vlm if it is installed, and return the bytes that the device lets models use."""
        if _HAS_MLX_VLM:
            import orchard.backends.vision.model  # noqa: F401
        return recommended_bytes()

    def _load(self, path: str, options: TextOptions, progress: Progress) -> "TextModel | VisionModel":
        if options.is_split:
            log.warning("the model is served without images, audio and video: a model on several ranks takes none")
            return super()._load(path, options, progress)
        if not _HAS_MLX_VLM:
            log.warning("the model is served without images, audio and video: they need the extra mlx-orchard[vision]")
            return super()._load(path, options, progress)
        from orchard.backends.vision import model

        try:
            return model.load_vision_model(path, options, progress)
        except model.NoMediaError as error:
            log.warning("the model is served without images, audio and video: %s", error)
            return super()._load(path, options, progress)

    def _media(self, model: "TextModel | VisionModel", template: ChatTemplate) -> PromptMedia | tuple[()] | None:
        if isinstance(model, TextModel):
            return () if _HAS_MLX_VLM else None
        if not self._engine.in_pieces:  # the text after media is read in a later pass
            log.warning("the model is served without images, audio and video: its prompts must be read whole")
            return ()
        return PromptMedia(model, template, lambda: self._most_bytes)
