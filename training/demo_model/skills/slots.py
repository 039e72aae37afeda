"""The arguments of tools: their names, schemas and values, and how a sentence mentions them."""

# ruff: noqa: E501, SIM905 - phrases read best unbroken

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from demo_model.skills import values
from demo_model.skills.values import Said, same
from demo_model.template import Message
from demo_model.text import ADJECTIVES, NAMES, NOUNS, Split, choose, coin, expand, holdout, pick


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument as a tool defines it, and the value that the request gives it."""

    name: str
    about: str
    schema: Message
    value: Any


@dataclass(frozen=True, slots=True)
class Slot:
    """An argument; in ``mentions``, ``{v}`` is the value as people say it."""

    names: str
    about: str
    schema: Message
    value: Callable[[Random, Split], Said]
    mentions: str


TEXT, INT, NUMBER, BOOL = ({"type": kind} for kind in ("string", "integer", "number", "boolean"))
LIST: Message = {"type": "array", "items": {"type": "string"}}
_CURRENCY = {"euros": "EUR", "dollars": "USD", "pounds": "GBP", "yen": "JPY", "EUR": "EUR", "USD": "USD", "CHF": "CHF", "GBP": "GBP"}  # fmt: skip


def choice(names: str, about: str, options: str, mentions: str) -> Slot:
    """Make a slot with a fixed choice; the call has it as the schema writes it, the sentence in any case."""
    listed = options.split("|")

    def value(rng: Random, split: Split) -> Said:
        chosen = choose(rng, listed)
        return chosen.replace("_", " "), chosen

    return Slot(names, about, {"type": "string", "enum": listed}, value, mentions)


_WHEN = "[ {v}| {v}|, {v}| {v}]"
SLOTS: dict[str, Slot] = {
    "date": Slot("date|day|when|on_date|event_date|date_string", "[The |][date|day][.||, e.g. 2025-01-31]", TEXT, lambda rng, split: values.day(rng), _WHEN),
    "moment": Slot("when|datetime|time|date_time|at|remind_at|start", "[When it is|[The |]date and time][.|]", TEXT, lambda rng, split: _moment(rng), "[ {v}| {v}|, {v}| {v}]"),
    "due": Slot("due|deadline|due_date|until|finish_by|expires", "[[The |]day by which it must be done|Deadline|Due date][.|]", TEXT, lambda rng, split: bare(values.day(rng)), "[, due {v}|, by {v}| until {v}|, it has to be done by {v}| before {v}|, deadline {v}|, no later than {v}]"),
    "time": Slot("time|at|start_time|hour|when|starts_at|clock_time", "[The |][time|hour][.||, e.g. 14:30]", TEXT, lambda rng, split: values.clock(rng), "[ at {v}| at {v}| for {v}|, {v}| from {v} on]"),
    "minutes": Slot("minutes|duration|length|duration_minutes|mins|how_long", "[How long it takes, in minutes|Duration in minutes|Minutes][.|]", INT, lambda rng, split: values.span(rng, "minutes", 120), "[ for {v}|, {v} long| lasting {v}| of {v}|, it takes {v}| for about {v}]"),
    "seconds": Slot("seconds|duration_seconds|delay|timeout|wait_seconds|interval_seconds", "[Time in seconds|Seconds|How many seconds][.|]", INT, lambda rng, split: values.span(rng, "seconds", 300), "[ for {v}| in {v}| after {v}| for the next {v}| with a delay of {v}|, {v}|, wait {v}]"),
    "hours": Slot("hours|num_hours|duration_hours|hour_count", "[Hours|How many hours|Length in hours][.|]", NUMBER, lambda rng, split: values.span(rng, "hours", 48), "[ for {v}| for the next {v}| lasting {v}|, {v} long| of {v}]"),
    "days": Slot("days|num_days|day_count|period_days|number_of_days", "[How many days|The number of days][.|]", INT, lambda rng, split: values.span(rng, "days", 30), "[ for {v}| for the next {v}| over {v}|, {v}| within {v}| for the last {v}]"),
    "nights": Slot("nights|num_nights|stay|night_count", "[How many nights|Number of nights][.|]", INT, lambda rng, split: values.count(rng, 14), "[ for {v} nights| for {v} nights|, {v} nights|, staying {v} nights]"),
    "people": Slot("people|guests|party_size|persons|seats|adults|passengers|num_people|group_size", "[How many people|The number of guests|Number of persons][.|]", INT, lambda rng, split: values.count(rng, 12), "[ for {v} people| for {v}| for {v} guests| for {v} adults| for {v} passengers|, {v} persons|, we are {v}|, we will be {v} people| for a group of {v}| for {v} of us]"),
    "quantity": Slot("quantity|count|amount|number|how_many|qty|units|copies", "[How many|The quantity|Number of pieces|Quantity][.|]", INT, lambda rng, split: values.count(rng, 60), "[, {v} of them|, {v} pieces|, {v} times|, {v} copies|, quantity {v}|, {v} in total| x {v}]"),
    "pieces": Slot("quantity|count|amount|number|how_many|qty|units|copies", "[How many|The quantity|Quantity][.|]", INT, lambda rng, split: values.count(rng, 60, things=True), "[, {v}]"),
    "limit": Slot("limit|max_results|top|n|max_items|page_size|num_results|count", "[The most results|How many results|Maximum number of entries][.|, default 10|]", INT, lambda rng, split: values.count(rng, 50), "[, the first {v}|, at most {v}|, no more than {v}| (only {v})|, {v} results|, top {v}|, up to {v}|, just {v}]"),
    "lines": Slot("lines|num_lines|n|line_count|rows|max_lines", "[How many lines|Number of lines][.|]", INT, lambda rng, split: values.count(rng, 500), "[, {v} lines|, the last {v} lines|, only {v} lines|, the first {v} rows|, {v} rows]"),
    "weight": Slot("weight|weight_kg|kilograms|mass|load_kg", "[Weight in kg|The weight in kilograms][.|]", NUMBER, lambda rng, split: values.decimal(rng, 80), "[ of {v} kg| weighing {v} kg|, {v} kilos|, it weighs {v} kg|, {v}kg]"),
    "distance": Slot("distance|distance_km|kilometers|km|length_km|radius_km", "[Distance in km|Kilometres|The distance][.|]", NUMBER, lambda rng, split: values.decimal(rng, 99), "[ of {v} km|, {v} km| over {v} kilometres| within {v} km|, {v}km| for {v} kilometers]"),
    "price": Slot("max_price|budget|price_limit|max_cost|price|cost", "[The highest price|Budget|The price][.|]", NUMBER, values.money, "[ under {v}| for less than {v}|, at most {v}|, I can pay {v}| for {v}| up to {v}|, budget {v}]"),
    "sum": Slot("amount|sum|total|value|price|payment", "[The |][amount|sum][ of money|][.|]", NUMBER, values.money, "[ of {v}|, {v}|: {v}| over {v}| for {v}| worth {v}]"),
    "degrees": Slot("temperature|degrees|target|celsius|temp|value|target_temperature", "[Degrees|The temperature in degrees][.|]", NUMBER, lambda rng, split: values.signed(rng, 40), "[ to {v} degrees| at {v} degrees| to {v}°C| to {v}|, {v} degrees]"),
    "percent": Slot("percent|level|percentage|value|brightness|intensity|volume", "[Percent|A value from 0 to 100|The level][.|]", INT, lambda rng, split: choose(rng, (same(rng.randint(1, 100)), same(rng.randint(1, 100)), values.count(rng, 100))), "[ to {v} percent| to {v}%| at {v}%| by {v} percent| to {v}| at level {v}]"),
    "discount": Slot("discount|percent_off|discount_percent|rate|tip_percent|tax_rate", "[The |][discount|rate] in percent[.|]", NUMBER, lambda rng, split: values.decimal(rng, 60), "[ with a {v} percent discount| with {v}% off|, {v} percent| at a rate of {v}%|, {v}%]"),
    "age": Slot("age|years|age_years|customer_age|min_age", "[The |]age[ in years|][.|]", INT, lambda rng, split: values.count(rng, 99), "[, {v} years old|, aged {v}| of age {v}|, age {v}|, who is {v}]"),
    "year": Slot("year|model_year|from_year|release_year", "[The |]year[.|]", INT, lambda rng, split: same(rng.randint(1800, 2035)), "[ from {v}| of {v}| in {v}|, year {v}| since {v}]"),
    "city": Slot("city|location|place|town|city_name|region|destination_city|where", "[The |][city|place|location][.|, e.g. Paris|]", TEXT, lambda rng, split: same(values.place(rng, split)), "[ in {v}| in {v}| near {v}| for {v}| around {v}]"),
    "to": Slot("destination|to|target_city|to_city|arrival|going_to", "[Where it goes|The destination][.|]", TEXT, lambda rng, split: same(values.place(rng, split)), " to {v}"),
    "from": Slot("origin|from|from_city|start|departure|leaving_from", "[Where it starts|The origin][.|]", TEXT, lambda rng, split: same(values.place(rng, split)), "[ from {v}| starting in {v}| leaving {v}]"),
    "person": Slot("person|name|contact|customer|who|person_name|full_name|client|assignee|guest_name|owner", "[The |][person|name|name of the person][.|]", TEXT, lambda rng, split: same(values.person(rng, split)), "[ for {v}| with {v}| for my friend {v}| in the name of {v}| for {v}|, name {v}| on behalf of {v}]"),
    "recipient": Slot("recipient|to|receiver|contact|target_user|send_to|name", "[Who gets it|The recipient|Recipient's name][.|]", TEXT, lambda rng, split: same(values.person(rng, split)), "[ to {v}| to {v}| to my friend {v}| over to {v}]"),
    "people_list": Slot("attendees|participants|names|members|invitees|guests|players|recipients", "[Who takes part|The names|List of people][.|]", LIST, lambda rng, split: values.listed(rng, holdout(NAMES, split)), "[ with {v}| together with {v}|, {v} will be there| for {v}|, invite {v}]"),
    "tags": Slot("tags|labels|keywords|categories|topics", "[Tags|Labels|List of tags][.|]", LIST, lambda rng, split: values.listed(rng, NOUNS), "[ tagged {v}|, tags: {v}| with the labels {v}| and tag it {v}|, labels {v}]"),
    "goods": Slot("items|products|things|articles|ingredients|elements|list", "[The things|What to put in|List of items][.|]", LIST, lambda rng, split: values.listed(rng, NOUNS, 5), "[ with {v}|: {v}| containing {v}|, namely {v}| made of {v}]"),
    "seats": Slot("seats|seat_numbers|places|spots|seat_ids", "[The seats|Seat numbers|Which places][.|]", LIST, lambda rng, split: _codes(rng, lambda: f"{rng.randint(1, 60)}{choose(rng, 'ABCDEFGH')}"), "[, seats {v}| in seats {v}| for seats {v}| on seats {v}]"),
    "codes": Slot("codes|ids|references|skus|keys", "[The codes|Which ones|List of ids][.|]", LIST, lambda rng, split: _codes(rng, lambda: str(values.code(rng)[1])), "[ {v}|, codes {v}| with the codes {v}| for {v}|: {v}]"),
    "boxes": Slot("boxes|lockers|rooms|shelves|slots|gates", "[The numbers|Which ones][.|]", LIST, lambda rng, split: _codes(rng, lambda: str(rng.randint(1, 400))), "[ in boxes {v}|, lockers {v}| for rooms {v}| at gates {v}|, shelves {v}]"),
    "numbers": Slot("numbers|values|data|scores|points", "[The numbers|A list of values][.|]", {"type": "array", "items": {"type": "number"}}, lambda rng, split: _numbers(rng), "[ of {v}| for {v}|: {v}| with {v}]"),
    "email": Slot("email|to|recipient|address|mail_to|email_address|contact_email", "[The |][e-mail address|recipient|email][.|]", TEXT, values.email, "[ to {v}|, mail it to {v}| and send it to {v}| for {v}|, e-mail {v}|, email: {v}| with the address {v}]"),
    "phone": Slot("phone|phone_number|number|mobile|tel|contact_number", "[The |]phone number[.|]", TEXT, lambda rng, split: values.phone(rng), "[, the number is {v}|, reachable at {v}|, phone {v}| for {v}|, tel. {v}| with the number {v}]"),
    "path": Slot("path|file|filename|file_path|filepath|source|input_file|document", "[The |][path|file|path to the file|file name][.|]", TEXT, lambda rng, split: values.path(rng), "[ in {v}| from {v}| of {v}| {v}| named {v}| at {v}]"),
    "folder": Slot("folder|directory|path|dir|location|base_dir", "[The |][folder|directory][.|]", TEXT, lambda rng, split: same(values.folder(rng)), "[ in {v}| under {v}| in the folder {v}| from the directory {v}| inside {v}]"),
    "output": Slot("output|target|save_to|destination_path|output_file|dest", "[Where to write|The output file][.|]", TEXT, lambda rng, split: values.path(rng), "[ into {v}| and save it as {v}| and write it to {v}|, output to {v}| to {v}]"),
    "url": Slot("url|link|address|page|website|endpoint|uri", "[The |][URL|link|address][.|]", TEXT, lambda rng, split: values.url(rng), "[ at {v}| from {v}|: {v}| {v}| on {v}]"),
    "host": Slot("host|server|hostname|ip|machine|address|ip_address", "[The |][host|server|machine][.|]", TEXT, lambda rng, split: values.host(rng), "[ on {v}| at {v}| on the server {v}| of {v}| {v}]"),
    "code": Slot("code|id|reference|tracking_id|number|sku|serial|tracking_number|key|order_id", "[The |][code|id|reference|number][.|]", TEXT, lambda rng, split: values.code(rng), "[ {v}| number {v}| with the code {v}| #{v}|, code {v}|, reference {v}| with id {v}]"),
    "id": Slot("id|number|ticket_id|record_id|item_id|user_id|order_number", "[The |][id|number|identifier][.|]", INT, lambda rng, split: same(rng.randint(1, 10 ** rng.randint(1, 6))), "[ {v}| number {v}| #{v}| with id {v}| no. {v}|, id {v}]"),
    "text_id": Slot("id|order_id|user_id|customer_id|account|number", "[The |][id|number|identifier][.|]", TEXT, lambda rng, split: _text_id(rng), "[ {v}| number {v}| #{v}| with id {v}| no. {v}|, id {v}]"),
    "title": Slot("title|name|label|subject|heading|event_name|task_name|summary", "[The |][title|name][.|]", TEXT, lambda rng, split: values.quoted(rng, values.title(rng)), "[ called {v}| named {v}| titled {v}| with the title {v}|: {v}| with the subject {v}|, title {v}]"),
    "text": Slot("text|message|body|content|note|description|comment|details", "[The |][text|message|content][.|]", TEXT, lambda rng, split: values.quoted(rng, values.note(rng, split)), "[ saying {v}| that says {v}| and tell them {v}| and tell her that {v}| and say {v}| telling him {v}|: {v}| with the text {v}| that reads {v}| with the message {v}|, text: {v}]"),
    "reason": Slot("reason|cause|comment|explanation|purpose", "[The |][reason|cause][.|]", TEXT, lambda rng, split: values.quoted(rng, expand(rng, "[too {a}|bad {n}|broken {n}|{a} {n}|wrong {n}|no {n}|the {n} is {a}]", a=choose(rng, ADJECTIVES), n=choose(rng, NOUNS))), "[ because of {v}|, reason: {v}|, the reason is {v}| due to {v}| for the reason {v}]"),
    "topic": Slot("topic|query|subject|search|keyword|term|about|search_term|q", "[The |][topic|query|search term][.|, what to look for|]", TEXT, lambda rng, split: values.quoted(rng, topic(rng)), "[ about {v}| on {v}| matching {v}| for {v}| with {v} in it| containing {v}]"),
    "thing": Slot("item|product|thing|article|object|product_name|item_name", "[The |][item|product|thing][.|]", TEXT, lambda rng, split: same(_thing(rng)), "[ for the {v}| with the {v}| of {v}|, item {v}|: {v}]"),
    "plural": Slot("item|product|thing|article|items|product_name", "[The |][item|product][.|]", TEXT, lambda rng, split: same(plural(rng)), "[ of {v}]"),
    "task": Slot("task|text|title|what|reminder|todo|message|description", "[What to do|The task|The text][.|]", TEXT, lambda rng, split: same(task(rng, split)), "[ to {v}]"),
    "channel": Slot("channel|room|chat|group|channel_name", "[The |]channel[.|]", TEXT, lambda rng, split: same(f"{choose(rng, ('#', '#', ''))}{choose(rng, (choose(rng, NOUNS), f'{choose(rng, NOUNS)}-{choose(rng, NOUNS)}', 'general', 'random', coin(rng)))}"), "[ in {v}| to {v}| on {v}|, channel {v}]"),
    "repo": Slot("repo|repository|project|repo_name", "[The |]repository[.|, as owner/name|]", TEXT, lambda rng, split: same(expand(rng, "[{c}/{n}|{n}/{m}|{c}-{n}|{n}-{m}|{c}]", c=coin(rng), n=choose(rng, NOUNS), m=choose(rng, NOUNS))), "[ in {v}| of {v}| for {v}| in the repo {v}| of the repository {v}]"),
    "handle": Slot("user|username|handle|account|login|to", "[The |]user[ name|][.|]", TEXT, lambda rng, split: same(f"{choose(rng, ('@', '', ''))}{choose(rng, (coin(rng, 2), f'{choose(rng, NOUNS)}{rng.randint(1, 99)}', f'{coin(rng, 1)}_{choose(rng, NOUNS)}'))}"), "[ of {v}| for {v}| by {v}| as {v}| from the user {v}]"),
    "stem": Slot("name|folder_name|directory|folder|title|dirname", "[The |]name[.|]", TEXT, lambda rng, split: values.quoted(rng, values.stem(rng)), "[ called {v}| named {v}|: {v}]"),
    "years": Slot("years|term|num_years|duration_years|term_years", "[How many years|Years][.|]", INT, lambda rng, split: values.count(rng, 40), "[ for {v} years| over {v} years|, {v} years]"),
    "activity": Slot("activity|sport|kind|type|exercise", "[What was done|The kind of sport][.|]", TEXT, lambda rng, split: same(choose(rng, "swimming running cycling yoga rowing tennis dancing skiing climbing boxing hiking football reading gardening".split())), "[, {v}|: {v}| of {v}]"),
    "stars": Slot("stars|rating|score|points|grade", "[Stars|Points|The rating][.|]", INT, lambda rng, split: values.count(rng, 10), "[, {v} stars| with {v} points]"),
    "command": Slot("command|cmd|code|script|input|statement|query", "[The |][command|statement|code][ to run|][.|]", TEXT, lambda rng, split: _ticked(rng, values.command(rng)), "[: {v}| {v}| with {v}| with the command {v}]"),
    "language": Slot("language|target_language|lang|to_language|locale", "[The |][target |]language[.|]", TEXT, lambda rng, split: same(choose(rng, "French German Spanish Italian Portuguese Dutch Polish Russian Chinese Japanese Korean Arabic Hindi Greek Turkish Swedish English Finnish Czech".split())), "[ in {v}| to {v}| into {v}| for {v} readers]"),
    "zone": Slot("timezone|time_zone|tz|zone", "[The |]time zone[.|]", TEXT, lambda rng, split: same(choose(rng, "UTC CET EST PST GMT Europe/Paris America/New_York Asia/Tokyo UTC+2 Europe/London".split())), "[ in {v}| ({v})|, {v} time| in the time zone {v}]"),
    "currency": Slot("currency|unit|money|currency_code", "[The |]currency[.|]", {"type": "string", "enum": ["EUR", "USD", "GBP", "JPY", "CHF"]}, lambda rng, split: choose(rng, list(_CURRENCY.items())), "[ in {v}| paid in {v}|, in {v} please|, currency {v}]"),
    "degree_unit": Slot("unit|units|scale|temperature_unit|format", "[The |][unit|temperature unit][.|]", {"type": "string", "enum": ["celsius", "fahrenheit"]}, lambda rng, split: choose(rng, (("celsius", "celsius"), ("Celsius", "celsius"), ("fahrenheit", "fahrenheit"), ("Fahrenheit", "fahrenheit"))), "[ in {v}|, in {v}| in degrees {v}|, use {v}|, {v} please]"),
    "target": Slot("to_currency|to|target|target_currency|into", "[The |][target |]currency[.|]", TEXT, lambda rng, split: same(choose(rng, "EUR USD GBP JPY CHF euros dollars pounds yen SEK CAD AUD INR francs".split())), "[ into {v}]"),
    "priority": choice("priority|urgency|importance|severity", "[How urgent it is|Priority][.|]", "low|medium|high|urgent", "[ with {v} priority|, priority {v}|, it's {v} priority| with priority {v}|, urgency {v}]"),
    "size": choice("size|format_size|cup_size|pizza_size", "[The |]size[.|]", "small|medium|large", "[, {v} size| in {v}|, make it {v}|, the {v} one|, size {v}|, {v}]"),
    "color": choice("color|colour", "[The |]colour[.|]", "red|green|blue|black|white|yellow", "[ in {v}|, {v} please|, colour {v}|, make it {v}|, the {v} one]"),
    "format": choice("format|file_type|output_format|type|export_as", "[The |]format[.|]", "pdf|csv|json|html|docx|xml|png", "[ as {v}| in {v} format| as a {v} file| to {v}|, format {v}]"),
    "class": choice("travel_class|cabin|class|comfort|seat_class", "[The |]class[.|]", "economy|business|first", "[ in {v} class|, {v} class|, {v}]"),
    "repeat": choice("repeat|frequency|interval|recurrence|schedule", "[How often|The interval][.|]", "daily|weekly|monthly|yearly", "[, {v}| that repeats {v}|, please {v}|, repeating {v}| on a {v} basis]"),
    "style": choice("style|mode|tone|kind|voice", "[The |]style[.|]", "formal|funny|short|detailed|friendly|casual", "[ in a {v} style|, keep it {v}|, {v} please|, in a {v} tone|, make it {v}]"),
    "room": choice("room|area|zone|location", "[The |]room[.|]", "kitchen|bedroom|office|garage|bathroom|living_room|hallway", "[ in the {v}| of the {v}| in my {v}]"),
    "status": choice("status|state|stage|new_status", "[The |][status|state][.|]", "open|closed|in_progress|on_hold|done|pending", "[ with status {v}| as {v}|, status {v}| to {v}| that are {v}]"),
    "env": choice("environment|env|namespace|target|cluster", "[The |]environment[.|]", "staging|production|development|test", "[ on {v}| to {v}| in {v}| for {v}| in the {v} environment]"),
    "sort": choice("sort_by|order_by|sort|order", "[How to sort|The order][.|]", "price|rating|distance|date|name|relevance", "[ sorted by {v}|, ordered by {v}|, sort by {v}| by {v}]"),
    "direction": choice("direction|side|heading|move_to", "[The |]direction[.|]", "left|right|up|down|north|south|east|west", "[ to the {v}| {v}|, direction {v}|, towards the {v}]"),
}  # fmt: skip


def _moment(rng: Random) -> Said:
    shown, text = values.day(rng)
    clock = values.clock(rng)[0]
    order = rng.random() < 0.8
    return (f"{shown} at {clock}", f"{text} at {clock}") if order else (f"at {clock} {shown}", f"{clock} {shown}")


def bare(said: Said) -> Said:
    """Say a date without its "on"."""
    return said[0].removeprefix("on "), said[1]


def _codes(rng: Random, draw: Callable[[], str]) -> Said:
    found = list(dict.fromkeys(draw() for _ in range(rng.choice((1, 2, 2, 3, 4)))))
    return (values.join(rng, found) if len(found) > 1 else found[0]), found


def _numbers(rng: Random) -> Said:
    found = [
        round(rng.uniform(0, 99), 1) if rng.random() < 0.2 else rng.randint(0, 999) for _ in range(rng.randint(2, 6))
    ]
    return values.join(rng, [str(number) for number in found]).replace(" & ", " and "), found


def _text_id(rng: Random) -> Said:
    return same(str(rng.randint(1, 10 ** rng.randint(2, 6))) if rng.random() < 0.6 else values.code(rng)[1])


def topic(rng: Random) -> str:
    """Name something to look for."""
    return expand(rng, "[{n}|{a} {n}s|{n} {m}|{c}|{n} and {m}|{a} {m} {n}s|{C} {n}|best {n} for {m}s|how to {v} a {n}|{n} in {c}|{a} {n}]", n=choose(rng, NOUNS), m=choose(rng, NOUNS), a=choose(rng, ADJECTIVES), c=coin(rng), C=coin(rng).capitalize(), v=choose(rng, ("fix", "grow", "build", "paint", "clean", "cook")))  # fmt: skip


def _thing(rng: Random) -> str:
    return expand(rng, "[{n}|{n}|{a} {n}|{n} {m}|{c}|{n}s|{a} {n}s|{C} {k}]", n=choose(rng, NOUNS), m=choose(rng, NOUNS), a=choose(rng, ADJECTIVES), c=coin(rng), C=coin(rng).capitalize(), k=rng.randint(1, 99))  # fmt: skip


def plural(rng: Random) -> str:
    """Name things of which there are several."""
    noun = choose(rng, NOUNS)
    noun = f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun[:-1]}ies" if noun.endswith("y") and noun[-2] not in "aeo" else f"{noun}s"  # fmt: skip
    return noun if rng.random() < 0.6 else f"{choose(rng, ADJECTIVES)} {noun}"


def task(rng: Random, split: Split) -> str:
    """Say what somebody has to do."""
    return expand(rng, "[[buy|call|visit|clean|fix|feed|water|find|pay|pick up|bring|send|check|read|finish|take out|return|wash|prepare|book|renew] [the|my|a|some|] [{n}|{a} {n}|{n} and the {m}|{m} {n}][| for {w}| with {w}|||]|[call|email|text|meet|visit|thank|write to] [{w}|mom|dad|the dentist|the bank|my boss]|[go to the|leave for the] {n}|[stretch|drink water|take my pills|stand up|go home]]",
                  n=choose(rng, NOUNS), m=choose(rng, NOUNS), a=choose(rng, ADJECTIVES), w=pick(rng, NAMES, split))  # fmt: skip


def _ticked(rng: Random, text: str) -> Said:
    return choose(rng, ("`{}`", "`{}`", '"{}"', "{}")).format(text), text


def argument(rng: Random, names: str, about: str, schema: Message, value: Any) -> Argument:
    """Make an argument with one of the names."""
    return Argument(choose(rng, names.split("|")), about, schema, value)


def valued(rng: Random, split: Split, slot: Slot) -> tuple[str, Argument]:
    """Draw a slot's value as it is said, and its argument; a choice may be in capitals in the schema."""
    shown, value = slot.value(rng, split)
    schema = slot.schema
    if "enum" in schema and schema["enum"][0].islower() and rng.random() < 0.2:
        style = choose(rng, (str.upper, str.capitalize))
        schema, value = schema | {"enum": [style(option) for option in schema["enum"]]}, style(value)
    elif "enum" in schema and shown == value and rng.random() < 0.15:
        # Some clients name the options in the description only.
        options = list(schema["enum"])
        about = f"[One of|Either|Can be|Options:|Allowed:] {', '.join(options[:-1])} or {options[-1]}[.|]"
        return shown, argument(rng, slot.names, about, TEXT, value)
    return shown, argument(rng, slot.names, slot.about, schema, value)
