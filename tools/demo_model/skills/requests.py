"""Tools asked for as people ask: other words than the tool's own, and values whose argument only their kind tells.

An action is a line ``verbs ; what it is done to ; slots ; how people say it``. A slot is an argument: its names, its
schema, its value, and how a sentence mentions it.
"""

# ruff: noqa: E501, SIM905 - phrases read best unbroken

import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from tools.demo_model.skills.define import Offer, definition, styled
from tools.demo_model.skills.sums import spoken
from tools.demo_model.template import Message
from tools.demo_model.text import (  # fmt: skip
    ADJECTIVES,
    CITIES,
    NAMES,
    NOUNS,
    Split,
    coin,
    expand,
    holdout,
    lines,
    sentence,
    wording,
)

# How people say a value, and how the call has it.
Said = tuple[str, Any]


@dataclass(frozen=True, slots=True)
class Slot:
    """An argument; in ``mentions``, ``{v}`` is the value as people say it."""

    names: str
    about: str
    schema: Message
    value: Callable[[Random, Split], Said]
    mentions: str


def _same(value: Any) -> Said:
    return str(value), value


def _count(rng: Random, most: int) -> Said:
    value = rng.randint(1, most)
    return (spoken(value) if value <= 20 and rng.random() < 0.3 else str(value)), value


def _listed(rng: Random, values: list[str]) -> Said:
    chosen = rng.sample(values, rng.randint(2, min(4, len(values))))
    return ", ".join(chosen[:-1]) + rng.choice((" and ", ", ", ", and ")) + chosen[-1], chosen


def _quoted(rng: Random, text: str) -> Said:
    return rng.choice(('"{}"', '"{}"', "'{}'", "{}")).format(text), text


