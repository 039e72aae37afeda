"""The conversation of `orchard run`: its commands, what it sends after them, and what it prints."""

import json
import stat
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from orchard.cli import chat
from orchard.cli.chat import HELP, ChatSession, Turn, run_command
from orchard.cli.endpoint import AnswerPiece, ChatClient, ServerError
from orchard.core.errors import OrchardError
from orchard.core.tasks.text_options import SamplingDefaults
from tests.support.serving import Server

SLOW = '{"pieces": 1000, "text": "tick ", "interval": 0.02}'


def reader(lines: list[Any]) -> Any:
    """An input() that gives these lines and raises these exceptions."""
    rest = iter(lines)

    def read(_: str) -> str:
        line = next(rest)
        if isinstance(line, str):
            return line
        raise line

    return read


class Answering:
    """A client that answers everything with "yes", and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def stream_answer(self, body: dict[str, Any]) -> Generator[AnswerPiece, None, None]:
        self.asked.append(json.loads(json.dumps(body)))
        yield AnswerPiece("text", "yes")


@pytest.fixture
def client() -> Answering:
    return Answering()


@pytest.fixture
def conversation(client: Answering) -> ChatSession:
    return ChatSession(cast(ChatClient, client), "m")


def say(conversation: ChatSession, *lines: str) -> None:
    chat.converse(conversation, reader([*lines, EOFError]))


def test_every_sampling_setting_of_a_server_can_be_set(conversation: ChatSession, client: Answering) -> None:
    values = dict.fromkeys(SamplingDefaults.__struct_fields__, 0) | {"repetition_penalty": 1.5}
    say(conversation, *(f"/set {name} {value}" for name, value in values.items()), "one")
    assert client.asked[0].items() >= values.items()


def test_what_is_set_is_sent(conversation: ChatSession, client: Answering) -> None:
    say(conversation, "/system Be brief.", "/set temperature 0.3", "/set max_tokens 9", "/set seed 7", "one")
    say(conversation, "/system", "/set seed", "/think", "two")
    first, second = client.asked
    system, one, yes = (
        {"role": role, "content": text}
        for role, text in (("system", "Be brief."), ("user", "one"), ("assistant", "yes"))
    )
    assert first == {"model": "m", "messages": [system, one], "temperature": 0.3, "max_tokens": 9, "seed": 7}
    assert second == {
        "model": "m",
        "messages": [one, yes, {"role": "user", "content": "two"}],
        "temperature": 0.3,
        "max_tokens": 9,
        "chat_template_kwargs": {"enable_thinking": True},
    }


def test_text_of_several_lines_is_one_message(conversation: ChatSession, client: Answering) -> None:
    say(conversation, '"""def f():', "    return 1", "", '/reset"""', '"""', "/etc", '"""', '"""one"""')
    texts = [body["messages"][-1]["content"] for body in client.asked]
    assert texts == ["def f():\n    return 1\n\n/reset", "/etc", "one"]


def test_an_interrupt_gives_several_lines_up(conversation: ChatSession, client: Answering) -> None:
    chat.converse(conversation, reader(['"""one', KeyboardInterrupt, "two", EOFError]))
    assert [body["messages"][-1]["content"] for body in client.asked] == ["two"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("/foo", "there is no command /foo; /help lists the commands"),
        ("/foo bar", "there is no command /foo"),
        ("/Reset", "there is no command /Reset"),
        ("/save-as file", "there is no command /save-as"),
        ("/reset!", "there is no command /reset!"),
        ("/load2", "there is no command /load2"),
        ("/reset now", "/reset takes no argument"),
        ("/set", "/set needs the name of a setting; the names are temperature, top_p"),
        ("/set heat 1", "there is no setting 'heat'; the names are temperature, top_p"),
        ("/set temperature hot", "temperature: must be a number .*2.*, not 'hot'"),
        ("/set temperature 3", "temperature: must be a number .*2.*, not '3'"),
        ("/set max_tokens 0", "max_tokens: must be"),
        ("/save", "/save needs the name of a file"),
        ("/load", "/load needs the name of a file"),
        ("/load /nonsuch/file", "/nonsuch/file can't be read: No such file"),
        ("/load ~nobody.such/file", "~nobody.such/file can't be found"),
        ("/save ~nobody.such/file", "~nobody.such/file can't be found"),
        ("/save /nonsuch/file", "/nonsuch/file can't be written: No such file"),
    ],
)
def test_wrong_commands_are_errors_and_are_not_sent(
    conversation: ChatSession, client: Answering, line: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    conversation.talk.messages.append(Turn("user", "kept"))
    with pytest.raises(OrchardError, match=why) as wrong:
        run_command(conversation, line)
    say(conversation, line)
    assert " ".join(wrong.value.message.split()) in " ".join(capsys.readouterr().err.split())
    assert client.asked == []
    assert conversation.talk.messages == [Turn("user", "kept")]


def test_commands_of_ollama_are_known(conversation: ChatSession, client: Answering) -> None:
    conversation.talk.messages.append(Turn("user", "old"))
    say(conversation, "/clear", "/?", "/bye", "not read any more")
    assert conversation.talk.messages == []
    assert client.asked == []


@pytest.mark.parametrize("line", ["/etc/passwd is what?", "/ is a slash", "what is /foo?"])
def test_text_with_a_slash_is_sent(conversation: ChatSession, client: Answering, line: str) -> None:
    say(conversation, line)
    assert client.asked[0]["messages"][0]["content"] == line


def test_help_is_shown(conversation: ChatSession, capsys: pytest.CaptureFixture[str]) -> None:
    say(conversation, "/help")
    assert HELP in capsys.readouterr().out
    assert 'begin and end them with """.\n' in HELP
    assert max(map(len, HELP.splitlines())) < 80


def test_a_talk_is_saved_and_goes_on(conversation: ChatSession, client: Answering, tmp_path: Path) -> None:
    file = tmp_path / "a talk.json"
    say(conversation, "/system Be brief.", "/set top_k 5", "/think", "one", f"/save {file}")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [file.name]
    other = ChatSession(cast(ChatClient, client), "m")
    say(other, f"/load {file}", "two")
    assert other.talk.messages[:2] == conversation.talk.messages
    assert client.asked[1] == {
        **client.asked[0],
        "messages": [
            *client.asked[0]["messages"],
            *({"role": r, "content": c} for r, c in (("assistant", "yes"), ("user", "two"))),
        ],
    }


def test_images_go_with_the_first_question_that_is_answered() -> None:
    class Busy(Answering):
        busy = True

        def stream_answer(self, body: dict[str, Any]) -> Generator[AnswerPiece, None, None]:
            if self.busy:
                self.busy = False
                raise ServerError("busy")
            yield from super().stream_answer(body)

    client = Busy()
    conversation = ChatSession(cast(ChatClient, client), "m", ["data:image/png;base64,AAAA"])
    say(conversation, "zero", "one", "two")
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    for body in client.asked:
        assert body["messages"][0] == {"role": "user", "content": [image, {"type": "text", "text": "one"}]}
    assert client.asked[1]["messages"][-1] == {"role": "user", "content": "two"}


@pytest.mark.parametrize(
    "content",
    ["", "[]", '{"messages": [{"role": "tool", "content": ""}]}', '{"messages": [], "settings": {"top_p": 3}}'],
)
def test_a_file_that_is_no_talk_changes_nothing(conversation: ChatSession, tmp_path: Path, content: str) -> None:
    file = tmp_path / "file"
    file.write_text(content)
    say(conversation, "one")
    before = conversation.talk
    with pytest.raises(OrchardError, match="is not a conversation that /save wrote"):
        run_command(conversation, f"/load {file}")
    assert conversation.talk is before


def test_a_conversation(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    lines: list[str | type[BaseException]] = ["one", KeyboardInterrupt, " ", "/think", "two", "/help", EOFError]
    with ChatClient(server.url) as client:
        talk = ChatSession(client, "fake")
        chat.converse(talk, reader(lines))
        assert talk.talk.thinking is True
        assert [turn.content for turn in talk.talk.messages] == ["one", "one", "two", "two"]
        chat.converse(talk, reader(['{"refuse": "overloaded"}', "/reset", "/exit"]))
        assert talk.talk.messages == []
    out, err = capsys.readouterr()
    assert "one\n" in out
    assert HELP in out
    assert "refuses" in err


def test_an_interrupt_stops_the_answer_and_frees_its_row(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(pieces: Iterator[AnswerPiece]) -> None:
        next(pieces)
        raise KeyboardInterrupt

    monkeypatch.setattr(chat, "print_answer", interrupted)
    with ChatClient(server.url) as client:
        talk = ChatSession(client, "fake")
        chat.converse(talk, reader([SLOW, EOFError]))
        assert talk.talk.messages[1].content.startswith("tick ")
        server.until(running=0, timeout=5)
    assert "(stopped)" in capsys.readouterr().out


def test_control_characters_do_not_reach_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    chat.print_answer([AnswerPiece("text", "a\x1b]0;title\x07\x9b2Jb\n\tc")])
    assert capsys.readouterr().out == "a]0;title2Jb\n\tc\n"


def test_answers_are_broken_between_words_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    pieces = [AnswerPiece("text", "A long ans"), AnswerPiece("text", "wer that has words")]
    chat.print_answer(pieces)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    chat.print_answer(pieces)
    assert capsys.readouterr().out == "A long answer that has words\nA long answer that\nhas words\n"


def test_an_error_on_a_terminal_has_a_line_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> Iterator[AnswerPiece]:
        yield AnswerPiece("text", "half an ans")
        raise ServerError("the answer broke off")

    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    with pytest.raises(ServerError):
        chat.print_answer(fails())
    assert capsys.readouterr().out == "half an ans\n"
