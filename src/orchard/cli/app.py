"""The commands. Each one imports its code only when it runs, so that `orchard serve` starts quickly."""

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from orchard import __version__
from orchard.cli.settings.layers import Mistakes
from orchard.cli.settings.table import LongHelp, add_setting_flags
from orchard.cli.settings.values import printable_text
from orchard.cli.word_wrap import print_line
from orchard.config import Settings
from orchard.core.errors import OrchardError

_INTERRUPTED = 130
OTHER_NAMES = {"launch": "serve", "chat": "run"}
"""Of commands."""
_LIST = "'orchard models' lists the models on this machine"
_SETTINGS = "the configuration file gives a model more names (aliases) and settings of its own"
# Commands of Ollama, LM Studio and others, and what to use instead.
_ELSEWHERE = {
    "list": _LIST,
    "ls": _LIST,
    "show": f"{_LIST}, and GET /v1/models/MODEL of a server describes one",
    "get": "'orchard pull NAME' downloads a model",
    "download": "'orchard pull NAME' downloads a model",
    "stop": "'orchard unload MODEL' unloads a model, Ctrl-C ends a server, 'orchard service uninstall' a service",
    "start": "'orchard serve' starts a server, 'orchard service install' one that is there when you log in",
    "server": "'orchard serve' starts a server",
    "status": "'orchard ps' lists the models in memory, 'orchard service status' says whether the service runs",
    "log": "'orchard logs' shows the log of a running server",
    "create": _SETTINGS,
    "cp": _SETTINGS,
    "help": "'orchard --help' lists the commands",
    "version": "'orchard --version' prints the version",
}


class _LogLevel(StrEnum):
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


class _VerifyPart(StrEnum):
    RIGHT = "right"
    FAST = "fast"
    SAFE = "safe"


class _Commands(TyperGroup):
    """The commands; `launch` is another name of `serve`, or of `agent` before an agent's name, and `chat` of `run`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name of a command, the command, and its arguments.

        Fail with a hint if it is a command of another program.
        """
        if hint := _ELSEWHERE.get(args[0]):
            ctx.fail(f"No such command '{args[0]}': {hint}.")
        if args[0] == "launch" and args[1:]:
            from orchard.cli.agents.profiles import AGENTS

            if args[1] in AGENTS:
                args = ["agent", *args[1:]]
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command by its name."""
        return super().get_command(ctx, OTHER_NAMES.get(cmd_name, cmd_name))


app = typer.Typer(
    cls=_Commands,
    help="One local server for every model that runs on MLX.",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

config_app = typer.Typer(help="Check configuration files.", no_args_is_help=True)
app.add_typer(config_app, name="config")

setup_app = typer.Typer(help="Install libraries that need an environment of their own.", no_args_is_help=True)
app.add_typer(setup_app, name="setup")

service_app = typer.Typer(help="Run the server whenever you are logged in.", no_args_is_help=True)
app.add_typer(service_app, name="service")

cluster_app = typer.Typer(help="Share a model among several machines.", no_args_is_help=True)
app.add_typer(cluster_app, name="cluster")

_Host = Annotated[
    str | None, typer.Option(envvar="ORCHARD_HOST", help="The address to listen on.", show_default="127.0.0.1")
]
_Port = Annotated[
    int | None,
    typer.Option(envvar="ORCHARD_PORT", min=0, max=65535, help="The port to listen on.", show_default="8000"),
]


def _require_folder(folder: Path | None) -> Path | None:
    """Return a folder. Fail if it doesn't exist, as `orchard serve` does."""
    if folder and not folder.expanduser().is_dir():
        raise typer.BadParameter(f"there is no folder {folder}")
    return folder


def _require_bits(bits: int | None) -> int | None:
    """Return how many bits weights are to have. Fail if MLX has no such weights."""
    if bits not in (None, 4, 5, 6, 8, 16):
        raise typer.BadParameter("it must be 4, 5, 6, 8 or 16")
    return bits


def _complete_model(incomplete: str) -> list[str]:
    """Return the names of models that begin so: those on this machine, then short names."""
    from orchard.gateway.models import catalogue, hub_cache, sources

    here = (repo for repo, _ in hub_cache.list_repos())
    # Bash takes a colon for the end of a word, so leave Ollama's tags out.
    names = (*sources.BUNDLED, *here, *(model.names[0] for model in catalogue.CATALOGUE))
    return [name for name in names if name.startswith(incomplete)]


