"""Words around a value that are not part of it, and values that are corrected: one call, with what is meant.

"in the bedroom pls", "for now", "we've got enough", "the lamp, i mean the fan", "not Rome, Oslo instead", "both... actually
only the second".
"""

# ruff: noqa: E501, SIM905 - phrases read best unbroken

import re
from random import Random

from demo_model.skills import kitted, situated
from demo_model.skills.define import Offer
from demo_model.skills.kits import KITS
from demo_model.skills.kits_near import NEAR_KITS
from demo_model.skills.kits_work import WORK_KITS
from demo_model.skills.situations import SITUATIONS
from demo_model.text import NOUNS, Split, choose, expand, lines, wording

# The kinds of arguments after which no other words may stand, because they could be part of them.
_OPEN = "text|prose|speech|wish|shout|post|scene|question|rest|sentence|chore|todo|sql|shell|python|search|query|phrase|label|misspelt|payload|written|hotelwish|fault|fault2|sqlwhere|expression|needle|quote|quote2|rest|word|costwhat|topic|topic2|messagetopic|called|booktitle|called|meal"  # fmt: skip
_OPEN_KIND = re.compile(rf":(?:{_OPEN})(?= |$)")
_FREE_NAME = re.compile(r"(?:reason|note|comment|remark|message|why|purpose|memo|summary|description|body)\b")
_QUESTIONS = ("How", "What", "[How", "[What")
PLAIN = [
    line
    for line in (*SITUATIONS, *(line for kit in (*KITS, *WORK_KITS, *NEAR_KITS) for line in kit))
    if not line.rsplit(" ; ", 1)[1].startswith(_QUESTIONS)
    and not _OPEN_KIND.search(line.split(" ; ")[2])
    and not _FREE_NAME.search(line.split(" ; ")[2])
]
assert kitted.KINDS  # the kinds of its lines stand in ``situated.KINDS`` from now on
QUESTION = re.compile(r"(?i)(?:what|how|is|are|any|does|do|did|who|which|where|when|will|in which|can|has)\b(?!.*, i)")


def without_likes(made: Offer) -> None:
    """Take arguments out of a tool that nobody gives and that what is said could be meant for."""
    properties = made.tool["function"].get("parameters", {}).get("properties", {})
    for name in [name for name in properties if name not in made.arguments]:
        if re.sub("_", "", name).lower() in {"silent", "dryrun", "visibility", "async", "verbose", "notes", "comment", "description", "context", "metadata", "reference"}:  # fmt: skip
            del properties[name]


REASONS = lines("""
[we've got|we have|I have|there's] [enough|plenty|too many of those|more than enough]
[we're|I'm] [out of it|through with it|done|bored|running late|in a hurry|not sure why|tired of it|busy cooking|carrying bags]
[my hands are full|I can't do it myself|I'm not at home|I can't reach it|I can't get up|my other hand is wet|I've no time]
[it was|that was|that's] [a mistake|her idea|how we always do it|the plan|what we agreed on|better for everyone|all I need]
[I changed my mind|we changed our minds|I've thought about it]
[somebody|someone|a customer|my boss|the landlord] [complained|asked for it|wants it that way|said so|needs it]
[it's|it is] [about time|better that way|for the party|not a joke|long overdue|what everybody wants|my turn|for a good friend]
[the old one|the last one] [broke|is gone|was no good|got lost]
[I don't|we don't|they don't] [like it as it is|need it any more|want trouble|use it anyway|care]
[nobody|no one] [needs it any more|uses it anyway|cares|likes it as it is]
[you know why|don't ask me why|just because|I'll explain later|I promised|as I said before|long story|trust me]
[the kids|our guests|the others] [are waiting|asked for it|can't sleep|are already here|will love it]
[I|we] [forgot|meant to do it] [earlier|before|the last time]
[it bothers me|it looks strange|it's getting on my nerves|I'm curious|that would help a lot|it makes my day]
[I have a headache|I'm expecting guests|I just cleaned|my {n} broke|I lost my {n}|our {n} is on fire|I have to feed the {n}]
~[our patience is at an end|better safe than sorry]
""")
_TAILS = "for now|again|once more|as always|as usual|like last time|this time|real quick|after all|anyway|then|for a change|if you don't mind|if that's ok|for me|will you|ok|okay|right|too|as well|pls|plz|please|thx|ty|thanks a lot|asap|quickly|straight away|at last|finally|just to be safe|to be sure".split("|")  # fmt: skip
_TIMED = re.compile(r"(?i):(?:date|relday|iso2?|moment|clock2?|days|hours|span|secs)\b|when|time|date|\bday|until|delay|repeat")  # fmt: skip
_QUICK = re.compile(r"(?i)urgent|priority|speed|express|mode|repeat|count|times")


