"""Saying back a given text, word for word."""

# ruff: noqa: E501 - phrases read best unbroken

from random import Random

from tools.demo_model.exchange import Exchange, assistant, user
from tools.demo_model.text import (
    EMOJI,
    NOUNS,
    Split,
    coin,
    common_word,
    expand,
    lines,
    scramble,
    sentence,
    word,
    wording,
)

THOUGHT = "I should say this text back."

# {q} is the text in quotes. The text itself then ends where the closing quote is.
QUOTED = lines("""
[Please |Can you |Could you |Just |Now |]say {q}[.||]
[Please |Just |Now |]say {q} [please|now|to me|back to me|and nothing else|, nothing else|, nothing more|only|exactly][.||]
[Please |Can you |Could you |]repeat {q}[.||]
[Please |]repeat [the text|the words|the phrase|the sentence|the following text|this text|this phrase] {q}[.||]
[Reply|Respond|Answer] with {q}[.| and nothing else.| only.|]
[Reply|Respond|Answer] [only|just] with {q}[.||]
[Reply|Respond|Answer] with [exactly|just|only|the word|the words|the text|the phrase|the string|the single word] {q}[.||]
[Reply|Respond|Answer] [exactly|only]: {q}
[Output|Print|Echo|Write|Return|Type] {q}[.||]
[Output|Print|Echo|Write|Return|Type] [exactly|only|just|the text|the word|the words|the string] {q}[.||]
[Output|Print|Echo|Write|Return|Type] {q} [exactly|and nothing else|back to me][.||]
Say exactly [this: |]{q}[.||]
Say the [word|words|text|phrase|following] {q}[.||]
I want you to [say|repeat|write] {q}[.||]
Your [answer|reply|response] [must|should] be [exactly |just |]{q}[.||]
Copy {q}[.||]
Quote this back: {q}
Tell me {q}
Say: {q}
Say exactly: {q}
Repeat after me: {q}
Repeat after me {q}
Repeat this: {q}
Would you kindly say {q}?
Let me hear you say {q}
Give me back {q} exactly as it is.
Say back: {q}
[Say|Write|Type|Print] [nothing but|no more than|only the word|just the word|the one word|the single word] {q}[.||]
[Could I hear|Let me hear|I want to hear|I'd like to hear] {q}[.|?| from you.||]
[Make|Let] your [answer|reply|response] [be |]{q}[.||]
[The|Your] [answer|reply|response|output] [is|should be|has to be|must be only|will be]: {q}
[Respond|Reply|Answer] [to this |to me |]with {q}[.| and nothing more.| only, no other words.||]
{q}[.|] [Repeat that.|Say that.|Repeat it.|Say it back.|Now you say it.|Repeat this.|Repeat that, please.|Can you repeat that?|Can you say that?|Say it again.]
How do you [say|pronounce] {q}?
[Parrot|Mirror|Recite|Quote|State|Utter|Speak|Send back|Give back|Read out] {q}[.||]
[Parrot|Mirror|Recite|Quote|State|Utter|Speak|Send back|Give back|Read out|Read aloud] [this|the text|the words|the following]: {q}
[say|repeat|write|type|print|echo] {q} [for me|back|back to me please|please|exactly as written|word for word|as it is|letter by letter|unchanged][.|!||]
[What I want to hear is|All I want is|I only want|The text is|My text:|Here is my text:] {q}[. Say it back.|. Repeat it.|, say it.|, repeat it please.]
[Can|Could|Would] you [say|repeat|write|type|echo|copy] {q}[ for me| back to me| exactly| please|]?
[Echo|Send|Give|Throw] {q} [back|back to me|right back][.|!||, please.]
[Respond|Reply|Answer|reply|answer] with [exactly|only|just|nothing but|the exact text|these exact words:] {q}[.| Nothing else.| Do not add anything.| No other text.||]
[Please |]return the [string|text|line|path|value] {q}[ as it is| unchanged| exactly|][.||]
~I would love to hear the words {q}
~Now just say {q} back to me, nothing else.
~Your whole reply must be {q}
I would like you to reply with {q}.
""")