def _complete_agent(incomplete: str) -> list[str]:
    from orchard.cli.agents.profiles import AGENTS

    return [name for name in AGENTS if name.startswith(incomplete)]


_ModelDir = Annotated[
    Path | None,
    typer.Option(
        envvar="ORCHARD_MODEL_DIR",
        help="A folder whose subfolders are models.",
        callback=_require_folder,
        metavar="FOLDER",
    ),
]
_ApiKey = Annotated[
    str | None,
    typer.Option(envvar="ORCHARD_API_KEY", help="The API key to send. If there are several, the first one is sent."),
]
_AdminKey = Annotated[
    str | None,
    typer.Option(
        "--api-key",
        envvar=["ORCHARD_ADMIN_KEY", "ORCHARD_API_KEY"],
        help="The API key to send, an admin key if the server has keys. If there are several, the first one is sent.",
    ),
]
_Url = Annotated[
    str | None, typer.Option(envvar="ORCHARD_URL", help="The server's address, such as http://127.0.0.1:8000.")
]
_ServedModel = Annotated[
    str,
    typer.Argument(metavar="MODEL", help="The model's name, as requests name it.", autocompletion=_complete_model),
]
_Config = Annotated[
    Path | None, typer.Option(envvar="ORCHARD_CONFIG", metavar="FILE", help="A configuration file in YAML.")
]
_RUN_HELP = (
    "'demo', 'demo-vision', a folder with an MLX model, a Hugging Face id, or a short name such as 'qwen3-8b' or "
    "'llama3.2:3b'. By default, the server's first model."
)
_MODEL_HELP = (
    "'demo', 'demo-vision', 'demo-whisper', a folder with an MLX model, "
    "a Hugging Face id that is in the local cache, or a short name for one, such as 'qwen3-8b'."
)

_VERIFY_HELP = "Models, as for 'orchard serve'. By default, those of the configuration, else the bundled ones."


def main() -> None:
    """Run the command line. Print errors that a user can fix on stderr, and exit with code 1; after Ctrl-C, 130."""
    # Otherwise huggingface_hub asks the Hub for a list of programs, keeps it, and tells which of them run here.
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    try:
        app(prog_name="orchard")
    except SystemExit as end:
        if end.code == _INTERRUPTED:
            print(file=sys.stderr)  # the terminal's ^C, or half an answer, stands in the last line
        raise
    except Mistakes as error:
        print_line(str(error), sys.stderr)
        sys.exit(1)
    except OrchardError as error:
        print_line(f"orchard: {printable_text(' '.join(error.message.split()))}", sys.stderr)
        sys.exit(1)


@app.callback(invoke_without_command=True)
def orchard(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)] = False,
) -> None:
    """One local server for every model that runs on MLX."""
    if version:
        typer.echo(f"orchard {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command(cls=LongHelp)
@add_setting_flags
def serve(
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODEL", help=_MODEL_HELP, show_default=False, autocompletion=_complete_model),
    ] = None,
    *,
    config: _Config = None,
    **flags: Any,
) -> None:
    """Serve models with the APIs of OpenAI, Azure, Anthropic and Ollama, until Ctrl-C. 'orchard launch' does the same.

    You can also set every option --some-name as some_name in a configuration file, or as ORCHARD_SOME_NAME in the
    environment. The environment overrides the file, and options override both. Options for models apply to all models,
    except those that make sense for one only, such as --served-model-name and --draft-model-path: they need a single
    MODEL.
    """
    from orchard.cli.config import gather_config
    from orchard.cli.serve import serve_models
    from orchard.gateway.models.gguf import is_gguf_path

    names = models or []
    if any(map(is_gguf_path, names)):
        from orchard.cli.models.gguf_import import offer_import

        names = list(map(offer_import, names))
    serve_models(*gather_config(config, names, flags, os.environ))


@config_app.command("check")
def check_config(file: Annotated[Path, typer.Argument(help="A configuration file in YAML.")]) -> None:
    """Check a configuration file and show the line of every mistake. The exit code is 1 if there is a mistake."""
    from orchard.cli.config import check_config_file

    check_config_file(file)


@cluster_app.command("check")
def check_cluster(
    file: Annotated[Path, typer.Argument(help="A hostfile, in the format of mlx.launch.")],
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODEL", help="Models whose files to compare.", autocompletion=_complete_model),
    ] = None,
) -> None:
    """Reach the hosts of a file as --hosts does, compare them, and say what to mend. The exit code is 1 if there is a
    problem.
    """
    from orchard.cli.cluster.check import check_hosts

    if not check_hosts(str(file), models or ()):
        raise typer.Exit(1)


