"""Words for tools of amounts: what is counted, what is set, what somebody did; see ``portions``."""

# ruff: noqa: E501, SIM905 - lists read best unbroken

from typing import Any

from demo_model.text import lines

# Arguments that nobody gives: a name and its type, or its choices.
UNSAID = "note:string date:string priority:low/medium/high express:boolean supplier:string color:red/green/blue comment:string notify:boolean urgent:boolean mode:auto/manual speed:number brand:string discount_percent:integer when:string repeat:daily/weekly/never insured:boolean tags:string backoff:none/linear delivery_date:string size:small/large"

EATEN = "milk|cream|butter|flour|rice|sugar|honey|apples|plums|carrots|onions|beans|lentils|olives|coffee|tea|salt|oats|peas|nuts|soup|juice|water|beer|wine|cheese|yoghurt|eggs|cherries|grapes|leeks|spinach|noodles|bread|jam|oil|vinegar|cement|sand|gravel|paint|glue|nails|bricks|tiles|paper|soap|candles|seeds|hay|coal|firewood|cotton|yarn|ink|fuel|diesel|bolts|cables|batteries|light bulbs|brown rice|olive oil|tomato sauce|dog food|washing powder".split(
    "|"
)

COUNTABLE = "lemons|eggs|pizzas|burgers|pens|batteries|loaves of bread|bananas|shirts|sandwiches|coffees|beers|muffins|croissants|towels|screws|hinges|bolts|nails|light bulbs|notebooks|folders|cups|plates|forks|salads|soups|steaks|cokes|teas|juices|roses|tulips|pumpkins|avocados|onions|apples|oranges|pears|envelopes|stamps|cables|filters|tyres|masks|helmets|brushes|candles|balloons|tickets|donuts|tacos|wraps|cheesecakes|lasagnes|espressos".split(
    "|"
)
# What there are several of in one request: one, several, and names of the argument.
CROWD = lines("""
adult adults adults|adult_count
kid kids kids|children
child children children|kids
baby babies babies|infants
senior seniors seniors|pensioners
student students students|student_tickets
dog dogs dogs|dog_count
cat cats cats|num_pets
room rooms rooms|room_count
night nights nights|length_nights
day days days|duration_days
bed beds beds|bed_count
car cars cars|vehicles
bike bikes bikes|bicycles
chair chairs chairs|seats
table tables tables|table_count
plate plates plates|plate_count
driver drivers drivers|driver_count
tent tents tents|tent_count
suitcase suitcases suitcases|luggage
vegetarian vegetarians vegetarians|veggie_meals
member members members|member_count
guard guards guards|security
horse horses horses|horse_count
speaker speakers speakers|speaker_count
laptop laptops laptops|devices
""")

# So many of so many: words for both, their arguments, what it is done with, and how it is said.
DRILLS = lines("""
sets ; reps ; sets|num_sets|rounds ; reps|repetitions|reps_per_set ; squats|push-ups|lunges|pull-ups|rows|burpees|curls|sit-ups|dips|planks ; [{a} of {b} {t}|{t}, {a} of {b}|{t}: {A} x {B}|I did {a} of {b} {t}|{a} with {b} {t} each|{t}, {a}, {b} reps]
rows ; plants ; rows|num_rows|row_count ; per_row|plants_per_row|plants ; {g}|carrots|tomatoes|lettuce|beans|maize|roses|onions ; [{a} of {t} with {b} plants each|{a} of {b} {t}|{a} of {t}, {b} in each|plant {a} of {t}, {b} per row|{t} in {a} with {b} plants per row]
boxes ; pieces ; boxes|box_count|num_boxes ; per_box|pieces_per_box|items_per_box ; {g}|{g}|{g} ; [{a} with {b} {t} each|{a} of {b} {t}|{a} of {t}, {b} in each|pack {a} of {t} with {b} per box|{t} in {a}, {b} to a box]
teams ; players ; teams|num_teams|team_count ; players|players_per_team|team_size ; x ; [{a} of {b}[ players|]|{a} with {b} players each|make {a} of {b}|{a}, {b} players per team|I want {a} of {b} people]
tables ; seats ; tables|table_count|num_tables ; seats|seats_per_table|chairs_per_table ; x ; [{a} with {b} seats each|{a} for {b}|set up {a} of {b}|{a}, {b} chairs at each|we need {a} with {b} chairs]
attempts ; seconds ; max_attempts|attempts|retries ; delay_seconds|wait_seconds|pause_seconds ; x ; [{a} with {b} seconds in between|[try|retry] up to {A} times, wait {b} seconds|{a}, {b} seconds apart|{a} and a pause of {b} seconds|at most {a}, {b} seconds of delay]
dice ; sides ; dice|count|num_dice ; sides|faces|num_sides ; x ; [roll {A}d{B}|[roll|throw] {a} with {b} sides|{a} of {b} sides|{A}d{B}[, please|]|throw {A}d{B} for me|{b}-sided dice, {A} of them]
columns ; rows ; columns|cols|num_columns ; rows|num_rows|row_count ; x ; [a table with {a} and {b} rows|{a}, {b} rows|a grid of {b} rows and {a}|{b} rows by {a}]
copies ; pages ; copies|num_copies ; pages|page_count|num_pages ; x ; [{a} of {b} pages[ each|]|print {a}, {b} pages|{b} pages, {a}|{b} pages in {a}]
laps ; metres ; laps|num_laps|lap_count ; lap_length_m|meters_per_lap|meters ; x ; [{a} of {b} metres|swim {a}, {b} metres each|I did {a} of {b} m|{a} at {b} metres]
replicas ; megabytes ; replicas|instances|pods ; memory_mb|mb|ram_mb ; x ; [{a} with {b} MB each|scale to {a} with {b} MB|{a}, {b} megabytes of memory|run {a} at {B} MB]
doses ; drops ; doses|times|doses_per_day ; drops|drops_per_dose|amount_drops ; x ; [{a} of {b} drops|{b} drops, {a} a day|{a} a day with {b} drops each]
""")

