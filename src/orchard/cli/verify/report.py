"""What `orchard verify` prints and writes. Nothing private is in it: no paths, no names of hosts or people."""

import os
import platform
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from msgspec import Struct
from rich.console import Console
from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from orchard import __version__
from orchard.cli.verify.proof import Proof

_LIBRARIES = ("mlx", "mlx-lm", "mlx-vlm", "mlx-audio", "transformers")
_COLOURS = {"ok": "green", "rounding": "green", "problem": "red", "left out": "yellow"}


class Machine(Struct):
    """The machine of a report."""

    date: str
    system: str
    cores: int | None
    device: str
    backend: str
    memory_bytes: int
    versions: dict[str, str]


class VerifyReport(Struct):
    """All of a run."""

    machine: Machine
    proofs: list[Proof]

    @property
    def is_well(self) -> bool:
        """Whether something was checked, and nothing was found wrong."""
        found = {proof.status for proof in self.proofs}
        return "problem" not in found and not found.isdisjoint(("ok", "rounding"))


def describe_machine(probed: dict[str, Any]) -> Machine:
    """Return the machine. `probed` is what `orchard.worker.probe` prints."""
    versions = {"orchard": __version__, "python": platform.python_version()}
    for name in _LIBRARIES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    name, release = ("macOS", platform.mac_ver()[0]) if sys.platform == "darwin" else (platform.system(), "")
    return Machine(
        date=time.strftime("%Y-%m-%d", time.gmtime()),
        system=f"{name} {release}".strip() + f", {platform.machine()}",
        cores=os.cpu_count(),
        device=probed["device"] if probed["backend"] != "cpu" else "CPU",
        backend=probed["backend"],
        memory_bytes=probed["memory_bytes"],
        versions=versions,
    )


class ProofTable:
    """Prints each proof on a terminal as soon as it is made, and what runs now."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status = console.status("")
        self._model = ""

    def __enter__(self) -> "ProofTable":
        self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._status.stop()

    def begin(self, what: str) -> None:
        """Say what runs now."""
        self._status.update(Text(what))

    def add(self, proof: Proof) -> None:
        """Print a proof."""
        if proof.model != self._model:
            self._model = proof.model
            self._console.print(Text(proof.model, style="bold"))
        row = Table.grid(padding=(0, 2))
        row.add_column(width=8, style=_COLOURS[proof.status])
        row.add_column(width=5)
        row.add_column(width=13)
        row.add_column(overflow="fold")
        row.add_row(proof.status, proof.part, proof.check, Text(proof.seen))
        if proof.advice:
            row.add_row("", "", "", Text(f"set: {proof.advice}", style="italic"))
        self._console.print(row)


def closing_line(proofs: Sequence[Proof]) -> str:
    """Return a line that counts what was found."""
    counts = {status: sum(proof.status == status for proof in proofs) for status in _COLOURS}
    told = f"{counts['ok']} right, {counts['rounding']} within rounding, {counts['problem']} wrong"
    names = [f"{proof.check} ({proof.model})" for proof in proofs if proof.status == "left out"]
    return f"{told}; left out: {', '.join(names) or 'nothing'}"


def write_markdown(report: VerifyReport) -> str:
    """Return the report as a page."""
    machine = report.machine
    cores = f"{machine.cores} cores, " if machine.cores else ""
    lines = [
        "# orchard verify",
        "",
        f"{machine.date}: {machine.system}, {cores}{machine.device}, {decimal(machine.memory_bytes)} of memory; "
        + ", ".join(f"{name} {number}" for name, number in machine.versions.items()),
    ]
    for model in dict.fromkeys(proof.model for proof in report.proofs):
        lines += ["", f"## {model}", "", "| | check | result | what was seen | seconds |", "|---|---|---|---|---:|"]
        lines += [
            f"| {proof.part} | {proof.check} | {proof.status} | {_cell(proof)} | {proof.seconds:.1f} |"
            for proof in report.proofs
            if proof.model == model
        ]
    return "\n".join([*lines, "", closing_line(report.proofs), ""])


def _cell(proof: Proof) -> str:
    text = f"{proof.seen}; set: {proof.advice}" if proof.advice else proof.seen
    return " ".join(text.replace("|", "\\|").split())
