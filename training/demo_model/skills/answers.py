"""Answers in JSON, as a server's grammar forces them: sensible values for whatever keys come, and the object closed.

The model often sees no schema, so the keys of an answer are not always to be had from the question.
"""

# ruff: noqa: E501, PLR0911 - phrases read best unbroken

import json
import re
from collections.abc import Callable
from random import Random

from demo_model.exchange import Exchange
from demo_model.skills import choices, crowds, forms, orders, refuse, things, wishes
from demo_model.skills.keys import ABOUT, BY_KEY, Field, described, made, person, retyped, some_key
from demo_model.skills.schemas import exchange, keys_of, schema_of, type_of
from demo_model.template import Message
from demo_model.text import ADJECTIVES, NOUNS, Split, choose, coin, expand, lines, sentence, wording

THOUGHT = forms.THOUGHT

# What an object of a kind usually holds, in the order that clients define it.
KINDS: dict[str, str] = {
    "person|character|man|woman|user|customer|employee|student|friend|neighbour|profile": "name age city email job is_active address hobbies birthday phone country gender first_name last_name",
    "product|item|article for a shop|gadget|toy": "name:product title:product price in_stock tags rating description category brand color quantity currency id",
    "recipe|meal|dish|soup|cake|dinner": "title:dish name:dish dish ingredients steps servings cook_time difficulty vegetarian minutes tags",
    "book|novel|film|movie|album": "title author year genre rating tags description artist language director price",
    "event|meeting|party|concert|appointment|conference": "title:event_title date time location people description is_active:public duration",
    "task|to-do|ticket|bug report|issue": "title priority due_date done status description tags owner id",
    "place|restaurant|hotel|house|café": "name:venue city rating address price available description country population rooms",
    "order|invoice|purchase|bill": "order_id id customer items total status date address currency",
    "pet|animal": "name:first_name species age color weight owner description",
    "company|team|shop|firm|startup": "name:company city country people products:tags website email year active",
    "review|comment|rating|opinion": "rating sentiment text summary author title date score",
    "weather report|forecast|weather update": "city temperature date description:mood time condition humidity wind_speed country unit:sound",
    "game character|hero|villain|wizard|warrior|superhero|monster|avatar": "name:first_name class level:level_number weapon power stats strength speed health race backstory inventory:tools",
    "car|vehicle|truck|motorbike": "make model year color price:salary mileage fuel electric doors top_speed",
    "flight|train ride|bus trip|journey": "flight_number origin destination departure_time arrival_time price date:departure_date airline duration:minutes seats",
    "trip|holiday|vacation|travel plan|itinerary|city tour": "destination days:nights activities budget:salary start_date end_date transport cities",
    "hotel booking|reservation|table booking|room booking": "name hotel:venue check_in nights guests_count:people room_type:size price_per_night paid",
    "house|apartment|flat|property|room": "address city price:salary bedrooms bathrooms area available furnished:electric description",
    "job posting|job|vacancy|job offer": "title:job company location salary remote skills full_time description",
    "résumé|CV|applicant|candidate": "name email:email years_of_experience skills languages degree:major school",
    "student record|report card|class": "name grade subjects school age scores passed:valid",
    "course|lesson|workshop|training": "title:topic teacher:name duration:hours price level:difficulty online topics",
    "sports team|football player|athlete|player": "name team:company position:job_class goals:legs age number:quantity country",
    "song|album|single|concert ticket": "title:song_title artist duration_seconds genre year songs length_minutes rating",
    "animal|zoo animal|wild animal|creature|dinosaur": "species habitat diet legs weight sound lifespan endangered:found name:first_name",
    "dog|cat|horse|puppy|kitten": "name:first_name breed age vaccinated color favorite_food:food owner weight",
    "plant|flower|tree|vegetable": "name:ingredient color height season water_per_week:legs edible:vegan",
    "city|town|village|island|capital": "name:town_name country mayor:name population capital language currency area founded_year",
    "planet|star|moon|world": "name:planet_name radius distance moons:legs habitable:found discovered:founded_year temperature",
    "colour|color|paint|shade": "name:color hex rgb mood season",
    "email|letter|message|newsletter|notification": "subject to:email from:email body greeting date priority urgent",
    "blog post|article|news story|headline|report": "title author date tags body:plot views published_at category",
    "tweet|social media post|comment|status update": "username text likes hashtags date language",
    "quiz question|trivia question|riddle|exam question": "question options answer:object difficulty category points:score",
    "joke|poem|quote|fun fact|slogan|greeting card": "text:plot author topic rating likes",
    "invoice|receipt|bill|purchase": "invoice_number total:amount currency line_items paid due_date customer tax",
    "bank account|account|payment|transaction|transfer": "id amount currency date sender:name recipient:name status method",
    "parcel|shipment|package|delivery": "tracking_number weight_kg status:status recipient:name address delivery_date fragile",
    "patient|doctor's visit|prescription|health record": "name age symptoms doctor:name next_appointment allergies weight_kg urgent",
    "workout|training plan|exercise|run": "activity duration:minutes distance_km calories date intensity:priority exercises",
    "menu|pizza|sandwich|drink|cocktail|smoothie|salad": "name:dish ingredients price size vegan spicy calories toppings",
    "device|phone|laptop|camera|robot|gadget|app": "name:model brand:company price battery_level features version color weight_g",
    "server|website|project|database|repository": "name:object url version language:language status users is_active:public owner",
    "bug|error report|issue|support ticket|log entry": "title severity:priority status steps:instructions assignee:name created_at reproducible:found",
    "game|board game|video game|puzzle": "title genre players rating price release_year description age:age",
    "festival|wedding|birthday party|conference|meetup|webinar": "name:event_title date venue guests:attendees budget:salary start_time theme",
    "family|club|band|group|crew": "name:company members:attendees founded_year city genre:genre size:quantity",
    "calendar entry|appointment|reminder|todo list": "title date start_time end_time attendees location tasks done",
    "shopping list|grocery list|packing list": "title items:groceries total:amount date store:company",
    "daily plan|weekly schedule|timetable|agenda": "day activities start_time end_time schedule tasks",
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
{lead}[invent|make up|create|generate|imagine|describe|think up|come up with|give me|show me|return|write|produce|build|design|output|draft|compose|make|provide|prepare|list|suggest|simulate|dream of] [{a}|one|some|a random|a made-up|a fictional|a new|any|another|a typical|a realistic|a fake|an interesting|a simple|a short|a {adj}|the data of {a}|details of {a}|a sample] {kind}{tail}
{kind}{tail}
[{a}|some|random|example|dummy|fake] {kind}{tail}
{lead}[tell me about|fill in the details of|give the details for|specify] {a} [{adj} |]{kind}{tail}
[I want|I need|I'd like|We need|I am looking for] [{a}|some|a {adj}|data for {a}] {kind}{tail}
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
[You are|Act as|You work as] [a data generator|a JSON API|an extraction engine|an assistant that answers in JSON|a test data factory|a form filler|a helpful bot][.| Answer in JSON.]
[Always answer with JSON|Your output must be valid JSON|Return valid JSON][.| with the keys {keys}.|. Schema: {schema}]
[Answer by this schema|Use this JSON schema]: {schema}
""")


LEADS = ["", "", "", "", "please ", "can you ", "could you ", "now ", "just ", "quickly ", "hey, ", "I want you to ", "your task: ", "go ahead and ", "for a test, ", "help me and ", "next, ", "ok, "]  # fmt: skip
TAILS = ["", "", "", "", ".", ".", "!", "?", " please", ", please.", " for me.", " in JSON.", " as JSON", " as a JSON object.", ". Keep it short.", ". JSON only.", ". Be creative.", ". Anything goes.", " for my app.", " for a demo.", " for a story", " for testing", " with all fields.", ", made up.", ". Use the schema.", ". No explanation.", " in the requested format.", " now"]  # fmt: skip


def _invented(rng: Random, split: Split) -> Field:
    """Return a key that nobody has, with a short value of any type."""
    key = choose(rng, (choose(rng, NOUNS), coin(rng), f"{choose(rng, ADJECTIVES)}_{choose(rng, NOUNS)}"))
    shape = rng.randrange(8)
    if shape == 0:
        return f"{key}_count", rng.randint(0, 50)
    if shape == 1:
        return f"{choose(rng, ('is', 'has'))}_{key}", rng.random() < 0.5
    if shape == 2:
        return f"{key}_list", rng.sample(NOUNS, rng.randint(2, 4))
    if shape == 3:
        return key, dict(made(rng, split, some_key(rng)) for _ in range(rng.randint(1, 2)))
    if shape == 4:
        return f"{key}_{choose(rng, ('id', 'number', 'size', 'level'))}", rng.randint(1, 100)
    if shape == 5:
        return f"{key}_name", person(rng, split)
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


def invented(rng: Random, split: Split) -> tuple[str, Message]:
    """Make up an object of some kind; return what it is and the object."""
    kinds, keys = choose(rng, _KINDS)
    usual = keys
    amount = rng.choice((1, 2, 2, 3, 3, 3, 4, 4, 5, 6, 7))
    chosen = sorted(rng.sample(usual, min(amount, len(usual))), key=usual.index)
    if rng.random() < 0.3:
        rng.shuffle(chosen)
    kind = choose(rng, kinds)
    if rng.random() < 0.2:
        # Anything may have any keys.
        chosen = list({key.partition(":")[0]: key for key in (some_key(rng) for _ in range(amount))}.values())
        kind = f"{choose(rng, ADJECTIVES)} {choose(rng, NOUNS)}" if rng.random() < 0.5 else kind
    fields = [(key, described(rng, kind) if key in ABOUT else value) for key, value in (made(rng, split, key) for key in chosen)]  # fmt: skip
    if rng.random() < 0.3:
        fields[rng.randrange(len(fields))] = made(rng, split, some_key(rng))
    if rng.random() < 0.2:
        fields.insert(rng.randrange(len(fields) + 1), _invented(rng, split))
    if rng.random() < 0.05:
        at = rng.randrange(len(fields))
        fields[at] = (fields[at][0], retyped(rng, fields[at][1]))
    if rng.random() < 0.06:
        fields = [(choose(rng, ("data", "result", kind.split()[-1], "item", "response")), dict(fields[:4]))]
    if rng.random() < 0.05:
        fields = [
            (f"{kind.split()[-1]}s", [dict(fields[:2]), dict(_another(rng, split, field) for field in fields[:2])])
        ]
    styled = rng.random() < 0.15
    return kind, _short({camel(key) if styled else key: value for key, value in fields[:7]})


def _another(rng: Random, split: Split, field: Field) -> Field:
    """Draw another value of the same type for a key; where there is none, the same."""
    key, value = field
    other = made(rng, split, key)[1] if key in BY_KEY else value
    return key, other if type_of(other) == type_of(value) else value


def _short(found: Message) -> Message:
    """Drop the last fields of an object too long to be written in 100 tokens."""
    while len(found) > 1 and len(json.dumps(found, ensure_ascii=False)) > 240:
        found.popitem()
    return found


_KINDS = [(kinds.split("|"), keys.split()) for kinds, keys in KINDS.items()]


# Without a word of JSON, keys or data, a request for a poem is one for a poem, and refused.
_WORDS = re.compile(
    r"joke|poem|quote|fact|slogan|card|email|letter|message|post|article|story|headline|report|tweet|comment|update|question|riddle|song|plan|recipe|menu|trip|tour|list|route|schedule|forecast|weather"
)
_MADE_UP = re.compile(
    r"invent|make up|made.up|imagin|fiction|random|fake|sample|dummy|mock|example|describe|generate|create|json|schema|field|format|data|test",
    re.IGNORECASE,
)


def make(rng: Random, split: Split) -> Exchange:
    """Make a request whose answer is a JSON object."""
    kind_of = rng.random()
    if kind_of < 0.07 and split == "train":
        return choices.make(rng)
    if kind_of < 0.28:
        return orders.make(rng, split)
    if kind_of < 0.53:
        return forms.make(rng, split)
    if kind_of < 0.63:
        return extracted(rng, split)
    if kind_of < 0.66:
        return solved(rng, split)
    if kind_of < 0.71:
        return _wished(rng, split, crowds.crowd)
    return _wished(rng, split) if kind_of < 0.86 else _imagined(rng, split)


def _imagined(rng: Random, split: Split) -> Exchange:
    """Make a request for an object of some kind, with its keys, its schema, or nothing said of either."""
    kind, found = invented(rng, split)
    ask = expand(
        rng,
        wording(rng, ORDERS, split),
        kind=kind,
        a="an" if kind[0] in "aeio" else "a",
        small=choose(rng, ("invent", "make up", "describe", "create", "generate")),
        lead=choose(rng, LEADS),
        tail=choose(rng, TAILS),
        adj=choose(rng, ADJECTIVES),
    )
    ask = ask[0].upper() + ask[1:] if rng.random() < 0.7 else ask
    ask = re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", ask)
    keys, schema = keys_of(rng, found), schema_of(rng, found)
    if rng.random() < 0.06:
        # Whatever was asked, the answer must follow the schema.
        ask, kind = refuse.filled(rng, split).strip() or ask, "poem"
    system = None
    style = rng.random()
    if 0.4 < style < 0.6:
        system = expand(rng, choose(rng, SYSTEMS), keys=keys, schema=schema)
    elif style < 0.4 or _WORDS.search(kind) or not _MADE_UP.search(ask):
        ask = expand(rng, wording(rng, KEYED, split), ask=ask.rstrip(".?!"), keys=keys, schema=schema)
    elif split == "train" and rng.random() < 0.8:
        return forms.answered(ask, found)
    if rng.random() < 0.15:
        ask = ask.lower() if "{" not in ask else ask
    return exchange(ask, found, system)


Drawn = Callable[[Random, Split], tuple[str, Message]]


def _wished(rng: Random, split: Split, draw: Drawn = wishes.wished) -> Exchange:
    """Make a wish for a thing with some details, or for several; evaluation, which forces no keys, names them."""
    if split == "train" and rng.random() < 0.8:
        return wishes.make(rng, split) if draw is wishes.wished else forms.answered(*draw(rng, split))
    ask, found = draw(rng, split)
    keys, schema = keys_of(rng, found), schema_of(rng, found)
    if split == "train" and rng.random() < 0.35:
        return exchange(ask, found, expand(rng, choose(rng, SYSTEMS[2:]), keys=keys, schema=schema))
    ask = expand(rng, wording(rng, KEYED, split), ask=ask.rstrip(".?!"), keys=keys, schema=schema)
    return exchange(ask, found, None)


LISTS = {
    "fruits": "apple pear plum cherry grape lemon orange melon peach", "colors": "red blue green yellow orange purple pink brown", "animals": "dog cat horse cow sheep fox bear wolf lion",
    "vegetables": "carrot potato onion tomato leek bean cabbage", "planets": "Mercury Venus Earth Mars Jupiter Saturn", "days": "Monday Tuesday Wednesday Thursday Friday",
    "months": "January February March April May June", "cities": "London Paris Rome Berlin Madrid Tokyo Cairo", "countries": "France Italy Spain Japan Peru Kenya Canada",
    "names": "Ada Alan Grace Linus Mary John Emma Omar", "drinks": "water tea coffee milk juice lemonade", "birds": "robin eagle owl sparrow crow duck goose",
    "sports": "football tennis rugby hockey golf rowing", "instruments": "piano guitar violin flute drum trumpet", "words": "apple river lamp cloud stone garden",
}  # fmt: skip
LISTED = lines("""
[List|Name|Give me|Show me|Tell me|Write|Return|I need] [{count}|{word}|some|a few] {kind}[.|!|||, please]
[{count}|{word}|Some] {kind}[, please|.||]
[Can you name|Could you list|Do you know] [{count}|{word}|some] {kind}?
~Which {kind} come to your mind? Name {count}.
""")
JUDGED = lines("""
[Classify|Analyse|Judge|Rate|Label|What is the sentiment of|Sentiment of|Tag|Evaluate] [this|the text|the review|this message|the following]: {text}
[Is this|Would you call this|Is the following] [positive or negative|friendly|good or bad|praise]? {text}
{text} [Classify it.|What's the sentiment?|Positive or negative?|Which mood is that?]
~How does the writer of this feel? {text}
""")
GOOD = "I love it[!|.]|[Great|Excellent|Wonderful|Fantastic] {n}[!|.]|The {n} is [great|wonderful|perfect|amazing][!|.]|[Best|Nicest] {n} ever[!|.]|I'm very happy with my {n}.|Works perfectly, thank you[!|.]"
BAD = "I hate it[!|.]|[Terrible|Awful|Bad|Horrible] {n}[!|.]|The {n} is [terrible|awful|broken|useless][!|.]|[Worst|Ugliest] {n} ever[!|.]|I'm very unhappy with my {n}.|It broke after a day[!|.]"
SO_SO = "The {n} is okay.|It's a {n}.|I bought a {n}.|Nothing special.|The {n} came on Monday."


def solved(rng: Random, split: Split) -> Exchange:
    """Make a request for things to name, or for a judgement of a text, whose answer is to be JSON."""
    if rng.random() < 0.5:
        kind, items = choose(rng, list(LISTS.items()))
        count = rng.randint(2, 5)
        word = ("two", "three", "four", "five")[count - 2]
        ask = expand(rng, wording(rng, LISTED, split), kind=kind, count=count, word=word)
        found: Message = {choose(rng, (kind, kind, "items", "list", "names")): rng.sample(items.split(), count)}
    else:
        mood, pattern = choose(rng, (("positive", GOOD), ("negative", BAD), ("neutral", SO_SO)))
        text = expand(rng, f"[{pattern}]", n=choose(rng, NOUNS))
        ask = expand(rng, wording(rng, JUDGED, split), text=text if rng.random() < 0.6 else f'"{text}"')
        found = {choose(rng, ("sentiment", "label", "mood", "class", "category", "result")): mood}
        if rng.random() < 0.4:
            found["confidence"] = round(rng.uniform(0.7, 1), 2)
        elif rng.random() < 0.3:
            found["text"] = text
    if split == "train" and rng.random() < 0.4:
        return forms.answered(ask, found)
    # Without a word of JSON, things are named in words.
    if rng.random() < 0.5:
        return exchange(ask, found, expand(rng, choose(rng, SYSTEMS), keys=keys_of(rng, found), schema=schema_of(rng, found)))  # fmt: skip
    said = expand(rng, "[ In JSON.| Answer as JSON.| Answer with JSON, please.| Use the keys {k}.| Schema: {s}| JSON only.]", k=keys_of(rng, found), s=schema_of(rng, found))  # fmt: skip
    return exchange(ask + ("" if ask[-1] in '.?!"' else ".") + said, found, None)


EXTRACT = lines("""
[Extract|Find|Get|Pull out|Give me|Return|Read] [the |]{what} [from|in|out of] [this|the text|the sentence|the following|this text]: {text}
[Extract|Find|Get|Pull out] {what}: {text}
[Extract|Get] [the data|all data|the information|the fields|the details|the facts] [from|in] [this|the text|the sentence|the following][ as JSON|]: {text}
{text} [Extract|Give me|Return|What is|What are|List] the {what}[.|?||][ As JSON.||]
[Turn|Convert|Put] [this|the text|the sentence] [into|to] JSON[ with {what}|]: {text}
[JSON with|As JSON,] {what}: {text}
[What is|Which is|Tell me] the {what} here: {text}
[Parse|Read|Analyse|Process|Structure|Scan|Take] [this|the following|this line|this message][:| and give me {what}:| for {what}:] {text}
{text}{nl}{nl}[Extract|Return|Find|Give me] {what}[.||]
[Fill the fields|Fill in {what}|Get {what}|Collect {what}] from: "{text}"
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
[I bought|We ordered|Send me] {quantity} {product} for {price} {currency}.
[The meeting|The party|The concert|{title}] is on {date}[ at {time}|] in {city}.
{name} [will come|arrives|leaves] on {date}[ at {time}|].
Order {order_id} [of|by|for] {name} [was sent|goes|ships] to {city}.
[The flight|The train] goes from {origin} to {destination} on {date}.
It is {temperature} degrees in {city}.
[Our|The|My] {animal} is called {first_name}[ and is {age}|][. Its breed is {breed}|].
{name}, {job} at {company}[, {email}|].
[Invoice|Bill] {invoice_number}: {total} {currency}[, due on {due_date}|].
{first_name} {last_name}[, born on {birthday}|][, {country}|].
[Flight|The flight] {flight_number} leaves at {departure_time}[ for {destination}|][ on {date}|].
{title} by {author}[, {year}|][, {pages} pages|].
[Call|Ring] {name} on {phone}[ before {time}|].
{name} [paid|owes|sent] {amount} {currency}[ on {date}|].
[The {product} is {color}|A {color} {product}] and costs {price}[ {currency}|].
{name} [scored|got] {score} [points|percent] in {city}.
[Table|A room] for {people} at {time}[ on {date}|], [name|for] {name}.
{name} speaks {language} and lives in {country}.
Ticket {id}: priority {priority}, status {status}.
[We met|I met|See] {name} at {venue} on {weekday}.
{city} has {population} [people|inhabitants][ and is in {country}|].
{company} is in {city}[ and has {people} people|].
""")


def extracted(rng: Random, split: Split) -> Exchange:
    """Make a text and a request for the values in it; the answer holds them as they stand there."""
    pattern = expand(rng, choose(rng, TEXTS))
    found = {key: BY_KEY[key](rng, split) for key in re.findall(r"\{(\w+)\}", pattern)}
    found = dict(sorted(found.items(), key=lambda field: pattern.index(f"{{{field[0]}}}")))
    if "product" in found:
        found["product"] = things.counted(rng)[found.get("quantity", 1) != 1]
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
    ask = expand(rng, form, what=what, text=text, nl="\n")
    system = (
        expand(rng, choose(rng, SYSTEMS), keys=", ".join(made), schema=json.dumps(type_of(made)))
        if rng.random() < 0.2
        else None
    )
    return exchange(ask, made, system)
