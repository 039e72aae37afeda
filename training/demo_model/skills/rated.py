"""Names before numbers that belong elsewhere: "rate the film Blue Night 9 out of 10", "10 m of cable (item no. 55-310)".

A title may end in a number itself; what follows it is the rating, the setting or the amount. A number in brackets is the
one whose word stands beside it.
"""

# ruff: noqa: E501, SIM905 - phrases read best unbroken

import re
from collections.abc import Callable
from random import Random

from demo_model.skills import things, values
from demo_model.skills.assembled import argument, assembled, phrased
from demo_model.skills.define import Offer
from demo_model.skills.portion_words import EATEN
from demo_model.skills.slots import INT, NUMBER, Argument, plural
from demo_model.skills.subjects import subject
from demo_model.template import Message
from demo_model.text import ADJECTIVES, NOUNS, Split, choose, coin, expand, lines, wording

_WORKS = "film book song album app hotel restaurant wine beer recipe course teacher driver game episode podcast match photo essay dish play show movie novel series hike museum coffee tea cheese talk seller ride guide speaker track café bakery paper answer trail beach campsite hostel".split()
_PEOPLE = {"teacher", "driver", "seller", "guide", "speaker"}
RATES = lines("""
[Rate|Grade|Score|Mark] [the {n} |]{t} {v} [out of {m}|of {m}|/ {m}]
[Rate|Grade|Score] [the {n} |]{t} [with |at |]{v} [stars|points]
[Give|Please give] [the {n} |]{t} {v} [stars|points|out of {m}]
[The {n} |]{t} [gets|deserves|earns|has earned|receives] [a |an |]{v}[ out of {m}|/{m}| from me|]
[The {n} |]{t} [gets|deserves|is worth|has] {v} [stars|points|out of {m}]
I['d| would] give [the {n} |]{t} [a |]{v}[ out of {m}| of {m}|/{m}|]
{v} [stars|points|out of {m}] for [the {n} |]{t}
[My rating|My score|My vote|A rating] for [the {n} |]{t}[:| is] {v}[/{m}| out of {m}|]
[The {n} |]{t}[:|,| -] {v} [stars|points|out of {m}|/ {m}]
[I saw|I read|I tried|I know] [the {n} |]{t}[:|,] {v}[ out of {m}|/{m}| stars]
[The {n} |]{t} was a {v}[ for me| out of {m}|/{m}]
[Put|Enter|Note] [the {n} |]{t} [down |]with [a |]{v}[ out of {m}|]
~For {t} I want to leave {v} stars
~{t} would be a {v} out of {m}
""")
_TITLE_NAMES = "title|name|item|what|work"


def work(rng: Random, split: Split) -> tuple[str, str]:
    """Draw what may be rated, and its name; some names end in a number or a verb, or are in small letters."""
    noun = choose(rng, _WORKS)
    kind = rng.random()
    if noun in _PEOPLE and kind < 0.7:
        return noun, values.person(rng, split)
    if kind < 0.35:
        name = things.title(rng)
    elif kind < 0.6:
        name = values.title(rng)
    elif kind < 0.72:
        name = str(subject(rng, split, "venue").value)
    elif kind < 0.84:
        name = expand(rng, "[{N} {k}|{C} {k}|{C} {N} {k}|Route {k}|{N} Part {r}|{C} {r}|{k} {N}s|{N}: {M} {r}|{C} II|Studio {k}]", N=choose(rng, NOUNS).capitalize(), M=choose(rng, NOUNS).capitalize(), C=coin(rng, 2).capitalize(), k=rng.randint(2, 2049), r=rng.randint(2, 9))  # fmt: skip
    else:
        name = expand(rng, "[Run {C} Run|Who Is {C}|Call Me {C}|{C} Returns|When {N}s {v}|What {C} Saw|Rate My {N}|The {N} That {v}s|{C} and I|Give Me {N}s|How to {v} a {N}|Set in {N}|{C} vs {D}|Love, {C}|Never {v} Again]", N=choose(rng, NOUNS).capitalize(), C=coin(rng, 2).capitalize(), D=coin(rng, 1).capitalize(), v=choose(rng, ("Sing", "Fall", "Sleep", "Fly", "Wait", "Burn", "Dance")))  # fmt: skip
    return noun, name


