"""Answers in JSON, as a server's grammar forces them: sensible values for whatever keys come, and the object closed.

The model often sees no schema, so the keys of an answer are not always to be had from the question.
"""

# ruff: noqa: E501, PLR0911, SIM905 - phrases read best unbroken

import json
from collections.abc import Callable
from random import Random
from typing import Any

from tools.demo_model.exchange import Exchange, assistant, user
from tools.demo_model.template import Message
from tools.demo_model.text import (
    ADJECTIVES,
    CITIES,
    NAMES,
    NOUNS,
    Split,
    choose,
    coin,
    expand,
    lines,
    pick,
    sentence,
    wording,
)

Value = Callable[[Random, Split], Any]
Field = tuple[str, Any]  # a key and its value
THOUGHT = "I should answer with JSON."

JOBS = "teacher baker nurse engineer pilot farmer writer painter doctor cook gardener carpenter driver lawyer designer plumber".split()
COUNTRIES = (
    "France Germany Spain Italy Portugal Japan India Brazil Canada Egypt Kenya Norway Sweden Poland Greece Peru".split()
)
STREETS = "Main Oak Park Elm Lake Hill Church River Station Garden Market Mill".split()
FOODS = "flour sugar butter eggs milk salt rice tomatoes onions garlic cheese apples honey lemon pasta beans carrots".split()
TAGS = "new sale travel food music sport home garden cheap red small fast popular fresh classic quiet".split()
HOBBIES = "reading hiking chess cooking painting swimming music gardening cycling photography".split()


def _few(rng: Random, values: list[str], least: int = 1, most: int = 4) -> list[str]:
    return rng.sample(values, rng.randint(least, most))


def _person(rng: Random, split: Split) -> str:
    first = pick(rng, NAMES, split)
    return first if rng.random() < 0.5 else f"{first} {coin(rng, 2).capitalize()}"


def _thing(rng: Random) -> str:
    return f"{choose(rng, ADJECTIVES)} {choose(rng, NOUNS)}".capitalize()


def _date(rng: Random) -> str:
    return f"{rng.randint(1960, 2030)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"


def _address(rng: Random, split: Split) -> Message:
    both = {"street": f"{rng.randint(1, 99)} {choose(rng, STREETS)} Street", "city": choose(rng, CITIES)}
    more = {"zip": f"{rng.randint(10000, 99999)}", "country": choose(rng, COUNTRIES)}
    return {**both, **({key: more[key] for key in _few(rng, list(more), 1, 2)} if rng.random() < 0.4 else {})}


def _item(rng: Random, split: Split) -> Message:
    return {"name": choose(rng, NOUNS), choose(rng, ("quantity", "price", "amount")): rng.randint(1, 20)}


