"""Forms filled from what a user writes: each value found by what its key means, whatever the key is called.

A server that holds an answer to a schema forces the braces and the keys; the user's text need not name them. So most of
these answers are learnt without their keys (``forced``), as the model meets them there.
"""

# ruff: noqa: E501, SIM905 - phrases read best unbroken

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from random import Random
from typing import Any
from zlib import crc32

from demo_model.exchange import Exchange, assistant, user
from demo_model.skills import parts, products, sums, things, values
from demo_model.skills.keys import ABOUT, described, made, some_key
from demo_model.skills.slots import bare
from demo_model.skills.values import Said, same
from demo_model.template import Message
from demo_model.text import ADJECTIVES, NAMES, NOUNS, Split, choose, expand, holdout, lines, pick, sentence

THOUGHT = "I should answer with JSON."
Segment = tuple[str, bool]

TONGUES: dict[str, str] = {
    "French": "Bonjour tout le monde.|Je voudrais un café.|Où est la gare ?|Il fait beau aujourd'hui.|Nous avons trois enfants.|Le chat dort sur la chaise.|Merci pour votre aide.|C'est une belle maison.|Quelle heure est-il ?|Elle travaille dans un jardin.",
    "German": "Guten Morgen zusammen.|Ich möchte einen Kaffee.|Wo ist der Bahnhof?|Das Wetter ist heute schön.|Wir haben drei Kinder.|Die Katze schläft auf dem Stuhl.|Danke für Ihre Hilfe.|Das ist ein schönes Haus.|Wie spät ist es?|Sie arbeitet im Garten.",
    "Spanish": "Buenos días a todos.|Quisiera un café.|¿Dónde está la estación?|Hoy hace buen tiempo.|Tenemos tres hijos.|El gato duerme en la silla.|Gracias por su ayuda.|Es una casa bonita.|¿Qué hora es?|Ella trabaja en el jardín.",
    "Italian": "Buongiorno a tutti.|Vorrei un caffè.|Dov'è la stazione?|Oggi il tempo è bello.|Abbiamo tre figli.|Il gatto dorme sulla sedia.|Grazie per il vostro aiuto.|È una bella casa.|Che ore sono?|Lei lavora in giardino.",
    "Portuguese": "Bom dia a todos.|Eu queria um café.|Onde fica a estação?|Hoje o tempo está bom.|Temos três filhos.|O gato dorme na cadeira.|Obrigado pela sua ajuda.|É uma casa bonita.|Que horas são?|Ela trabalha no jardim.",
    "Dutch": "Goedemorgen allemaal.|Ik wil graag een koffie.|Waar is het station?|Het is mooi weer vandaag.|Wij hebben drie kinderen.|De kat slaapt op de stoel.|Bedankt voor uw hulp.|Het is een mooi huis.|Hoe laat is het?|Zij werkt in de tuin.",
    "Polish": "Dzień dobry wszystkim.|Poproszę kawę.|Gdzie jest dworzec?|Dzisiaj jest ładna pogoda.|Mamy troje dzieci.|Kot śpi na krześle.|Dziękuję za pomoc.|To jest ładny dom.|Która jest godzina?|Ona pracuje w ogrodzie.",
    "Swedish": "God morgon allihopa.|Jag skulle vilja ha en kaffe.|Var är stationen?|Vädret är fint idag.|Vi har tre barn.|Katten sover på stolen.|Tack för hjälpen.|Det är ett fint hus.|Vad är klockan?|Hon arbetar i trädgården.",
    "Russian": "Доброе утро всем.|Я хотел бы кофе.|Где вокзал?|Сегодня хорошая погода.|Мы живём в городе.|Кошка спит на стуле.|Спасибо за помощь.|Это красивый дом.|Который час?|Она работает в саду.",
    "Japanese": "おはようございます。|コーヒーをください。|駅はどこですか。|今日は天気がいいです。|猫が椅子で寝ています。|ありがとうございます。|これはきれいな家です。|今何時ですか。",
    "Chinese": "大家早上好。|我想要一杯咖啡。|火车站在哪里？|今天天气很好。|我们有三个孩子。|猫在椅子上睡觉。|谢谢你的帮助。|现在几点了？",
    "English": "",
}  # fmt: skip

