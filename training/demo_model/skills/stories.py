"""Longer answers: counting, lists, spelling, and simple stories."""

# ruff: noqa: E501, SIM905 - phrases read best unbroken

from random import Random

from demo_model.exchange import Exchange, assistant, user
from demo_model.skills.values import spoken
from demo_model.text import ADJECTIVES, NAMES, NOUNS, Split, choose, coin, common_word, expand, lines, wording

COUNT = lines("""
[Count|count|Please count|Can you count|Now count] from {a} to {b}[.|?||]
[Count|count|Please count] from {a} [up to|through|until] {b}[.||]
[Count|List|Write|Say|Print|Give me|Show me] [the|all|all the|all of the] numbers from {a} to {b}[.||]
[List|Write|Print|Output] [numbers|integers] from {a} to {b}[.||]
[Count|count] {a} to {b}[.||]
[Numbers|The numbers] {a} to {b}[.||]
Would you count for me, beginning at {a} and ending at {b}?
Enumerate the numbers {a} to {b}.
[Begin|Start] at {a} and count [up |]to {b}[.||]
~Now count the numbers from {a} to {b} for me.
""")
COUNT_TO = lines("""
[Count|count|Please count|Can you count|Now count|Could you count] to {b}[.|?|| please| for me|, please]
[Count up|count up] to {b}[.||]
Would you count up to {b} for me?
[Let's|Let us|I want you to|I want to hear you|Start to] count to {b}[.||]
~Count all the way to {b}.
""")
COUNT_DOWN = lines("""
[Count|count|Please count] down from {b}[.| to {a}| to {a}.|]
[Count|count|Please count] backwards from {b} to {a}[.||]
Do a countdown from {b} to {a}.
[Do|Start|Give me] a countdown [from {b} to {a}|from {b}][.||]
~Now count backwards from {b} to {a} for me.
""")

KINDS = {
    "fruit|fruits|kinds of fruit": "apple, pear, plum, cherry, grape, lemon, orange, melon, peach, fig",
    "color|colors|colour|colours": "red, blue, green, yellow, orange, purple, pink, brown, black, white",
    "animal|animals|kinds of animal": "dog, cat, horse, cow, sheep, fox, bear, wolf, lion, mouse",
    "vegetable|vegetables": "carrot, potato, onion, tomato, leek, bean, pea, cabbage, garlic, spinach",
    "planet|planets": "Mercury, Venus, Earth, Mars, Jupiter, Saturn, Uranus, Neptune",
    "day|days|days of the week|weekdays": "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday, Sunday",
    "month|months|months of the year": "January, February, March, April, May, June, July, August, September, October",
    "city|cities": "London, Paris, Rome, Berlin, Madrid, Tokyo, Cairo, Lima, Oslo, Delhi",
    "country|countries": "France, Italy, Spain, Japan, Peru, Kenya, Canada, Norway, India, Egypt",
    "name|names|first names": "Ada, Alan, Grace, Linus, Mary, John, Emma, Omar, Yuki, Ana",
    "drink|drinks|beverages": "water, tea, coffee, milk, juice, cocoa, lemonade, cider, soda, broth",
    "tree|trees|kinds of tree": "oak, pine, birch, maple, willow, cedar, elm, beech, ash, palm",
    "bird|birds": "robin, eagle, owl, sparrow, crow, duck, goose, swan, parrot, penguin",
    "sport|sports": "football, tennis, rugby, hockey, golf, rowing, chess, boxing, judo, sailing",
    "food|foods|things to eat": "bread, cheese, rice, soup, pasta, salad, eggs, pizza, honey, butter",
    "letter|letters|letters of the alphabet": "a, b, c, d, e, f, g, h, i, j",
    "instrument|instruments|musical instruments": "piano, guitar, violin, flute, drum, trumpet, harp, cello, oboe, organ",
    "word|words|random words": "apple, river, lamp, cloud, stone, garden, bread, winter, music, ladder",
}
_KIND_LIST = [(names.split("|"), items.split(", ")) for names, items in KINDS.items()]
_COUNTS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]

