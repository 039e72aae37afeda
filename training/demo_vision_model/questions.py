"""The kinds of question about one or two images, in many wordings, with the answers.

A maker takes the scenes of a question and returns the question and the answer, or None if it can't ask about them.
Wordings that start with ``~`` are not used in training. In them, ``{w}`` is the object of the question, and ``{in}``
says which image is meant if there are two.
"""

# ruff: noqa: E501 - phrases read best unbroken

from collections.abc import Callable, Sequence
from random import Random

from demo_model.text import Split, common_word, expand, lines, wording
from demo_vision_model.scenes import COLOURS, PLACES, SHAPES, Scene, Thing, changed, scene

Pair = tuple[str, str]
# The words for either picture of two: answers use the first.
ORDER = (("first",), ("second",))
_WHERE = (
    "[at|in] the [top left|upper left|top left corner]", "[at|in] the top[ center| middle|]", "[at|in] the [top right|upper right|top right corner]",
    "on the left[ side|]", "in the [center|middle]", "on the right[ side|]",
    "[at|in] the [bottom left|lower left|bottom left corner]", "[at|in] the bottom[ center| middle|]", "[at|in] the [bottom right|lower right|bottom right corner]",
)  # fmt: skip
_SORT = "[shape|object|thing|figure]"

# Said around a question.
_BEFORE = (
    "[Hi|Hello|Hey][.|!|,]", "[OK|Okay|Good|Thanks|Thank you|Great][.|!|,]", "[Now|And|So|Then|Well|Next][,|:|]", "[Please|Quick question|One question|A question|Question][,|:|.]",
    "[Look|Have a look|Take a look|Look closely][.|!|:]", "[Here you go|Here it is|Let's see|Let us see|I have a question][.|:]",
)  # fmt: skip
_AFTER = (
    "Thanks.",
    "Thank you.",
    "Please.",
    "Please tell me.",
    "Answer me.",
    "What do you think?",
    "I can't see it.",
    "Be brief.",
)

