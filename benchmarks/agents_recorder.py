"""Record what real coding agents send to a model, over a scripted task.

    python -m benchmarks.agents_recorder --agent claude codex opencode

`make test-clients` installs the agents. Each one, with its own system prompt and all of its tools, works on a small
source tree in a temporary folder. A server on 127.0.0.1 plays the model: it answers each request, in the agent's
dialect, with reasoning, a sentence and the next call of the script (read a file, edit it, run a command), which the
agent then runs. The script has three tasks; the agent starts anew for each of them and continues its session, as it
does for a user.

Writes the requests of each agent's session to FOLDER/AGENT.jsonl, a line with the path and the body each. They contain
texts of others: never commit them. Requests without tools (for the title of a session, for example) are not written.
Prints a JSON line for each agent: how many requests it sent, and their sizes.
"""

import argparse
import json
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from tests.clients.agents import HERE, answer_of

from benchmarks.agents_texts import Writer
from benchmarks.agents_translation import parse_request
from orchard.core import events
from orchard.core.tasks.generate import ToolCallPart

RECORDED = Path(__file__).parent / "recorded"
_SECONDS = 300.0  # for one task
_MODEL = "demo"


class Read(NamedTuple):
    """Read a file of the tree."""

    path: str


class Edit(NamedTuple):
    """Replace a text that occurs once in a file."""

    path: str
    old: str
    new: str


class Run(NamedTuple):
    """Run a command of the shell."""

    command: str


Step = Read | Edit | Run


class Task(NamedTuple):
    """What the user asks, and what the model does before it answers."""

    prompt: str
    steps: list[Step]


def make_script(folder: Path, writer: Writer) -> list[Task]:
    """Write the source tree into a folder, with files of 2 to 8 kB, and return the tasks on it."""
    files = {f"{name}.py": writer.source(size) for name, size in zip("abcdef", range(2000, 8001, 1200), strict=True)}
    for path, text in files.items():
        (folder / path).write_text(text)
    (folder / "log.txt").write_text(writer.log(6000))

    def edit(path: str) -> Edit:
        old = writer.pick(files[path].removesuffix("\n").split("\n\n\n")[1:])
        new = writer.function(writer.name())
        files[path] = files[path].replace(old, new)
        return Edit(path, old, new)

    check, names = Run("tail -c 3000 log.txt"), Run("grep -n 'def ' *.py")
    return [
        Task(
            "The tests fail since the last change of a.py. Find out why, and repair it.",
            [Run("ls -la && wc *"), check, Read("a.py"), Read("f.py"), edit("f.py"), check, Read("d.py"), edit("d.py")],
        ),
        Task(
            "Two tests still fail. " + writer.prose(600),
            [names, Read("c.py"), edit("c.py"), edit("c.py"), check, Read("e.py"), edit("e.py"), Run("cat log.txt")],
        ),
        Task("Now do the same in b.py.", [Read("b.py"), edit("b.py"), check, Run("wc *")]),
    ]


def call_of(step: Step, tools: Sequence[str], folder: Path) -> tuple[str, dict[str, Any]]:
    """Return the name and the arguments of the call that does a step, for an agent with these tools."""
    if "exec_command" in tools:
        return "exec_command", {"cmd": _shell_command(step)}
    read, edit, shell = ("Read", "Edit", "Bash") if "Read" in tools else ("read", "edit", "bash")
    match step:
        case Read(path):
            return read, {_spell("file_path", tools): str(folder / path)}
        case Edit(path, old, new):
            arguments = {"file_path": str(folder / path), "old_string": old, "new_string": new}
            return edit, {_spell(name, tools): value for name, value in arguments.items()}
        case Run(command):
            return shell, {"command": command}


def _spell(argument: str, tools: Sequence[str]) -> str:
    """Return an argument's name as Claude Code spells it, or as opencode does."""
    first, *rest = argument.split("_")
    return argument if "Read" in tools else first + "".join(map(str.capitalize, rest))


def _shell_command(step: Step) -> str:
    """Return a step as a command, for Codex, which has only a shell, in which it understands `apply_patch`."""
    match step:
        case Read(path):
            return f"cat {path}"
        case Edit(path, old, new):
            lines = [*(f"-{line}" for line in old.split("\n")), *(f"+{line}" for line in new.split("\n"))]
            patch = ["*** Begin Patch", f"*** Update File: {path}", "@@", *lines, "*** End Patch"]
            return "\n".join(["apply_patch <<'EOF'", *patch, "EOF"])
        case Run(command):
            return command


