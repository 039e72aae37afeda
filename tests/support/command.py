"""The command `orchard`, as a process or, faster, in the tests' own."""

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from unittest import mock

from orchard.cli import main


def clean(**env: str) -> dict[str, str]:
    """The environment without what a developer may have set for Orchard, and with colours off."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ORCHARD_")}
    return {**kept, "NO_COLOR": "1", "COLUMNS": "200", **env}


def orchard(*args: str, stdin: str = "", **env: str) -> "subprocess.CompletedProcess[str]":
    """Run a command in this process, which has imported what it needs: that takes longer than most commands."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.dict(os.environ, clean(**env), clear=True),
        mock.patch.multiple(sys, argv=["orchard", *args], stdin=io.StringIO(stdin)),
    ):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    return subprocess.CompletedProcess(args, code, out.getvalue(), err.getvalue())


def orchard_process(*args: str, **env: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "orchard", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, env=clean(**env), check=False)


def orchard_over_cache(
    cache: Path, *args: str, answer: str = "", env: Mapping[str, str] | None = None
) -> tuple[int, str, str]:
    """Run a command over a cache; give its exit code and what it wrote to stdout and stderr."""
    environment = {**os.environ, "HF_HUB_CACHE": str(cache), **(env or {})}
    command = [sys.executable, "-m", "orchard", *args]
    done = subprocess.run(command, input=answer, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def refused(done: "subprocess.CompletedProcess[str]") -> str:
    """The one line with which a command ends that a user can mend."""
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("orchard: ")
    return line
