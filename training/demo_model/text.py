"""Small text tools for the data generator: a phrase grammar, word lists, and makers of words nobody has seen.

Every function takes the random generator it draws from, so one seed gives one text.
"""

# ruff: noqa: E501, PLR0911, SIM905 - phrases read best unbroken

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from random import Random
from typing import Literal, TypeVar

# "train" never draws a held-out wording or value; "seen" is evaluation on the training wordings with new values;
# "held" is evaluation on wordings and values that training never drew.
Split = Literal["train", "seen", "held"]
T = TypeVar("T")


class _Place(str):
    """A ``{name}`` of a pattern."""

    __slots__ = ()


Piece = str | tuple[tuple["Piece", ...], ...]


@lru_cache(maxsize=1 << 15)
def _parse(pattern: str) -> tuple[Piece, ...]:
    """Read ``a [b|c] {d}`` into pieces: a string, a place, or a tuple of alternatives which are tuples of pieces."""
    stack: list[list[list[Piece]]] = [[[]]]
    for part in re.findall(r"[\[\]|]|\{\w+\}|(?:(?!\{\w+\})[^\[\]|])+", pattern):
        if part == "[":
            stack.append([[]])
        elif part == "|" and len(stack) > 1:
            stack[-1].append([])
        elif part == "]":
            choices = stack.pop()
            stack[-1][-1].append(tuple(tuple(choice) for choice in choices))
        else:
            stack[-1][-1].append(_Place(part) if part[0] == "{" and part[-1] == "}" else part)
    return tuple(stack[0][0])


def _walk(rng: Random, pieces: tuple[Piece, ...], values: Mapping[str, object], out: list[str]) -> None:
    for piece in pieces:
        if type(piece) is str:
            out.append(piece)
        elif isinstance(piece, tuple):
            chosen = piece[int(rng.random() * len(piece))]
            if len(chosen) == 1 and type(chosen[0]) is str:
                out.append(chosen[0])
            else:
                _walk(rng, chosen, values, out)
        elif isinstance(piece, _Place):
            out.append(str(values.get(piece[1:-1], piece)))


def expand(rng: Random, pattern: str, **values: object) -> str:
    """Choose one of each ``[a|b]`` in the pattern, and put the values in their ``{name}`` places."""
    out: list[str] = []
    _walk(rng, _parse(pattern), values, out)
    return "".join(out)


def choose(rng: Random, values: Sequence[T]) -> T:
    """Draw one of the values, several times faster than ``rng.choice`` does."""
    return values[int(rng.random() * len(values))]


def wording(rng: Random, patterns: Sequence[str], split: Split) -> str:
    """Pick a pattern; those that start with ``~`` are held out of training and used for the "held" split only."""
    if split == "held":
        held = [pattern[1:] for pattern in patterns if pattern.startswith("~")]
        if held:
            return choose(rng, held)
    while True:
        pattern = choose(rng, patterns)
        if not pattern.startswith("~"):
            return pattern


def holdout(values: Sequence[str], split: Split) -> list[str]:
    """Return the part of a value list that a split may use: every seventh value is kept for evaluation."""
    if split == "held":
        return [value for index, value in enumerate(values) if index % 7 == 3]
    return [value for index, value in enumerate(values) if index % 7 != 3]


def pick(rng: Random, values: Sequence[T], split: Split) -> T:
    """Draw one of the values that :func:`holdout` leaves to a split, without making the list of them."""
    while True:
        index = int(rng.random() * len(values))
        if (index % 7 == 3) == (split == "held"):
            return values[index]


def lines(text: str) -> list[str]:
    """Return the non-empty lines of a triple-quoted block, stripped."""
    return [line.strip() for line in text.strip().splitlines() if line.strip()]