COLOUR = lines("""
[What|Which] [colour|color] [is|has] {w}{in}?
[What is|What's|Tell me|Name] the [colour|color] of {w}{in}[?|.]
{w}{in}: [what|which] [colour|color]?
[What|what] [colour|color] does {w} have{in}?
[Can you|Please|] tell me [what|which] [colour|color] {w} is{in}[.|?]
[Do you know|Can you say|Can you see|Could you tell me|I want to know|I wonder|Say] [what|which] [colour|color] {w}{in} [is|has][?|.|]
[In what|In which|What] [colour|color] is {w} [drawn|painted|filled|shown]{in}?
[Give me|State|Find] the [colour|color] of {w}{in}[.||, please.]
[The|And the|So the] [colour|color] of {w}{in}[?||, please?]
How would you [describe|name] the [colour|color] of {w}{in}?
[What's|What is] [its|the] [colour|color], {w}{in}?
In [which|what] [colour|color] was {w} [drawn|painted]{in}?
~May I know the color of {w}{in}?
~What color would you call {w}{in}?
""")
SHAPE = lines("""
[What|Which] [shape|form] [is|has] {w}{in}?
[What is|What's|Tell me|Name] the [shape|form] of {w}{in}[?|.]
What [kind of shape|sort of shape] is {w}{in}?
What [shape|form] does {w} have{in}?
[Can you|Please|] tell me what shape {w} is{in}[.|?]
[Do you know|Can you say|Can you see|Could you tell me|I want to know|I wonder|Say] [what|which] shape {w}{in} [is|has][?|.|]
What [exactly |]is {w}{in}?
[In what|In which] [shape|form] is {w} drawn{in}?
[Give me|State|Find] the [shape|form] of {w}{in}[.||, please.]
[The|And the|So the] [shape|form] of {w}{in}[?||, please?]
What do you [call|see as] {w}{in}?
What geometric [shape|form|figure] is {w}{in}?
What [figure|thing] is {w}{in}?
Do you know the [shape|form] of {w}{in}?
~May I know the shape of {w}{in}?
~What shape would you call {w}{in}?
""")
PLACE = lines("""
Where is {w}{in}?
Where [do you see|can I find|is the position of] {w}{in}?
[What is|What's|Tell me|Name] the [position|place|location] of {w}{in}[?|.]
[In|At] [which|what] [place|position|part of the picture] is {w}{in}?
[Can you|Please|] tell me where {w} is{in}[.|?]
[Do you know|Can you say|Can you see|Could you tell me|I want to know|I wonder|Say] where {w}{in} is[?|.|]
[In|On] [what|which] [corner|side|spot] is {w}{in}?
[Find|Point out|Show me|Look for] {w}{in}[.||, please.]
[Give me|State] the [position|place|location] of {w}{in}[.||, please.]
[The|And the|So the] [position|place|location] of {w}{in}[?||, please?]
Where [exactly|about|in the picture] is {w}{in}?
Where has {w} been [drawn|put|placed]{in}?
[Whereabouts is|Whereabouts do you see] {w}{in}?
[Locate|Spot|Show] {w}{in}[.||, please.]
~Where would you say {w} is{in}?
~Show me where {w} is{in}.
""")
COUNT = lines("""
How many {w} are [there|shown|drawn]{in}?
How many {w} [do you see|can you see|can you count]{in}?
[Count|Please count] the {w}{in}.
[What is|What's|Tell me] the number of {w}{in}[?|.]
How many {w}{in}?
[Do you know|Can you say|Can you see|Could you tell me|I want to know|I wonder|Say] how many {w} there are{in}[?|.|]
[Can|Could|Would|Will] you [add up|count up|say the number of|tell me the number of] [the|all] {w}{in}[?|.|]
[Count|Add up] [all|all the|how many] {w}{in}[.||, please.]
[Tell me|Say] how many {w} [you see|you find|are there]{in}[.||, please.]
[What number|What amount|What total] of {w} [is there|do you see|do you count]{in}?
[The|And the|So the] number of {w}{in}[?||, please?]
[State|Find|Write] the number of {w}{in}[.||, please.]
[Give me|I need] [a|the] count of [the|all] {w}{in}[.||]
How many {w} [have been drawn|does it have|can one see|can be seen|exist]{in}?
[Could|Can|Would] you count [the|all] {w}{in}?
~How many {w} would you say there are{in}?
~Count how many {w} you find{in}.
""")
PRESENT = lines("""
Is there {w}{in}?
[Do|Can] you see {w}{in}?
Is {w} [shown|drawn|there|visible]{in}?
[Can|Could] [I|you|one] find {w}{in}?
Does {this} [have|show|contain] {w}?
[Do you know|Can you say|Can you tell me|Could you tell me|I want to know|I wonder|Tell me|Say] [if|whether] there is {w}{in}[?|.|]
[Can|Could|Did] you [find|spot|notice|make out|detect|discover] {w}{in}?
Do you [find|spot|notice|have] {w}{in}?
Have you [seen|noticed|spotted|got] {w}{in}?
Is {w} [in it|to be seen|to be found|among them|part of it|around|pictured|included]{in}?
[Would|Will] [I|you|one] [see|find] {w}{in}?
Is there [any|such a thing as|maybe|also|really] {w}{in}?
[Does|Did] [it|anything here] [have|show|contain|include|look like] {w}?
[And|So|Or] {w}{in}?
[Check|Look|See] [if|whether] there is {w}{in}[.||]
There is {w}{in}, [is that so|correct]?
Yes or no: is there {w}{in}?
Is {w} [present|somewhere]{in}?
Have you found {w}{in}?
~Would you say there is {w}{in}?
~Is there {w} anywhere{in}?
""")
DESCRIBE = lines("""
What [do|can] you see{in}?
What is [shown|drawn|there|visible|to see]{in}?
[Describe|Please describe|Can you describe|Tell me about] {this}[.|]
What [does {this} show|is on {this}|is in {this}|'s in {this}|is this]?
[List|Name|Tell me] [the shapes|all shapes|everything|what you see]{in}.
[Which|What] [shapes|objects|things] [are there|do you see|are shown|are drawn]{in}?
[Say|Tell me|Explain|Write|Report] what [you see|is there|is shown|can be seen]{in}[.||, please.]
What does it [show|look like]{in}?
What [have you got|have you found|did you find|did you see|would you say you see|is there to see|all do you see]{in}?
What's [here|there|this|that|shown|pictured|going on]{in}?
[I want to know|I wonder|Do you know|Can you say|Can you tell me|Could you tell me] what [is|you see] {in}[?|.|]
[Give me|Write|Make] a [description|list|summary] of [what you see|the shapes|everything]{in}[.||]
[Summarise|Summarize|Explain|Look at|Caption] {this}[.||, please.]
[Say|Explain|Tell me] what [{this} is|is on {this}|is in {this}|{this} contains|{this} has][.||]
[Anything|What things|Which things|What stuff] [to see|to find|in view|visible]{in}?
What have [we|you] got here{in}?
[Say|Tell me] what {this} shows[.||, please.]
~What would you say is here{in}?
~Tell me what there is to see{in}.
""")
WHICH = lines("""
[Which|In which] [picture|image|one] [has|shows|contains|is] {w}?
[Which|In which] of the [two|] [pictures|images] [has|shows|contains] {w}?
[In|On] which [picture|image] [is|do you see|is there|can you see] {w}?
Where is {w}: in the first or the second [picture|image]?
{w}: [in |]which [picture|image]?
[Tell me|Say|Do you know|Can you say|I want to know|I wonder|Can you tell me] which [picture|image|one|of them] [has|shows|contains] {w}[?|.|]
[Which|What] [picture|image|one] [of these|of them|of the two|here] [has|shows|contains|includes|comes with] {w}?
[Find|Name|Point out|Pick|Give me|Show me] the [picture|image|one] [with|that has|that shows|that contains] {w}[.||, please.]
[Is|Do you see|Can you find] {w} in the first or [in |]the second [picture|image|one]?
[Does|Did] the first or the second [picture|image|one] [have|show|contain] {w}?
Which [of these two|of both|two] [has|shows|contains|is the one with] {w}?
[In|On] which [of these|of them|of the two] [is|do you find|can I find] {w}?
{w}: first or second [picture|image|one|]?
[The|Which] [picture|image|one] with {w}, [which is it|which one is it|is it the first or the second]?
Which [of these two|of the two|picture] holds {w}?
~Which one would you say has {w}?
~Between the two, which picture has {w}?
""")
APART = lines("""
Are [these|the|both|these two|the two] [pictures|images] [the same|equal|identical|alike|different]?
[What is|What's|Is there a|Tell me the|Name the] difference[ between them| between the pictures| between the two pictures| between these images|][?|.]
Do [the|these|both|the two] [pictures|images] [differ|show the same|look the same|show the same thing]?
[Compare|Please compare] [them|the pictures|the two pictures|these images|both images].
[How|In what] do [they|the pictures|the two pictures|the images|these pictures] differ?
[Can|Could|Do] you [see|find|spot|notice|name|tell me] [a difference|any difference|the differences|some differences] between [them|the pictures|the two|these images|both]?
[Do you know|Can you say|Tell me|Say|I want to know|I wonder|Explain] [what is different|how they differ|what differs|what has changed|whether they are the same|if they are the same][?|.|]
[What|Which thing|What thing] [is different|differs|changed|has changed|is not the same][ between them| here| in the second one| between the two|]?
What [makes them different|sets them apart|tells them apart|tells the pictures apart]?
[Find|Spot|Show me|Point out|Give me|List] the difference[s|][ between them| between the two| between both pictures|][.||, please.]
Are [they|both|the two|these] [the same|different|equal|identical|alike][ or not|]?
Has [anything|something] changed[ between them| from the first to the second| here|]?
[Is there any difference|Are there any differences|Is there some difference][ between them| between both pictures| here|]?
[Tell|Try to tell] [them|the images|both pictures|the two] apart[.|?|]
[In what way|In which way|How] are [they|the pictures|these two|the images] [different|not the same]?
[Can|Could] you tell [the two pictures|the images|them] apart?
Is [anything|something] different between [the images|the two|these pictures]?
~What would you say is different here?
~Are the two pictures the same or do they differ?
""")


