"""Logging to the terminal, and to a file if the settings name one."""

import logging
import os
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler

from orchard.core.errors import OrchardError
from orchard.gateway.http.request_context import add_request_id
from orchard.gateway.recent_logs import RECENT

_FORMAT = "%(asctime)s %(levelname)-7s %(request_id)s %(message)s"
# The file is rotated at this size, and `_KEPT` old files are kept. Workers, which also write to it, notice that.
_MAX_BYTES = 10_000_000
_KEPT = 5


def configure_logging(level: str, file: str | None) -> None:
    """Configure logging. Raise OrchardError("invalid_request") if the file can't be written."""
    handlers: list[logging.Handler] = [logging.StreamHandler()]
    if file:
        try:
            handlers.append(_PrivateFile(file, maxBytes=_MAX_BYTES, backupCount=_KEPT, encoding="utf-8"))
        except OSError as error:
            raise OrchardError("invalid_request", f"can't log to {file}: {error.strerror}") from None
    for handler in handlers:
        handler.addFilter(add_request_id)
    logging.basicConfig(level=level.upper(), format=_FORMAT, handlers=[*handlers, RECENT], force=True)
    # uvicorn's own lines (start, stop) repeat those of the command line. httpx's and httpcore's show whole URLs and
    # headers of fetched media, which may contain secrets.
    for name in ("uvicorn", "httpx", "httpcore"):
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelName(level.upper())))


class _PrivateFile(RotatingFileHandler):
    """A log file that only its owner may read, because it names models and folders on this machine."""

    def _open(self) -> TextIOWrapper:
        os.close(os.open(self.baseFilename, os.O_CREAT | os.O_WRONLY, 0o600))
        return super()._open()
