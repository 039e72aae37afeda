"""How anything in Orchard fails: one exception, a closed set of kinds.

Each dialect owns the mapping from a kind to its own status code and error body.
"""

from typing import Literal

FailureKind = Literal[
    "invalid_request",  # the body or a parameter is wrong; `param` names it
    "unauthorized",  # no key, or a wrong one
    "forbidden",  # a web page, or a name, from which this must not be done
    "not_found",  # no such route
    "model_not_found",  # no such model
    "request_not_found",  # nothing is known of a request of that id
    "response_not_found",  # no stored response of that id, or no more
    "conversation_not_found",  # no stored conversation of that id, or no more
    "completion_not_found",  # no stored chat completion of that id, or no more
    "item_not_found",  # no stored item of that id, or no more
    "method_not_allowed",  # the route exists, the HTTP method does not
    "payload_too_large",  # the body is over the limit
    "head_too_large",  # the target and the headers are over the limit
    "context_length_exceeded",  # the prompt does not fit the model's context window, or the memory
    "overloaded",  # a queue or a connection limit is full; try again later
    "shutting_down",  # the server is going away
    "cancelled",  # the caller went away
    "model_failed",  # the model could not be loaded
    "worker_crashed",  # the model's process died with the request in it
    "unavailable",  # the model's process does not answer in time
    "timeout",  # the caller took too long to send its request, or to read its answer
    "internal",  # a bug in Orchard
]


class OrchardError(Exception):
    """A failure that a caller is told about.

    `message` is a sentence for the caller, `param` the path of the field to blame (as in `messages[0].content`), and
    `retry_after` whole seconds after which trying again makes sense.
    """

    def __init__(
        self, kind: FailureKind, message: str, *, param: str | None = None, retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.kind: FailureKind = kind
        self.message = message
        self.param = param
        self.retry_after = retry_after


def brief(error: Exception) -> str:
    """Return the first line of an error, or its class where it says nothing."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
