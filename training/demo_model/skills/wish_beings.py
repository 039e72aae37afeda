"""What most things have, and beings that people have made up for them; written as in ``wish_words``."""

# ruff: noqa: E501 - lists read best unbroken

SHARED = """
color|colour|main_color|shade|paint ; red|blue|green|yellow|black|white|orange|purple|pink|brown|silver ; {v} #|# in {v}|# that is {v}
city|town|city_name|location|place|where|based_in|home_town ; @city ; # in {v}|# from {v}|{v} #
country|land|nation|country_of_origin ; @country ; # from {v}|# in {v}
price|cost|price_eur|price_usd|amount|value ; 5-900 ; # for {v} euros|# that costs {v} dollars|# for ${v}|# that costs {v} euros|# at {v} euros
age|age_years|years_old|years ; 2-80 ; {v} year old #|{v}-year-old #|# aged {v}|# who is {v}
material|made_of|fabric ; wood|leather|steel|cotton|glass|plastic|wool|bamboo|gold ; # made of {v}|{v} #|# of {v}
size|format ; small|big|tiny|huge|medium ; {v} #
year|release_year|made_in|year_made ; 1900-2024 ; # from {v}|# from the year {v}
date|day|on|event_date|when ; @date ; # on {v}|# for {v}
time|start_time|starts_at|at ; @clock ; # at {v}
weekday|day_of_week|day ; Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday ; # for {v}|# on {v}|{v} #
people|servings|serves|portions|guests|seats|group_size ; 2-12 ; # for {v} people|# for {n}|# for {n} people|# for {v}
minutes|cook_time|duration_minutes|time_minutes|prep_minutes ; 5-90 ; {v} minute #|# in {v} minutes|# that takes {v} minutes
days|num_days|duration_days|length_days ; 2-10 ; {v} day #|{v}-day #|# of {n} days|# for {v} days
rating|stars|score ; 1-5 ; # with {v} stars|{v} star #
email|mail|contact_email ; @email ; # with the email {v}
description|summary|about|details|short_description ; @described
owner|owner_name|boss|manager|host|contact|created_by|founder|chef ; @person ; # run by {v}|# owned by {v}
rare|is_rare|unique ; ? ; rare # ; # that is not rare
free|free_entry|is_free|no_charge ; ? ; free # ; # that is not free
open|is_open|open_now|open_on_sunday ; ?
new|is_new|brand_new ; ? ; new # ; used #
in_stock|available|is_available|ready ; ? ; # that is in stock ; # that is sold out
indoor|indoors|is_indoor ; ? ; indoor # ; outdoor #
electric|is_electric ; ? ; electric # ; # that is not electric
vegan|is_vegan|plant_based ; ? ; vegan # ; # that is not vegan
vegetarian|is_vegetarian|meat_free ; ? ; vegetarian # ; # that is not vegetarian
spicy|is_spicy|hot ; ? ; spicy # ; mild #
difficulty|level|skill_level ; easy|medium|hard ; {v} #
weight|weight_kg|mass ; 1-90 ; # that weighs {v} kg|{v} kilo #
quantity|count|stock|number_in_stock ; 1-300
tags|labels|keywords ; *new|popular|family|outdoor|classic|cheap|music|nature|food|fun
season|best_season ; spring|summer|autumn|winter ; {v} #|# for {v}
language|spoken_language|official_language|mother_tongue ; English|French|German|Spanish|Italian|Dutch|Polish|Greek ; {v} #
married|is_married ; ? ; married # ; # who is not married
hobby|favorite_hobby|free_time|pastime ; chess|fishing|painting|gardening|reading|cooking|hiking|singing|sailing|photography ; # who likes {v}|# who loves {v}
hobbies|interests|likes ; *chess|fishing|painting|gardening|reading|cooking|hiking|singing|sailing|dancing
pet|pet_type ; dog|cat|parrot|rabbit|goldfish ; # with a {v}
motive|motivation|reason|goal|wants|dream|ambition ; to rule the world|to find the lost treasure|revenge|to become famous|to protect the family|gold|freedom|to build a school|to see the sea|peace
weakness|flaw|fear|afraid_of|biggest_fear ; spiders|loud music|cold water|bright light|heights|pride|the dark|chocolate|snakes|silver
strength|superpower|power|special_ability|talent|gift ; flying|great strength|invisibility|fire|healing|a sharp mind|speed|magic|a good memory|courage ; # with the power of {v}
personality|character_trait|temper|mood|attitude ; kind|shy|brave|grumpy|cheerful|calm|clever|curious|stubborn|honest ; {v} #
traits|qualities|character ; *kind|brave|clever|curious|calm|loyal|funny|patient|proud
rank|title|grade|position ; captain|sergeant|major|lieutenant|admiral|colonel|chief
origin_story|backstory|background|history|past ; Grew up in a small village by the sea.|Left home at the age of ten.|Was found in the forest as a child.|Lost everything in a storm.|Learned from an old master.
quote|motto|slogan|catchphrase|favorite_saying ; Never give up.|Slow and steady.|Together we are strong.|Every day is new.|Made with love.|Always one step ahead.
weapon|tool|equipment ; sword|bow|axe|hammer|staff|spear|shield ; # with a {v}
weapons|tools|gear ; *sword|bow|axe|shield|dagger|laser|net|spear
cause|trigger|root_cause ; a loose cable|an old update|bad weather|too much load|a wrong setting|a broken part
features|highlights|benefits|advantages ; *light|strong|quiet|easy to clean|waterproof|foldable|long battery life|safe
treasure|hoard|loot|collection ; *gold coins|silver cups|old maps|a crown|rubies|pearls|magic rings
"""

