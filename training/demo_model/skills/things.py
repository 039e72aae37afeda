"""What people speak of: goods, rooms, dishes, jobs, pets, families' names and more, of one word and of several."""

# ruff: noqa: E501, RUF001, SIM905 - phrases read best unbroken

from random import Random

from demo_model.text import CITIES, NAMES, NOUNS, Split, choose, coin, expand, pick

SURNAMES = """Smith Jones Brown Taylor Wilson Evans Walker Wright Hughes Turner Cooper Ward Bailey Murphy Kelly O'Brien O'Connor
McDonald MacKenzie Nguyen Tran Pham Kim Park Choi Tanaka Suzuki Yamamoto Watanabe Wang Zhang Huang Singh Sharma Patel Gupta
Kowalski Nowak Wiśniewska Szymański Novák Dvořák Horváth Kovács Popescu Ionescu Petrov Ivanova Kuznetsov Shevchenko Müller
Schmidt Fischer Weber Schäfer Hoffmann Zimmermann Krüger Dubois Lefèvre Moreau Girard Rousseau Garcia Fernández López
Martínez Rodríguez Santos Oliveira Silva Pereira Rossi Bianchi Esposito Ricci De Luca Hansen Johansson Lindqvist Nilsson
Virtanen Korhonen van Dijk de Vries Jansen Bakker Peeters Okafor Okonkwo Adeyemi Mensah Diallo Traoré Mwangi Ndlovu Haddad
Nasser Hosseini Yılmaz Demir Kaya Papadopoulos Cohen Levi Katz Rosenberg Hawthorne Whitfield Ashworth Fairbanks Pemberton
Thistlewood Quigley Zabriskie Vandermeer Abernathy Featherstone Blackwood""".replace("De Luca", "De_Luca").replace("van Dijk", "van_Dijk").replace("de Vries", "de_Vries").split()  # fmt: skip
JOBS = "teacher|baker|nurse|engineer|pilot|farmer|writer|painter|doctor|cook|gardener|carpenter|driver|lawyer|designer|plumber|taxi driver|bus driver|software engineer|civil engineer|art teacher|music teacher|kindergarten teacher|truck driver|tax adviser|shop assistant|flight attendant|graphic designer|police officer|hairdresser|dentist|vet|tailor|electrician|mechanic|librarian|photographer|journalist|translator|accountant|estate agent|architect|physicist|biologist|social worker|project manager|sales manager|postman|waiter|barber|florist|optician|midwife".split("|")  # fmt: skip
PETS = "dog|cat|horse|rabbit|parrot|hamster|goat|turtle|guinea pig|budgie|ferret|snake|lizard|pony|puppy|kitten|canary|goldfish|donkey|duck".split("|")  # fmt: skip
DISHES = "mushroom risotto|tomato soup|grilled salmon|beef stew|vegetable curry|lentil soup|pancakes|fish and chips|potato salad|chicken noodle soup|spinach lasagna|cheese omelette|lamb kebab|pumpkin pie|apple crumble|fried rice|onion tart|pasta with pesto|goat cheese salad|bean burrito|margherita pizza|club sandwich|roast chicken|stuffed peppers|shrimp tacos|garlic bread|rice pudding|beetroot salad|dumplings|ramen".split("|")  # fmt: skip
DRINKS = "green tea|black coffee|sparkling water|apple juice|hot chocolate|iced tea|oat milk latte|espresso|lemonade|red wine|ginger beer|still water|mint tea|orange juice|cappuccino|cider|coconut water|a cola|peach nectar|tomato juice".split("|")  # fmt: skip
HOBBIES = "rock climbing|bird watching|chess|sailing|knitting|playing the cello|landscape photography|trail running|pottery|salsa dancing|stamp collecting|baking bread|kite surfing|table tennis|reading crime novels|cross-country skiing|gardening|archery|juggling|origami|scuba diving|board games|yoga|swimming|video games|woodworking|beekeeping|cycling".split("|")  # fmt: skip
ROOMS = "kitchen|living room|bedroom|guest room|bathroom|hallway|attic|cellar|garage|dining room|nursery|study|office|balcony|laundry room|conference room|meeting room 2|room 14|blue room|lobby|library|waiting room|server room|gym|workshop|green house|second floor|main hall|reading room".split("|")  # fmt: skip
SPOTS = "kitchen drawer|glove box|top shelf|green box|blue bag|coat pocket|desk drawer|bookcase|cellar|attic|garage|bathroom cabinet|red suitcase|shoe rack|fridge|pantry|toolbox|flower pot|mailbox|wardrobe|laundry basket|back seat|hallway cupboard|bottom drawer|sewing basket|safe".split("|")  # fmt: skip
OCCASIONS = "picnic|birthday party|book club|road trip|football team|circus|garden|film night|dog|school trip|camping weekend|choir|small shop|museum day|house party|wedding|band|zoo visit|beach day|quiz night|cooking class|chess club|holiday|family dinner|robot|bakery|magician|space mission|pirate crew|fairy tale".split("|")  # fmt: skip
_SORTS = "wooden|leather|woollen|cotton|silk|steel|plastic|ceramic|glass|silver|folding|electric|waterproof|second-hand|striped|spare|organic|gluten-free|frozen|handmade|digital|portable|garden|kitchen|office|winter|summer|kids'|travel|sports".split("|")  # fmt: skip
_GOODS = "lamp chair desk mug notebook pillow blanket jacket scarf backpack bottle poster clock kettle knife pan bowl candle bike helmet tent rug mirror shelf vase umbrella wallet belt shirt sock glove hat ring bracelet pencil marker folder stapler printer monitor keyboard headset charger cable speaker camera lens tripod drill hammer ladder rake shovel hose seed bulb tyre pump saddle racket ball net puzzle doll kite drum guitar flute".split()
COLOURS = (
    "red green blue yellow black white orange purple pink brown grey turquoise beige crimson navy golden silver".split()
)
_FAULTS = "[the {n} is broken|it doesn't [start|turn on|charge|close|open|print|heat|ring]|the {n} is missing|it [leaks|smells|makes a noise|rattles|overheats|flickers]|a [crack|hole|stain|scratch] in the {n}|wrong [size|colour|{n}]|the {n} came too late|[bad|strong] [headache|toothache|cough|back pain]|no [hot water|internet|heating|sound]|the {n} is stuck]"
_CHORES = "[water the [plants|roses|tomatoes]|pay the [rent|electricity bill|phone bill|{n} bill]|call [{w}|the plumber|the bank|my aunt|the landlord]|buy [milk|bread and eggs|a new {n}|stamps|cat food|a birthday card for {w}]|[clean|repair|return|sell|paint|fix] the {n}|pick up [the {n}|{w} from the station|the dry cleaning|the kids]|[book|cancel|confirm] the [{n}|hotel|dentist|flight]|[send|write|print|review|sign|finish] the [{n}|report|contract|slides|tax form]|[feed|walk|brush] the [dog|cat|horse]|[renew|find] my [passport|library card|{n}]|[back up|update|restart] the [server|laptop|website]|[bake|order] a cake for {w}|change the [oil|bulb|filter|sheets]|take out the [rubbish|recycling|{n}]]"
_TITLES = "[The {A} {N}|{A} {N}s|The {N} of {c}|{N} and {M}|A {N} in {c}|{N}s at Night|The Last {N}|My {A} {N}|{c}|{N} {k}|{c} {N}|Return of the {N}|{k} {N}s]"
_PETNAMES = "Rex Bella Luna Momo Pixel Biscuit Shadow Ginger Socks Pepper Waffles Noodle Cookie Tiger Snowball Mittens Rocky Coco Felix Whiskers Buddy Duke Nala Simba Zorro Pumpkin Muffin Peanut Oreo Mango Kiwi Truffle Bandit Ziggy Moppet Scout Juno Olive".split()


