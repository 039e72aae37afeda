"""Saying back a given text, word for word."""

# ruff: noqa: E501 - phrases read best unbroken

from collections.abc import Callable
from random import Random

from demo_model.exchange import Exchange, assistant, user
from demo_model.skills import marked, named
from demo_model.skills.texts import USUAL_TEXTS, several_lines, some_text
from demo_model.text import Split, choose, coin, common_word, expand, lines, word, wording

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
[What I say next, say it back|Say back what comes next|Repeat my next sentence|You repeat what follows|Listen and repeat|Echo test|Repeat game]. {t}
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

# Wordings put together from parts; the text stands in quotes, or bare at the end.
SAY = "say repeat echo output print write type return recite copy display show state read|reply with|respond with|answer with|send back|give me|give me back|tell me|come back with|write down|print out|post|hand me|mirror|emit|produce|put out|quote|reproduce|replicate|send me|come up with|finish with|only reply|just answer with|start and end with"
SAYS = [*SAY.split("|", maxsplit=1)[0].split(), *SAY.split("|")[1:]]
WHAT = ["", "", "", "", "the text", "the words", "the phrase", "the sentence", "the string", "the following", "this", "the line", "the message", "the exact text", "exactly", "just", "only", "exactly this", "the literal text", "the expression", "the following words", "the next bit", "this text", "these words", "precisely", "the value", "the token", "the code", "my text", "one thing:"]  # fmt: skip
HOW = ["", "", "", "", "", " and nothing else", ", nothing more", " exactly", " verbatim", " word for word", " as it is", " unchanged", " without changes", " with no other words", " back to me", " back", " once", ", please", " for me", " and then stop", " without any explanation", " character by character", ", no comments", " precisely", " and only that", " to me", " without the quotes", " literally", " exactly as written", " right now", ", that's all", " and don't add anything"]  # fmt: skip
AFTER = [". No other text.", ". Nothing else.", ". Do not add anything.", ". No explanation.", ". Don't change it.", ", thanks.", ". Only that.", ". Thank you!", ". Don't answer it.", ". Do not answer it.", ". That is all.", ". No quotes.", " (nothing else)", "! No more, no less."]  # fmt: skip
FIRST = ["Repeat the above.", "Repeat what I just wrote.", "Say this back.", "Repeat the text above.", "Copy that.", "Echo that back to me.", "Please repeat that word for word.", "Say exactly that.", "Now say it back to me.", "^ repeat this", "Write the line above again.", "Repeat this message up to here."]  # fmt: skip
LEADING = ["", "", "", "", "Please ", "please ", "Can you ", "Could you ", "I want you to ", "I'd like you to ", "Now ", "Just ", "You should ", "Your task: ", "Would you ", "Kindly ", "Hey, ", "Ok, ", "Test: ", "Your job is to ", "Let's see if you can ", "Try to ", "You must ", "I need you to ", "All you have to do is ", "For this test, ", "Simply ", "In your next message, ", "When you read this, ", "~Be a dear and ", "~For the record, "]  # fmt: skip
FENCES = (
    "<{}>",
    "[{}]",
    "**{}**",
    "```{}```",
    "```\n{}\n```",
    "---\n{}\n---",
    '"""{}"""',
    "({})",
    "-> {}",
    "<text>{}</text>",
    "=== {} ===",
    ">> {}",
    "|{}|",
    "_{}_",
)


def composed(rng: Random, split: Split) -> tuple[str, str]:
    """Put a request together from parts; return it and the text to say."""
    lead = wording(rng, LEADING, split)
    order = f"{lead}{choose(rng, SAYS)} {choose(rng, WHAT)}".rstrip()
    kind = rng.random()
    if kind < 0.2:
        text = several_lines(rng)
        return order + choose(rng, HOW) + choose(rng, (":\n", ":\n\n", ":\n\n", "\n")) + text, text
    text = some_text(rng) if rng.random() < 0.85 else named.passage(rng)
    if kind < 0.5:
        shown = between_quotes(rng, text)
        if shown:
            return order + " " + shown + choose(rng, HOW) + (choose(rng, AFTER) if rng.random() < 0.25 else choose(rng, ("", "", ".", "!"))), text  # fmt: skip
    if kind < 0.6 and "\n" not in text:
        return text + choose(rng, ("\n", "\n\n", "\n\n")) + choose(rng, FIRST), text
    if kind < 0.7:
        fence = choose(rng, FENCES)
        if fence[0] not in text and fence[-1] not in text:
            return f"{order}{choose(rng, HOW)}: {fence.format(text)}", text
    if kind < 0.78 and text[-1:].isalnum():
        return f"{order} {text}{choose(rng, (' and nothing else', ', nothing else', ' and only that', ' and then stop', ', no other words', ' exactly like that', ' and no more'))}{choose(rng, ('', '.', '!'))}", text  # fmt: skip
    return order + choose(rng, HOW) + choose(
        rng, (": ", ": ", ": ", ":\n", " - ", " -> ", ":\n\n", "... ")
    ) + text, text


