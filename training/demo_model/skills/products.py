"""Products and exact quotients of whole numbers: small ones at once, others by parts, as one works them out on paper."""

# ruff: noqa: E501, RUF001 - phrases read best unbroken; signs are meant

from random import Random

from demo_model.skills.problems import ASK, END, GOODS, shown, some_things, two_people
from demo_model.text import Split, choose, expand, lines, wording

TIMES = lines("""
[What is|What's|what is|what's|whats|How much is|how much is|how much are|Calculate|Compute|Work out|Solve|Tell me|Evaluate|] {a} [x|*|×|times|multiplied by] {b}[?|.||]
{a}[*|x|×]{b}[=|?|=?||]
{a} [*|x|×|times] {b}[ =| = ?|?| is?| equals?|]
[Multiply|multiply|Please multiply|Can you multiply|Could you multiply] {a} [by|and|with] {b}[.|?||, please| for me]
[What is|What's|Find|Give me|Tell me|Compute|Calculate|I need] the product of {a} and {b}[?||.]
product of {a} and {b}
[How much|What] [do|does|will|would] {a} times {b} [make|give|be|come to|equal][?||]
[If I|When I] multiply {a} [by|and] {b}, what do I get?
[What do you get|What comes out] [if|when] you multiply {a} [by|with] {b}?
[Answer|Quick|Math|Maths|Question|Homework|Times table]: {a} [x|*|×|times] {b}[?||]
[Can you do|Do you know|Do|Could you work out] {a} [times|x|*|×] {b}[?|.||]
{a} [lots|groups|sets] of {b}[?||]
{a} times {b}[ pls| please|??|, please?|...||]
What does {a} [times|×|*] {b} [equal|make|give]?
[The answer to|The result of] {a} [×|*|times] {b} [is|is?|please]
~Please find out what {a} times {b} comes to.
~Now multiply the numbers {a} and {b}.
""")
# Of one number only: {a} is said by the words.
OFTEN: dict[int, list[str]] = {
    2: lines("""
[Double|double|Twice|twice] {b}[.|?||, please]
[What is|What's|How much is|Calculate|Tell me] [double|twice|the double of|two times] {b}[?||]
[I have|{w} has] {b} {n}, {x} has [twice as many|double that|double the amount|two times as many]. How many [{n} |]does {x} have[?||]
~Please make {b} twice as much. What is it?
"""),
    3: lines("""
[Triple|triple|Three times|Thrice] {b}[.|?||, please]
[What is|What's|How much is|Calculate] [triple|three times|the triple of] {b}[?||]
{w} has {b} {n}, {x} has [three times as many|triple that]. How many [{n} |]does {x} have[?||]
"""),
    4: lines("""
[What is|What's|How much is|Calculate|] [four times|quadruple] {b}[?||]
{w} has {b} {n}, {x} has four times as many. How many [{n} |]does {x} have[?||]
"""),
    7: ["How many days [are there in|are in|do] {b} weeks[?| have?||]", "[I am away|The trip takes|We stay] {b} weeks. How many days is that[?||]"],
    10: ["[What is|What's|How much is|] ten times {b}[?||]", "I have {b} ten-euro notes. How [much|many euros] is that[?||]"],
    12: ["How many [{n} |eggs |pieces |]are [there |]in {b} dozen[?||]", "How many months are [there |]in {b} years[?||]"],
}  # fmt: skip
# {a} groups of {b}.
EACH = lines("""
[I have|There are|We have|{w} has|I bought|{w} buys|We packed] {a} [boxes|bags|packs|baskets|rows|shelves|jars|cartons|crates|trays|bundles|piles|tables|drawers] [of|with] {b} {n}[ each| in each| in each of them|]. How many {n} [are there|is that|are that|in total|altogether|are there in all][?||]
[I have|There are|We have] {a} [boxes|bags|packs|baskets|rows|shelves|jars] and [each|each one|every one of them] [has|holds|contains] {b} {n}. [How many {n} is that|How many in total|How many {n} are there|Total][?||]
[Each|One|Every|A] [box|bag|pack|shelf|row|jar|crate|table|bus|room] [holds|has|contains|is for] {b} {n}. How many {n} [are in|fit in|are there in|do I have in|go into] {a} [of them|boxes|such boxes]?
[A|One|Each] {one} costs {b} [euros|dollars|pounds|cents|€|francs][,|.] [what|how much] do {a} [{one}s |]cost[?||]
[If one|If a|One] {one} [costs|is] {b} [euros|dollars|pounds|cents], [how much are|what do I pay for|what is the price of|how much is it for] {a}[?| of them?||]
[I buy|I bought|We need|{w} buys|{w} orders|I'll take] {a} {one}s [at|for] {b} [euros|dollars|pounds|cents] [each|apiece|a piece|per piece]. [What's the total|How much is that|What do I pay|How much does {w} pay|What does it cost in all|Total price][?||]
{a} {one}s at {b} [euros|dollars|pounds|cents] [each|apiece][, how much is that|, total|: what do I pay|][?||]
[What|How much] do {a} {one}s cost at {b} [euros|dollars|pounds] each[?||]
{w} [works|reads|sleeps|practises|runs|walks|drives|paints|studies] {b} [hours|pages|minutes|km|miles] [a|each|every|per] day[ for| over|. How many in] {a} days[?|. How many is that?|, how many in all?|. Total?]
{w} [earns|saves|spends|gets|pays] {b} [euros|dollars|pounds] [an hour|a day|a week|a month|each time]. How much is that [in|for|after] {a} [hours|days|weeks|months|times][?||]
[A|The|Each] [car|bus|table|room|boat|tent|team|class|train] [has|seats|takes|is for] {b} [people|seats|players|places|passengers]. How many [are that|is that|are there|fit] in {a} [of them|such ones][?||]
[Each|Every one] of [the |my |our |]{a} [children|friends|guests|pupils|players|neighbours|dogs|workers|cousins|pirates|nurses] [has|gets|brings|needs|ate|owns|carries|found|wants] {b} {n}. [How many {n} [is that|do they have|are there|do I need|together]|How many {n} in all|Total][?||]
{a} [children|friends|guests|pupils|players|neighbours|teams|farmers|shops|hens] [with|have|sell|own] {b} {n} [each|apiece]. [How many {n} [is that|are there|in all|altogether]|How many in total|Total][?||]
[{w}|A farmer|A baker|The shop|My boss] [fills|packs|sells|loads|makes|orders] {a} [boxes|bags|trays|crates|carts|jars|sacks|cases|buckets] [with|of] {b} {n} each. [How many {n} [is that|are there|in all]|How many in total][?||]
[There are|I see] {a} [tables|rows|teams|buses|tents|rooms] with {b} [people|seats|players|chairs|beds] each. How many [people|seats|players|chairs|beds] [are there|is that|in all|altogether][?||]
[My|The|A] garden has {a} rows [of|with] {b} [trees|plants|flowers|tulips|cabbages][ each|]. How many [are there|is that|in total][?||]
{a} [friends|children|people|guests|players] [get|eat|bring|need|have|carry] {b} {n} each. How many {n} [is that|are needed|in total|altogether|do we need][?||]
[The rent|The ticket|The course|One lesson|Each night|The hotel] is {b} [euros|dollars|pounds]. What [do I pay for|is it for|do] {a} [months|people|lessons|nights|days][?| cost?||]
~A farmer fills {a} crates with {b} melons each. How many melons is that?
~Each of {a} sailors has {b} coins. How many coins do they have in all?
""")
OVER = lines("""
[What is|What's|what is|what's|whats|How much is|how much is|Calculate|Compute|Work out|Solve|Tell me|Evaluate|] {a} [/|÷|:|divided by|over] {b}[?|.||]
{a}[/|÷|:]{b}[=|?|=?||]
{a} [/|÷|divided by] {b}[ =| = ?|?| is?| equals?|]
[Divide|divide|Please divide|Can you divide|Could you divide] {a} by {b}[.|?||, please| for me]
[What is|What's|Find|Give me|Tell me|Compute|Calculate] the quotient of {a} and {b}[?||.]
[How much|What] [do|does|will|would] {a} divided by {b} [make|give|be|come to|equal][?||]
[If I|When I] divide {a} by {b}, what do I get?
How [often|many times] does {b} [go into|fit into|fit in] {a}[?||]
[Answer|Quick|Math|Maths|Question|Homework]: {a} [÷|/|divided by] {b}[?||]
[Can you do|Do you know|Do|Could you work out] {a} [divided by|÷|/] {b}[?|.||]
[Split|split|Share|Cut] {a} [into|in] {b} [equal |]parts[.|?||, how much is one?]
{a} shared by {b}[?||]
{a} divided by {b}[ pls| please|??|, please?|...||]
~Please find out what {a} divided by {b} comes to.
~Now divide the number {a} by {b}.
""")
PARTS: dict[int, list[str]] = {
    2: lines("""
[Halve|halve|Half of|half of|Half] {a}[.|?||, please]
[What is|What's|How much is|Calculate|Tell me] [half of|the half of|one half of|half] {a}[?||]
[There are|I have|We have] {a} {n} and [half of them|half] are [red|gone|mine|broken|sold|new|eaten]. How many [is that|are that][?||]
{w} [has|had] {a} {n} and gives half [of them |]to {x}. How many does {x} get[?||]
~Please cut {a} into halves. How much is one?
"""),
    3: ["[What is|What's|How much is|] [a third|one third|the third part] of {a}[?||]", "[A third|One third] of [the |my |]{a} {n} [is|are] [red|broken|gone]. How many [is that|are that][?||]"],
    4: ["[What is|What's|How much is|] [a quarter|one quarter|a fourth|one fourth] of {a}[?||]", "[A quarter|One quarter] of [the |my |]{a} {n} [is|are] [blue|sold|missing]. How many [is that|are that][?||]"],
    5: ["[What is|What's|How much is|] [a fifth|one fifth] of {a}[?||]"],
    7: ["How many weeks are {a} days[?||]", "{a} days, how many weeks [is that|are that][?||]"],
    10: ["[What is|What's|How much is|] [a tenth|one tenth] of {a}[?||]"],
    12: ["How many dozen are {a} [eggs|{n}][?||]", "How many years are {a} months[?||]"],
}  # fmt: skip
SHARED = lines("""
[Share|Split|Divide|share|split|Distribute] {a} {n} [equally |evenly |fairly |][among|between] {b} [children|people|friends|kids|players|teams|families]. [How many does each get|How many for each|How many does everyone get|What does each one get][?||]
[I have|There are|We have|{w} has] {a} {n} [for|to share among|to divide among] {b} [children|people|friends|guests]. [How many does each get|How many for each|How many can each have][?||]
[I|We|{w}] [put|puts|pack|packed|sort] {a} {n} [into|in] {b} [equal |][boxes|bags|groups|rows|piles|jars|baskets|teams]. How many [{n} |][are in each|go into each|in one|per box|are in one of them][?||]
[A|One|Each] [box|bag|pack|table|car|row|page|shelf] [holds|takes|has room for|fits] {b} {n}. How many [boxes|bags|packs|tables|cars|rows|pages|shelves] [do I need for|are needed for|hold|for] {a}[ {n}|][?||]
{b} {one}s cost {a} [euros|dollars|pounds|cents]. [What does one cost|How much is one|What is the price of one|How much for one][?||]
[I paid|{w} paid|We paid] {a} [euros|dollars|pounds] for {b} {one}s. [What did one cost|How much was each|What did each cost][?||]
[A|The] bill of {a} [euros|dollars|pounds] is [shared|split|divided] [equally |][by|among|between] {b} [people|friends|guests]. [What does each pay|How much is that each|How much for each][?||]
{w} [reads|walks|drives|earns|saves|writes] {a} [pages|km|miles|euros|dollars] in {b} [days|hours|weeks][, the same each day|]. How many [is that|are that] [per|a|each] [day|hour|week][?||]
{b} [friends|people|children] share {a} {n}[ equally| fairly|]. [How many does each get|How many for each|How many does one get|Each gets how many][?||]
{b} [friends|players|pupils|farmers|pirates|neighbours|teams|cousins] [divide|split|share|distribute] {a} {n}[ fairly| equally| evenly|]. [How many [{n} |][does each one|does each of them|does one of them|does everybody] get|How many each][?||]
[{w}|A farmer|A baker|The shop|A teacher] [has|had|picked|made|brought] {a} {n} [and fills|for|and packs|to put into] {b} [boxes|bags|trays|crates|jars|sacks|cases|buckets|children]. [How many [{n} |][go into|are in] each|How many for each|How many per piece|How many in one][?||]
[How many|What number of] teams of {b} can {a} [players|people|children|students] [make|form|build][?||]
[A|The] [rope|road|plank|ribbon|film] [is|of] {a} [cm|metres|km|minutes] [is cut|divided|split] into {b} equal [parts|pieces]. How long is [one|each][?||]
[It takes|I need] {a} minutes for {b} [pages|rounds|laps|rooms]. How [long|many minutes] for one[?||]
~{b} sailors divide {a} coins fairly. How many coins does one of them get?
~A farmer has {a} melons for {b} crates. How many go into each crate?
""")
# A product with something before or after it.
MIXED = lines("""
{e} {a} [x|*|×|times] {b} [+|plus] {c}{f} ; +
{e} {c} [+|plus] {a} [x|*|×|times] {b}{f} ; +
{e} {a} [x|*|×|times] {b} [-|minus] {d}{f} ; -
[I buy|{w} buys|I bought] {a} {one}s at {b} [euros|dollars|pounds] each and a {two} for {c}. [What's the total|How much is that|What does it cost in all][?||] ; +
[I buy|{w} buys|I bought] {a} {one}s at {b} [euros|dollars|pounds] each and [get|have a voucher for] {d} off. [What do I pay|How much is that][?||] ; -
[I have|{w} has|There are] {a} boxes of {b} {n} and {c} [more|single ones|loose ones]. How many {n} [is that|are there|in all][?||] ; +
{a} [boxes|bags|packs|trays|rows|crates|baskets|cartons] [with|of] {b} {n}[ each| in each|][,|, and|, but|.] {d}[ of them|] [are broken|are missing|are bad|were sold|got lost|are rotten|are empty|are used up]. How many [are good|are left|are there|{n} are left|can I use|remain|are fine][?||] ; -
[I|We|{w}] [bought|baked|packed|ordered|got|made] {a} [boxes|bags|trays|rows|packs] of {b} {n} and [ate|sold|lost|gave away|used|broke] {d}[ of them|]. How many [{n} |][are left|remain|do we have|are there now][?||] ; -
{a} [boxes|bags|packs|rows|trays] [with|of] {b} {n}[ each|] and {c} [more|extra|on the table|loose|from yesterday]. How many [{n} |][is that|in all|are there][?||] ; +
[I had|{w} had|There were] {a} [boxes|bags|packs] of {b} {n}, {d} [were eaten|are gone|were sold|are broken|got lost]. How many are left[?||] ; -
""")
ROUND = (20, 30, 40, 50, 60, 70, 80, 90, 100)