NAMES = """Ada Alan Grace Linus Margaret Dennis Barbara Ken Frances Donald Hedy Tim Radia Guido Karen Bjarne Joan John Mary
James Robert Patricia Jennifer Michael Linda David Elizabeth William Susan Richard Jessica Joseph Sarah Thomas Charles
Christopher Lisa Daniel Nancy Matthew Betty Anthony Sandra Mark Ashley Steven Kimberly Andrew Emily Paul Donna Joshua
Michelle Kenneth Carol Kevin Amanda Brian Melissa George Deborah Edward Stephanie Ronald Rebecca Laura Emma Olivia Ava
Sophia Isabella Mia Charlotte Amelia Harper Evelyn Liam Noah Oliver Elijah Lucas Mason Logan Ethan Jacob Aiden Jack Luke
Anna Maria Lena Lukas Felix Paula Greta Hans Fritz Ingrid Sven Bjorn Astrid Freya Lars Nils Olaf Pierre Marie Claire
Luc Chloe Camille Antoine Giulia Marco Luca Sofia Matteo Chiara Carlos Lucia Diego Elena Pablo Ana Joao Miguel Rosa
Yuki Hiro Akira Sakura Ren Mei Wei Li Chen Jun Min Jin Soo Priya Arjun Ravi Anita Raj Deepa Omar Fatima Ali Aisha Hassan
Layla Yusuf Zara Ivan Olga Dmitri Natasha Boris Tatiana Piotr Kasia Jan Eva Tomas Petra Kofi Ama Kwame Zuri Tendai Amara
Chidi Ngozi Bob Alice Sam Max Tom Ben Joe Kate Amy Zoe Eve Leo Mo Jo Al Ed Kim Lee Pat Alex Robin Jamie Taylor Morgan
José Zoë René Chloé Søren Jürgen Łukasz Čeněk Anaïs Björn Siobhán Mateo Ximena Thiago Nadia Vera Otto Ines Hugo Iris
Ruby Jade Ivy Hazel Violet Rose Lily Daisy Poppy Willow Basil Jasper Jonas Noor Tariq Samir Leila Farah Bilal""".split()

CITIES = (
    "Paris|London|Berlin|Madrid|Rome|Tokyo|Beijing|Delhi|Cairo|Lagos|Nairobi|Sydney|Melbourne|Toronto|Vancouver|Montreal"
    "|New York|San Francisco|Los Angeles|Chicago|Boston|Seattle|Austin|Denver|Miami|Dallas|Houston|Atlanta|Portland"
    "|Mexico City|Lima|Bogota|Buenos Aires|Santiago|Rio de Janeiro|Sao Paulo|Lisbon|Porto|Barcelona|Valencia|Milan|Turin"
    "|Naples|Venice|Vienna|Prague|Budapest|Warsaw|Krakow|Amsterdam|Rotterdam|Brussels|Antwerp|Geneva|Zurich|Bern|Basel"
    "|Munich|Hamburg|Cologne|Frankfurt|Dresden|Leipzig|Copenhagen|Oslo|Stockholm|Helsinki|Reykjavik|Dublin|Edinburgh"
    "|Glasgow|Manchester|Liverpool|Oxford|Cambridge|Athens|Istanbul|Ankara|Moscow|Kyiv|Riga|Vilnius|Tallinn|Seoul|Busan"
    "|Osaka|Kyoto|Shanghai|Hong Kong|Taipei|Singapore|Bangkok|Hanoi|Jakarta|Manila|Mumbai|Bangalore|Karachi|Dubai|Doha"
    "|Tehran|Baghdad|Tel Aviv|Casablanca|Tunis|Accra|Dakar|Cape Town|Johannesburg|Perth|Auckland|Wellington|Honolulu"
    "|São Paulo|Zürich|Málaga|Kraków|Springfield|Boulder|Tampa|Phoenix|Detroit|Nice|Lyon|Marseille|Bordeaux|Ghent"
).split("|")

