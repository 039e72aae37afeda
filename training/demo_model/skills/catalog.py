"""Tools as people really define them: names, descriptions, arguments, and the ways to ask for each.

A tool is a block: a line ``names ; description``, one line an argument ``names : kind : description`` (a ``?`` after the
names makes it optional and the last field says how a request mentions it), then one line a request, where ``{0}`` is
the first argument's value. Kinds are in ``VALUES``.
"""

# ruff: noqa: E501, PLW0108, SIM905 - phrases read best unbroken

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from demo_model.skills.slots import plural
from demo_model.text import (
    ADJECTIVES,
    CITIES,
    NAMES,
    NOUNS,
    Split,
    choose,
    coin,
    common_word,
    expand,
    number,
    pick,
    sentence,
)

BLOCKS = """
get_weather|weather|getWeather|current_weather|get_current_weather|lookup_weather|fetch_weather|weather_now ; [Get|Look up|Return|Fetch] the [current |][weather|weather report|temperature] [for|in|of] a [city|given city|location|place][.|]
city|location|place|town|city_name : city : The [name of the |][city|location|place][.|, e.g. Paris|, for example London]
unit?|units? : unit : [The |]temperature unit[.|] :  in {v}
[What's|What is|How's|How is|what's|whats] the [weather|weather like|temperature|weather now|current weather] in {0}{+}[?| today?| right now?|]
[Tell me|Get|Check|Show me|Look up|Find] the [weather|temperature|current weather] [in|for] {0}{+}[.|, please.||]
[Is it|Will it be] [raining|sunny|cold|warm|hot|snowing|windy] in {0}{+}[?| today?| now?]
[Do I need|Should I take] [an umbrella|a coat|a jacket] in {0}{+}[?| today?]
Weather in {0}{+}[?|.|, please|]
How [cold|warm|hot] is it in {0}{+}[?| now?]
[I'm going|I will travel] to {0}. What's the weather there{+}?

get_forecast|weather_forecast|forecast|daily_forecast ; [Get|Return] the weather forecast for [a city|some days][.|]
city|location|place : city : The city[.|]
days|num_days|day_count : small : [Number of days|How many days][.|]
[Give me|Show me|Get|I need] the [weather |]forecast for {0} for [the next |]{1} days[.||]
[What's|What is] the [{1} day|{1}-day] forecast [for|in] {0}?
What will the weather be in {0} [over|for|in] the next {1} days?

add|add_numbers|sum_numbers|addition|plus|add_two_numbers ; [Add|Sum] two [numbers|integers][.|] @sums
a|x|first|num1 : int : [The |]first number[.|]
b|y|second|num2 : int : [The |]second number[.|]
[Add|add|Please add] {0} and {1}[.||, please.]
What is {0} [+|plus] {1}?
What's {0} [+|plus] {1}?
[What is|Compute|Calculate|Find] the sum of {0} and {1}[?||.]
[Calculate|Compute|Use the tool to add] {0} [+|and] {1}[.||]
{0} + {1}[?| =|]
Could you total {0} and {1}?

subtract|minus|subtract_numbers|difference ; [Subtract|Take] [the second number from the first|b from a|one number from another][.|] @sums
a|x|first : int : [The |]first number[.|]
b|y|second : int : [The |]second number[.|]
[Subtract|Take] {1} from {0}[.||]
What is {0} [-|minus] {1}?
[What is|Compute|Calculate|Find] the difference [of|between] {0} and {1}[?||.]
[Calculate|Compute] {0} - {1}[.||]

multiply|multiply_numbers|times|product|mul ; [Multiply|Get the product of] two [numbers|integers][.|] @sums
a|x|first : int : [The |]first number[.|]
b|y|second : int : [The |]second number[.|]
[Multiply|multiply] {0} [by|and|with] {1}[.||]
What is {0} [times|*|x|multiplied by] {1}?
[What is|Compute|Calculate|Find] the product of {0} and {1}[?||.]
[Calculate|Compute] {0} * {1}[.||]

divide|divide_numbers|division|quotient ; [Divide|Get the quotient of] two [numbers|integers][.|] @sums
a|x|dividend|numerator : int : [The |]first number[.|]
b|y|divisor|denominator : int : [The |]second number[.|]
[Divide|divide] {0} by {1}[.||]
What is {0} [divided by|/|over] {1}?
[Calculate|Compute] {0} / {1}[.||]

calculator|calculate|evaluate|calc|eval_expression ; [Evaluate|Calculate] [a|an arithmetic|a mathematical] expression[.|] @sums
expression|expr|formula|input : expression : The expression[ to evaluate|][.|]
[What is|Calculate|Compute|Evaluate|Work out] {0}[?||.]
[How much is|What's] {0}?
[Use the calculator|Calculate this]: {0}

get_time|current_time|get_current_time|clock|time_now ; [Get|Return] the [current |]time in a [city|time zone|place][.|]
city|timezone|location|place|zone : city : The [city|time zone|place][.|]
What time is it in {0}[?| now?| right now?]
[What's|What is|Tell me|Get|Show me] the [current |][time|local time] in {0}[?||.]
[Time|Local time] in {0}[?|, please|]

search|web_search|search_web|google|internet_search|find_online ; [Search|Look something up on] the [web|internet][.|] @search
query|q|text|search_query|keywords : phrase : [The |]search [query|text|words][.|]
limit?|max_results?|count?|num_results? : small : [The |][maximum |]number of results[.|] :  [and show|, show|with] {v} results
[Search|Google|Look up|Look] [the web |online |the internet |]for {0}{+}[.||]
[Search for|Google|Look up] {0}{+}[.||]
[Find|Find me] [information|something|results|pages] [on|about] {0}{+}[.||]
See what the web says about {0}{+}.

send_email|email|mail|sendEmail|compose_email ; Send an e-mail[ to someone|][.|]
to|recipient|address|receiver : email : [The |][recipient|address][.|]
subject|title : phrase : [The |]subject[ line|][.|]
body?|text?|content? : quoted : [The |][body|text][ of the mail|][.|] :  and [the text|body|text|the body] {v}
[Send|Write] an [email|e-mail] to {0} with [the |]subject {1}{+}[.||]
[Email|Mail] {0} with [the |]subject {1}{+}[.||]

send_message|message|text_message|send_sms|sms|notify ; [Send|Text] a message to [someone|a person|a contact][.|]
to|recipient|contact|person|name : name : [The |][recipient|person|contact][.|]
message|text|content|body : quoted : [The |][text|message|content][.|]
[Send|Text] [a message |]to {0}[:| saying| that says] {1}
[Send|Text|Message] {0} {1}[.||]
[Tell|Message|Text] {0} {1}[.||]
Send {0} [a|the] message {1}[.||]

set_timer|timer|start_timer|countdown ; [Set|Start] a timer[ for some minutes|][.|]
minutes|duration|mins|length|duration_minutes : int : [The |][number of |]minutes[.|]
label?|name? : noun : [The |][label|name][.|] :  [called|named|labelled|for the] {v}
[Set|Start] a timer for {0} minutes{+}[.||]
[Set|Start] a {0} minute timer{+}[.||]
[Timer|Countdown]: {0} minutes{+}
Wake me in {0} minutes{+}.

set_alarm|alarm|create_alarm ; [Set|Create] an alarm[.|]
time|at|when : clock : [The |]time[.|, such as 07:30]
[Set|Create] an alarm [for|at] {0}[.||]
[Wake me|Wake me up] at {0}[.||]

create_reminder|remind|set_reminder|add_reminder|reminder ; [Create|Set|Add] a reminder[.|]
text|task|title|what|note : task : [What to be reminded of|The text][.|]
time?|at?|when? : clock : [The |]time[.|] :  at {v}
[Remind me|Please remind me] to {0}{+}[.||]
[Set|Create|Add] a reminder to {0}{+}[.||]

create_event|schedule_meeting|add_event|calendar_add|book_meeting ; [Create|Add|Schedule] [an event|a meeting][ in the calendar|][.|]
title|name|subject|summary : phrase : [The |]title[.|]
date|day|when : date : [The |]date[.|]
[Schedule|Create|Add|Book|Plan] [a meeting|an event|an appointment] [called|named|titled] {0} [on|for] {1}[.||]
[Put|Add] {0} [in|into|to] [my|the] calendar [on|for] {1}[.||]

get_stock_price|stock_price|stock|quote|get_quote ; [Get|Return] the [current |][stock|share] price[ of a company|][.|]
symbol|ticker|stock|code : ticker : [The |][ticker|ticker symbol|stock symbol][.|, e.g. AAPL]
[What's|What is|Get|Show me|Tell me|Check] the [stock |share |]price of {0}[?||.]
How much is {0}[ stock| trading at| worth|][ now|]?
[How is|How's] {0}[ stock|] doing?

convert_currency|currency_converter|exchange|convert_money ; Convert [money|an amount] [from one currency to another|between currencies][.|]
amount|value|sum : int : [The |]amount[.|]
from_currency|from|source|base : currency : [The currency to convert from|Source currency][.|]
to_currency|to|target|quote : currency : [The currency to convert to|Target currency][.|]
[Convert|Change|Exchange] {0} {1} [to|into|in] {2}[.||]
How much is {0} {1} in {2}?
What is {0} {1} in {2}?

convert_units|unit_converter|convert ; Convert [a value|a number|a quantity] [from one unit to another|between units][.|]
value|amount|number : int : [The |]value[.|]
from_unit|from|source : measure : [The unit to convert from|Source unit][.|]
to_unit|to|target : measure : [The unit to convert to|Target unit][.|]
[Convert|Change] {0} {1} [to|into] {2}[.||]
How many {2} are {0} {1}?
How much is {0} {1} in {2}?

translate|translate_text|translator|translation ; Translate [text|a text] [to|into] [another|a] language[.|]
text|input|phrase|sentence : quoted : [The |]text[ to translate|][.|]
target_language|language|to|lang|target : language : [The |][target |]language[.|]
[Translate|Please translate] {0} [to|into] {1}[.||]
How do you say {0} in {1}?
[What is|What's] {0} in {1}?

turn_on_light|light_on|lights_on|switch_on_light ; [Turn|Switch] on the light[s|] in a room[.|]
room|location|area|zone : room : [The |]room[.|]
[Turn|Switch] on the light[s|] in the {0}[.||]
[Turn|Switch] the {0} light[s|] on[.||]
[Lights|Light] on in the {0}[.|, please|]

set_light|control_light|set_lights|switch_light ; [Turn|Switch] the light[s|] in a room on or off[.|]
room|location|area : room : [The |]room[.|]
on|state|enabled|power : onoff : [Whether the light is on|True for on, false for off][.|]
[Turn|Switch] [the light|the lights|the lamp] in the {0} {1}[.||]
[Turn|Switch] {1} the [light|lights|lamp] in the {0}[.||]
[Turn|Switch] the {0} [light|lights] {1}[.||]

set_temperature|thermostat|set_thermostat|heating ; Set the [temperature|thermostat][ of a room|][.|]
temperature|degrees|value|target : small : [The |]temperature[ in degrees|][.|]
room?|zone? : room : [The |]room[.|] :  in the {v}
Set the [temperature|thermostat|heating]{+} to {0}[ degrees|][.||]
Make it {0} degrees{+}[.||]

play_music|play_song|play|music_player ; Play [music|a song][.|]
song|title|track|name|query : phrase : [The |][song|title][.|]
artist?|by?|singer? : name : [The |]artist[.|] :  by {v}
[Play|Put on|Please play] [the song |]{0}{+}[.||]
[I want to|Let me] [hear|listen to] {0}{+}[.||]

get_user|find_user|lookup_user|get_user_by_id|fetch_user ; [Get|Find|Look up] a user[ by id|][.|]
user_id|id|uid|userId : id : [The |][id|user id|number][ of the user|][.|]
[Get|Find|Look up|Show me|Fetch] [the |]user [with id |with the id |number |id |]{0}[.||]
Who is user {0}?
[Get|Show me|Find] the [details|profile|data] of user {0}[.||]

get_order|order_status|track_order|check_order|get_order_status ; [Get|Check] the status of an order[.|]
order_id|id|order|number|order_number : id : [The |][order |][id|number][.|]
[Where is|What's the status of|What is the status of|Check|Track|Look up] [my |the |]order [number |#|]{0}[?||]
[Has|Did] order {0} [shipped|arrived|arrive|ship]?

cancel_order|cancel|cancelOrder ; Cancel an order[.|]
order_id|id|order|number : id : [The |][order |][id|number][.|]
reason? : phrase : [The |]reason[.|] :  because of {v}
[Cancel|Please cancel] [my |the |]order [number |#|]{0}{+}[.||]
[I want to|Can you] cancel [my |the |]order {0}{+}[.|?|]

read_file|open_file|load_file|get_file|view_file|cat ; [Read|Open|Show] [a file|the contents of a file][.|]
path|file|filename|file_path|name : path : [The |][path|file name|path of the file][.|]
[Read|Open|Show|Show me|View|Print|Load] [the file |]{0}[.||]
[What's|What is] in [the file |]{0}?
[Show|Print|Get] the [contents|content] of {0}[.||]

write_file|save_file|create_file|save ; [Write|Save] text to a file[.|]
path|file|filename|file_path : path : [The |][path|file name][.|]
content|text|contents|data : quoted : [The |][text|content][.|]
[Write|Save|Put] {1} [to|into|in] [the file |]{0}[.||]
Create [a|the] file {0} with [the text |the content |]{1}[.||]

list_files|ls|list_directory|list_dir|dir ; List the files in a [folder|directory][.|]
path|directory|folder|dir : folder : [The |][folder|directory|path][.|]
recursive?|all? : bool : [Include subfolders|Recurse][.|] : [ recursively| and its subfolders]
[List|Show|Show me] [the |all |all the |]files in [the folder |]{0}{+}[.||]
[What|Which] files are in {0}{+}?

run_command|execute|shell|bash|run_shell|terminal ; Run a [shell |]command[.|]
command|cmd|code|input : command : The command[ to run|][.|]
[Run|Execute] [the command |]{0}[.||]
[Run|Execute] {0} in the [shell|terminal][.||]

delete_file|remove_file|rm|delete ; [Delete|Remove] a file[.|]
path|file|filename : path : [The |]path[.|]
[Delete|Remove|Erase] [the file |]{0}[.||]

get_population|population|city_population ; [Get|Return] the population of a [city|place][.|]
city|place|location|name : city : The [city|place][.|]
[What's|What is|Get|Tell me] the population of {0}[?||]
How many people live in {0}?

get_capital|capital|capital_of|country_capital ; [Get|Return] the capital of a country[.|]
country|name|nation : country : The country[.|]
[What's|What is|Get|Tell me] the capital [city |]of {0}[?||]
Which city is the capital of {0}?

book_flight|find_flights|search_flights|flights ; [Book|Find|Search] [a flight|flights][.|]
origin|from|from_city|departure|source : city : [The city of departure|Origin|From where][.|]
destination|to|to_city|arrival : city : [The city of arrival|Destination|To where][.|]
date?|day? : date : [The |]date[.|] :  on {v}
[Book|Find|Find me|Search for|Get me|I need] [a flight|flights] from {0} to {1}{+}[.||]
[I want to|I'd like to] fly from {0} to {1}{+}[.||]

book_hotel|find_hotel|reserve_hotel|hotel_search ; [Book|Find|Reserve] a hotel[.|]
city|location|destination : city : The city[.|]
nights|num_nights|length : small : [Number of nights|How many nights][.|]
[Book|Find|Reserve|Find me] a [hotel|hotel room|room] in {0} for {1} nights[.||]
I need [a hotel|a room] in {0} for {1} nights[.||]

book_table|reserve_table|restaurant_booking ; [Book|Reserve] a table[ in a restaurant|][.|]
restaurant|place|name : proper : The restaurant[.|]
people|guests|party_size|seats : small : [Number of people|How many guests][.|]
[Book|Reserve] a table [at|in] {0} for {1}[ people| guests|][.||]
[I need|Get me] a table for {1} at {0}[.||]

get_distance|distance|route_distance ; [Get|Compute] the distance between two [cities|places][.|]
origin|from|start|a : city : [The |]first [city|place][.|]
destination|to|end|b : city : [The |]second [city|place][.|]
How far is it from {0} to {1}?
How far is {1} from {0}?
[What's|What is|Get|Tell me] the distance [from {0} to|between {0} and] {1}[?||]

add_todo|create_task|add_task|todo_add|new_task ; [Add|Create] a [task|to-do item][.|]
title|task|text|item|name : task : [The |][task|title|text][.|]
priority? : priority : [The |]priority[.|] :  with [priority {v}|{v} priority]
[Add|Create] [a task|a to-do|a todo|the task][:| to] {0}{+}[.||]
Add {0} to my [todo|to-do|task] list{+}[.||]

add_to_cart|cart_add|buy|order_item ; [Add|Put] [a product|an item] [to|into] the [cart|basket][.|]
product|item|name|product_name : plural : [The |][product|item][.|]
quantity|count|amount|qty : small : [How many|The quantity][.|]
[Add|Put] {1} {0} [to|into|in] [my|the] [cart|basket][.||]
[Buy|Order|I want to buy|I want to order] {1} {0}[.||]

random_number|roll_dice|get_random|rand ; [Get|Return] a random number[ between two bounds|][.|]
min|low|minimum|start : small : [The |][smallest number|lower bound|minimum][.|]
max|high|maximum|end : int : [The |][largest number|upper bound|maximum][.|]
[Give me|Get|Pick|Choose|Generate] a random number [between|from] {0} [and|to] {1}[.||]

get_news|news|latest_news|headlines ; [Get|Return] the [latest |]news[ about a topic|][.|]
topic|subject|about|category : phrase : [The |][topic|subject][.|]
[What's|What is|Get|Show me|Give me] the [latest |]news [about|on] {0}[?||]
Any news [about|on] {0}?

get_definition|define|dictionary|lookup_word|define_word ; [Get|Look up] the [definition|meaning] of a word[.|]
word|term|text : noun : The word[.|]
[Define|Look up] [the word |]{0}[.||]
What does {0} mean?
[What's|What is] the [meaning|definition] of {0}?

say_hello|greet|hello|greet_user|greet_person ; [Greet|Say hello to] [someone|a person][.|] @echo
name|person|who|user : name : [The |]name[ of the person|][.|]
[Greet|Say hello to|Say hi to] {0}[.||]
Please greet {0}[.||]

query_database|run_sql|sql|execute_sql|db_query ; Run [an SQL|a SQL|a database] query[.|]
sql|query|statement : sql : The [query|SQL][.|]
[Run|Execute] [the query |the SQL |this query: |]{0}[.||]

get_recipe|find_recipe|recipe ; [Find|Get] a recipe[ for a dish|][.|]
dish|food|name|meal : phrase : The dish[.|]
vegetarian?|vegan? : bool : [Only without meat|Whether it must be without meat][.|] :  without meat
[Find|Get|Show|Give] [me |]a recipe for {0}{+}[.||]
How do I [cook|make] {0}{+}?

track_package|track|parcel_status|tracking ; Track a [package|parcel][.|]
tracking_number|code|number|id : ticker : [The |][tracking |][number|code][.|]
[Where is|Track] [my |the |][package|parcel] {0}[?||]

set_volume|volume|change_volume ; Set the volume[.|]
level|volume|value|percent : int : [The |][level|volume][ from 0 to 100|][.|]
[Set|Turn|Change] the volume to {0}[.|%||]
Volume {0}[.|, please|]

get_user_info|whoami|user_profile|get_profile ; [Get|Return] [information about|the profile of] a [person|user][.|]
name|username|user|person : name : [The |][name|user name][.|]
[Get|Show me|Find|Look up] [information about|the profile of|the info of] {0}[.||]
Who is {0}?
"""