# What is set: the tool, what kind of number, names of the argument, and how one says it.
SETS = lines("""
set_thermostat|set_temperature|heat_room|target_temperature ; degrees ; degrees|temperature|target|celsius|target_temp ; [[set it|put it|turn it] to {s}|[make it|make the {r}|I'd like|I want|I'd like the {r} at|I want the {r} at] {s}|{s}[ please| in the {r}| in the {r}, please|]|[turn|put|bring] the {r} [up|down|] to {s}|[set|heat] the {r} to {s}|it should be {s} in the {r}|turn the [heat|heating|temperature] [up|down] to {s}|the {r} at {s}]
heat_oven|preheat|oven_temperature|warm_up ; degrees ; temperature|degrees|heat|celsius ; [preheat to {s}|[heat|get|bring] [it|the oven] to {s}|oven [at|to] {s}|{s}[, please|]|I need {s}|bake at {s}|[set|put] the oven to {s}]
cool_storage|set_fridge|chill|fridge_temperature ; degrees ; degrees|temperature|celsius|set_point ; [[cool|chill] [it|the {r}|the fridge] to {s}|fridge [at|to] {s}|keep the {r} at {s}|[bring|get] the {r} down to {s}]
dim|set_brightness|brightness|adjust_light ; share ; percent|brightness|level|value ; [[dim|set|put|bring] the {r} [down |]to {s}|{r}[ at| to|:] {s}|[make|I want] the {r} {s} bright|the {r} at {s}[, please|]|turn the {r} [up|down] to {s}]
set_volume|volume|loudness|change_sound ; share ; percent|volume|level|loudness ; [[turn|set|put] the {r} [up |down |]to {s}|volume[ to| at|:|] {s}|{s} volume[, please| on the {r}|]|[set|put|turn] the volume to {s}|{r} to {s}|I'd like the {r} at {s}]
set_blinds|cover_position|move_cover|shade ; share ; position|percent|open_percent|value ; [[open|close|move|put] the {r} to {s}|{r} {s}|the {r} at {s}|[set|put] [it|the {r}] to {s}]
set_pump|valve|set_fan|throttle ; share ; percent|power|speed_percent|opening ; [[run|put|set|open] the {r} [to|at] {s}|{r} to {s}|[bring|take] the {r} down to {s}|give the {r} {s}|turn the {r} to {s}]
charge_limit|battery_limit|set_charge|stop_charge ; share ; percent|limit|max_percent|level ; [charge [it|the {r}] to {s}|stop [charging at|at] {s}|limit the {r} to {s}|{s} is enough for the {r}]
~set_sauna|warm_pool|heat_bath ; degrees ; degrees|temperature|celsius ; [I fancy {s}|get the water to {s}]
""")