NOUNS = """apple pear plum cherry orchard tree river mountain ocean garden house window door table chair lamp book paper
pencil clock mirror bottle basket bridge road train bus car bicycle boat plane rocket robot computer keyboard screen
server cloud storm rain snow wind sun moon star planet forest desert island beach lake valley castle tower village city
market school library museum theatre kitchen bread cheese butter honey sugar salt pepper soup salad pizza coffee tea milk
water juice cat dog fox wolf bear rabbit mouse horse cow sheep goat pig duck goose owl eagle sparrow turtle frog fish whale
dolphin shark tiger lion elephant monkey penguin snail bee ant spider butterfly dragon knight wizard pirate king queen
farmer baker teacher doctor sailor painter singer dancer writer hunter music song story poem letter map ticket key coin
ring crown sword shield hat coat shoe glove button ladder hammer garlic onion potato tomato lemon orange grape melon
account address album alarm answer archive article asset badge ball bank banner batch battery bed bill blanket block
blog board bonus box branch budget bug building bundle button cache calendar camera camp card cart case catalog category
channel chart chat check client code comment company contact contract country coupon course customer cycle data date
deal degree delivery desk device dinner discount disk document domain draft drawer drive email employee engine entry
error event exam expense feature feed fence field file filter fire flag flight floor flower folder font form friend fuel
game gate gift glass goal group guest guide hotel idea image invoice item job journal label language laptop lease lesson
level license light line link list loan lock log lunch machine mail meeting member memory menu message metric mission
model module monitor movie network news note notice number object offer office order owner package page panel parcel
park party patch path patient payment phone photo picture pipe plan plant player playlist policy poll pool post price
printer process product profile program project prompt proxy question queue quote recipe record refund region release
reminder rent repair reply report request reservation result review reward room route row rule salary sale sample
schedule score script seat section sensor service session shelf ship shipment shop signal site size skill slide snapshot
sound speaker sprint stage stock store street student subject summary supplier survey switch table tag target task tax
team template test text theme thread timer title token tool topic tour track trip truck unit update user weather forecast lasagna dentist thermostat newsletter translation sentence currency exchange humidity password
username database query commit repository deployment container cluster timezone distance passenger airport luggage
restaurant cuisine calorie heartbeat blood medicine pill symptom nurse hospital insurance claim balance transaction transfer
mortgage tenant landlord property kitchenette elevator stairs roof balcony carpet curtain sofa pillow fridge oven dishwasher
vacuum sprinkler fan heater boiler socket bulb cable router modem antenna satellite drone lens tripod headphone microphone
guitar piano violin drum trumpet flute concert opera festival carnival wedding birthday anniversary holiday vacation voyage
cruise hike picnic campsite tent backpack compass torch rope anchor harbor lighthouse reef coral shell pearl diamond
emerald ruby silver copper iron steel timber plank nail screw bolt wrench drill saw paintbrush canvas sculpture gallery
exhibit statue fountain bench lantern candle match stove kettle teapot mug spoon fork knife plate bowl napkin sauce
noodle rice bean lentil carrot cabbage spinach pumpkin cucumber radish mushroom walnut almond peanut raisin biscuit muffin
pancake waffle cereal yogurt jam syrup vinegar mustard ketchup sausage bacon steak salmon tuna shrimp lobster crab squid
pupil classroom homework essay grade diploma campus dormitory laboratory experiment microscope formula equation theorem
lawyer judge jury verdict statute treaty embassy passport visa border customs soldier captain general admiral mayor senator
voter ballot election parliament cabinet minister tariff subsidy grant charity donation volunteer sponsor donor auction bid
bond dividend broker ledger audit payroll pension tip rebate voucher gadget chip circuit algorithm
compiler debugger kernel packet firewall malware backup migration schema index cursor trigger webhook
vehicle vendor
version video visit voice vote wallet warehouse watch wheel widget word workout zone""".split()

ADJECTIVES = """red green blue yellow small big tiny huge old young happy sad quiet loud fast slow warm cold bright dark
clever brave kind gentle wild calm shy proud lazy busy hungry sleepy funny strange golden silver wooden broken empty full
new fresh sweet sour bitter soft hard smooth rough heavy light deep tall short long wide narrow rich poor clean dirty dry
wet round flat sharp simple plain fine great lucky polite honest""".split()

VERBS = """run walk jump swim fly sing dance read write draw paint cook bake build fix open close find lose keep give take
send bring carry push pull throw catch climb fall sit stand sleep wake eat drink laugh cry smile talk listen watch look
think know learn teach help wait start stop play work rest travel visit buy sell pay save spend grow plant water pick
cut wash clean break make move turn change follow lead win fight hide seek count measure answer ask call name show tell
""".split()

SMALL = """the a an and or but of in on at by to from with for over under near after before while is are was were has had
can will not very too so then now here there this that these those my your our their his her its it he she we they you I
""".split()