# What stands behind keys of these names, whatever the object is.
VALUES: dict[str, Value] = {
    "name|full_name|author|owner|customer|contact|director|artist": _person,
    "first_name|username|player|friend|winner": lambda rng, split: pick(rng, NAMES, split),
    "last_name|surname|family_name": lambda rng, split: coin(rng, 2).capitalize(),
    "age": lambda rng, split: rng.randint(18, 80),
    "city|town|birthplace|location|place|origin|destination|capital": lambda rng, split: pick(rng, CITIES, split),
    "country|nationality": lambda rng, split: choose(rng, COUNTRIES),
    "email|mail": lambda rng, split: f"{choose(rng, NAMES[:150]).lower()}@example.{choose(rng, ('com', 'org', 'net'))}",
    "phone|phone_number|telephone": lambda rng, split: f"555-{rng.randint(0, 9999):04}",
    "job|occupation|profession|role": lambda rng, split: choose(rng, JOBS),
    "title|headline|subject|product|item|product_name|book|movie|song": lambda rng, split: _thing(rng),
    "price|cost|total|amount_due": lambda rng, split: choose(rng, (rng.randint(1, 99), round(rng.uniform(1, 99), 2), rng.randint(1, 99) - 0.01)),
    "currency": lambda rng, split: choose(rng, ("EUR", "USD", "GBP")),
    "date|birthday|birth_date|created_at|due_date|start_date|released": lambda rng, split: _date(rng),
    "time|start|opens_at": lambda rng, split: f"{rng.randint(0, 23):02}:{choose(rng, (0, 15, 30, 45)):02}",
    "year": lambda rng, split: rng.randint(1950, 2026),
    "tags|labels|keywords|categories": lambda rng, split: _few(rng, TAGS),
    "items|products|lines": lambda rng, split: [_item(rng, split) for _ in range(rng.randint(1, 3))],
    "ingredients": lambda rng, split: _few(rng, FOODS, 2, 4),
    "hobbies|interests|skills": lambda rng, split: _few(rng, HOBBIES, 1, 3),
    "steps|instructions": lambda rng, split: ["Mix everything.", "Heat the oven.", "Bake for 20 minutes.", "Cut the vegetables.", "Cook until soft.", "Serve warm."][rng.randint(2, 4) :],
    "colors|colours": lambda rng, split: _few(rng, ["red", "blue", "green", "black", "white", "yellow"], 1, 3),
    "color|colour": lambda rng, split: choose(rng, ["red", "blue", "green", "black", "white", "yellow"]),
    "address|home": _address,
    "is_active|active|available|in_stock|done|completed|verified|enabled|public|is_new|has_pets|married|vegetarian": lambda rng, split: rng.random() < 0.6,
    "rating|stars": lambda rng, split: choose(rng, (rng.randint(1, 5), round(rng.uniform(1, 5), 1))),
    "score|percent|progress": lambda rng, split: rng.randint(0, 100),
    "confidence|probability": lambda rng, split: round(rng.random(), 2),
    "quantity|count|stock|servings|people|seats|rooms|number": lambda rng, split: rng.randint(1, 20),
    "id|user_id|order_id|product_id": lambda rng, split: rng.randint(1, 9999),
    "weight|height|width|length|size_cm": lambda rng, split: choose(rng, (rng.randint(1, 200), round(rng.uniform(1, 99), 1))),
    "duration|minutes|prep_time|cook_time|cooking_time": lambda rng, split: choose(rng, (5, 10, 15, 20, 30, 45, 60, 90)),
    "difficulty": lambda rng, split: choose(rng, ("easy", "medium", "hard")),
    "priority|level|severity": lambda rng, split: choose(rng, ("low", "medium", "high")),
    "status|state": lambda rng, split: choose(rng, ("open", "closed", "active", "pending", "done")),
    "category|kind|type|genre": lambda rng, split: choose(rng, ("food", "home", "music", "sport", "travel", "fiction", "other")),
    "sentiment|mood": lambda rng, split: choose(rng, ("positive", "negative", "neutral")),
    "gender": lambda rng, split: choose(rng, ("female", "male")),
    "size": lambda rng, split: choose(rng, ("small", "medium", "large")),
    "language": lambda rng, split: choose(rng, ("English", "French", "German", "Spanish")),
    "animal|pet|species": lambda rng, split: choose(rng, ("cat", "dog", "horse", "rabbit", "fox", "owl", "goat")),
    "description|summary|text|note|comment|message|reason|content|answer|bio|explanation": lambda rng, split: sentence(rng),
    "url|website|link": lambda rng, split: f"https://example.com/{choose(rng, NOUNS)}",
    "temperature": lambda rng, split: rng.randint(-10, 35),
    "population": lambda rng, split: rng.randint(1, 900) * 1000,
    "company|brand|team|publisher": lambda rng, split: f"{coin(rng, 2).capitalize()} {choose(rng, ('Ltd', 'Inc', 'Group', 'Works'))}",
    "dish|recipe|recipe_name|meal": lambda rng, split: f"{choose(rng, FOODS)} {choose(rng, ('soup', 'salad', 'cake', 'pie', 'bread', 'stew'))}".capitalize(),
}  # fmt: skip
BY_KEY = {key: value for keys, value in VALUES.items() for key in keys.split("|")}
# What an object of a kind usually holds, in the order that clients define it.
KINDS: dict[str, str] = {
    "person|character|man|woman|user|customer|employee|student|friend|neighbour|profile": "name age city email job is_active address hobbies birthday phone country gender first_name last_name",
    "product|item|article for a shop|gadget|toy": "name:title title price in_stock tags rating description category brand color quantity currency id",
    "recipe|meal|dish|soup|cake|dinner": "title:dish name:dish dish ingredients steps servings cook_time difficulty vegetarian minutes tags",
    "book|novel|film|movie|song|album": "title author year genre rating tags description artist language director price",
    "event|meeting|party|concert|appointment|conference": "title date time location people description is_active:public duration",
    "task|to-do|ticket|bug report|issue": "title priority due_date done status description tags owner id",
    "place|restaurant|hotel|town|house|café": "name:title city rating address price available description country population rooms",
    "order|invoice|purchase|bill": "order_id id customer items total status date address currency",
    "pet|animal": "name:first_name species age color weight owner description",
    "company|team|shop|firm|startup": "name:company city country people products:tags website email year active",
    "review|comment|rating|opinion": "rating sentiment text summary author title date score",
    "weather report|forecast": "city temperature date description:mood time",
}
ORDERS = lines("""
[Invent|Make up|Create|Generate|Imagine|Describe|Think of|Come up with|Give me|Show me|Return|Write|I need|Produce|Build] [{a}|one|some|an example of {a}|a random|a made-up|a fictional|a new] {kind}[.||!]
[Please |Can you |Could you |]{small} {a} {kind}[ for me|][.|?||]
[Give me|Return|Write|Create|Output|Generate|I need|Show me] {a} {kind} [as JSON|in JSON|as a JSON object|in JSON format|as json|in the given format|with this schema][.||, please]
[Describe|Invent|Generate] {a} {kind} [as JSON|in JSON|as a JSON object|with all its fields|for my test data|for my app|for a demo][.||]
[JSON|Json|Sample data|Test data|Example|Mock data]: [{a} |]{kind}
[{a}|random|one] {kind} [please|as json|in json|, json|]
[Fill in|Fill|Complete] [the form|the fields|the object|a record] [for|of|with] {a} {kind}[.||]
[What could|What might] {a} {kind} look like[?| as JSON?||]
[I'm testing|I am testing] my app, [give me|make] {a} {kind}[.|!||]
~Dream up {a} {kind}, please.
~Would you produce a sample {kind}?
""")
KEYED = lines("""
{ask} with [the keys|the fields|keys|fields|these keys:|the properties] {keys}[.||]
{ask}. [Use the keys|The keys are|Fields:|Keys:|It needs|It should have|Include] {keys}[.||]
{ask} [including|that has|having|with] {keys}[.||]
{ask}. [Follow this JSON schema:|Schema:|Answer by this schema:|Use this schema:|The schema is] {schema}
~{ask}, and give {keys}.
""")
SYSTEMS = lines("""
[Answer|Reply|Respond] [only |][in|with] JSON[.| only.| and nothing else.]
[You are|Act as] [a|an] [data generator|JSON API|extraction engine|assistant that answers in JSON][.| Answer in JSON.]
[Always answer with JSON|Your output must be valid JSON|Return valid JSON][.| with the keys {keys}.|. Schema: {schema}]
[Answer by this schema|Use this JSON schema]: {schema}
""")


