"""Requests that the user tells the model not to carry out, though a tool could: no call is the answer."""

import re
from random import Random

from demo_model.exchange import Exchange, assistant, user
from demo_model.skills.define import Offer
from demo_model.text import NOUNS, choose, expand

ANSWER = "Okay. Tell me if you need something else."
# Verbs that begin an order; what begins otherwise can't follow "don't".
_VERBS = set(
    "add book call cancel change check close convert count create delete draw enter erase fetch find get list look "  # noqa: SIM905
    "make mail message move note open order pay pick play post put remind remove rename run save search send set show "
    "start stop switch tell test text transfer translate turn update use wake write".split()
)
_DONT = "[Don't|don't|Do not|Please don't|please do not|Please don't ever|You don't have to|No need to|There's no need to|I don't want you to|Never] {order}[| yet| now| today| again]"  # noqa: E501
_SAY = "[Just|Only|Simply|Please just|Rather|Instead] [say|write|answer|reply] [{word}|\"{word}\"|'{word}'][.|!||]"
_SAID = "hello hi yes no thanks okay goodbye bananas cheese welcome bonjour tada".split()  # noqa: SIM905


def _order(ask: str) -> str | None:
    """Return a request as it stands after "don't", or None if it is not one plain order."""
    plain = re.sub(r"^please |[,.!?]* *(please|pls)?[.!?]*$", "", ask.strip(), flags=re.IGNORECASE)
    verb, _, rest = plain.partition(" ")
    if verb.lower() not in _VERBS or not rest or re.search(r"[.!?:;\n] |\n", plain):
        return None
    return f"{verb.lower()} {rest}"


def make(rng: Random, offered: list[Offer]) -> Exchange | None:
    """Tell the model not to use a tool that is offered; None if no tool's request can be said that way."""
    for offer in offered:
        order = _order(offer.ask)
        if order is None:
            continue
        text = expand(rng, _DONT, order=order)
        if rng.random() < 0.5:
            text += choose(rng, (".", "!", ""))
            return Exchange([user(text), assistant(ANSWER, "The user does not want a call.")])
        word = choose(rng, _SAID if rng.random() < 0.5 else NOUNS)
        say = expand(rng, _SAY, word=word)
        both = f"{text}. {say}" if rng.random() < 0.6 else f"{text}, {say[0].lower()}{say[1:]}"
        return Exchange([user(both), assistant(word, f"I should say {word}.")])
    return None