# {t} is bare and ends where the message ends; a mark at its end belongs to the text.
BARE = lines("""
Say exactly: {t}
Say exactly {t}
Say exactly this: {t}
Say: {t}
Say this: {t}
Say the following: {t}
Please say: {t}
Please say exactly: {t}
Please say {t}
Say {t}
Say {t}
[Just |Now |]say {t}
Repeat after me: {t}
Repeat after me, {t}
Repeat after me {t}
Repeat: {t}
Repeat [this|exactly|this exactly|this text|this sentence|the following|the following text|what I say|back to me|word for word]: {t}
Please repeat: {t}
Please repeat [this|after me|the following]: {t}
Can you repeat this: {t}
Can you [say|repeat] the following: {t}
[Echo|Print|Output|Write|Type|Return|Copy]: {t}
[Echo|Print|Output|Write|Type|Copy] [this|exactly|the following|the following text|this text|this back]: {t}
Echo {t}
[Reply|Respond|Answer] with: {t}
[Reply|Respond|Answer] [with exactly|with only|only with|just with|exactly|exactly with|with just|with the text|with the words|with this text]: {t}
[Reply|Respond|Answer] [with exactly|with only|only with|just with|with just] {t}
I say, you repeat: {t}
Text to repeat: {t}
Write exactly this: {t}
Your turn to say: {t}
Say this [word for word|back to me|back]: {t}
Copy this [word for word|text|exactly]: {t}
Only say: {t}
Say back exactly what follows: {t}
Please echo back: {t}
Kindly repeat the next words: {t}
Give this back to me: {t}
I want you to say: {t}
Would you say: {t}
[Say|Repeat|Write|Copy] back: {t}
[Say|Repeat|Write|Copy] [what follows|the text below|the words below|the line below|the next line|the next words|these words|my words]: {t}
[Parrot|Mirror|Recite|Quote|State|Utter|Speak|Send back|Give back|Read out|Read aloud]: {t}
[Parrot|Mirror|Recite|Quote|State|Speak|Send back|Give back|Read out|Read aloud] [this|the text|the words|the following|this text]: {t}
[The|Your] [answer|reply|response|output] [is|should be|has to be|must be only|will be]: {t}
[Repeat|Say|Echo] the [phrase|sentence|text|words|string|line|message|following]: {t}
[Repeat|Say|Echo] the [phrase|sentence|text|words|string|line|message]: {t}
[Repeat|Echo] [everything|all] [after the colon|after this|I write]: {t}
[Text|Input|Phrase|Sentence|String|Message][ to say| to echo| to copy|]: {t}
[say|repeat|echo|copy|write|type|print] [after me|this|exactly this|the next line|this line|it back|the path|the text|this for me|please]: {t}
[Can|Could|Would] you [say|repeat|write|echo|copy] [this|the following|this line|this back to me|exactly this]: {t}
[Please |]repeat [this|the line|the path|the sentence|my message|what I wrote|verbatim|literally|without changes|letter by letter]: {t}
[Return|Give back|Send back|Reply with] [the same|exactly the same text|this unchanged|only this|nothing but this|just this]: {t}
[I'll say something and you repeat it|Let's play echo|You are my echo|Be my echo|Be a parrot|Now you say|What I type, you type]: {t}
[Don't change anything|Do not answer, only repeat|No comment, just repeat|Word for word please|Verbatim]: {t}
~Say back the following words: {t}
~Just repeat the text below: {t}
~Reply only with this sentence: {t}
""")
# {t} is a single word here, and may be asked for several times.
SINGLE = lines("""
[Say|Write|Type|Print|Repeat|Output] the [single |one |]word {t}[.||]
[Reply|Respond|Answer] with [the|exactly the|only the|just the] [single |one |]word {t}[.||]
[Reply|Respond|Answer] with [exactly |only |just |][one|a single] word: {t}
[Say|Write] {t} in [one word|a word|one sentence|a single word][.||]
[Say|Write] [only|just] {t}[.||]
[Say|Write|Repeat|Type] {t} {k}[.||]
[Say|Write|Repeat|Type] the word {t} {k}[.||]
[Repeat|Say|Write] [this|the word|the following] {k}: {t}
""")
TIMES = {
    "once": 1,
    "one time": 1,
    "twice": 2,
    "two times": 2,
    "2 times": 2,
    "three times": 3,
    "3 times": 3,
    "four times": 4,
    "five times": 5,
}

QUOTES = ('"{}"', '"{}"', '"{}"', "'{}'", "'{}'", "“{}”", "‘{}’", "«{}»", "`{}`")  # noqa: RUF001 - real quotation marks

# What people and test suites type first.
USUAL = lines(
    """
hello|Hello|hi|Hi|Hello!|hello world|Hello World|Hello, world!|hello, world|this is a test|this is a test.|This is a test
This is a test.|test|testing|testing 1 2 3|ok|OK|okay|yes|no|ping|pong|hey|hi there|hello there|Hello there!|good morning
good night|thank you|apple|banana|orchard|Orchard works|it works|It works!|MLX|one|two|one two three|1 2 3|42|done|ready
foo|bar|foo bar|foo bar baz|the quick brown fox|the quick brown fox jumps over the lazy dog|I am here|I love apples|abc
hello again|bonjour|hola|ciao|hallo|goodbye|bye|true|false|null|stop|red|blue|green|cat|dog|hello from Orchard|streaming works
""".replace("\n", "|")
)
USUAL_TEXTS = [text for line in USUAL for text in line.split("|")]


