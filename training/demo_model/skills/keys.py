"""The values that suit the keys of a JSON object, whatever the object is.

A grammar forces the keys and the types of an answer, which the model often has not seen; what it writes must suit them.
"""

# ruff: noqa: E501, SIM905 - phrases read best unbroken

from collections.abc import Callable
from random import Random
from typing import Any

from demo_model.skills import things, values
from demo_model.template import Message
from demo_model.text import (  # fmt: skip
    ADJECTIVES,
    CITIES,
    NAMES,
    NOUNS,
    Split,
    choose,
    coin,
    expand,
    pick,
    sentence,
)

Value = Callable[[Random, Split], Any]
Field = tuple[str, Any]  # a key and its value

ANIMALS = "cat dog horse rabbit fox owl goat lion bear wolf duck mouse".split()
GENRES = "fiction|rock|jazz|comedy|drama|fantasy|mystery|pop|history|science fiction|horror|romance|folk|action".split(
    "|"
)
ACTIVITIES = "hiking|swimming|museum visit|city walk|boat trip|shopping|reading|cooking|running|yoga|cleaning|painting|dinner|bike ride".split(
    "|"
)
JOBS = "teacher baker nurse engineer pilot farmer writer painter doctor cook gardener carpenter driver lawyer designer plumber".split()
COUNTRIES = (
    "France Germany Spain Italy Portugal Japan India Brazil Canada Egypt Kenya Norway Sweden Poland Greece Peru".split()
)
STREETS = "Main Oak Park Elm Lake Hill Church River Station Garden Market Mill".split()
FOODS = "flour sugar butter eggs milk salt rice tomatoes onions garlic cheese apples honey lemon pasta beans carrots".split()
TAGS = "new sale travel food music sport home garden cheap red small fast popular fresh classic quiet".split()
HOBBIES = "reading hiking chess cooking painting swimming music gardening cycling photography".split()


def _few(rng: Random, values: list[str], least: int = 2, most: int = 4) -> list[str]:
    return rng.sample(values, rng.randint(least, most))


def _surname(rng: Random) -> str:
    """Draw a family name, mostly one that people have: the likeliest letters of made-up ones make no name."""
    return choose(rng, things.SURNAMES).replace("_", " ") if rng.random() < 0.85 else things.surname(rng)


def person(rng: Random, split: Split) -> str:
    """Draw a first name, or one with a family name."""
    first = pick(rng, NAMES, split)
    return first if rng.random() < 0.5 else f"{first} {_surname(rng)}"


def _title(rng: Random) -> str:
    return expand(rng, "[The {A} {N}|{A} {N}s|The {N} of {c}|{N} and {M}|My {A} {N}|A {N} in {c}|{N}s at Night|The Last {N}]", A=choose(rng, ADJECTIVES).capitalize(), N=choose(rng, NOUNS).capitalize(), M=choose(rng, NOUNS).capitalize(), c=choose(rng, CITIES[:100]))  # fmt: skip


def _described(rng: Random) -> str:
    """Describe something in one short sentence."""
    return expand(
        rng,
        "[A {a} {n} [for|with|from|in|near] the {m}.|It is {a} and {b}.|{A} and {b}[, a good {n}|].|A {a} story about a {n}.|The {n} is {a}, but the {m} is {b}.|Very {a}[, I like it|].|A {n} with a {a} {m}.|{w} finds a {a} {n}.|Everything about the {n} is {a}.]",
        a=choose(rng, ADJECTIVES),
        b=choose(rng, ADJECTIVES),
        A=choose(rng, ADJECTIVES).capitalize(),
        n=choose(rng, NOUNS),
        m=choose(rng, NOUNS),
        w=choose(rng, NAMES),
    )


# Keys of what describes the whole object.
ABOUT = {"description", "summary", "about", "details", "short_description"}
_LOOKS = "quiet bright simple modern friendly strong small lovely colourful famous unusual popular old".split()
_FOLK = "families|children|beginners|friends|young people|visitors".split("|")


