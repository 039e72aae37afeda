"""`orchard run`: talk to a model in the terminal, or answer one question."""

import base64
import mimetypes
import sys
from collections.abc import Iterable
from pathlib import Path

from orchard.cli.chat import ChatSession, converse, print_answer, print_wrapped
from orchard.cli.models.pull import fetch_missing
from orchard.cli.own_server import open_server
from orchard.cli.settings.values import printable_text
from orchard.core.errors import OrchardError
from orchard.gateway.models.sources import DEMO, REAL_MODEL

_HINT = "/help lists commands, Ctrl-C stops an answer, Ctrl-D or /exit quits."


def run_model(
    model: str | None, question: str, images: Iterable[Path], url: str | None, api_key: str | None, *, sure: bool
) -> None:
    """Hold a conversation, or answer only the question, the piped text or both. Raise OrchardError if that fails.

    A model that is missing on this machine is downloaded, if the user confirms it or is `sure`.
    """
    is_talk = not question and sys.stdin.isatty()
    # The piped text comes first: another question about the same text finds it in the prompt cache.
    piped = "" if sys.stdin.isatty() else sys.stdin.read().strip()
    text = "\n\n".join(filter(None, (piped, question.strip())))
    pictures = [_read_image(path) for path in images]
    empty = OrchardError("invalid_request", "the question is empty")
    if not (is_talk or text or url):  # if there is a URL, it is worth more to know that nobody answers there
        raise empty
    with open_server(model, url, api_key, lambda name: fetch_missing(name, sure=sure)) as (client, served):
        session = ChatSession(client, served, pictures)
        if is_talk:
            print_wrapped(f"{served} at {client.url}\n{_hint_for_model(served)}", dim=True)
            converse(session, input)
        elif text:
            print_answer(session.ask(text), plain=True)
        else:
            raise empty


def _read_image(path: Path) -> str:
    """Return a file as a data: URL. Raise OrchardError if it can't be read."""
    try:
        data = path.expanduser().read_bytes()
    except OSError as error:
        message = f"{printable_text(str(path))} can't be read: {error.strerror or error}"
        raise OrchardError("invalid_request", message) from None
    kind = mimetypes.guess_type(path.name)[0] or "image/png"  # a server looks at the bytes, too
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _hint_for_model(served: str) -> str:
    return f"{_HINT}\n{DEMO} is tiny. For a real model: orchard run {REAL_MODEL}" if served == DEMO else _HINT
