"""Parse a chat. It is stored as a response of OpenAI's Responses API, so it becomes the body of one."""

from typing import Any

import msgspec

from orchard.core.media import is_data_url
from orchard.dialects.common.json_body import invalid_field, require
from orchard.dialects.lmstudio.chat import schema as wire
from orchard.dialects.lmstudio.chat.encode import LMStudioChat

_ID = "resp_"


def parse(body: bytes, *, default: str | None = None) -> LMStudioChat:
    """Read the body of a request; `default` is the model of a body that names none.

    Raise OrchardError (invalid_request), whose `param` names the field to blame.
    """
    decoded = wire.BODY.decode(body, default=default)
    if decoded.integrations:
        raise invalid_field(
            "integrations", "are not supported: this server calls no tools itself. /v1/responses lets a client do it."
        )
    previous = decoded.previous_response_id
    if previous is not None and not previous.startswith(_ID):
        raise invalid_field("previous_response_id", f"must start with '{_ID}'.")
    return LMStudioChat(
        stream=bool(decoded.stream),
        stored=decoded.store is not False,
        reasoning=decoded.reasoning,
        window=decoded.context_length,
        keeps_instructions=decoded.system_prompt is None,
        response_body=msgspec.json.encode(_response_fields(decoded)),
    )


def _response_fields(body: wire.Body) -> dict[str, Any]:
    """Return the same request as a body of OpenAI's: https://platform.openai.com/docs/api-reference/responses."""
    given: dict[str, Any] = {
        "instructions": body.system_prompt,
        "previous_response_id": body.previous_response_id,
        "temperature": body.temperature,
        "top_p": body.top_p,
        "top_k": body.top_k,
        "min_p": body.min_p,
        "repetition_penalty": body.repeat_penalty,
        "max_output_tokens": body.max_output_tokens,
    }
    if body.reasoning in ("off", "on"):
        given["enable_thinking"] = body.reasoning == "on"
    elif body.reasoning:
        given["reasoning"] = {"effort": body.reasoning}
    parts = [_response_part(item, f"input[{i}]") for i, item in enumerate(_items(body))]
    said = [{"type": "message", "role": "user", "content": parts}]
    fixed = {"model": body.model_name, "input": said, "stream": bool(body.stream), "store": body.store is not False}
    return fixed | {name: value for name, value in given.items() if value is not None}


def _items(body: wire.Body) -> list[wire.InputItem]:
    return [wire.InputItem("message", body.input)] if isinstance(body.input, str) else body.input


def _response_part(item: wire.InputItem, where: str) -> dict[str, Any]:
    if item.type == "message":
        return {"type": "input_text", "text": require(item.content, f"{where}.content")}
    url = require(item.data_url, f"{where}.data_url")
    if not is_data_url(url):
        raise invalid_field(f"{where}.data_url", "must be a data: URL with an image in base64.")
    return {"type": "input_image", "image_url": url}