# Keys that a schema may have for each place of a text.
KEYS = {
    "city": "city|town|place|location|where|city_name|in_city",
    "to": "destination|to|to_city|going_to|arrival_city|target",
    "from": "origin|from|from_city|departure_city|start|leaving_from",
    "n": "quantity|count|number|how_many|amount|number_of_items|pieces|total_count",
    "people": "people|guests|party_size|persons|number_of_people|seats|group_size|how_many",
    "age": "age|years|age_years|years_old|how_old",
    "day": "day|date|when|on|day_of_visit|scheduled_for|weekday",
    "due": "due|deadline|due_date|until|by|finish_by",
    "time": "time|at|hour|start_time|clock|what_time",
    "things": "product|item|items|article|goods|thing|what",
    "thing": "product|item|article|object|thing|what",
    "price": "price|cost|amount|total|sum|value|money",
    "phone": "phone|phone_number|telephone|number|mobile|call",
    "email": "email|mail|email_address|contact|address",
    "code": "code|reference|id|order_id|number|booking_number",
    "task": "task|todo|what|title|to_do|action|job|text",
    "job": "job|occupation|profession|role|works_as|title",
    "company": "company|employer|firm|works_at|organisation|business",
    "color": "color|colour|shade",
    "animal": "animal|species|pet|kind|type",
    "pet": "pet_name|name|called|animal_name",
    "food": "food|dish|meal|order|main_course|favourite_food",
    "drink": "drink|beverage|to_drink|ordered_drink",
    "hobby": "hobby|likes|interest|favourite_activity|sport",
    "language": "language|speaks|mother_tongue|lang|tongue",
    "room": "room|where|location|place|area",
    "minutes": "minutes|duration|length|how_long|duration_minutes",
    "reason": "reason|problem|cause|issue|complaint|why",
    "title": "title|book|name|called|work",
    "stars": "rating|stars|score|grade|points",
    "degrees": "temperature|degrees|temp|celsius|reading",
    "names": "participants|people|guests|attendees|names|who|members|friends|persons|invited|participant_names",
    "event": "event|title|event_name|occasion|what|name|activity",
    "digits": "number|account_number|customer_number|reference_number|card_number|serial_number|digits|id_number",
}  # fmt: skip


def _count(rng: Random, most: int) -> Said:
    number = rng.randint(2, most)
    return (values.spoken(number) if rng.random() < 0.4 else str(number)), number


def _full(rng: Random, split: Split) -> str:
    return f"{pick(rng, NAMES, split)} {things.surname(rng)}"


_EVENTS = (
    "science fair|book fair|jazz concert|school play|football match|street party|cooking class|food festival|car show|flea market"
    "|poetry reading|yoga class|birthday party|wedding|team meeting|museum opening|chess evening|film night|charity run|workshop"
).split("|")


def _event(rng: Random) -> Said:
    name = choose(rng, _EVENTS)
    return f"{choose(rng, ('a', 'a', 'the', 'our'))} {name}", name


def _names(rng: Random, split: Split) -> Said:
    """Draw some people, whose list is the value; at times with their family names."""
    people = rng.sample(holdout(NAMES, split), choose(rng, (2, 2, 2, 3, 3, 4)))
    if rng.random() < 0.2:
        people = [f"{one} {things.surname(rng)}" for one in people]
    return values.join(rng, people).replace(" & ", " and "), people


