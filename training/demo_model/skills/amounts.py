"""Numbers as people say them before what they count: in figures and words, with halves, as dozens, thousands, money.

All are what they mean: "two and a half" is 2.5, "ten thousand" is 10000, "$2,350" is 2350, "a dog" is one dog.
"""

# ruff: noqa: E501 - phrases read best unbroken

from random import Random

from demo_model.skills.values import Said, figures, spoken
from demo_model.text import choose

_DOZENS = {12: "a dozen", 6: "half a dozen", 24: "two dozen", 2: "a couple of", 36: "three dozen", 100: "a hundred"}
# Of each unit: one, several, and the names that an argument has which counts it.
UNITS = [
    (one, several, names.split("|"))
    for line in """
crate crates crates|num_crates|crate_count
box boxes boxes|num_boxes|box_count
bag bags bags|num_bags|bag_count
bottle bottles bottles|num_bottles
jar jars jars|num_jars
tin tins tins|tin_count
pack packs packs|packets|num_packs
tray trays trays|tray_count
roll rolls rolls|roll_count
sack sacks sacks|num_sacks
barrel barrels barrels|barrel_count
carton cartons cartons|num_cartons
pallet pallets pallets|pallet_count
bucket buckets buckets|bucket_count
basket baskets baskets|num_baskets
case cases cases|case_count
bunch bunches bunches|num_bunches
bundle bundles bundles|num_bundles
""".strip().splitlines()
    for one, several, names in [line.split()]
]
MEASURES = [
    (one, several, names.split("|"))
    for line in """
kilo kilos kilos|kg|weight_kg|kilograms|amount_kg
kilogram kilograms kg|kilograms|weight_kg
litre litres liters|litres|volume_l|amount_liters
liter liters liters|volume_liters|amount_l
ton tons tons|weight_tons
tonne tonnes tonnes|tons
gallon gallons gallons|num_gallons
pound pounds pounds|weight_lb|lbs
cup cups cups|num_cups
glass glasses glasses|num_glasses
tablet tablets tablets|pills|num_tablets|dose_tablets
pill pills pills|tablets|pill_count
teaspoon teaspoons teaspoons|tsp
spoon spoons spoons|spoonfuls
tank tanks tanks|tank_fillings
metre metres meters|length_m|metres
mile miles miles|distance_miles
kilometre kilometres km|kilometers|distance_km
kilometer kilometers kilometers|distance_km|km
hour hours hours|num_hours|duration_hours|length_hours
day days days|num_days
page pages pages|num_pages
""".strip().splitlines()
    for one, several, names in [line.split()]
]
_SHORT = {"kilos": "kg", "kilograms": "kg", "litres": "l", "metres": "m", "kilometres": "km", "kilometers": "km", "hours": "h", "pounds": "lbs", "miles": "mi"}  # fmt: skip
_MONEY = {"EUR": ("{} euros", "€{}", "{} EUR", "{}€", "{} euros"), "USD": ("${}", "${}", "{} dollars", "{} bucks", "{} USD"), "GBP": ("£{}", "{} pounds", "{} GBP"), "CHF": ("{} francs", "CHF {}", "{} CHF"), "JPY": ("{} yen", "¥{}")}  # fmt: skip


def large(rng: Random) -> Said:
    """Draw a number of hundreds, thousands or millions, in figures or in words."""
    kind = rng.random()
    if kind < 0.2:
        value = rng.randint(1, 20) if rng.random() < 0.7 else choose(rng, (25, 30, 40, 50, 80, 100))
        return f"{spoken(value) if rng.random() < 0.7 else value} thousand", value * 1000
    if kind < 0.35:
        thousands, hundreds = rng.randint(1, 19), rng.randint(1, 9)
        return f"{spoken(thousands)} thousand {spoken(hundreds)} hundred", thousands * 1000 + hundreds * 100
    if kind < 0.55:
        hundreds, rest = rng.randint(1, 9), choose(rng, (0, 0, 20, 25, 30, 50, 50, 75, 80, rng.randint(1, 99)))
        link = choose(rng, (" ", " and ")) if rest else ""
        return f"{spoken(hundreds)} hundred{link}{spoken(rest) if rest else ''}", hundreds * 100 + rest
    if kind < 0.62:
        value = rng.randint(1, 90)
        return f"{value}k", value * 1000
    if kind < 0.68:
        value = rng.randint(1, 9)
        return f"{spoken(value) if rng.random() < 0.5 else value} million", value * 1_000_000
    value = rng.randint(1, 999) * choose(rng, (10, 100, 500, 1000))
    return (figures(value) if rng.random() < 0.6 else str(value)), value