def surname(rng: Random) -> str:
    """Draw a family name, of any land or of none."""
    kind = rng.random()
    if kind < 0.55:
        return choose(rng, SURNAMES).replace("_", " ")
    name = coin(rng, 2 if kind < 0.8 else 3).capitalize()
    return f"{name}-{choose(rng, SURNAMES).replace('_', ' ')}" if kind > 0.96 else name


def titled(rng: Random) -> str:
    """Draw a person by title and family name."""
    return f"{choose(rng, ('Mrs.', 'Mr.', 'Ms.', 'Dr.', 'Prof.', 'Mrs', 'Mr', 'Dr', 'Professor', 'Captain', 'St.', 'Sir'))} {surname(rng)}"  # fmt: skip


def pet_name(rng: Random) -> str:
    """Draw an animal's name."""
    kind = rng.random()
    return choose(rng, _PETNAMES) if kind < 0.5 else choose(rng, NAMES) if kind < 0.6 else coin(rng, 2).capitalize()


def goods(rng: Random, plural: bool = False) -> str:
    """Draw something that one buys, of one to three words."""
    kind, thing = rng.random(), choose(rng, _GOODS if rng.random() < 0.6 else NOUNS)
    if plural:
        thing += "es" if thing.endswith(("s", "x", "ch", "sh")) else "s"
    return thing if kind < 0.35 else f"{choose(rng, _SORTS)} {thing}" if kind < 0.8 else f"{choose(rng, COLOURS)} {choose(rng, _SORTS)} {thing}"  # fmt: skip


