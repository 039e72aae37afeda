"""What people tell about themselves and others: the words for telling it, and for asking for it again.

A line of ``FACTS`` is ``what it is ; kind of value ; how people tell it ; how they ask ; the answer``. ``{v}`` is the
value, ``{k}`` one of ``OPTIONS``, ``{w}`` somebody else.
"""

# ruff: noqa: E501, SIM905 - phrases read best unbroken

from collections.abc import Callable
from random import Random

from demo_model.skills import things, values
from demo_model.skills.memory import some_name
from demo_model.text import (  # fmt: skip
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
    scramble,
)

ANIMALS = "dog cat horse rabbit parrot hamster goat turtle".split()
LIKES = "plums|pizza|chess|hiking|jazz|tea|coffee|football|old films|swimming|cheese|trains|gardening|reading|apples|the sea|snow|cycling|sushi|painting".split(
    "|"
)


RELATIVES = "sister|brother|mother|father|wife|husband|son|daughter|boss|friend|aunt|uncle|neighbour|teacher|best friend|partner".split(
    "|"
)
KIN = [
    *RELATIVES[:8],
    *"cousin|nephew|niece|grandmother|grandfather|grandson|roommate|colleague|stepfather|twin sister|mother-in-law|godson|girlfriend|boyfriend|uncle|aunt|best friend|little brother|older sister|granddad|daughter-in-law|flatmate|dog|cat|horse|parrot".split(
        "|"
    ),
]
OWNED = "car|project|hobby|present|costume|first toy|instrument|book|new game|team|plan".split("|")

# What {k} may be, for the lines that have it.
DETAIL_WORDS = "order number|customer number|account number|locker number|booking reference|confirmation code|username|user id|pin|passport number|membership number|student id|invoice number|ticket number|parking spot|bus number|house number|floor|department|team|street|school|hometown|shirt size|ring size|blood type|eye colour|hair colour|star sign|middle name|last name|maiden name|safe word|screen name|bike lock code|alarm code|gym|bank|doctor|dentist|landlord|hotel|airline|supplier|printer|laptop|server|backup drive|main branch|repository|favourite quote|start date|end date|check-in date|delivery date|moving date|wedding date|anniversary|dinner time|wake-up time|lunch break|deposit|salary|rent|target|high score|goal|best time|first language|second language|class|course|tutor|lab|desk|extension|zip code|postcode|time zone|region|hub|coffee order|usual drink|shopping list|tent number|table number|row|platform|train number|terminal|suitcase colour|code name|call sign|mascot|motto|band name|boat's name|car's name|company's name|grandmother's name|cousin's name|baby's name|roommate's name|manager's name|coach's name".split(
    "|"
)
OPTIONS: dict[str, list[str]] = {
    "dog": ANIMALS,
    "relative": RELATIVES,
    "own": OWNED,
    "favourite": "food|film|book|song|band|season|drink|animal|sport|city|country|fruit|flower|day|month|ice cream|game|singer|tea|dish|toy|place|word|subject|tree|cake|actor|show|snack".split(
        "|"
    ),
    "detail": DETAIL_WORDS,
    "pair": "cats|dogs|rabbits|hens|horses|goldfish|parrots|kids|twins|sisters|brothers|roommates|nieces|nephews|guinea pigs|sons|daughters|neighbours".split(
        "|"
    ),
    "placed": "keys|wallet|passport|glasses|umbrella|bike|car|charger|tickets|phone|spare key|suitcase|notebook|headphones|ring|medicine|documents|camera|laptop|gloves|watch|scissors|torch|savings|diary|screwdriver|birth certificate|house key|sunglasses|library card|receipts|gift cards|old photos|vaccination card".split(
        "|"
    ),
    "titled": "boss|doctor|landlord|teacher|dentist|neighbour|lawyer|professor|tutor|landlady|coach|accountant|vet|principal|therapist|head teacher|surgeon|tax adviser|piano teacher|manager|driving instructor|team lead|supervisor|caretaker|nurse|midwife".split(
        "|"
    ),
    "kin": KIN,
    "visit": "dentist|doctor|hairdresser|vet|bank|lawyer|eye doctor|tax office|mechanic|physiotherapist|notary|optician|embassy|gym|school|clinic|landlord|job centre".split(
        "|"
    ),
    "event": "party|concert|interview|wedding|match|lecture|picnic|game|workshop|barbecue|rehearsal|reunion|graduation|parents' evening|book club|movie|tournament|job interview|quiz night|staff meeting|yoga class|piano lesson".split(
        "|"
    ),
    "number_of": "apples|lamps|tickets|chairs|candles|notebooks|plants|eggs|pens|bottles|cups|balloons|batteries|towels|bricks|stamps|cushions|sandwiches|tulips|oranges|envelopes|screws|bags of rice|pairs of socks|boxes of tea".split(
        "|"
    ),
}


def _date(rng: Random) -> str:
    day, month = rng.randint(1, 28), choose(rng, values.MONTHS)
    return choose(
        rng,
        (
            f"{month} {day}",
            f"{day} {month}",
            f"{month} {day}, {rng.randint(1950, 2030)}",
            f"{rng.randint(1990, 2030)}-{rng.randint(1, 12):02}-{day:02}",
            f"the {day}th of {month}" if 3 < day < 21 else f"{day} {month}",
        ),
    )


_COLOURS = "red blue green black white silver grey yellow".split()
_CARS = "Volvo|Toyota|Ford|Fiat|Honda|Tesla|Skoda|BMW|Mini|Renault|Mazda|van|pickup|Volkswagen|Jeep|Seat|Kia".split("|")


def _moment(rng: Random) -> str:
    day, clock = values.day(rng)[0], values.clock(rng)[0]
    return choose(rng, (f"{day} at {clock}", day, f"at {clock}", f"{day} at {clock}", f"{day}, {clock}"))