LIST = lines("""
[List|Name|Give me|Tell me|Show me|Write|Write down|Please list|Please name|Say|list|name] {c} {k}[.|, please||| please]
[Can you|Could you] [list|name|give me|tell me] {c} {k}[?||]
[Give me|Make|Write|I want|I need] a list of {c} {k}[.||]
[What are|Do you know] {c} {k}[?||]
Would you mention {c} {k}?
[Mention|Think of|Come up with|Enumerate|I need|I want|I'd like|Pick|Say] {c} {k}[.||]
[What would be|Which are|Any] {c} {k}[?||]
~Could you give me the names of {c} {k}?
""")

SPELL = lines("""
[Spell|spell|Please spell|Can you spell|Spell out] [{w}|"{w}"|the word {w}|the word "{w}"][.|?||]
How do you spell [{w}|"{w}"|the word {w}][?||]
Would you spell {w} for me?
~Now spell {w} out for me.
""")

STORY = lines("""
[Tell me|tell me|Please tell me|Tell|Write|Write me|Make up|Give me|Can you tell me|I want] a [long |short |nice |funny |little |bedtime |simple |very long ||]story about [a|the|an] {n}[.|?|!||]
[Tell me|Write|Tell|Write me] a [long |short |nice |||]story about {n}s[.||]
[Tell me|Write|Tell|Write me|Make up] a [long |short |nice |||]story about a [{a} {n}|{n} and a {m}|{n} called {p}|{n} named {p}][.||]
[Tell me|tell me|Please tell me|Tell|Write|Give me|Can you tell me|I want] a [long |short |nice |funny |bedtime |very long ||]story[.|?|!||, please]
[A story|Story][ please| about a {n}|][.|!||]
[Write|Tell] [something long|a tale|a long tale|a fairy tale][.| about a {n}|]
Once more a tale, this time about a {n}!
I feel like hearing a story about a {n}.
[Do you know|Know] [a|any] [story|stories|tale][ about a {n}|][?||]
[I feel like|I'm in the mood for|How about] a [long |short |]story[ about a {n}|][.|?||]
~Now for a story about a {n}, please.
""")

_OPEN = lines("""
Once upon a time there was a {a} {n} called {p}.
Long ago, in a {b} {place}, there lived a {a} {n} called {p}.
There was once a {a} {n} whose name was {p}.
""")
_HOME = lines("""
{p} lived [near|beside|behind] a {b} {place}.
Every morning {p} went to the {place} and looked at the [sun|sky|river|trees].
{p} had a [small|warm|quiet] home [near the {place}|under a tree|on a hill].
{p} was [happy|kind|clever|brave], but also a little [lonely|shy|hungry|sleepy].
Everyone in the {place} knew {p} and liked the {n} very much.
""")
_EVENT = lines("""
One day {p} found a {b} {thing} on the way to the {place}.
Then {p} met {q}, a {b} {m} who was looking for a {thing}.
"Where are you going?" asked {q}. "I am going to the {place}," said {p}.
"Can you help me?" asked {q}. "Of course I can," said {p}.
Together they walked [for a long time|all day|through the night] until they saw the {place}.
Suddenly it began to [rain|snow], and they had to hide under a tree.
{q} gave {p} a {thing}, and {p} said thank you.
They looked for the {thing} behind the {place}, but they could not find it.
The {thing} was [hidden|waiting] under a {b} stone near the {place}.
{p} was [afraid|tired|hungry], but {q} told a joke and they both laughed.
At night they sat by the fire and talked about the {thing}.
In the morning the {place} was [quiet|bright|full of light], and they went on.
An old {m} told them the way to the {place}.
They shared some [bread|apples|soup|honey] and looked at the stars.
{p} climbed a [tree|hill|wall] to see the {place} from above.
Then they crossed a [bridge|river|field] and came to a {place}.
""")
_CLOSE = lines("""
In the end {p} and {q} carried the {thing} home, and everyone was glad.
From that day on, {p} and {q} were the best of friends.
And so {p} learned that a friend is worth more than any {thing}.
They all lived happily ever after.
The {n} slept well that night and dreamed of the {place}.
""")
_PLACES = "forest village garden valley castle river mountain orchard lake beach town market meadow island".split()
_PRIZES = "key lamp book map ring apple bell coin crown letter basket mirror drum kite".split()
_BEASTS = "fox bear owl mouse rabbit cat dog frog turtle goat bird wolf hedgehog horse".split()