def rated(rng: Random, split: Split) -> Offer:
    """Rate something by its name."""
    noun, name = work(rng, split)
    most = choose(rng, (5, 5, 6, 10, 10, 10, 20, 100))
    decimal = rng.random() < 0.15
    shown, value = values.decimal(rng, most) if decimal else values.same(rng.randint(0, most))
    if not decimal and value < 11 and rng.random() < 0.15:
        shown = values.spoken(int(value))
    pattern = wording(rng, RATES, split)
    ends = name[-1].isdigit()
    quote = choose(rng, ('"{}"', "'{}'", "{}", "“{}”")) if ends or rng.random() < 0.2 else "{}"
    title = ('"{}"' if "'" in name and quote == "'{}'" else quote).format(name)
    ask = expand(rng, pattern, n=noun, t=title, v=shown, m=most)
    ask = re.sub(r"\ba (8|11|18|eight|eleven)\b", r"an \1", ask)
    ask = re.sub(r"\b1 (star|point)s\b|\bone (star|point)s\b", lambda found: found[0][:-1], ask)
    if ask.startswith("the "):
        ask = f"T{ask[1:]}"
    said = [
        argument(rng, f"{_TITLE_NAMES}|{noun}|{noun}_name" if noun in _PEOPLE else f"{_TITLE_NAMES}|{noun}|{noun}_name|{noun}_title", name),
        argument(rng, "rating|stars|score|points|grade|value|mark", value, NUMBER if decimal else choose(rng, (INT, INT, NUMBER))),
    ]  # fmt: skip
    left: list[Argument] = []
    if rng.random() < 0.25 and (f"of {most}" in ask or f"/{most}" in ask or f"/ {most}" in ask):
        said.append(argument(rng, "scale|out_of|max|maximum|best", most, INT))
    if rng.random() < 0.4:
        left.append(argument(rng, choose(rng, ("comment", "review", "user", "date", "text")), None))
    made = assembled(rng, f"rate_{noun}|add_rating|{noun}_rating|rate|score_{noun}|give_stars|grade_{noun}|submit_rating", f"Rate a {noun}.", said, left, phrased(rng, ask), spare=False)  # fmt: skip
    if rng.random() < 0.5:
        others = ("find", "get", "search", "order", "recommend", "share")
        verb = choose(rng, others)
        made.beside.append(assembled(rng, f"{verb}_{noun}", f"{verb.capitalize()} a {noun}.", [argument(rng, _TITLE_NAMES, name)], [], "").tool)  # fmt: skip
    return made


SETS = lines("""
[Set|Turn|Move|Bring] [the |]{t} to {v}
[Set|Put] [the |]{t} at {v}
[Make|Have] [the |]{t} {v}
[The |]{t} [should be|must be|has to be|goes to|to|at] {v}
[Change|Switch|Adjust|Update] [the |]{t} to {v}
[The |]{t}[:|,| =| ->] {v}
{v} for [the |]{t}
[I want|I need|We need] [the |]{t} at {v}
[Now|Then] [the |]{t} to {v}
~Bring [the |]{t} onto {v}
""")


