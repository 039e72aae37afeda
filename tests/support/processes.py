"""Waits for the end of processes."""

import time
from collections.abc import Collection

import psutil


def wait_for_end(processes: Collection[psutil.Process], seconds: float) -> list[psutil.Process]:
    """Return as soon as none runs; return those that still run after so many seconds."""
    until = time.monotonic() + seconds
    while (left := [process for process in processes if _runs(process)]) and time.monotonic() < until:
        time.sleep(0.05)
    return left


def _runs(process: psutil.Process) -> bool:
    """Return whether it runs. One that has ended is a zombie until its parent asks for its exit code."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
