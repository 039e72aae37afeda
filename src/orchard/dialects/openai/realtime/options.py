"""What a session and its responses are set to: defaults, what clients change, and how it is shown."""

import sys
from collections.abc import Sequence
from typing import Literal

from msgspec import UNSET, Struct, json
from msgspec.structs import replace

from orchard.core.tasks.generate import Generate, Message, TextPart, Tool
from orchard.dialects.common.json_body import FreeForm, invalid_choice, invalid_field, refuse_fields
from orchard.dialects.common.tools import Tools
from orchard.dialects.openai.output import Fields
from orchard.dialects.openai.realtime import schema as wire
from orchard.dialects.openai.speech import VoiceId

_NO_LOGPROBS = {"include": "no model here tells log-probabilities of a transcription"}
_NO_PROMPTS = {"prompt": "this server keeps no prompt templates"}
_NO_NOISE = {"noise_reduction": "noise is not reduced here"}
_ONE_LANGUAGE = {
    "delay": "a turn is transcribed once it has ended",
    "keywords": "give them in `prompt`",
    "languages": "give one `language`, or none, and the model finds out",
}
# An empty array takes about this many times as much memory as its JSON.
_MOST_JSON_GROWTH = 27
_NO_TIMEOUT = {"idle_timeout_ms": "no response begins by itself when nobody speaks"}
_NOT_FOR_SILENCE = {"eagerness": "it is for 'semantic_vad'; set `silence_duration_ms`"}
_NOT_FOR_MODELS = dict.fromkeys(
    ("threshold", "prefix_padding_ms", "silence_duration_ms"), "it is for 'server_vad'; set `eagerness`"
)


class AnswerOptions(Struct, frozen=True, kw_only=True):
    """How a response is made; `voice` None: the speech model's first one, `max_output_tokens` None: no limit."""

    modality: wire.Modality = "audio"
    instructions: str = ""
    tools: tuple[wire.RealtimeTool, ...] = ()
    tool_choice: str | wire.FunctionChoice = "auto"
    max_output_tokens: int | None = None
    parallel_tool_calls: bool = True
    effort: str | None = None
    format: str = "audio/pcm"
    voice: str | None = None
    speed: float = 1.0

    @property
    def nbytes(self) -> int:
        """At most how much memory the instructions and the tools take."""
        return sys.getsizeof(self.instructions) + _MOST_JSON_GROWTH * len(json.encode(self.tools))

    def check_tools(self, where: str = "") -> tuple[tuple[Tool, ...], bool]:
        """Return the functions that may be called, and whether one must be. Raise OrchardError (invalid_request).

        `where` is the path of the fields, with a dot at its end.
        """
        tools = Tools(FreeForm())
        for at, tool in enumerate(self.tools):
            path = f"{where}tools[{at}]"
            if tool.type not in (None, "function"):
                raise invalid_field(f"{path}.type", "must be 'function': this server calls no other tools.")
            if not tool.name:
                raise invalid_field(f"{path}.name", "is required.")
            tools.add(path, tool.name, tool.description, tool.parameters, False)
        choice = self.tool_choice
        if isinstance(choice, wire.FunctionChoice):
            if choice.type != "function":
                raise invalid_choice(f"{where}tool_choice.type", ("function",))
            return tools.pick([choice.name or ""], f"{where}tool_choice.name"), True
        if choice == "required" and not self.tools:
            raise invalid_field(f"{where}tool_choice", "may only be 'required' when there are tools to call.")
        return () if choice == "none" else tools.as_tuple(), choice == "required"

    def make_task(self, messages: Sequence[Message]) -> Generate:
        """Return the task of a response to these messages. Raise OrchardError (invalid_request)."""
        tools, must_call = self.check_tools()
        system = (Message("system", (TextPart(self.instructions),)),) if self.instructions else ()
        thinking = {} if self.effort is None else {"enable_thinking": self.effort != "none"}
        return Generate(
            messages=(*system, *messages),
            tools=tools,
            must_call=must_call,
            parallel_tool_calls=self.parallel_tool_calls,
            max_tokens=self.max_output_tokens,
            template_args=thinking | ({"reasoning_effort": self.effort} if self.effort else {}),
            hide_reasoning=True,
        )


class SessionOptions(Struct, frozen=True, kw_only=True):
    """What a session is set to; `expires_at` is in seconds since the epoch."""

    id: str
    model: str
    expires_at: int
    type: Literal["realtime", "transcription"] = "realtime"
    answer: AnswerOptions = AnswerOptions()
    truncation: Literal["auto", "disabled"] = "auto"
    input_format: str = "audio/pcm"
    transcription: wire.Transcription | None = None
    turn_detection: wire.TurnDetection | None = wire.ServerVad()