_ONSETS = "b c d f g h j k l m n p q r s t v w x y z bl br ch cl cr dr fl fr gl gr kn pl pr qu sc sh sk sl sm sn sp st th tr tw wh zh".split()
_VOWELS = "a e i o u ai ea ee ie oa oo ou y ae io".split()
_CODAS = ["", "", "", *"n r s t l m x k p d ck ft ld mp nd ng nk nt rd rk rm rn rt sh sk st th zz b g".split()]
_ACCENTED = "áàâäãåāąćčçďđéèêëēęěíìîïīłñńňóòôöõøōřśšşťúùûüūůýžźżßœæþðğ"
_SCRIPTS = (
    "αβγδεζηθικλμνξοπρστυφχψω", "абвгдежзиклмнопрстуфхцчшщыэюя", "あいうえおかきくけこさしすせそたちつてとなにぬねの",
    "日月火水木金土山川田人口大小中上下左右東西南北", "אבגדהוזחטיכלמנסעפצקרשת", "ابتثجحخدذرزسشصضطظعغفقكلمنهوي", "가나다라마바사아자차카타파하고노도로모",
    "कखगचजटडतदनपबमयरलवसह",
)  # fmt: skip
EMOJI = "😀😂😊😍🤔😎👍👋🎉🚀🍎🍐🌳🌟🔥💡🐍🐱🐶🦊❤✅❌⭐☀🌧🍕☕🎵📦"


# Letter pieces of the trained tokenizer: training sets them, so that each piece is also met in what users write.
PIECES: list[str] = []


def coin(rng: Random, syllables: int = 0) -> str:
    """Make a lower-case word that sounds possible and very likely exists nowhere."""
    if PIECES and rng.random() < 0.3:
        return "".join(choose(rng, PIECES) for _ in range(choose(rng, (1, 1, 1, 2, 2, 3))))
    count = syllables or choose(rng, (1, 2, 2, 2, 3, 3))
    return "".join(choose(rng, _ONSETS) + choose(rng, _VOWELS) + choose(rng, _CODAS) for _ in range(count))


