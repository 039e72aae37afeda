"""Remembering a name, a number or another detail that the user gave earlier in the conversation."""

# ruff: noqa: E501, SIM108 - phrases read best unbroken

from collections.abc import Callable
from random import Random

from demo_model.exchange import Exchange, assistant, user
from demo_model.skills import values
from demo_model.skills.things import fitting, surname
from demo_model.template import Message
from demo_model.text import (
    ADJECTIVES,
    CITIES,
    NAMES,
    NOUNS,
    Split,
    casual,
    choose,
    coin,
    expand,
    lines,
    number,
    pick,
    scramble,
    wording,
)

TELL_NAME = lines("""
My name is {v}[.|!|]
my name is {v}[.||]
[Hi|Hello|Hey|Hi there|Good morning][,|!|.|] [my name is|my name's|I am|I'm|I'm called|this is] {v}[.|!|]
I am {v}[.|]
I'm {v}[.|!|]
[You can call|You may call|Call|Please call] me {v}[.||]
The name is {v}[.|]
[My friends|People] call me {v}[.|]
[Remember|Please remember|Note][ that|] my name is {v}[.|]
My name is {v}. [Please remember it.|Remember it.|Nice to meet you.|How are you?|What can you do?|Don't forget it!]
Let me introduce myself: I am {v}.
I go by the name of {v}.
[It is|It's|This is|Here is] {v}[.|!| speaking.| here.]
{v} is my name[.|!|]
{v} here[.|!|]
[They call|Everybody calls|My family calls] me {v}[.|]
[hey|hi|hello|Hey|Hi|Hello][,| there,|] [im|I'm|i am|I am|it's] {v}[.|!|]
[I would like you to|I want you to|Could you|Please] call me {v}[.|]
[I'd like to be called|I want to be called|I prefer to be called|Everyone calls me|I'd rather be called|Most people call me] {v}[.||!]
[So you know|For the record|Just so you know], [my name is|I am|I'm] {v}[.|]
My [first |full |real |]name is {v}[.|]
[i am called|I am called|I'm called|My name is|my name is|call me|i'm|I'm|I am|The name's|it's] {v}[ :)| :-)| ;)| :D| 😊| 👋|!!|...|, hi!|, and you?|, by the way| btw|, nice to meet you|; hello]
[Hi|hi|hey|Hello|hello][,| there,|!] [i am called|I'm called|im called|i am|I'm|my name is] {v}[ :)| 🙂|!!|, and who are you?|, hi| :-)]
~People know me as {v}, please remember that.
~Nice to meet you, my name is {v}.
""")
ASK_NAME = lines("""
[What is|What's|what is|what's|whats] my name[?||]
[Do you|Can you] [remember|know|recall] my name[?||]
Who am I[?||]
What did I say my name [was|is][?||]
[Tell me|Say] my name[.|!|, please|]
[And |So |OK, |Now, |]what is my name?
[Can you tell me|Do you know|Do you remember] [what my name is|who I am]?
What am I called?
My name is?
What was my name[ again|]?
Could you remind me of my name?
Which name did I give you?
[Can you|Could you|Please|Would you|Will you|] [remind me of|say|tell me|repeat|give me] my name[.|?||]
[Remind me|Tell me again|Say it again]: what is my name?
[Do you still|You still|Do you even] [know|remember] [my name|who I am|what I am called|how I am called][?||]
[What|How] [do|did|should|would|can|will] you call me[?||]
[What|How] am I [called|named][?||]
[Guess|Say|Use|Write|Print|Repeat] my name[.|!||]
[What was|What is|Who is] [the name I told you|the name I gave you|the user's name|the name of the user][?||]
[And|So|Now][,|] [who am I|my name|do you know my name|remember my name|tell me my name][?||]
Have you [forgotten|remembered|kept] my name?
[Did I tell you|Have I told you] my name?
~Do you happen to know my name?
~So tell me, what name did I give you?
~Now, what was my name?
""")
TELL_NUMBER = lines("""
[Remember|Please remember|Memorise|Keep in mind|Note|Remember this:|Save|Store] [the number|number|this number:|the number:] {v}[.||]
The [secret |]number is {v}[.||]
[Remember|Please remember|Note][ that|:] the [secret |]number is {v}[.||]
I am thinking of the number {v}[.||]
The [secret |]number [you should remember |to remember |]is {v}[.| Please remember it.| Remember it.]
[Remember|Please remember][:|] {v}[.||]
Keep the number {v} for me.
Here is a number for later: {v}.
[Can you|Could you|Will you|Would you|I want you to|I need you to|You should] [remember|keep|note|save|store] [the number |this number: |this: |]{v}[.|?| for me.| for later.||]
[I|I will] [choose|pick|tell you|give you] [the number|a number:] {v}[.||]
~Please keep in mind the number {v}.
""")
ASK_NUMBER = lines("""
[What is|What's|what is|what's|What was] the [number|secret number|number I gave you|number I told you][?||]
[What|Which] number did I [give you|tell you|ask you to remember|mention|say][?||]
[Do you remember|Can you recall|Do you know|Tell me] the [number|secret number][?||.]
[What|Which] number [should|did] you remember?
[And |So |Now, |]what was the number[ again|]?
What number was I thinking of?
Could you remind me of the number?
Which number did you keep for me?
[Can you|Could you|Please|Would you|Will you|] [remind me of|say|tell me|repeat|give me] the [number|secret number][.|?| again.||]
[Remind me|Tell me again|Say it again]: what is the number?
[Do you still|You still] [know|remember] the number[?||]
[And|So|Now][,|] [the number|what number was it|which number was it|tell me the number][?||]
[Say|Write|Print|Repeat] the number[.|!||]
[What is|What was] [the number I told you|the number I gave you|the number to remember|the number from before|it, the number][?||]
Have you [forgotten|remembered|kept] the number?
[Which|What] number [do you have|did I want you to keep|did I want you to remember|did I say before|was it][?||]
~So tell me, what number did I give you?
~Now, what was that number?
""")
TELL_DETAIL = lines("""
My {k} is {v}[.||]
[Remember|Please remember|Note][ that|:] my {k} is {v}[.||]
[By the way|Also|FYI], my {k} is {v}[.||]
For later: my {k} is {v}.
""")
ASK_DETAIL = lines("""
[What is|What's|what is|what's|What was] my {k}[?||]
[Do you remember|Do you know|Can you recall|Tell me|Can you tell me][ what|] my {k}[ is|][?||]
[And |So |Now, |]what is my {k}[ again|]?
What did I say my {k} [was|is]?
Could you remind me of my {k}?
[Can you|Could you|Please|Would you|Will you|] [remind me of|say|tell me|repeat|give me] my {k}[.|?||]
[Remind me|Tell me again|Say it again]: what is my {k}?
[Do you still|You still] [know|remember] my {k}[?||]
[And|So|Now][,|] [my {k}|what was my {k}|tell me my {k}][?||]
What [was|is] my {k} [again|called]?
[And |]what did I [say|tell you] about my {k}?
~So tell me, what was my {k}?
""")
DETAILS = lines("""
[favourite|favorite] [colour|color|food|fruit|drink|animal|book|film|song|season|sport|band|word|city]
[dog|cat|sister|brother|mother|father|son|daughter|friend|boss|wife|husband|bird|horse]'s name
[job|city|home town|country|school|company|team|project|car|hobby|street|username|nickname|email|password]
[favourite|favorite] [colour|color|food|animal|number|month|day|place|singer]
[|new |old |first |second ][{n}|{n} name|{n} colour|{n} number]
""")
TELL_WORD = lines("""
[Remember|Please remember|Memorise|Keep in mind|Note] [the|this] [word|code word|secret word|keyword][:|] [{v}|{v}|"{v}"|'{v}'][.||]
[The|Our|Let's say the] [secret |magic |code |]word is [{v}|{v}|"{v}"|'{v}'][.||][| Don't tell anyone.| Don't forget it.| Remember it.]
""")
ASK_WORD = lines("""
[What is|What's|What was] the [word|code word|secret word|keyword|magic word][?||]
[What|Which] word did I [give you|tell you|ask you to remember|say][?||]
[Do you remember|Can you recall|Tell me] the [secret |code |]word[?||.]
Could you remind me of the word?
[Can you|Could you|Please|Would you|Will you|] [remind me of|say|tell me|repeat|give me] the [word|secret word|code word][.|?||]
[Do you still|You still] [know|remember] the word[?||]
[And|So|Now][,|] [the word|what word was it|which word was it|tell me the word][?||]
~So tell me, what was the word?
""")


