"""Sums in people's own words: small stories, amounts of money, several numbers, and parts put together."""

# ruff: noqa: E501, SIM905 - phrases read best unbroken

from tools.demo_model.text import lines

# Parts of a plain question; {e} is the expression.
ASK = ["", "", "", "What is", "What's", "what is", "whats", "How much is", "how much is", "Calculate", "Compute", "Work out", "Solve", "Tell me", "Evaluate", "Find", "Can you tell me what", "Do you know", "Please calculate", "Please work out", "I need to know", "I'd like to know", "Give me the answer to", "Give me the result of", "The result of", "Quickly:", "Quick math:", "Math question:", "Maths:", "calculate:", "compute:", "sum:", "Homework:", "Let's see:", "Help me with", "Could you calculate", "Can you do", "Could you add it up:", "Any idea what", "My kid asks:", "Test:", "Easy one:", "Try this:", "Next:", "Now", "And", "so", "ok,", "hey,", "Figure out", "Determine", "Crunch this:", "answer this:", "I can't work out", "My calculator is broken,", "Without a calculator,"]  # fmt: skip
END = ["", "", "", "", "?", "?", "?", ".", " =", "=", " = ?", "=?", "!", " please", ", please", " pls", "??", " thanks", ", thank you", " equals", " equals what?", " is", " is?", " makes", " gives?", " is how much?", " is what?", "...", " for me", ", just the number", " (just the answer)", " in total?", " total"]  # fmt: skip

# {a} and {b} are the numbers, {n} things, {w} and {x} people.
MORE = lines("""
{w} [has|had|owns|holds|collected|bought|found|picked|baked|saved|counted] {a} {n} [and|, and|. Then {w}|, then|, later] [gets|got|buys|bought|finds|found|receives|was given|picks up|wins] {b} more[.|. |,] [How many [{n} |][does {w} have|has {w}|are there|is that][ now| in total| altogether|]?|how many in all?|What's the total?|Total?]
{w} has {a} {n} and {x} has {b}[ {n}|]. How many [{n} |][do they have together|are there in total|do they have|is that in all|together][?||]
[I|We] [have|had|own|keep|bought|sold|ate|counted|planted|sent] {a} [red|old|small|big|new|] {n} and {b} [green|blue|other|new|bigger|more]{t}. [How many is that|How many in total|How many altogether|What's the total|How many are there|Sum][?||]
[There are|We count|I see] {a} [people|kids|passengers|guests|birds|cars|students] [on the bus|in the room|in the park|at the party|in the class|on the train] and {b} [more |others |]{come}. How many are [there|they] [now|then|altogether][?||]
[A|The|My] {one} [costs|is|was] {a} [euros|dollars|pounds|cents] and [a|the|my] {two} [costs |is |was |]{b}[ euros| dollars||]. [What do I pay|How much is it|What's the total|How much together|How much for both|What do both cost|How much do I need][?| in total?| altogether?||]
[I|She|He|{w}] [walked|ran|drove|cycled|swam|read|worked|slept|waited] {a} [km|miles|pages|minutes|hours|metres] [yesterday|in the morning|on Monday|first] and {b} [today|in the evening|on Tuesday|after that|later]. [How many is that|How far in total|How much altogether|What's the sum|How many in all][?||]
[My|The] [box|bag|basket|shelf|jar|room|list] [has|holds|contains] {a} {n}[.|;|,] [I add|we put in|{w} adds|add] {b}[ more| {n}|]. How many [now|are in it|are inside|is that|then][?||]
[A|One] [team|class|group|farm|shop] [has|with] {a} [players|students|people|cows|workers], [another|the other|a second] [has |with |]{b}. [How many [together|in all|are there]|Sum|Total][?||]
[The temperature|The price|The score|My weight|The level] was {a} and [rose|went up|grew|increased] by {b}. [What is it now|How much is it now|Where is it now|And now][?||]
{w} is {a} years old. How old will {w} be in {b} years?
It is {a} and {b} [gets|are|is] added. [What's the result|Now][?||]
[If|When|Suppose] [I|you|we|{w}] [have|has|start with|starts with] {a} {n} and [add|get|gets|find|finds] {b}, how many [are there|is that|do we have][?||]
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
~A farmer owns {a} {n} and sells {b} at the market. How many does he keep?
~{w} planned {a} lessons and finished {b}. How many are still to do?
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
