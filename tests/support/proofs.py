"""Checks of `orchard verify` against a server that a test has started."""

import asyncio
from collections.abc import Coroutine
from typing import Any, cast

from orchard.cli.verify.checks import CHECKS
from orchard.cli.verify.proof import Proof
from orchard.cli.verify.subject import Subject
from orchard.gateway.models.entry import ModelEntry
from tests.support.serving import Server


def prove_served(server: Server, entry: ModelEntry, name: str) -> Proof:
    """Run a check with a model of the server."""
    subject = Subject(entry, [server.headers["x-api-key"]], long=False)
    subject.url = server.url
    run = next(check for check in CHECKS if check.name == name).run(subject)
    return asyncio.run(cast(Coroutine[Any, Any, Proof], run))