def named(thing: Thing) -> str:
    """Return a thing's name, with its article: "an orange circle"."""
    return f"{_article(thing.colour)} {thing.colour} {thing.shape}"


def _article(word: str) -> str:
    return "an" if word[0] in "aeio" else "a"


def _plural(shape: str) -> str:
    return "crosses" if shape == "cross" else shape + "s"


def _unique(one: Scene, **traits: object) -> bool:
    return sum(all(getattr(thing, name) == value for name, value in traits.items()) for thing in one.things) == 1


def _at(rng: Random, thing: Thing) -> tuple[str, str]:
    """Point at a thing by its place: as asked, and as answered."""
    return f"the {expand(rng, _SORT)} {expand(rng, _WHERE[thing.place])}", f"the shape {PLACES[thing.place]}"


def _point(rng: Random, one: Scene, thing: Thing, known: Sequence[str]) -> tuple[str, str] | None:
    """Point at one thing of a scene by what of it is ``known``; as asked, and as answered."""
    ways: list[tuple[str, str]] = []
    if "shape" in known and _unique(one, shape=thing.shape):
        ways += [(f"the {thing.shape}",) * 2] * 2
    if "colour" in known and _unique(one, colour=thing.colour):
        ways += [(f"the {thing.colour} {expand(rng, _SORT)}", f"the {thing.colour} shape")] * 2
    if "both" in known and _unique(one, shape=thing.shape, colour=thing.colour):
        ways += [(f"the {thing.colour} {thing.shape}",) * 2] * 3
    if "place" in known:
        ways.append(_at(rng, thing))
        if len(one.things) == 1:
            ways += [(f"the {expand(rng, _SORT)}", "the shape")] * 2
    return rng.choice(ways) if ways else None