PLACES: dict[str, Callable[[Random, Split], Said]] = {
    "city": lambda rng, split: same(values.place(rng, split)),
    "to": lambda rng, split: same(values.place(rng, split)),
    "from": lambda rng, split: same(values.place(rng, split)),
    "n": lambda rng, split: _count(rng, choose(rng, (9, 30, 400))),
    "people": lambda rng, split: _count(rng, 20),
    "age": lambda rng, split: _count(rng, 95),
    "day": lambda rng, split: values.day(rng),
    "due": lambda rng, split: bare(values.day(rng)),
    "time": lambda rng, split: values.clock(rng),
    "things": lambda rng, split: same(things.counted(rng)[1] if rng.random() < 0.5 else things.goods(rng, plural=True)),
    "thing": lambda rng, split: same(things.counted(rng)[0] if rng.random() < 0.4 else things.goods(rng)),
    "price": values.money,
    "phone": lambda rng, split: values.phone(rng),
    "email": values.email,
    "code": lambda rng, split: values.code(rng),
    "task": lambda rng, split: same(things.chore(rng, split)),
    "job": lambda rng, split: same(choose(rng, things.JOBS)),
    "company": lambda rng, split: same(things.firm(rng)),
    "color": lambda rng, split: same(things.colour(rng)),
    "animal": lambda rng, split: same(choose(rng, things.PETS)),
    "pet": lambda rng, split: same(things.pet_name(rng)),
    "food": lambda rng, split: same(choose(rng, things.DISHES)),
    "drink": lambda rng, split: same(choose(rng, things.DRINKS)),
    "hobby": lambda rng, split: same(choose(rng, things.HOBBIES)),
    "language": lambda rng, split: same(choose(rng, list(TONGUES))),
    "room": lambda rng, split: same(choose(rng, things.ROOMS)),
    "minutes": lambda rng, split: values.span(rng, "minutes", 120),
    "reason": lambda rng, split: same(things.fault(rng)),
    "title": lambda rng, split: same(things.title(rng)),
    "stars": lambda rng, split: _count(rng, 10),
    "degrees": lambda rng, split: values.signed(rng, 35),
    "names": _names,
    "event": lambda rng, split: _event(rng),
    "digits": lambda rng, split: same("".join(choose(rng, "0123456789") for _ in range(rng.randint(3, 12)))),
}  # fmt: skip
# What is so or not: keys ; how one says that it is ; that it is not.
FLAGS = {
    "urgent": "urgent|is_urgent|asap|high_priority|rush ; [It's urgent|This is urgent|As soon as possible, please|I need it right away|Please hurry|It can't wait|Top priority][.|!] ; [No hurry|It can wait|There is no rush|Whenever you have time|Take your time|It's not urgent][.|!]",
    "vegetarian": "vegetarian|is_vegetarian|veggie|meat_free ; [No meat, please|I'm vegetarian|I don't eat meat|We are vegetarians]. ; [I eat everything|Meat is fine|With meat, please|I'm not vegetarian].",
    "paid": "paid|is_paid|payment_received|settled ; [It's paid|I have paid already|The bill is settled|Payment has arrived|Already paid]. ; [It isn't paid yet|I still have to pay|Payment is missing|I pay on arrival|Not paid so far].",
    "coming": "coming|attending|will_come|present|accepted ; [I'll be there|Count me in|I'm coming|Yes, I will come|I'd love to come][.|!] ; [I can't come|Count me out|I won't be there|Sorry, I'm not coming|I have to decline].",
    "breakfast": "breakfast|with_breakfast|breakfast_included ; [With breakfast|Breakfast included|We want breakfast, too]. ; [Without breakfast|No breakfast|We don't need breakfast].",
    "gift": "gift|is_gift|gift_wrap|present ; [It's a gift|Please wrap it as a present|It's a present for a friend]. ; [It's not a gift|No gift wrap|It's for myself].",
    "satisfied": "satisfied|happy|recommended|positive|liked_it ; [I'm very happy with it|I would buy it again|Great, thank you|I love it|Works perfectly][.|!] ; [I'm not happy with it|I want my money back|It broke at once|Never again|I'm disappointed][.|!]",
    "done": "done|finished|completed|is_done ; [It's done|That's finished|I have done it already|All done]. ; [It's not done yet|I haven't finished it|Still open|It isn't finished].",
    "pets": "pets|has_pets|brings_pet|with_animals ; [I bring my dog|We have a cat with us|My dog comes along]. ; [No pets|We have no animals|I have no pets].",
    "smoker": "smoker|smokes|smoking ; [I smoke|I'm a smoker|Smoking room, please]. ; [I don't smoke|Non-smoker|I never smoke].",
    "new": "new_customer|first_time|first_visit|is_new ; [It's my first time|I'm new here|I have never been here before]. ; [I've been here before|I'm a regular|I come often].",
    "call_back": "call_back|wants_call|callback|call_me ; [Please call me back|Give me a ring|Call me, please]. ; [No need to call|Please don't call|You needn't call back].",
    "public": "public|is_public|visible|open ; [Everybody may see it|Make it public|Open to all]. ; [Keep it private|Only for members|It must stay secret].",
    "delivery": "delivery|deliver|home_delivery|ship ; [Please deliver it|Bring it to my home|Send it to me]. ; [I'll pick it up|I collect it myself|No delivery needed].",
}  # fmt: skip
# What users write. {who} is a person, with first and last name; {yes:urgent} says whether something is so.
TEXTS = lines("""
{who} from {city} [ordered|bought|wants|would like] {n} {things}[ for {day}| to be delivered {day}|]. ; customer|client|buyer|name
[This is|My name is|I'm|I am] {who}[ from {city}|]. [I'd like|I want|Please send me] {n} {things}[. {flag:delivery}|]. ; customer|name|client|from_person
[A table|Table] for {people} {day} at {time}, [name|under the name|for] {who}[. {flag:vegetarian}|]. ; name|guest|booked_by|customer|reserved_for
{who} [comes|visits us|arrives|checks in] {day} at {time}[ with {people} people|][. {flag:breakfast}|]. ; guest|visitor|name|who|person
[Remind me to|I have to|I must|Don't let me forget to] {task}[ by {due}|][. {flag:urgent}|] ; -
{who} [should|has to|must|will] {task}[ by {due}|][. {flag:urgent}|] ; assignee|owner|person|responsible|who
[To do|Task|Note]: {task}, {due}[. {flag:urgent}|][ {flag:done}|] ; -
{who} is {age} years old[ and lives in {city}|][, works as a {job}|]. ; name|full_name|person|who
{who}, {age}, {job}[ at {company}|][, {city}|]. ; name|applicant|person|candidate|employee
[I'm|I am] {age}, [live in|from] {city} and [work as a|my job is] {job}. [My name is|I'm called] {who}. ; name|person|who|user
[I fly|I'm travelling|We go|I take the train] from {from} to {to} {day}[ at {time}|][, {people} people|]. ; -
[Flight|Train|Bus] to {to} from {from}, {day}[, {time}|][, booked by {who}|]. ; passenger|name|traveller|booked_by
[The|My] {thing} [has|shows] a problem: {reason}[. {flag:urgent}|][ {flag:call_back}|] ; -
{who} [wrote|complains|called]: {reason}, {thing}, order {code}[. {flag:urgent}|] ; customer|client|name|caller
[We have|I have|There's] a {animal} called {pet}, {age} years old[, {color}|]. ; -
[My|Our] {animal} {pet} is {age}[ and belongs to {who}|]. ; owner|keeper|person
[I paid|We paid|It cost] {price} for {n} {things}[ {day}|][. {flag:gift}|] ; -
{n} {things}, {price}[, {color}|][. {flag:paid}|] ; -
[The|A] {color} {thing} for {price}[, please ship it to {city}|][. {flag:gift}|] ; -
{who} [speaks|is fluent in] {language}[ and likes {hobby}|][ and lives in {city}|]. ; name|person|student|member
[For me|I'll have|I take|Please bring me] [the |]{food} and {drink}[. {flag:vegetarian}|] ; -
{who} [takes|ordered|wants] {food} and [to drink |]{drink}. ; guest|name|customer|who
[Party|Concert|Meeting|Lecture|Dinner] in {city} {day} at {time}[, {people} people|][, host: {who}|]. ; host|organiser|name|contact
[Invite|Call|Write to] {who}[ at {email}|, {phone}|]. [{flag:call_back}|] ; name|contact|person|recipient
{who}: {email}, {phone}[, {company}|]. ; name|contact|person|full_name
[I read|I finished|We watched] {title}. [I give it|It gets] {stars} [points|stars][. {flag:satisfied}|] ; -
{title}, [read by|recommended by] {who}, {stars} [points|stars]. ; reader|reviewer|name|person
[It's|We have|The thermometer shows] {degrees} degrees in {city}[ {day}|][ at {time}|]. ; -
[Meet|See] {who} in the {room} at {time}[, {minutes}|]. ; person|with|who|name
[The|Our] meeting [in|is in] the {room} takes {minutes}[ and starts at {time}|]. ; -
{who} [reserved|booked] the {room} {day}[ for {minutes}|][. {flag:paid}|] ; booked_by|name|who|person
[I can|We] [confirm|answer]: {flag:coming} [We will be {people}.|I bring {n} {things}.|] ; -
[Booking|Order|Ticket] {code} for {who}[, {day}|][, {price}|][. {flag:paid}|] ; name|customer|holder|guest
[Patient|New patient]: {who}, {age}, {reason}[. {flag:urgent}|][ {flag:smoker}|] ; patient|name|person
[Hello|Hi|Dear team], {flag:new} I want {n} {things}. [Yours, |Best, |Thanks, |]{who} ; name|sender|customer|signed_by
[We need|Please get] {n} {things} for the {room} by {due}[. {flag:urgent}|] ; -
[My hobby is|I like|I love] {hobby}[, I'm {age}|][ and I'm learning {language}|]. ; -
{who} [moved|moves] from {from} to {to}[ {day}|][. {flag:pets}|] ; person|name|who|tenant
{names} [are going to|will go to|go to|are coming to|went to|meet at|signed up for] {event}[ {day}|][ at {time}|][ in {city}|]. ; -
{names} [are going to|will be at] {event}[ {day}|][ in {city}|]. ; -
[Dinner|Lunch|Meeting|Coffee|A call] with {names}[ {day}|][ at {time}|][ in {city}|]. ; -
[I invited|We asked|Please invite|Don't forget to invite] {names} to {event}[ {day}|][ at {time}|]. ; -
{event} {day}[ at {time}|]: {names} [take part|will come|said yes|are in]. ; -
{who} [meets|invites|sees|visits] {names}[ {day}|][ in {city}|]. ; host|name|organiser|who
[My|The|Our] [account |customer |card |member |serial |contract |]number is {digits}[, my name is {who}|][, from {city}|]. ; name|customer|holder|member
{who}, number {digits}[, {city}|][, {email}|]. ; name|customer|member
[Post|Publish|Save] "{title}"[ by {who}|]. {flag:public} ; author|writer|by|name
""")
FIRST = "first_name|given_name|firstname|first"
LAST = "last_name|surname|family_name|lastname|last"
BEFORE = ["", "", "", "", "", "Fill in the form: ", "Read this: ", "From my inbox: ", "New message: ", "Note: ", "Put this into the system: ", "Extract the data: ", "Structure this: ", "Take down: ", "Extract what you need: ", "Please process: ", "Here is a text. ", "Get the details from this: ", "Parse this. ", "Hi! ", "Input: "]  # fmt: skip
AFTER = ["", "", "", "", "", " Extract the details.", " Fill in the form.", " What are the details?", " Please extract.", "\n\nExtract the fields.", " Put it into the form.", " Save that.", " Read out the data.", " As JSON.", " In JSON, please."]  # fmt: skip
NAMED = lines("""
{t} [Give me|Return|I need|Extract|As JSON:|JSON with] {k}[.||]
[Extract|Find|Get|Return|Give me] {k} [from this|in this text|from the message|]: {t}
[JSON with|Fill in] {k}: {t}
{t} [Use the keys|Keys:|Fields:] {k}[.||]
~From what follows, take {k}. {t}
""")
DETECT = ["[What|Which] language is [this|it|that][?|:] {t}", "{t}", "{t} [Which language is that?|What language?|Language?]", "[Detect|Name|Find|Tell me|Guess] the language[:| of this:] {t}", '"{t}"', "In [what|which] language is this written? {t}", "~Somebody wrote: {t} Which tongue is it?"]  # fmt: skip
WISHES = lines("""
[Plan|Describe|Invent|Imagine|Tell me about|Make|Think of|Suggest|I need|Give me] [a|an|the|my|some|any] {a} {n}[.||, please|!]
[What|Which things] [do you suggest|would you take|do you recommend|fit] for [a|my|the] {n}[?||]
[Go ahead|Surprise me|Anything|Your choice|Fill it in|Make something up|Just do it|You decide|Be creative|Something {a}, please][.|!||]
[I'm having|We organise|I start|We open|I dream of] a {n}[. Any ideas?|. Help me.|, what do you suggest?|.]
[Ideas|Suggestions|A plan|An example|Details] for [a|my|the] {n}[.|?||, please]
""")


