"""The commands. The code of each, and what that needs, is imported when it runs: `orchard serve` must be up at once."""

import sys
from typing import Annotated, NoReturn

import typer

from orchard import __version__
from orchard.config import LogLevel, Settings
from orchard.core.errors import OrchardError

app = typer.Typer(
    help="One local server for every model that runs on MLX.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_DEFAULTS = Settings()
_Host = Annotated[str, typer.Option(envvar="ORCHARD_HOST", help="The address to listen on.")]
_Port = Annotated[int, typer.Option(envvar="ORCHARD_PORT", min=0, max=65535, help="The port; 0 takes a free one.")]
_MODEL_HELP = "'demo', a folder with a model in MLX format, or a Hugging Face id that is in the local cache."


def main() -> None:
    """Run the command line. What a user can mend ends as one line on stderr and exit code 1."""
    try:
        app(prog_name="orchard")
    except OrchardError as error:
        _fail(error.message)


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


@app.command()
def serve(
    model: Annotated[str, typer.Argument(envvar="ORCHARD_MODEL", help=_MODEL_HELP)] = "demo",
    *,
    host: _Host = _DEFAULTS.host,
    port: _Port = _DEFAULTS.port,
    log_level: Annotated[
        LogLevel, typer.Option(envvar="ORCHARD_LOG_LEVEL", help="How much is logged.")
    ] = _DEFAULTS.log_level,
    max_requests: Annotated[
        int, typer.Option(envvar="ORCHARD_MAX_REQUESTS", min=1, help="Requests at once; one more is refused.")
    ] = _DEFAULTS.max_requests,
    max_body_bytes: Annotated[
        int, typer.Option(envvar="ORCHARD_MAX_BODY_BYTES", min=1, help="A larger request is refused with 413.")
    ] = _DEFAULTS.max_body_bytes,
    shutdown_grace: Annotated[
        int, typer.Option(envvar="ORCHARD_SHUTDOWN_GRACE", min=0, help="Seconds that running answers get at the end.")
    ] = int(_DEFAULTS.shutdown_grace),
) -> None:
    """Serve a model until Ctrl-C, behind the OpenAI API."""
    from orchard.cli.serve import serve

    settings = Settings(
        host=host,
        port=port,
        log_level=log_level,
        max_requests=max_requests,
        max_body_bytes=max_body_bytes,
        shutdown_grace=shutdown_grace,
    )
    serve(model, settings)


@app.command()
def chat(
    model: Annotated[str | None, typer.Argument(envvar="ORCHARD_MODEL", help=_MODEL_HELP)] = None,
    url: Annotated[
        str | None, typer.Option(envvar="ORCHARD_URL", help="The server to talk to, as in http://127.0.0.1:8000.")
    ] = None,
    message: Annotated[str | None, typer.Option("--message", "-m", help="Ask this, print the answer, and end.")] = None,
) -> None:
    """Talk in the terminal: to the server that runs here, or to one started for this talk.

    Where stdin is no terminal, its text is the message.
    """
    from orchard.cli.chat import chat

    chat(model, url, message)


@app.command()
def models() -> None:
    """List the models that are here: the bundled one and those of the local Hugging Face cache."""
    from orchard.cli.models import models

    models()


@app.command()
def doctor(host: _Host = _DEFAULTS.host, port: _Port = _DEFAULTS.port) -> None:
    """Say what is here, what is wrong and what to do about it; exit code 1 where Orchard can't work."""
    from orchard.cli.doctor import doctor

    if not doctor(host, port):
        raise typer.Exit(1)


def _fail(message: str) -> NoReturn:
    print("orchard:", " ".join(message.split()), file=sys.stderr)
    sys.exit(1)
