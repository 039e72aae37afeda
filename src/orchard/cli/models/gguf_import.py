"""`orchard import`: turn GGUF models into folders in MLX format; `orchard serve` and `orchard run` offer it."""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import typer
from rich import progress
from rich.console import Console
from rich.filesize import decimal

from orchard.cli.models import gguf_stores
from orchard.cli.models.gguf_stores import StoredModel
from orchard.cli.settings.values import printable_text
from orchard.cli.signals import exit_on_signals
from orchard.cli.word_wrap import print_line
from orchard.core.errors import OrchardError
from orchard.gateway.caller import environment_without_keys
from orchard.gateway.models import gguf
from orchard.gateway.models.gguf import Origin
from orchard.gguf_job import ImportJob, ImportReport

_PROGRAM = "orchard.gguf_import.process"
_PARTIAL = ".partial"
_END_SECONDS = 5.0


def import_models(source: str, names: Sequence[str], bits: int | None, *, exact: bool, sure: bool) -> None:
    """Import the models of a source, or those with these names. Raise OrchardError if one can't be imported.

    Several are imported after the user has confirmed, unless they are named.
    """
    found = gguf_stores.find_models(source)
    names = [name.removesuffix(":latest") for name in names]
    chosen = [model for model in found if not names or model.name in names]
    if unknown := set(names) - {model.name for model in chosen}:
        listed = ", ".join(model.name for model in found)
        raise OrchardError("model_not_found", f"{source} has no model '{min(unknown)}'; it has: {listed}")
    if len(chosen) > 1 and not names and not sure:
        _confirm(f"{source} has {len(chosen)} models, {decimal(sum(model.size for model in chosen))}. Import them all?")
    failures = []
    for model in chosen:
        try:
            import_model(model, bits, exact=exact)
        except OrchardError as error:
            if len(chosen) == 1:
                raise
            failures.append(error.message)
    if failures:
        raise OrchardError("model_failed", "; ".join(failures))


def print_stores() -> None:
    """List the GGUF models on this machine that `orchard import` finds, and which are imported."""
    stores = gguf_stores.all_stores()
    for store, models in stores:
        for model in models:
            state = model.refusal or ("imported" if gguf.find_imported(model.files[0]) else "")
            note = f"  ({state})" if state else ""
            print_line(printable_text(f"orchard import {store} {model.name}  {decimal(model.size)}{note}"))
    if not stores:
        print_line(
            "There are no models in the stores of Ollama and LM Studio; 'orchard import FILE' imports a GGUF file."
        )


def offer_import(name: str, *, sure: bool = False) -> str:
    """Return the folder of the model that was made of a GGUF file or folder; other names are returned as they are.

    If there is none, import it after the user has confirmed or is `sure`. Raise OrchardError if nobody can be asked.
    """
    if not (model := _gguf_model(name)):
        return name
    if folder := gguf.find_imported(model.files[0]):
        return folder
    if not sure:
        if not sys.stdin.isatty():
            message = f"{name} is in GGUF, the format of llama.cpp; 'orchard import {name}' makes it a model to serve"
            raise OrchardError("model_not_found", printable_text(message))
        _confirm(f"{name} is in GGUF, the format of llama.cpp. Import it ({decimal(model.size)})?")
    return import_model(model, None, exact=False)


def offer_stored(name: str, *, sure: bool) -> str | None:
    """Return the folder of the model that was made of the one that Ollama has under a name; None if there is none.

    It is imported after the user has confirmed or is `sure`. Raise OrchardError if nobody can be asked.
    """
    model = gguf_stores.find_ollama_model(name)
    if model is None or model.refusal:
        return None
    if not sure:
        if not sys.stdin.isatty():
            message = f"{name} is in Ollama's store; --yes imports it ({decimal(model.size)})"
            raise OrchardError("model_not_found", printable_text(message))
        question = f"Ollama has {model.name} ({decimal(model.size)}) on this machine. Import it?"
        if not typer.confirm(printable_text(question), default=True, err=True):
            return None
    try:
        return import_model(model, None, exact=False)
    except OrchardError as error:  # the Hub may have it in MLX's format
        print_line(f"orchard: {printable_text(error.message)}", sys.stderr)
        return None