# Between texts that are cut into tokens each for itself, as they are where a model first expects a value of another type.
CUT: Segment = ("", True)


def forced(value: Any) -> Iterator[Segment]:
    """Write JSON as ``json.dumps`` does, in segments; those that a grammar forces are not learnt.

    The token that ends a key is the model's own: it may hold the quote or the bracket that opens the value.
    """
    if isinstance(value, dict):
        opening = "{"
        for key, one in value.items():
            yield f"{opening}{json.dumps(key, ensure_ascii=False)[:-1]}", False
            yield '": ', True
            yield from forced(one)
            # What ends a number, or a string with the quote before it, is the model's own.
            yield ",", True
            opening = " "
        yield "}", True
    elif isinstance(value, list):
        opening = "["
        for one in value:
            yield opening, opening == "["
            parts = forced(one)
            if isinstance(one, dict) and one:
                # Where a list may end, that an object begins is the model's own.
                start, _ = next(parts)
                yield "{", True
                yield start[1:], False
            yield from parts
            yield ",", True
            opening = " "
        yield "]", True
    else:
        yield json.dumps(value, ensure_ascii=False), True


def _tidy(segments: list[Segment]) -> list[Segment]:
    """Drop each comma before an end."""
    return [one for one, after in zip(segments, [*segments[1:], ("", True)], strict=True) if not (one[0] == "," and after[0] in {"}", "]"})]  # fmt: skip


