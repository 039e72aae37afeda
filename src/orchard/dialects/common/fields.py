"""What the bodies of all dialects share: the requested model, and how it is served."""

from functools import cache
from typing import Annotated, Any, Generic, TypeVar, get_args

import msgspec
from msgspec import Meta, Struct

from orchard.core.errors import OrchardError
from orchard.core.request import Adapter, Overflow, Priority, Request, Task
from orchard.dialects.common.json_body import decode_body, invalid_field

PRIORITY_HEADER = "X-Priority"
MAX_STOP_CHARS = 1024
MAX_TTL = 10 * 365 * 24 * 3600
INT64_MAX = 2**63 - 1
_PRIORITIES: tuple[Priority, ...] = get_args(Priority)

ModelName = Annotated[str, Meta(min_length=1, max_length=1024)]
NonEmpty = Annotated[str, Meta(min_length=1)]
Stop = Annotated[str, Meta(min_length=1, max_length=MAX_STOP_CHARS)]
Refused = Annotated[Any, Meta(description="Not supported: a request that sets it is refused.")]
Natural = Annotated[int, Meta(ge=0, le=INT64_MAX)]
AdapterName = Annotated[NonEmpty, Meta(description="A LoRA adapter of the model's configuration: its name or folder.")]
Ttl = Annotated[float, Meta(gt=0, le=MAX_TTL, description="Seconds without a request until the model is unloaded.")]


Speculation = Annotated[
    bool, Meta(description="False: no tokens are guessed and verified together. The answer is the same either way.")
]
CacheSalt = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=1024,
        description="Cached prompts are only shared with the caller's requests that have the same salt.",
    ),
]


class ModelFields(Struct, kw_only=True):
    """The requested model."""

    model: ModelName | None = None

    @property
    def model_name(self) -> str:
        """The model of a body that `BodyType.decode` has returned."""
        assert self.model is not None
        return self.model


class ServingFields(ModelFields, kw_only=True):
    """The requested model, and how it is served."""

    adapters: AdapterName | None = None
    adapter_path: AdapterName | None = None
    ttl: Ttl | None = None
    cache_salt: CacheSalt | None = None


B = TypeVar("B", bound=ModelFields)


class BodyType(Generic[B]):
    """A kind of body: how it is decoded, and the JSON schema that describes it.

    `ignored` names the fields that are accepted and have no effect. `asked` is the kind of model that answers, for the
    error if no model is named.
    """

    def __init__(self, body: type[B], ignored: tuple[str, ...] = (), model_kind: str = "text model") -> None:
        # A deployment's URL names the model, so the body's `model` may be anything.
        doc = {"__doc__": "A request to a deployment, which names the model instead of the body."}
        model: list[tuple[str, type, Any]] = [("model", Any, None)]
        deployed = msgspec.defstruct("DeploymentBody", model, bases=(body,), kw_only=True, namespace=doc)
        self._ignored = ignored
        self._model_kind = model_kind
        self._decoder = msgspec.json.Decoder(body)
        self._deployment_decoder: msgspec.json.Decoder[B] = msgspec.json.Decoder(deployed)

    def decode(self, body: bytes, model: str | None = None, default: str | None = None) -> B:
        """Decode a body and set its model: `model`, which the URL names, else its own, else `default`.

        Raise OrchardError (invalid_request) if it is not of this type, or there is no model.
        """
        decoded = decode_body(self._decoder if model is None else self._deployment_decoder, body)
        decoded.model = model or decoded.model or default
        if decoded.model is None:
            message = f"is required, unless the server has exactly one {self._model_kind}. "
            message += "`GET /v1/models` lists the models that it has, with their kinds; "
            raise invalid_field("model", message + "`orchard serve FOLDER` serves the model in a folder.")
        return decoded

    def schema(self, *, deployment: bool = False) -> dict[str, Any]:
        """Return the JSON schema of a body, or of that of a request to a deployment."""
        return body_schema((self._deployment_decoder if deployment else self._decoder).type, self._ignored)


@cache
def body_schema(body: type[Struct], ignored: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the JSON schema of a body without any `$ref`, including the fields that are accepted and ignored.

    It is cached, because several routes use it and making one takes milliseconds.
    """
    found = msgspec.json.schema(body)
    definitions = found.pop("$defs")
    whole: dict[str, Any] = _inline_references(found, definitions)
    whole["properties"].update({name: {"description": "Accepted and ignored."} for name in ignored})
    return whole


def _inline_references(node: Any, definitions: dict[str, Any]) -> Any:
    match node:
        case {"$ref": str(reference)}:
            return _inline_references(definitions[reference.rsplit("/", 1)[-1]], definitions)
        case dict():
            return {key: _inline_references(value, definitions) for key, value in node.items()}
        case list():
            return [_inline_references(value, definitions) for value in node]
    return node


def make_request(
    body: ServingFields, request_id: str, task: Task, priority: Priority, overflow: Overflow | None = None
) -> Request:
    """Return the request of a decoded body. Raise OrchardError if the body names two adapters."""
    if body.adapters and body.adapter_path not in (None, body.adapters):
        raise invalid_field("adapter_path", "and `adapters` name two different adapters; give only one of them.")
    name, param = (body.adapters, "adapters") if body.adapters else (body.adapter_path, "adapter_path")
    adapter = Adapter(name, param) if name else None
    return Request(request_id, body.model_name, task, priority, adapter, body.ttl, overflow, cache_salt=body.cache_salt)


def header_priority(header: str | None) -> Priority:
    """Return the priority in a request's header; None: normal. Raise OrchardError if it is not valid."""
    for known in _PRIORITIES:
        if header == known:
            return known
    if header is None:
        return "normal"
    message = f"The header `{PRIORITY_HEADER}` must be one of {', '.join(map(repr, _PRIORITIES))}."
    raise OrchardError("invalid_request", message, param=PRIORITY_HEADER)


def has_edit(edits: object, kind: str) -> bool:
    """Return whether `edits`, an unchecked list of changes to the context, has one of this type."""
    return isinstance(edits, list) and any(isinstance(edit, dict) and edit.get("type") == kind for edit in edits)
