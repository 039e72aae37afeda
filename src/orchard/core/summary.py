"""A summary, as the model is shown it in place of the messages that it stands for."""

from orchard.core.tasks.generate import Message, TextPart

# The user's, as all templates take that at the beginning; it must not read as what the user says now.
_SHOWN = (
    "[The earlier part of this conversation was too long to be kept. This summary of it takes its place; "
    "it tells what was said and done so far.]\n\n{summary}"
)


def summary_message(summary: str) -> Message:
    """Return the message that tells the model of a summary."""
    return Message("user", (TextPart(_SHOWN.format(summary=summary)),))
