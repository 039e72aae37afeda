"""Where later prompts of a conversation may begin to differ: the ends of messages for which a snapshot pays.

Each may cost a pass of prefill, and memory. So of a long conversation that is read at once only some are chosen: of its
other messages, each was among the last ones when its turn was read.
"""

from collections.abc import Collection, Sequence

from orchard.core.tasks.generate import Message, TextPart

_FIRST = 3  # the ends of the system message, perhaps of a message for the tools, and of the first question
_LAST = 3  # counted from the end; also the 4th, the 8th, the 16th and so on
_TAIL = 64  # characters by which a question is found; `rfind` may take their number times the length of the prompt


def choose_boundaries(
    ends: Sequence[int], text: str, end_tokens: Collection[str], messages: Sequence[Message]
) -> tuple[int, ...]:
    """Return some of `ends`, the places, ascending, of a prompt's tokens that end a message; never 0.

    `text`: the rendered prompt; `end_tokens`: the texts of those tokens. The end of the last question and that of the
    message before are chosen, since a template may drop the reasoning behind them when there is another question. The
    end of the last message is not, if earlier answers follow their messages as the new one follows it: then the next
    turn has all of this prompt.
    """
    count = len(ends)
    end_of_question = _end_of_question(text, end_tokens, messages)
    question = sum(text.count(token, 0, end_of_question) for token in end_tokens)
    chosen = {*range(_FIRST), question - 1, question, *range(count - _LAST, count)}
    back = _LAST + 1
    while back <= count:
        chosen.add(count - back)
        back *= 2
    if count and text.count(text[max(text.rfind(token) for token in end_tokens) :]) > 1:
        chosen.discard(count - 1)
    return tuple(place for index, place in enumerate(ends) if place and index in chosen)


def _end_of_question(text: str, end_tokens: Collection[str], messages: Sequence[Message]) -> int:
    """Return where the last text of a user ends in a rendered prompt, or where a later one ends in the same way."""
    texts = (
        part.text.strip()
        for message in reversed(messages)
        if message.role == "user"
        for part in reversed(message.parts)
        if isinstance(part, TextPart)
    )
    tail = next(filter(None, texts), "")[-_TAIL:]
    place = max((text.rfind(tail + token) for token in end_tokens), default=-1)
    return (place if place >= 0 else text.rfind(tail)) + len(tail)
