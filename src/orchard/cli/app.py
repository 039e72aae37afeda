"""The commands. The code of each, and what that needs, is imported when it runs: `orchard serve` must be up at once."""

import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from orchard import __version__
from orchard.cli import options
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
_ApiKey = Annotated[
    str | None, typer.Option(envvar="ORCHARD_API_KEY", help="Sent as a bearer token; of several, the first.")
]
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
    stable_prompts: options.StablePrompts = _DEFAULTS.stable_prompts,
    api_key: options.ApiKey = None,
    api_key_file: options.ApiKeyFile = None,
    cors_origin: options.CorsOrigin = None,
    responses_path: options.ResponsesPath = Path(_DEFAULTS.responses_path),
    responses_ttl: options.ResponsesTtl = _DEFAULTS.responses_ttl,
    responses_max_bytes: options.ResponsesMaxBytes = _DEFAULTS.responses_max_bytes,
    responses_archive_dir: options.ResponsesArchiveDir = None,
    adapter_path: options.AdapterPath = None,
    tool_call_parser: options.ToolCallParser = None,
    reasoning_parser: options.ReasoningParser = None,
    message_converter: options.MessageConverter = None,
    decode_concurrency: options.DecodeConcurrency = _DEFAULTS.text.max_rows,
    queue_size: options.QueueSize = _DEFAULTS.text.max_waiting,
    prefill_step_size: options.PrefillStepSize = _DEFAULTS.text.prefill_chunk,
    max_kv_size: options.MaxKvSize = _DEFAULTS.text.max_kv_size,
    kv_bits: options.KvBits = _DEFAULTS.text.kv_bits,
    kv_group_size: options.KvGroupSize = _DEFAULTS.text.kv_group_size,
    quantized_kv_start: options.QuantizedKvStart = _DEFAULTS.text.quantized_kv_start,
    memory_limit: options.MemoryLimit = _DEFAULTS.text.memory_limit,
    prompt_cache_bytes: options.PromptCacheBytes = _DEFAULTS.text.prompt_cache_bytes,
    prompt_cache_dir: options.PromptCacheDir = None,
    prompt_cache_dir_bytes: options.PromptCacheDirBytes = _DEFAULTS.text.prompt_cache_dir_bytes,
) -> None:
    """Serve a model until Ctrl-C, behind the APIs of OpenAI, Azure OpenAI and Anthropic."""
    from orchard.cli.keys import api_keys
    from orchard.cli.serve import serve

    text = options.text_options(
        adapter_path=adapter_path,
        tool_call_parser=tool_call_parser,
        reasoning_parser=reasoning_parser,
        message_converter=message_converter,
        max_rows=decode_concurrency,
        max_waiting=queue_size,
        prefill_chunk=prefill_step_size,
        max_kv_size=max_kv_size,
        kv_bits=kv_bits,
        kv_group_size=kv_group_size,
        quantized_kv_start=quantized_kv_start,
        memory_limit=memory_limit,
        prompt_cache_bytes=prompt_cache_bytes,
        prompt_cache_dir=prompt_cache_dir,
        prompt_cache_dir_bytes=prompt_cache_dir_bytes,
    )
    settings = Settings(
        host=host,
        port=port,
        log_level=log_level,
        max_requests=max_requests,
        max_body_bytes=max_body_bytes,
        shutdown_grace=shutdown_grace,
        stable_prompts=stable_prompts,
        api_keys=api_keys(api_key or (), api_key_file),
        cors_origins=tuple(cors_origin or ()),
        responses_path=str(responses_path),
        responses_ttl=responses_ttl,
        responses_max_bytes=responses_max_bytes,
        responses_archive_dir=None if responses_archive_dir is None else str(responses_archive_dir),
        text=text,
    )
    serve(model, settings)


@app.command()
def chat(
    model: Annotated[str | None, typer.Argument(envvar="ORCHARD_MODEL", help=_MODEL_HELP)] = None,
    url: Annotated[
        str | None, typer.Option(envvar="ORCHARD_URL", help="The server to talk to, as in http://127.0.0.1:8000.")
    ] = None,
    message: Annotated[str | None, typer.Option("--message", "-m", help="Ask this, print the answer, and end.")] = None,
    api_key: _ApiKey = None,
) -> None:
    """Talk in the terminal: to the server that runs here, or to one started for this talk.

    Where stdin is no terminal, its text is the message.
    """
    from orchard.cli.chat import chat
    from orchard.cli.keys import first_key

    chat(model, url, message, first_key(api_key))


@app.command()
def models() -> None:
    """List the models that are here: the bundled one and those of the local Hugging Face cache."""
    from orchard.cli.models import models

    models()


@app.command()
def bench(
    url: Annotated[str, typer.Argument(help="The server, as in http://127.0.0.1:8000.")],
    model: Annotated[
        str | None, typer.Argument(help="The model to ask for; else the first that the server lists.")
    ] = None,
    *,
    scenario: Annotated[
        list[str] | None,
        typer.Option(
            help="c1, c8, c32, c128 (streams at once), shared, growing, long, mixed or again; may be repeated."
        ),
    ] = None,
    max_tokens: Annotated[int, typer.Option(min=1, help="Tokens of an answer.")] = 128,
    prompt_tokens: Annotated[int, typer.Option(min=1, help="Tokens of a prompt.")] = 256,
    prefix_tokens: Annotated[int, typer.Option(min=1, help="Tokens of a long prefix; 'long' sends twice that.")] = 2000,
    seed: Annotated[int, typer.Option(help="Another seed makes other prompts.")] = 0,
    api_key: _ApiKey = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON line for each scenario.")] = False,
) -> None:
    """Measure a server, any that speaks the OpenAI API; exit code 1 where a request failed."""
    from orchard.cli.bench import Load, bench
    from orchard.cli.keys import first_key

    load = Load(max_tokens=max_tokens, prompt_tokens=prompt_tokens, prefix_tokens=prefix_tokens, seed=seed)
    if bench(url, model, load, scenarios=scenario or (), api_key=first_key(api_key), as_json=as_json):
        raise typer.Exit(1)


@app.command()
def doctor(host: _Host = _DEFAULTS.host, port: _Port = _DEFAULTS.port) -> None:
    """Say what is here, what is wrong and what to do about it; exit code 1 where Orchard can't work."""
    from orchard.cli.doctor import doctor

    if not doctor(host, port):
        raise typer.Exit(1)


def _fail(message: str) -> NoReturn:
    print("orchard:", " ".join(message.split()), file=sys.stderr)
    sys.exit(1)