def _mixed(rng: Random, split: Split) -> str:
    """Draw a value of any kind for something that may be anything."""
    return rng.choice(
        (
            lambda: choose(rng, NOUNS),
            lambda: some_name(rng, split),
            lambda: str(values.code(rng)[1]),
            lambda: str(values.code(rng)[1]),
            lambda: str(rng.randint(0, 10 ** rng.randint(1, 7))),
            lambda: str(rng.randint(0, 10 ** rng.randint(1, 7))),
            lambda: coin(rng),
            lambda: coin(rng, 2).capitalize(),
            lambda: pick(rng, CITIES, split),
            lambda: str(values.clock(rng)[1]),
            lambda: _date(rng),
            lambda: f"{choose(rng, ADJECTIVES)} {choose(rng, NOUNS)}",
            lambda: values.title(rng),
            lambda: scramble(rng),
            lambda: values.money(rng, split)[0],
        )
    )()


def _both(rng: Random, draw: Callable[[], str]) -> str:
    """Say two or three different values as one."""
    found = list(dict.fromkeys(draw() for _ in range(rng.choice((2, 2, 2, 3)))))
    return " and ".join(found) if len(found) < 3 else f"{found[0]}, {found[1]} and {found[2]}"


VALUES: dict[str, Callable[[Random, Split], str]] = {
    "name": some_name,
    "age": lambda rng, split: str(rng.randint(5, 99)),
    "city": lambda rng, split: pick(rng, CITIES, split) if rng.random() < 0.85 else coin(rng, 2).capitalize(),
    "date": lambda rng, split: _date(rng),
    "job": lambda rng, split: choose(rng, things.JOBS),
    "like": lambda rng, split: choose(rng, LIKES) if rng.random() < 0.7 else f"{choose(rng, NOUNS)}s",
    "colour": lambda rng, split: choose(rng, "red green blue yellow black white orange purple pink brown grey".split()),
    "number": lambda rng, split: str(rng.randint(0, 10 ** rng.randint(1, 7))),
    "word": lambda rng, split: choose(rng, (choose(rng, NOUNS), coin(rng), scramble(rng), f"{choose(rng, ADJECTIVES)} {choose(rng, NOUNS)}")),
    "thing": lambda rng, split: choose(rng, (choose(rng, NOUNS), f"{choose(rng, ADJECTIVES)} {choose(rng, NOUNS)}")),
    "code": lambda rng, split: "".join(choose(rng, "ABCDEFGHJKLMNPQRSTUVWXYZ23456789") for _ in range(rng.randint(3, 8))),
    "clock": lambda rng, split: choose(rng, (f"{rng.randint(0, 23)}:{choose(rng, (0, 15, 30, 45)):02}", f"{rng.randint(1, 12)} {choose(rng, ('am', 'pm'))}")),
    "mixed": _mixed,
    "phone": lambda rng, split: str(values.phone(rng)[1]),
    "email": lambda rng, split: str(values.email(rng, split)[1]),
    "small": lambda rng, split: values.spoken(rng.randint(2, 9)) if rng.random() < 0.5 else str(rng.randint(2, 9)),
    "small3": lambda rng, split: values.spoken(rng.randint(2, 24)) if rng.random() < 0.5 else str(rng.randint(2, 150)),
    "small2": lambda rng, split: str(rng.randint(30, 50)),
    "year": lambda rng, split: str(rng.randint(1930, 2020)),
    "height": lambda rng, split: expand(rng, "[{a} cm|1.{b} m|1 metre {b}|{c} feet {d}]", a=rng.randint(140, 205), b=rng.randint(40, 99), c=rng.randint(4, 6), d=rng.randint(0, 11)),
    "kilos": lambda rng, split: expand(rng, "{a} [kg|kilos|pounds]", a=rng.randint(40, 220)),
    "moment": lambda rng, split: _moment(rng),
    "spot": lambda rng, split: expand(rng, "[the {n}|the {a} {n}|{c}|{n} {k}|the {n} {m}|Café {C}]", n=choose(rng, NOUNS), m=choose(rng, NOUNS), a=choose(rng, ADJECTIVES), c=pick(rng, CITIES, split), k=rng.randint(1, 99), C=coin(rng, 2).capitalize()),
    "money": lambda rng, split: values.money(rng, split)[0],
    "car": lambda rng, split: f"{choose(rng, _COLOURS)} {choose(rng, _CARS)}" if rng.random() < 0.5 else choose(rng, (*_CARS, f"{coin(rng, 2).capitalize()} {rng.randint(1, 900)}")),
    "company": lambda rng, split: expand(rng, "[{c}|{c} Ltd|{c} and Sons|{N} {M}|the {n} {m}|{c}{M}]", c=coin(rng, 2).capitalize(), N=choose(rng, NOUNS).capitalize(), M=choose(rng, NOUNS).capitalize(), n=choose(rng, NOUNS), m=choose(rng, NOUNS)),
    "like2": lambda rng, split: choose(rng, "physics|law|medicine|history|biology|music|art|chemistry|maths|economics|design|geography|philosophy|computer science|Spanish|architecture|nursing".split("|")),
    "tongue": lambda rng, split: choose(rng, "French|German|Spanish|Italian|Portuguese|Dutch|Polish|Russian|Turkish|Greek|Arabic|Hindi|Swedish|Korean|Finnish|Welsh|Czech".split("|")),
    "instrument": lambda rng, split: choose(rng, "piano|guitar|violin|flute|drums|trumpet|harp|cello|oboe|organ|banjo|clarinet|tuba|ukulele".split("|")),
    "title": lambda rng, split: values.title(rng),
    "street": lambda rng, split: f"{rng.randint(1, 199)} {coin(rng, 2).capitalize()} {choose(rng, ('Street', 'Road', 'Avenue', 'Lane'))}" + (f", {pick(rng, CITIES, split)}" if rng.random() < 0.4 else ""),
    "word2": lambda rng, split: choose(rng, "sunny|rainy|cloudy|cold|hot|windy|foggy|snowing|freezing|warm|stormy|grey".split("|")),
    "two names": lambda rng, split: _both(rng, lambda: things.pet_name(rng) if rng.random() < 0.6 else pick(rng, NAMES, split)),
    "two likes": lambda rng, split: _both(rng, lambda: choose(rng, (choose(rng, LIKES), choose(rng, LIKES), choose(rng, things.HOBBIES), f"{choose(rng, NOUNS)}s"))),
    "titled": lambda rng, split: things.titled(rng) if rng.random() < 0.6 else some_name(rng, split),
    "spot2": lambda rng, split: expand(rng, "[in|in|behind|under|on|next to|on top of|inside|near] [the|the|the|my] {s}", s=choose(rng, (*things.SPOTS, *things.SPOTS, choose(rng, things.ROOMS[:12]), choose(rng, NOUNS), f"{choose(rng, ADJECTIVES)} {choose(rng, NOUNS)}"))),
    "flight": lambda rng, split: expand(rng, "[{a}{k}|{a} {k}|{a}-{k}]", a="".join(choose(rng, "ABCDEFGHKLMNQRSTUVWXYZ") for _ in range(2)), k=rng.randint(10, 9999)),
    "platform": lambda rng, split: expand(rng, "[{k}|{k}|{k}|{k}{l}|{l}|{w}|{l}{k}]", k=rng.randint(1, 40), l=choose(rng, "ABCDEF"), w=values.spoken(rng.randint(1, 12))),
    "diet": lambda rng, split: choose(rng, "vegan|vegetarian|gluten-free|low-carb|keto|kosher|halal|dairy-free|sugar-free|paleo|pescatarian|lactose-free|nut-free|low-salt|raw vegan".split("|")),
    "bought": lambda rng, split: expand(rng, "[{n} {p}|{n} {p}|a {g}|some {p}|{n} {p} and a {g}|{n} {p} and {m} {q}]", n=choose(rng, (values.spoken(rng.randint(2, 20)), str(rng.randint(2, 99)))), m=values.spoken(rng.randint(2, 12)), p=things.goods(rng, plural=True), q=things.goods(rng, plural=True), g=things.goods(rng)),
    "hotel": lambda rng, split: expand(rng, "[{N} Inn|Hotel {C}|Grand {C}|{C} {N} Hotel|Hotel {N}|{C} Lodge|{S} House|Park {C}|{N} and {M}]", N=choose(rng, NOUNS).capitalize(), M=choose(rng, NOUNS).capitalize(), C=coin(rng, 2).capitalize(), S=things.surname(rng)),
    "medicine": lambda rng, split: expand(rng, "[{c}|{c} {k} mg|{c} {k}|{c} drops|two {c}]", c=coin(rng, 3).capitalize(), k=rng.randint(1, 80) * 5),
    "club": lambda rng, split: expand(rng, "[{c} {n}s|FC {c}|{c} United|the {c} {n}s|{c} {k}]", c=choose(rng, (pick(rng, CITIES, split), coin(rng, 2).capitalize())), n=choose(rng, NOUNS).capitalize(), k=rng.randint(4, 99)),
    "goods": lambda rng, split: f"a {things.goods(rng)}",
}  # fmt: skip