@setup_app.command()
def images(
    remove: Annotated[bool, typer.Option("--remove", help="Delete this environment instead.")] = False,
) -> None:
    """Install the libraries for image models (500 MB) into an environment of their own, or repair it."""
    from orchard.cli import setup
    from orchard.environments.environment import IMAGES

    (setup.remove_environment if remove else setup.set_up_environment)(IMAGES)


@service_app.command(cls=LongHelp)
def install(
    config: _Config = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the file and the commands, and change nothing.")
    ] = False,
) -> None:
    """Install and start the service: a user's unit of systemd, or an agent of launchd.

    It runs 'orchard serve --config FILE' in this folder, with settings from the file only. Run it again after
    Orchard or Python has moved.
    """
    from orchard.cli.service.manage import install_service

    install_service(config, dry_run=dry_run)


@service_app.command()
def status() -> None:
    """Say whether the service runs and what it serves."""
    from orchard.cli.service.manage import show_status

    show_status()


@service_app.command("logs")
def service_logs(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new lines, until Ctrl-C.")] = False,
) -> None:
    """Show the last lines of the service's log."""
    from orchard.cli.service.manage import show_logs

    show_logs(follow=follow)


@service_app.command()
def uninstall() -> None:
    """Stop and remove the service."""
    from orchard.cli.service.manage import uninstall_service

    uninstall_service()


@app.command(cls=LongHelp)
def run(
    model: Annotated[
        str | None,
        typer.Argument(metavar="NAME", envvar="ORCHARD_MODEL", help=_RUN_HELP, autocompletion=_complete_model),
    ] = None,
    question: Annotated[
        list[str] | None, typer.Argument(metavar="QUESTION", help="Print the answer to this question, and exit.")
    ] = None,
    *,
    prompt: Annotated[
        str,
        typer.Option(
            "--prompt", "-p", "--message", "-m", help="The question, if NAME is left out.", show_default=False
        ),
    ] = "",
    image: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="An image for the question. May be repeated.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Download without asking.")] = False,
    url: _Url = None,
    api_key: _ApiKey = None,
) -> None:
    """Talk to a model in the terminal. 'orchard chat' does the same.

    A model that is not on this machine is downloaded, after a question that says how large it is. If no server runs
    on this machine, one is started until the end of the conversation. With a question, or with text on stdin, only
    the answer is printed: git diff | orchard run NAME "What has changed?". In a conversation, /help lists the commands.
    """
    from orchard.cli.endpoint import first_key
    from orchard.cli.run import run_model

    text = " ".join((*(question or ()), prompt))
    run_model(model, text, image or (), url, first_key(api_key), sure=yes)


@app.command(cls=LongHelp)
def agent(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="The agent to start. Without it, list the agents.", autocompletion=_complete_agent
        ),
    ] = None,
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="ARGUMENT", help="What the agent gets, after --.")
    ] = None,
    *,
    model: Annotated[
        str | None,
        typer.Option(
            envvar="ORCHARD_MODEL",
            help="The model. By default, one of the server's that can call tools.",
            autocompletion=_complete_model,
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Download the model without asking.")] = False,
    url: _Url = None,
    api_key: _ApiKey = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the variables, files and command, and start nothing.")
    ] = False,
) -> None:
    """Start a coding agent with a local model. If no server is running on this machine, start one for the agent.

    The agent gets a folder of its own, ~/.orchard/agents/NAME; its own configuration stays as it is. 'orchard launch
    NAME' does the same.
    """
    from orchard.cli.agents.start import list_agents, start_agent
    from orchard.cli.endpoint import first_key

    if name is None:
        list_agents()
    elif code := start_agent(name, arguments or (), model, url, first_key(api_key), sure=yes, dry_run=dry_run):
        raise typer.Exit(code)


@app.command()
def models(
    config: _Config = None,
    model_dir: _ModelDir = None,
) -> None:
    """List the models on this machine: those in a configuration file, the local Hugging Face cache and a folder.

    Into a pipe or a file, their folders are written, too.
    """
    from orchard.cli.config import gather_config
    from orchard.cli.models.local import print_models

    folder = str(model_dir) if model_dir else None
    given = (
        gather_config(config, (), {"model_dir": folder}, os.environ).settings if config else Settings(model_dir=folder)
    )
    print_models(given)