UNITS = ["celsius", "fahrenheit"]
CURRENCIES = "USD EUR GBP JPY CHF CAD AUD CNY INR SEK dollars euros pounds yen francs".split()
MEASURES = "km miles metres meters feet inches kg pounds grams ounces litres liters gallons cups Celsius Fahrenheit seconds hours".split()
LANGUAGES = "French German Spanish Italian Portuguese Dutch Polish Russian Chinese Japanese Korean Arabic Hindi Greek Turkish Swedish".split()
ROOMS = "kitchen|living room|bedroom|bathroom|office|garage|hall|garden|cellar|attic|dining room|nursery".split("|")
PRIORITIES = ["low", "medium", "high"]
COUNTRIES = "France Germany Spain Italy Portugal Japan China India Brazil Peru Canada Australia Egypt Kenya Norway Sweden Poland Greece".split()
_DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday today tomorrow".split()


def phrase(rng: Random) -> str:
    """Draw one to three words."""
    return expand(rng, "[{a} {n}|{n}|{n} {m}|{c}|{n} and {m}|{a} {c}|{w} {c}|{w}]",
                  a=choose(rng, ADJECTIVES), n=choose(rng, NOUNS), m=choose(rng, NOUNS), c=coin(rng), w=common_word(rng))  # fmt: skip


