"""Labels of what a user writes: one of a few, told from the words, as a schema's choices ask for it.

A line is ``keys ; label: ways to say it ; label: ways …``.
"""

# ruff: noqa: E501 - phrases read best unbroken

from functools import cache
from random import Random

from demo_model.exchange import Exchange
from demo_model.skills import forms, things
from demo_model.template import Message
from demo_model.text import NAMES, NOUNS, choose, expand, lines, sentence

LABELS = lines("""
priority|urgency|level|importance ; high: [This is urgent|It's on fire|Drop everything else|I need the {n} today|Nothing works any more][.|!] ; medium: [This week is fine|Please do it in the next days|When you have finished the other things|It's not the most pressing thing, but soon]. ; low: [No hurry at all|It can wait till next month|Whenever you feel like it|Only if you have nothing else to do|A small wish for some day].
sentiment|mood|tone|feeling|attitude|opinion ; positive: [What a lovely {n}|I adore the {n}|The {n} made my day|Best {n} I ever had|Thanks, the {n} is great|I'm so glad about the {n}][.|!] ; negative: [The {n} ruined my day|I regret the {n}|What a poor {n}|The {n} stopped after an hour|I'm angry about the {n}|Never buy this {n}][.|!] ; neutral: [The {n} is on the table|I have a {n}|The {n} came at noon|This {n} is made of wood|There are two {n}s].
category|department|topic|queue|team|area ; billing: [I was charged twice|My invoice is wrong|Why is the bill so high?|The payment failed|I want a receipt] ; shipping: [My parcel hasn't arrived|Where is my order?|The box came to the wrong address|When will you deliver the {n}?] ; technical: [The app crashes|I get an error|The page doesn't load|The button does nothing|It freezes when I open the {n}] ; account: [I can't log in|I forgot my password|Please change my e-mail address|Delete my profile]
intent|action|request|request_type|goal ; cancel: [Please cancel my {n}|I no longer want the {n}|Call off my booking][.|!] ; refund: [I want my money back|Please return what I paid|Give me a refund for the {n}][.|!] ; order: [I'd like to buy a {n}|Please send me two {n}s|I'll take the {n}]. ; complaint: [This is a disgrace|I'm not pleased with the {n}|The {n} was awful][.|!] ; question: [How long does the {n} last?|Is the {n} in stock?|What colours does the {n} have?]
spam|is_spam|junk|unwanted ; true: [You have won a prize, click here|Cheap pills, buy now|Send us your bank details to get a million|Hot offer only today, free {n}!|Make money fast from home][.|!!!] ; false: [See you at the meeting tomorrow|{w} sent the report|Lunch at noon?|Here are the photos of the {n}|Please call {w} back].
label|type|class|verdict ; spam: [Win a free {n}, click now|You were chosen for a big prize|Earn a fortune in a week][.|!!!] ; ham: [Dinner is at seven|The {n} is repaired|{w} says hello|I'll be late, sorry].
weather|condition|conditions|sky ; sunny: [Not a cloud above us|The sun is burning|Blue sky all day]. ; rainy: [It's pouring|Take an umbrella|I got soaked on my way]. ; snowy: [Everything is white outside|The children build a snowman|It has been snowing since noon]. ; windy: [The gale took my hat|The trees are bending|Hold on to your umbrella, it blows].
season|time_of_year ; spring: [The first tulips are out|The trees get new leaves]. ; summer: [We swim in the lake every day|School is out and it's hot]. ; autumn: [The leaves turn red and fall|We pick apples and pumpkins]. ; winter: [The pond is frozen|We go skiing|It snows and the days are short].
meal|meal_type|course_of_day ; breakfast: [I had eggs and toast when I got up|Coffee and a roll at seven in the morning]. ; lunch: [At noon we ate a salad|A sandwich in my midday break]. ; dinner: [In the evening we had stew|At eight at night I cooked pasta].
part_of_day|daytime|when|slot ; morning: [Come at eight am|Right after sunrise|Before breakfast]. ; afternoon: [At three pm would be good|After lunch, around two]. ; evening: [At seven pm|After work, about six]. ; night: [Around midnight|At two at night, when all sleep].
payment|payment_method|paid_by|method ; card: [I pay by card|Charge my card]. ; cash: [I have the money in notes|I pay in cash|Coins and notes are fine]. ; transfer: [I send it from my bank account|By bank transfer]. ; voucher: [I use my gift voucher|I have a voucher].
transport|mode|by|vehicle|travel_mode ; train: [I take the train|We go by rail|My seat is in coach five]. ; car: [We drive|I come with my car|We take the motorway]. ; plane: [We fly|Our flight lands at six|I board at gate seven]. ; bike: [I cycle|I come on my bike]. ; foot: [We walk|I come on foot].
size|cup|portion|format ; small: [Just a little one, please|A small {n}|The smallest {n} you have]. ; medium: [A medium {n}|Not too big and not too small]. ; large: [A large {n}|The biggest {n}, please|I need a huge {n}].
status|state|stage|progress ; open: [Nobody has started on the {n}|The {n} is still to be done]. ; in_progress: [I'm working on the {n}|The {n} is half finished|{w} has begun with the {n}]. ; done: [The {n} is finished|I completed the {n} yesterday|All done with the {n}]. ; blocked: [I can't go on without the {n}|We wait for {w} to continue].
difficulty|grade|hardness ; easy: [A child could do it|It took me a minute, very simple]. ; medium: [It needs some practice|Neither simple nor hard]. ; hard: [I failed three times|Only experts manage it|It's terribly difficult].
subject|field|school_subject ; maths: [We learned to add fractions|Today it was about triangles]. ; history: [We read about old kings and wars|The teacher spoke of ancient Rome]. ; biology: [We looked at cells and leaves|It was about how the heart works]. ; music: [We sang a song with two voices|We practised on the piano]. ; geography: [We drew rivers on a map|It was about mountains and capitals].
kind|group|animal_class|animal_type ; bird: [A {p} sings in the tree|It has feathers and lays eggs]. ; fish: [It lives in the sea and has gills|I caught a trout]. ; mammal: [My dog had four puppies|The cow gives milk to her calf]. ; insect: [A bee sits on the flower|It has six legs and buzzes].
answer|is_true|correct|valid|statement_is_true ; true: [Two plus two is four|Ice is cold|A week has seven days|Fire is hot|Cats are animals|Snow is white]. ; false: [Two plus two is five|Ice is hot|A week has nine days|Fire is cold|Cats are plants|Snow is black].
""")
ASK = ["{t}", "{t}", "{t}", "Classify: {t}", "Label this: {t}", "{t} Which is it?", "Sort this message: {t}", '"{t}"', "What about this one: {t}", "Message: {t}", "{t}\n\nClassify it.", "Judge this text: {t}", "Read it and decide: {t}", "A customer writes: {t}", "Triage: {t}"]  # fmt: skip