# What people say they are, which is no name.
TRAITS = """vegetarian|vegan|left-handed|right-handed|retired|married|single|divorced|colour-blind|short-sighted|a vegetarian
an early riser|a night owl|a morning person|new in town|a beginner|an only child|a twin|pregnant|bilingual|diabetic
lactose intolerant|an introvert|a pensioner|a dog person|a cat person|unemployed|self-employed|engaged|pescatarian|a smoker
a grandmother|a fan of jazz|afraid of heights|on a diet|a good cook|a bad swimmer|a tourist|tall|blond
""".replace("\n", "|").strip("|").split("|")  # fmt: skip
TELL_TRAIT = lines("""
[I'm|I am|i'm|im|i am] {v}[.|.||!| :)| btw|, by the way|, you know|, just so you know]
[By the way, |FYI, |Also, |Just so you know, |You should know that |Note that ][I'm|I am|i am] {v}[.||!]
[Remember|Please remember|Keep in mind|Don't forget] that [I'm|I am] {v}[.||!]
~Let it be known that I am {v}.
""")
ASK_TRAIT = lines("""
[What|what] did I [say|tell you] [I am|I was|that I am][?||]
[Do you remember|Tell me|Do you know|Say] what I [said I am|told you that I am|said that I was][?||.]
[And |So |Now, |]what [was it that I am|am I, as I told you|did I tell you that I am][?||]
~So tell me, what did I say that I am?
""")