def _loosened(segments: list[Segment], ask: str) -> list[Segment]:
    """Cut before some values: the model meets a quote or a bracket alone where it had expected something else."""
    chance = crc32(ask.encode())
    found: list[Segment] = []
    for index, (text, learn) in enumerate(segments):
        found.append((text, learn))
        if text in {'": ', "["} and (chance >> index % 24) % 8 == 0:
            found.append(CUT)
    return found


def answered(ask: str, found: Message) -> Exchange:
    """Make a request and its answer, whose keys the server forces."""
    parts = _loosened(_tidy(list(forced(found))), ask)
    answer = assistant("".join(text for text, _ in parts), "")
    del answer["reasoning_content"]
    return Exchange([user(ask), {**answer, "parts": parts}], topic="json")


@cache
def _form(line: str) -> tuple[str, list[str]]:
    text, _, roles = line.rpartition(" ; ")
    return text, roles.split("|")


def filled(rng: Random, split: Split) -> tuple[str, Message]:
    """Write a text, and all that it says by some keys."""
    pattern, roles = _form(choose(rng, TEXTS))
    text = expand(rng, pattern.replace("flag:", "flag_"))
    found: list[tuple[str, Any]] = []
    for place in dict.fromkeys(re.findall(r"\{(\w+)\}", text)):
        if place == "who":
            shown = _full(rng, split) if rng.random() < 0.7 else values.person(rng, split)
            first, _, last = shown.partition(" ")
            whole = not last or "." in first or " " in last or rng.random() < 0.6
            found += [(choose(rng, roles), shown)] if whole else [(choose(rng, FIRST.split("|")), first), (choose(rng, LAST.split("|")), last)]  # fmt: skip
        elif place.startswith("flag_"):
            names, *ways = FLAGS[place[5:]].split(" ; ")
            value = rng.random() < 0.5
            shown = expand(rng, ways[not value])
            found.append((choose(rng, names.split("|")), value if rng.random() < 0.8 else "yes" if value else "no"))
        else:
            shown, value = PLACES[place](rng, split)
            found.append((choose(rng, KEYS[place].split("|")), value))
        text = text.replace(f"{{{place}}}", shown)
    text = re.sub(r"(?<=[.!?])\.| (?=[.,] )|(?<=for )on ", "", text).strip()
    text = re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text) + ("" if text[-1] in ".!?" else ".")
    return text, _kept(rng, found) or {"text": text}


