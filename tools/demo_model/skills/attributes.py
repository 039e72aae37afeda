"""What people tell about themselves and others: the words for telling it, and for asking for it again.

A line of ``FACTS`` is ``what it is ; kind of value ; how people tell it ; how they ask ; the answer``. ``{v}`` is the
value, ``{k}`` one of ``OPTIONS``, ``{w}`` somebody else.
"""

# ruff: noqa: E501, SIM905 - phrases read best unbroken

from collections.abc import Callable
from random import Random

from tools.demo_model.skills import values
from tools.demo_model.skills.memory import some_name
from tools.demo_model.text import (  # fmt: skip
    ADJECTIVES,
    CITIES,
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
JOBS = "teacher baker nurse engineer pilot farmer writer painter doctor cook gardener carpenter driver lawyer designer plumber".split()
LIKES = "plums|pizza|chess|hiking|jazz|tea|coffee|football|old films|swimming|cheese|trains|gardening|reading|apples|the sea|snow|cycling|sushi|painting".split(
    "|"
)


RELATIVES = "sister|brother|mother|father|wife|husband|son|daughter|boss|friend|aunt|uncle|neighbour|teacher|best friend|partner".split(
    "|"
)
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


VALUES: dict[str, Callable[[Random, Split], str]] = {
    "name": some_name,
    "age": lambda rng, split: str(rng.randint(5, 99)),
    "city": lambda rng, split: pick(rng, CITIES, split) if rng.random() < 0.85 else coin(rng, 2).capitalize(),
    "date": lambda rng, split: _date(rng),
    "job": lambda rng, split: choose(rng, JOBS),
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
    "feeling": lambda rng, split: choose(rng, "tired|happy|sad|hungry|bored|nervous|excited|sleepy|sick|proud|lonely|stressed|great|awful|fine|confused".split("|")),
}  # fmt: skip


FACTS = lines("""
name ; name ; my name is {v}|I'm {v}|I am {v}|I'm called {v}|my name's {v}|call me {v}|people call me {v} ; what's my name|what is my name|who am I|what am I called|do you remember my name|can you tell me my name|what did I say my name was|what do people call me|tell me my name|my name please|do you still know who I am|and who am I|~so who is talking to you|~say my name again ; Your name is {v}.
age ; age ; I am {v} years old|I'm {v}|my age is {v}|I turned {v}|I'm {v} years old|I was {v} on my last birthday ; how old am I|what is my age|what's my age|do you remember how old I am|tell me my age|my age|how many years old am I|~what age did I say I was|~do you know how many years I have ; You are {v} years old.
city ; city ; I live in {v}|my home is in {v}|I moved to {v}|my city is {v}|I have a flat in {v}|home for me is {v} ; where do I live|which city do I live in|in which city is my home|what city am I in|do you remember where I live|where is my home|which town do I live in|tell me where I live|~in what place is my flat|~my home is where ; You live in {v}.
origin ; city ; I come from {v}|I'm from {v}|I am from {v}|I was born in {v}|I grew up in {v} ; where am I from|where do I come from|which city do I come from|where was I born|do you remember where I'm from|where did I grow up|tell me where I come from|~what is the place of my birth|~from which place am I ; You are from {v}.
birthday ; date ; my birthday is on {v}|my birthday is {v}|I was born on {v}|I celebrate my birthday on {v} ; when is my birthday|when's my birthday|what is my birthday|on which day is my birthday|when was I born|do you remember my birthday|what date is my birthday|tell me my birthday|~when do I celebrate|~which day should you congratulate me ; Your birthday is {v}.
job ; job ; I work as a {v}|I'm a {v}|I am a {v} by trade|my job is {v}|I earn my money as a {v} ; what do I do for a living|what is my job|what's my job|what do I work as|do you remember my job|what is my profession|tell me my job|what am I by trade|~how do I earn my money|~what kind of work do I do ; You work as a {v}.
like ; like ; I like {v}|I love {v}|I really enjoy {v}|I'm fond of {v}|I'm a fan of {v}|what I like most is {v} ; what do I like|what do I love|do you remember what I like|what do I enjoy|tell me what I like|what am I fond of|what did I say I like|~what makes me happy|~which thing am I a fan of ; You like {v}.
dislike ; like ; I hate {v}|I don't like {v}|I can't stand {v}|I dislike {v}|I'm allergic to {v} ; what do I hate|what don't I like|what do I dislike|what can't I stand|do you remember what I don't like|what do I not like|~what should nobody give me|~which thing do I avoid ; You don't like {v}.
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
feel ; feeling ; I feel {v}|I'm {v} today|I am feeling {v} ; how do I feel|how am I today|how did I say I feel|do you remember how I feel|~what is my mood|~in which state am I ; You feel {v}.
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
color ; colour ; {w}'s favourite colour is {v}|{w} likes the colour {v} ; what is {w}'s favourite colour|which colour does {w} like|what colour does {w} like|~in what colour would {w} paint ; {w}'s favourite colour is {v}.
""")