def some_name(rng: Random, split: Split) -> str:
    """Draw a first name, known or invented, at times with a family name."""
    if rng.random() < 0.3:
        name = coin(rng).capitalize()
    else:
        name = pick(rng, NAMES, split)
    if rng.random() < 0.06:
        return name.lower()
    return f"{name} {surname(rng)}" if rng.random() < 0.16 else name


def some_value(rng: Random, split: Split) -> str:
    """Draw a value for a detail: a word, a name, a city, a number."""
    return rng.choice(
        (
            lambda: choose(rng, NOUNS), lambda: choose(rng, ADJECTIVES), lambda: some_name(rng, split),
            lambda: choose(rng, CITIES), lambda: str(number(rng)), lambda: coin(rng),
            lambda: f"{choose(rng, ADJECTIVES)} {choose(rng, NOUNS)}", lambda: coin(rng).capitalize(), lambda: scramble(rng),
        )
    )()  # fmt: skip


def parts(rng: Random, split: Split) -> tuple[list[Message], list[Message], str]:
    """Make the telling and the asking of one detail, and what the detail is about."""
    kind = choose(rng, ("name", "name", "name", "number", "number", "detail", "detail", "word", "trait"))
    if kind == "name":
        value = some_name(rng, split)
        tell, ask = wording(rng, TELL_NAME, split), wording(rng, ASK_NAME, split)
        known, told = f"Nice to meet you, {value}.", f"Your name is {value}."
    elif kind == "number":
        value = str(number(rng, 6)) if rng.random() < 0.85 else str(values.phone(rng)[1])
        tell, ask = wording(rng, TELL_NUMBER, split), wording(rng, ASK_NUMBER, split)
        known, told = f"I will remember the number {value}.", f"The number is {value}."
    elif kind == "trait":
        value = pick(rng, TRAITS, split)
        tell, ask = wording(rng, TELL_TRAIT, split), wording(rng, ASK_TRAIT, split)
        known, told = "I will remember that.", f"You are {value}."
    elif kind == "word":
        value = choose(rng, (choose(rng, NOUNS), coin(rng), scramble(rng)))
        tell, ask = wording(rng, TELL_WORD, split), wording(rng, ASK_WORD, split)
        known, told = f"I will remember the word {value}.", f"The word is {value}."
    else:
        key = expand(rng, choose(rng, DETAILS), n=choose(rng, NOUNS))
        value = (fitting(rng, key) if rng.random() < 0.7 else None) or some_value(rng, split)
        tell, ask = wording(rng, TELL_DETAIL, split), wording(rng, ASK_DETAIL, split)
        tell, ask = tell.replace("{k}", key), ask.replace("{k}", key)
        known, told = f"I will remember that your {key} is {value}.", f"Your {key} is {value}."
        kind = key
    said, asked = expand(rng, tell, v=value), expand(rng, ask)
    if rng.random() < 0.1:
        said, asked = casual(said, value), casual(asked, kind)
    first = [user(said), assistant(known, f"I should remember {value}.")]
    then = [user(asked), assistant(told, f"The user told me earlier: {value}.")]
    return first, then, kind


def unknown(rng: Random, split: Split) -> Exchange:
    """Make a question about something the user never said."""
    if rng.random() < 0.6:
        ask, answer = wording(rng, ASK_NAME, split), "You have not told me your name yet."
    else:
        ask, answer = wording(rng, ASK_NUMBER, split), "You have not told me a number yet."
    return Exchange([user(expand(rng, ask)), assistant(answer, "The user has not told me.")], topic="unknown")


# What is asked about one of a pair could mean the other.
_ALIKE = ({"number", "word"}, {"name", "trait"})


def make(rng: Random, split: Split, between: Callable[[], Exchange]) -> Exchange:
    """Make a detail told, up to three other exchanges, and the detail asked for.

    A second detail of another kind is told now and then, to make the model look for the right one.
    """
    first, then, kind = parts(rng, split)
    middle: list[Message] = []
    tools = []
    for _ in range(choose(rng, (0, 1, 1, 2, 2, 3))):
        other = between()
        middle += other.messages
        tools += other.tools
    if rng.random() < 0.3:
        more, asked, other_kind = parts(rng, split)
        if other_kind != kind and not any(pair >= {kind, other_kind} for pair in _ALIKE):
            middle = [*more, *middle] if rng.random() < 0.5 else [*middle, *more]
            if rng.random() < 0.4:
                middle += asked
    if not middle and rng.random() < 0.3:
        first = [user(first[0]["content"] + choose(rng, (" ", "\n")) + then[0]["content"])]
        return Exchange([*first, then[1]], topic="memory")
    return Exchange([*first, *middle, *then], tools=tools, topic="memory")


def stated(rng: Random, split: Split) -> tuple[str, Exchange]:
    """Make a system prompt that gives the user's name, and the user's question for it."""
    name = some_name(rng, split)
    system = expand(
        rng,
        "[The user's name is {v}.|The user is called {v}.|You are talking to {v}.|User name: {v}|You are a helpful assistant. The user's name is {v}.]",
        v=name,
    )
    ask = expand(rng, wording(rng, ASK_NAME, split))
    return system, Exchange(
        [user(ask), assistant(f"Your name is {name}.", f"The system says: {name}.")], topic="memory"
    )