def update_answer(options: AnswerOptions, fields: wire.AnswerFields, where: str) -> AnswerOptions:
    """Return the options with what a client changes in the fields at a path. Raise OrchardError (invalid_request)."""
    refuse_fields(fields, _NO_PROMPTS, where)
    new: Fields = {}
    if fields.output_modalities is not UNSET:
        if len(set(fields.output_modalities)) > 1:
            raise invalid_field(
                f"{where}output_modalities", "must be ['text'] or ['audio'], whose answers have a transcript."
            )
        new["modality"] = fields.output_modalities[0]
    if fields.instructions is not UNSET:
        new["instructions"] = fields.instructions or ""
    if fields.tools is not UNSET:
        new["tools"] = tuple(fields.tools or ())
    if fields.tool_choice is not UNSET:
        new["tool_choice"] = fields.tool_choice or "auto"
    if fields.max_output_tokens is not UNSET:
        most = fields.max_output_tokens
        new["max_output_tokens"] = most if isinstance(most, int) else None
    if fields.parallel_tool_calls is not UNSET:
        new["parallel_tool_calls"] = fields.parallel_tool_calls is not False
    if fields.reasoning is not UNSET:
        new["effort"] = fields.reasoning.effort if fields.reasoning else None
    if fields.audio is not UNSET and fields.audio.output is not UNSET:
        output = fields.audio.output
        if output.format is not UNSET:
            new["format"] = output.format.type
        if output.voice is not UNSET:
            new["voice"] = output.voice.id if isinstance(output.voice, VoiceId) else output.voice
        if output.speed is not UNSET:
            new["speed"] = output.speed
    changed = replace(options, **new)
    changed.check_tools(where)
    return changed


def update_session(options: SessionOptions, fields: wire.SessionFields) -> SessionOptions:
    """Return the options with what a client changes. Raise OrchardError (invalid_request)."""
    refuse_fields(fields, _NO_LOGPROBS, "session.")
    new: Fields = {"type": fields.type, "answer": update_answer(options.answer, fields, "session.")}
    if fields.model is not UNSET and fields.model != options.model:
        raise invalid_field("session.model", f"can't be changed: this session was opened with '{options.model}'.")
    if fields.truncation is not UNSET:
        new["truncation"] = fields.truncation
    if fields.audio is not UNSET and fields.audio.input is not UNSET:
        given = fields.audio.input
        refuse_fields(given, _NO_NOISE, "session.audio.input.")
        if given.format is not UNSET:
            new["input_format"] = given.format.type
        if given.transcription is not UNSET:
            if given.transcription:
                refuse_fields(given.transcription, _ONE_LANGUAGE, "session.audio.input.transcription.")
            new["transcription"] = given.transcription
        if given.turn_detection is not UNSET:
            if detection := given.turn_detection:
                others = _NOT_FOR_SILENCE if isinstance(detection, wire.ServerVad) else _NOT_FOR_MODELS
                refuse_fields(detection, _NO_TIMEOUT | others, "session.audio.input.turn_detection.")
            new["turn_detection"] = detection
    return replace(options, **new)


def session_fields(options: SessionOptions) -> Fields:
    """Return a session as its events show it."""
    transcription = options.transcription
    given: Fields = {
        "format": format_fields(options.input_format),
        "noise_reduction": None,
        "transcription": transcription
        and {"model": transcription.model, "language": transcription.language, "prompt": transcription.prompt},
        "turn_detection": options.turn_detection and _detection_fields(options.turn_detection),
    }
    shown: Fields = {"type": options.type, "id": options.id, "expires_at": options.expires_at, "include": None}
    if options.type == "transcription":
        return shown | {"object": "realtime.transcription_session", "audio": {"input": given}}
    answer = options.answer
    return shown | {
        "object": "realtime.session",
        "model": options.model,
        "output_modalities": [answer.modality],
        "instructions": answer.instructions,
        "tools": [tool_fields(tool) for tool in answer.tools],
        "tool_choice": answer.tool_choice,
        "max_output_tokens": answer.max_output_tokens or "inf",
        "parallel_tool_calls": answer.parallel_tool_calls,
        "reasoning": {"effort": answer.effort} if answer.effort not in (None, "none") else None,
        "truncation": options.truncation,
        "tracing": None,
        "prompt": None,
        "audio": {
            "input": given,
            "output": {"format": format_fields(answer.format), "voice": answer.voice, "speed": answer.speed},
        },
    }


def _detection_fields(detection: wire.TurnDetection) -> Fields:
    turns = {"create_response": detection.create_response, "interrupt_response": detection.interrupt_response}
    if isinstance(detection, wire.SemanticVad):
        return {"type": "semantic_vad", "eagerness": detection.eagerness, **turns}
    return {
        "type": "server_vad",
        "threshold": detection.threshold,
        "prefix_padding_ms": detection.prefix_padding_ms,
        "silence_duration_ms": detection.silence_duration_ms,
        **turns,
        "idle_timeout_ms": None,
    }


def format_fields(name: str) -> Fields:
    """Return a format of audio as events show it."""
    return {"type": name, "rate": 24_000} if name == "audio/pcm" else {"type": name}


def tool_fields(tool: wire.RealtimeTool) -> Fields:
    """Return a tool as events show it."""
    return {"type": "function", "name": tool.name, "description": tool.description, "parameters": tool.parameters}