def _absent(rng: Random, one: Scene) -> tuple[str, str]:
    """Name something a scene doesn't show, often close to what it shows: with its article, as colour and shape."""
    have = {(thing.colour, thing.shape) for thing in one.things}
    while True:
        colour, shape = rng.choice(COLOURS), rng.choice(SHAPES)
        if one.things and rng.random() < 0.7:
            colour = rng.choice(one.things).colour if rng.random() < 0.6 else colour
            shape = rng.choice(one.things).shape if rng.random() < 0.6 else shape
        if (colour, shape) not in have:
            return colour, shape


def colour(rng: Random, split: Split, one: Scene) -> Pair | None:
    """Ask for the colour of one thing."""
    if rng.random() < 0.06:
        return _missing(rng, split, one, COLOUR)
    thing = rng.choice(one.things)
    way = _point(rng, one, thing, ("shape", "place"))
    return way and (wording(rng, COLOUR, split).replace("{w}", way[0]), f"{way[1].capitalize()} is {thing.colour}.")


def shape(rng: Random, split: Split, one: Scene) -> Pair | None:
    """Ask for the shape of one thing."""
    thing = rng.choice(one.things)
    way = _point(rng, one, thing, ("colour", "place"))
    return way and (
        wording(rng, SHAPE, split).replace("{w}", way[0]),
        f"{way[1].capitalize()} is {_article(thing.shape)} {thing.shape}.",
    )


def _missing(rng: Random, split: Split, one: Scene, asks: Sequence[str]) -> Pair | None:
    missing = [name for name in SHAPES if all(thing.shape != name for thing in one.things)]
    name = rng.choice(missing)
    return wording(rng, asks, split).replace("{w}", f"the {name}"), f"There is no {name}."