# Things that one counts, with their plurals; those of NOUNS that are no things to count are left out.
_ODD = "leaf leaves|loaf loaves|knife knives|shelf shelves|mouse mice|goose geese|foot feet|tooth teeth|child children|sheep sheep|fish fish|scarf scarves|potato potatoes|tomato tomatoes|hero heroes|ox oxen|calf calves|wolf wolves|woman women".split("|")  # fmt: skip
_COUNTED = """apple pear plum peach cherry grape fig lemon lime orange melon banana mango kiwi olive carrot onion bean pea leek
radish turnip beetroot cucumber pumpkin mushroom nut walnut egg bun roll cake pie tart cookie muffin waffle sausage sandwich
sock glove shoe boot sandal slipper shirt dress skirt coat hat cap scarf belt tie button ribbon zip towel pillow blanket sheet
book stamp letter envelope postcard notebook pen pencil crayon eraser ruler map poster brush bucket sponge candle match lamp
bulb battery cable plug switch nail screw bolt hook hinge brick tile plank rope chair stool bench table desk sofa bed cushion
rug mirror vase plate bowl cup mug glass fork spoon pot pan kettle jar bottle tin box bag basket crate key lock bell coin
ticket badge flag drum flute whistle ball kite doll puzzle marble balloon tent torch lantern helmet saddle tyre pedal seed
rose tulip daisy lily bush hedge fern cactus hen duck goat pony kitten puppy rabbit parrot window door wheel carriage
seat wing engine sail oar anchor room tower gate step shelf drawer pocket page stripe spot string pill mask comb razor soap""".split()


_PLURALS = dict(pair.split() for pair in _ODD)
_ALL_ODD = list(_PLURALS.items())


def several(noun: str) -> str:
    """Write the plural of a noun."""
    last = noun.rsplit(" ", 1)[-1]
    if last in _PLURALS:
        return noun.removesuffix(last) + _PLURALS[last]
    if noun.endswith(("s", "x", "ch", "sh")):
        return f"{noun}es"
    return f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2:-1] not in tuple("aeou") else f"{noun}s"


def counted(rng: Random) -> tuple[str, str]:
    """Draw what one counts, as one and as several: usual things, rare ones, and things that nobody knows."""
    kind = rng.random()
    if kind < 0.04:
        return choose(rng, _ALL_ODD)
    noun = choose(rng, _COUNTED) if kind < 0.45 else choose(rng, NOUNS) if kind < 0.73 else coin(rng, choose(rng, (1, 2, 2)))  # fmt: skip
    sort = rng.random()
    if sort > 0.82:
        noun = f"{choose(rng, _SORTS if sort > 0.91 else COLOURS if sort > 0.87 else _COUNTED)} {noun}"
    return noun, several(noun)


def colour(rng: Random) -> str:
    """Draw a colour, at times a light or a dark one."""
    shade = choose(rng, ("", "", "", "", "light ", "dark ", "pale "))
    return shade + choose(rng, COLOURS)