def _made(rng: Random, split: Split, key: str) -> Field:
    """Return a key with a value that suits it; ``shown:like`` shows one key with the value of another."""
    shown, _, like = key.partition(":")
    return shown, BY_KEY[like or shown](rng, split)


def _invented(rng: Random, split: Split) -> Field:
    """Return a key that nobody has, with a short value of any type."""
    key = choose(rng, (choose(rng, NOUNS), coin(rng), f"{choose(rng, ADJECTIVES)}_{choose(rng, NOUNS)}"))
    shape = rng.randrange(8)
    if shape == 0:
        return f"{key}_count", rng.randint(0, 50)
    if shape == 1:
        return f"{choose(rng, ('is', 'has'))}_{key}", rng.random() < 0.5
    if shape == 2:
        return f"{key}_list", [choose(rng, NOUNS) for _ in range(rng.randint(1, 4))]
    if shape == 3:
        return key, dict(_made(rng, split, choose(rng, list(BY_KEY))) for _ in range(rng.randint(1, 2)))
    if shape == 4:
        return f"{key}_{choose(rng, ('id', 'number', 'size', 'level'))}", rng.randint(1, 100)
    if shape == 5:
        return f"{key}_name", _person(rng, split)
    return key, choose(
        rng,
        (
            choose(rng, NOUNS),
            choose(rng, ADJECTIVES),
            rng.randint(0, 99),
            f"{choose(rng, ADJECTIVES)} {choose(rng, NOUNS)}",
        ),
    )


def camel(key: str) -> str:
    """Write a snake_case key in camelCase."""
    head, *rest = key.split("_")
    return head + "".join(part.capitalize() for part in rest)


def _type(value: Any) -> Message:
    """Return the JSON schema of a value."""
    if isinstance(value, dict):
        return {"type": "object", "properties": {key: _type(inner) for key, inner in value.items()}}
    if isinstance(value, list):
        return {"type": "array", "items": _type(value[0])}
    for kind, name in ((bool, "boolean"), (int, "integer"), (float, "number")):
        if isinstance(value, kind):
            return {"type": name}
    return {"type": "string"}


def invented(rng: Random, split: Split) -> tuple[str, Message]:
    """Make up an object of some kind; return what it is and the object."""
    kinds, keys = choose(rng, list(KINDS.items()))
    usual = keys.split()
    amount = choose(rng, (1, 2, 2, 3, 3, 3, 4, 4, 5, 6))
    chosen = sorted(rng.sample(usual, min(amount, len(usual))), key=usual.index)
    if rng.random() < 0.3:
        rng.shuffle(chosen)
    fields = [_made(rng, split, key) for key in chosen]
    if rng.random() < 0.25:
        fields[rng.randrange(len(fields))] = _made(rng, split, choose(rng, list(BY_KEY)))
    if rng.random() < 0.2:
        fields.insert(rng.randrange(len(fields) + 1), _invented(rng, split))
    styled = rng.random() < 0.12
    return choose(rng, kinds.split("|")), {camel(key) if styled else key: value for key, value in fields[:6]}