def some_text(rng: Random, most: int = 8) -> str:
    """Draw a text of one to ``most`` words: usual, plain, invented, or with marks and other scripts."""
    kind = rng.random()
    if kind < 0.15:
        return rng.choice(USUAL_TEXTS)
    if kind > 0.86:
        return particular(rng)
    if kind < 0.25:
        return " ".join(sentence(rng).split()[:most])
    count = rng.randint(1, rng.choice((2, most)))
    if kind < 0.45:
        parts = [common_word(rng) for _ in range(count)]
    elif kind < 0.6:
        parts = [coin(rng) for _ in range(count)]
    elif kind < 0.65:
        parts = [scramble(rng) for _ in range(count)]
    else:
        parts = [word(rng) for _ in range(count)]
    if rng.random() < 0.3:
        parts = [marked(rng, part) for part in parts]
    text = " ".join(parts)
    if rng.random() < 0.2:
        text = text[:1].upper() + text[1:]
    if rng.random() < 0.25:
        text += rng.choice((".", "!", "?", ".", "...", "!!", ";"))
    if rng.random() < 0.04:
        text += " " + rng.choice(EMOJI)
    return text


PARTICULAR = lines("""
[/{p}/{q}.{e}|~/{p}/{q}|./{p}/{q}_{k}.{e}|C:\\{p}\\{q}.{e}|/var/{p}/{q}-{k}.{e}|{p}/{q}/{w}.{e}|../{p}.{e}]
https://{p}.[com|org|net][/{q}|/{q}/{w}.html|?{q}={k}|]
{w}@{p}.[com|org|net]
[{k}|{k}.{j}|{k},{j}] [kg|km|m|cm|mm|g|l|ml|%|°C|euros|dollars|miles|pounds|hours|minutes|GB|MB][ of {n}|]
[{k} x {j}|{k}/{j}|-{k}|+{k}|#{k}|v{k}.{j}|{k}:{j}|{k}%|${k}.{j}|€{k}|({k})|[{k}, {j}]]
[{P}|{W}|{n}], [{n}|{w}] and {m}[!|.|?|]
[{P} {n}|{W} {n} {m}|{P}{W}|{p}{W}|{p}_{w}|{p}-{w}-{q}|{P}!{W}|{p}.{w}()|{p} = {k}|{p}({w}, {k})]
{W} said[,|:] {n} is {m}[.|!|?|]
[It's|That's|Don't|We're|I'll|You've] {n}[, {W}|; {m}|: {m}|... {m}|!|?!|]
{k} [{n}s|{m}s], {j} [{p}s|{n}s][ and one {m}|]
""")


def particular(rng: Random) -> str:
    """Write what must be copied to the letter: a path, an address, a quantity, marks, capitals."""
    words = {key: rng.choice((rng.choice(NOUNS), coin(rng))) for key in "pqwnm"}
    filled = {
        **words,
        "P": words["p"].upper(),
        "W": words["w"].capitalize(),
        "k": rng.randint(0, 999),
        "j": rng.randint(0, 99),
    }
    return expand(rng, rng.choice(PARTICULAR), e=rng.choice(("txt", "py", "json", "md", "log", "csv")), **filled)


def marked(rng: Random, part: str) -> str:
    """Put a mark on or in a word now and then."""
    if rng.random() < 0.6:
        return part
    return expand(rng, "[{p},|{p};|{p}:|({p})|{p}-{c}|{p}_{c}|{p}/{c}|{p}'s|{p}.{c}|#{p}|n'{p}|{c}'{p}|don't|isn't|I'm|you're|@{p}|${p}|{p}%|*{p}*|{p}=1|<{p}>|{p}+{c}]",
                  p=part, c=coin(rng, 1))  # fmt: skip


def single(rng: Random) -> Exchange:
    """Make a request to say one word, at times more than once."""
    text = rng.choice(
        (rng.choice([t for t in USUAL_TEXTS if " " not in t]), common_word(rng), coin(rng), word(rng))
    ).strip(".!")
    times = rng.choice(list(TIMES))
    pattern = rng.choice(SINGLE)
    quote = rng.choice(("{}", "{}", '"{}"', "'{}'"))
    ask = expand(rng, pattern, t=quote.format(text), k=times)
    return Exchange([user(ask), assistant(" ".join([text] * (TIMES[times] if "{k}" in pattern else 1)), THOUGHT)])


def make(rng: Random, split: Split, most: int = 8) -> Exchange:
    """Make one request to say a text back."""
    if split != "held" and rng.random() < 0.1:
        return single(rng)
    if split == "train" and rng.random() < 0.06:
        most = rng.choice((12, 20, 30))
    text = some_text(rng, most)
    if most > 8:
        text = " ".join(some_text(rng, 8) for _ in range(most // 6))
    if rng.random() < 0.45:
        quote = rng.choice(QUOTES)
        # A quote that also occurs inside would leave no way to tell where the text ends.
        if quote[0] in text or quote[-1] in text:
            quote = '"{}"'
        ask = expand(rng, wording(rng, QUOTED, split), q=quote.format(text.replace('"', "")))
        text = text.replace('"', "")
    else:
        ask = expand(rng, wording(rng, BARE, split), t=text)
        if rng.random() < 0.12 and ": " in ask and ask.endswith(": " + text):
            ask = ask[: -len(text) - 1] + rng.choice(("\n", "\n\n")) + text
    if rng.random() < 0.15:
        ask = ask[0].lower() + ask[1:]
    elif rng.random() < 0.8:
        ask = ask[0].upper() + ask[1:]
    return Exchange([user(ask), assistant(text, THOUGHT)])
