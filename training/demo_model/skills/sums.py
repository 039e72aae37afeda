"""Sums of whole numbers up to 999: two at once, more step by step; products and quotients are in ``products``."""

# ruff: noqa: E501 - phrases read best unbroken

from random import Random

from demo_model.exchange import Exchange, assistant, user
from demo_model.skills.problems import (
    ASK,
    COMING,
    END,
    GOODS,
    LESS,
    MANY,
    MORE,
    MOVING,
    STEPS,
    shown,
    some_things,
    someone,
    two_people,
)
from demo_model.skills.products import divided, mixed, multiplied, stepwise
from demo_model.text import Split, choose, expand, lines, number, wording

PLUS = lines("""
[What is|What's|what is|what's|whats|Whats|How much is|how much is|Calculate|Compute|Work out|Solve|Tell me|Evaluate|] {a} [+|plus] {b}[?|.||]
[What is|What's|what is|what's|How much is|Calculate|Compute|] {a}+{b}[?||]
{a}+{b}[=|?|=?||]
{a} + {b}[ =| = ?|?|]
{a} plus {b}[?| is| equals| equals?| is?|]
[Add|add|Please add] {a} and {b}[.|| together|, please| for me]
[Add|add] {a} to {b}[.||]
[What is|What's|Find|Give me|Tell me|Compute|Calculate|what is] the sum of {a} and {b}[?||.]
sum of {a} and {b}
[Can you|Could you|Please|Can you please] [add {a} and {b}|compute {a} + {b}|tell me {a} plus {b}|calculate {a}+{b}][?||.]
[I have|I had] {a} {n} and [get|buy|find|got|bought|found] {b} more. How many [{n} |][do I have|are there|have I got][ now| in total|]?
[If I|When I] add {a} and {b}, what do I get?
What do you get [if|when] you add {a} [and|to] {b}?
[Answer|Quick|Math|Maths|Question]: {a} + {b}[?||]
[Do you know|Tell me] what {a} + {b} is[?||.]
The answer to {a} + {b} is?
What does {a} + {b} [equal|make|give]?
[Would you|Will you] work out {a} + {b} for me?
{a} and {b} make?
How many is {a} plus {b}?
Let's do some maths: {a} + {b}
What is the total of {a} and {b}?
[The |]total of {a} and {b}[?|.| is?||]
{a} [and|with] {b} [together|added|added together|in total|in all|combined][?| is?| makes?|.||]
[Put|Take] {a} and {b} together[.||]
[Increase|Raise] {a} by {b}[.||]
[How much|What] [do|does|will|would] {a} [and|plus|+] {b} [make|give|be|come to|equal][?||]
[Let's|Let us|I want to|We] [add|do some maths:|do maths:|calculate|compute|do the sum] {a} [+|plus] {b}[.|?||]
[I need|Give me|Tell me|I want|Find|What's] the [result|answer|value|outcome] of {a} [+|plus] {b}[.|?||]
[Result of|Answer to|Value of] {a} [+|plus] {b}[?||]
[Here is a sum|A sum|My sum|Sum|Maths question|Arithmetic]: {a} + {b}[?| = ?||]
{a} {n} and {b} {n} [are|make|is] how many[ {n}|][?||]
[There are|I see|We have] {a} {n} and {b} more {n}. How many [is that|in total|altogether|are there][?||]
{a}+{b}[ pls| please|??|, please?|...]
[what's|whats|what is|hey, what is|quick, what's|so what's|ok what is|and] {a} [plus|+] {b}[?||]
[Sum|sum|Sum up|Total|Tot up|Add up] {a} [and|,|+|with] {b}[.||?]
[add|Add] {b} [to|onto] {a}[.|?|, please| for me||]
[I spent|I paid|We sold|She walked|He read] {a} [and then |and ]{b}[.|,] [what's the total|how much is that|how much together|what does that make][?||]
[If you put|Put] {a} on top of {b}[, what is it?|, how many?|: how much is it?]
[Can you do|Do you know how to do|Please do|Do] {a} [+|plus] {b}[?|.||]
~I want to know what {a} plus {b} is.
~Can you find the sum of {a} and {b} for me?
~Now add the numbers {a} and {b}.
""")

