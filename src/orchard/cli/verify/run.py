"""Runs the checks: the library's own loop, then a server, then the same server again after a restart.

Only one of them has the weights in memory at a time. So the library's loop does not run in the server's worker, whose
kernels and memory it would share, but in a process of its own that has ended before the server starts.
"""

import asyncio
import math
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Literal, NamedTuple

import httpx
import msgspec
import typer
from msgspec.structs import fields, replace
from rich.console import Console

from orchard.cli.config import config_has_model, model_file, put_model_settings
from orchard.cli.machine import probe_mlx
from orchard.cli.own_server import start_server
from orchard.cli.signals import exit_on_signals
from orchard.cli.verify.checks import CALLERS, CHECKS, SPEED_TOKENS
from orchard.cli.verify.other_server import OtherServer, find_other_server
from orchard.cli.verify.proof import LANGUAGE, Check, Proof, Stage
from orchard.cli.verify.report import ProofTable, VerifyReport, closing_line, describe_machine, write_markdown
from orchard.cli.verify.right import ANSWER_TOKENS
from orchard.cli.verify.subject import Subject
from orchard.config import ModelSettings, Settings
from orchard.core.errors import OrchardError
from orchard.core.request import LoadOptions
from orchard.gateway.crash_reason import hide_folders
from orchard.gateway.models.entry import ModelEntry
from orchard.gateway.models.registry import Registry
from orchard.gateway.models.sources import BUNDLED, DEMO

_SECONDS = 120.0  # for the checks of one model, beside loads
_BARE_SECONDS = 50.0  # of them at most for the library's own loop, so that Orchard is checked on a busy machine, too
_LEAST_READ = 2e8  # bytes per second, of weights on a disk
_OTHER_SECONDS = 60.0  # for another server, beside the time for Orchard
_FIRST_SHARE = 0.7  # of the time, for the checks before the restart
_ROUNDS = 3

Report = Callable[[Proof], None]
Begin = Callable[[str], None]


class Candidate(NamedTuple):
    """A model to verify, its settings, and the most bytes that the server's models may use (None: the default)."""

    entry: ModelEntry
    settings: ModelSettings
    memory_limit: int | None = None


def verify_model(
    candidate: Candidate,
    parts: Collection[str],
    report: Report,
    begin: Begin,
    *,
    long: bool,
    other: OtherServer | None = None,
) -> None:
    """Check a model and report each proof as soon as it is made. `begin` is called with what begins."""
    entry = candidate.entry
    subject = Subject(entry, [secrets.token_urlsafe() for _ in range(CALLERS)], long=long, other=other)
    chosen = [check for check in CHECKS if check.part in parts and entry.kind in check.kinds]
    if not (other and other.apart):
        chosen = [check for check in chosen if check.stage != "stopped"]
    if entry.kind not in {kind for check in CHECKS for kind in check.kinds}:
        seen = f"there are no checks for models of the kind {entry.kind}"
        report(Proof(status="left out", check="all", seen=seen, model=entry.id))
        return
    left = math.inf if long else _SECONDS + (_OTHER_SECONDS if other and not other.apart else 0.0)
    if entry.kind in (*LANGUAGE, "transcription"):
        begin(f"{entry.id}: the library's own loop")
        began = time.monotonic()
        limit = None if long else _BARE_SECONDS + entry.size_bytes / _LEAST_READ
        if entry.kind in LANGUAGE:
            subject.bare = subject.run_bare(_ROUNDS, SPEED_TOKENS, ANSWER_TOKENS, limit)
        else:
            subject.heard = subject.hear_bare(limit)
        loading = subject.bare.load_seconds if subject.bare else 0.0
        left -= min(time.monotonic() - began - loading, _BARE_SECONDS)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "orchard.yaml")
        file.write_text(model_file(candidate.settings))
        for stage, group in groupby(sorted(chosen, key=lambda check: _STAGES.index(check.stage)), _stage_of):
            checks = list(group)
            if stage == "stopped":
                subject.url = ""
                asyncio.run(_run_checks(subject, checks, math.inf if long else _OTHER_SECONDS, report, begin))
                continue
            options = ["--config", str(file), "--keys-may-manage-models", *_OPTIONS[stage]]
            options += ["--memory-limit", str(candidate.memory_limit)] if candidate.memory_limit else []
            options += ["--prompt-cache-dir", folder] if entry.kind in LANGUAGE else []
            begin(f"{entry.id}: starting a server")
            share = left * (_FIRST_SHARE if stage == "first" else 1.0)
            try:
                with start_server(None, options, subject.keys) as client:
                    subject.url = client.url
                    left -= asyncio.run(_run_checks(subject, checks, share, report, begin))
            except (OrchardError, httpx.HTTPError) as error:
                advice = "orchard doctor, and the log of orchard serve --debug"
                why = error.message if isinstance(error, OrchardError) else f"it ended ({type(error).__name__})"
                seen = f"the server did not serve the model: {why}"
                report(Proof(status="problem", check=f"server, {stage}", seen=seen, advice=advice, model=entry.id))
                return