def _kept(rng: Random, found: list[tuple[str, Any]]) -> Message:
    """Choose what is asked for; of two places with one key, neither is."""
    if rng.random() < 0.4:
        rng.shuffle(found)
    given = [key for key, _ in found]
    kept = found[:7] if rng.random() < 0.55 else rng.sample(found, rng.randint(1, min(5, len(found))))
    return {key: value for key, value in kept if given.count(key) == 1}


def read(rng: Random, split: Split) -> Exchange:
    """Make a text whose values are asked for by a schema, or now and then by their keys."""
    text, found = filled(rng, split)
    if rng.random() < 0.2:
        text = f"{sentence(rng)} {text}" if rng.random() < 0.5 else f"{text} {sentence(rng)}"
    if split == "train" and rng.random() < 0.75:
        return answered(choose(rng, BEFORE) + text + choose(rng, AFTER), found)
    names = values.join(rng, list(found)) if len(found) > 1 else next(iter(found))
    pattern = choose(rng, [one.removeprefix("~") for one in NAMED if one.startswith("~") == (split == "held")])
    ask = expand(rng, pattern, t=text, k=names.replace(" & ", " and "))
    return Exchange([user(ask), assistant(json.dumps(found, ensure_ascii=False), THOUGHT)], topic="json")


def measured(rng: Random, split: Split) -> Exchange:
    """Make a text with some amounts, each with its unit or its thing, and the keys that ask for them."""
    found: Message = {}
    said: list[str] = []
    words: set[str] = set()
    for _ in range(rng.choice((1, 2, 2, 3, 3, 4))):
        part = parts.amount(rng, split)
        if not part.words & words:
            words |= part.words
            said.append(part.direct)
            found[part.one.name.lstrip("~")] = part.one.value
    thing = things.goods(rng)
    text = expand(rng, "[The {t} has {s}.|{T}: {s}.|{T}, {s}|{s} for the {t}.|We need {s} for the {t}.|I noted {s} for the {t}.|The {t} comes with {s}.]", t=thing, T=thing.capitalize(), s=values.join(rng, said).replace(" & ", " and ") if len(said) > 1 else said[0])  # fmt: skip
    found = {choose(rng, ("product", "item", "name", "thing", "what")): thing, **found} if rng.random() < 0.3 else found
    return answered(choose(rng, BEFORE) + text + choose(rng, AFTER), found)