def make(rng: Random, split: Split) -> Exchange:
    """Make a request whose answer is a JSON object."""
    if rng.random() < 0.25:
        return extracted(rng, split)
    kind, made = invented(rng, split)
    ask = expand(
        rng,
        wording(rng, ORDERS, split),
        kind=kind,
        a="an" if kind[0] in "aeio" else "a",
        small=choose(rng, ("invent", "make up", "describe", "create", "generate")),
    )
    keys, schema = (
        ", ".join(made),
        json.dumps({"type": "object", "properties": _type(made)["properties"], "required": list(made)}),
    )
    system = None
    if rng.random() < 0.4:
        ask = expand(rng, wording(rng, KEYED, split), ask=ask.rstrip(".?!"), keys=keys, schema=schema)
    elif rng.random() < 0.3:
        system = expand(rng, choose(rng, SYSTEMS), keys=keys, schema=schema)
    if rng.random() < 0.15:
        ask = ask.lower() if "{" not in ask else ask
    return _exchange(rng, ask, made, system)


def _exchange(rng: Random, ask: str, made: Message, system: str | None) -> Exchange:
    # The server's grammars write JSON as json.dumps does.
    answer = assistant(json.dumps(made, ensure_ascii=False), THOUGHT)
    lead: list[Message] = [{"role": "system", "content": system}] if system else []
    return Exchange([*lead, user(ask), answer], topic="json")


EXTRACT = lines("""
[Extract|Find|Get|Pull out|Give me|Return|Read] [the |]{what} [from|in|out of] [this|the text|the sentence|the following|this text]: {text}
[Extract|Find|Get|Pull out] {what}: {text}
[Extract|Get] [the data|all data|the information|the fields|the details|the facts] [from|in] [this|the text|the sentence|the following][ as JSON|]: {text}
{text} [Extract|Give me|Return|What is|What are|List] the {what}[.|?||][ As JSON.||]
[Turn|Convert|Put] [this|the text|the sentence] [into|to] JSON[ with {what}|]: {text}
[JSON with|As JSON,] {what}: {text}
[What {what} does this text have?|Which {what} are in this text?] {text}
~Please note down the {what} that you read here: {text}
""")
# A text with places, and the key of each place.
TEXTS = lines("""
{name} is {age} years old[ and lives in {city}|].
{name}, {age}[, from {city}|].
[My name is|I am|I'm] {name} and I am {age}[. I live in {city}|][. I work as a {job}|].
{name}[, a {job},|] lives in {city}[ and is {age}|].
[Please call|Write to|You can reach] {name} at {email}[ or {phone}|].
{name} ([{email}|{phone}|{city}]) [wrote to us|called|is waiting].
The {title} costs {price} {currency}[ and has a rating of {rating}|].
[I bought|We ordered|Send me] {quantity} {product}s for {price} {currency}.
[The meeting|The party|The concert|{title}] is on {date}[ at {time}|] in {city}.
{name} [will come|arrives|leaves] on {date}[ at {time}|].
Order {order_id} [of|by|for] {name} [was sent|goes|ships] to {city}.
[The flight|The train] goes from {origin} to {destination} on {date}.
It is {temperature} degrees in {city}.
{company} is in {city}[ and has {people} people|].
""")


def extracted(rng: Random, split: Split) -> Exchange:
    """Make a text and a request for the values in it; the answer holds them as they stand there."""
    pattern = expand(rng, choose(rng, TEXTS))
    found = {key: BY_KEY[key](rng, split) for key in BY_KEY if f"{{{key}}}" in pattern}
    found = dict(sorted(found.items(), key=lambda field: pattern.index(f"{{{field[0]}}}")))
    if "product" in found:
        found["product"] = choose(rng, NOUNS)
    text = expand(rng, pattern, **found)
    if rng.random() < 0.2:
        text = f"{sentence(rng)} {text}"
    asked = rng.sample(sorted(found), rng.randint(1, len(found))) if rng.random() < 0.4 else list(found)
    made = {key: found[key] for key in asked}
    spoken = [key.replace("_", " ") for key in asked]
    what = (
        spoken[0]
        if len(spoken) == 1
        else f"{', '.join(spoken[:-1])} and {'the ' if rng.random() < 0.4 else ''}{spoken[-1]}"
    )
    form = wording(rng, EXTRACT if len(asked) == len(found) else EXTRACT[:2], split)
    ask = expand(rng, form, what=what, text=text)
    system = (
        expand(rng, choose(rng, SYSTEMS), keys=", ".join(made), schema=json.dumps(_type(made)))
        if rng.random() < 0.2
        else None
    )
    return _exchange(rng, ask, made, system)