_STAGES: tuple[Stage, ...] = ("first", "restarted", "stopped")
# Answers must not depend on guesses: the first server makes none.
_OPTIONS: dict[Stage, list[str]] = {"first": ["--speculation", "off"], "restarted": []}


def _stage_of(check: Check) -> Stage:
    return check.stage


async def _run_checks(subject: Subject, checks: Sequence[Check], seconds: float, report: Report, begin: Begin) -> float:
    """Run the checks that the time allows. Return how many seconds they took, without the load."""
    if subject.url:
        await subject.wait_until_ready()
    started = time.monotonic()
    for check in checks:
        begin(f"{subject.entry.id}: {check.name}")
        check_began = time.monotonic()
        left = seconds - (check_began - started)
        if check.long and not subject.long:
            proof = Proof(status="left out", seen="it takes long: --long includes it")
        elif left <= 0:
            proof = Proof(status="left out", seen="the time was over: --long has no limit")
        else:
            proof = await _run_check(subject, check, left)
        took = time.monotonic() - check_began
        names = {"model": subject.entry.id, "part": check.part, "check": check.name, "seconds": round(took, 2)}
        report(replace(proof, **names))
    return time.monotonic() - started


async def _run_check(subject: Subject, check: Check, seconds: float) -> Proof:
    try:
        async with asyncio.timeout(seconds):
            return await check.run(subject)
    except TimeoutError:
        return Proof(status="left out", seen=f"it did not end within {seconds:.0f} s: --long has no limit")
    except OrchardError as error:
        seen = error.message
    except httpx.HTTPError as error:
        seen = f"the connection failed ({type(error).__name__})"
    except Exception as error:  # such as an answer without a field: the other checks still run
        seen = f"the check failed ({type(error).__name__})"
    return Proof(status="problem", seen=seen, advice="orchard doctor, and please report it")


