"""Failures: one exception with a closed set of kinds.

Each dialect maps a kind to its own HTTP status and error body.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

# Messages of MLX (on Metal, CUDA and the CPU), cuBLAS, cuDNN, C++, C and Python.
_OUT_OF_MEMORY = re.compile(
    r"out of memory|OutOfMemory|insufficient memory|unable to allocate|attempting to allocate|\[metal::malloc\]"
    r"|cannot allocate memory|alloc_failed|bad_alloc|MemoryError",
    re.IGNORECASE,
)

FailureKind = Literal[
    "invalid_request",  # the body or a parameter is wrong; `param` names it
    "unauthorized",  # no key, or a wrong one
    "forbidden",  # the web page that sent the request, the Host name, or what the key asks for is not allowed
    "not_found",  # no such route
    "model_not_found",  # no such model
    "request_not_found",  # no request with that id is known
    "response_not_found",  # no response with that id is stored
    "conversation_not_found",  # no conversation with that id is stored
    "completion_not_found",  # no chat completion with that id is stored
    "voice_not_found",  # no voice, or no consent, with that id is kept
    "item_not_found",  # no item with that id is stored
    "method_not_allowed",  # the route exists, the HTTP method does not
    "payload_too_large",  # the body is over the limit
    "store_full",  # what is to be stored has no room beside pinned conversations
    "head_too_large",  # the target and the headers are over the limit
    "context_length_exceeded",  # the prompt does not fit into the model's context window, or into memory
    "overloaded",  # a queue or a connection limit is full; try again later
    "shutting_down",  # the server is shutting down
    "cancelled",  # the caller disconnected, or cancelled the request
    "model_in_use",  # the model is not unloaded, because somebody has asked for it since
    "model_failed",  # the model could not be loaded
    "insufficient_memory",  # other models and programs left too little memory for too long; try again later
    "worker_crashed",  # the model's process died with the request in it
    "unavailable",  # the model's process does not answer in time
    "timeout",  # the caller took too long to send its request, or to read its answer
    "internal",  # a bug in Orchard
]


class OrchardError(Exception):
    """A failure that is reported to a caller.

    `message` is a sentence for the caller, `param` the path of the field to blame (as in `messages[0].content`), and
    `retry_after` the number of whole seconds after which to try again.
    """

    def __init__(
        self, kind: FailureKind, message: str, *, param: str | None = None, retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.kind: FailureKind = kind
        self.message = message
        self.param = param
        self.retry_after = retry_after


@contextmanager
def catch_panics() -> Iterator[None]:
    """Raise OrchardError("internal") in place of a panic of a library in Rust, such as the tokenizers.

    A panic is no `Exception` in Python. Handlers of `Exception` would miss it, and a request would wait forever.
    """
    try:
        yield
    except BaseException as error:
        if type(error).__module__ != "pyo3_runtime":
            raise
        raise OrchardError("internal", f"a library failed: {short_message(error)}") from error


def short_message(error: BaseException) -> str:
    """Return the first line of an error, or the name of its class if it has no message."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def reports_out_of_memory(text: str) -> bool:
    """Return whether a message, or the end of a process's log, says that memory ran out."""
    return _OUT_OF_MEMORY.search(text) is not None