def scramble(rng: Random) -> str:
    """Make a random run of letters, digits or other scripts."""
    kind = rng.randrange(7)
    if kind == 0:
        return "".join(choose(rng, "abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(1, 8)))
    if kind == 1:
        return "".join(choose(rng, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") for _ in range(rng.randint(2, 7)))
    if kind == 2:
        return "".join(
            choose(rng, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") for _ in range(rng.randint(2, 8))
        )
    if kind == 3:
        word = list(coin(rng))
        for _ in range(rng.randint(1, 2)):
            word[rng.randrange(len(word))] = choose(rng, _ACCENTED)
        return "".join(word)
    if kind == 4:
        return "".join(choose(rng, choose(rng, _SCRIPTS)) for _ in range(rng.randint(1, 2)))
    if kind == 5:
        script = choose(rng, _SCRIPTS)
        return "".join(choose(rng, script) for _ in range(rng.randint(1, 6)))
    return "-".join(
        choose(rng, (coin(rng, 1), str(rng.randint(0, 999)), coin(rng, 1).upper())) for _ in range(rng.randint(2, 3))
    )


def common_word(rng: Random) -> str:
    """Draw a word from the lists above."""
    return choose(rng, choose(rng, (NOUNS, ADJECTIVES, VERBS, SMALL)))


def word(rng: Random) -> str:
    """Draw a word of any kind: known, invented, capitalised, a number, another script."""
    kind = rng.random()
    if kind < 0.35:
        text = common_word(rng)
    elif kind < 0.65:
        text = coin(rng)
    elif kind < 0.75:
        text = choose(rng, NAMES)
    elif kind < 0.85:
        return str(rng.randint(0, 10 ** rng.randint(1, 6)))
    else:
        return scramble(rng)
    style = rng.random()
    return text.capitalize() if style < 0.15 else text.upper() if style < 0.22 else text


def number(rng: Random, digits: int = 4) -> int:
    """Draw a whole number whose length is even over 1 to ``digits``."""
    return rng.randint(0, 10 ** rng.randint(1, digits) - 1)


OPENERS = lines("""
[Please|please|Pls|Kindly|Now|Next|OK|Ok|Okay|Well|So|Hey|Hi|Hello|Right|Alright|Good|Great|Thanks|Thank you|Now then|First|Then]
[And|And now|Also|One more thing|Another one|Again|Quick question|Question|Just a question|Task|Test|My request|User|Hey there]
[Dear assistant|Assistant|Orchard|Hey Orchard|Excuse me|Sorry|Sorry to bother you|Let me ask|Let's try this|Let's test you]
[Try this|I wonder|Here we go|Last one|Perfect|Nice|Cool|Hmm|Oh|Ah|By the way|Anyway|Actually|Wait|Listen|Look|Yo|Good morning]
[I have a question|I am new here|I am testing the server|This is only a test|I want to see if this works|I need your help]
[Let us begin|Let's start|Let me try|Something else|A new one|Here is my question|Here is a task|I hope you can help|You can do this]
~[Pardon me|Righto|Dear demo|Moving on|Let's see|One last thing]
""")
ASKERS = lines("""
[Can|Could|Would|Will] you[ please| kindly| now| just| maybe|]
[Can|Could|Would|Will] you
[I want|I would like|I'd like|I need|I'd love|I would love|I ask|I am asking] you to
[You should|You must|You have to|You need to|Try to|Please try to|Go ahead and|Be so kind and|Be nice and|Make sure to|Now you|Your task is to]
[Your task:|Instruction:|Help me:|Are you able to|Is it possible for you to|It would be nice if you could|I was hoping you could|Do you think you can]
~[Would you mind to|I'd be glad if you could|Might you]
""")
IMPERATIVES = set(
    "say repeat reply respond answer echo print write output return type copy add subtract take calculate compute work solve tell "
    "find count list name give spell explain describe show remember note call set get send play turn search look book read open "
    "run delete remove convert translate check cancel make create remind start schedule evaluate fetch use define buy".split()
)


_LOWER_NAMES = {name.lower() for name in NAMES}


def dressed(rng: Random, ask: str, split: Split) -> str:
    """Put what people put before a request before it: a greeting, an aside, a "could you"; never anything after it."""
    kind = rng.random()
    first = ask.split(" ", 1)[0].lower().rstrip(",:")
    plain = ask[:1] + ask[1:2].lower() == ask[:2] and first not in _LOWER_NAMES
    small = ask[:1].lower() + ask[1:] if plain and not ask.startswith(("I ", "I'")) else ask
    if first in IMPERATIVES and kind < 0.5:
        return f"{expand(rng, wording(rng, ASKERS, split))} {small}"
    opener = sentence(rng) if kind > 0.94 and split == "train" else expand(rng, wording(rng, OPENERS, split))
    if opener.endswith((".", "?", "!")):
        return f"{opener}{choose(rng, (' ', chr(10)))}{ask}"
    mark = choose(rng, (",", ",", ".", "!", ":", "...", " -", ""))
    gap = choose(rng, (" ", " ", " ", " ", "\n", "\n\n")) if mark in (".", ":", "!") else " "
    return f"{opener}{mark}{gap}{small if mark in (',', '', ' -') else ask}"


_CASUAL = {"I'm": "im", "I am": "i am", "I": "i", "I've": "ive", "What's": "whats", "what's": "whats", "don't": "dont", "can't": "cant", "name's": "names", "My": "my", "What": "what", "Where": "where"}  # fmt: skip
_CASUAL_WORDS = re.compile(r"(?<![\w'])(" + "|".join(sorted(_CASUAL, key=len, reverse=True)) + r")(?![\w'])")


def casual(text: str, *values: str) -> str:
    """Write as people type in haste, without apostrophes; the values stay as they are."""
    made = _CASUAL_WORDS.sub(lambda found: _CASUAL[found[0]], text)
    return made if all(value in made for value in values) else text


def typo(rng: Random, text: str) -> str:
    """Slip once: two letters swapped, one doubled or one left out; short texts stay."""
    if len(text) < 9:
        return text
    at = rng.randrange(1, len(text) - 2)
    here, after = text[at], text[at + 1]
    return text[:at] + choose(rng, (after + here, here * 2 + after, after)) + text[at + 2 :]


def sentence(rng: Random) -> str:
    """Write one plain English sentence with a subject and a verb."""
    return expand(
        rng,
        choose(rng,
            (
                "The {a} {n} [will|can|did not|likes to|wants to|used to] {v} [the|a|my|your] {m}.",
                "[My|Your|Our|Her|His|Their] {n} is [very |too |not |so |]{a}[ and {b}|].",
                "[I|We|They|You] [will|can|must|should|often|never] {v} the {n} [in|on|near|behind|under] the {m}.",
                "There is a {a} {n} [in|on|near] [the|my|that] {m}.",
                "{w} and {x} {v} [every day|on Monday|in the morning|at night|together|again].",
                "[Yesterday|Today|Tomorrow|Last week|In the end] the {n} was {a}[, but the {m} was {b}|].",
            )
        ),
        a=choose(rng, ADJECTIVES), b=choose(rng, ADJECTIVES), n=choose(rng, NOUNS), m=choose(rng, NOUNS),
        v=choose(rng, VERBS), w=choose(rng, NAMES), x=choose(rng, NAMES),
    )  # fmt: skip