_REGIONS = "CA NY TX MA WA IL FL CO France Germany Spain Italy Japan Canada UK USA India Brazil Mexico England".split()


def _city(rng: Random, split: Split) -> str:
    city = pick(rng, CITIES, split) if rng.random() < 0.85 else coin(rng).capitalize()
    return f"{city}, {choose(rng, _REGIONS)}" if rng.random() < 0.12 else city


def _path(rng: Random) -> str:
    name = choose(rng, (choose(rng, NOUNS), coin(rng), choose(rng, NOUNS) + "_" + choose(rng, NOUNS)))
    folder = choose(rng, ("", "", "/tmp/", "src/", "docs/", f"/home/{coin(rng)}/", f"{choose(rng, NOUNS)}/"))  # noqa: S108 - a word in a sentence
    return folder + name + choose(rng, (".txt", ".py", ".md", ".json", ".csv", ".log", ".yaml", ".html"))


def _expression(rng: Random) -> str:
    gap = choose(rng, ("", " ", " "))
    parts = [str(number(rng, 3))]
    for _ in range(choose(rng, (1, 1, 2))):
        parts += [choose(rng, "+-*/"), str(number(rng, 3))]
    return gap.join(parts)


VALUES: dict[str, Callable[[Random, Split], Any]] = {
    "city": lambda rng, split: _city(rng, split),
    "country": lambda rng, split: pick(rng, COUNTRIES, split),
    "name": lambda rng, split: pick(rng, NAMES, split) if rng.random() < 0.8 else coin(rng).capitalize(),
    "unit": lambda rng, split: choose(rng, UNITS),
    "small": lambda rng, split: rng.randint(1, 30),
    "int": lambda rng, split: number(rng, 4),
    "id": lambda rng, split: number(rng, 6),
    "noun": lambda rng, split: choose(rng, NOUNS) if rng.random() < 0.8 else coin(rng),
    "plural": lambda rng, split: plural(rng),
    "phrase": lambda rng, split: phrase(rng),
    "quoted": lambda rng, split: choose(rng, (phrase(rng), sentence(rng), sentence(rng).rstrip("."))),
    "task": lambda rng, split: expand(rng, "[buy|call|visit|clean|fix|feed|water|find|pay|write to|pick up] [the |my |a |]{n}", n=phrase(rng)),
    "email": lambda rng, split: f"{choose(rng, (*NAMES[:150], coin(rng))).lower()}@{choose(rng, (coin(rng), 'example'))}.{choose(rng, ('com', 'org', 'net'))}",
    "clock": lambda rng, split: choose(rng, (f"{rng.randint(0, 23):02}:{choose(rng, (0, 15, 30, 45)):02}", f"{rng.randint(1, 12)} {choose(rng, ('am', 'pm'))}", f"{rng.randint(1, 12)}{choose(rng, ('am', 'pm'))}")),
    "date": lambda rng, split: choose(rng, (choose(rng, _DAYS), f"{rng.randint(2024, 2030)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}")),
    "ticker": lambda rng, split: "".join(choose(rng, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") for _ in range(rng.randint(2, 5))) + choose(rng, ("", "", str(number(rng)))),
    "currency": lambda rng, split: choose(rng, CURRENCIES),
    "measure": lambda rng, split: choose(rng, MEASURES),
    "language": lambda rng, split: pick(rng, LANGUAGES, split),
    "room": lambda rng, split: choose(rng, ROOMS),
    "priority": lambda rng, split: choose(rng, PRIORITIES),
    "bool": lambda rng, split: True,
    "onoff": lambda rng, split: rng.random() < 0.5,
    "path": lambda rng, split: _path(rng),
    "folder": lambda rng, split: _path(rng).rsplit(".", 1)[0],
    "command": lambda rng, split: expand(rng, "[ls|cat|echo|git|make|cd|npm|python|pwd|grep] [{n}|-l|{c}|{n}.txt|--{n}]", n=choose(rng, NOUNS), c=coin(rng)),
    "expression": lambda rng, split: _expression(rng),
    "proper": lambda rng, split: expand(rng, "[{c}|Chez {c}|The {a} {n}|{c}'s]", c=coin(rng).capitalize(), a=choose(rng, ADJECTIVES).capitalize(), n=choose(rng, NOUNS).capitalize()),
    "sql": lambda rng, split: expand(rng, "SELECT [*|{n}|{n}, {m}] FROM {t}s[ WHERE {m} = {k}||]", n=choose(rng, NOUNS), m=choose(rng, NOUNS), t=choose(rng, NOUNS), k=number(rng)),
}  # fmt: skip

JSON_TYPES = {"small": "integer", "int": "integer", "id": "integer", "bool": "boolean", "onoff": "boolean"}
ENUMS = {"unit": UNITS, "priority": PRIORITIES}


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a tool: its possible names, the kind of its values, and how a request mentions it if optional."""

    names: tuple[str, ...]
    kind: str
    about: str
    mention: str | None


@dataclass(frozen=True, slots=True)
class Spec:
    """One tool of the catalog."""

    names: tuple[str, ...]
    about: str
    arguments: tuple[Argument, ...]
    asks: tuple[str, ...]
    topic: str


def _argument(line: str) -> Argument:
    names, kind, about, *mention = line.split(" : ", 3)
    optional = "?" in names
    return Argument(tuple(names.replace("?", "").split("|")), kind.strip(), about, mention[0] if optional else None)


def _spec(block: str) -> Spec:
    head, *rest = [line for line in block.splitlines() if line.strip()]
    names, about = head.split(" ; ")
    about, _, topic = about.partition(" @")
    fields = [line for line in rest if line.count(" : ") >= 2 and line.split(" : ")[1].strip() in VALUES]
    asks = tuple(line for line in rest if line not in fields)
    return Spec(tuple(names.split("|")), about, tuple(_argument(line) for line in fields), asks, topic)


CATALOG = [_spec(block) for block in BLOCKS.strip().split("\n\n")]

# Left out of training altogether, so that evaluation meets tools of a kind the model never saw.
HELD_NAMES = {"book_table", "set_volume"}