MINUS = lines("""
[What is|What's|what is|what's|whats|How much is|how much is|Calculate|Compute|Work out|Solve|Tell me|Evaluate|] {a} [-|minus|−] {b}[?|.||]
[What is|What's|what is|what's|How much is|Calculate|Compute|] {a}-{b}[?||]
{a}-{b}[=|?|=?||]
{a} - {b}[ =| = ?|?|]
{a} minus {b}[?| is| equals| equals?| is?|]
[Subtract|subtract|Take|take|Please subtract] {b} from {a}[.||]
[Take away|take away] {b} from {a}[.||]
[What is|What's|Find|Tell me|Compute|Calculate|what is] the difference [between|of] {a} and {b}[?||.]
[Can you|Could you|Please|Can you please] [subtract {b} from {a}|compute {a} - {b}|tell me {a} minus {b}|calculate {a}-{b}][?||.]
[I have|I had] {a} {n} and [lose|give away|eat|sell|lost|gave away|ate|sold] {b}. How many [{n} |][are left|do I have left|remain]?
[If I|When I] take {b} from {a}, what [do I get|is left]?
What do you get [if|when] you subtract {b} from {a}?
[Answer|Quick|Math|Maths|Question]: {a} - {b}[?||]
[Do you know|Tell me] what {a} - {b} is[?||.]
The answer to {a} - {b} is?
What does {a} - {b} [equal|make|give]?
[Would you|Will you] work out {a} - {b} for me?
{a} take away {b}?
How many is {a} minus {b}?
Let's do some maths: {a} - {b}
What is left of {a} after taking {b}?
[What is|What's|How much is] left [of|from|if you start with] {a} [after taking|when you take away|if I remove|minus|less] {b}[?||]
{a} less {b}[?| is?||]
[Reduce|Decrease|Lower] {a} by {b}[.||]
[Remove|Deduct] {b} from {a}[.||]
{b} from {a}[?| is?| leaves?]
[Let's|Let us|I want to|We] [do some maths:|do maths:|calculate|compute|do the difference] {a} [-|minus] {b}[.|?||]
[I need|Give me|Tell me|I want|Find|What's] the [result|answer|value|outcome] of {a} [-|minus] {b}[.|?||]
[Result of|Answer to|Value of] {a} [-|minus] {b}[?||]
[Here is a sum|A difference|Maths question|Arithmetic]: {a} - {b}[?| = ?||]
[How much|What] [do|does|will|would] {a} [minus|-] {b} [make|give|be|come to|equal|leave][?||]
[There were|I had|We had] {a} {n} and {b} [are gone|were eaten|were sold]. How many [are left|remain][?||]
{a}-{b}[ pls| please|??|, please?|...]
[what's|whats|what is|hey, what is|quick, what's|so what's|ok what is|and] {a} [minus|-|take away|less] {b}[?||]
[how much|How much] is {a} [minus|less|take away] {b}[?||]
[subtract|Subtract|take|Take|deduct|Deduct] {b} [from|off] {a}[.|?|, please||]
[I had|There were|We started with] {a}[, then |, and ][spent|lost|used|gave away] {b}[.|,] [what's left|how much is left|how many remain|what remains][?||]
[Can you do|Do you know how to do|Please do|Do] {a} [-|minus] {b}[?|.||]
[What do I have left|What remains|How much remains] [of|from] {a} [when|if|after] [{b} are gone|I spend {b}|{b} go away][?||]
[By how much|How much] is {a} [more|bigger] than {b}[?||]
~I want to know what {a} minus {b} is.
~Can you find the difference of {a} and {b} for me?
~Now subtract the number {b} from {a}.
""")  # noqa: RUF001 - the minus sign is meant