@app.command()
def pull(
    model: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="The id on the Hugging Face Hub, such as org/name, or a short name such as 'qwen3-8b'.",
            autocompletion=_complete_model,
        ),
    ],
    revision: Annotated[str | None, typer.Option(help="A branch, a tag or a commit.")] = None,
) -> None:
    """Download a model into the local Hugging Face cache. Files that are already there are kept."""
    from orchard.cli.models.pull import pull_model

    pull_model(model, revision)


@app.command("import")
def import_gguf(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE|FOLDER|ollama|lmstudio",
            help="A .gguf file, a folder with some, or the models of Ollama or LM Studio.",
            show_default=False,
        ),
    ] = None,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Which of its models; by default all. --list shows them."),
    ] = None,
    *,
    bits: Annotated[
        int | None,
        typer.Option(
            help="The bits of quantised weights: 4, 5, 6, 8, or 16 for none. By default as in the file, or nearly.",
            callback=_require_bits,
        ),
    ] = None,
    exact: Annotated[
        bool, typer.Option("--exact", help="Keep scales and norms exactly, in float32, which is slower.")
    ] = False,
    list_models: Annotated[
        bool, typer.Option("--list", help="List the models of Ollama and LM Studio on this machine.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Import several models without asking.")] = False,
) -> None:
    """Turn GGUF models, the format of llama.cpp, Ollama and LM Studio, into models that Orchard serves.

    They are listed and served like any other model. The GGUF files stay as they are. It needs the extra gguf.
    """
    from orchard.cli.models.gguf_import import import_models, print_stores

    if list_models:
        print_stores()
    elif source is None:
        raise typer.BadParameter("name a FILE, a FOLDER, ollama or lmstudio; --list shows what is on this machine")
    else:
        import_models(source, names or (), bits, exact=exact, sure=yes)


@app.command()
def search(
    words: Annotated[list[str], typer.Argument(metavar="WORDS", help="Parts of the model's id, such as: qwen3 coder.")],
    config: _Config = None,
) -> None:
    """Search the Hugging Face Hub for MLX models. Show how large they are and whether they fit into memory."""
    from orchard.cli.config import gather_config
    from orchard.cli.models.hub import print_hub_models

    print_hub_models(words, gather_config(config, (), {}, os.environ).settings)


@app.command()
def recommend(config: _Config = None) -> None:
    """Say which models to take on this machine for chat, code, vision, embeddings, speech and transcription."""
    from orchard.cli.config import gather_config
    from orchard.cli.models.hub import recommend_models

    recommend_models(gather_config(config, (), {}, os.environ).settings)


@app.command()
def rm(
    model: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="The model's id, as 'orchard models' lists it, or a short name for it.",
            autocompletion=_complete_model,
        ),
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
) -> None:
    """Delete a model from the local Hugging Face cache, or one that was imported."""
    from orchard.cli.models.local import remove_model

    remove_model(model, sure=yes)


@app.command()
def ps(url: _Url = None, api_key: _AdminKey = None) -> None:
    """List the models in the memory of a running server: their size, and how long they stay."""
    from orchard.cli.endpoint import first_key
    from orchard.cli.server.models import print_loaded_models

    print_loaded_models(url, first_key(api_key))


@app.command()
def load(model: _ServedModel, url: _Url = None, api_key: _AdminKey = None) -> None:
    """Load a model into the memory of a running server, and wait until it is ready."""
    from orchard.cli.endpoint import first_key
    from orchard.cli.server.models import load_model

    load_model(model, url, first_key(api_key))


@app.command()
def unload(model: _ServedModel, url: _Url = None, api_key: _AdminKey = None) -> None:
    """Unload a model from the memory of a running server, once its requests have ended."""
    from orchard.cli.endpoint import first_key
    from orchard.cli.server.models import unload_model

    unload_model(model, url, first_key(api_key))


@app.command()
def logs(
    url: _Url = None,
    api_key: _AdminKey = None,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with new lines, until Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, max=1000, help="How many lines.")] = 100,
    level: Annotated[_LogLevel, typer.Option(help="Only lines that are at least of this level.")] = _LogLevel.INFO,
) -> None:
    """Show the last lines of a running server's log."""
    from orchard.cli.endpoint import first_key
    from orchard.cli.server.logs import print_logs

    print_logs(url, first_key(api_key), lines=lines, level=level.value, follow=follow)


