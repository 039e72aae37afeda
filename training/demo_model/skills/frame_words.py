"""Words for tools made up of pieces: verbs, kinds of things, people, units, and choices that belong together."""

# ruff: noqa: E501, SIM905 - lists read best unbroken

from demo_model.text import lines

# Verbs that name a tool and are said as they are.
ACTS = """feed launch paint squash ban prescribe hit attack brew plant water mow polish sharpen tune inflate wrap weigh dispatch
recruit promote demote mute unmute kick grant pin unpin bookmark subscribe follow block flag escalate reopen snooze dismiss
postpone extend renew upgrade downgrade replace swap exchange return lend borrow rent lease insure inspect calibrate align rotate
tilt zoom crop blur encrypt decrypt compress mount eject format trace scale drain seed harvest trim prune groom vaccinate treat
diagnose admit discharge refer enroll grade teach train hire fire pay tax fine equip unequip cast summon heal revive craft mine
smelt trade sell buy rate review comment tag label sort filter group shuffle deal draw roll flip toss spin park tow refuel charge
unplug ship pack unpack load unload deliver collect stamp sign seal print scan fax mail ping probe mirror fork tag tweak patch
rebase squelch archive pause resume skip rewind record stream cook bake fry boil grill serve season taste order cancel book
reserve confirm decline invite greet call text page alert warn notify remind schedule plan assign delegate approve reject audit
count measure estimate convert translate summarize define spell read write open close lock unlock raise lower start stop set
adjust dim brighten heat cool vent clean wash dry iron fold mend glue drill weld solder assemble test check find search list show
get fetch add create make update delete remove move copy rename merge split deploy restart scan sync transfer refund log report""".split()

# Verbs for what can't be touched: one can rate a subject or list it, but not squash it.
PLAIN_ACTS = """follow block flag postpone replace review comment tag label sort filter group track bookmark archive count schedule plan
approve reject check find search list show get fetch add create update delete remove rename rate read start stop report log
recommend suggest choose pick open enable disable compare share save note rank like skip register""".split()
UNTOUCHED = set(
    "subject course genre song track artist band movie film author sport country airport hub landmark place location language spell department team symptom condition metric topic query keyword category type event occasion color colour shade planet star setting option feature".split()
)

