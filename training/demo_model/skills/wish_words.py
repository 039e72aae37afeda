"""Things that people have made up for them: what they may be called, what they have, and how a request says it.

A block is a kind of thing: first its words, then a line for each field. A field is ``keys ; values ; ways to say it``, or
just the name of one of ``SHARED`` (in ``wish_beings``). Values are texts, a list after ``*``, ``low-high`` for a number, ``?`` for yes or no, or
a maker after ``@``. In the ways, ``#`` is what was said so far; of yes or no the second way says no.
"""

# ruff: noqa: E501 - lists read best unbroken

KINDS = """
bicycle|bike|racing bike|mountain bike|scooter
name|model|product_name ; Blue Arrow|City Star|Swift 300|Road King|Trail Fox|Wind Rider ; # called {v}
brand|maker|manufacturer|company ; @firm ; # by {v}
color
price
frame|frame_material ; steel|aluminium|carbon|bamboo|wood ; # made of {v}|{v} #
gears|gear_count ; 3-27 ; # with {v} gears
electric
weight
wheel_size|wheels_inch ; 16-29
features

car|sports car|van|truck|bus|motorbike|taxi
make|brand|manufacturer ; Volvo|Toyota|Ford|Fiat|Honda|Skoda|Mazda|Renault ; # by {v}|{v} #
model|model_name|name ; Comet|Falcon|Nova|Orion|Vega|Tiger|Breeze|Rapid
color
horsepower|power_hp ; 60-500 ; # with {v} horsepower
electric
doors|num_doors ; 2-5 ; # with {v} doors
seats|num_seats|passengers ; 2-9 ; # with {v} seats|# for {v} people
year
top_speed|max_speed|speed_kmh ; 90-320
mileage|km|kilometers ; 1000-200000
price|price_eur ; 2000-90000 ; # for {v} euros
fuel|fuel_type|engine ; petrol|diesel|electric|hybrid

product for hikers|tent|backpack|jacket|shoe|watch|lamp|chair|table|sofa|headphone|phone|laptop|camera|umbrella|kettle|mug|pillow|blanket|toy|gadget|product|item|knife|suitcase|guitar
product_name|name|title|product|model ; @product
brand|maker|company|manufacturer ; @firm ; # by {v}
category|type|kind ; @kind
price
color
colors|available_colors|colours ; *red|blue|green|black|white|grey|yellow|brown
material
materials ; *wood|steel|cotton|glass|leather|plastic|wool
weight_grams|weight_g|grams ; 50-3000
size
sizes|available_sizes ; *S|M|L|XL
foldable|rechargeable|wireless|eco_friendly|limited_edition ; ?
waterproof|water_resistant|is_waterproof ; ? ; waterproof # ; # that is not waterproof
in_stock
quantity
rating
features
battery_hours|battery_life|warranty_years|warranty_months|discount|discount_percent ; 1-48
slogan|tagline ; Made for every day.|Light as a feather.|Your best friend outside.|Simply better.|Built to last.
description
target_group|audience|for_whom ; hikers|students|children|families|travellers|beginners

recipe|soup|stew|salad|curry|pizza|pasta dish|dish|meal|dinner|breakfast|lunch|sandwich|cake|pie|dessert
name|dish|title|recipe_name|dish_name ; @dish
ingredients|you_need|shopping_list ; *@foods ; # with {v}
main_ingredient|key_ingredient|star_ingredient|base ; @food ; # with {v}|{v} #
servings|serves|people|portions ; 1-8 ; # for {v} people|# for {n} people|# for {n}|# for {v}
minutes
cuisine|style|origin ; Italian|French|Indian|Mexican|Thai|Greek|Spanish|Japanese ; {v} #
difficulty
vegan
vegetarian
spicy
gluten_free|healthy|cold|quick ; ?
calories|kcal|calories_per_serving ; 120-900
steps|instructions|directions|method ; *Cut the vegetables.|Heat the oil.|Mix everything.|Bake for 20 minutes.|Cook until soft.|Add salt.|Serve warm.|Let it rest.|Stir well.
spices|herbs|toppings|garnish ; *salt|pepper|basil|garlic|parsley|chili|oregano|cheese
drink|drink_pairing|beverage ; water|white wine|red wine|lemonade|iced tea
goes_with|side_dish|side ; bread|rice|green salad|potatoes

cafe|restaurant|bakery|hotel|bar|tea room|bistro|ice cream shop|hostel|inn|guest house
name|cafe_name|restaurant_name|hotel_name|venue ; The Blue Door|Corner House|Golden Spoon|Old Mill|Green Garden|The Red Lion|Sea View|Sunny Side|Little Moon|Park Hotel ; # called {v}|# named {v}
city
address|street ; @street
specialty|signature_dish|best_dish|known_for|famous_for ; @dish ; # known for {v}
cuisine|food|style ; Italian|French|Indian|Mexican|Thai|Greek|Spanish|Japanese ; {v} #
seats|capacity|seating ; 8-120 ; # with {v} seats
rooms|room_count|num_rooms ; 3-90 ; # with {v} rooms
rating
price_per_night|average_price|price_range_eur ; 20-300 ; # for {v} euros a night
has_wifi|wifi|parking|has_terrace|pets_allowed|breakfast_included|pool ; ?
opens|opening_time|check_in ; @opens
closes|closing_time|check_out ; @closes
amenities|services|facilities|extras ; *wifi|breakfast|parking|pool|gym|garden|sauna|bar
menu|dishes ; *tomato soup|pasta|green salad|fish|pancakes|apple pie|coffee|cheese cake
owner
atmosphere|ambience|vibe|mood ; cozy|quiet|lively|elegant|friendly|romantic ; {v} #
phone|phone_number ; @phone

party|birthday party|picnic|garden party|dinner party|housewarming party|quiz night|barbecue
title|name|event_name|party_name|event ; Garden Party|Summer Night|Anna Turns Thirty|Farewell to Ben|Pizza Evening|Housewarming|Quiz and Cake|Picnic by the Lake ; # called {v}|# named {v}
venue|location|place|where ; our garden|the back yard|a café|the beach|the club house|my flat|the park
date
time
weekday
guests|guest_count|number_of_guests|attendees|people ; 4-40 ; # for {v} guests|# with {v} guests|# for {v} people
guest_list|invited|attendees|who_comes ; *@firsts
host|organizer|hosted_by ; @person ; # of {v}
theme|motto ; pirates|space|jungle|the sea|music|superheroes|the seventies ; {v} #|# about {v}
food|snacks|menu ; *pizza|salad|cake|sandwiches|fruit|burgers|pancakes
cake ; chocolate cake|apple pie|cheese cake|carrot cake
drinks ; *lemonade|iced tea|juice|water|beer|punch
games|activities ; *treasure hunt|charades|dancing|singing|cards|a quiz
music|playlist ; pop|jazz|swing|disco|folk
indoor
budget|total_budget|cost ; 40-900 ; # with a budget of {v} euros
surprise|has_dj|with_children|bring_a_gift ; ?
description|about ; A small party with good friends.|Cake, music and games for everybody.|An evening in the garden.|We eat, dance and laugh.

event|concert|wedding|festival|workshop|conference|meeting|company party|exhibition|school play|marathon|flea market|trade fair
title|name|event_name|event ; Summer Night|Spring Meeting|Music in the Park|Open House|Garden Party|Winter Ball|City Run|Jazz Evening|Family Day ; # called {v}|# named {v}
city
venue|location|hall|place ; town hall|city park|old theatre|sports arena|beach club|library|school yard|museum ; # in the {v}|# at the {v}
date
time
attendees|guests|participants|visitors|capacity|guest_count|expected_guests ; 10-500 ; # for {v} guests|# with {v} people|# for {v} people
ticket_price|entry_fee|price|cost_per_person ; 5-150 ; # for {v} euros
artist|band|performer|speaker|host|organizer ; @person ; # with {v}
theme|motto|topic ; pirates|space|jungle|the sea|music|superheroes|the future|travel ; {v} #|# about {v}
age|child_age|for_age ; 3-80 ; # for a {v} year old
activities|program|games|agenda ; *dancing|treasure hunt|games|music|singing|dinner|fireworks|speeches|painting
cake|food|menu_main|catering ; chocolate cake|apple pie|pizza|cheese cake|fruit salad|pancakes
decorations|decoration ; balloons|candles|flowers|lights|paper stars
dress_code|style ; casual|elegant|black tie|colorful|sporty
indoor
free
cancelled|online|catering|outdoors_possible ; ?
public|is_public|open_to_all ; ? ; public # ; private #
budget|total_budget ; 100-9000 ; # with a budget of {v} euros
description

trip|holiday|city tour|vacation|road trip|weekend trip|journey|honeymoon|hike
destination|city|to|where|place ; @city ; # to {v}|# in {v}
days
budget|cost|price ; 200-5000 ; # for {v} euros|# with a budget of {v} euros
people|travelers|travellers|group_size ; 2-9 ; # for {v} people|# for {n}|# for {n} people
transport|travel_by|means_of_transport ; train|car|plane|bus|bike|boat ; # by {v}
hotel|accommodation|lodging ; Park Hotel|Sea View|Old Mill|Central Inn|Garden Hostel
start_date|departure_date|from_date ; @date ; # starting {v}|# from {v}
places|sights|stops|attractions|places_to_visit ; *old town|city museum|harbour|castle|market square|cathedral|botanical garden|lighthouse
activities|things_to_do|plan ; *hiking|museum visit|boat trip|shopping|swimming|city walk|cooking class
packing_list|take_along|luggage ; *map|camera|jacket|sun cream|passport|water bottle|shoes
season
with_kids|guided|all_inclusive|refundable ; ?
highlight|best_part ; sunset at the harbour|boat trip|old castle|night market|view from the tower

book|novel|film|movie|comic|story|play|TV series|children's book|thriller
title|name|book_title|movie_title ; The Old House|Silent River|Winter Roads|A Paper Moon|Golden Days|The Last Train|Blue Garden|The Lost Key|Night Sea ; # called {v}|# with the title {v}
author|writer|written_by ; @person ; # by {v}
director|directed_by ; @person ; # by {v}
genre|type ; fantasy|mystery|romance|science fiction|horror|comedy|drama|adventure ; {v} #
year
pages|page_count|num_pages ; 20-700 ; # with {v} pages
published|publication_year|first_published ; 1900-2024 ; # published in {v}
chapters|num_chapters ; 3-40 ; # with {v} chapters
rating
language
main_character|hero|protagonist|star ; @person ; # about {v}
setting|takes_place_in|scene ; a small island|an old castle|a big city|a mountain village|a spaceship|a school
plot|summary|description|blurb ; A girl finds a secret door.|Two friends lose their way.|An old man looks for his son.|A village fights a storm.|A thief learns to love.|A boy and his dog cross the sea.
themes|topics|tags ; *love|war|friendship|family|nature|courage|death|travel
age_group|audience|for_whom|age_range ; children|teenagers|adults|all ages ; # for {v}
bestseller|is_series|illustrated|available ; ?
publisher ; @firm
price|cost|price_eur ; 3-60 ; # for {v} euros|# that costs {v} dollars

startup|company|shop|store|firm|bank|restaurant chain|farm shop|online shop|agency
name|company_name|company|firm|startup_name ; @firm ; # called {v}|# named {v}
industry|sector|field|business|branch ; software|food|travel|energy|health|fashion|education|banking|games ; {v} #|# for {v}
city
country
founded|founded_year|year|established|since ; 1950-2024 ; # founded in {v}
employees|staff|team_size|workers ; 2-900 ; # with {v} employees
founder|ceo|owner|boss|director ; @person ; # run by {v}|# led by {v}
founders|team|board ; *@people
slogan|motto|tagline|mission ; We make life easy.|Fresh every day.|Simply better.|Think ahead.|Good food for all.|Your partner for tomorrow.
product|main_product|service|sells ; bikes|apps|coffee|solar panels|shoes|lamps|toys|tea
products|services|offers ; *apps|coffee|solar panels|shoes|lamps|toys|tea|books
revenue|funding|valuation|profit ; 10000-9000000
profitable|is_public|hiring|remote|open ; ?
website|url|homepage ; @url
email

job offer|job|job posting|vacancy|internship
position|title|job_title|role|job ; baker|teacher|nurse|software engineer|cook|driver|designer|gardener|accountant ; # for a {v}|# as a {v}
company|employer ; @firm ; # at {v}
location|city|place ; @city ; # in {v}
salary|monthly_salary|pay ; 1500-8000 ; # for {v} euros a month|# with {v} euros a month
remote|permanent|home_office ; ?
full_time|is_full_time ; ? ; full-time # ; part-time #
hours_per_week|weekly_hours|hours ; 10-40 ; # with {v} hours a week
vacation_days|holidays ; 20-35 ; # with {v} days of holiday
experience_years|years_of_experience ; 0-10
skills|requirements|required_skills|qualifications ; *English|teamwork|driving licence|cooking|Python|patience|first aid|writing
benefits|perks ; *free lunch|gym|company car|flexible hours|home office|training
start_date|starts ; @date ; # from {v}
contact|contact_person ; @person
description

bug report|ticket|support ticket|issue|task|to-do|complaint
title|summary|subject|name ; @bug ; # about {v}
severity|priority|urgency|importance ; low|medium|high|critical ; {v} priority #
status|state ; open|in progress|closed|waiting ; {v} #
assignee|assigned_to|owner|reporter|reported_by ; @person ; # for {v}|# from {v}
steps|steps_to_reproduce|how_to_reproduce ; *Open the app.|Click the button.|Log in.|Enter a name.|Save the form.|Close the window.|Wait a minute.
expected|expected_result|actual_result|result ; The page opens.|The form is saved.|An error appears.|Nothing happens.|The app closes.
cause
reproducible|fixed|blocking|done ; ?
urgent|is_urgent ; ? ; urgent # ; # that is not urgent
due_date|deadline|due ; @date ; # due {v}
component|area|module|affected_page ; login page|cart|search|profile page|checkout|settings ; # in the {v}|# about the {v}
labels|tags ; *bug|urgent|login|mobile|design|backend
hours|estimate_hours|votes|ticket_id|number ; 1-90
version|app_version ; 1.0.2|2.4.1|3.1.0|0.9.5|4.2.0
browser|web_browser ; Firefox|Chrome|Safari|Edge ; # on {v}|# in {v}
device|platform|operating_system ; Android|iPhone|Windows|Linux ; # on {v}

invoice|receipt|bill|order|purchase order|purchase|test invoice|parcel|delivery
invoice_id|order_number|invoice_number|id|order_id|reference|number ; @code
customer|customer_name|client|buyer|recipient|bill_to ; @person ; # for {v}
amount|total|total_amount|sum|grand_total ; 10-900 ; # for {v} euros|# over {v} euros
currency ; EUR|USD|GBP ; # in {v}
shipped|delivered|express|is_gift ; ?
paid|is_paid|already_paid|payment_received ; ? ; paid # ; unpaid #
date|invoice_date|order_date|issued_on ; @date ; # of {v}
due_date|due|delivery_date|payment_due ; @date ; # due {v}
items[] ; name|item|product = pen|lamp|chair|book|mug|desk ; quantity|count|qty = 1-12 ; unit_price|price = 1.0-90.0
address|ship_to ; @street ; # to {v}
tax|vat|discount|shipping|fee ; 0-40
payment_method|paid_by|method ; card|cash|transfer|PayPal ; # paid by {v}
notes|remark|comment ; Thank you for your order.|Please pay on time.|Leave it at the door.|Gift wrapped.

planet|moon|alien world|distant planet|star system
name|planet_name|world_name|planet|called ; Zorvan|Kelora|Amberis|Talos Minor|Nyx Prime|Veluna|Orra Nine|Pelion|Sandrune|Glimmer ; # called {v}|# named {v}
color
diameter_km|radius_km|size_km ; 900-140000
moons|number_of_moons|moon_count|num_moons ; 0-12 ; # with {v} moons
distance_light_years|light_years_away|distance ; 2-900 ; # that is {v} light years away
day_length_hours|hours_per_day|day_hours ; 6-90
temperature|average_temperature|temperature_celsius ; -180-400
climate|weather|surface ; icy|dusty|rocky|stormy|covered by water|full of forests|hot as an oven
atmosphere|air ; thin|thick|poisonous|like that of Earth|none
inhabitants|creatures|life_forms|species ; small green lizards|clever birds|nobody|blue giants|talking plants|robots ; # with {v}
habitable|has_rings|has_water|has_life ; ?
discovered|year_discovered|found_in ; 1850-2024 ; # found in {v}
discoverer|discovered_by ; @person ; # found by {v}
description|summary|about ; A cold world with two suns.|A quiet planet of sand and wind.|A green world full of forests.|A blue planet with deep seas.|Storms never end on this planet.

city|village|town|seaside town|mountain village
name|city_name|town_name|village_name ; Greenport|Windhaven|Oakfield|Silverbay|Newhaven|Stonebridge|Goldtown|Marisol ; # called {v}|# named {v}
population|inhabitants|people ; 300-900000 ; # with {v} people|# with {v} inhabitants
country
mayor|leader|ruler ; @person ; # led by {v}
climate|weather ; mild|hot|cold|dry|rainy|tropical ; {v} #
famous_for|known_for|attraction|highlight ; its beaches|its wine|an old castle|a big market|friendly people|a music festival
sights|attractions|landmarks ; *old bridge|town hall|castle|harbour|market square|lighthouse
founded|year_founded ; 800-1990 ; # founded in {v}
has_harbor|has_airport|touristic|habitable|has_university ; ?
river|nearby_river ; Silver River|Old Creek|Green River|White Water
lake|nearby_lake ; Blue Lake|Swan Lake|Long Lake|Mirror Lake
language
area_km2|area|size_km2 ; 10-900

country|island|kingdom|small country|republic
name|country_name|island_name|kingdom_name|republic_name ; Lumora|Norvia|Eastland|Sandoria|Greenport|Windhaven|Marisol|Oakfield ; # called {v}|# named {v}
capital|main_city|largest_city ; Port Lumen|Northgate|Silverbay|Newhaven|Stonebridge|Goldtown
population|inhabitants|people ; 500-9000000 ; # with {v} people|# with {v} inhabitants
official_language|language|languages_spoken ; English|French|German|Spanish|Italian|Lumoric|Norvian
currency|money ; crown|dollar|franc|peso|mark|gold coin
ruler|king|president|mayor|leader ; @person ; # ruled by {v}
climate|weather|temperature_zone ; mild|hot|cold|dry|rainy|tropical ; {v} #
area|area_km2|size_km2 ; 10-90000
continent|region|located_in ; Europe|Asia|Africa|South America|North America|the Pacific
exports|resources|products ; *fish|wine|gold|wood|wool|tea|salt
famous_for|known_for|attraction ; its beaches|its wine|old castles|high mountains|friendly people|music
national_dish|food ; fish stew|apple pie|lamb curry|onion soup|rice with beans
founded|year_founded|independent_since ; 800-1990
independent|has_harbor|has_airport|touristic|habitable ; ?
flag_colors|colors ; *red|white|blue|green|yellow|black
mountains|peaks ; *High Peak|Old Horn|Grey Top|Snow Head
neighbors|regions|provinces ; *Eastland|Northland|River Coast|Green Hills

spaceship|ship|boat|submarine|plane|train
name|ship_name|vessel ; Star Runner|Blue Whale|Northern Light|Morning Star|Sea Wolf|Silver Wind|Explorer ; # called {v}|# named {v}
captain|pilot|commander|driver ; @person ; # with captain {v}
captain{} ; name = @person ; rank = captain|admiral|major|commander
crew_size|crew|passengers|capacity ; 2-400 ; # with a crew of {v}|# for {v} people
max_speed|speed|top_speed|speed_kmh ; 10-900
length_m|length|size_m|height_m ; 5.0-300.0
weapons|equipment ; *laser|cannon|torpedo|net|shield|harpoon
home_port|home|built_by ; Lisbon|Hamburg|Porto|Oslo|Genoa
destination|heading|goes_to|sails_to ; Mars|the Moon|Lisbon|the North Pole|an unknown star|Saturn ; # to {v}
engine|fuel|power_source|drive ; diesel|solar|nuclear|steam|sails|electric
armed|armored|fast|luxury|seaworthy ; ?
built|launch_year|built_in ; 1900-2024 ; # built in {v}
cargo|load ; grain|medicine|gold|robots|timber|food
color

workout|training plan|exercise|yoga class|fitness plan
name|title|workout_name|plan_name ; Morning Power|Full Body|Quick Start|Strong Core|Easy Run|Leg Day ; # called {v}
weekday
exercise|main_exercise|activity|sport ; squats|push-ups|running|planks|lunges|swimming|rowing ; # with {v}
exercises|moves|program ; *squats|push-ups|planks|lunges|rows|sit-ups|jumping jacks|stretching
sets|rounds ; 2-6 ; # with {v} sets|# of {n} sets
reps|repetitions ; 5-20 ; # with {v} reps
rest_seconds|pause_seconds|rest ; 15-120
minutes
level|difficulty|intensity ; easy|medium|hard|beginner|advanced ; {v} #
calories|calories_burned|kcal ; 80-700
muscles|body_parts|trains ; *legs|arms|back|chest|core
equipment_needed|equipment|needs ; mat|dumbbells|rope|bench|nothing
coach|trainer ; @person ; # with {v}
warm_up|cool_down|outdoor|group_class ; ?

weather report|forecast|weather forecast
city|location|place|city_name ; @city ; # for {v}|# in {v}
temperature_c|temperature|temp|degrees|max_temp ; -8-35 ; # with {v} degrees
condition|conditions|sky|weather ; sunny|cloudy|rain|snow|windy|foggy ; {v} #
wind_kmh|wind_speed|wind ; 0-90
humidity|chance_of_rain|rain_percent ; 5-100
day|date|weekday ; Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday ; # for {v}|# on {v}
rain_expected|is_raining|umbrella_needed|warning|storm ; ?
sunrise|sun_up ; @opens
sunset|sun_down ; @closes
advice|tip|what_to_wear|clothing ; Take an umbrella.|Wear a warm coat.|Drink enough water.|Stay inside.|Use sun cream.

farm|zoo|garden|park|museum|school|library|hospital|gym|theatre
name|farm_name|museum_name|zoo_name|school_name|garden_name|park_name ; Sunny Hill|Green Valley|Old Oak|River Side|Happy Meadow|Stone Hall|Blue Lake|Maple Court ; # called {v}|# named {v}
city
owner|owner_name|farmer|director|head|principal|manager ; @person ; # of {v}|# run by {v}
hectares|area|area_ha|size_ha ; 1-300
animals[] ; species|animal|name|kind = cow|goat|hen|sheep|horse|pig ; count|number|quantity = 2-80
animals|animal_list ; *cows|goats|hens|sheep|horses|pigs|ducks
crops|vegetables|grows ; *wheat|carrots|potatoes|beans|pumpkins|corn
flowers|plants ; *roses|sunflowers|tulips|lilies|daisies
exhibits|exhibitions|collections|attractions|departments ; *old coins|paintings|ships|dinosaurs|modern art|maps|sculptures
opening_hours{} ; opens|from|open = @opens ; closes|to|close = @closes
visitors|visitors_per_year|guests_per_year ; 500-90000
staff|employees|workers ; 3-120 ; # with {v} employees
founded|opened|built|year ; 1800-2020 ; # from {v}
free
organic|wheelchair_access|has_cafe|public|open ; ?
entry_fee|ticket_price|price ; 1-30 ; # for {v} euros

school class|course|lesson|lecture|exam
teacher|lecturer|tutor|instructor|professor ; @person ; # with {v}|# by {v}
subject|topic|title|course_name|name ; maths|history|biology|music|art|geography|physics|French ; {v} #|# about {v}|# in {v}
grade_level|grade|level|year ; 1-12 ; # for grade {v}
students|pupils|participants|class_list ; *@firsts
student_count|class_size|max_students|seats ; 8-40 ; # with {v} students|# for {v} students
room|classroom ; B12|101|A3|204|Lab 2 ; # in room {v}
duration_minutes|minutes|length_minutes ; 30-120 ; {v} minute #
weekday
start_time|time|starts_at ; @clock ; # at {v}
homework|assignment|task ; Read chapter two.|Learn ten words.|Write a short text.|Solve page 12.|Draw a map.
materials|books|supplies ; *pencil|notebook|ruler|map|calculator|scissors
mandatory|graded|has_homework|beginner_friendly ; ?
online|is_online|remote ; ? ; online # ; # that is not online

song|love song|children's song|pop song|ballad
title|name|song|song_title|song_name ; Blue River|Golden Rain|Paper Moon|Last Light|Old Road|Silver Sky|Walk With Me|Home Again ; # called {v}|# named {v}
artist|singer|musician|performed_by ; @person ; # by {v}
composer|written_by|songwriter ; @person
genre|style|music_genre ; rock|jazz|pop|folk|blues|soul|country ; {v} #
mood|vibe|feeling ; happy|calm|sad|dreamy|energetic|romantic ; {v} #
duration_seconds|length_seconds|seconds|duration ; 120-320
length|duration|playing_time ; 2:45|3:10|3:32|4:05|2:58|3:51
year
bpm|tempo|beats_per_minute ; 60-160
key|musical_key ; C major|G major|A minor|D minor|E flat major
topic|theme|about|subject ; lost love|a journey home|the sea|an old friend|summer nights|freedom ; # about {v}
instruments ; *guitar|piano|drums|violin|bass|trumpet|flute
explicit|instrumental|live|is_hit ; ?
lyrics|chorus|first_line ; Walk with me into the light.|The rain sings on my roof.|We dance until the morning.|Come home, the night is long.
album|from_album ; Rainy Day|Summer Drive|Quiet Night|Golden Hour

playlist|album|band|radio show
name|playlist_name|title|album_title|band_name ; Rainy Day|Summer Drive|Quiet Night|Morning Coffee|Golden Hour|Road Songs ; # called {v}|# named {v}
mood|vibe|feeling ; happy|calm|sad|dreamy|energetic|romantic ; {v} #|# for a {v} day
genre|style|music_genre ; rock|jazz|pop|folk|blues|techno|classical ; {v} #
artist|singer|musician|composer ; @person ; # by {v}
songs[] ; title|name|song = Blue River|Golden Rain|Paper Moon|Last Light|Old Road|Silver Sky ; artist|by|singer = @person
songs|tracks|track_list ; *Blue River|Golden Rain|Paper Moon|Last Light|Old Road|Silver Sky|Night Train
length_minutes|minutes|duration_minutes ; 10-90 ; {v} minute #
song_count|tracks_total|num_songs ; 3-60 ; # with {v} songs
year
members|musicians|players ; *@firsts
instruments ; *guitar|piano|drums|violin|bass|trumpet|flute
public|explicit|instrumental|live ; ?
lyrics|chorus|first_line ; Walk with me into the light.|The rain sings on my roof.|We dance until the morning.|Come home, the night is long.

plant|flower|tree|vegetable|bush|house plant
name|plant_name|flower_name|tree_name ; Green Star|Silver Leaf|Red Bell|Garden Dream|Sun Fern|Blue Moss ; # called {v}
color
height_cm|height|max_height ; 10-300 ; # of {v} cm
water_per_week|watering_days|times_watered ; 1-7
sunlight_hours|sun_hours ; 2-9
season
origin|native_to|country ; @country ; # from {v}
evergreen|edible|has_flowers|easy_care ; ?
poisonous|is_poisonous|toxic ; ? ; poisonous # ; # that is not poisonous
needs|care|care_tips ; *sun|water|warm soil|shade|space|wind
soil|soil_type ; sandy|dry|wet|rich|stony

fruit salad|smoothie|drink|cocktail|tea|juice|lemonade|milkshake
name|drink_name|title ; Sunny Cup|Morning Mix|Green Dream|Red Sunset|Fresh Start|Garden Kiss ; # called {v}
color
volume_ml|glass_ml|size_ml ; 100-500
fruits|fruit|contains|ingredients ; *apple|pear|grape|orange|melon|peach|kiwi|mango|lemon|banana ; # with {v}
main_fruit|base|main_taste|flavor ; apple|pear|orange|melon|lemon|mango|mint ; # with {v}|{v} #
serves|servings|glasses ; 1-8 ; # for {n}|# for {v} people
calories|kcal ; 20-400
sweet|is_sweet ; ? ; sweet # ; # that is not sweet
cold|has_alcohol|alcohol|served_warm ; ?
price|cost|price_eur ; 2-15 ; # for {v} euros|# that costs {v} dollars
season
origin|native_to|country ; @country ; # from {v}
garnish|served_with|decoration ; mint leaf|lemon slice|ice|cherry|orange peel

quiz question|riddle|trivia question|joke
question|riddle|text|setup ; @riddle
answer|solution|punchline ; @solution
difficulty
time_limit|seconds|time_limit_seconds ; 10-90 ; # with {v} seconds
points|score|worth ; 1-60 ; # for {v} points
options|choices|possible_answers ; *@guesses
category|genre|topic ; nature|animals|music|history|sports|food ; {v} #|# about {v}
funny|is_hard|for_kids|solved ; ?
hint|clue ; Everyone has one.|You see it every day.|Think of your home.|It is not alive.

poem|haiku|limerick|verse|song text|rhyme
title|name|heading ; Rain|The Sea|Morning|Old Clock|Silver Moon|The Garden ; # called {v}
first_line|text|opening ; Soft rain on the roof|The old pond is still|A bird sings at dawn|Snow covers the hill
mood|tone|feeling ; calm|happy|sad|dreamy|funny ; {v} #
lines|verses|text_lines ; *Soft rain on the roof|The old pond is still|A bird sings at dawn|Leaves fall in the wind|The moon lights the path|Snow covers the hill
topic|theme|subject|about ; rain|love|the sea|winter|cats|the moon|spring|friendship ; # about {v}
author|written_by|poet ; @person ; # by {v}
rhymes|funny|finished|is_short ; ?
language
year
"""