def verify_models(
    candidates: Sequence[Candidate],
    parts: Collection[str],
    *,
    long: bool,
    against: str | None,
    against_model: str | None,
    remember: Path | None,
    as_json: bool,
    file: Path | None,
) -> bool:
    """Check models, print what was found, and write it to a file. Return whether nothing is wrong.

    `remember`: a configuration file, into which the settings go that make the models right. Raise OrchardError if MLX
    doesn't work here, no server answers at `against` or none of its models is meant, a file can't be written, or a
    model is not in the configuration file.
    """
    for entry, model, _ in candidates:
        if remember and not config_has_model(remember, model):
            told = f"--remember gives settings to models of {remember}, and it has no entry for '{entry.id}'"
            raise OrchardError("invalid_request", told)
    if file:
        is_new = not file.exists()
        _write_report(file, "", mode="a")  # rather than fail after all checks
        if is_new:
            file.unlink()  # an empty report would look like that of a run that has ended
    probed = probe_mlx()
    if not isinstance(probed, dict):
        raise OrchardError("internal", f"{probed.seen}: {probed.advice}")
    others: dict[str, OtherServer] = {}
    for entry in [one.entry for one in candidates if against and one.entry.kind in LANGUAGE]:
        others[entry.id] = find_other_server(against or "", against_model, entry, probed["available_bytes"])
    if (against or against_model) and not (against and others and "fast" in parts):
        told = "--against and --against-model compare the speed of a model that generates text with that of a server"
        raise OrchardError("invalid_request", told)
    report = VerifyReport(describe_machine(probed), [])
    console = Console(stderr=as_json, quiet=as_json and not sys.stderr.isatty())
    with exit_on_signals(), ProofTable(console) as table:

        def add(proof: Proof) -> None:
            proof = replace(proof, seen=hide_folders(proof.seen))
            report.proofs.append(proof)
            table.add(proof)

        for candidate in candidates:
            name = candidate.entry.id
            try:
                verify_model(candidate, parts, add, table.begin, long=long, other=others.get(name))
            except OSError as error:
                seen = f"the checks can't go on: {error.strerror}"  # without a path
                advice = "TMPDIR to a folder on a disk with space"
                add(Proof(status="problem", check="temporary files", seen=seen, advice=advice, model=name))
    if remember:
        _remember_settings(remember, candidates, report.proofs)
    try:
        if file:
            _write_report(file, write_markdown(report))
    finally:
        typer.echo(msgspec.json.encode(report).decode() if as_json else closing_line(report.proofs))
    return report.is_well


def _remember_settings(file: Path, candidates: Sequence[Candidate], proofs: Sequence[Proof]) -> None:
    """Write what to set into the models' entries, and say it."""
    for entry, model, _ in candidates:
        found = [proof for proof in proofs if proof.model == entry.id and proof.status == "problem"]
        if values := {name: value for proof in found for name, value in proof.settings.items()}:
            put_model_settings(file, model, values)
            told = ", ".join(f"{name}: {value}" for name, value in values.items())
            typer.echo(f"{entry.id} now has in {file}: {told}", err=True)


def _write_report(file: Path, page: str, mode: Literal["w", "a"] = "w") -> None:
    try:
        with file.open(mode, encoding="utf-8") as report:
            report.write(page)
    except OSError as error:
        raise OrchardError("invalid_request", f"--report {file} can't be written: {error.strerror}") from error


def models_to_verify(names: Sequence[str], settings: Settings) -> list[Candidate]:
    """Return the named models, else the configured ones, else those that come with Orchard, with their settings.

    Raise OrchardError if one is not on this machine, or if a configured one can't be served.
    """
    is_configured = settings.models not in ((), (_plain_settings(DEMO, settings),))  # which stands for none
    configured = [one for model in settings.models for one in _candidates(model, settings)] if is_configured else []
    if not names:
        found = configured or [
            one for name in BUNDLED for one in _candidates(_plain_settings(name, settings), settings)
        ]
    else:
        found = []
        for name in names:
            named = [one for one in configured if name in (one.entry.id, *one.entry.aliases)]
            found += named or _candidates(_plain_settings(name, settings), settings)
    for entry, *_ in found:
        if not entry.path:
            raise OrchardError("model_not_found", f"'{entry.id}' is not on this machine: orchard pull {entry.id}")
    return found


def _candidates(model: ModelSettings, settings: Settings) -> Iterator[Candidate]:
    """Yield a model alone and with each of its adapters."""
    for entry in Registry.from_settings(replace(settings, models=(model,), fallback_model=None)).configured_models():
        yield Candidate(entry, model, settings.memory_limit)


def _plain_settings(name: str, settings: Settings) -> ModelSettings:
    """Return the settings of a model that has none of its own: those of all models."""
    shared = [field.name for field in fields(ModelSettings) if isinstance(field.default, LoadOptions)]
    return ModelSettings(model_path=name, ttl=settings.ttl, **{field: getattr(settings, field) for field in shared})