# Too hard: {z} is above 999; {x} and {y} are, or have decimals, or stand around another sign; {c} is any number; so are
# percents {p}, products of {h} or {i} with three digits and {l} with two, and quotients of a round {k} above 999 by {g}.
BIG = lines("""
{e} {x} {o} {y}{f}
{e} {x}{s}{y}{f}
{e} {x} {s} {y}{f}
[What is|What's|Compute|] {c} [cubed|percent of {z}|% of {z}|factorial][?||]
[What is|What's|] [the square root of|the cube root of|the logarithm of|the factorial of] {c}[?||]
[What is|What's|] [half of|a third of|double|twice|the square of|{c} percent of] {z}[?||]
[What is|What's|what is|How much is|Calculate|Compute|Work out|] {p}[% of | percent of ]{c}[?||]
[What is|What's|How much is|Add|Take|] {p}[%| percent] [off|more than|on top of|less than] {c}[?||]
{c} [+|-|plus|minus] {p}%[?| =||]
[How many|What] percent [is {p} of {c}|of {c} is {p}|of {c} are {p}][?||]
[I get|There is|With] a {p}[%| percent] discount on {c} [euros|dollars]. [What do I pay|How much is it][?||]
[A|The] bill is {c} [euros|dollars] plus {p}[%| percent] tax. [What's the total|What do I pay][?||]
{e} -{c} [+|-|*|x|/|times|plus|minus] {d}{f}
{e} {c} [+|*|x|/|times|plus|minus] -{d}{f}
[What is|How much is|Compute|] [minus|negative] {c} [plus|minus|times|divided by|+] {d}[?||]
{c} - (-{d})[?| =||]
{e} {h} [*|x|×|times|multiplied by] {l}{f}
{e} {l} [*|x|×|times|multiplied by] {h}{f}
{e} {h} [*|x|×|times] {i}{f}
{h}[*|x]{l}[?|=||]
[Multiply|multiply] {h} [by|and|with] {l}[.||, please]
{l} [boxes|bags|crates] [with|of] {h} {n} each. How many {n} is that[?||]
{e} {k} [/|÷|divided by] {c}{f}
{k}[/|÷]{g}[?|=||]
[Divide|divide] {k} by {g}[.||, please]
[What is|What's|Calculate|Compute|How much is|Tell me||] {x} {o} {y}[?||]
{x}{s}{y}[=|?||]
[Multiply|Divide] {z} by {c}[.||]
[Add|Subtract] {x} and {y}[.||]
[What is|Find|Compute] the [sum|product|difference|quotient] of {z} and {c}[?||]
[Share|Split|Divide] {z} {n} [among|between] {c} [children|people|friends]. [How many does each get|How many for each][?||]
[If a|A|One] [ticket|book|pizza|lamp] costs {z} [euros|dollars][,|.] [what|how much] do {c} [cost|come to]?
({c} + {d}) [*|/|x] {c}[?| =|]
[What is|Compute|] {z} [times|multiplied by|divided by|over] {d} [plus|minus] {c}[?||]
[Double|Triple|Halve|Square] {z}[.|?||]
{w} works {z} hours a year for {d} years. How many hours is that?
[What is|How much is|] {c} [divided by|/|over] [0|zero][?||]
[What is|Solve|Find x:|] {d}x [+|-] {c} = {z}[?||]
""")  # noqa: RUF001 - the sign is meant
LIMIT = "That is too hard for me: I can only do sums with small whole numbers."
THREE = lines("""
[What is|What's|what's|Find|Compute|Give me||] the [sum|total] of {a}, {b} and {c}[?|.||]
sum of {a}, {b} and {c}
[Add|add|Add up|Sum|Sum up|Total|Please add] {a}, {b} and {c}[.||, please| together]
{a}[ + |+]{b}[ + |+]{c}[?|=| =||]
[What is|What's|what's|How much is] {a} [plus|+] {b} [plus|+] {c}[?||]
[How much are|What do] {a}, {b} and {c} [together|make together|in total][?||]
{a} and {b} and {c}[?|, together?| makes?]
~Could you tell me what {a}, {b} and {c} come to?
""")