def described(rng: Random, kind: str) -> str:
    """Describe a thing of some kind in a short sentence that names it."""
    pattern = "[A {a} {k} for {p}.|This {k} is {a} and {b}.|A {a} and {b} {k}.|A {k} that everybody likes.|A {a} {k} from {c}.|The {k} is {a}, and {p} like it.]"
    a, b = rng.sample(_LOOKS, 2)
    noun = kind.partition(" for ")[0]
    text = expand(rng, pattern, a=a, b=b, k=noun, c=choose(rng, CITIES), p=choose(rng, _FOLK))
    return text.replace("A ", "An ", 1) if text.startswith("A ") and text[2].lower() in "aeiou" else text


def _thing(rng: Random) -> str:
    return f"{choose(rng, ADJECTIVES)} {choose(rng, NOUNS)}".capitalize()


def _date(rng: Random) -> str:
    return f"{rng.randint(1960, 2030)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"


def _address(rng: Random, split: Split) -> Message:
    both = {"street": f"{rng.randint(1, 99)} {choose(rng, STREETS)} Street", "city": choose(rng, CITIES)}
    more = {"zip": f"{rng.randint(10000, 99999)}", "country": choose(rng, COUNTRIES)}
    return {**both, **({key: more[key] for key in _few(rng, list(more), 1, 2)} if rng.random() < 0.4 else {})}


def _items(rng: Random, split: Split) -> list[Message]:
    """Draw things of an order, each with the same keys."""
    key = choose(rng, ("quantity", "price", "amount"))
    return [{"name": choose(rng, NOUNS), key: rng.randint(1, 20)} for _ in range(rng.randint(1, 3))]


