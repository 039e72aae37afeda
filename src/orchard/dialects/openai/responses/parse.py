"""Parse Responses: turn a body and its stored conversation into a `core.request.Request`."""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from orchard.core.errors import OrchardError
from orchard.core.request import Overflow
from orchard.core.tasks.generate import Generate, Grammar, Message, TextPart
from orchard.dialects.common.fields import has_edit, header_priority, make_request
from orchard.dialects.common.json_body import FreeForm, decode_body, invalid_field, refuse_fields, require
from orchard.dialects.common.media import media_options
from orchard.dialects.common.output import hex_id
from orchard.dialects.openai.fields import (
    answer_grammar,
    answer_sampling,
    json_schema_grammar,
    stop_texts,
    template_args,
)
from orchard.dialects.openai.responses import schema as wire
from orchard.dialects.openai.responses.call import RawBody, ResponseCall, fixed_fields
from orchard.dialects.openai.responses.items import ItemReader, item_type, reference_ids
from orchard.dialects.openai.responses.seal import Unseal, unseal_nothing
from orchard.dialects.openai.responses.stored import normalise_items
from orchard.dialects.openai.responses.tools import Toolbox, make_toolbox

LOGPROBS = "message.output_text.logprobs"
_UNSUPPORTED = {
    "prompt": "this server keeps no prompt templates",
    "moderation": "this server runs no moderation",
}

_raw_decoder = msgspec.json.Decoder(RawBody)
_item_decoder = msgspec.json.Decoder(wire.Item)


def parse(body: bytes, model: str | None = None, default: str | None = None) -> "Draft":
    """Read the body of a request.

    The model is `model`, which the URL names, else the body's, else `default`. Raise OrchardError (invalid_request),
    whose `param` names the field to blame.
    """
    return make_draft(wire.BODY.decode(body, model, default), body)


def parse_compact(body: bytes, default: str | None = None) -> "Draft":
    """Read the body of a request to compact; `default` is its model if it names none. Raise as `parse` does."""
    given = wire.COMPACT_BODY.decode(body, default=default)
    return make_draft(wire.Body(**asdict(given), store=False), body)


def make_draft(decoded: wire.Body, body: bytes) -> "Draft":
    """Check a decoded body, and keep what a response repeats of it. Raise OrchardError (invalid_request)."""
    _check_combinations(decoded)
    return Draft(decoded, decode_body(_raw_decoder, body), reference_ids(decoded.items))


class Draft(Struct, frozen=True):
    """A decoded body. The items that it continues must be looked up before `make_call`.

    `references`: the ids of the stored items that the input refers to.
    """

    body: wire.Body
    raw: RawBody
    references: list[str]

    def make_call(
        self,
        request_id: str,
        priority: str | None = None,
        past: Sequence[bytes] = (),
        referenced: Mapping[str, bytes] | None = None,
        unseal: Unseal = unseal_nothing,
    ) -> ResponseCall:
        """Return the call.

        `priority` is from the header. `past` are the items of the conversation so far, and `referenced` those that the
        input refers to, by id, all as JSON. `unseal` reads compaction items. Raise OrchardError (invalid_request,
        item_not_found).
        """
        body, free_form, referenced = self.body, FreeForm(), referenced or {}
        # Some clients send further tools in an item of the input.
        added = [
            (f"input[{i}].tools[{k}]", entry)
            for i, item in enumerate(body.items)
            if item.type == "additional_tools"
            for k, entry in enumerate(item.tools or ())
        ]
        tools = make_toolbox(body.tools or (), added, body.tool_choice, free_form)
        found = {id_: _item_decoder.decode(item) for id_, item in referenced.items()}
        reader = ItemReader(tools, free_form, unseal, media_options(body))
        before = "conversation" if body.conversation is not None else "previous_response_id"
        past_items = reader.read_stored(past, before)
        messages = _read_messages(body, past_items, found, reader)
        task, turn = _responses_task(body, messages, tools, free_form), body.priority or header_priority(priority)
        hex_ = hex_id(request_id)
        return ResponseCall(
            request=make_request(body, request_id, task, turn, _responses_overflow(body)),
            body=body,
            hex=hex_,
            served_tools=tools.served_tools,
            unserved_tools=tools.unserved_tools,
            fixed_fields=fixed_fields(body, self.raw, f"resp_{hex_}"),
            input=normalise_items(self.raw.input, hex_, referenced, past_items),
        )