def between_quotes(rng: Random, text: str) -> str:
    """Write a text in quotes that don't occur in it; empty if there are none."""
    for _ in range(4):
        quote = choose(rng, QUOTES)
        if quote[0] not in text and quote[-1] not in text:
            return quote.format(text)
    return ""


AGAIN = lines("""
[Repeat|Say|Write|Give me] [that|it|your last answer|your last message|your answer|what you just said|what you said][ again| once more|][.|?|, please||]
[Can|Could|Would] you [repeat|say] [that|it|your answer|what you just said|your last message][ again| once more|][?||]
[What did you [just |]say|What was your [last |]answer|What was that|Come again|Once more|Say again|One more time][?||, please]
~I did not catch that, say it once more.
""")
MINE = lines("""
[Repeat|Say|Write|Quote|Echo] [my last message|what I just said|my message|what I just wrote|my last words|my previous message][.|?|, please||]
[What did I [just |]say|What was my last message|What did I just [write|ask|type]|What were my last words][?||]
[Can|Could] you [repeat|quote] [my last message|what I just said|my words][?||]
~Read my previous message back to me.
""")


def again(rng: Random, split: Split, between: Callable[[], Exchange]) -> Exchange:
    """Make any exchange, and a request to repeat what either side said last."""
    other = between()
    while other.tools or not other.messages[-1].get("learn", True):
        other = between()
    mine = rng.random() < 0.4
    said = other.messages[-2 if mine else -1]["content"]
    ask = expand(rng, wording(rng, MINE if mine else AGAIN, split))
    return Exchange([*other.messages, user(ask), assistant(said, THOUGHT)], topic=other.topic)


def single(rng: Random) -> Exchange:
    """Make a request to say one word, at times more than once."""
    text = (
        choose(
            rng, (choose(rng, [t for t in USUAL_TEXTS if " " not in t]), common_word(rng), coin(rng), word(rng))
        ).strip(".!")
        or "ok"
    )
    times = choose(rng, list(TIMES))
    pattern = choose(rng, SINGLE)
    quote = choose(rng, ("{}", "{}", '"{}"', "'{}'"))
    ask = expand(rng, pattern, t=quote.format(text), k=times)
    return Exchange([user(ask), assistant(" ".join([text] * (TIMES[times] if "{k}" in pattern else 1)), THOUGHT)])


def make(rng: Random, split: Split, most: int = 8) -> Exchange:
    """Make one request to say a text back."""
    if split != "held" and rng.random() < 0.08:
        return single(rng)
    if rng.random() < 0.08:
        ask, text = marked.asked(rng, split)
        return Exchange([user(ask), assistant(text, THOUGHT)])
    kind = rng.random()
    if kind < 0.22 and split != "held":
        ask, text = named.asked(rng)
        return Exchange([user(ask), assistant(text, THOUGHT)])
    if kind < 0.58:
        ask, text = composed(rng, split)
        ask = ask[0].upper() + ask[1:] if rng.random() < 0.7 and not ask.startswith(text) else ask
        return Exchange([user(ask), assistant(text, THOUGHT)])
    if split == "train" and rng.random() < 0.06:
        most = choose(rng, (12, 20, 30))
    text = some_text(rng, most) if rng.random() < 0.85 else named.passage(rng)
    if most > 8:
        text = " ".join(some_text(rng, 8) for _ in range(most // 6))
    shown = between_quotes(rng, text) if rng.random() < 0.45 else ""
    if shown:
        ask = expand(rng, wording(rng, QUOTED, split), q=shown)
    else:
        ask = expand(rng, wording(rng, BARE, split), t=text)
        if rng.random() < 0.12 and ": " in ask and ask.endswith(": " + text):
            ask = ask[: -len(text) - 1] + choose(rng, ("\n", "\n\n")) + text
    if not ask.startswith(shown or text):
        style = rng.random()
        if style < 0.15:
            ask = ask[0].lower() + ask[1:]
        elif style < 0.83:
            ask = ask[0].upper() + ask[1:]
    return Exchange([user(ask), assistant(text, THOUGHT)])