def excused(rng: Random, split: Split) -> Offer:
    """Ask for a tool, with words around the request that ask nothing: small words after it, a reason."""
    while True:
        line = wording(rng, PLAIN, split)
        made, verbatim = situated.made(rng, split, line)
        if not QUESTION.match(made.ask) and made.ask[-1] not in ".?!":
            break
    without_likes(made)
    ask, kind = made.ask, rng.random()
    if kind < 0.5:
        tails = [*_TAILS, *(() if _TIMED.search(line) else ("today", "tonight", "now", "right now", "today please", "for today"))]  # fmt: skip
        tail = choose(rng, tails)
        if "please" in ask or "pls" in ask:
            tail = "for now"
        if _QUICK.search(line) and re.search("asap|quick|straight|again|once|last", tail):
            tail = "then"
        ask += choose(rng, (" ", " ", " ", ", ")) + tail
        if rng.random() < 0.25 and "pl" not in tail and "please" not in ask:
            ask += f" {choose(rng, ('pls', 'please', 'thanks', 'ok?'))}"
    if kind > 0.4:
        reason = expand(rng, wording(rng, REASONS, split), n=choose(rng, NOUNS))
        big = reason[0].upper() + reason[1:]
        small = ask if verbatim or ask[1:2].isupper() or ask.startswith(("I ", "I'")) else ask[0].lower() + ask[1:]
        ask = choose(rng, (f"{ask}, {reason}", f"{ask}. {big}.", f"{ask}. {big}", f"{ask} - {reason}", f"{ask}, because {reason}", f"{ask}; {reason}", f"{ask} ({reason})", f"{big}. {ask}", f"{big}, so {small}", f"{big}! {ask}."))  # fmt: skip
    elif rng.random() < 0.4:
        ask += choose(rng, (".", "!", "."))
    made.ask = ask[0].lower() + ask[1:] if not verbatim and rng.random() < 0.3 and ask[1:2].islower() and not ask.startswith("I'") and ask.split(" ", 1)[0].strip(",.:;!") not in str(made.arguments) else ask  # fmt: skip
    return made


# What may be said and then be corrected, or be said besides what is not meant.
_MEANT = {"room", "roomname", "door", "lamp", "city", "service", "symbol", "plant", "animal", "handle", "drink", "dish", "person", "contact", "date", "relday", "iso", "clock", "small", "count", "goods", "title", "code", "id", "lang", "currency", "table", "genre", "color", "gadget", "container", "doctor", "crypto", "airport", "landmark", "team", "inn", "file", "branchname", "percent", "number", "degrees", "song", "food", "product", "plot", "surface", "station", "subject", "meetroom", "issuekey", "account"}  # fmt: skip


def _changed() -> list[tuple[str, str]]:
    """Return the lines with one argument of a kind that may be corrected, each with that kind."""
    found = []
    for line in PLAIN:
        kinds = re.findall(r":([\w=/]+)(?= |$)", line.split(" ; ")[2])
        found += [(line, kind) for kind in kinds if kind in _MEANT and not any(other.rstrip("23") == kind.rstrip("23") for other in kinds if other is not kind)]  # fmt: skip
    return found


_CHANGED = [one for one in _changed() if not one[0].startswith("~")]
_WITHIN = lines("""
{o}, i mean {s}
{o}, I mean {s}
{o}, no, {s}
{o} - no, {s}
{o}... wait, {s}
{o}, sorry, {s}
{o}, or rather {s}
{o}, make that {s}
{o} (no, {s})
{o} uh {s}
{s}, not {o}
{s} (not {o})
{s} and not {o}
{s}, definitely not {o}
not {o} but {s}
""")
_AFTER = lines("""
{a}. [No|Wait|Sorry|Hmm], not {o}, {s}
{a}. [No|Wait|Sorry|Oh], I mean {s}
{a}. Actually, {s}
{a}, actually {s}
{a}, i mean {s}
{a} - I mean {s}
{a}. [Make that|Make it|Better] {s}
{a}. Not {o}, {s} instead
{a}. No, {s} instead
{a}. Oh no, {s}!
{a}... {s}, I meant
{a}. Scratch that, {s}
{a}. I meant {s}, not {o}
""")
_ONLY = lines("""
{b}. Actually only {s}
{b} - actually only {s}
{b}... no, just {s}
{b}. Hmm, {s} will do
{b}. No, only {s}
{b}. On second thought, only {s}
{b}. Wait, {o} can stay as it is, just {s}
{b}, no, just {s}, not {o}
""")
# Of these, one and another one can be said side by side.
_BOTH = {"room", "roomname", "door", "lamp", "service", "plant", "animal", "gadget", "container", "table", "file", "symbol", "handle"}  # fmt: skip