def many(rng: Random, split: Split) -> Exchange:
    """Make a sum of three or four numbers, or a chain with a minus in it."""
    if rng.random() < 0.2:
        return _in_steps(rng, split)
    count = rng.choice((3, 3, 3, 4))
    most = choose(rng, (9, 20, 50, 99, 200)) if count == 4 else choose(rng, (9, 20, 99, 99, 200, 400))
    numbers = [rng.randint(0, most) for _ in range(count)]
    words = 0.5 if rng.random() < 0.08 else 0.0
    signs = ["+"] * (count - 1)
    if rng.random() < 0.2:
        signs = [choose(rng, "+-") for _ in signs]
        if sum(numbers[1:]) > numbers[0]:
            numbers[0] = min(300, sum(numbers[1:]) + numbers[0])
    parts = [shown(rng, term, words) for term in numbers]
    gap = choose(rng, ("{}", " {} ", " {} ")) if not words else " {} "
    spell = choose(rng, (("+", "-"), ("+", "-"), ("plus", "minus")))
    said = [spell["+-".index(sign)] for sign in signs]
    gap = " {} " if "plus" in spell else gap
    chain = parts[0] + "".join(gap.format(sign) + part for sign, part in zip(said, parts[1:], strict=True))
    ending = choose(rng, END)
    if "-" in signs:
        ask = f"{choose(rng, ASK)} {chain}{ending}"
    else:
        pattern = wording(rng, MANY if rng.random() < 0.6 else THREE, split)
        if "{a}" in pattern and count != 3:
            pattern = choose(rng, MANY[:4])
        listed = choose(
            rng, (", ".join(parts[:-1]) + " and " + parts[-1], " and ".join(parts), ", ".join(parts), " ".join(parts))
        )
        ask = expand(rng, pattern, a=parts[0], b=parts[1], c=parts[2], l=listed, p=chain, n=some_things(rng), w=someone(rng), e=choose(rng, ASK) + " ")  # fmt: skip
        if "{a}" not in pattern:
            ask += choose(rng, ("?", "?", ".", "", "!", ", please"))
    answer = stepwise(numbers, "".join(signs))
    return Exchange([user(ask.strip()), assistant(answer, f"I work it out: {answer}")], topic="sums")


def _in_steps(rng: Random, split: Split) -> Exchange:
    """Tell a story in which something goes and something comes."""
    pattern, signs = wording(rng, STEPS, split).split(" ; ")
    numbers = [rng.randint(5, 99), rng.randint(1, 40), rng.randint(1, 40)]
    if signs[0] == "-":
        numbers[1] = rng.randint(1, numbers[0])
    if signs[1] == "-":
        numbers[2] = rng.randint(1, numbers[0] + numbers[1] if signs[0] == "+" else max(1, numbers[0] - numbers[1]))
    if signs == "--" and sum(numbers[1:]) > numbers[0]:
        numbers[0] += sum(numbers[1:])
    words = 0.5 if rng.random() < 0.12 else 0.0
    a, b, c = (shown(rng, one, words) for one in numbers)
    ask = expand(rng, pattern, a=a, b=b, c=c, n=some_things(rng), w=someone(rng), **_moving(rng))
    answer = stepwise(numbers, signs)
    return Exchange([user(ask.strip()), assistant(answer, f"I work it out: {answer}")], topic="sums")


def beyond(rng: Random) -> Exchange:
    """Make a sum that is too hard: numbers above 999, decimals, or another operation."""
    big, y = rng.randint(1000, 10 ** rng.randint(4, 7)), rng.randint(0, 10 ** rng.randint(2, 6))
    first, second = (str(y), str(big)) if rng.random() < 0.3 else (str(big), str(y))
    pattern, sign, spoken_sign = choose(rng, BIG), choose(rng, "+-*/"), choose(rng, ("+", "-", "plus", "minus", "times", "divided by"))  # fmt: skip
    kind = rng.random()
    if ("{s}" in pattern or "{o}" in pattern) and kind < 0.5:
        first, second = f"{number(rng, 2)}.{rng.randint(1, 9)}", f"{number(rng, 2)}.{rng.randint(1, 99)}"
        if kind < 0.2:
            first, second, sign = str(number(rng, 2)), str(number(rng, 2)), choose(rng, "^%")
            spoken_sign = choose(rng, ("to the power of", "modulo", "^", "mod"))
    words = {"n": some_things(rng), "w": someone(rng), "e": choose(rng, ASK), "f": choose(rng, END), **_hard(rng)}
    ask = expand(rng, pattern, x=first, y=second, z=big, c=number(rng, 3), d=rng.randint(2, 99), s=sign, o=spoken_sign, **words).strip()  # fmt: skip
    return Exchange([user(ask), assistant(LIMIT, "This is too hard for me.")], topic="sums")