def import_model(model: StoredModel, bits: int | None, *, exact: bool) -> str:
    """Import a model, unless that has been done, and return its folder. Raise OrchardError if that fails."""
    if model.refusal:
        raise OrchardError("model_failed", f"{model.name} is not imported: {model.refusal}")
    if find_spec("gguf") is None:
        raise OrchardError("model_failed", "importing needs the extra gguf: pip install 'mlx-orchard[gguf]'")
    details: dict[str, Any] = {"system": model.system, "parameters": model.parameters, "license": model.license}
    origin = Origin(
        files=gguf.describe_files(model.files),
        bits=bits,
        exact=exact,
        details={name: value for name, value in details.items() if value},
    )
    folder = Path(gguf.imported_root(), model.name)
    known = gguf.read_origin(folder)
    if known == origin:
        print_line(printable_text(f"{model.name} is here already, in {folder}"), sys.stderr)
        return str(folder)
    if folder.exists() and not (known and [file.path for file in known.files] == [file.path for file in origin.files]):
        other = f" from {known.files[0].path}" if known and known.files else ""
        raise OrchardError(
            "model_failed", f"there is a model '{model.name}'{other} already; 'orchard rm {model.name}' deletes it"
        )
    try:
        with exit_on_signals(), _partial_folder(folder) as partial:
            files = [str(file.absolute()) for file in model.files]
            job = ImportJob(files=files, folder=str(partial), **details, bits=bits, exact=exact)
            notes = _run_importer(job, model)
            gguf.write_origin(partial, origin)
            _replace_folder(partial, folder)
    except OSError as error:
        raise OrchardError("model_failed", f"{model.name} is not imported: {error.strerror or error}") from None
    print_line(printable_text(f"{model.name} is here: {folder}"), sys.stderr)  # an answer of 'orchard run' may follow
    for note in notes:
        print_line(printable_text(f"  {note}"), sys.stderr)
    return str(folder)


def _gguf_model(name: str) -> StoredModel | None:
    """Return the only GGUF model in a file or folder that a user names; None if it is something else."""
    found = gguf_stores.find_models(name) if gguf.is_gguf_path(name) else []
    return found[0] if len(found) == 1 else None


@contextmanager
def _partial_folder(folder: Path) -> Iterator[Path]:
    """Make an empty folder beside one, and delete it at the end. Raise OSError, or OrchardError if it is in use."""
    partial = folder.with_name(f".{folder.name}{_PARTIAL}")
    partial.mkdir(parents=True, exist_ok=True)
    number = os.open(partial, os.O_RDONLY)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(number)
        raise OrchardError("unavailable", f"another 'orchard import' of {folder.name} is running") from None
    try:
        _empty_folder(partial)  # of an import that was killed
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        os.close(number)


def _empty_folder(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()


def _replace_folder(partial: Path, folder: Path) -> None:
    """Give a folder's name to another one; what had it before is deleted."""
    before = folder.with_name(f".{folder.name}.replaced")
    shutil.rmtree(before, ignore_errors=True)
    with suppress(FileNotFoundError):
        folder.rename(before)
    partial.rename(folder)
    shutil.rmtree(before, ignore_errors=True)


def _run_importer(job: ImportJob, model: StoredModel) -> list[str]:
    """Run the process that imports, with a progress bar; return what the user should know. Raise OrchardError."""
    command = [sys.executable, "-m", _PROGRAM]
    report = ImportReport()
    columns = progress.BarColumn(), progress.DownloadColumn(), progress.TimeRemainingColumn()
    with (
        progress.Progress(*columns, console=Console(stderr=True), transient=True) as shown,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment_without_keys(),
            start_new_session=True,  # Ctrl-C reaches only this process, which ends the other one
        ) as process,
    ):
        assert process.stdin
        assert process.stdout
        bar = shown.add_task(model.name, total=None)
        try:
            process.stdin.write(msgspec.json.encode(job) + b"\n")
            process.stdin.flush()
            for line in process.stdout:
                report = msgspec.json.decode(line, type=ImportReport)
                if report.total:
                    shown.update(bar, completed=report.done, total=report.total)
                elif report.note:
                    shown.columns = (progress.TextColumn(report.note),)
        except BrokenPipeError:
            pass  # its end is reported below
        finally:
            process.stdin.close()  # this ends the process
            with suppress(subprocess.TimeoutExpired):
                process.wait(_END_SECONDS)
            process.kill()
    if report.failed:
        raise OrchardError("model_failed", f"{model.files[0]} can't be imported: {report.failed}")
    if not report.is_whole:
        raise OrchardError("model_failed", f"the import of {model.name} broke off (exit code {process.returncode})")
    return report.notes


def _confirm(question: str) -> None:
    """Ask the user. Raise typer.Abort if the answer is no, or OrchardError if nobody can be asked."""
    if not sys.stdin.isatty():
        raise OrchardError("invalid_request", f"{question} --yes does")
    if not typer.confirm(printable_text(question), default=True, err=True):
        raise typer.Abort