@cache
def _line(line: str) -> tuple[list[str], list[tuple[str, str]]]:
    """Read a line: the keys, and each label with the ways to say it."""
    keys, *labels = line.split(" ; ")
    return keys.split("|"), [(label, ways) for label, _, ways in (one.partition(": ") for one in labels)]


def make(rng: Random) -> Exchange:
    """Make a text and its label; at times with how sure one is, or with a second value."""
    keys, labels = _line(choose(rng, LABELS))
    label, ways = choose(rng, labels)
    text = expand(rng, ways, n=choose(rng, NOUNS), w=choose(rng, NAMES), p=choose(rng, ("robin", "sparrow", "thrush", "wren")))  # fmt: skip
    text += "" if text[-1] in ".?!" else "."
    found: Message = {choose(rng, keys): label == "true" if label in ("true", "false") else label}
    extra = rng.random()
    if extra < 0.15:
        found["confidence"] = round(rng.uniform(0.7, 1), 2)
    elif extra < 0.3:
        person = f"{choose(rng, NAMES)} {things.surname(rng)}"
        text = choose(rng, (f"{person}: {text}", f"{text} {person}", f"From {person}. {text}"))
        found = dict(sorted({**found, choose(rng, ("name", "sender", "from", "customer", "author")): person}.items(), key=lambda _: rng.random()))  # fmt: skip
    elif extra < 0.4:
        text = f"{sentence(rng)} {text}" if rng.random() < 0.5 else f"{text} {sentence(rng)}"
    return forms.answered(choose(rng, ASK).replace("{t}", text), found)
