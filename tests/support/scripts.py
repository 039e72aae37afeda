"""Programs that a test writes."""

from pathlib import Path


def write_script(file: Path, body: str) -> str:
    """Write a program for a shell; return its path."""
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o700)
    return str(file)