def whole(rng: Random, most: int) -> Said:
    """Draw a whole number of 2 or more, in figures or in words."""
    value = rng.randint(2, most)
    return (spoken(value) if value < 1000 and rng.random() < (0.5 if value < 13 else 0.35) else str(value)), value


def before(rng: Random, one: str, several: str, most: int = 20) -> Said:
    """Say how many there are of something countable: "3 crates", "a dozen crates", "a crate"."""
    kind = rng.random()
    if kind < 0.1:
        shown = choose(rng, ("one", "1", "one", "a single", "an" if one[0] in "aeio" else "a"))
        return f"{shown} {one}", 1
    if kind < 0.2:
        value = choose(rng, list(_DOZENS))
        return f"{_DOZENS[value]} {several}", value
    shown, value = whole(rng, most)
    return f"{shown} {several}", value


def half(rng: Random, most: int = 12) -> Said:
    """Say a number with a half: "two and a half", "2.5", "one and a half"."""
    value = rng.randint(1, most)
    kind = rng.random()
    if kind < 0.45:
        return f"{spoken(value)} and a half", value + 0.5
    if kind < 0.65:
        return f"{value} and a half", value + 0.5
    return (f"{value} 1/2" if kind < 0.7 else f"{value}.5"), value + 0.5


def measured(rng: Random, one: str, several: str, most: int = 40) -> Said:
    """Say an amount of something that has halves and quarters: "half a kilo", "3 and a half kilos", "2.5 kg"."""
    kind = rng.random()
    article = "an" if one[0] in "aeo" or one == "hour" else "a"
    if kind < 0.14:
        return f"half {article} {one}", 0.5
    if kind < 0.2:
        return f"{article} {one} and a half", 1.5
    if kind < 0.23:
        return choose(rng, ((f"a quarter of {article} {one}", 0.25), (f"three quarters of {article} {one}", 0.75), (f"a quarter {one}", 0.25)))  # fmt: skip
    if kind < 0.28:
        return f"{choose(rng, (article, 'one', '1'))} {one}", 1
    if kind < 0.55:
        shown, value = half(rng)
    elif kind < 0.72:
        value = round(rng.uniform(0.1, most), 1)
        value = int(value) if value == int(value) else value
        shown = str(value)
    else:
        shown, value = whole(rng, most)
    if several in _SHORT and shown[-1].isdigit() and rng.random() < 0.35:
        return f"{shown}{choose(rng, ('', ' '))}{_SHORT[several]}", value
    return f"{shown} {several}", value


def money(rng: Random) -> tuple[str, float, str]:
    """Say a sum of money; return also the code of its currency."""
    code = choose(rng, ("EUR", "EUR", "USD", "USD", "GBP", "CHF", "JPY"))
    kind = rng.random()
    value: float
    if kind < 0.3:
        shown, value = large(rng)
    elif kind < 0.6:
        value = round(rng.uniform(1, choose(rng, (20, 300, 3000))), 2)
        shown = f"{value:,.2f}" if rng.random() < 0.7 else str(value)
    else:
        shown, value = whole(rng, choose(rng, (20, 100, 900)))
    ways = [way for way in _MONEY[code] if (shown[-1].isdigit() and shown[0].isdigit()) or " " in way]
    return choose(rng, ways).format(shown), value, code


def stay(rng: Random, unit: str) -> Said:
    """Say how many nights or days something lasts, at times in weeks."""
    if rng.random() < 0.25:
        return choose(rng, (("a week", 7), ("one week", 7), ("two weeks", 14), ("2 weeks", 14), ("1 week", 7), ("three weeks", 21), ("a fortnight", 14)))  # fmt: skip
    return before(rng, unit.removesuffix("s"), unit, 14)


def share(rng: Random) -> Said:
    """Say a part of the whole, whose value is in percent."""
    if rng.random() < 0.3:
        return choose(rng, (("half", 50), ("a half", 50), ("a quarter", 25), ("three quarters", 75), ("a third", 33), ("full", 100), ("the maximum", 100), ("one half", 50), ("a tenth", 10)))  # fmt: skip
    shown, value = whole(rng, 100)
    return shown + choose(
        rng, ("%", " percent", " percent", " per cent")
    ) if shown.isdigit() else f"{shown} percent", value
