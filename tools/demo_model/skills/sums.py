"""Adding and subtracting whole numbers up to 999, digit by digit where there is a carry to think of."""

# ruff: noqa: E501, SIM102, SIM905 - phrases read best unbroken

from random import Random

from tools.demo_model.exchange import Exchange, assistant, user
from tools.demo_model.text import Split, expand, lines, number, wording

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

THINGS = (
    "apples pears coins books eggs stamps cards marbles cookies plums pencils tickets euros dollars points cats".split()
)

_UNITS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
_TENS = "x x twenty thirty forty fifty sixty seventy eighty ninety".split()


def spoken(value: int) -> str:
    """Write a number from 0 to 99 in English words."""
    if value < 20:
        return _UNITS[value]
    return _TENS[value // 10] + (f"-{_UNITS[value % 10]}" if value % 10 else "")


BIG = lines("""
[What is|What's|Calculate|Compute|How much is|Tell me||] {x} {o} {y}[?||]
{x}{s}{y}[=|?||]
[Multiply|Divide] {x} by {c}[.||]
[Add|Subtract] {x} and {y}[.||]
[What is|Find|Compute] the [sum|product|difference|quotient] of {x} and {y}[?||]
""")
LIMIT = "I can only add and subtract whole numbers up to 999."
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


def three(rng: Random, split: Split) -> Exchange:
    """Make a sum of three numbers."""
    most = rng.choice((9, 20, 99))
    a, b, c = (rng.randint(0, most) for _ in range(3))
    ask = expand(rng, wording(rng, THREE, split), a=a, b=b, c=c).strip()
    answer = f"{a} + {b} + {c} = {a + b + c}"
    return Exchange(
        [user(ask), assistant(answer, f"I work it out: {a} + {b} = {a + b}, {a + b} + {c} = {a + b + c}")], topic="sums"
    )


def beyond(rng: Random) -> Exchange:
    """Make a sum that is too hard: numbers above 999, or another operation."""
    x, y, c = rng.randint(1000, 10 ** rng.randint(4, 7)), rng.randint(0, 10 ** rng.randint(2, 6)), number(rng, 3)
    if rng.random() < 0.3:
        x, y = y, x
    pattern, sign, spoken_sign = rng.choice(BIG), rng.choice("+-"), rng.choice(("+", "-", "plus", "minus"))
    if "{s}" in pattern or "{o}" in pattern:
        if rng.random() < 0.5:
            x, y, sign, spoken_sign = (
                number(rng, 3),
                number(rng, 3),
                rng.choice("*/"),
                rng.choice(("*", "/", "times", "divided by", "x", "multiplied by")),
            )
    ask = expand(rng, pattern, x=x, y=y, c=c, s=sign, o=spoken_sign).strip()
    return Exchange([user(ask), assistant(LIMIT, "This is too hard for me.")], topic="sums")


def make(rng: Random, split: Split) -> Exchange:
    """Make one sum or difference; the answer repeats the sum, so that it can be checked at a glance."""
    if split == "train" and rng.random() < 0.07:
        return beyond(rng)
    if rng.random() < 0.08:
        return three(rng, split)
    most = rng.choice((9, 20, 99, 99, 99, 999, 999))
    a, b = rng.randint(0, most), rng.randint(0, rng.choice((9, most, most)))
    plus = rng.random() < 0.5
    ask = wording(rng, PLUS if plus else MINUS, split)
    if not plus and a < b and ("{n}" in ask or "bigger" in ask or "left" in ask):
        a, b = b, a
    words = max(a, b) < 100 and rng.random() < (0.2 if "plus" in ask or "and" in ask or "minus" in ask else 0)
    asked = expand(rng, ask, a=spoken(a) if words else a, b=spoken(b) if words else b, n=rng.choice(THINGS)).strip()
    if rng.random() < 0.1:
        asked = asked[0].upper() + asked[1:]
    answer = f"{a} + {b} = {a + b}" if plus else f"{a} - {b} = {a - b}"
    return Exchange([user(asked), assistant(answer, f"I work it out: {answer}")], topic="sums")