# What may be said in a tool's place: kinds of things, and such things. The kind is the argument's name.
KINDS = {
    kind: [word.strip() for word in things.split(",")]
    for kind, _, things in (line.partition(": ") for line in lines("""
plant: ficus, basil, orchid, tulips, lavender, big palm, bonsai, ivy, old oak, tomatoes, mint, sunflower
animal: giraffe, otter, parrot, llama, hamster, old donkey, zebra, panda, hedgehog, grey wolf, ponies
food: hay, oats, carrots, fish, lettuce, dry food, bananas, seeds, corn, chicken
medicine|drug|medication: Ibuprofen, Paracetamol, Metformin, insulin, aspirin, Penicillin, Lisinopril, cough syrup, vitamin D
genre: jazz, thriller, comedy, science fiction, drama, techno, romance, fantasy, documentary, blues
song|track: Imagine, Yellow Submarine, Hey Jude, Thunderstruck, Hotel California, Billie Jean, Africa, Let It Be, Dancing Queen
artist|band: Adele, Nina Simone, the Beatles, Miles Davis, Daft Punk, Toto, Bach, Ella Fitzgerald, Abba
movie|film: Casablanca, Jaws, The Matrix, Star Wars, Alien, Metropolis, Finding Nemo, Pulp Fiction
author: Jane Austen, J. R. R. Tolkien, Agatha Christie, Mark Twain, Stephen King, Octavia E. Butler, Homer
enemy|monster|opponent: orc, skeleton archer, ice dragon, giant spider, dark knight, troll, bandits, slime, zombie captain
weapon: longbow, iron sword, magic staff, dagger, golden hammer, crossbow, poisoned spear, club
spell: fireball, frost nova, healing light, invisibility, chain lightning, levitate
item: rope, torch, silver key, healing herb, old map, shield of dawn, lockpick, mana crystals, iron ore
sport: tennis, ice hockey, judo, rowing, basketball, table tennis, chess, golf
instrument: cello, trumpet, electric guitar, drums, harp, banjo, grand piano
subject|course: algebra, biology, art history, French, physics, geography, computer science
material: oak, steel, copper, cotton, marble, glass, carbon fibre, leather
vehicle: van, delivery truck, red tractor, forklift, minibus, ambulance, scooter, cargo bike
device|appliance: dishwasher, coffee maker, air purifier, ceiling fan, washing machine, toaster, projector, doorbell, humidifier
room|area|zone: attic, basement, guest room, conference room, laundry room, pantry, lobby, greenhouse, nursery, patio
department|team: sales, human resources, accounting, legal, marketing, customer support, research
service|app|component: checkout, search-api, billing, user-service, postgres, redis, image-worker, login, mail-relay, frontend
branch: main, develop, feature/login, hotfix-12, release/2.0, fix-typo
database|schema: sales_db, inventory, analytics, users, hr, telemetry
table: customers, orders, invoices, line_items, events, products
country: Norway, Brazil, South Korea, Kenya, Italy, New Zealand, Peru, Canada
airport|hub: CDG, SFO, Heathrow, FRA, Schiphol, HND, MUC, Gatwick
landmark|place|location: the Eiffel Tower, Central Park, the town hall, Platform 9, the harbour, Mount Fuji, City Library
product: running shoes, phone case, garden hose, desk chair, wireless mouse, rain jacket, water bottle, sleeping bag
ingredient: flour, garlic, chickpeas, butter, coconut milk, basil, red onions, rice
dish|recipe: lasagne, pad thai, mushroom risotto, pancakes, onion soup, chicken curry, apple pie
drink|beverage: green tea, flat white, orange juice, lemonade, hot chocolate, cola
restaurant|venue: Bella Napoli, Sushi Corner, Café Luna, The Blue Door, Chez Nadine, Mario's, Taj Palace
company|vendor|brand: Initech, Globex, Sony, Volvo, Blue Harbor Ltd, Umbra Inc., Siemens, Hooli
language: Norwegian, Swahili, Hebrew, Korean, Latin, Welsh, Thai, Urdu
metal|element: gold, platinum, zinc, helium, lithium, nickel
planet|star: Mars, Saturn, Vega, Neptune, Sirius, Europa
topic|query|keyword: solar eclipses, the Roman Empire, electric bikes, cheap laptops, black holes, World War II, climate change, sourdough
category|type|kind: groceries, parking, travel, office supplies, rent, snacks, fuel, books
event|occasion: school play, book fair, board meeting, Jazz Night, wine tasting, Grandma's birthday, team lunch
color|colour|shade: teal, dark red, ivory, sky blue, lime green, charcoal, warm white
symptom|condition: headache, sore throat, high fever, back pain, dizziness, asthma
crop|field: wheat, barley, potatoes, maize, soy, sugar beet
sensor|metric: humidity, cpu_load, air pressure, CO2, disk usage, tilt, page views
setting|option|feature: dark mode, autosave, spell check, location sharing, night light
""")) }  # fmt: skip
GROUPS = list(KINDS)
# How a tool's argument names a person, by what the person is there.
PEOPLE = "patient doctor customer student player guest employee owner driver author artist recipient assignee teacher client member manager user sender reviewer buyer seller tenant pilot captain coach candidate supplier courier speaker host nurse friend contact visitor".split()
# What has a number, a code or a name of its own.
LABELS = "order ticket invoice room user machine robot part product task case flight gate seat table lane server node pump truck patient course book shelf box account contract device sensor printer door locker parcel claim lot batch channel camera zone valve ward bed elevator platform bus train route project issue job version release build track chapter page line field unit cell tank drone station desk terminal shipment container request booking member order customer employee student".split()