def meant(rng: Random, split: Split) -> Offer:
    """Ask for a tool with a value that is corrected, or with one that is not meant beside it: only one call is right."""
    while True:
        line, kind = choose(rng, _CHANGED)
        draw = situated.KINDS[kind][1]
        (said, value), (other, wrong) = draw(rng, split), draw(rng, split)
        if said.lower() in other.lower() or other.lower() in said.lower() or value == wrong or max(len(said), len(other)) > 25 or re.search(r" and |,|&|\.\.", f"{said}{other}"):  # fmt: skip
            continue
        made, _ = situated.made(rng, split, line, {kind: (said, value)})
        places = made.ask.count(said)
        if places == 1 and sum(one == value for one in made.arguments.values()) == 1 and made.ask[-1] not in ".?!" and not QUESTION.match(made.ask) and not _spoilt(made.ask, said):  # fmt: skip
            break
    made.ask = _corrected(rng, made.ask, (said, other), kind, _is_last(made, said))
    if rng.random() < 0.3 and "pls" not in made.ask and "please" not in made.ask:
        made.ask += choose(rng, (".", "!", " pls", ", please", " please", ", thanks", " for now")) if made.ask[-1] not in ".!" else ""  # fmt: skip
    return made


def _is_last(made: Offer, said: str) -> bool:
    """Whether no other value stands after one, so that a correction at the end is one of it."""
    rest = made.ask[made.ask.find(said) + len(said) :]
    return not re.search(r"\d", rest) and not any(
        str(value).lower() in rest.lower() for value in made.arguments.values()
    )


# What one says without an article.
_BARE = {"file", "symbol", "handle", "service", "container", "table"}


def _corrected(rng: Random, ask: str, values: tuple[str, str], kind: str, last: bool) -> str:
    """Say another value besides the one that is meant, in its place, after the request, or with both before it."""
    said, other = values
    before = ask[: ask.find(said)].lower()
    word = next((f"{one} " for one in ("the", "my", "our") if before == f"{one} " or before.endswith(f" {one} ")), "")
    subject = before == word or re.match(r" (?:is|should|has|must|needs|wants|to)\b", ask[ask.find(said) + len(said) :])
    style = rng.random()
    if kind in _BOTH and style < 0.25 and last and not subject:
        both = ask.replace(said, f"{other} and {word}{said}")
        return expand(rng, choose(rng, _ONLY), b=both, s=f"{word or ('' if kind in _BARE else 'the ')}{said}", o=f"{word}{other}")  # fmt: skip
    if style < 0.62:
        within = expand(rng, choose(rng, _WITHIN), s=f"{word}{said}", o=f"{word}{other}")
        if word and before == word:
            within = within[0].upper() + within[1:]
        start = ask.find(said) - len(word)
        return ask[:start] + within + ask[start + len(word) + len(said) :]
    ways = _AFTER if last else [way for way in _AFTER if "{o}" in way]
    return expand(rng, choose(rng, ways), a=ask.replace(said, other), s=f"{word}{said}", o=f"{word}{other}")


def _spoilt(ask: str, said: str) -> bool:
    """Whether a value stands where another one can't stand beside it: next to letters, or before its unit."""
    start = ask.find(said)
    before, after = ask[:start], ask[start + len(said) :]
    return (
        before[-1:].isalnum()
        or before[-1:] in tuple("_:/#$€£-")
        or before.lower().endswith((" a ", " an "))
        or before.lower() in {"a ", "an "}
        or after[:1].isalnum()
        or after[:1] in tuple("_:/%°-'")
    )


_KIT_OF = {
    line.split(" ; ")[0].replace("|", " ").replace("_", " "): kit
    for kit in (*KITS, *WORK_KITS, *NEAR_KITS)
    for line in kit
}


def others(rng: Random, split: Split, made: Offer) -> None:
    """Put tools of the same set beside a tool, if it is of a set."""
    kit = _KIT_OF.get(made.key, [])
    for line in rng.sample(kit, min(len(kit), rng.choice((0, 1, 1, 2)))):
        if line.split(" ; ")[0].replace("|", " ").replace("_", " ") == made.key:
            continue
        tool = situated.made(rng, split, line)[0].tool
        if tool["function"]["name"] not in {made.name, *(one["function"]["name"] for one in made.beside)}:
            made.beside.append(tool)


def around(rng: Random, split: Split) -> Offer:
    """Ask for a tool with words around its values that are no part of them."""
    return (excused if rng.random() < 0.5 else meant)(rng, split)
