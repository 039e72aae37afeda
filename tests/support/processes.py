"""Waits for the end of processes."""

from collections.abc import Iterable

import psutil


def wait_for_end(processes: Iterable[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Return those that still run after so many seconds."""
    return [process for process in psutil.wait_procs(processes, timeout=seconds)[1] if _runs(process)]


def _runs(process: psutil.Process) -> bool:
    """Return whether it runs. One that has ended is a zombie until its parent asks for its exit code."""
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