def settled(rng: Random, split: Split) -> Offer:
    """Set something that has a name, at times one with a number in it, to a number."""
    noun = choose(rng, ("channel", "dial", "fader", "counter", "zone", "lamp", "slider", "valve", "fan", "knob", "variable", "pin", "limit", "level", "meter", "gauge", "score", "heater", "pump", "brightness"))  # fmt: skip
    kind = rng.random()
    if kind < 0.35:
        name = f"{choose(rng, NOUNS)} {choose(rng, NOUNS)}"
    elif kind < 0.55:
        name = f"{choose(rng, ADJECTIVES)} {noun}"
    elif kind < 0.8:
        name = expand(rng, "[{n}_{m}|max_{n}s|{n}Count|{n}-{k}|{N}{k}|{l}{k}|{c}{k}|{n}_{k}]", n=choose(rng, NOUNS), m=choose(rng, NOUNS), N=noun.capitalize(), k=rng.randint(1, 40), l=choose(rng, "ABCDXYZ"), c=coin(rng, 1))  # fmt: skip
    else:
        name = f"{noun} {rng.randint(1, 40)}"
    number = rng.randint(0, choose(rng, (9, 60, 100, 900)))
    unit = choose(rng, ("", "", "", "%", " percent", " degrees", " points", " bar"))
    ask = expand(rng, wording(rng, SETS, split), t=name, v=f"{number}{unit}").replace("the the", "the")
    plain = name.islower() and "_" not in name and not name[-1].isdigit()
    if not plain:
        ask = re.sub(r"\b[Tt]he (?=" + re.escape(name) + ")", "", ask)
    said = [argument(rng, f"name|{noun}|{noun}_name|target|key|which|label", name), argument(rng, "value|level|amount|number|to_value|position|setting", number, choose(rng, (INT, INT, NUMBER)))]  # fmt: skip
    return assembled(rng, f"set_{noun}|{noun}_set|adjust_{noun}|update_{noun}|change_value|set_value|write_{noun}|control_{noun}", f"Set a {noun} to a value.", said, [], phrased(rng, ask))  # fmt: skip


# Units: said, and names of the amount.
_UNITS = "m|length_m|meters;metres|meters|length;rolls|rolls|quantity;kg|weight_kg|kilos;boxes|boxes|quantity;pieces|quantity|pieces;packs|packs|quantity;litres|liters|volume;sheets|sheets|count;pairs|pairs|quantity;bags|bags|bag_count;g|grams|amount;crates|crates|quantity;feet|feet|length;pallets|pallets|amount;cans|cans|quantity;reels|reels|quantity;cm|length_cm|cm;units|units|quantity".split(
    ";"
)
ITEMS = lines("""
[Order|Get|Send us|I need|We need|Please order|Reserve|Ship|Put aside] {q} of [the |]{t} ({w} {c})
{q} of [the |]{t}[,| -|;] {w} {c}
[Order|I need|Buy|We take] {q} of {w} {c}[ ({t})|, {t}|, the {t}]
{w} {c}, [the |]{t}: {q}
{q} [of |]{t} [{c}]
[The |]{t} ({w} {c}), {q}
[Order|Get|Book] [the |]{t}, {w} {c}, {q}
({w} {c}) {q} of [the |]{t}
{t} [with|under] {w} {c}: {q}[, please|]
~Kindly supply {q} of the {t} ({w} {c})
""")
_WORDS = "item no.|item number|no.|article|article no.|art. no.|code|part no.|ref.|SKU|catalogue number|order code|#|item|number|part number|ref".split("|")  # fmt: skip


