"""Sums in people's own words: small stories, amounts of money, several numbers, and parts put together."""

# ruff: noqa: E501, SIM905 - phrases read best unbroken

from random import Random

from demo_model.skills.attributes import KIN
from demo_model.skills.values import spoken
from demo_model.text import NAMES, NOUNS, choose, coin, lines

# Parts of a plain question; {e} is the expression.
ASK = ["", "", "", "What is", "What's", "what is", "whats", "How much is", "how much is", "Calculate", "Compute", "Work out", "Solve", "Tell me", "Evaluate", "Find", "Can you tell me what", "Do you know", "Please calculate", "Please work out", "I need to know", "I'd like to know", "Give me the answer to", "Give me the result of", "The result of", "Quickly:", "Quick math:", "Math question:", "Maths:", "calculate:", "compute:", "sum:", "Homework:", "Let's see:", "Help me with", "Could you calculate", "Can you do", "Could you add it up:", "Any idea what", "My kid asks:", "Test:", "Easy one:", "Try this:", "Next:", "Now", "And", "so", "ok,", "hey,", "Figure out", "Determine", "Crunch this:", "answer this:", "I can't work out", "My calculator is broken,", "Without a calculator,"]  # fmt: skip
END = ["", "", "", "", "?", "?", "?", ".", " =", "=", " = ?", "=?", "!", " please", ", please", " pls", "??", " thanks", ", thank you", " equals", " equals what?", " is", " is?", " makes", " gives?", " is how much?", " is what?", "...", " for me", ", just the number", " (just the answer)", " in total?", " total"]  # fmt: skip