FACTS = lines("""
name ; name ; my name is {v}|I'm {v}|I am {v}|I'm called {v}|my name's {v}|call me {v}|people call me {v} ; what's my name|what is my name|who am I|what am I called|do you remember my name|can you tell me my name|what did I say my name was|what do people call me|tell me my name|my name please|do you still know who I am|and who am I|~so who is talking to you|~say my name again ; Your name is {v}.
age ; age ; I am {v} years old|I'm {v}|my age is {v}|I turned {v}|I'm {v} years old|I was {v} on my last birthday ; how old am I|what is my age|what's my age|do you remember how old I am|tell me my age|my age|how many years old am I|~what age did I say I was|~do you know how many years I have ; You are {v} years old.
city ; city ; I live in {v}|my home is in {v}|I moved to {v}|my city is {v}|I have a flat in {v}|home for me is {v} ; where do I live|which city do I live in|in which city is my home|what city am I in|do you remember where I live|where is my home|which town do I live in|tell me where I live|~in what place is my flat|~my home is where ; You live in {v}.
origin ; city ; I come from {v}|I'm from {v}|I am from {v}|I was born in {v}|I grew up in {v} ; where am I from|where do I come from|which city do I come from|where was I born|do you remember where I'm from|where did I grow up|tell me where I come from|~what is the place of my birth|~from which place am I ; You are from {v}.
birthday ; date ; my birthday is on {v}|my birthday is {v}|I was born on {v}|I celebrate my birthday on {v} ; when is my birthday|when's my birthday|what is my birthday|on which day is my birthday|when was I born|do you remember my birthday|what date is my birthday|tell me my birthday|~when do I celebrate|~which day should you congratulate me ; Your birthday is {v}.
job ; job ; I work as a {v}|I'm a {v}|I am a {v} by trade|my job is {v}|I earn my money as a {v} ; what do I do for a living|what is my job|what's my job|what do I work as|do you remember my job|what is my profession|tell me my job|what am I by trade|~how do I earn my money|~what kind of work do I do ; You work as a {v}.
like ; like ; I like {v}|I love {v}|I really enjoy {v}|I'm fond of {v}|I'm a fan of {v}|what I like most is {v} ; what do I like|what do I love|do you remember what I like|what do I enjoy|tell me what I like|what am I fond of|what did I say I like|~what makes me happy|~which thing am I a fan of ; You like {v}.
dislike ; like ; I hate {v}|I don't like {v}|I can't stand {v}|I dislike {v} ; what do I hate|what don't I like|what do I dislike|what can't I stand|do you remember what I don't like|what do I not like|~what should nobody give me|~which thing do I avoid ; You don't like {v}.
dog ; name ; my {k} is called {v}|my {k}'s name is {v}|I have a {k} named {v}|I have a {k} called {v}|I've got a {k}, {v}|the name of my {k} is {v} ; what is my {k}'s name|what's my {k} called|what is my {k} called|what is the name of my {k}|do you remember my {k}'s name|how is my {k} called|tell me my {k}'s name|who is my {k}|what did I call my {k}|~what name does my {k} have|~which name did I give my {k} ; Your {k} is called {v}.
relative ; name ; my {k} is called {v}|my {k}'s name is {v}|I have a {k} named {v}|the name of my {k} is {v}|{v} is my {k} ; what is my {k}'s name|what's my {k} called|what is my {k} called|what is the name of my {k}|do you remember my {k}'s name|how is my {k} called|tell me my {k}'s name|who is my {k}|~what name does my {k} have|~which name did I say for my {k} ; Your {k} is called {v}.
colour ; colour ; my favourite colour is {v}|my favorite color is {v}|I like the colour {v} best|the colour I like most is {v} ; what is my favourite colour|what's my favorite color|which colour do I like best|which color do I like most|do you remember my favourite colour|tell me my favourite colour|~what colour should I paint my room in|~the colour I prefer is ; Your favourite colour is {v}.
lucky ; number ; my lucky number is {v}|my favourite number is {v}|{v} is my lucky number ; what is my lucky number|what's my lucky number|which number is my lucky one|what is my favourite number|do you remember my lucky number|tell me my lucky number|~which number brings me luck|~what number do I like ; Your lucky number is {v}.
code ; code ; my code is {v}|the code is {v}|my booking code is {v}|the door code is {v}|remember the code {v}|keep the code {v} for me ; what is the code|what's my code|what was the code|which code did I give you|do you remember the code|tell me the code|what code should you keep|can you repeat the code|~say that code once more|~I forgot the code, what was it ; The code is {v}.
word ; word ; the secret word is {v}|remember the word {v}|the magic word is {v}|my word is {v}|the word to remember is {v} ; what is the secret word|what's the word|which word did I tell you|what was the word|do you remember the word|tell me the word|what word should you remember|~say that word once more|~I forgot the word, what was it ; The word is {v}.
meeting ; date ; my meeting is on {v}|I have a meeting on {v}|the meeting is on {v}|we meet on {v}|my appointment is on {v} ; when is my meeting|when is the meeting|on which day is my meeting|what day is the meeting|do you remember when we meet|when do we meet|what is the date of the meeting|when is my appointment|~which day must I keep free|~the meeting takes place when ; The meeting is on {v}.
train ; clock ; my train leaves at {v}|the train goes at {v}|I take the train at {v}|my train is at {v} ; when does my train leave|what time is my train|when is my train|at what time does the train go|do you remember when my train leaves|tell me when my train leaves|~by when must I be at the station|~how late is my train ; Your train leaves at {v}.
own ; thing ; my {k} is a {v}|the {k} I have is a {v}|for {k} I have a {v}|my {k} was a {v} ; what is my {k}|what's my {k}|which {k} do I have|do you remember my {k}|tell me what my {k} is|what did I say about my {k}|~what do I have for {k}|~my {k} was what ; Your {k} is a {v}.
favourite ; word ; my favourite {k} is {v}|my favorite {k} is {v}|{v} is my favourite {k}|the {k} I like best is {v}|when it comes to {k}s, I love {v} most|of all {k}s I prefer {v} ; what is my favourite {k}|what's my favorite {k}|which {k} do I like best|do you remember my favourite {k}|tell me my favourite {k}|which {k} do I prefer|what {k} do I love|~which {k} would I choose|~what {k} should you give me ; Your favourite {k} is {v}.
detail ; mixed ; my {k} is {v}|the {k} is {v}|{v} is my {k}|my {k}: {v}|my {k}'s {v}|I set my {k} to {v}|for my {k} I chose {v}|the {k} I have is {v}|as for my {k}, it's {v}|I changed my {k} to {v} ; what is my {k}|what's my {k}|what was my {k}|what was the {k}|do you remember my {k}|do you know my {k}|tell me my {k}|can you tell me my {k}|remind me of my {k}|what did I say my {k} was|which {k} did I give you|could you repeat my {k}|I forgot my {k}, what is it|what {k} do I have|my {k}|what's the {k}|which {k} was it|do you still have my {k}|~I need my {k} once more|~the {k} I told you was ; Your {k} is {v}.
detail ; mixed ; my {k} is {v}|the {k} is {v}|{v} is my {k}|please note my {k}, it is {v}|I was given the {k} {v}|they gave me {k} {v}|use {v} as my {k}|{k}: {v} ; what is my {k}|what's my {k} again|what was the {k}|do you remember the {k}|tell me the {k}|can you give me my {k}|what did I say the {k} was|which {k} did I mention|I can't remember my {k}|say my {k} again|what {k} did I tell you|~what was that {k} of mine|~look up my {k} in what I said ; Your {k} is {v}.
flight ; clock ; my flight leaves at {v}|my plane takes off at {v}|the flight is at {v}|I fly at {v} ; when does my flight leave|what time is my flight|when do I fly|at what time does my plane take off|when is my flight|do you remember when my flight leaves|~until when can I check in|~what hour is my plane ; Your flight leaves at {v}.
gate ; code ; my gate is {v}|the flight leaves from gate {v}|I board at gate {v}|the gate is {v} ; which gate is it|what is my gate|from which gate do I leave|what gate do I board at|tell me my gate|which gate do I go to|~where do I board|~to what gate must I walk ; Your gate is {v}.
seat ; code ; my seat is {v}|I sit in seat {v}|I have seat {v}|my seat number is {v} ; what is my seat|which seat do I have|where do I sit|what's my seat number|tell me my seat|~in what place am I sitting|~which place is mine ; Your seat is {v}.
room ; number ; my room is {v}|I'm in room {v}|my room number is {v}|I stay in room {v}|the meeting room is {v} ; which room am I in|what is my room number|what's my room|which room is it|in which room do I stay|tell me my room number|~what door do I open|~to which room should you bring it ; Your room is {v}.
wifi ; code ; the wifi password is {v}|my wifi password is {v}|the password is {v}|my password is {v} ; what is the wifi password|what's my password|what was the password|tell me the password|do you remember the password|which password did I give you|what's the wifi password again|~how do I get into the wifi|~what do I type to log in ; The password is {v}.
allergy ; like ; I'm allergic to {v}|I am allergic to {v}|I have an allergy to {v}|I can't eat {v}|I get a rash from {v} ; what am I allergic to|what can't I eat|what is my allergy|do you remember my allergy|tell me what I'm allergic to|which allergy do I have|what must I not eat|~what should I avoid in food|~what would make me sick ; You are allergic to {v}.
car ; car ; I drive a {v}|my car is a {v}|I bought a {v}|I own a {v} ; what car do I drive|what do I drive|which car do I have|what is my car|what kind of car do I have|do you remember my car|tell me what I drive|~what's in my garage|~in what do I get to work ; You drive a {v}.
phone ; phone ; my phone number is {v}|my number is {v}|you can call me at {v}|call me on {v}|I can be reached at {v} ; what is my phone number|what's my number|which number do you call me at|do you remember my phone number|tell me my phone number|how can I be reached|~what do people dial to reach me|~under what number am I ; Your phone number is {v}.
email ; email ; my email is {v}|my e-mail address is {v}|my email address is {v}|write to me at {v}|you can mail me at {v} ; what is my email|what's my email address|what is my e-mail address|where can people write to me|do you remember my email|tell me my email|which address did I give you|~to which address do I get mail|~where does mail for me go ; Your email is {v}.
company ; company ; I work for {v}|I work at {v}|my company is {v}|my employer is {v}|I'm employed at {v} ; where do I work|who do I work for|what is my company|what's the name of my company|which company do I work for|who is my employer|do you remember where I work|~which firm pays me|~whose office do I go to ; You work for {v}.
study ; like2 ; I study {v}|I'm studying {v}|my subject is {v}|I'm a student of {v} ; what do I study|what am I studying|what is my subject|which subject do I study|do you remember what I study|tell me what I study|~what do I learn at university|~what will my degree be in ; You study {v}.
speak ; tongue ; I speak {v}|my mother tongue is {v}|my native language is {v}|at home we speak {v} ; which language do I speak|what language do I speak|what is my mother tongue|what's my native language|do you remember my language|what do we speak at home|~in which language do I dream|~what tongue did I grow up with ; You speak {v}.
holiday ; city ; I'm going to {v} on holiday|I'm travelling to {v}|my next trip is to {v}|we spend our holiday in {v}|I'm flying to {v}|I have a trip to {v} ; where am I going|where do I travel to|where is my next trip to|where do I spend my holiday|where am I flying to|which city am I going to|do you remember where I'm going|where are we going|~what is my destination|~for which place do I pack ; You are going to {v}.
kids ; small ; I have {v} children|I have {v} kids|we have {v} children|I'm a parent of {v} ; how many children do I have|how many kids do I have|do you remember how many kids I have|how many children are there in my family|tell me how many children I have|~how big is my family in kids|~of how many am I a parent ; You have {v} children.
pets ; small ; I have {v} cats|I own {v} cats|there are {v} cats in my house|we keep {v} cats ; how many cats do I have|how many cats are in my house|how many cats do we keep|do you remember how many cats I have|~my cats are how many|~what's the number of my cats ; You have {v} cats.
siblings ; small ; I have {v} brothers|I've got {v} brothers|I grew up with {v} brothers ; how many brothers do I have|do you remember how many brothers I have|how many brothers have I got|tell me how many brothers I have|~what's the number of my brothers|~with how many brothers did I grow up ; You have {v} brothers.
born ; year ; I was born in {v}|my year of birth is {v}|{v} is the year I was born|my birth year is {v} ; what year was I born|when was I born|in which year was I born|what is my year of birth|which year was I born in|tell me my birth year|~since when am I alive|~what year is on my passport for birth ; You were born in {v}.
exam ; date ; my exam is on {v}|I have an exam on {v}|the exam takes place on {v}|I take my exam on {v} ; when is my exam|on which day is my exam|what day is the exam|when do I have the exam|what is the date of my exam|do you remember when my exam is|~until when must I study|~which day do they test me ; Your exam is on {v}.
deadline ; date ; the deadline is {v}|my deadline is {v}|I have to finish by {v}|it is due on {v}|I must hand it in by {v} ; when is the deadline|what's my deadline|what is the deadline|by when do I have to finish|when is it due|do you remember the deadline|when must I hand it in|~how long do I have|~what's the last day for it ; The deadline is {v}.
dentist ; moment ; my dentist appointment is {v}|I see the dentist {v}|I have to be at the dentist {v}|my doctor's appointment is {v} ; when is my dentist appointment|when do I see the dentist|when is my appointment|what time is my appointment|when do I have to be at the dentist|do you remember my appointment|~when will they look at my teeth|~for when am I booked ; Your appointment is {v}.
call ; moment ; the call is {v}|my call with the team is {v}|the interview is {v}|our meeting is {v}|the party is {v}|the concert is {v} ; when is it|when does it take place|what time is it at|do you remember when it is|when did I say it is|tell me when it is|~at what moment must I be there|~when should I show up ; It is {v}.
where ; spot ; the meeting is in {v}|we meet at {v}|the party is at {v}|my keys are in {v}|I parked at {v}|I left my bag in {v} ; where is it|where was it|do you remember where it is|tell me where|where did I say it is|~in what place is it|~which spot did I name ; It is at {v}.
budget ; money ; my budget is {v}|I can spend {v}|I have {v} for it|I want to pay at most {v}|my limit is {v} ; what is my budget|what's my budget|how much can I spend|how much money do I have for it|what is my limit|do you remember my budget|tell me my budget|~up to what price can I go|~how deep are my pockets ; Your budget is {v}.
order ; code ; my order number is {v}|the order number is {v}|my order is {v}|I have the order {v} ; what is my order number|what's the order number|which order number did I give you|what was my order|tell me my order number|do you remember my order number|~under what number is my order|~which order is mine ; Your order number is {v}.
size ; small2 ; my shoe size is {v}|I wear size {v}|I take a size {v}|my size is {v} ; what is my shoe size|what's my size|which size do I wear|what size do I take|do you remember my size|tell me my size|~how big are my feet|~what number is on my shoes ; Your size is {v}.
height ; height ; I am {v} tall|I'm {v} tall|my height is {v}|I measure {v} ; how tall am I|what is my height|what's my height|do you remember how tall I am|tell me my height|~how high is my head above the ground|~what do I measure ; You are {v} tall.
weight ; kilos ; I weigh {v}|my weight is {v}|the scale says {v} ; how much do I weigh|what is my weight|what's my weight|do you remember my weight|tell me what I weigh|~how heavy am I|~what do the scales say ; You weigh {v}.
plays ; instrument ; I play the {v}|my instrument is the {v}|I'm learning the {v}|I practise the {v} ; which instrument do I play|what do I play|what instrument do I learn|what is my instrument|do you remember what I play|~on what do I make music|~what do my neighbours hear ; You play the {v}.
eats ; like ; I had {v} for lunch|I ate {v} for breakfast|for dinner I had {v}|I'm cooking {v} tonight ; what did I eat|what did I have|what did I have to eat|what food did I mention|do you remember what I ate|~what was on my plate|~which meal was it ; You had {v}.
reads ; title ; I'm reading {v}|the book I'm reading is {v}|my book is called {v}|I'm watching {v} ; what am I reading|which book am I reading|what is my book called|what's the title of it|do you remember what I'm reading|~what lies on my bedside table|~which title did I give ; It is {v}.
project ; title ; my project is called {v}|the project is {v}|I'm working on {v}|the name of my project is {v} ; what is my project called|what's the name of my project|what am I working on|which project am I working on|do you remember my project|tell me the name of my project|~under which name does my project run|~what do I spend my days on ; Your project is called {v}.
plate ; code ; my licence plate is {v}|my license plate is {v}|the plate of my car is {v}|my number plate is {v} ; what is my licence plate|what's my license plate|what is my number plate|do you remember my plate|tell me my licence plate|~which letters are on my car|~how does my car's plate read ; Your licence plate is {v}.
address ; street ; my address is {v}|I live at {v}|my house is at {v}|send it to {v} ; what is my address|what's my address|where is my house|which address did I give you|at which address do I live|do you remember my address|~where would a letter reach me|~to what address should it go ; Your address is {v}.
pronoun ; name ; you should call me {v}|my nickname is {v}|friends call me {v}|I prefer to be called {v}|please address me as {v} ; what should you call me|what is my nickname|what's my nickname|how do I want to be called|what do friends call me|what should you say to me|~how do you address me|~by what nickname do I go ; Your nickname is {v}.
teampal ; name ; my boss is {v}|I'm married to {v}|my neighbour is {v}|I'm meeting {v}|my doctor is {v}|I have lunch with {v} ; who is it|who did I mention|what's the name of that person|do you remember who it is|which person did I name|~whom did I talk about|~what name did I drop ; It is {v}.
weather ; word2 ; the weather here is {v}|it's {v} here|today it is {v} where I am ; how is the weather here|what did I say about the weather|what's the weather where I am|do you remember the weather here|~what's it like outside my window|~what did I say it is like outside ; It is {v}.
pair ; two names ; my {k} are called {v}|I have two {k}, {v}|the names of my {k} are {v}|my {k} are {v}|I've got {k} called {v}|my {k}'s names are {v}|we named our {k} {v}|{v} are my {k} ; what are my {k} called|what are the names of my {k}|how are my {k} called|who are my {k}|do you remember my {k}' names|tell me the names of my {k}|what did we name our {k}|what names do my {k} have|which {k} do I have|~by what names do I call my {k}|~how did I say my {k} are named ; Your {k} are called {v}.
placed ; spot2 ; I put my {k} {v}|I left my {k} {v}|I keep my {k} {v}|I hid my {k} {v}|I stored my {k} {v}|I dropped my {k} {v}|I always leave my {k} {v}|you'll find my {k} {v} ; where did I put my {k}|where did I leave my {k}|where do I keep my {k}|where can I find my {k}|I can't find my {k}, where did I put it|do you know where I left my {k}|where should I look for my {k}|where's my {k}|where is my {k}|where are my {k}|I need my {k}, where do I look|what did I do with my {k}|tell me where my {k} went|~in which place is my {k}|~help me find my {k} ; You put your {k} {v}.
titled ; titled ; my {k} is {v}|my {k}'s name is {v}|my {k} is called {v}|the name of my {k} is {v}|{v} is my {k}|I have a new {k}, {v}|my {k}, {v}, is very strict|our {k} is {v} ; who is my {k}|what is my {k}'s name|what's my {k} called|what is my {k} called|who's my {k}|how do I address my {k}|do you remember who my {k} is|tell me the name of my {k}|which {k} do I have|what's the name of my {k}|to whom do I write if I write to my {k}|~what name did I give for my {k}|~my {k} is whom ; Your {k} is {v}.
kin ; age ; my {k} is {v} years old|my {k} is {v}|my {k} turned {v}|my {k} will be {v} soon|my {k} is already {v} ; how old is my {k}|what is my {k}'s age|what age is my {k}|do you remember how old my {k} is|tell me the age of my {k}|how many years old is my {k}|what did I say my {k}'s age was|~how many years has my {k}|~give me my {k}'s age ; Your {k} is {v} years old.
kin ; city ; my {k} lives in {v}|my {k} moved to {v}|my {k} is from {v}|my {k} has a house in {v}|I visited my {k} in {v} ; where does my {k} live|in which city is my {k}|which city does my {k} live in|do you remember where my {k} lives|where did I visit my {k}|where is my {k}'s home|what town is my {k} in|~to which place do I go to see my {k}|~my {k} has a home where ; Your {k} lives in {v}.
kin ; job ; my {k} is a {v}|my {k} works as a {v}|my {k} became a {v}|my {k}'s job is {v} ; what does my {k} do|what is my {k}'s job|what does my {k} do for a living|what does my {k} work as|what kind of work does my {k} do|do you remember my {k}'s job|what did my {k} become|~how does my {k} make money|~which trade did my {k} learn ; Your {k} is a {v}.
kin ; like ; my {k} likes {v}|my {k} loves {v}|my {k} is crazy about {v}|what my {k} likes is {v} ; what does my {k} like|what does my {k} love|what is my {k} crazy about|do you remember what my {k} likes|what would my {k} enjoy|what did I say my {k} likes|~with what can I please my {k}|~what's my {k}'s passion ; Your {k} likes {v}.
flightno ; flight ; my flight is {v}|I'm on flight {v}|I fly with {v}|my flight number is {v}|I'm booked on {v}|we take flight {v} ; what is my flight number|which flight am I on|what's the number of my flight|which flight do I take|what's my flight|do you remember my flight number|which flight am I booked on|tell me my flight|what was my flight again|~what do I look for on the departures board|~under which number do I fly ; Your flight is {v}.
platform ; platform ; my train leaves from platform {v}|the train goes from platform {v}|I have to go to platform {v}|my train is on platform {v}|I change at platform {v} ; which platform do I need|what platform is my train on|from which platform does my train leave|which platform was it|where does my train leave from|what's my platform|to which platform do I go|tell me the platform|~where on the station do I have to wait|~at what track is my train ; Your platform is {v}.
terminal ; platform ; my flight goes from terminal {v}|I need terminal {v}|I leave from terminal {v}|my terminal is {v} ; which terminal do I need|what terminal is it|from which terminal do I fly|what's my terminal|tell me the terminal|to which terminal should the taxi go|~at what part of the airport do I start|~which building of the airport is mine ; Your terminal is {v}.
diet ; diet ; my diet is {v}|I follow a {v} diet|I eat {v}|I only eat {v} food|my food must be {v}|I need {v} meals ; what is my diet|which diet do I follow|how do I eat|what kind of food do I need|what diet am I on|do you remember my diet|what must my food be like|what sort of meals do I need|~what should a cook know about me|~what do I tell the waiter ; Your diet is {v}.
visit ; moment ; I have an appointment at the {k} {v}|my {k} appointment is {v}|I go to the {k} {v}|I have to be at the {k} {v}|I see the {k} {v}|they booked me in at the {k} {v} ; when is my {k} appointment|when do I go to the {k}|when do I have to be at the {k}|what time is my {k} appointment|do you remember my {k} appointment|when do I see the {k}|tell me when I go to the {k}|for when am I booked at the {k}|what's the time of my {k} appointment|~at what moment does the {k} expect me|~when should I leave for the {k} ; Your {k} appointment is {v}.
event ; moment ; the {k} is {v}|my {k} is {v}|we have the {k} {v}|the {k} starts {v}|the {k} was moved, it's {v}|they invited me to the {k} {v} ; when is the {k}|when's my {k}|what time is the {k}|on which day is the {k}|when does the {k} start|do you remember when the {k} is|tell me when the {k} is|when was the {k} again|when do we have the {k}|~for when did I plan the {k}|~by when must I be at the {k} ; The {k} is {v}.
event ; city ; the {k} is in {v}|the {k} takes place in {v}|my {k} is in {v}|we go to {v} for the {k}|the {k} was moved to {v} ; where is the {k}|where does the {k} take place|in which city is the {k}|where's my {k}|do you remember where the {k} is|tell me where the {k} is|which city is the {k} in|where do we go for the {k}|~to what place do I travel for the {k}|~the {k} is held where ; The {k} is in {v}.
number_of ; small3 ; I bought {v} {k}|I ordered {v} {k}|I got {v} {k} at the market|I picked up {v} {k}|we bought {v} {k} for the party|I just paid for {v} {k} ; how many {k} did I buy|how many {k} did I get|how many {k} did I order|do you remember how many {k} I bought|what number of {k} did I buy|how many {k} are there|tell me how many {k} I have|how many {k} was it|~in what number did I purchase {k}|~how many {k} must be in my bag ; You bought {v} {k}.
bought ; bought ; I bought {v}|I got {v} at the shop|yesterday I bought {v}|I just bought {v}|I treated myself to {v} ; what did I buy|what have I bought|what did I get at the shop|do you remember what I bought|what was my purchase|tell me what I bought|which things did I buy|~for what did I spend money|~what's in my shopping bag ; You bought {v}.
likes2 ; two likes ; I like {v}|I love {v}|I'm into {v}|what I like is {v}|my favourite things are {v}|I enjoy {v}|I'm a fan of {v} ; what do I like|what do I love|do you remember what I like|what do I enjoy|tell me what I like|which things do I like|what am I into|what are my favourite things|~which things make me happy|~of what am I a fan ; You like {v}.
hobbies ; two likes ; my hobbies are {v}|in my free time I do {v}|for fun I do {v}|I spend my weekends with {v} ; what are my hobbies|what do I do in my free time|what do I do for fun|which hobbies do I have|do you remember my hobbies|tell me my hobbies|how do I spend my weekends|~what do I do when I am not at work|~with what do I pass my time ; Your hobbies are {v}.
hotel ; hotel ; I stay at the {v}|my hotel is the {v}|I booked a room at the {v}|we sleep at the {v}|I'm staying in the {v} ; which hotel am I in|where do I stay|what's my hotel called|which hotel did I book|what is the name of my hotel|where did I book a room|where do we sleep|do you remember my hotel|~where should the taxi take me tonight|~under what roof do I sleep ; You stay at the {v}.
medicine ; medicine ; I take {v} every morning|my medicine is {v}|the doctor gave me {v}|I'm on {v}|my pills are called {v} ; which medicine do I take|what is my medicine|what did the doctor give me|what are my pills called|do you remember my medicine|what do I take every morning|tell me the name of my medicine|~what do I ask for at the pharmacy|~which drug am I on ; You take {v}.
club ; club ; I support {v}|my team is {v}|I'm a fan of the team {v}|I cheer for {v}|my club is {v} ; which team do I support|what is my team|who do I cheer for|which club am I a fan of|what's my club|do you remember my team|tell me my team|~whose scarf do I wear to the match|~for whom do I shout at games ; You support {v}.
shift ; clock ; my shift starts at {v}|I start work at {v}|work starts at {v}|I have to be at work at {v} ; when does my shift start|when do I start work|what time do I start|at what time does my work start|when do I have to be at work|do you remember when my shift starts|~from when do they pay me|~how early must I be in the office ; You start at {v}.
bus ; platform ; I take bus {v}|I go home by bus {v}|bus {v} takes me to work|I always catch bus {v} ; which bus do I take|what bus do I take|which bus takes me there|do you remember my bus|tell me which bus I take|which line do I need|~with what do I ride home|~what must stand on the front of my bus ; You take bus {v}.
since ; year ; I have lived here since {v}|I moved here in {v}|we came here in {v} ; since when do I live here|when did I move here|in which year did I move here|how long have I lived here, since when|do you remember when I moved here|what year did we come here|~from what year on am I here|~in what year did I arrive ; You moved here in {v}.
wish ; goods ; I'm saving for {v}|I dream of {v}|for my birthday I want {v}|I wish for {v} ; what am I saving for|what do I dream of|what do I wish for|what do I want for my birthday|do you remember what I want|tell me what I want|~what would be a good present for me|~for what do I put money aside ; You want {v}.
""")
OTHERS = lines("""
home ; city ; {w} lives in {v}|{w} has moved to {v}|{w}'s home is in {v}|my friend {w} lives in {v}|my sister {w} lives in {v} ; where does {w} live|which city does {w} live in|where is {w}'s home|do you remember where {w} lives|~in what town is {w} ; {w} lives in {v}.
taste ; like ; {w} likes {v}|{w} loves {v}|my friend {w} likes {v}|{w} is fond of {v} ; what does {w} like|what does {w} love|do you remember what {w} likes|what is {w} fond of|~what would please {w} ; {w} likes {v}.
work ; job ; {w} is a {v}|{w} works as a {v}|my neighbour {w} is a {v} ; what does {w} do|what is {w}'s job|what does {w} do for a living|what does {w} work as|~how does {w} earn money ; {w} works as a {v}.
years ; age ; {w} is {v} years old|{w} is {v}|{w} turned {v} ; how old is {w}|what is {w}'s age|do you remember how old {w} is|~what age has {w} ; {w} is {v} years old.
pet ; name ; {w}'s dog is called {v}|{w} has a dog called {v}|the dog of {w} is {v} ; what is {w}'s dog called|what's the name of {w}'s dog|which name has {w}'s dog|do you remember {w}'s dog|~how does {w} call the dog ; {w}'s dog is called {v}.
birth ; date ; {w}'s birthday is on {v}|{w} was born on {v}|{w} has a birthday on {v} ; when is {w}'s birthday|when was {w} born|which day is {w}'s birthday|do you remember {w}'s birthday|~when should I congratulate {w} ; {w}'s birthday is on {v}.
arrives ; moment ; {w} arrives {v}|{w} will be here {v}|{w} comes {v}|I pick up {w} {v} ; when does {w} arrive|when does {w} come|what time does {w} arrive|when will {w} be here|do you remember when {w} comes|~when do I see {w} ; {w} arrives {v}.
drives ; car ; {w} drives a {v}|{w} has a {v}|{w}'s car is a {v} ; what does {w} drive|which car does {w} have|what car does {w} drive|what is {w}'s car|~in what does {w} come ; {w} drives a {v}.
number ; phone ; {w}'s number is {v}|you can reach {w} at {v}|{w}'s phone number is {v} ; what is {w}'s number|how can I reach {w}|what's {w}'s phone number|do you remember {w}'s number|~what do I dial for {w} ; {w}'s number is {v}.
role ; name ; {w} is married to {v}|{w}'s partner is {v}|{w}'s wife is {v} ; who is {w} married to|what's the name of {w}'s partner|who is {w}'s partner|do you remember {w}'s partner|~with whom does {w} live ; {w} is married to {v}.
eats2 ; diet ; {w} eats {v}|{w} needs {v} food|{w} is on a {v} diet ; what diet is {w} on|how does {w} eat|what food does {w} need|do you remember {w}'s diet|~what do I cook when {w} comes ; {w}'s diet is {v}.
allergic ; like ; {w} is allergic to {v}|{w} can't eat {v}|{w} gets sick from {v} ; what is {w} allergic to|what can't {w} eat|do you remember {w}'s allergy|what makes {w} sick|~what must I not give to {w} ; {w} is allergic to {v}.
flies ; flight ; {w}'s flight is {v}|{w} comes with flight {v}|{w} lands with {v} ; what is {w}'s flight|which flight is {w} on|with which flight does {w} come|do you remember {w}'s flight number|~which plane brings {w} ; {w}'s flight is {v}.
makes ; instrument ; {w} plays the {v}|{w} is learning the {v}|{w} practises the {v} ; what does {w} play|which instrument does {w} play|what instrument is {w} learning|do you remember what {w} plays|~on what does {w} make music ; {w} plays the {v}.
talks ; tongue ; {w} speaks {v}|{w}'s mother tongue is {v}|I talk to {w} in {v} ; what language does {w} speak|which language does {w} speak|what is {w}'s mother tongue|in which language do I talk to {w}|~what tongue did {w} grow up with ; {w} speaks {v}.
chief ; titled ; {w}'s boss is {v}|{w} works for {v}|the boss of {w} is {v} ; who is {w}'s boss|who does {w} work for|what's the name of {w}'s boss|do you remember {w}'s boss|~to whom does {w} report ; {w}'s boss is {v}.
purchase ; bought ; {w} bought {v}|{w} got {v}|{w} ordered {v} ; what did {w} buy|what has {w} bought|what did {w} get|do you remember what {w} bought|~for what did {w} pay ; {w} bought {v}.
two pets ; two names ; {w}'s cats are called {v}|{w} has two cats, {v}|the cats of {w} are {v} ; what are {w}'s cats called|what are the names of {w}'s cats|how are {w}'s cats called|~by what names does {w} call the cats ; {w}'s cats are called {v}.
sits ; spot ; {w} sits in {v}|you find {w} in {v}|{w}'s desk is in {v} ; where does {w} sit|where do I find {w}|where is {w}'s desk|do you remember where {w} sits|~to what place do I go to meet {w} ; {w} sits in {v}.
color ; colour ; {w}'s favourite colour is {v}|{w} likes the colour {v} ; what is {w}'s favourite colour|which colour does {w} like|what colour does {w} like|~in what colour would {w} paint ; {w}'s favourite colour is {v}.
""")
