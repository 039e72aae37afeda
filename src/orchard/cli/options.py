"""The flags of `orchard serve` that say how the model is run, named as other MLX servers name them."""

import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from orchard.core.options import TextOptions

_SIZE = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*(?:([KMGT])(i?)B?|B)?", re.IGNORECASE)
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/?#\s,]+")
_POWERS = {None: 0, "K": 1, "M": 2, "G": 3, "T": 4}
_MOST_BYTES = 2**63 - 1


def parse_size(text: str | int) -> int:
    """Read bytes, as in 1000000, 512MB (of 1000 KB), 8GiB (of 1024 MiB). Raises typer.BadParameter."""
    match = _SIZE.fullmatch(str(text).strip())
    if not match:
        raise typer.BadParameter(f"'{text}' is no size: write bytes, or as in 512MB, 8GB or 8GiB.")
    number, unit, binary = match.groups()
    size = int(Decimal(number) * (1024 if binary else 1000) ** _POWERS[unit and unit.upper()])
    if size > _MOST_BYTES:
        raise typer.BadParameter(f"'{text}' is more than any machine has.")
    return size


def _positive_size(text: str | int) -> int:
    if (size := parse_size(text)) < 1:
        raise typer.BadParameter("it must be at least 1 byte.")
    return size


def _one_of(*allowed: int) -> Callable[[str | int], int]:
    """Make a parser of what Typer, which takes no choice of numbers, would refuse."""

    def parse(text: str | int) -> int:
        for number in allowed:
            if str(text) == str(number):
                return number
        raise typer.BadParameter(f"'{text}' is not one of {', '.join(map(str, allowed))}.")

    return parse


def _origin(text: str) -> str:
    """Read an origin as browsers send it: no path, no slash at the end."""
    origin = text.lower()
    if origin != "*" and not _ORIGIN.fullmatch(origin):
        raise typer.BadParameter(f"'{text}' is no origin: write it as in https://example.com or http://localhost:3000.")
    return origin


def text_options(**values: Any) -> TextOptions:
    """Make the worker's options of checked flags; those that are None or absent keep their defaults.

    Raises typer.BadParameter where two of them don't go together.
    """
    given = {name: value for name, value in values.items() if value is not None}
    paths = {name: str(value) for name, value in given.items() if isinstance(value, Path)}
    try:
        return msgspec.convert(given | paths, TextOptions)
    except msgspec.ValidationError as error:
        raise typer.BadParameter(str(error)) from error