def firm(rng: Random) -> str:
    """Draw the name of a company."""
    return expand(rng, "[{c}|{c} Ltd|{s} and Sons|{N} {M}|{c}{m}|{s} {M}|{N} & Co|{c} {N}]", c=coin(rng, 2).capitalize(), s=surname(rng), N=choose(rng, NOUNS).capitalize(), M=choose(rng, NOUNS).capitalize(), m=choose(rng, NOUNS))  # fmt: skip


def fault(rng: Random) -> str:
    """Draw what is wrong with something."""
    return expand(rng, _FAULTS, n=choose(rng, NOUNS))


def chore(rng: Random, split: Split) -> str:
    """Draw something to be done."""
    return expand(rng, _CHORES, n=choose(rng, NOUNS), w=pick(rng, NAMES, split))


def title(rng: Random) -> str:
    """Draw the title of a work, at times one that ends in a number."""
    return expand(rng, _TITLES, A=choose(rng, ("Red", "Silent", "Broken", "Golden", "Lost", "Blue", "Quiet", "Winter", "Hidden", "Paper")), N=choose(rng, NOUNS).capitalize(), M=choose(rng, NOUNS).capitalize(), c=coin(rng, 2).capitalize(), k=rng.randint(2, 99))  # fmt: skip


# What fits a thing that people have one of, by the last word of what they call it.
_FRUITS = "apples|pears|plums|cherries|grapes|lemons|oranges|melon|peaches|figs|kiwi|mango|bananas|strawberries".split(
    "|"
)
_COUNTRIES = "France|Italy|Spain|Japan|Peru|Kenya|Canada|Norway|India|Greece|Ireland|Mexico|Iceland|Portugal".split("|")
_FITTING = {
    "food dish": DISHES, "drink tea": DRINKS, "animal": PETS, "hobby sport game": HOBBIES, "job": JOBS, "city town hometown place": CITIES,
    "season": ["spring", "summer", "autumn", "winter"], "fruit": _FRUITS, "country": _COUNTRIES, "number": [str(number) for number in range(2, 100)],
    "name nickname singer actor": NAMES, "day": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split(),
    "month": "January February March April May June July August September October November December".split(),
}  # fmt: skip
_FITS = {key: found for keys, found in _FITTING.items() for key in keys.split()}


def fitting(rng: Random, key: str) -> str | None:
    """Draw what anybody would name for a favourite, a pet's name or the like; None for what may be anything."""
    last = key.rsplit(" ", 1)[-1]
    if last in ("colour", "color"):
        return colour(rng)
    if last in ("book", "film", "song", "show"):
        return title(rng)
    return choose(rng, _FITS[last]) if last in _FITS else None