# {a} and {b} are the numbers, {n} things, {w} and {x} people.
MORE = lines("""
{w} [has|had|owns|holds|collected|bought|found|picked|baked|saved|counted] {a} {n} [and|, and|. Then {w}|, then|, later] [gets|got|buys|bought|finds|found|receives|was given|picks up|wins] {b} more[.|. |,] [How many [{n} |][does {w} have|has {w}|are there|is that][ now| in total| altogether|]?|how many in all?|What's the total?|Total?]
{w} has {a} {n} and {x} has {b}[ {n}|]. How many [{n} |][do they have together|are there in total|do they have|is that in all|together][?||]
[I|We] [have|had|own|keep|bought|sold|ate|counted|planted|sent] {a} [red|old|small|big|new|] {n} and {b} [green|blue|other|new|bigger|more]{t}. [How many is that|How many in total|How many altogether|What's the total|How many are there|Sum][?||]
[There are|We count|I see] {a} [people|kids|passengers|guests|birds|cars|students] [on the bus|in the room|in the park|at the party|in the class|on the train] and {b} [more |others |]{come}. How many are [there|they] [now|then|altogether][?||]
[A|The|My] {one} [costs|is|was] {a}[ euros| dollars| pounds| cents] and [a|the|my] {two} [costs |is |was |]{b}. [What do I pay|How much is it|What's the total|How much together|How much for both|What do both cost|How much do I need][?| in total?| altogether?||]
[I|She|He|{w}] [walked|ran|drove|cycled|swam|read|worked|slept|waited] {a} [km|miles|pages|minutes|hours|metres] [yesterday|in the morning|on Monday|first] and {b} [today|in the evening|on Tuesday|after that|later]. [How many is that|How far in total|How much altogether|What's the sum|How many in all][?||]
[My|The] [box|bag|basket|shelf|jar|room|list] [has|holds|contains] {a} {n}[.|;|,] [I add|we put in|{w} adds|add] {b}[ more| {n}|]. How many [now|are in it|are inside|is that|then][?||]
[A|One] [team|class|group|farm|shop] [has|with] {a} [players|students|people|cows|workers], [another|the other|a second] [has |with |]{b}. [How many [together|in all|are there]|Sum|Total][?||]
[The temperature|The price|The score|My weight|The level] was {a} and [rose|went up|grew|increased] by {b}. [What is it now|How much is it now|Where is it now|And now][?||]
{w} is {a} years old. How old will {w} be in {b} years?
It is {a} and {b} [gets|are|is] added. [What's the result|Now][?||]
[If|When|Suppose] [I|you|we|{w}] [have|has|start with|starts with] {a} {n} and [add|get|gets|find|finds] {b}, how many [are there|is that|do we have][?||]
There [are|were] {a} {who} {where}[.|;|, and] [{b}|another {b}|{b} more|{b} new ones] {came}. How many [are there|are there now|{who} are {where} now|is that|are they altogether][?||]
{a} {who} [are|were] {where}. [Later|Then|In the evening|At noon|After lunch] {b} [more |others |]{came}. [How many now|How many {who} are there|How many is that|How many in all][?||]
[I|We|{w}] [had|has|have] {a} {n}. [Yesterday|Today|Then|Last week] [I|we|{w}] [got|bought|found|won|was given|baked|received|made|borrowed|picked] {b}[ more| new ones| others|]. How many [are there|is that|are they|{n} are there][ now| in total||][?||]
[My|The] {one} cost me {a} [euros|dollars|pounds] and [the|my] {two} cost [me |]{b}. [How much did I spend|What did I spend|How much was it in all|Total][?||]
~A farmer owns {a} {n} and buys {b} more at the market. How many does he own?
~{w} scored {a} points before lunch and {b} after it. What's the final score?
""")
LESS = lines("""
{w} [has|had|owns|baked|bought|collected] {a} {n} and [gives away|gave away|loses|lost|eats|ate|sells|sold|breaks|used|gives {x}|gave {x}] {b}[ of them|]. [How many [{n} |][are left|does {w} have left|remain|does {w} still have|has {w} now]|What's left|How many now][?||]
[I|We] [have|had|started with|own] {a} {n} and [gave away|lost|ate|sold|used|spent|broke|threw away] {b}[ of them|]. [How many [do I have|are left|remain|do we still have]|What's left|How many now][?||]
[There are|There were|We have] {a} [people|kids|passengers|guests|birds|cars|students] [on the bus|in the room|in the park|at the party|on the train][ and|.|,] {b} [leave|go home|get off|left|went away|fly away]. How many [are left|stay|remain|are still there][?||]
[I|She|{w}] [had|has] {a} [euros|dollars|pounds|cents] and [spent|spends|paid|pays|lent {x}] {b}[ of it|]. [How much is left|What's left|How much remains|What remains|How much does that leave][?||]
[A|The|My] {one} costs {a} [euros|dollars|pounds]. I [pay|have|get] {b} [less|off]. [What do I pay|How much is it|What's the price][?||]
[The|My] [book|film|trip|race|road|list] [has|is|takes] {a} [pages|minutes|km|miles|points] and I [read|saw|did|drove|finished] {b}. How many are left[?||]
{w} is {a} and {x} is {b}. [How much older is {w}|What's the age difference|By how many years is {w} older][?||]
{w} has {a} {n}, {x} has {b}. How many more does {w} have[?||]
[The temperature|The price|The score|The level] was {a} and [fell|dropped|went down|sank|decreased] by {b}. [What is it now|How much is it now|Where is it now|And now][?||]
[I need|We need|The goal is] {a} {n} and [we have|I have] {b}. How many [are missing|more do I need|more][?||]
[If|When|Suppose] [I|you|we|{w}] [have|has|start with|starts with] {a} {n} and [lose|loses|give away|remove|eat] {b}, how many [are left|remain|stay][?||]
[The|A] [box|bag|basket|shelf|jar] [has|holds|contains] {a} {n}[.|;|,] [I take out|{w} takes|remove|we take] {b}[ of them|]. How many [are still in it|are left|remain][?||]
There [are|were] {a} {who} {where}[.|;|, and|, but] {b}[ of them|] {gone}. How many [are left|are there now|{who} are still {where}|remain|are still there|are here][?||]
[Of|Out of|From] {a} {who} {where}[,|] {b} {gone}. How many [are left|are not|remain|stay|{who} are still there][?||]
{a} {who} [are|were] {where}. [Today|Now|Then|Later|This morning] {b}[ of them|] {gone}. [How many are still there|How many are left|How many remain|How many {who} now|And how many are there now][?||]
{b} of [my|our|the] {a} {who} {gone}. How many [are left|do I still have|remain|are there still][?||]
[I|We|{w}] [had|has|have] {a} {n}. {b}[ of them|] [are broken|were stolen|were eaten|are gone|got lost|are lent to {x}|were sold|went to {x}|fell down|are missing|are used up]. How many [are left|remain|are still there|good ones are there][?||]
[I|{w}] [gave|gives|hands over|handed over] [the cashier |the seller |]{a} [euros|dollars|pounds] for [a|the] {one} that costs {b}[ euros| dollars| pounds|]. [How much change|What do I get back|How much comes back|What's the change|How much is left][?||]
[A|The] {one} [is|costs] {b} [euros|dollars|pounds][ and I pay with|. I pay with|. I have|, I gave] [a {a} note|{a}|a {a} bill]. [How much change|What do I get back|How much comes back|What's the change][?||]
[I|We|{w}] [paid|gave|had] [a {a} note|a {a} bill|{a} euros|{a} dollars][,| and|.] [it|the {one}|everything|lunch|the taxi] [was|cost|costs] {b}. [How much change do I get|How much change|What's the change|What is left|How much do I get back][?||]
[I|{w}] [pay|pays|paid] with a {a} [euro|dollar] note and it costs {b}. [How much change|What do I get back|How much comes back|What's the change][?||]
~A farmer owns {a} {n} and sells {b} at the market. How many does he keep?
~{w} planned {a} lessons and finished {b}. How many are still to do?
""")
# Who is where, how one says that some go, and that some come.
MOVING = lines("""
children|pupils|students|kids ; in my class|at school|in the classroom|in the group|in our course ; are at home sick|are ill|are absent|have left early|went home|are missing today|moved away|stayed at home|have the flu|are on a trip ; joined|have joined|came in|came late|are new|arrived|moved here
workers|people|colleagues|employees|nurses ; in our office|at work|in the company|in my team|in the department|on the shift ; are on holiday|called in sick|quit|have retired|work from home today|were laid off|are on leave|have gone home|are at lunch ; were hired|joined|started today|came back|came over to help
passengers|people|tourists|travellers ; on the bus|on the train|on the boat|in the tram|on the plane|on the ferry ; get off|got off|left at the next stop|step out|have got out|leave ; get on|got on|climb in|board|came on board|step in
guests|people|visitors|friends ; at the party|in the restaurant|in the hotel|at the wedding|in the museum|in the cinema ; have left|went home|cancelled|leave early|checked out|can't come|did not show up|walk out ; arrive|checked in|came later|have come|walk in|sit down
birds|ducks|pigeons|sparrows|crows ; on the roof|on the lake|in the tree|on the wire|in the garden ; fly away|flew away|have flown off|leave|took off|swam away ; land|fly in|come|join them|flew over
cows|sheep|goats|horses|hens ; on the farm|in the field|in the barn|on the meadow ; were sold|ran away|got out|are sick|were lent to a neighbour|have died|broke out ; were born|were bought|came back|arrived
cars|bikes|vans|taxis|scooters ; in the car park|in the garage|in the street|at the station ; drive away|drove off|were towed away|have left|are being repaired|were rented out|were stolen ; arrive|drive in|came|were parked there|are delivered
books|films|games|magazines ; on the shelf|in the library|in my room|in the box ; are lent out|were borrowed|are borrowed|were given away|were sold|got lost|are missing|were thrown away ; were returned|were bought|were added|came back|were given to us
eggs|cakes|rolls|buns|cookies|sandwiches|plums ; in the box|in the fridge|on the plate|on the table|in the basket|in the shop ; were eaten|got eaten|are broken|were sold|went bad|are gone|fell on the floor|were used|are mouldy ; were added|were baked|came out of the oven|were bought|were put there
cups|plates|glasses|bottles|lamps|chairs|tables ; in the kitchen|in the cupboard|in the hall|in the cellar|on the table ; broke|are broken|are dirty|were sold|fell down|were thrown away|are cracked|were lent to the neighbours|have been given away ; were bought|were brought|came back|are new|were delivered|were added
tickets|seats|rooms|tables|places ; in the theatre|on the train|in the hotel|for the show ; are taken|are sold|were booked|are reserved|are already gone|have been cancelled ; were added|became free|were opened
players|runners|swimmers|dancers|singers ; in the team|in the race|in the club|in the choir|on the field ; are injured|gave up|dropped out|left the club|are ill|were sent off|quit ; joined|came in|signed up|are new
trees|flowers|plants|roses ; in the garden|in the park|on the balcony|in the greenhouse ; were cut down|died|dried up|fell in the storm|were sold|froze|were picked ; were planted|were added|grew|were bought
letters|mails|messages|parcels|orders ; in my inbox|in the box|on the desk|in the office ; were deleted|were answered|were sent out|have been returned|are lost|were delivered|were cancelled ; arrived|came in|were added|came today
""")
# Two things happen; the last part says which is taken away.
STEPS = lines("""
There [are|were] {a} {who} {where}. {b} {gone} and {c} {came}. How many [are there now|are there|is that][?||] ; -+
There [are|were] {a} {who} {where}. {b} {came}, then {c} {gone}. How many [are left|are there now|remain][?||] ; +-
{a} {who} [are|were] {where}. First {b} {gone}, [then|later] {c} more {gone}. How many [are left|remain][?||] ; --
[I|{w}] [have|had|has] {a} {n}, [get|got|gets|buy|bought|find|found] {b} [more |]and [give away|gave away|lose|lost|eat|sold|sell] {c}. How many [now|are left|is that][?||] ; +-
[I|{w}] [have|had|has] {a} {n}, [lose|lost|gave away|sold|ate|broke] {b} and [get|got|buy|bought|found] {c}[ new ones| more|]. How many [now|are there|is that][?||] ; -+
[I have|I had|{w} has] {a} [euros|dollars|pounds], [spend|spends|spent] {b} on [food|books|a ticket] and {c} on [a toy|drinks|a taxi]. How much is left[?||] ; --
[What is|What's|] {a} [plus|+] {b} [minus|-] {c}[?||] ; +-
[What is|What's|] {a} [minus|-] {b} [plus|+] {c}[?||] ; -+
[Start with|Take] {a}, add {b}, [take away|subtract|remove] {c}[. What do you get?|.||?] ; +-
~A baker has {a} {n}, makes {b} more and sells {c}. How many does he keep? ; +-
""")
# Three and four numbers; {l} is the list of them, {p} with pluses.
MANY = lines("""
{p}
{e}{p}
[add|sum|total|sum up|add up|tot up|Add|Sum|Total|Add together] {l}
[What is|What's|Find|Give me|Compute|] the [sum|total] of {l}
[I bought|We sold|I spent|I paid|I ate|We counted|She read|He ran] {l} {n}. [How many in total|What's the total|Total|How many altogether|Sum]
[Scores|Prices|Numbers|My expenses|The bills|Points|Items]: {l}. [Total|What's the sum|Add them up|Sum|How much in all]
[{w} has|There are] {l} {n}[.| in the boxes.] [How many together|How many in all]
{l} [together|in total|added up|all together|summed]
[If I add|Adding] {l}[,|:] [what do I get|the result is|I get]
~Please find out what {l} come to
""")
COMING = "get on|join|come in|arrive|sit down|walk in"
GOODS = "shirt|book|pizza|coffee|ticket|lamp|hat|sandwich|bike|game|cake|pen|toy|bag|chair|phone|plant|knife".split("|")
THINGS = "apples pears coins books eggs stamps cards marbles cookies plums pencils tickets euros dollars points cats sweets balls flowers oranges bottles stickers shells toys bananas cups boxes photos sheep chairs bricks tomatoes".split()
_PLURALS = [
    f"{noun}s"
    for noun in NOUNS
    if noun[-1] not in "sxyhf" and noun not in ("sheep", "fish", "data", "mouse", "goose", "rice")
]
_KIN = KIN[:-4]


def some_things(rng: Random) -> str:
    """Draw what is counted: often something of the list, otherwise anything."""
    return choose(rng, THINGS) if rng.random() < 0.5 else choose(rng, _PLURALS)


def someone(rng: Random) -> str:
    """Draw who counts: a name, known or invented, or a relative."""
    kind = rng.random()
    return choose(rng, NAMES) if kind < 0.7 else f"my {choose(rng, _KIN)}" if kind < 0.87 else coin(rng, 2).capitalize()


def two_people(rng: Random) -> tuple[str, str]:
    """Draw two different people."""
    one, other = someone(rng), someone(rng)
    return (one, other) if one != other else two_people(rng)


def shown(rng: Random, value: int, words: float) -> str:
    """Write a number in figures, or with the given chance in words, with the hyphens and the "and" or without."""
    if rng.random() >= words or not 0 <= value < 1000:
        return str(value)
    said, kind = spoken(value), rng.random()
    return (
        said if kind < 0.6 else said.replace("-", " ") if kind < 0.85 else said.replace("-", " ").replace(" and ", " ")
    )
