"""OpenAI's Embeddings: none of the models that are served gives any, so a request is refused with the reason."""

from typing import Any

import msgspec
from msgspec import Struct

from orchard.core.errors import OrchardError
from orchard.dialects.common.fields import ModelName, schema
from orchard.dialects.common.json_body import decode, invalid


class Body(Struct):
    """An Embeddings request."""

    model: ModelName
    input: Any = None


class DeploymentBody(Struct):
    """A request to a deployment, which names the model in the body's stead."""

    input: Any = None


_decoder = msgspec.json.Decoder(Body)


def parse(body: bytes) -> str:
    """Give the model that is asked for. Raises OrchardError (invalid_request)."""
    return decode(_decoder, body).model


def refusal(model: str) -> OrchardError:
    """Say why a text model can't answer."""
    return invalid("model", f"model '{model}' is a text model and gives no embeddings.")


def body_schema(body: type[Struct] = Body) -> dict[str, Any]:
    """Give the JSON schema of the body."""
    return schema(body)