def _check_combinations(body: wire.Body) -> None:
    """Raise OrchardError if fields contradict each other, or need something that this server doesn't have."""
    refuse_fields(body, _UNSUPPORTED)
    if body.conversation is not None and body.previous_response_id is not None:
        raise invalid_field(
            "previous_response_id", "and `conversation` can't be used together: each says what came before."
        )
    if body.truncation == "auto" and body.context_overflow == "summarize":
        raise invalid_field("context_overflow", "and `truncation` contradict each other: 'summarize' excludes 'auto'.")
    if body.background and body.store is False:
        raise invalid_field("store", "must be true when `background` is true: nobody could retrieve the response.")
    empty = body.input is None or body.input == []
    if empty and body.instructions is None and body.previous_response_id is None and body.conversation is None:
        raise invalid_field("input", "is required.")


def _read_messages(
    body: wire.Body, past: Sequence[wire.Item], referenced: Mapping[str, wire.Item], reader: ItemReader
) -> tuple[Message, ...]:
    known = {item.id for item in past}
    # The reader skips the remaining references, which are to items that the conversation already has.
    reader.read([item if item.id in known else _resolve_item(item, referenced) for item in body.items])
    messages = reader.messages()
    if body.instructions:
        messages = (Message("system", (TextPart(body.instructions),)), *messages)
    if not messages:
        raise invalid_field("input", "is required: the conversation is empty.")
    return messages


def _responses_task(body: wire.Body, messages: tuple[Message, ...], tools: Toolbox, free_form: FreeForm) -> Generate:
    form = answer_grammar(body, _format_grammar(body.text, free_form), free_form)
    effort = body.reasoning.effort if body.reasoning else None
    thinking, budget = body.enable_thinking, body.thinking_budget
    return Generate(
        messages=messages,
        tools=tools.tools,
        must_call=tools.must_call,
        parallel_tool_calls=body.parallel_tool_calls is not False,
        # An answer that must be a call has no text to match a grammar.
        grammar=None if tools.must_call else form,
        sampling=answer_sampling(body),
        max_tokens=1 if body.warms_up else body.max_output_tokens,
        stop=stop_texts(body),
        top_logprobs=body.top_logprobs or (0 if LOGPROBS in (body.include or ()) else None),
        template_args=template_args(body, free_form, effort=effort, thinking=thinking, budget=budget),
        thinking_budget=budget,
        speculates=body.speculation is not False,
    )


def _responses_overflow(body: wire.Body) -> Overflow | None:
    """Return how to treat a conversation that is too long; messages that `truncation` drops are not summarised."""
    if body.context_overflow is not None:
        return body.context_overflow
    if body.truncation != "auto" and has_edit(body.context_management, "compaction"):
        return "summarize"
    return "error" if body.truncation else None


def _resolve_item(item: wire.Item, referenced: Mapping[str, wire.Item]) -> wire.Item:
    """Return the item that a reference refers to, or the item itself. Raise OrchardError (item_not_found)."""
    if item_type(item, "input") != "item_reference":
        return item
    found = referenced.get(item.id or "")
    if found is None:
        message = (
            f"no item '{item.id}' here: with `previous_response_id` or `conversation`, a reference must be to an item "
            "of that chain or conversation; otherwise all references must be to items of one chain of your responses"
        )
        raise OrchardError("item_not_found", message, param="input")
    return found


def _format_grammar(text: wire.TextConfig | None, free_form: FreeForm) -> Grammar | None:
    if text is None or text.format is None or text.format.type == "text":
        return None
    if text.format.type == "json_object":
        return Grammar("json_object", None, "text.format")
    wanted, strict = require(text.format.json_schema, "text.format.schema"), bool(text.format.strict)
    return json_schema_grammar(wanted, "text.format", "text.format.schema", free_form, strict=strict)