def places(number: int) -> list[int]:
    """Split a number into its hundreds, tens and ones, without those that are zero."""
    return [part for part in (number // 100 * 100, number // 10 % 10 * 10, number % 10) if part]


def product(a: int, b: int) -> str:
    """Multiply: at once where the times table has it, otherwise place by place."""
    small, large = sorted((a, b), key=lambda one: (one > 12 and one not in ROUND, one))
    if max(a, b) <= 12 or small < 2 or small in (10, 100) or large in ROUND:
        return f"{a} × {b} = {a * b}"
    mine = [small] if small <= 12 or small in ROUND else places(small)
    pairs = [(one, other) for one in mine for other in places(large)]
    if len(pairs) == 1:
        return f"{a} × {b} = {a * b}"
    steps = [f"{one} × {other} = {one * other}" for one, other in pairs]
    return ", ".join([*steps, stepwise([one * other for one, other in pairs], "+" * (len(pairs) - 1))])


def stepwise(numbers: list[int], signs: str) -> str:
    """Add and subtract two numbers at a time, from the left to the right."""
    so_far, steps = numbers[0], []
    for sign, number in zip(signs, numbers[1:], strict=True):
        before, so_far = so_far, so_far + number if sign == "+" else so_far - number
        steps.append(f"{before} {sign} {number} = {so_far}")
    return ", ".join(steps)


def quotient(a: int, b: int) -> str:
    """Divide: at once where the times table has it, otherwise hundreds, tens and ones one after another."""
    whole, rest = divmod(a, b)
    more = f" remainder {rest}" if rest else ""
    parts = places(whole)
    if len(parts) < 2 or whole <= 12 or b == 1 or (b == 10 and not rest):
        return f"{a} ÷ {b} = {whole}{more}"
    steps = []
    for part in parts[:-1]:
        steps += [f"{b} × {part} = {b * part}", f"{a} - {b * part} = {a - b * part}"]
        a -= b * part
    steps += [f"{a} ÷ {b} = {parts[-1]}{more}", f"{' + '.join(map(str, parts))} = {whole}{more}"]
    return ", ".join(steps)


def _words(rng: Random, **numbers: int) -> dict[str, str]:
    """Fill the places that all of the questions have: numbers, things, people, prices."""
    spelled = 0.5 if rng.random() < 0.12 else 0.0
    (one, two), (w, x) = rng.sample(GOODS, 2), two_people(rng)
    said = {key: shown(rng, number, spelled if number < 100 else 0) for key, number in numbers.items()}
    return said | {"n": some_things(rng), "one": one, "two": two, "w": w, "x": x, "e": choose(rng, ASK), "f": choose(rng, END)}  # fmt: skip


def _factors(rng: Random) -> tuple[int, int]:
    """Draw two factors; the first is small or round."""
    kind = rng.random()
    if kind < 0.45:
        return rng.randint(0 if kind < 0.02 else 2, 12), rng.randint(1, 12)
    if kind < 0.52:
        return choose(rng, ROUND), rng.randint(2, 99)
    if kind < 0.9:
        return rng.randint(2, 9 if kind < 0.85 else 12), rng.randint(13, 99 if kind < 0.78 else 999)
    return rng.randint(13, 99), rng.randint(13, 99)


def multiplied(rng: Random, split: Split) -> tuple[str, str]:
    """Ask for a product, bare or in a story; return the question and the answer."""
    a, b = _factors(rng)
    kind = rng.random()
    if kind < 0.14:
        a = choose(rng, list(OFTEN))
        b = rng.randint(1, 99 if a < 10 else 12) if rng.random() < 0.9 else rng.randint(100, 499) if a < 7 else b
        pattern = wording(rng, OFTEN[a], split)
        squared = a == 2 and rng.random() < 0.15
        if squared and split != "held":
            a = b = rng.randint(2, 12)
            pattern = "[What is|What's|How much is|] [{b} squared|the square of {b}|{b} times itself|{b}²][?||]"
    elif kind < 0.55:
        pattern = wording(rng, EACH, split)
    else:
        a, b = (b, a) if rng.random() < 0.5 else (a, b)
        pattern = wording(rng, TIMES, split)
    asked = expand(rng, pattern, **_words(rng, a=a, b=b)).strip()
    return asked, product(b, a) if -1 < pattern.find("{b}") < pattern.find("{a}") else product(a, b)


def divided(rng: Random, split: Split) -> tuple[str, str]:
    """Ask for a quotient, bare or in a story; return the question and the answer."""
    b = rng.randint(2, 12) if rng.random() < 0.93 else choose(rng, (1, 20, 50, 100))
    kind = rng.random()
    whole = rng.randint(1, 12) if kind < 0.5 or b > 12 else rng.randint(13, 99 if kind < 0.85 else 499)
    whole = min(whole, 999 // b)
    told = rng.random()
    if told < 0.16:
        b = choose(rng, list(PARTS))
        whole = min(whole, 999 // b)
        pattern = wording(rng, PARTS[b], split)
    elif told < 0.5:
        pattern = wording(rng, SHARED, split)
    else:
        pattern = wording(rng, OVER, split)
    # What is left over is said only where numbers are bare.
    rest = rng.randint(1, b - 1) if told >= 0.5 and b > 1 and rng.random() < 0.08 else 0
    a = whole * b + rest
    return expand(rng, pattern, **_words(rng, a=a, b=b)).strip(), quotient(a, b)


def mixed(rng: Random) -> tuple[str, str]:
    """Ask for a product and something added to it or taken from it; return the question and the answer."""
    pattern, sign = choose(rng, MIXED).split(" ; ")
    a, b = rng.randint(2, 12), rng.randint(2, 12)
    c = rng.randint(1, 99)
    d = rng.randint(1, min(99, a * b))
    asked = expand(rng, pattern, **_words(rng, a=a, b=b, c=c, d=d)).strip()
    answer = f"{product(a, b)}, {stepwise([a * b, c if sign == '+' else d], sign)}"
    if pattern.startswith("{e} {c}"):
        answer = f"{product(a, b)}, {stepwise([c, a * b], sign)}"
    return asked, answer