# Keys of lists, and what may stand in them.
_LISTS = """
snacks|food|treats|nibbles ; popcorn|pretzels|nuts|crackers|grapes|chips|cookies|cheese cubes|carrot sticks|olives|apple slices|muffins
tricks|commands|skills|stunts ; sit|roll over|jump|shake hands|play dead|spin|fetch|bark|lie down|wave|crawl|high five
members|players|crew|band_members|friends|guests|participants|team|cast|invited|heroes ; {names}
places|stops|destinations|cities|locations|sights_in|towns ; Paris|Rome|Lisbon|Vienna|Tokyo|Oslo|Cairo|Lima|Dublin|Prague|Athens|Boston
sights|attractions|visits|highlights|landmarks ; old castle|city museum|harbour|botanical garden|market square|cathedral|lighthouse|art gallery|zoo|river walk
rules|guidelines|principles|house_rules ; be kind|listen first|arrive on time|no phones|share with others|clean up|have fun|ask before you take|no shouting
animals|zoo_animals|creatures|wildlife ; lion|zebra|owl|penguin|otter|giraffe|monkey|elephant|fox|turtle|camel|wolf
toys|playthings|presents|gifts ; ball|rope|kite|puzzle|teddy bear|book|drum|toy car|doll|board game|yo-yo
fruits|fruit|fruit_list ; apple|pear|plum|cherry|grape|lemon|orange|melon|peach|fig|kiwi|mango
vegetables|veggies ; carrot|potato|onion|tomato|leek|bean|pea|cabbage|spinach|pumpkin
drinks|beverages|refreshments ; water|tea|coffee|milk|apple juice|lemonade|cocoa|iced tea|cider
colors|colours|palette|shades ; red|blue|green|yellow|orange|purple|pink|brown|white|grey
activities|games|things_to_do|fun|program|programme ; swimming|hiking|board games|dancing|singing|cycling|treasure hunt|football|painting|picnic|storytelling|sack race
chores|tasks|todos|duties|jobs_to_do ; wash the dishes|water the plants|take out the rubbish|feed the cat|sweep the floor|make the beds|buy bread|clean the windows
steps|instructions|stages|plan ; gather the tools|make a list|mix everything|let it rest|check the result|cut the pieces|clean up|heat the oven|stir well
ingredients|shopping|groceries|toppings|pantry ; flour|sugar|butter|eggs|milk|salt|tomatoes|onions|garlic|cheese|basil|rice|olive oil
tools|equipment|gear|supplies|packing_list ; hammer|rope|tent|torch|map|knife|compass|tape|scissors|glue|bucket|first aid kit
instruments|music_instruments ; piano|guitar|violin|flute|drums|trumpet|harp|cello|saxophone
songs|tracks|playlist|setlist ; Blue River|Golden Rain|My Old House|Dancing Home|Quiet Night|Summer Train|Paper Moon|Last Light
sports|disciplines ; football|tennis|rugby|hockey|golf|rowing|boxing|judo|sailing|swimming
hobbies|interests|pastimes ; reading|chess|hiking|cooking|painting|gardening|cycling|photography|knitting
flowers|plants|bouquet ; rose|tulip|daisy|lily|violet|sunflower|orchid|poppy|iris
trees|woods ; oak|pine|birch|maple|willow|cedar|elm|beech|ash
birds|bird_list ; robin|eagle|owl|sparrow|crow|duck|goose|swan|parrot
clothes|outfit|clothing|wardrobe ; shirt|jacket|scarf|hat|boots|gloves|jeans|socks|raincoat|dress
feelings|emotions|moods ; happy|calm|curious|proud|excited|nervous|sleepy|grateful
rooms|areas ; kitchen|bedroom|bathroom|hall|living room|garage|cellar|attic|balcony
days|weekdays|open_days|days_of_week ; Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday
months|summer_months ; May|June|July|August|September|October|January|March
languages|spoken_languages ; English|French|German|Spanish|Italian|Dutch|Polish|Greek
jobs|professions|roles|occupations ; teacher|baker|nurse|pilot|farmer|painter|doctor|cook|driver
vehicles|transport ; car|bus|train|bike|plane|boat|tram|scooter|taxi
countries|nations ; France|Italy|Spain|Japan|Peru|Kenya|Canada|Norway|India
desserts|sweets|cakes ; apple pie|ice cream|brownies|cheesecake|waffles|fruit salad|pudding|pancakes
dishes|meals|menu|courses ; tomato soup|roast chicken|pasta|salad|lasagna|grilled fish|fried rice|stew|omelette
tags|keywords|labels|themes|topics ; home|travel|music|nature|family|food|sport|work|school|art
names|name_ideas|nicknames|usernames ; {names}
books|titles|reading_list|films|movies ; The Old House|Silent River|Winter Roads|A Paper Moon|Golden Days|The Last Train|Blue Gardens
materials|parts ; wood|glass|steel|cotton|paper|leather|wool|clay|rubber
subjects|courses_taken|lessons ; maths|history|biology|music|art|geography|physics|French
planets|worlds ; Mercury|Venus|Mars|Jupiter|Saturn|Neptune
shapes|forms ; circle|square|triangle|star|oval|heart
decorations|decor ; balloons|lights|flowers|candles|ribbons|banners|paper stars
powers|abilities|superpowers|talents ; flying|invisibility|super strength|healing|time travel|mind reading|ice breath
"""
LISTS = [
    (key, (items.replace("{names}", "|".join(NAMES[:90]))).split("|"))
    for line in _LISTS.strip().splitlines()
    for keys, items in [line.split(" ; ")]
    for key in keys.split("|")
]