def position(rng: Random, split: Split, one: Scene) -> Pair | None:
    """Ask where a thing is."""
    if rng.random() < 0.06:
        return _missing(rng, split, one, PLACE)
    thing = rng.choice(one.things)
    way = _point(rng, one, thing, ("shape", "colour", "both"))
    return way and (
        wording(rng, PLACE, split).replace("{w}", way[0]),
        f"{way[1].capitalize()} is {PLACES[thing.place]}.",
    )


def count(rng: Random, split: Split, one: Scene) -> Pair | None:
    """Ask how many there are: of all, of a shape, of a colour, of both."""
    way = rng.random()
    thing = rng.choice(one.things)
    hue, form = (thing.colour, thing.shape) if rng.random() < 0.8 else _absent(rng, one)
    if way < 0.4:
        total, noun, nouns, asked = len(one.things), "shape", "shapes", expand(rng, "[shapes|objects|things|figures]")
    elif way < 0.65:
        total, noun = sum(t.shape == form for t in one.things), form
        asked = nouns = _plural(form)
    elif way < 0.9:
        total, noun, nouns = sum(t.colour == hue for t in one.things), f"{hue} shape", f"{hue} shapes"
        asked = f"{hue} {expand(rng, '[shapes|objects|things|figures]')}"
    else:
        total, noun = sum(t.colour == hue and t.shape == form for t in one.things), f"{hue} {form}"
        asked = nouns = f"{hue} {_plural(form)}"
    answer = f"There is 1 {noun}." if total == 1 else f"There are {total or 'no'} {nouns}."
    return wording(rng, COUNT, split).replace("{w}", asked), answer


def present(rng: Random, split: Split, one: Scene) -> Pair | None:
    """Ask whether something is there."""
    thing = rng.choice(one.things)
    hue, form = (thing.colour, thing.shape) if rng.random() < 0.5 else _absent(rng, one)
    way = rng.random()
    if way < 0.6:
        there, what = any((t.colour, t.shape) == (hue, form) for t in one.things), f"{hue} {form}"
    elif way < 0.8:
        there, what = any(t.shape == form for t in one.things), form
    else:
        there, what = any(t.colour == hue for t in one.things), f"{hue} shape"
    answer = f"Yes, there is {_article(what)} {what}." if there else f"No, there is no {what}."
    return wording(rng, PRESENT, split).replace("{w}", f"{_article(what)} {what}"), answer


def listed(one: Scene) -> str:
    """List a scene's things in reading order, or say how many there are if they are more than four."""
    names = [named(thing) for thing in one.things]
    if len(names) > 4:
        return f"{len(names)} shapes"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def describe(rng: Random, split: Split, one: Scene) -> Pair | None:
    """Ask what a picture shows."""
    return wording(rng, DESCRIBE, split), f"I see {listed(one)}."


def _shows(one: Scene, traits: dict[str, str]) -> bool:
    return any(all(getattr(thing, name) == value for name, value in traits.items()) for thing in one.things)


def which(rng: Random, split: Split, first: Scene, second: Scene) -> Pair | None:
    """Ask which of two pictures holds something."""
    wanted = rng.choices(((True, False), (False, True), (True, True), (False, False)), (0.4, 0.4, 0.08, 0.12))[0]
    for _ in range(20):
        thing = rng.choice((rng.choice(first.things), rng.choice(second.things)))
        hue, form = (thing.colour, thing.shape) if any(wanted) else _absent(rng, first)
        way = rng.random()
        traits = {"colour": hue} if way < 0.2 else {"shape": form} if way < 0.5 else {"colour": hue, "shape": form}
        has = _shows(first, traits), _shows(second, traits)
        if has == wanted:
            break
    what = {1: form if "shape" in traits else f"{hue} shape", 2: f"{hue} {form}"}[len(traits)]
    what = f"{_article(what)} {what}"
    answers = {
        (True, False): f"The first picture has {what}.", (False, True): f"The second picture has {what}.",
        (True, True): f"Both pictures have {what}.", (False, False): f"Neither picture has {what}.",
    }  # fmt: skip
    return wording(rng, WHICH, split).replace("{w}", what), answers[has]