# What stands behind keys of these names, whatever the object is.
VALUES: dict[str, Value] = {
    "name|full_name|author|owner|customer|contact|director|artist": person,
    "first_name|username|player|friend|winner": lambda rng, split: pick(rng, NAMES, split),
    "last_name|surname|family_name": lambda rng, split: _surname(rng),
    "age": lambda rng, split: rng.randint(18, 80),
    "city|town|birthplace|location|place|origin|destination|capital": lambda rng, split: pick(rng, CITIES, split),
    "country|nationality": lambda rng, split: choose(rng, COUNTRIES),
    "email|mail": lambda rng, split: f"{choose(rng, NAMES[:150]).lower()}@example.{choose(rng, ('com', 'org', 'net'))}",
    "phone|phone_number|telephone": lambda rng, split: f"555-{rng.randint(0, 9999):04}",
    "job|occupation|profession|role": lambda rng, split: choose(rng, JOBS),
    "title|headline|subject|book|movie|song|album|book_title|movie_title|project_name|event_name|game": lambda rng, split: _title(rng) if rng.random() < 0.6 else _thing(rng),
    "product|item|product_name|thing|object|gift|toy": lambda rng, split: _thing(rng),
    "price|cost|total|amount_due": lambda rng, split: choose(rng, (rng.randint(1, 99), round(rng.uniform(1, 99), 2), rng.randint(1, 99) - 0.01)),
    "currency": lambda rng, split: choose(rng, ("EUR", "USD", "GBP")),
    "date|birthday|birth_date|created_at|due_date|start_date|released": lambda rng, split: _date(rng),
    "time|start|opens_at": lambda rng, split: f"{rng.randint(0, 23):02}:{choose(rng, (0, 15, 30, 45)):02}",
    "year": lambda rng, split: rng.randint(1950, 2026),
    "tags|labels|keywords|categories": lambda rng, split: _few(rng, TAGS),
    "items|products|lines": _items,
    "ingredients": lambda rng, split: _few(rng, FOODS, 2, 4),
    "skills|requirements|qualifications": lambda rng, split: _few(rng, "Python|writing|sales|design|driving|teaching|accounting|English|planning|testing|German".split("|"), 2, 3),
    "hobbies|interests": lambda rng, split: _few(rng, HOBBIES, 2, 3),
    "steps|instructions": lambda rng, split: ["Mix everything.", "Heat the oven.", "Bake for 20 minutes.", "Cut the vegetables.", "Cook until soft.", "Serve warm."][rng.randint(2, 4) :],
    "colors|colours": lambda rng, split: _few(rng, ["red", "blue", "green", "black", "white", "yellow"], 2, 3),
    "color|colour": lambda rng, split: choose(rng, ["red", "blue", "green", "black", "white", "yellow"]),
    "address|home": _address,
    "is_active|active|available|in_stock|done|completed|verified|enabled|public|is_new|has_pets|married|vegetarian": lambda rng, split: rng.random() < 0.6,
    "rating|stars": lambda rng, split: choose(rng, (rng.randint(1, 5), round(rng.uniform(1, 5), 1))),
    "score|percent|progress": lambda rng, split: rng.randint(0, 100),
    "confidence|probability": lambda rng, split: round(rng.random(), 2),
    "quantity|count|stock|servings|people|seats|rooms|number": lambda rng, split: rng.randint(1, 20),
    "id|user_id|order_id|product_id": lambda rng, split: rng.randint(1, 9999),
    "weight|height|width|length|size_cm": lambda rng, split: choose(rng, (rng.randint(1, 200), round(rng.uniform(1, 99), 1))),
    "duration|minutes|prep_time|cook_time|cooking_time": lambda rng, split: choose(rng, (5, 10, 15, 20, 30, 45, 60, 90)),
    "difficulty": lambda rng, split: choose(rng, ("easy", "medium", "hard")),
    "priority|level|severity": lambda rng, split: choose(rng, ("low", "medium", "high")),
    "status|state": lambda rng, split: choose(rng, ("open", "closed", "active", "pending", "done")),
    "category|kind|type|genre": lambda rng, split: choose(rng, ("food", "home", "music", "sport", "travel", "fiction", "other")),
    "sentiment|mood": lambda rng, split: choose(rng, ("positive", "negative", "neutral")),
    "gender": lambda rng, split: choose(rng, ("female", "male")),
    "size": lambda rng, split: choose(rng, ("small", "medium", "large")),
    "language": lambda rng, split: choose(rng, ("English", "French", "German", "Spanish")),
    "animal|pet|species": lambda rng, split: choose(rng, ("cat", "dog", "horse", "rabbit", "fox", "owl", "goat")),
    "description|summary|text|note|comment|message|reason|content|answer|bio|explanation": lambda rng, split: _described(rng) if rng.random() < 0.7 else sentence(rng),
    "url|website|link": lambda rng, split: f"https://example.com/{choose(rng, NOUNS)}",
    "temperature": lambda rng, split: rng.randint(-10, 35),
    "population": lambda rng, split: rng.randint(1, 900) * 1000,
    "company|brand|team|publisher": lambda rng, split: f"{coin(rng, 2).capitalize()} {choose(rng, ('Ltd', 'Inc', 'Group', 'Works'))}",
    "dish|recipe|recipe_name|meal": lambda rng, split: f"{choose(rng, FOODS)} {choose(rng, ('soup', 'salad', 'cake', 'pie', 'bread', 'stew'))}".capitalize(),
    "nickname|handle|screen_name|login": lambda rng, split: f"{choose(rng, ADJECTIVES)}_{choose(rng, NOUNS)}" if rng.random() < 0.5 else coin(rng, 2),
    "street|street_address|address_line": lambda rng, split: f"{rng.randint(1, 199)} {choose(rng, STREETS)} Street",
    "zip|zip_code|postcode|postal_code": lambda rng, split: f"{rng.randint(10000, 99999)}",
    "state|region|province": lambda rng, split: choose(rng, "California|Texas|Bavaria|Ontario|Tuscany|Kerala|Normandy|Utah|Victoria|Hesse".split("|")),
    "lat|latitude": lambda rng, split: round(rng.uniform(-60, 70), 2),
    "lon|lng|longitude": lambda rng, split: round(rng.uniform(-170, 170), 2),
    "breed": lambda rng, split: choose(rng, "Poodle|Beagle|Siamese|Labrador|Persian|Collie|Terrier|Boxer".split("|")),
    "sound|noise": lambda rng, split: choose(rng, "meow|woof|moo|baa|quack|roar|chirp".split("|")),
    "habitat|environment": lambda rng, split: choose(rng, "forest|desert|ocean|river|mountains|savanna|city".split("|")),
    "diet|food|favorite_food|main_ingredient|ingredient|snack": lambda rng, split: choose(rng, FOODS),
    "legs|wheels|doors|wings|floors|bedrooms|bathrooms|players|episodes|chapters|chairs|tracks": lambda rng, split: rng.randint(1, 12),
    "vaccinated|trained|friendly|approved|paid|shipped|urgent|free|open|online|premium|admin|is_admin|subscribed|spam|is_spam|success|valid|correct|recommended|refundable|spicy|gluten_free|vegan|wifi|remote|full_time|electric|fragile|gift|visible|archived|required|found": lambda rng, split: rng.random() < 0.55,
    "class|character_class|job_class": lambda rng, split: choose(rng, "warrior|wizard|archer|knight|healer|thief".split("|")),
    "weapon|tool|item_name|equipment": lambda rng, split: choose(rng, "sword|hammer|bow|axe|staff|shield|spear|rope".split("|")),
    "power|ability|skill|talent|superpower|special_move": lambda rng, split: choose(rng, "flying|fire|ice|speed|strength|healing|magic|invisibility".split("|")),
    "strength|speed|health|intelligence|luck|defense|attack|mana|hp|stamina|dexterity|energy": lambda rng, split: rng.randint(1, 100),
    "race|tribe|clan|faction": lambda rng, split: choose(rng, "elf|dwarf|human|orc|giant|fairy".split("|")),
    "planet|star|galaxy": lambda rng, split: choose(rng, "Mars|Venus|Saturn|Neptune|Jupiter|Mercury".split("|")),
    "hex|hex_code|color_code": lambda rng, split: f"#{rng.randint(0, 0xFFFFFF):06X}",
    "rgb": lambda rng, split: [rng.randint(0, 255) for _ in range(3)],
    "red|green|blue": lambda rng, split: rng.randint(0, 255),
    "material|fabric": lambda rng, split: choose(rng, "wood|steel|cotton|glass|leather|plastic|wool|paper".split("|")),
    "shape|form": lambda rng, split: choose(rng, "round|square|oval|flat|long".split("|")),
    "flavor|flavour|taste": lambda rng, split: choose(rng, "sweet|sour|salty|bitter|spicy|vanilla|lemon|chocolate".split("|")),
    "season": lambda rng, split: choose(rng, ("spring", "summer", "autumn", "winter")),
    "month|birth_month": lambda rng, split: choose(rng, values.MONTHS),
    "day|weekday|day_of_week": lambda rng, split: choose(rng, values.DAYS),
    "end_date|end|deadline|expires|departure_date|return_date|check_out|check_in|published|published_at|release_date|order_date|joined|hired|last_visit|updated_at|purchase_date|delivery_date|next_appointment": lambda rng, split: _date(rng),
    "start_time|end_time|departure|arrival|departure_time|arrival_time|closes_at|opening_time|wake_up": lambda rng, split: f"{rng.randint(0, 23):02}:{choose(rng, (0, 15, 30, 45)):02}",
    "founded|founded_year|birth_year|release_year|year_built|since|vintage|established": lambda rng, split: rng.randint(1850, 2024),
    "employees|members|followers|views|likes|subscribers|downloads|visitors|attendees_count|votes|sales|users|calories|pages|page_count|word_count": lambda rng, split: rng.randint(1, 99) * choose(rng, (1, 10, 100)),
    "planet_name|world_name|moon_name|star_name": lambda rng, split: choose(rng, "Zorvan|Kelora|Amberis|Talos Minor|Nyx Prime|Veluna|Pelion|Sandrune".split("|")) if rng.random() < 0.5 else coin(rng, 2).capitalize(),
    "town_name|village_name|island_name|kingdom": lambda rng, split: choose(rng, ("Green", "Wind", "Oak", "Silver", "New", "Stone", "Gold", "North")) + choose(rng, ("port", "haven", "field", "bay", "bridge", "town", "gate", "ford")),
    "event_title|party_name|occasion": lambda rng, split: choose(rng, "Garden Party|Summer Night|Spring Meeting|Open House|Winter Ball|City Run|Jazz Evening|Family Day|Farewell Dinner|Quiz Night".split("|")),
    "song_title|track_title|single": lambda rng, split: choose(rng, "Blue River|Golden Rain|Paper Moon|Last Light|Old Road|Silver Sky|Home Again|Walk With Me".split("|")),
    "duration_seconds|song_seconds|length_seconds": lambda rng, split: rng.randint(110, 330),
    "salary|income|revenue|budget|balance|rent|profit|funding": lambda rng, split: rng.randint(10, 99) * choose(rng, (100, 1000)),
    "tax|discount|fee|tip|shipping|subtotal|deposit|amount|unit_price|price_per_night|monthly_fee": lambda rng, split: choose(rng, (rng.randint(1, 99), round(rng.uniform(1, 99), 2))),
    "distance|distance_km|area|volume|depth|mileage|range|size_km|radius|elevation": lambda rng, split: choose(rng, (rng.randint(1, 500), round(rng.uniform(1, 99), 1))),
    "humidity|wind_speed|battery|battery_level|completion|accuracy|chance_of_rain|uv_index|alcohol": lambda rng, split: rng.randint(0, 100),
    "condition|conditions|weather|forecast|sky": lambda rng, split: choose(rng, ("sunny", "cloudy", "rainy", "windy", "snowy", "foggy")),
    "attendees|participants|guests|students|friends|authors|cast|actors|team_members|children|names|people_list|characters|speakers|invitees": lambda rng, split: _few(rng, NAMES[:180], 2, 3),
    "cities|places|stops|destinations|locations": lambda rng, split: _few(rng, CITIES[:100], 2, 3),
    "countries|languages_spoken_in": lambda rng, split: _few(rng, COUNTRIES, 2, 3),
    "languages": lambda rng, split: _few(rng, ["English", "French", "German", "Spanish", "Italian"], 2, 3),
    "genres|styles": lambda rng, split: _few(rng, GENRES, 2, 3),
    "genre|music_genre|style": lambda rng, split: choose(rng, GENRES),
    "songs|track_list|books|movies|titles|episodes_list|works": lambda rng, split: [_title(rng) for _ in range(rng.randint(1, 3))],
    "drinks_list|beverages": lambda rng, split: _few(rng, things.DRINKS, 2, 4),
    "dishes|menu": lambda rng, split: _few(rng, things.DISHES, 2, 4),
    "toppings|foods|groceries|shopping_list": lambda rng, split: _few(rng, FOODS, 2, 4),
    "activities|sports|games|plans|agenda|todo|tasks|goals|chores|exercises": lambda rng, split: _few(rng, ACTIVITIES, 2, 3),
    "features|pros|benefits|strengths|advantages|amenities|highlights": lambda rng, split: _few(rng, "fast|light|cheap|easy to use|quiet|strong|small|bright|safe|warm".split("|"), 2, 3),
    "cons|weaknesses|problems|issues|risks|disadvantages|warnings": lambda rng, split: _few(rng, "slow|heavy|expensive|loud|hard to clean|fragile|big|cold".split("|"), 2, 3),
    "materials|parts|tools|supplies|equipment_list": lambda rng, split: _few(rng, "wood|nails|glue|paper|paint|rope|screws|cloth|wire".split("|"), 2, 4),
    "numbers|scores|ratings|data|points|grades|measurements|lottery_numbers": lambda rng, split: [rng.randint(1, 99) for _ in range(rng.randint(2, 5))],
    "keywords_list|hashtags|topics|subjects|words|synonyms": lambda rng, split: _few(rng, TAGS, 2, 4),
    "symptoms": lambda rng, split: _few(rng, "cough|fever|headache|sore throat|cold|nausea".split("|"), 2, 3),
    "allergies": lambda rng, split: _few(rng, "nuts|milk|eggs|pollen|dust|fish".split("|"), 2, 3),
    "instrument|instruments_played": lambda rng, split: choose(rng, "piano|guitar|violin|flute|drums|trumpet".split("|")),
    "model|model_name|version_name": lambda rng, split: f"{coin(rng, 2).capitalize()} {rng.randint(1, 900)}",
    "make|manufacturer|maker|car_brand": lambda rng, split: choose(rng, "Volvo|Toyota|Ford|Fiat|Honda|Skoda|Mazda".split("|")),
    "fuel|fuel_type|engine": lambda rng, split: choose(rng, ("petrol", "diesel", "electric", "hybrid")),
    "code|sku|serial|serial_number|tracking_number|reference|booking_code|coupon|flight_number|license_plate|isbn|invoice_number": lambda rng, split: str(values.code(rng)[1]),
    "password|token|secret|key|api_key": lambda rng, split: coin(rng, 2) + str(rng.randint(10, 99)),
    "version": lambda rng, split: f"{rng.randint(0, 9)}.{rng.randint(0, 9)}.{rng.randint(0, 9)}",
    "file|filename|path|image|photo|avatar": lambda rng, split: f"{choose(rng, NOUNS)}.{choose(rng, ('png', 'jpg', 'txt', 'pdf'))}",
    "greeting|hello": lambda rng, split: choose(rng, ("Hello!", "Hi there!", "Good morning!", "Welcome!")),
    "slogan|motto|tagline|catchphrase": lambda rng, split: expand(rng, "[Always {a}.|The {a} {n}.|{A} and {b}.|A {n} for everyone.|Made to be {a}.]", a=choose(rng, ADJECTIVES), b=choose(rng, ADJECTIVES), A=choose(rng, ADJECTIVES).capitalize(), n=choose(rng, NOUNS)),
    "plot|story|background|backstory|biography|abstract|synopsis|details|body|paragraph|review|feedback|advice|tip_of_the_day|fact|lesson|hint|instructions_text|directions|history": lambda rng, split: _described(rng),
    "question|prompt": lambda rng, split: expand(rng, "[What is the {n}?|Where is the {n}?|How old is the {n}?|Why is the {n} {a}?]", n=choose(rng, NOUNS), a=choose(rng, ADJECTIVES)),
    "options|choices|answers": lambda rng, split: _few(rng, NOUNS, 2, 4),
    "hobby|interest|favorite_activity|sport|favorite_sport|activity": lambda rng, split: choose(rng, HOBBIES),
    "favorite_color|eye_color|hair_color|fur_color": lambda rng, split: choose(rng, "red blue green black white brown grey".split()),
    "department|section|division": lambda rng, split: choose(rng, "sales|marketing|support|finance|engineering|research".split("|")),
    "industry|sector|field|business": lambda rng, split: choose(rng, "software|food|travel|energy|health|fashion|education|banking".split("|")),
    "school|university|college": lambda rng, split: f"{choose(rng, CITIES[:100])} University",
    "major|course|study|degree": lambda rng, split: choose(rng, "physics|history|law|biology|music|art|economics".split("|")),
    "grade|mark|letter_grade": lambda rng, split: choose(rng, "A B C D".split()),
    "venue|stadium|theater|hall|building": lambda rng, split: f"{choose(rng, CITIES[:100])} {choose(rng, ('Hall', 'Arena', 'Park', 'Theatre', 'Museum'))}",
    "airline|carrier": lambda rng, split: f"{coin(rng, 2).capitalize()} Air",
    "method|payment_method|payment": lambda rng, split: choose(rng, ("card", "cash", "transfer", "invoice")),
    "mode|transport|vehicle": lambda rng, split: choose(rng, ("car", "bus", "train", "bike", "plane", "boat")),
    "unit|units": lambda rng, split: choose(rng, ("kg", "g", "ml", "cups", "pieces", "km")),
    "frequency|interval|recurrence": lambda rng, split: choose(rng, ("daily", "weekly", "monthly", "yearly")),
    "emotion|feeling|tone": lambda rng, split: choose(rng, ("happy", "sad", "angry", "calm", "excited", "bored")),
    "label|classification|topic|theme|category_name": lambda rng, split: choose(rng, ("food", "home", "music", "sport", "travel", "science", "work")),
    "result|sum|answer_number|total_count|index|rank|position|order|step|round|level_number|age_in_years|experience|years_of_experience|lifespan|nights|days|weeks|hours|length_minutes|runtime": lambda rng, split: rng.randint(1, 90),
    "max_speed|top_speed|horsepower|max_players|capacity|max_guests|limit|min|max|average": lambda rng, split: rng.randint(2, 300),
    "width_cm|height_cm|depth_cm|weight_kg|weight_g|length_m|height_m": lambda rng, split: choose(rng, (rng.randint(1, 200), round(rng.uniform(1, 99), 1))),
    "dimensions|size_info|measurements_cm|resolution": lambda rng, split: {"width": rng.randint(1, 200), "height": rng.randint(1, 200)},
    "coordinates|position_on_map|geo|gps": lambda rng, split: {"lat": round(rng.uniform(-60, 70), 2), "lon": round(rng.uniform(-170, 170), 2)},
    "stats|attributes|abilities": lambda rng, split: {key: rng.randint(1, 100) for key in _few(rng, ["strength", "speed", "health", "luck", "magic"], 2, 3)},
    "contact_info|contact_details|support_contact": lambda rng, split: {"email": f"{choose(rng, NAMES[:150]).lower()}@example.com", "phone": f"555-{rng.randint(0, 9999):04}"},
    "author_info|owner_info|manager|seller|chef|teacher_info|doctor_info|sender|recipient|driver|captain|parent": lambda rng, split: {"name": person(rng, split), choose(rng, ("age", "id")): rng.randint(20, 70)} if rng.random() < 0.3 else person(rng, split),
    "nutrition|macros": lambda rng, split: {"calories": rng.randint(50, 900), "protein": rng.randint(1, 60)},
    "price_info|cost_info|money": lambda rng, split: {"amount": rng.randint(1, 99), "currency": choose(rng, ("EUR", "USD"))},
    "animals|pets|animal_list": lambda rng, split: [{"name": choose(rng, ANIMALS), "legs": choose(rng, (2, 4))} for _ in range(rng.randint(1, 3))] if rng.random() < 0.4 else _few(rng, ANIMALS, 2, 4),
    "reviews|comments_list": lambda rng, split: [{"rating": rng.randint(1, 5), "text": choose(rng, ("Great!", "Very good.", "Not bad.", "Too slow.", "I love it."))} for _ in range(rng.randint(1, 2))],
    "users_list|people_info|employees_list|contacts|family": lambda rng, split: [{"name": pick(rng, NAMES, split), "age": rng.randint(1, 80)} for _ in range(rng.randint(1, 3))],
    "schedule|sessions|events|days_plan": lambda rng, split: [{"day": choose(rng, values.DAYS), "activity": choose(rng, ACTIVITIES)} for _ in range(rng.randint(1, 2))],
    "cart|order_lines|line_items|inventory": _items,
    "capital_city|home_city|home_town|hometown|current_city|headquarters|based_in": lambda rng, split: pick(rng, CITIES, split),
}  # fmt: skip