def ordered(rng: Random, split: Split) -> Offer:
    """Order an amount of something that also has a number."""
    unit, *names = choose(rng, _UNITS).split("|")
    number = rng.randint(2, choose(rng, (9, 60, 500)))
    long = f"{choose(rng, (*things.COLOURS, *ADJECTIVES))} {choose(rng, ('cable', 'rope', 'fabric', 'tape', 'hose', 'pipe', 'wire', 'carpet', 'foil', 'chain', 'yarn', 'fence', 'ribbon', 'cord'))}"  # fmt: skip
    thing = long if unit in {"m", "metres", "cm", "feet", "rolls", "reels"} else choose(rng, (choose(rng, EATEN), things.goods(rng), plural(rng), long))  # fmt: skip
    code = expand(rng, "[{i}-{j}|{l}-{j}|{l}{j}|{j}|{i}.{j}|{i}/{j}|{l}{i}-{j}|{j}{l}|{i}-{j}-{k}]", i=rng.randint(1, 99), j=rng.randint(100, 99999), k=rng.randint(1, 9), l="".join(choose(rng, "ABCDEFGHKLMNPRSTUVWX") for _ in range(rng.randint(1, 3))))  # fmt: skip
    word = choose(rng, _WORDS)
    mass = f"{number} {unit}" if unit not in {"m", "kg", "g", "cm"} or rng.random() < 0.6 else f"{number}{unit}"
    pattern = wording(rng, ITEMS, split).replace("[{c}]", "{b}")
    ask = expand(rng, pattern, q=mass, t=thing, w=word, c=code, b=f"[{code}]").replace("# ", "#")
    amount = argument(rng, "|".join(names), number, INT if rng.random() < 0.7 else NUMBER, f"[How many {unit}|In {unit}|{unit.capitalize()}][.|]")  # fmt: skip
    ident = argument(rng, "item_number|article|sku|code|item_no|part_number|item_id|article_number|id|reference", code)
    said = [ident, amount]
    if rng.random() < 0.55:
        said.append(argument(rng, "name|product|description|article_name|what|goods|material", thing))
    left: list[Argument] = [argument(rng, choose(rng, ("color", "delivery_date", "supplier", "express", "warehouse")), None)] if rng.random() < 0.3 else []  # fmt: skip
    rng.shuffle(said)
    made = assembled(rng, "order_material|order_item|place_order|purchase|reorder|reserve_stock|book_material|request_parts|add_position", "Order an amount of an article.", said, left, phrased(rng, ask), spare=False)  # fmt: skip
    if rng.random() < 0.4:
        made.beside.append(assembled(rng, "check_article|article_info|lookup_item", "Show an article.", [argument(rng, "code|sku|item", code)], [], "").tool)  # fmt: skip
    return made


DEALS = lines("""
[Sell|Get rid of|Drop|Unload] {q} [of my|of our|of the] {t}[ shares| papers| stock|]
[Buy|Get|Add] {q} more [of |]{t}
[Buy|Get me|I want|I'd like|Add] {q} {t}
{q} {t}, [sell|buy] them
I want {q} [of my|of our] {t} [gone|sold]
~Part with {q} of my {t}
""")
_SELL = re.compile(r"(?i)sell|rid|drop|unload|gone|sold|part with")


def dealt(rng: Random, split: Split) -> Offer:
    """Buy or sell a number of shares or the like."""
    ticker = "".join(choose(rng, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") for _ in range(rng.randint(2, 5)))
    name, keys = (ticker, "symbol|ticker|share|stock|paper") if rng.random() < 0.7 else (choose(rng, ("Bitcoin", "Ethereum", "gold", "silver", coin(rng, 2).capitalize(), f"{choose(rng, NOUNS)}s")), "asset|item|what|name|thing")  # fmt: skip
    number = rng.randint(2, choose(rng, (9, 60, 900)))
    ask = expand(rng, wording(rng, DEALS, split), q=number if number > 12 or rng.random() < 0.8 else values.spoken(number), t=name)  # fmt: skip
    sold = _SELL.search(ask) is not None
    said = [argument(rng, keys, name), argument(rng, "quantity|amount|shares|count|number|units", number, INT)]
    if rng.random() < 0.6:
        schema: Message = {"type": "string", "enum": choose(rng, (["buy", "sell"], ["sell", "buy"]))}
        said.append(argument(rng, "side|action|type|order_type|direction", "sell" if sold else "buy", schema))
        names = "trade|place_trade|order|market_order|trading"
    else:
        names = "sell_shares|sell|sell_stock|sell_position" if sold else "buy_shares|buy|buy_stock|purchase_shares"
    left = [argument(rng, "limit|limit_price|max_price", None, NUMBER)] if rng.random() < 0.4 else []
    return assembled(rng, names, "Sell and buy papers and the like." if "trade" in names else f"{names.split('_', maxsplit=1)[0].capitalize()} papers and the like.", said, left, phrased(rng, ask))  # fmt: skip


Maker = Callable[[Random, Split], Offer]
MAKERS: tuple[Maker, ...] = (rated, rated, settled, ordered, ordered, dealt)


def numbered(rng: Random, split: Split) -> Offer:
    """Define a tool that takes a name and a number, and ask for it."""
    return choose(rng, MAKERS)(rng, split)