DONE: dict[str, Any] = {
    "devices": "desk lamp|ceiling light|living room blinds|speaker|radio|floor lamp|projector|ceiling fan|kitchen spots|left shutter|TV|garden lights|bedside lamp|awning|pump|headphones|screen|monitor|heater|aquarium light".split("|"),
    "pay": {
        "pay": "[[pay|please pay] {s} to {w}|{w} gets {s}|[I owe|we owe] {w} {s}, pay it|pay {w} {s}|{s} for {w}|{s} to {w}[, please|]|settle {w}, it's {s}|[I want|I have] to pay {s} to {w}]",
        "send": "[[send|wire|transfer] {s} to {w}|{w} should get {s}|[send|wire] {w} {s}|{s} to {w}]",
        "donate": "[[donate|give] {s} to {w}|I'd like to give {s} to {w}|{s} for {w}|let's give {w} {s}]",
        "invest": "[[put|invest] {s} into {w}|[put|invest] {s} in {w}|I'd like to put {s} into {w}|{s} into {w}|buy {w} for {s}]",
        "charge": "[[charge|bill] {w} {s}|{w} owes us {s}, charge it|{w} has to pay {s}|[bill|charge] {s} to {w}]",
        "save": "[[set aside|save|put aside] {s} for {w}|put {s} away for {w}|I want to save {s} for {w}|{s} for {w}]",
        "refund": "[[refund|pay back|give back] {s} [to|for] {w}|{w} gets {s} back|{w} wants {s} back, refund it]",
    },
    # Names of the tool, what is counted (one/several; nothing for large numbers), the argument, and how one tells it.
    "told": lines("""
log_water|track_drinks|add_drink|record_hydration ; glass/glasses ; glasses|num_glasses|glass_count ; [I|I just|we|just] [drank|had] {q} of water|{q} of water[ so far| today|]|[drank|had] {q} of {t}|add {q} of {t}
log_run|record_run|save_jog|track_running ; kilometre/kilometres ; km|distance_km|kilometers ; [I |][ran|jogged|did] {q}[ today| this morning|][ in {m}|]|[{q} in {m}|{q}, it took me {m}]|my run was {q}, {m}|{q} on foot today
log_ride|record_cycling|save_ride|track_bike ; mile/miles ; miles|distance_miles|distance ; [I |][cycled|rode|biked] {q}[ today| to work|][ in {m}|]|{q} by bike[ in {m}|]
log_sleep|record_night|track_sleep ; hour/hours ; hours|sleep_hours|hours_slept ; [I |][slept|got] {q}[ of sleep| last night|]|last night: {q}|only {q} of sleep
log_work|book_hours|add_time|track_time ; hour/hours ; hours|hours_worked|time_hours ; [I |][worked|spent] {q} on {t}|{q} on {t}[ today|]|book {q} on {t}|it took me {q} to finish {t}
log_reading|track_pages|save_progress|record_pages ; page/pages ; pages|num_pages|pages_read ; [I |][read|finished] {q} of {t}|{q} of {t} [today|read|]|I'm done with {q} of {t}
log_medicine|record_dose|track_pills|took_pill ; tablet/tablets ; tablets|num_tablets|dose ; [I |][took|just took|swallowed] {q} of {t}|{q} of {t} [just now|taken|]|took {q} of {t}
log_steps|add_steps|track_steps ;  ; steps|step_count|num_steps ; [I |][walked|made|did|took] {q} steps[ today|]|{q} steps[ today| so far|]|my goal is {q} steps
log_calories|track_food|add_meal ;  ; calories|kcal|energy_kcal ; [I |][ate|had|burned] {q} calories|{q} calories [for|from] {t}|{t} had {q} calories
log_practice|record_practice|track_music ; minute/minutes ; minutes_practised|practice_minutes|length_minutes ; [I |][practised|played] {t} for {q}|{q} of {t} practice|[I |]did {q} of {t}
log_sales|record_sale|add_sale ; piece/pieces ; pieces|quantity|units_sold ; [we |I |][sold] {q} of {t}|{q} of {t} [were sold|went out]|sold {q} of {t} today
stock_in|receive_goods|add_stock|book_in ; box/boxes ; boxes|quantity|box_count ; {q} of {t} [came in|arrived|have arrived|were delivered]|[we |][got|received] {q} of {t}|{q} of {t} are here
log_harvest|record_crop|add_harvest ; kilo/kilos ; kilos|kg|weight_kg ; [we |I |][picked|harvested|gathered] {q} of {t}|{q} of {t} [are in|harvested]|the {t} gave {q}
record_weight|log_weight|save_weight ; kilo/kilos ; weight_kg|kg|kilos ; I weigh {q}[ today| now|]|[my weight is|the scales say] {q}|{q} [on the scales|this morning]
log_rain|record_rain|weather_log ; litre/litres ; liters|rain_liters|liters_per_m2 ; [we had|it rained|there fell] {q}[ per square metre|]|{q} of rain
log_swim|record_swim|track_laps ; lap/laps ; laps|num_laps|lap_count ; [I |][swam|did] {q}[ in {m}|]|{q} in the pool[, {m}|]|swam {q}
log_coffee|count_coffee|track_caffeine ; cup/cups ; cups|num_cups|cup_count ; [I |][had|drank] {q} of coffee|{q} of {t} so far|that makes {q} of {t}
add_visitors|count_visitors|log_visit ; visitor/visitors ; visitors|count|visitor_count ; [we had|there were|I counted] {q}[ today|]|{q} [came|today|at the {t}]
log_episodes|track_show|save_watched ; episode/episodes ; episodes|num_episodes|watched ; [I |we |][watched|saw] {q} of {t}|{q} of {t} [last night|watched]
feed_log|log_feeding|record_feed ; cup/cups ; cups|num_cups|portion_cups ; [I |][gave|fed] the {t} {q}|the {t} [got|had|ate] {q}
set_goal|update_goal|new_goal ;  ; target|goal|amount ; my [new |]goal is {q}|[aim for|I want to reach] {q}[ this year|]|{q} is my target
~log_paddle|record_paddle|paddle_log ; mile/miles ; miles|distance_miles|distance ; we paddled {q}
"""),
}  # fmt: skip
