"""The conversation of `orchard run`, and the commands that change it."""

import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Generator, Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import typer
from msgspec import Meta, Struct, structs

from orchard.cli.endpoint import AnswerPiece, ChatClient, ServerError
from orchard.cli.settings.values import kind_of_field, printable_text
from orchard.cli.word_wrap import WordWrap
from orchard.core.errors import OrchardError
from orchard.core.tasks.text_options import SamplingDefaults

HELP = """\
/system TEXT      set the system prompt; without TEXT, remove it
/set NAME VALUE   set temperature, top_p, top_k, min_p, max_tokens, seed and
                  others; without VALUE, use the default
/think            turn thinking on or off
/reset            start a new conversation
/save FILE        save the conversation in a file
/load FILE        continue a saved conversation
/help             show this list
To send several lines, begin and end them with \""".
Ctrl-C stops an answer; Ctrl-D or /exit quits."""
# A word with a second slash is a path, not a command: a question may begin with it.
_COMMAND = re.compile(r"/([^\s/]+)(?:\s+(.*))?", re.DOTALL)
_OTHER_COMMANDS = {"clear": "reset", "?": "help"}  # Ollama's names
_MOST_BYTES = 32 * 2**20
_BLOCK = '"""'
# A model's text must not move the cursor or set the terminal's title.
_CONTROLS = {code: None for code in (*range(32), 127, *range(128, 160)) if chr(code) not in "\n\t"}


class TalkSettings(SamplingDefaults, frozen=True, kw_only=True, omit_defaults=True):
    """How answers are sampled. None: the server's default. The names are those of Chat Completions."""

    max_tokens: Annotated[int, Meta(ge=1, le=2**31)] | None = None