# Units: how people say them, then the names that arguments have for them ("~": the name does not tell the unit).
UNITS = [
    (said.split("|"), names.split("|"))
    for said, names in (line.split(" ; ") for line in lines("""
mg|milligrams|mg ; dose_mg|mg|milligrams|dosage_mg|~dose
ml|millilitres|milliliters ; ml|milliliters|volume_ml|amount_ml|water_ml|~amount
kg|kilos|kilograms ; kg|weight_kg|kilos|kilograms|mass_kg|~weight
g|grams ; grams|weight_g|amount_grams|~portion
rpm|revolutions per minute ; rpm|speed_rpm|target_rpm|~speed
km/h|kph|kilometres per hour ; speed_kmh|kmh|max_speed_kmh|~speed_limit
km|kilometers|kilometres ; km|distance_km|kilometers|radius_km|~distance
metres|m|meters ; meters|height_m|distance_m|depth_meters|~depth
cm|centimetres|centimeters ; height_cm|cm|length_cm|centimeters|~length
mm|millimetres ; mm|thickness_mm|diameter_mm|rain_mm|~thickness
pixels|px ; pixels|width_px|size_px|margin_px|~width
%|percent ; percent|percentage|opacity_percent|fill_percent|~brightness|~volume|~level|~humidity
degrees|degrees Celsius|°C|° ; degrees|temperature|temp_c|target_temperature|~angle
watts|W ; watts|power_watts|power_w|~power
volts|V ; volts|voltage|~tension
bpm|beats per minute ; bpm|heart_rate_bpm|tempo_bpm|~tempo|~pulse
GB|gigabytes|gigs ; size_gb|gb|storage_gb|memory_gb|~disk_size
ms|milliseconds ; delay_ms|timeout_ms|ms|~latency
seconds|sec|s ; seconds|duration_seconds|delay_seconds|timeout_s|~interval
minutes|min|mins ; minutes|duration_minutes|duration_min|mins|~duration
hours|h|hrs ; hours|duration_hours|num_hours|hours_ahead|~shift_length
days ; days|num_days|duration_days|forecast_days|~period
weeks ; weeks|num_weeks|duration_weeks|~term
months ; months|num_months|duration_months|contract_months
years ; years|num_years|age_years|~age
nights ; nights|num_nights|number_of_nights|~stay_length
people|persons|guests ; people|guests|party_size|num_people|number_of_guests
euros|EUR|€ ; amount_eur|euros|price_eur|~amount|~budget|~cost
dollars|USD|bucks ; amount_usd|dollars|price_usd|~price|~fee|~salary
points|pts ; points|score_points|num_points|~score
times|times ; times|repetitions|repeat_count|times_per_day
litres|liters|l ; liters|litres|volume_liters|amount_l|~capacity
miles|mi ; miles|distance_miles|num_miles|~range
feet|ft ; feet|height_ft|altitude_ft|~altitude
steps ; steps|num_steps|step_count
characters|chars ; length|max_length|characters|num_characters
words ; words|word_count|max_words|~length
pages ; pages|page_count|num_pages
rows|lines ; rows|lines|max_rows|limit
copies ; copies|num_copies|~count
cups ; cups|num_cups|cup_count
pieces|units|items|pcs ; quantity|units|pieces|item_count|~amount
calories|kcal ; calories|kcal|calories_burned
bar|psi ; pressure_bar|pressure|~target
coins|gold ; coins|gold|gold_amount|~price
levels ; levels|num_levels|~depth
laps|rounds ; laps|rounds|num_rounds
replicas|instances|pods ; replicas|instances|replica_count
results|hits|entries ; limit|max_results|num_results|top_k
"""))]  # fmt: skip

# Choices that belong together.
CHOICES = [
    line.split()
    for line in lines("""
north south east west
left right up down
front back left right
low medium high critical
daily weekly monthly yearly
weekdays weekends daily once
walking driving cycling transit
merge squash rebase
dev staging production
debug info warning error
economy premium business first
single double suite
cash card paypal transfer
small medium large xl
espresso latte cappuccino mocha
celsius fahrenheit kelvin
metric imperial
asc desc
history geography culture food
beginner intermediate advanced
vegan vegetarian kosher halal
indoor outdoor
dhl ups fedex gls
mp3 wav flac ogg
json csv xml yaml
easy normal hard nightmare
warrior mage rogue healer
oak pine birch maple
lyon porto ghent turin
happy sad angry calm
draft published archived
bronze silver gold platinum
math science art music
bug feature question chore
monday tuesday wednesday thursday friday
spring summer autumn winter
heat cool auto fan_only
read write admin
aes rsa blowfish
gaming office travel fitness
electronics clothing books toys garden
standard express overnight
morning afternoon evening
public private unlisted
pending shipped delivered returned
""")
]
