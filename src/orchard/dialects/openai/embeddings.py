"""OpenAI's Embeddings: no model that is served makes any, so a request is refused with the reason."""

from typing import Any

from orchard.core.errors import OrchardError
from orchard.dialects.common.fields import BodyType, ModelFields


class EmbeddingsBody(ModelFields, kw_only=True):
    """An Embeddings request."""

    input: Any = None


BODY = BodyType(EmbeddingsBody)


def refusal(model: str) -> OrchardError:
    """Return the error that says why a text model can't answer."""
    message = f"model '{model}' is a text model and gives no embeddings."
    return OrchardError("invalid_request", message, param="model")