def _hard(rng: Random) -> dict[str, int]:
    """Draw small numbers that are too hard together."""
    percent = choose(rng, (5, 10, 15, 20, 25, 30, 50, 75, rng.randint(1, 99)))
    large = {
        "h": rng.randint(101, 999),
        "i": rng.randint(101, 999),
        "k": rng.randint(10, 99) * choose(rng, (100, 1000)),
    }
    return {**large, "p": percent, "l": rng.randint(13, 99), "g": rng.randint(2, 60)}


def story(rng: Random, split: Split, plus: bool, a: int, b: int) -> str:
    """Tell a small story whose answer is the sum or the difference of the numbers."""
    goods = rng.sample(GOODS, 2)
    names = two_people(rng)
    words = 0.25 if rng.random() < 0.3 else 0.0
    return expand(
        rng,
        wording(rng, MORE if plus else LESS, split),
        a=shown(rng, a, words),
        b=shown(rng, b, words),
        n=some_things(rng),
        w=names[0],
        x=names[1],
        one=goods[0],
        two=goods[1],
        t=choose(rng, (" ones", " ones", "")),
        come=choose(rng, COMING.split("|")),
        **_moving(rng),
    )


def _moving(rng: Random) -> dict[str, str]:
    """Draw what goes or comes where, and how one says that it does."""
    who, where, gone, came = (choose(rng, part.split("|")) for part in choose(rng, MOVING).split(" ; "))
    return {"who": who, "where": where, "gone": gone, "came": came}


def plain(rng: Random, plus: bool, a: int, b: int) -> str:
    """Ask for an expression with whatever people put around one."""
    words = 1.0 if rng.random() < (0.2 if max(a, b) < 100 else 0.08) else 0.0
    sign = choose(rng, (("+", "+", "plus", "and") if plus else ("-", "-", "minus", "−", "take away", "less")))  # noqa: RUF001 - a minus
    gap = " " if len(sign) > 1 or words or rng.random() < 0.7 else ""
    one, other = shown(rng, a, words), shown(rng, b, words)
    end = choose(rng, END)
    ask = f"{choose(rng, ASK)} {one}{gap}{sign}{gap}{other}{end}".strip()
    return f"add {one} and {other}{end.replace('=', '')}" if sign == "and" else ask


def make(rng: Random, split: Split) -> Exchange:
    """Make one sum; the answer repeats it, so that it can be checked at a glance."""
    which = rng.random()
    if which < 0.09 and split == "train":
        return beyond(rng)
    if which < 0.24:
        return many(rng, split)
    if which < 0.58:
        asked, answer = multiplied(rng, split) if which < 0.42 else divided(rng, split) if which < 0.53 else mixed(rng)
        return Exchange([user(asked), assistant(answer, f"I work it out: {answer}")], topic="sums")
    return _two(rng, split)


def _two(rng: Random, split: Split) -> Exchange:
    """Make a sum or a difference of two numbers."""
    most = choose(rng, (9, 20, 99, 99, 99, 999, 999))
    a, b = rng.randint(0, most), rng.randint(0, choose(rng, (9, most, most)))
    plus, kind = rng.random() < 0.5, rng.random()
    ask = wording(rng, PLUS if plus else MINUS, split)
    told = kind < 0.3 or "{n}" in ask or "bigger" in ask or "left" in ask
    if not plus and a < b and (told or rng.random() < 0.5):
        a, b = b, a
    if kind < 0.3:
        asked = story(rng, split, plus, a, b)
    elif kind < 0.6 and split != "held":
        asked = plain(rng, plus, a, b)
    else:
        often = 0.2 if max(a, b) < 100 else 0.08
        words = float(rng.random() < (often if "plus" in ask or "and" in ask or "minus" in ask else 0))
        asked = expand(rng, ask, a=shown(rng, a, words), b=shown(rng, b, words), n=some_things(rng)).strip()
    if rng.random() < 0.12:
        asked = asked[0].upper() + asked[1:]
    elif rng.random() < 0.06:
        asked = asked.lower()
    answer = f"{a} + {b} = {a + b}" if plus else f"{a} - {b} = {a - b}"
    return Exchange([user(asked), assistant(answer, f"I work it out: {answer}")], topic="sums")
