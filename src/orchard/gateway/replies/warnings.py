"""The header `warning` (RFC 7234, 5.5), for requests of which a part is not served."""

import logging
from collections.abc import Sequence

from starlette.types import Scope

log = logging.getLogger("orchard.gateway.warnings")

WARNING_HEADER = "warning"
_MOST_SHOWN, _MOST_CHARS = 16, 64


def warning_header(text: str) -> dict[str, str]:
    """Return the header with a warning of one line."""
    plain = text.encode("ascii", "replace").decode().replace('"', "'")
    return {WARNING_HEADER: f'199 orchard "{plain}"'}


def unserved_tools_warning(tools: Sequence[str]) -> str:
    """Return the warning about tools that the model doesn't see; callers may have chosen their names."""
    shown = [ascii(name[:_MOST_CHARS]) for name in dict.fromkeys(tools)]
    more = f" and {len(shown) - _MOST_SHOWN} more" if len(shown) > _MOST_SHOWN else ""
    return f"tools that this server can't run, so the model doesn't see them: {', '.join(shown[:_MOST_SHOWN])}{more}"


def transcription_warning(model: str, transcriber: str) -> str:
    """Return the warning about audio of which a model reads only the transcript."""
    return f"the audio was transcribed by {transcriber!a}, because {model[:_MOST_CHARS]!a} can't hear"


def warn(scope: Scope, text: str) -> None:
    """Log a warning about a request, whose response gets the header."""
    log.warning("%s", text)
    scope["state"]["warnings"] = [*scope["state"].get("warnings", ()), text]