StablePrompts = Annotated[
    bool,
    typer.Option(
        envvar="ORCHARD_STABLE_PROMPTS",
        help="Drop or move the lines of coding agents' system prompts that change with each request (/v1/messages).",
    ),
]
AdapterPath = Annotated[
    Path | None,
    typer.Option(
        envvar="ORCHARD_ADAPTER_PATH",
        exists=True,
        file_okay=False,
        resolve_path=True,
        help="A folder with LoRA weights for the model, in mlx-lm's format.",
    ),
]
ToolCallParser = Annotated[
    str | None,
    typer.Option(
        envvar="ORCHARD_TOOL_CALL_PARSER",
        metavar="NAME",
        show_default="by the chat template",
        help="How the model writes tool calls, as in qwen3_coder or mistral.",
    ),
]
ReasoningParser = Annotated[
    str | None,
    typer.Option(
        envvar="ORCHARD_REASONING_PARSER",
        metavar="NAME",
        show_default="by the chat template",
        help="How the model writes its reasoning, as in qwen3 or none.",
    ),
]
MessageConverter = Annotated[
    str | None,
    typer.Option(
        envvar="ORCHARD_MESSAGE_CONVERTER",
        metavar="NAME",
        show_default="by trying",
        help="How the chat template takes earlier tool calls, as in glm4_moe or mistral.",
    ),
]
DecodeConcurrency = Annotated[
    int, typer.Option(envvar="ORCHARD_DECODE_CONCURRENCY", min=1, help="Answers at once; further ones wait.")
]
QueueSize = Annotated[
    int, typer.Option(envvar="ORCHARD_QUEUE_SIZE", min=1, help="Requests that may wait; one more is refused.")
]
PrefillStepSize = Annotated[
    int | None,
    typer.Option(
        envvar="ORCHARD_PREFILL_STEP_SIZE",
        min=1,
        show_default="by the device",
        help="Prompt tokens read at once while answers are written.",
    ),
]
MaxKvSize = Annotated[
    int | None,
    typer.Option(
        envvar="ORCHARD_MAX_KV_SIZE",
        min=5,
        show_default="all",
        help="Tokens that an answer can look back on; older ones are forgotten, all but the first four.",
    ),
]
KvBits = Annotated[
    int | None,
    typer.Option(
        envvar="ORCHARD_KV_BITS",
        parser=_one_of(2, 3, 4, 6, 8),
        metavar="[2|3|4|6|8]",
        show_default="as the model computes them",
        help="Bits in which keys and values are kept.",
    ),
]
KvGroupSize = Annotated[
    int,
    typer.Option(
        envvar="ORCHARD_KV_GROUP_SIZE",
        parser=_one_of(32, 64, 128),
        metavar="[32|64|128]",
        help="Keys and values that are quantised together.",
    ),
]
QuantizedKvStart = Annotated[
    int,
    typer.Option(
        envvar="ORCHARD_QUANTIZED_KV_START", min=0, help="Shorter sequences keep their keys and values unquantised."
    ),
]
MemoryLimit = Annotated[
    int | None,
    typer.Option(
        envvar="ORCHARD_MEMORY_LIMIT",
        parser=_positive_size,
        metavar="SIZE",
        show_default="what the device recommends",
        help="What weights, keys and values may take together, as in 24GB.",
    ),
]
PromptCacheBytes = Annotated[
    int | None,
    typer.Option(
        envvar="ORCHARD_PROMPT_CACHE_BYTES",
        parser=parse_size,
        metavar="SIZE",
        show_default="by the memory",
        help="What cached prompts may take of that; 0: none are cached.",
    ),
]
PromptCacheDir = Annotated[
    Path | None,
    typer.Option(
        envvar="ORCHARD_PROMPT_CACHE_DIR",
        file_okay=False,
        resolve_path=True,
        help="A folder where cached prompts outlive the server.",
    ),
]
PromptCacheDirBytes = Annotated[
    int,
    typer.Option(
        envvar="ORCHARD_PROMPT_CACHE_DIR_BYTES",
        parser=parse_size,
        metavar="SIZE",
        show_default="10GiB",
        help="What that folder may take.",
    ),
]
ApiKey = Annotated[
    list[str] | None,
    typer.Option(
        envvar="ORCHARD_API_KEY",
        metavar="KEY",
        show_default="none is asked for",
        help="A key that callers must send; may be repeated. Others on this machine can see flags, but no variables.",
    ),
]
ApiKeyFile = Annotated[
    Path | None,
    typer.Option(
        envvar="ORCHARD_API_KEY_FILE",
        dir_okay=False,
        help="A file with further keys, one on each line; # begins a comment.",
    ),
]
CorsOrigin = Annotated[
    list[str] | None,
    typer.Option(
        envvar="ORCHARD_CORS_ORIGIN",
        parser=_origin,
        metavar="ORIGIN",
        show_default="none",
        help="Web pages of this origin, as in https://example.com, may use the server; * lets all; may be repeated.",
    ),
]
ResponsesPath = Annotated[
    Path,
    typer.Option(
        envvar="ORCHARD_RESPONSES_PATH",
        dir_okay=False,
        help="The file that stored responses lie in (/v1/responses); ':memory:': they are forgotten with the server.",
    ),
]
ResponsesTtl = Annotated[
    float,
    typer.Option(
        envvar="ORCHARD_RESPONSES_TTL",
        min=1,
        help="Seconds for which a conversation is stored after the last that was added to it.",
    ),
]
ResponsesMaxBytes = Annotated[
    int,
    typer.Option(
        envvar="ORCHARD_RESPONSES_MAX_BYTES",
        parser=_positive_size,
        metavar="SIZE",
        show_default="1GiB",
        help="What stored responses may take; those that were used least recently make room.",
    ),
]
ResponsesArchiveDir = Annotated[
    Path | None,
    typer.Option(
        envvar="ORCHARD_RESPONSES_ARCHIVE_DIR",
        file_okay=False,
        resolve_path=True,
        show_default="none",
        help="A folder where stored conversations go as JSON when their time is over.",
    ),
]