BEINGS = """
lighthouse keeper|nurse|baker|teacher|pilot|farmer|sailor|painter|gardener|carpenter|doctor|plumber|dancer|cook|lawyer|engineer|librarian|firefighter|singer|student|astronaut|detective|mechanic|waiter|person|woman|man|customer|employee|neighbour|user profile|profile|user
name|full_name|person_name|who ; @self ; # named {v}|# called {v}|# with the name {v}
first_name|given_name ; @mine ; # named {v}|# called {v}
last_name|surname ; @surname
age
city
country
job|profession|occupation|works_as|role ; @job
hobby
hobbies
email|mail|contact_email ; @mail ; # with the email {v}
phone|phone_number ; @phone
username|login|nickname|handle ; @handle
married
children|kids|num_children ; 0-5 ; # with {v} children|# with {n} kids
salary|income|monthly_salary ; 1200-7000 ; # who earns {v} euros
is_premium|premium|is_active|active|subscribed|verified ; ?
language
pet
personality
motive
weakness

villain|hero|superhero|wizard|witch|knight|elf|dwarf|pirate|vampire|ghost|game character|RPG character|robot|alien|spy|princess|king|queen|thief|warrior
name|character_name|hero_name|villain_name|alias ; Shadow Fox|Iron Mask|Captain Storm|Lady Frost|Silver Hawk|Black Rose|Thunder Jack|Nightowl|Red Fang|Grim Tom ; # called {v}|# named {v}
real_name|birth_name|true_name ; @person
sidekick|best_friend|helper|companion|enemy|nemesis ; @first
species|race|creature_type ; human|elf|dwarf|orc|giant|robot|ghost
class|character_class|job_class ; warrior|mage|archer|rogue|healer|knight
level|danger_level|power_level ; 1-60 ; # of level {v}|level {v} #
health|hp|strength_points|mana ; 10-200
motive
weakness
strength
powers|abilities|skills|superpowers ; *flying|super strength|invisibility|fire|ice|healing|magic|time travel|mind reading
weapon
weapons
inventory|items|backpack|possessions ; *rope|torch|silver key|map|sword|healing potion|lantern|bread
home|lair|hideout|base|lives_in ; old tower|dark cave|castle on a hill|sunken ship|ice palace|deep forest
is_evil|evil|dangerous ; ? ; evil # ; friendly #
origin_story
quote
treasure

dragon|monster|unicorn|griffin|giant spider|sea monster|phoenix
name|called|creature_name ; Ember|Frostwing|Old Scale|Nightclaw|Stormtail|Goldeneye|Mistral|Ashfang ; # called {v}|# named {v}
element ; fire|ice|storm|water|earth ; {v} #
color
wingspan_m|wingspan|length_m|height_m|size_m ; 1.0-30.0
age
treasure
weakness
strength
lair|home|habitat ; dark cave|high mountain|deep sea|old volcano|frozen lake|misty forest
friendly|tame|can_fly|breathes_fire ; ?
diet|food|eats ; sheep|fish|berries|gold|sunlight|stones

dog|cat|horse|puppy|kitten|pet|rabbit|parrot|hamster
name|pet_name|called ; Rex|Bella|Luna|Biscuit|Shadow|Ginger|Socks|Pepper|Cookie|Tiger ; # called {v}|# named {v}
species|animal|animal_type|kind ; @kind
breed ; @breed
color
weight_kg|weight|weighs_kg ; 1-30 ; # that weighs {v} kg
age_years|age ; 1-15 ; {v} year old #|# aged {v}
owner|owner_name ; @person ; # of {v}
indoor
vaccinated|trained|friendly|house_trained|chipped ; ?
favorite_toys|toys ; *ball|rope|bone|feather|mouse|stick|rubber duck
favorite_toy|toy ; ball|rope|bone|feather|mouse|stick
tricks ; *sit|roll over|jump|shake hands|spin|fetch
favorite_food|food|treat ; chicken|fish|carrots|cheese|beef|biscuits
personality
"""