@app.command()
def top(url: _Url = None, api_key: _AdminKey = None) -> None:
    """Watch a running server: models, memory and requests, once a second, until Ctrl-C."""
    from orchard.cli.endpoint import first_key
    from orchard.cli.server.top import show_server

    show_server(url, first_key(api_key))


@app.command()
def bench(
    url: Annotated[str, typer.Argument(help="The server's address, such as http://127.0.0.1:8000.")],
    model: Annotated[
        str | None, typer.Argument(help="The model to measure. By default, the first one that the server lists.")
    ] = None,
    *,
    scenario: Annotated[
        list[str] | None,
        typer.Option(
            help="c1, c8, c32, c128 (parallel streams), shared, growing, long, mixed or again. May be repeated."
        ),
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Tokens per answer.")] = 128,
    prompt_tokens: Annotated[int, typer.Option(min=1, help="Tokens per prompt.")] = 256,
    prefix_tokens: Annotated[
        int, typer.Option(min=1, help="Tokens of a shared prefix. 'long' uses twice as many.")
    ] = 2000,
    seed: Annotated[
        int | None,
        typer.Option(
            help="The seed for the random prompts. By default, each run has another one, because a server is faster "
            "with prompts that it knows."
        ),
    ] = None,
    api_key: _ApiKey = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON line for each scenario.")] = False,
) -> None:
    """Measure the speed of any server with OpenAI's API. The exit code is 1 if a request fails."""
    from orchard.cli.bench import LoadProfile, new_seed, run_bench
    from orchard.cli.endpoint import first_key

    seed = new_seed() if seed is None else seed
    load = LoadProfile(max_tokens=max_tokens, prompt_tokens=prompt_tokens, prefix_tokens=prefix_tokens, seed=seed)
    if run_bench(url, model, load, scenarios=scenario or (), api_key=first_key(api_key), as_json=as_json):
        raise typer.Exit(1)


@app.command(cls=LongHelp)
def verify(
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="MODEL", help=_VERIFY_HELP, show_default=False, autocompletion=_complete_model),
    ] = None,
    *,
    config: _Config = None,
    part: Annotated[
        list[_VerifyPart] | None, typer.Option(help="Only this part of the checks. May be repeated. By default, all.")
    ] = None,
    long: Annotated[
        bool,
        typer.Option(
            "--long",
            help="Run all checks, without a limit of time: also take the machine's memory, up to the warning level of "
            "the system, and kill the model's process.",
        ),
    ] = False,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Measure the server at this address, too, in turn with Orchard, or after it if memory may not hold "
            "both models.",
        ),
    ] = None,
    against_model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The other server's model. By default, its only one, or the one with the same name."
        ),
    ] = None,
    remember: Annotated[
        bool,
        typer.Option(
            "--remember", help="If something is wrong, write what to set into the models' entries of the configuration."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report as Markdown.")] = None,
) -> None:
    """Prove on this machine that models' answers are right, fast and safe, in about two minutes for each.

    Right: a request's answer depends neither on other requests, nor on the cache, a restart, guessed tokens or
    streaming, and is that of the library's own loop. Fast: beside that loop. Safe: memory, leaks, clients that leave.
    It starts a server of its own, and never touches one that runs. The report contains nothing private. The exit code
    is 1 if something is wrong or nothing could be checked. A model of the configuration has its settings.
    """
    from orchard.cli.config import gather_config
    from orchard.cli.verify.run import models_to_verify, verify_models

    settings = gather_config(config, (), {}, os.environ).settings
    parts = [one.value for one in part or _VerifyPart]
    entries = models_to_verify(models or (), settings)
    if remember and not config:
        raise OrchardError("invalid_request", "--remember needs a configuration file: --config FILE")
    if not verify_models(
        entries,
        parts,
        long=long,
        against=against,
        against_model=against_model,
        remember=config if remember else None,
        as_json=as_json,
        file=report,
    ):
        raise typer.Exit(1)


@app.command()
def doctor(host: _Host = None, port: _Port = None, *, config: _Config = None, model_dir: _ModelDir = None) -> None:
    """Check what is installed and which models fit into memory. Show what is wrong and how to fix it.

    The settings in the environment and in a configuration file are checked too. The exit code is 1 if Orchard can't
    run.
    """
    from orchard.cli.config import gather_config
    from orchard.cli.doctor import print_findings

    flags = {"host": host, "port": port, "model_dir": str(model_dir) if model_dir else None}
    gathered = gather_config(config, (), flags, os.environ)
    if not print_findings(gathered.settings, gathered.notes):
        raise typer.Exit(1)