class Model:
    """Plays the model: the next step of the script depends on how many calls a request has."""

    def __init__(self, script: Sequence[Task], folder: Path, writer: Writer, recorded: Path) -> None:
        self._steps = [step for task in script for step in task.steps]
        self._folder = folder
        self._writer = writer
        self._recorded = recorded
        self.allowed_calls = 0
        """After this many calls in a request, the model answers with text."""
        self.sizes: list[int] = []

    def answer(self, path: str, body: bytes) -> bytes:
        """Record a request and return the server-sent events that answer it."""
        # Claude Code takes answers with the same id for parts of one.
        task, encoder = parse_request(path, body, f"req_{uuid.uuid4()}")
        if not task.tools:
            return encoder.encode([events.Text("A session"), _finished("stop")])
        self.sizes.append(len(body))
        with self._recorded.open("a") as file:
            file.write(json.dumps({"path": path, "body": json.loads(body)}) + "\n")
        calls = sum(isinstance(part, ToolCallPart) for message in task.messages for part in message.parts)
        said: list[events.Event] = [events.Reasoning(self._writer.prose(400)), events.Text(self._writer.sentence())]
        if calls >= self.allowed_calls:
            return encoder.encode([*said, events.Text(self._writer.prose(500)), _finished("stop")])
        name, arguments = call_of(self._steps[calls], [tool.name for tool in task.tools], self._folder)
        call: list[events.Event] = [
            events.ToolStart(0, f"call_{calls:024}", name),
            events.ToolArgs(0, json.dumps(arguments)),
        ]
        return encoder.encode([*said, *call, _finished("tool_calls")])


def _finished(reason: events.FinishReason) -> events.Finished:
    return events.Finished((reason,), events.Usage(20_000, 100))


@contextmanager
def serve(answer: Callable[[str, bytes], bytes]) -> Iterator[str]:
    """Run a server that answers every POST, and yield its base URL without /v1."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            self._send("text/event-stream", answer(self.path.split("?")[0], body))

        def do_GET(self) -> None:
            self._send("application/json", json.dumps({"object": "list", "data": [{"id": _MODEL}]}).encode())

        def _send(self, kind: str, data: bytes) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def run_claude_code(url: str, prompt: str, home: Path, later: bool) -> None:
    """Run Claude Code on a task; `later`: its session goes on."""
    arguments = [*(["--continue"] if later else []), "--print", prompt, "--allowedTools", "Read", "Edit", "Bash"]
    models = dict.fromkeys(("ANTHROPIC_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL"), _MODEL)
    own = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    answer_of("claude", arguments, home, models | own, _SECONDS)


def run_codex(url: str, prompt: str, home: Path, later: bool) -> None:
    """Run Codex on a task; `later`: its session goes on."""
    provider = f'[model_providers.orchard]\nname = "Orchard"\nbase_url = "{url}/v1"\nwire_api = "responses"\n'
    (home / "config.toml").write_text(f'model = "{_MODEL}"\nmodel_provider = "orchard"\n{provider}')
    session = ["resume", "--last"] if later else []
    options = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    answer_of("codex", ["exec", *session, *options, prompt], home, {"CODEX_HOME": str(home)}, _SECONDS)


def run_opencode(url: str, prompt: str, home: Path, later: bool) -> None:
    """Run opencode on a task; `later`: its session goes on."""
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": "none"},
        "models": {_MODEL: {"name": _MODEL, "limit": {"context": 200_000, "output": 8000}, "reasoning": True}},
    }
    model = f"orchard/{_MODEL}"
    config = {"model": model, "small_model": model, "autoupdate": False, "provider": {"orchard": provider}}
    own = {"OPENCODE_CONFIG_CONTENT": json.dumps(config)}
    answer_of("opencode", ["run", *(["--continue"] if later else []), prompt], home, own, _SECONDS)


AGENTS = {"claude": run_claude_code, "codex": run_codex, "opencode": run_opencode}
"""By the name of the program."""


def record(agent: str, recorded: Path, seed: str) -> list[int]:
    """Run an agent through the script and return the sizes of its requests in bytes.

    Raise AssertionError or subprocess.TimeoutExpired if the agent fails.
    """
    recorded.parent.mkdir(exist_ok=True)
    recorded.write_text("")
    with tempfile.TemporaryDirectory(prefix="orchard-agents-") as name:
        work = Path(name) / "work"
        work.mkdir()
        script = make_script(work, Writer(seed))
        model = Model(script, work, Writer(f"{seed} answers"), recorded)
        with serve(model.answer) as url:
            for number, task in enumerate(script):
                model.allowed_calls += len(task.steps)
                AGENTS[agent](url, task.prompt, Path(name), number > 0)
        return model.sizes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent", choices=AGENTS, nargs="+", default=list(AGENTS))
    parser.add_argument("--folder", type=Path, default=RECORDED)
    parser.add_argument("--seed", default="0")
    args = parser.parse_args()
    for agent in args.agent:
        if not (HERE / "node" / "node_modules" / ".bin" / agent).exists():
            print(json.dumps({"agent": agent, "left_out": "`make test-clients` installs it"}), flush=True)
            continue
        try:
            sizes = record(agent, args.folder / f"{agent}.jsonl", args.seed)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            parser.exit(1, f"{agent}: {error}\n")
        print(json.dumps({"agent": agent, "requests": len(sizes), "bytes": sizes}), flush=True)


if __name__ == "__main__":
    main()