BY_KEY = {key: value for keys, value in VALUES.items() for key in keys.split("|")}
# Words before a key that leave its kind of value what it is.
PREFIXES = "main first second primary favorite home owner total average new old short full best work other current original next last secret official local customer product user".split()
_PREFIXED = "name|city|country|email|phone|date|title|price|color|age|year|description|type|status|score|rating|id|count|number|size|language|address|animal|job|time|category|level|note|food|url".split(
    "|"
)


def made(rng: Random, split: Split, key: str) -> Field:
    """Return a key with a value that suits it; ``shown:like`` shows one key with the value of another."""
    shown, _, like = key.partition(":")
    return shown, BY_KEY[like or shown](rng, split)


def some_key(rng: Random) -> str:
    """Draw any key, in the form that :func:`made` takes."""
    if rng.random() < 0.3:
        key = choose(rng, _PREFIXED)
        return f"{choose(rng, (*PREFIXES, choose(rng, NOUNS)))}_{key}:{key}"
    return choose(rng, _KEYS)


_KEYS = list(BY_KEY)


def retyped(rng: Random, value: Any) -> Any:
    """Give a value another type, as a schema may ask for it: text for a number, a list for a text."""
    if isinstance(value, bool):
        return choose(rng, ("yes", "no")) if rng.random() < 0.5 else value
    if isinstance(value, int | float):
        return choose(rng, (str(value), float(value), [value]))
    if isinstance(value, str) and len(value) < 30:
        return [value]
    return value