class Turn(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A message of the user or the model. `images` are data: URLs."""

    role: Literal["user", "assistant"]
    content: str
    images: tuple[str, ...] = ()


class SavedTalk(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A conversation as /save writes it."""

    messages: list[Turn]
    system: str = ""
    settings: TalkSettings = TalkSettings()
    thinking: bool | None = None


class ChatSession:
    """A conversation with a model on a server. If `talk.thinking` is None, the model decides whether to think.

    `images`, as data: URLs, go with the first question that is answered.
    """

    def __init__(self, client: ChatClient, model: str, images: Iterable[str] = ()) -> None:
        self._client = client
        self._model = model
        self._images = tuple(images)
        self.talk = SavedTalk([])

    def ask(self, text: str) -> Generator[AnswerPiece, None, None]:
        """Yield an answer as it arrives. Keep what arrived before a stop or an error; drop a message with no answer."""
        talk = self.talk
        talk.messages.append(Turn("user", text, self._images))
        said = ""
        try:
            with closing(self._client.stream_answer(self._body())) as pieces:
                for piece in pieces:
                    if piece.kind == "text":
                        said += piece.text
                    yield piece
        finally:
            if said:
                talk.messages.append(Turn("assistant", said))
                self._images = ()
            else:
                talk.messages.pop()

    def _body(self) -> dict[str, Any]:
        talk = self.talk
        system = [{"role": "system", "content": talk.system}] if talk.system else []
        body: dict[str, Any] = {"model": self._model, "messages": [*system, *map(_message_of, talk.messages)]}
        if talk.thinking is not None:
            body["chat_template_kwargs"] = {"enable_thinking": talk.thinking}
        return {**body, **msgspec.to_builtins(talk.settings)}


def _message_of(turn: Turn) -> dict[str, Any]:
    """Return a turn as Chat Completions has it."""
    if not turn.images:
        return {"role": turn.role, "content": turn.content}
    images = [{"type": "image_url", "image_url": {"url": url}} for url in turn.images]
    return {"role": turn.role, "content": [*images, {"type": "text", "text": turn.content}]}


def run_command(conversation: ChatSession, line: str) -> str | None:
    """If a line is a command, run it and return its result for the user; None: the line is not a command.

    Raise OrchardError if the command or its argument is wrong.
    """
    found = _COMMAND.fullmatch(line)
    if found is None:
        return None
    name, rest = found[1], (found[2] or "").strip()
    name = _OTHER_COMMANDS.get(name, name)
    if rest and name in ("think", "reset", "help"):
        raise _command_error(f"/{name} takes no argument")
    talk = conversation.talk
    match name:
        case "system":
            talk.system = rest
            result = "the system prompt is set" if rest else "there is no system prompt"
        case "set":
            result = _change_setting(talk, rest)
        case "think":
            talk.thinking = not talk.thinking
            result = f"thinking is {'on' if talk.thinking else 'off'}"
        case "reset":
            talk.messages.clear()
            result = "a new conversation begins"
        case "save":
            result = _save_talk(talk, rest)
        case "load":
            conversation.talk = _load_talk(rest)
            result = f"the conversation continues after {len(conversation.talk.messages)} messages"
        case "help":
            result = HELP
        case _:
            advice = '/help lists the commands (to send such a text, begin and end it with """)'
            raise _command_error(f"there is no command /{printable_text(name)}; {advice}")
    return result


def _change_setting(talk: SavedTalk, rest: str) -> str:
    name, _, value = rest.partition(" ")
    names = TalkSettings.__struct_fields__
    if name not in names:
        what = f"there is no setting '{printable_text(name)}'" if name else "/set needs the name of a setting"
        raise _command_error(f"{what}; the names are {', '.join(names)}")
    try:
        read = kind_of_field(TalkSettings, name).read(value.strip()) if value.strip() else None
    except ValueError as error:
        raise _command_error(f"{name}: {error}") from error
    talk.settings = structs.replace(talk.settings, **{name: read})
    return f"{name} is {'the default' if read is None else read}"


def _save_talk(talk: SavedTalk, name: str) -> str:
    path = _talk_path("save", name)
    try:
        # Only the user can read the file, and it is written completely or not at all.
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            file = Path(folder) / path.name
            file.touch(0o600)
            file.write_bytes(msgspec.json.format(msgspec.json.encode(talk)) + b"\n")
            file.replace(path)
    except OSError as error:
        raise _command_error(f"{printable_text(name)} can't be written: {error.strerror or error}") from error
    return f"the conversation is saved in {printable_text(name)}"


def _load_talk(name: str) -> SavedTalk:
    try:
        with _talk_path("load", name).open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise _command_error(f"{printable_text(name)} has more than {_MOST_BYTES:,} bytes")
        return msgspec.json.decode(data, type=SavedTalk)
    except OSError as error:
        raise _command_error(f"{printable_text(name)} can't be read: {error.strerror or error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _command_error(f"{printable_text(name)} is not a conversation that /save wrote: {error}") from error


def _talk_path(command: str, name: str) -> Path:
    if not name:
        raise _command_error(f"/{command} needs the name of a file")
    try:
        return Path(name).expanduser()
    except RuntimeError as error:  # ~NAME without such a user
        raise _command_error(f"{printable_text(name)} can't be found: {error}") from error


def _command_error(message: str) -> OrchardError:
    return OrchardError("invalid_request", message)


def converse(talk: ChatSession, read: Callable[[str], str]) -> None:
    """Read lines and answer them until the user leaves."""
    with suppress(ImportError):
        import readline  # noqa: F401 - importing it is what gives input() a history and the arrow keys

    while True:
        try:
            line = read("> ").strip()
        except KeyboardInterrupt:
            typer.echo()
            continue
        except EOFError:
            typer.echo()
            return
        if line in ("/exit", "/quit", "/bye"):
            return
        if line.startswith(_BLOCK):
            if text := _read_block(line.removeprefix(_BLOCK), read):
                _answer_line(talk, text)
        elif line:
            try:
                said = run_command(talk, line)
            except OrchardError as error:
                print_wrapped(error.message, fg="red", err=True)
                continue
            if said is None:
                _answer_line(talk, line)
            else:
                print_wrapped(said, dim=True)


def _read_block(first: str, read: Callable[[str], str]) -> str:
    """Read the rest of a text of several lines; return an empty string after an interrupt."""
    lines = [first]
    try:
        while not lines[-1].endswith(_BLOCK):
            lines.append(read("... ").rstrip())
    except (KeyboardInterrupt, EOFError):
        typer.echo()
        return ""
    lines[-1] = lines[-1].removesuffix(_BLOCK)
    return "\n".join(lines).strip()


def print_wrapped(text: str, **style: Any) -> None:
    """Print a text for the user of a terminal, whose lines end at words. `style` goes to `typer.secho`."""
    wrap = WordWrap(shutil.get_terminal_size().columns)
    typer.secho(wrap.feed(text.translate(_CONTROLS)) + wrap.end(), **style)


def print_answer(pieces: Iterable[AnswerPiece], *, plain: bool = False) -> None:
    """Print an answer as it arrives; with `plain`, without reasoning and notes. On a terminal, lines end at words."""
    kind = ""
    wrap = WordWrap(shutil.get_terminal_size().columns) if sys.stdout.isatty() else None

    def write(text: str) -> None:
        typer.echo(text if kind == "text" else typer.style(text, dim=True), nl=False)

    def end_line() -> None:
        write(wrap.feed("\n") if wrap else "\n")

    try:
        for piece in pieces:
            if plain and piece.kind != "text":
                continue
            if kind and kind != piece.kind:
                end_line()
            kind = piece.kind
            write(wrap.feed(piece.text.translate(_CONTROLS)) if wrap else piece.text)
    except ServerError:
        if kind and wrap:
            end_line()
        raise
    end_line()


def _answer_line(talk: ChatSession, line: str) -> None:
    try:
        with closing(talk.ask(line)) as pieces:
            print_answer(pieces)
    except KeyboardInterrupt:
        typer.secho("\n(stopped)", dim=True)
    except ServerError as error:
        print_wrapped(error.message, fg="red", err=True)