def _day(rng: Random) -> Said:
    day = rng.choice("Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split())
    date = f"{rng.randint(2024, 2031)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"
    month = f"{rng.choice('January March May June August October December'.split())} {rng.randint(1, 28)}"
    kind = rng.randrange(5)
    return (
        (f"on {date}", date)
        if kind < 2
        else (f"on {day}", day)
        if kind == 2
        else (f"on {month}", month)
        if kind == 3
        else ("tomorrow", "tomorrow")
    )


def _clock(rng: Random) -> Said:
    half = rng.choice(("am", "pm"))
    return _same(
        rng.choice(
            (
                f"{rng.randint(0, 23):02}:{rng.choice((0, 15, 20, 30, 45)):02}",
                f"{rng.randint(1, 12)} {half}",
                f"{rng.randint(1, 12)}{half}",
                f"{rng.randint(1, 12)}:{rng.choice((15, 30))} {half}",
            )
        )
    )


def _path(rng: Random) -> Said:
    folder = rng.choice(
        (
            "",
            "./",
            "/var/log/",
            "~/",
            "~/Documents/",
            "src/",
            "data/",
            f"/home/{coin(rng)}/",
            f"{rng.choice(NOUNS)}/{rng.choice(NOUNS)}/",
            "C:\\Users\\",
        )
    )
    name = rng.choice(
        (
            rng.choice(NOUNS),
            coin(rng),
            f"{rng.choice(NOUNS)}-{rng.randint(1, 99)}",
            f"{rng.choice(ADJECTIVES)}_{rng.choice(NOUNS)}",
        )
    )
    return _same(
        folder + name + rng.choice((".txt", ".csv", ".py", ".md", ".json", ".pdf", ".png", ".log", ".yaml", ".tar.gz"))
    )


def _url(rng: Random) -> Said:
    host = rng.choice((coin(rng, 2), rng.choice(NOUNS), f"www.{coin(rng, 2)}")) + rng.choice(
        (".com", ".org", ".net", ".io")
    )
    return _same(
        f"http{rng.choice(('s', 's', ''))}://{host}"
        + rng.choice(
            (
                "",
                f"/{rng.choice(NOUNS)}",
                f"/{coin(rng)}/{rng.choice(NOUNS)}.html",
                f"/{rng.choice(NOUNS)}?id={rng.randint(1, 99)}",
            )
        )
    )


def _email(rng: Random, split: Split) -> Said:
    first = rng.choice(holdout(NAMES[:150], split)).lower()
    return _same(
        f"{rng.choice((first, f'{first}.{coin(rng, 2)}', coin(rng, 2)))}@{rng.choice((coin(rng, 2), 'example', 'mail'))}.{rng.choice(('com', 'org', 'net', 'de'))}"
    )


def _phone(rng: Random) -> Said:
    return _same(
        rng.choice(
            (
                f"555-{rng.randint(0, 9999):04}",
                f"+{rng.randint(1, 99)} {rng.randint(100, 999)} {rng.randint(100000, 999999)}",
                f"0{rng.randint(100, 999)} {rng.randint(10000, 999999)}",
                f"({rng.randint(200, 999)}) 555-{rng.randint(0, 9999):04}",
            )
        )
    )


def _person(rng: Random, split: Split) -> str:
    name = rng.choice(holdout(NAMES, split)) if rng.random() < 0.85 else coin(rng, 2).capitalize()
    return f"{name} {coin(rng, 2).capitalize()}" if rng.random() < 0.15 else name


def _code(rng: Random) -> Said:
    letters = "".join(rng.choice("ABCDEFGHJKLMNPQRSTUVWXYZ") for _ in range(rng.randint(1, 3)))
    return _same(f"{letters}{rng.choice(('-', ''))}{rng.randint(10, 99999)}")


_CURRENCY = {
    "euros": "EUR",
    "dollars": "USD",
    "pounds": "GBP",
    "yen": "JPY",
    "EUR": "EUR",
    "USD": "USD",
    "GBP": "GBP",
    "CHF": "CHF",
}


def _title(rng: Random) -> Said:
    return _quoted(
        rng,
        expand(
            rng,
            "[{a} {n}|{n}|{A} {n}|{n} and {m}|{c}|{n} {m}]",
            a=rng.choice(ADJECTIVES),
            A=rng.choice(ADJECTIVES).capitalize(),
            n=rng.choice(NOUNS),
            m=rng.choice(NOUNS),
            c=coin(rng).capitalize(),
        ),
    )


def _enum(names: str, about: str, options: str, mentions: str) -> Slot:
    values = options.split("|")
    return Slot(
        names, about, {"type": "string", "enum": values}, lambda rng, split: _same(rng.choice(values)), mentions
    )


_TEXT, _INT, _NUMBER, _BOOL = ({"type": kind} for kind in ("string", "integer", "number", "boolean"))
_LIST: Message = {"type": "array", "items": {"type": "string"}}
_DATE: Message = {"type": "string", "format": "date"}

SLOTS: dict[str, Slot] = {
    "date": Slot("date|day|when|start_date|on_date", "[The |][day|date][.|, e.g. 2026-05-01]", _TEXT, lambda rng, split: _day(rng), " {v}"),
    "due": Slot("due_date|deadline|due|until", "[When it is due|The deadline][.|]", _DATE, lambda rng, split: _same(f"{rng.randint(2024, 2031)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"), "[, due {v}| by {v}| until {v}|, it has to be done by {v}]"),
    "time": Slot("time|at|start_time|hour", "[The |]time[ of day|][.|]", _TEXT, lambda rng, split: _clock(rng), "[ at {v}| at {v}|, {v}| from {v} on]"),
    "minutes": Slot("minutes|duration|duration_minutes|length", "[Minutes|How long, in minutes|Length in minutes][.|]", _INT, lambda rng, split: _count(rng, 120), "[ for {v} minutes|, {v} minutes long|, {v} minutes]"),
    "people": Slot("people|guests|party_size|num_people|seats", "[How many people|Number of people][.|]", _INT, lambda rng, split: _count(rng, 12), "[ for {v} people| for {v} persons| for {v} of us|, we are {v} people| for a group of {v}]"),
    "nights": Slot("nights|num_nights|stay", "[Number of nights|How many nights][.|]", _INT, lambda rng, split: _count(rng, 14), "[ for {v} nights|, {v} nights]"),
    "quantity": Slot("quantity|count|amount|copies|how_many", "[How many|The quantity|Number of pieces][.|]", _INT, lambda rng, split: _count(rng, 30), "[, {v} of them|, {v} pieces|, {v} times]"),
    "limit": Slot("limit|max_results|top|n", "[The most results|How many results][.|]", _INT, lambda rng, split: _count(rng, 20), "[, the first {v}|, at most {v}|, no more than {v}| (only {v})]"),
    "weight": Slot("weight|weight_kg|kilograms|mass", "[Weight in kg|The weight in kilograms][.|]", _NUMBER, lambda rng, split: _same(rng.choice((rng.randint(1, 40), round(rng.uniform(0.5, 40), 1)))), "[ of {v} kg| weighing {v} kg|, {v} kilos|, it weighs {v} kg]"),
    "price": Slot("max_price|budget|price_limit|max_cost", "[The highest price|Budget][.|]", _NUMBER, lambda rng, split: _same(rng.choice((rng.randint(5, 2000), round(rng.uniform(5, 99), 2)))), "[ under {v} euros| for less than {v}|, at most {v} dollars|, I can pay {v}]"),
    "percent": Slot("percent|level|percentage|value", "[Percent|A value from 0 to 100][.|]", _INT, lambda rng, split: _same(rng.randint(1, 100)), "[ to {v} percent| to {v}%| at {v}%]"),
    "city": Slot("city|location|place|town", "[The |][city|place][.|]", _TEXT, lambda rng, split: _same(rng.choice(holdout(CITIES, split))), "[ in {v}| in {v}| near {v}]"),
    "to": Slot("destination|to|target_city|to_city", "[Where it goes|The destination][.|]", _TEXT, lambda rng, split: _same(rng.choice(holdout(CITIES, split))), " to {v}"),
    "from": Slot("origin|from|from_city|start", "[Where it starts|The origin][.|]", _TEXT, lambda rng, split: _same(rng.choice(holdout(CITIES, split))), "[ from {v}| starting in {v}]"),
    "person": Slot("person|name|contact|customer|who", "[The |][person|name][.|]", _TEXT, lambda rng, split: _same(_person(rng, split)), "[ for {v}| with {v}| for my friend {v}| in the name of {v}]"),
    "people_list": Slot("attendees|participants|names|members|invitees", "[Who takes part|The names][.|]", _LIST, lambda rng, split: _listed(rng, holdout(NAMES, split)), "[ with {v}| together with {v}|, {v} will be there]"),
    "tags": Slot("tags|labels|keywords|categories", "[Tags|Labels][.|]", _LIST, lambda rng, split: _listed(rng, NOUNS), "[ tagged {v}|, tags: {v}| with the labels {v}]"),
    "goods": Slot("items|products|things|articles", "[The things|What to put in][.|]", _LIST, lambda rng, split: _listed(rng, NOUNS), "[ with {v}|: {v}| containing {v}]"),
    "email": Slot("email|to|recipient|address|mail_to", "[The |][e-mail address|recipient][.|]", _TEXT, _email, "[ to {v}|, mail it to {v}| and send it to {v}| for {v}]"),
    "phone": Slot("phone|phone_number|number|mobile", "[The |]phone number[.|]", _TEXT, lambda rng, split: _phone(rng), "[, the number is {v}|, reachable at {v}|, phone {v}| for {v}]"),
    "path": Slot("path|file|filename|file_path", "[The |][path|file][.|]", _TEXT, lambda rng, split: _path(rng), "[ in {v}| from {v}| of {v}| {v}]"),
    "output": Slot("output|target|save_to|destination_path", "[Where to write|The output file][.|]", _TEXT, lambda rng, split: _path(rng), "[ into {v}| and save it as {v}| and write it to {v}]"),
    "url": Slot("url|link|address|page|website", "[The |][URL|link|address][.|]", _TEXT, lambda rng, split: _url(rng), "[ at {v}| from {v}|: {v}| {v}]"),
    "code": Slot("code|id|reference|tracking_id|number", "[The |][code|id|reference][.|]", _TEXT, lambda rng, split: _code(rng), "[ {v}| number {v}| with the code {v}| #{v}]"),
    "id": Slot("id|number|ticket_id|record_id", "[The |][id|number][.|]", _INT, lambda rng, split: _same(rng.randint(1, 99999)), "[ {v}| number {v}| #{v}| with id {v}]"),
    "title": Slot("title|name|label|subject", "[The |][title|name][.|]", _TEXT, lambda rng, split: _title(rng), "[ called {v}| named {v}| titled {v}| with the title {v}]"),
    "text": Slot("text|message|body|content|note", "[The |][text|message][.|]", _TEXT, lambda rng, split: _quoted(rng, sentence(rng).rstrip(".")), "[ saying {v}| that says {v}|: {v}| with the text {v}]"),
    "currency": Slot("currency|unit|money", "[The |]currency[.|]", {"type": "string", "enum": ["EUR", "USD", "GBP", "JPY", "CHF"]}, lambda rng, split: rng.choice(list(_CURRENCY.items())), "[ in {v}| paid in {v}|, in {v} please]"),
    "priority": _enum("priority|urgency|importance", "[How urgent it is|Priority][.|]", "low|medium|high|urgent", "[ with {v} priority|, priority {v}|, it's {v} priority]"),
    "size": _enum("size|format_size", "[The |]size[.|]", "small|medium|large", "[, {v} size| in {v}|, make it {v}|, the {v} one]"),
    "color": _enum("color|colour", "[The |]colour[.|]", "red|green|blue|black|white|yellow", "[ in {v}|, {v} please|, colour {v}]"),
    "format": _enum("format|file_type|output_format|type", "[The |]format[.|]", "pdf|csv|json|html|docx", "[ as {v}| in {v} format| as a {v} file]"),
    "class": _enum("travel_class|cabin|class|comfort", "[The |]class[.|]", "economy|business|first", "[ in {v} class|, {v} class]"),
    "repeat": _enum("repeat|frequency|interval|recurrence", "[How often|The interval][.|]", "daily|weekly|monthly|yearly", "[, {v}| that repeats {v}|, please {v}]"),
    "style": _enum("style|mode|tone|kind", "[The |]style[.|]", "formal|funny|short|detailed|friendly", "[ in a {v} style|, keep it {v}|, {v} please]"),
    "room": _enum("room|area|zone", "[The |]room[.|]", "kitchen|bedroom|office|garage|bathroom|living room", "[ in the {v}| of the {v}]"),
}  # fmt: skip

# Things that are there or not; the argument is a boolean.
EXTRAS = "breakfast wifi parking insurance subtitles pictures comments headers sound milk sugar delivery notifications a_balcony luggage a_receipt cheese animations details attachments".split()

ACTIONS = lines("""
book|reserve|arrange ; room|table|hotel|court|desk|cabin|venue ; date time people nights city person ; [Book|Reserve|Get|Find|Organise] [me |us |]a {n}|[I need|I'd like|We need|We want|I am looking for] a {n}|Can I have a {n}|Is there a {n}|Could you hold a {n}
book|reserve|find|search ; flight|train|bus|trip|ride|ferry ; from to date time class people ; [Book|Get|Find|Search] [me |us |]a {n}|[I need|I want|We need] a {n}|[I want to|I have to|We must] [travel|go] by {n}|Which {n} can I take
schedule|create|add|plan ; meeting|appointment|event|call|interview|lesson|party ; date time minutes people_list title city repeat ; [Schedule|Plan|Set up|Arrange|Organise|Put in my calendar] a {n}|[I need|I have|Let's have|We should have] a {n}|[Make|Block] time for a {n}
send|write|deliver ; email|message|letter|note|invitation|report|postcard ; email text title priority style ; [Send|Write|Drop|Fire off|Get] a {n}|[I want to|Please|Can you] send a {n}|Let's send a {n}|A {n} should go out
send|write|post ; sms|text|whatsapp|notification|alert ; phone text person ; [Send|Shoot|Write] a {n}|[I want to|Please|Can you] send a {n}|A {n} must go
order|buy|purchase|get ; pizza|coffee|shirt|book|lamp|bike|cake|sandwich|bag ; quantity size color price person phone ; [Order|Buy|Get|Fetch] [me |us |]a {n}|[I'd like|I want|I'll have|I feel like] a {n}|Can I get a {n}|One {n}
create|add|open|new ; task|ticket|todo|issue|reminder|bug|card|job ; title due priority tags person repeat ; [Create|Add|Make|Open|Note|Put down|Write down] a {n}|[I need|There should be|We need] a [new |]{n}|Put a {n} on my list
convert|export|transform|render ; file|document|report|table|picture|log ; path format output ; [Convert|Turn|Change|Transform|Export] the {n}|I need the {n}|[Can|Could] I have the {n}|Make me the {n}
read|open|load|parse|show|analyze ; file|document|log|config|script|sheet ; path limit format ; [Read|Open|Load|Show me|Look into|Have a look at] the {n}|What is in the {n}|[Can|Could] you check the {n}|I want to see the {n}
delete|remove|trash|erase ; file|record|entry|backup|draft|copy ; path id ; [Delete|Remove|Erase|Throw away|Get rid of] the {n}|I don't need the {n} any more:|Please drop the {n}|The {n} can go:
fetch|download|scrape|crawl|summarize|check ; page|site|article|feed|link ; url output limit format ; [Fetch|Download|Get|Grab|Check|Sum up|Load] the {n}|What does the {n} say|I want the {n}|Is anything new on the {n}
track|check|locate|find ; parcel|shipment|order|delivery|suitcase|package ; code ; [Where is|Track|Check|Locate|What happened to] [my|the] {n}|Has [my|the] {n} arrived:|I'm waiting for my {n}|When does my {n} come:
cancel|stop|refund|return ; order|booking|subscription|reservation|contract ; code text ; [Cancel|Stop|Call off|Undo] [my|the] {n}|I no longer want [my|the] {n}|[I have to|I want to] cancel the {n}
ship|mail|dispatch ; package|parcel|box|crate ; weight to from person ; [Ship|Send|Mail|Dispatch] a {n}|I want to ship a {n}|A {n} has to go out|What does it take to send a {n}
set|adjust|change|dim ; light|volume|heating|brightness|blinds|fan ; percent room ; [Set|Turn|Change|Bring|Put] the {n}|[I want|I'd like] the {n}|The {n} should go|Could you put the {n}
call|dial|phone|ring ; number|person|contact|line ; phone person time ; [Call|Dial|Ring|Phone] the {n}|I want to call a {n}|Get me the {n} on the line
search|find|look_up|list ; restaurant|museum|doctor|shop|job|apartment|concert|park|pharmacy ; city price limit date ; [Find|Look for|Search|Show me|Recommend] a {n}|[I need|I'm looking for|Is there|Do you know] a {n}|Where can I find a {n}|Any {n}
pay|transfer|charge|send_money|invoice ; bill|invoice|rent|fee|donation ; id currency person due ; [Pay|Settle|Transfer] the {n}|I have to pay the {n}|Take care of the {n}|The {n} must be paid
make|draw|design|generate ; poster|logo|card|chart|banner|flyer ; title color size style format ; [Make|Draw|Design|Create|Do] [me |]a {n}|I need a {n}|[I'd like|We want] a {n}
pack|fill|prepare|stock ; basket|box|cart|bag|drawer ; goods person date ; [Pack|Fill|Prepare|Get ready] a {n}|I need a {n}|Let's prepare a {n}
~rent|hire|lease ; car|boat|scooter|tent|camera ; date city price person ; [Rent|Hire|Get] [me |]a {n}|I would like to have a {n}|We could use a {n}
~register|enroll|sign_up ; student|runner|guest|patient ; person email phone city ; [Register|Enrol|Sign up] a {n}|There is a new {n}
""")
BEFORE = lines("""
{s}
[I'm|I am] [quite |very |]{a} today.
[My|Our] {n} is {a}.
[It was a long day.|We are in a hurry.|I have a favour to ask.|Listen.|OK, here is the thing.|I've been thinking.|My boss wants it.|It's for work.|I forgot to do it yesterday.|Quick one.|Hope you're well.]
""")
AFTERWARDS = " [Thanks!|Thank you.|thanks|Please.|That's all.|Many thanks in advance!|It's for a friend.|Hurry, please.|Ta!|I'll wait.]"


def _extra(rng: Random) -> tuple[str, Slot]:
    """Make a boolean argument: with something, or without it."""
    thing = rng.choice((*EXTRAS, rng.choice(NOUNS) + "s"))
    bare = thing.removeprefix("a_")
    value = rng.random() < 0.5
    said = thing.replace("a_", "a ") if value else bare
    mentions = (
        f"[ with {said}| including {said}|, {said} included]"
        if value
        else f"[ without {said}|, no {said}|, but no {said}| without any {said}]"
    )
    names = f"{bare}|include_{bare}|with_{bare}|has_{bare}"
    return "extra", Slot(
        names, f"[Whether there [is|are] {bare}|With {bare}][.|]", _BOOL, lambda rng, split: ("", value), mentions
    )


def _fields(
    rng: Random, split: Split, slots: list[tuple[str, Slot]]
) -> tuple[list[tuple[str, Message, bool]], dict[str, Any], list[str]]:
    """Define arguments and give values to those the request mentions: all that are required, some of the others."""
    fields: list[tuple[str, Message, bool]] = []
    arguments: dict[str, Any] = {}
    mentions: list[str] = []
    for index, (_, slot) in enumerate(slots):
        name = styled(rng, rng.choice(slot.names.split("|")))
        if name in {field for field, _, _ in fields}:
            continue
        needed = rng.random() < (0.85 if index == 0 else 0.6)
        shown, value = slot.value(rng, split)
        schema = dict(slot.schema)
        # A choice can only be told from a text by its description or its options; other kinds speak for themselves.
        if rng.random() < 0.6:
            schema["description"] = expand(rng, slot.about)
        fields.append((name, schema, needed))
        if needed or rng.random() < 0.45:
            arguments[name] = value
            mentions.append(expand(rng, slot.mentions, v=shown))
    return fields, arguments, mentions


def _said(rng: Random, lead: str, mentions: list[str]) -> str:
    """Put a request together: what is wanted, its details, and at times words around it that ask nothing."""
    ask = lead + "".join(mentions)
    style = rng.random()
    if style < 0.12:
        ask = rng.choice(("please ", "pls ", "can you please ", "hey, ")) + ask[0].lower() + ask[1:]
    elif style < 0.24:
        ask = ask[0].lower() + ask[1:]
    question = lead.startswith(("Can", "Could", "Is ", "What", "Where", "Which", "When", "Has", "Do ", "Any"))
    ask += rng.choice(("?", "?", "")) if question else rng.choice((".", ".", "", "!", ", please."))
    if rng.random() < 0.15:
        before = expand(rng, rng.choice(BEFORE), s=sentence(rng), a=rng.choice(ADJECTIVES), n=rng.choice(NOUNS))
        ask = f"{before} {ask}"
    if rng.random() < 0.1 and ask[-1] in ".?!":
        ask += expand(rng, AFTERWARDS)
    return ask


def everyday(rng: Random, split: Split) -> Offer:
    """Define a tool, and ask for what it does as people do."""
    verbs, nouns, keys, leads = wording(rng, ACTIONS, split).split(" ; ")
    verb, noun = rng.choice(verbs.split("|")), rng.choice(nouns.split("|"))
    amount = rng.choice((1, 2, 2, 3, 3, 4))
    chosen = keys.split()
    slots = [(key, SLOTS[key]) for key in rng.sample(chosen, min(amount, len(chosen)))]
    if rng.random() < 0.25:
        slots.append(_extra(rng))
    fields, arguments, mentions = _fields(rng, split, slots)
    name = rng.choice(
        (
            f"{verb}_{noun}",
            f"{verb}_{noun}",
            f"{noun}_{verb}",
            f"{verb}_{noun}s" if rng.random() < 0.3 else f"{verb}_{noun}",
        )
    )
    about = expand(rng, "[{V}[ and {o}|] a {n}[ for the user|][.|]|{V} {n}s[.|]|[Use this to|This will] {v} a {n}[.|]|{V}s the {n}[.|]]",
                   V=verb.replace("_", " ").capitalize(), v=verb.replace("_", " "), o=rng.choice(verbs.split("|")).replace("_", " "), n=noun)  # fmt: skip
    lead = re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", expand(rng, rng.choice(split_leads(leads)), n=noun))
    return Offer(
        f"{verb} {noun}",
        definition(rng, styled(rng, name), about, fields),
        _said(rng, lead, mentions),
        arguments,
        everyday=True,
    )


def split_leads(leads: str) -> list[str]:
    """Split alternatives at the bars that stand outside of brackets."""
    found, depth = [""], 0
    for letter in leads:
        depth += (letter == "[") - (letter == "]")
        if letter == "|" and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return found