def count(rng: Random, split: Split) -> Exchange:
    """Make a request to count, up or down; mostly short, at times several hundred numbers long."""
    kind = rng.random()
    if kind < 0.15:
        b = rng.randint(2, choose(rng, (10, 10, 20, 40)))
        a = choose(rng, (1, 0, 1, rng.randint(0, b - 1)))
        ask = wording(rng, COUNT_DOWN, split)
        a = a if "{a}" in ask else 1
        asked = expand(rng, ask, a=a, b=b)
        a = a if f"to {a}" in asked else 1
        numbers = list(range(b, a - 1, -1))
    elif kind < 0.45:
        b = choose(rng, (3, 5, 10, 10, 20, 30, 50, 100, rng.randint(2, 40), rng.randint(2, 150)))
        asked, numbers = (
            expand(rng, wording(rng, COUNT_TO, split), b=spoken(b) if b < 100 and rng.random() < 0.2 else b),
            list(range(1, b + 1)),
        )
    else:
        a = choose(rng, (1, 1, 1, 0, rng.randint(0, 120)))
        b = a + choose(rng, (4, 9, 9, 19, 49, rng.randint(1, 30), rng.randint(1, 150)))
        if a <= 1:
            b = max(2, b + (1 - a) - (1 if rng.random() < 0.1 else 0))
        words = b < 100 and rng.random() < 0.1
        said = spoken if words else str
        asked, numbers = expand(rng, wording(rng, COUNT, split), a=said(a), b=said(b)), list(range(a, b + 1))
    answer = ", ".join(str(value) for value in numbers)
    return Exchange([user(asked), assistant(answer, f"I count from {numbers[0]} to {numbers[-1]}.")])


def listing(rng: Random, split: Split) -> Exchange:
    """Make a request to list a few things of one kind, always the same ones in the same order."""
    names, items = choose(rng, _KIND_LIST)
    amount = rng.randint(1, len(items))
    name = names[0] if amount == 1 and names[0] not in ("color", "colour") else choose(rng, names[1:])
    if amount == 1:
        name = names[0]
    shown = choose(rng, (str(amount), _COUNTS[amount]))
    if amount == 1:
        shown = choose(rng, ("a", "one", "1"))
    elif amount == 5 and rng.random() < 0.5:
        shown = choose(rng, ("some", "a few"))
    asked = expand(rng, wording(rng, LIST, split), c=shown, k=name)
    return Exchange([user(asked), assistant(", ".join(items[:amount]), f"I list {amount} of them.")])


def spelling(rng: Random, split: Split) -> Exchange:
    """Make a request to spell a word with dashes."""
    word = choose(rng, (choose(rng, NOUNS), choose(rng, ADJECTIVES), coin(rng), choose(rng, NAMES), common_word(rng)))
    asked = expand(rng, wording(rng, SPELL, split)).replace("{w}", word)
    return Exchange([user(asked), assistant("-".join(word), "I write its letters one by one.")])


def story(rng: Random, split: Split) -> Exchange:
    """Make a request for a story, with a story of some 80 to 400 tokens about what was asked."""
    hero, other = choose(rng, (*NOUNS, *_BEASTS, *_BEASTS)), choose(rng, _BEASTS)
    if rng.random() < 0.15:
        hero = coin(rng)
    name = choose(rng, NAMES)
    asked = expand(rng, wording(rng, STORY, split), n=hero, m=other, p=name, a=choose(rng, ADJECTIVES))
    if hero not in asked:
        hero = choose(rng, _BEASTS)
    if name not in asked:
        name = choose(rng, NAMES[:60])
    values = {
        "n": hero, "m": other, "p": name, "q": choose(rng, [n for n in NAMES[:60] if n != name]),
        "place": choose(rng, _PLACES), "thing": choose(rng, _PRIZES),
    }  # fmt: skip
    size = 2 if "short" in asked or "little" in asked else rng.randint(7, 11) if "long" in asked else rng.randint(3, 7)
    told = [
        choose(rng, _OPEN),
        *rng.sample(_HOME, 1 + (size > 4)),
        *rng.sample(_EVENT, size),
        *rng.sample(_CLOSE, 1 + (size > 3)),
    ]
    text = " ".join(expand(rng, part, a=choose(rng, ADJECTIVES), b=choose(rng, ADJECTIVES), **values) for part in told)
    return Exchange([user(asked), assistant(text, f"I tell a story about a {hero}.")])