def two(
    rng: Random, split: Split, counts: tuple[int, int], aspects: Sequence[tuple[float, float]]
) -> tuple[Scene, Scene]:
    """Draw two scenes: the same, almost the same (in pictures of one size), or two of their own."""
    first = scene(rng, split, counts[0], aspects[0])
    if aspects[0] == aspects[1] and rng.random() < 0.6:
        if rng.random() < 0.35:
            return first, first
        other = changed(rng, split, first)[0]
        return (first, other) if rng.random() < 0.5 else (other, first)
    return first, scene(rng, split, counts[1], aspects[1])


def apart(rng: Random, split: Split, first: Scene, second: Scene) -> Pair | None:
    """Ask what tells two pictures apart."""
    ones, others = ([(t.place, t.colour, t.shape) for t in s.things] for s in (first, second))
    left = [t for t in first.things if (t.place, t.colour, t.shape) not in others]
    right = [t for t in second.things if (t.place, t.colour, t.shape) not in ones]
    if not left and not right:
        answer = "The two pictures show the same."
    elif len(left) == len(right) == 1:
        answer = f"They differ: the first picture has {named(left[0])}, the second {named(right[0])}."
    elif len(left) + len(right) == 1:
        answer = f"They differ: only the {'first' if left else 'second'} picture has {named((left + right)[0])}."
    else:
        answer = "They differ: they show different shapes."
    return wording(rng, APART, split), answer


Single = Callable[[Random, Split, Scene], Pair | None]
Double = Callable[[Random, Split, Scene, Scene], Pair | None]

SINGLE: dict[str, Single] = {
    "colour": colour, "shape": shape, "count": count, "position": position, "present": present, "describe": describe,
}  # fmt: skip
DOUBLE: dict[str, Double] = {"which": which, "apart": apart}


# What says which kind of question it is, and what it is about.
_TELLING = {
    word
    for text in (*COLOURS, *SHAPES, *map(_plural, SHAPES), *PLACES, *"""
        upper lower middle center side corner colour color shape form figure geometric thing object things objects
        figures shapes where position place location spot how many count number amount what which who is are there has
        have yes no not first second both two one picture image pictures images same different difference differences
        differ differs changed apart compare equal identical alike see show shows shown describe description everything
        anything""".splitlines())
    for word in text.split()
}  # fmt: skip


def disturbed(rng: Random, text: str) -> str:
    """Replace or drop a word or two that don't tell what is asked, so that words nobody has trained are no surprise."""
    words = text.split()
    for _ in range(rng.randint(1, 2)):
        others = [place for place, word in enumerate(words) if word.strip(".,:;?!'").lower() not in _TELLING]
        if not others or len(words) < 3:
            break
        place = rng.choice(others)
        words[place : place + 1] = [] if rng.random() < 0.3 else [common_word(rng)]
    return " ".join(words)


def asked(rng: Random, pattern: str, number: int | None) -> str:
    """Fill in which picture a question is about: the only or newest one (None), the first (0) or the second (1)."""
    noun = rng.choice(("picture", "picture", "image"))
    if number is None:
        place, this = expand(rng, f"[|||| in this {noun}| in the {noun}| here]"), expand(rng, f"[this|the] {noun}")
    else:
        place = this = ""
        this = f"the {ORDER[number][0]} {noun}" if rng.random() < 0.8 else f"{noun} {number + 1}"
        place = f" in {this}"
    if "{in}" in pattern and number is not None and rng.random() < 0.2:
        text = " ".join(expand(rng, pattern).replace("{in}", "").replace("{this}", this).split())
        return f"In {this}, {text[0].lower()}{text[1:]}"
    text = expand(rng, pattern).replace("{in}", place).replace("{this}", this)
    text = " ".join(text.split())
    text = text[0].upper() + text[1:]
    if rng.random() < 0.15:
        text = " ".join((expand(rng, rng.choice(_BEFORE)), text) if rng.random() < 0.6 else (text, rng.choice(_AFTER)))
    return text.lower() if rng.random() < 0.06 else text
