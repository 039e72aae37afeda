"""Conversations of coding agents, of our own texts, as Chat bodies: the same sizes and changes as recorded ones.

The sizes, in characters, are those that `benchmarks.agents_recorder` recorded (Claude Code 2.1.332, Codex 0.171.0,
opencode 1.18.33):

- system prompt and tools, and what the first user message has beside the question: 38,500 and 9,800 (Claude Code),
  38,000 and 500 (Codex), 30,700 and 100 (opencode); here the means, with 11 tools;
- a call: 300 to 400 of reasoning, a sentence, and arguments of 50, or of 1,100 for an edit of a function;
- its result: 2,300 to 9,200 for a file, 700 to 6,500 for a command, 26 to 236 for an edit;
- 8 calls for each message of the user.

Recorded requests repeat the earlier ones exactly, with two exceptions that don't reach the text of a prompt: Claude
Code moves its cache breakpoints, and sends its reasoning back without its text. Codex and opencode send reasoning
back; many chat templates drop what is older than the user's last message. Not recorded, but sent by agents: a reminder
at the end of the last result, which is gone in the next request (here in each fourth request), and the time of day at
the end of the user's last message, where Orchard's Messages puts it.
"""

import functools
import itertools
import json
from collections.abc import Iterator

from benchmarks.agents_texts import Writer
from benchmarks.agents_translation import Body

_SYSTEM, _CONTEXT, _REQUEST, _ANSWER = 12_000, 3_400, 600, 430
_TOOLS, _TOOL = 11, 2_150
_REASONING, _EDIT, _REMINDER = 360, 550, 300
_RESULTS = (
    ("run", 700),
    ("run", 3100),
    ("read", 2300),
    ("read", 9200),
    ("edit", 200),
    ("run", 3100),
    ("read", 6600),
    ("edit", 200),
    ("run", 6500),
    ("read", 5000),
    ("edit", 200),
    ("edit", 200),
    ("run", 3100),
    ("read", 7700),
    ("edit", 200),
    ("run", 6200),
)
"""Tools in the order of the recorded calls, and the sizes of their results, which vary by a fifth."""
_CALLS = 8
_REMINDED = 4
_SCALE_STEP = 0.002


def conversation(program: str, session: str, scale: float = 1.0) -> Iterator[Body]:
    """Yield the messages and tools of one request after the other, without end.

    `program` is the seed of the system prompt and the tools, which sessions share, and `session` that of the rest. All
    sizes are multiplied by `scale`.
    """
    return _Session(program, session, scale).bodies()


class _Session:
    def __init__(self, program: str, session: str, scale: float) -> None:
        shared = Writer(program)
        self._scale = scale
        self._tools = [_make_tool(shared, name, round(_TOOL * scale)) for name in _tool_names(shared)]
        self._messages = [{"role": "system", "content": shared.prose(round(_SYSTEM * scale))}]
        self._writer = Writer(session)

    def bodies(self) -> Iterator[Body]:
        steps = itertools.cycle(_RESULTS)
        for turn in itertools.count():
            if turn % (_CALLS + 1) == 0:
                self._ask(turn)
            else:
                self._call(turn, *next(steps))
            yield {"messages": [*self._messages[:-1], self._last_message(turn)], "tools": self._tools}

    def _ask(self, turn: int) -> None:
        """Add the model's answer to the user's last message, and the next one."""
        if turn:
            self._messages.append(self._answer() | {"content": self._prose(_ANSWER)})
        text = self._prose(_REQUEST if turn else _CONTEXT)
        self._messages.append({"role": "user", "content": f"{text}\n\nCurrent time: 10:{turn % 60:02}:17"})

    def _call(self, turn: int, tool: str, size: int) -> None:
        arguments = {"path": f"{self._writer.name()}.py"}
        if tool == "edit":
            arguments |= {side: self._edit_text() for side in ("old", "new")}
        call_id = f"call_{turn:08}"
        call = {"id": call_id, "type": "function", "function": {"name": tool, "arguments": json.dumps(arguments)}}
        self._messages.append(self._answer() | {"tool_calls": [call]})
        self._messages.append({"role": "tool", "tool_call_id": call_id, "content": self._result(tool, size)})

    def _edit_text(self) -> str:
        return self._writer.function(self._writer.name())[: round(_EDIT * self._scale)]

    def _answer(self) -> Body:
        return {"role": "assistant", "content": self._writer.sentence(), "reasoning_content": self._prose(_REASONING)}

    def _result(self, tool: str, size: int) -> str:
        size = round(self._scale * size * self._writer.number(80, 120) / 100)
        if tool == "run":
            return self._writer.log(size)
        return self._writer.source(size) if tool == "read" else self._writer.prose(size)

    def _last_message(self, turn: int) -> Body:
        last = self._messages[-1]
        if turn % _REMINDED != _REMINDED - 1:
            return last
        reminder = f"<system-reminder>\n{Writer(f'{turn}').prose(round(_REMINDER * self._scale))}\n</system-reminder>"
        return last | {"content": f"{last['content']}\n\n{reminder}"}

    def _prose(self, size: int) -> str:
        return self._writer.prose(round(size * self._scale))


def _tool_names(writer: Writer) -> list[str]:
    used = [tool for tool, _ in _RESULTS]
    return [*dict.fromkeys(used), *(writer.name() for _ in range(_TOOLS - len(set(used))))]


def _make_tool(writer: Writer, name: str, size: int) -> Body:
    parameters = {
        parameter: {"type": "string", "description": writer.prose(size // 12)} for parameter in ("path", "old", "new")
    }
    schema = {"type": "object", "properties": parameters, "required": ["path"]}
    function = {"name": name, "description": writer.prose(size * 2 // 3), "parameters": schema}
    return {"type": "function", "function": function}


def count_characters(body: Body) -> int:
    """Return how long the messages and tools of a request are."""
    return sum(len(json.dumps(entry)) for part in ("messages", "tools") for entry in body[part])


@functools.cache
def find_scale(characters: int, turns: int) -> float:
    """Return the scale, at most 1, at which the request with number `turns` has about so many characters."""
    low, high = 0.0, 1.0
    while high - low > _SCALE_STEP:
        middle = (low + high) / 2
        last = next(itertools.islice(conversation("scale", "scale", middle), turns - 1, None))
        low, high = (middle, high) if count_characters(last) < characters else (low, middle)
    return high


def make_bodies(program: str, session: str, characters: int, turns: int) -> list[Body]:
    """Return requests of a session, `turns` in number, the last of which has about so many characters.

    If recorded sizes are too long for that, texts are shorter; if they are too short, the session has had more requests
    before.
    """
    scale = find_scale(characters, turns)
    bodies = conversation(program, session, scale)
    if scale < 1:
        return list(itertools.islice(bodies, turns))
    return list(itertools.takewhile(lambda body: count_characters(body) <= characters, bodies))[-turns:]
