"""A conversation in the terminal, and the commands that change it."""

import re
import tempfile
from collections.abc import Generator
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, structs

from orchard.cli.endpoint import AnswerPiece, ChatClient
from orchard.cli.settings.values import kind_of, printable
from orchard.core.errors import OrchardError
from orchard.core.tasks.text_options import SamplingDefaults

HELP = """\
/system TEXT      set the system prompt; without TEXT, remove it
/set NAME VALUE   set temperature, top_p, top_k, min_p, max_tokens, seed and others; without VALUE, use the default
/think            turn thinking on or off
/reset            start a new conversation
/save FILE        save the conversation in a file
/load FILE        continue a saved conversation
/help             show this list
To send several lines, begin and end them with \"""\". Ctrl-C stops an answer; Ctrl-D or /exit quits."""
# With a second slash it is a path, which may begin a question.
_COMMAND = re.compile(r"/([^\s/]+)(?:\s+(.*))?", re.DOTALL)
_MOST_BYTES = 32 * 2**20


class TalkSettings(SamplingDefaults, frozen=True, kw_only=True, omit_defaults=True):
    """How answers are sampled; None: the server's default. The names are those of Chat Completions."""

    max_tokens: Annotated[int, Meta(ge=1, le=2**31)] | None = None


class Turn(Struct, forbid_unknown_fields=True):
    """A message of the user or the model."""

    role: Literal["user", "assistant"]
    content: str


class SavedTalk(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A conversation as /save writes it."""

    messages: list[Turn]
    system: str = ""
    settings: TalkSettings = TalkSettings()
    thinking: bool | None = None


class ChatSession:
    """A conversation with a model on a server; `talk.thinking` None leaves thinking to the model."""

    def __init__(self, client: ChatClient, model: str) -> None:
        self._client = client
        self._model = model
        self.talk = SavedTalk([])

    def ask(self, text: str) -> Generator[AnswerPiece, None, None]:
        """Yield an answer as it comes. Keep what came before a stop or an error, and no message without answer."""
        talk = self.talk
        talk.messages.append(Turn("user", text))
        said = ""
        try:
            with closing(self._client.answer(self._body())) as pieces:
                for piece in pieces:
                    if piece.kind == "text":
                        said += piece.text
                    yield piece
        finally:
            if said:
                talk.messages.append(Turn("assistant", said))
            else:
                talk.messages.pop()

    def _body(self) -> dict[str, Any]:
        talk = self.talk
        system = [{"role": "system", "content": talk.system}] if talk.system else []
        body: dict[str, Any] = {"model": self._model, "messages": [*system, *map(msgspec.to_builtins, talk.messages)]}
        if talk.thinking is not None:
            body["chat_template_kwargs"] = {"enable_thinking": talk.thinking}
        return {**body, **msgspec.to_builtins(talk.settings)}


def command(conversation: ChatSession, line: str) -> str | None:
    """Run a line that is a command and return its result for the user; None: the line is no command.

    Raise OrchardError if the command or its argument is wrong.
    """
    found = _COMMAND.fullmatch(line)
    if found is None:
        return None
    name, rest = found[1], (found[2] or "").strip()
    if rest and name in ("think", "reset", "help"):
        raise _wrong(f"/{name} takes no argument")
    talk = conversation.talk
    match name:
        case "system":
            talk.system = rest
            result = "the system prompt is set" if rest else "there is no system prompt"
        case "set":
            result = _set(talk, rest)
        case "think":
            talk.thinking = not talk.thinking
            result = f"thinking is {'on' if talk.thinking else 'off'}"
        case "reset":
            talk.messages.clear()
            result = "a new conversation begins"
        case "save":
            result = _save(talk, rest)
        case "load":
            conversation.talk = _load(rest)
            result = f"the conversation continues after {len(conversation.talk.messages)} messages"
        case "help":
            result = HELP
        case _:
            advice = '/help lists the commands (to send such a text, begin and end it with """)'
            raise _wrong(f"there is no command /{printable(name)}; {advice}")
    return result


def _set(talk: SavedTalk, rest: str) -> str:
    name, _, value = rest.partition(" ")
    names = TalkSettings.__struct_fields__
    if name not in names:
        raise _wrong(f"/set needs a name and a value; the names are {', '.join(names)}")
    try:
        read = kind_of(TalkSettings, name).read(value.strip()) if value.strip() else None
    except ValueError as error:
        raise _wrong(f"{name}: {error}") from error
    talk.settings = structs.replace(talk.settings, **{name: read})
    return f"{name} is {'the default' if read is None else read}"


def _save(talk: SavedTalk, name: str) -> str:
    path = _path("save", name)
    try:
        # Readable for nobody else, and whole or not there.
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            file = Path(folder) / path.name
            file.touch(0o600)
            file.write_bytes(msgspec.json.format(msgspec.json.encode(talk)) + b"\n")
            file.replace(path)
    except OSError as error:
        raise _wrong(f"{printable(name)} can't be written: {error.strerror or error}") from error
    return f"the conversation is saved in {printable(name)}"


def _load(name: str) -> SavedTalk:
    try:
        with _path("load", name).open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise _wrong(f"{printable(name)} has more than {_MOST_BYTES:,} bytes")
        return msgspec.json.decode(data, type=SavedTalk)
    except OSError as error:
        raise _wrong(f"{printable(name)} can't be read: {error.strerror or error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _wrong(f"{printable(name)} is not a conversation that /save wrote: {error}") from error


def _path(command: str, name: str) -> Path:
    if not name:
        raise _wrong(f"/{command} needs the name of a file")
    try:
        return Path(name).expanduser()
    except RuntimeError as error:  # ~NAME without such a user
        raise _wrong(f"{printable(name)} can't be found: {error}") from error


def _wrong(message: str) -> OrchardError:
    return OrchardError("invalid_request", message)