def sum_form(rng: Random, split: Split) -> Exchange:
    """Make a sum, whose result is the value of a key, at times after its terms or the worked steps."""
    kind = rng.random()
    if kind < 0.6:
        plus = rng.random() < 0.6
        a, b = rng.randint(1, choose(rng, (20, 99, 99, 300))), rng.randint(1, choose(rng, (9, 60, 99)))
        a, b = (a, b) if plus or a >= b else (b, a)
        ask = sums.story(rng, "train", plus, a, b) if rng.random() < 0.4 else sums.plain(rng, plus, a, b)
        steps, result = f"{a} {'+' if plus else '-'} {b} = {a + b if plus else a - b}", a + b if plus else a - b
    else:
        ask, steps = products.multiplied(rng, "train") if kind < 0.85 else products.divided(rng, "train")
        result = int(re.findall(r"= (\d+)", steps)[-1])
    key = choose(rng, ("result", "answer", "total", "sum", "value", "solution", "number", "left", "count", "final_answer"))  # fmt: skip
    found: Message = {key: result}
    if ", " in steps or rng.random() < 0.35:
        found = {choose(rng, ("steps", "reasoning", "explanation", "working", "calculation")): steps, key: result}
    return answered(ask, found)


def tongue(rng: Random, split: Split) -> Exchange:
    """Make a sentence in some language, whose name is the value of a key."""
    language = choose(rng, list(TONGUES))
    text = choose(rng, TONGUES[language].split("|")) or sentence(rng)
    ask = expand(rng, choose(rng, DETECT[:-1]), t=text)
    found: Message = {choose(rng, ("language", "lang", "detected_language", "tongue", "name", "result")): language}
    if rng.random() < 0.2:
        found["confidence"] = round(rng.uniform(0.8, 1), 2)
    if rng.random() < 0.2:
        found = {choose(rng, ("text", "sentence", "original")): text, **found}
    return answered(ask, found)


def dreamt(rng: Random, split: Split) -> Exchange:
    """Make a wish that says little, and values that suit the keys of a schema: lists, names, numbers, words."""
    thing = choose(rng, (choose(rng, NOUNS), choose(rng, things.OCCASIONS)))
    ask = expand(rng, choose(rng, WISHES), a=choose(rng, ADJECTIVES), n=thing)
    found: Message = {}
    for _ in range(rng.choice((1, 1, 2, 2, 3, 4))):
        if rng.random() < 0.5:
            name, items = choose(rng, things.LISTS)
            found[name] = rng.sample(items, rng.randint(2, min(5, len(items))))
        else:
            key, value = made(rng, split, some_key(rng))
            found[key] = described(rng, thing) if key in ABOUT and thing in ask else value
    while len(found) > 1 and len(json.dumps(found, ensure_ascii=False)) > 260:
        found.popitem()
    return answered(re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", ask), found)


def make(rng: Random, split: Split) -> Exchange:
    """Make a form to be filled; evaluation, which forces no keys, only asks for those with their keys named."""
    kind = rng.random() if split == "train" else 0.0
    maker = (
        read
        if kind < 0.6
        else measured
        if kind < 0.68
        else sum_form
        if kind < 0.8
        else tongue
        if kind < 0.88
        else dreamt
    )
    return maker(rng, split)
