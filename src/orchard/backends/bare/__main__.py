"""`python -m orchard.backends.bare`: run a library's own loop over a model; JSON on stdin and stdout.

The process ends after one task and gives its memory back before `orchard verify` starts its own server, so the weights
are never in memory twice.
"""

import contextlib
import json
import sys

from orchard.backends.bare.language import run_language_model
from orchard.backends.bare.transcription import transcribe_recordings


def main() -> None:
    """Read a task, and print what came out as the last line. What the libraries print goes to stderr."""
    task = json.load(sys.stdin)
    with contextlib.redirect_stdout(sys.stderr):
        result = transcribe_recordings(**task) if "recordings" in task else run_language_model(**task)
    print(json.dumps(result))


main()
