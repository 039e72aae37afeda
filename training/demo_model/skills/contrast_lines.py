"""What may be told of several people, things, places or times, and in which words.

A line of ``FRAMES`` is ``what it is told of ; kind of value ; the first ; the others in short ; how it is asked ; how it
is asked the other way round ; more / most | less / least``, with ``-`` for what can't be. ``{k}`` is one of several,
``{v}`` what is told of it, ``{w}`` a word like "who" or "which of them". The answer is the first way to tell it.
"""

# ruff: noqa: E501, SIM905 - phrases read best unbroken

from demo_model.skills.attributes import KIN
from demo_model.text import lines

POOLS: dict[str, list[str]] = {
    key: text.split("|")
    for key, text in {
        "room": "the kitchen|the blue room|the green room|the hall|the attic|the cellar|the garage|the library|room A|room B|room C|the office|the red room|the big room|the small room|the classroom|the garden|the lobby|room 12|the canteen",
        "box": "box A|box B|box C|box D|drawer one|drawer two|drawer three|the top shelf|the bottom shelf|the left bag|the right bag|the green box|the red box|the big crate|the small crate|locker 4|locker 9|bag one|bag two|the first folder|the second folder",
        "content": "books|cables|plates|tools|photos|socks|letters|glasses|toys|spices|batteries|coins|shoes|candles|medicine|cups|stamps|old bills|screws|tea|Christmas lights|games|maps|paints",
        "coloured": "the red key|the blue key|the green key|the small key|the big key|the silver key|the golden key|the yellow key|the black key|the round key|the long key|the rusty key",
        "lock": "the shed|the attic|the garage|the cellar|the mailbox|the front door|the back door|the office|the safe|the gate|the bike|the car|the boat|the locker|the piano|the chest",
        "where": "at home|at work|in the car|on the plane|on the train|at the cinema|at the theatre|on the bus|on the ferry|at the concert|at the stadium|in the opera",
        "subject": "maths|history|biology|art|chemistry|physics|music|geography|English|French|Spanish|Latin|German|sport",
        "grade": "an A|a B|a C|a D|an E|a B plus|an A minus|full marks",
        "meal": "breakfast|lunch|dinner|brunch|supper|tea time",
        "class": "yoga|football|choir|Spanish class|piano lesson|swimming|karate|book club|chess club|dance class|band practice|training|pottery|art class|French class|judo|rehearsal|the meeting|the exam|the party|the concert|physics lab",
        "weekday": "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday",
        "onday": "on Monday|on Tuesday|on Wednesday|on Thursday|on Friday|on Saturday|on Sunday|today|tomorrow",
        "inmonth": "in January|in February|in March|in April|in May|in June|in July|in August|in September|in October|in November|in December|in spring|in winter",
        "bill": "the rent|the internet|the phone bill|the insurance|the gym fee|the power bill|the water bill|the loan|the tax|the car tax|the tuition|the school fee|the invoice|the deposit",
        "nth": "1st|2nd|3rd|4th|5th|6th|7th|8th|9th|10th|11th|12th|15th|18th|20th|21st|25th|27th|30th",
        "team": "the red team|the blue team|the green team|the yellow team|team A|team B|our team|the other team|team North|team South|the home team|the away team|the white team|the orange team",
        "shopname": "the shop|the bakery|the library|the pool|the museum|the bank|the pharmacy|the market|the gym|the café|the zoo|the post office",
        "goods": "the tea|the coffee|the cake|the soup|the salad|the bread|the shirt|the hat|the book|the lamp|the chair|the ticket|the pizza|the juice|the map|the pen|the cheese|the wine|the bag|the mug",
        "kept": "the milk|the bread|the tape|the hammer|the map|the torch|the key|the charger|the passport|the butter|the glue|the rope|the ladder|the wine|the ticket|the soap|the honey|the drill|the camera|the sugar",
        "spot": "in the fridge|in the basket|on the shelf|in the top drawer|under the bed|behind the door|in the garage|on the table|in the cupboard|next to the sofa|in my bag|in the cellar|on the desk|in the glove box|under the sink|on the balcony|in the car|in the attic",
        "food": "tea|coffee|cocoa|juice|water|milk|pizza|pasta|soup|salad|salami|pineapple|fish|chicken|rice|curry|cake|ice cream|tofu|beans|the steak|the burger|the risotto|a sandwich|wine|beer|tacos|sushi|noodles|pancakes",
        "taste": "roses|tulips|jazz|rock|cats|dogs|the sea|the mountains|trains|planes|chess|cards|dinosaurs|horses|painting|dancing|summer|winter|films|books|football|tennis|opera|comics|robots|swimming|running",
        "brought": "the salad|the drinks|a cake|the music|the chairs|the bread|the wine|some cheese|the plates|a tent|the ball|the map|the camera|dessert|the grill|the forks|the flowers|the soup",
        "gift": "a scarf|a book|a watch|a mug|a plant|a puzzle|a lamp|a kite|a ring|a bike|a hat|a camera|a poster|some tea|a pen|a game|a drum|a ball|a radio|a candle",
        "diet": "vegan|vegetarian|left-handed|allergic to nuts|allergic to milk|on holiday|ill|pregnant|colour-blind|very tall|shy|late|new here|married|a twin|blind|the captain|the youngest|the oldest|in a wheelchair|from abroad",
        "place": "Graz|Brno|Porto|Ghent|Lyon|Turin|Bonn|Kiel|Oslo|Malmö|Cork|Leeds|Rome|Lima|Quito|Perth|Cairo|Tunis|Osaka|Seoul|Boston|Denver|Austin|Toronto|Zurich|Vienna|Prague|Warsaw|Riga|Athens|Lisbon|Madrid",
        "route": "the train to Bonn|the train to Rome|the bus to Cork|the bus to Leeds|the ferry to Malmö|the flight to Oslo|the flight to Lima|the bus home|the first train|the last train|the night bus|the tram",
        "job": "a nurse|a pilot|a baker|a teacher|a lawyer|a cook|a farmer|a painter|a vet|a judge|a sailor|a plumber|a dentist|an engineer|an actor|a tailor|a driver|a writer|a student|a doctor|a coach|a miner",
        "instrument": "the piano|the drums|the cello|the guitar|the flute|the violin|the harp|the trumpet|the oboe|the banjo|football|tennis|chess|hockey|golf|rugby",
        "person": "Dana|Luis|Omar|Petra|Yuki|Ivan|Sofia|Nils|Greta|Paolo|Amir|Lena|Kofi|Rosa|Hugo|Mina|Otto|Vera|Igor|Ella|Noor|Pia|Tariq|Jun",
        "order": "order 7741|order 18|order 205|order 3310|parcel 12|parcel 77|ticket 9|ticket 31|table 2|table 5|table 8|table 14|room 101|room 204|room 318|seat 4A|seat 12C|seat 30F|desk 6|desk 11|number 40|number 73",
        "codeplace": "the garage|the front door|the gate|the safe|the alarm|the locker|the wifi|the router|the bike lock|the office|the lab|the cellar|my phone|my laptop|my suitcase|the printer|the vault|the pool",
        "budget": "rent|food|fun|travel|clothes|books|gifts|power|water|phone|savings|insurance|music|sport|the dog|repairs|fuel|coffee|toys|medicine",
        "pet": "cat|dog|snake|rabbit|parrot|hamster|horse|goat|turtle|budgie|mouse|hen|duck|lizard|pony|fish",
        "plural": "chickens|goats|cats|dogs|bikes|cars|books|plants|guitars|hats|lamps|apples|eggs|tickets|chairs|stamps|coins|shirts|rabbits|cups|pens|maps|trees|pears|lemons|cows|ducks|sheep|boats|keys|bags|boxes|towels|candles",
        "daytime": "in the morning|at noon|in the evening|at night|before bed|after lunch|after dinner|at breakfast|in the afternoon",
        "past": "today|yesterday|on Monday|on Tuesday|on Wednesday|on Thursday|on Friday|on Saturday|on Sunday|last week|this week|last month",
        "taken": "my steak|my eggs|my coffee|my tea|my toast|my pizza|my rice|my soup|my bread|my pasta|my burger|my salad|my curry|my fish",
        "how": "hot|cold|sweet|strong|black|soft|hard|medium|well done|spicy|mild|crispy|with milk|without sugar|salty|rare|very thin|with lemon|with garlic|warm",
        "event": "graduated|got married|moved here|bought the house|started my job|learned to drive|opened the shop|quit smoking|broke my leg|adopted the dog|left school|retired|met my wife|sold the car|joined the club|stopped working|finished the course",
        "years": "|".join(str(year) for year in range(1960, 2026)),
        "months": "January|February|March|April|May|June|July|August|September|October|November|December",
        "count": "chairs|people|lamps|tables|windows|boxes|plants|desks|books|beds",
        "kin": "|".join([*KIN[:-4], "mum", "dad"]),
    }.items()
}  # fmt: skip

FRAMES = lines("""
who ; place ; {k} lives in {v}|{k} moved to {v}|{k} has a flat in {v} ; {k} in {v}|{k} in {v} ; where does {k} live|which city does {k} live in|where did I say {k} lives|~what is the home of {k} ; {w} lives in {v}|{w} has a home in {v} ; -
who ; place ; {k} is from {v}|{k} comes from {v}|{k} was born in {v} ; {k} from {v}|{k} is from {v} ; where is {k} from|where does {k} come from|where was {k} born|~from what place is {k} ; {w} is from {v}|{w} comes from {v} ; -
who ; 2-99 ; {k} is {v} years old|{k} is {v}|{k} is {v}|{k} turned {v} ; {k} is {v}|{k} {v}|{k} {v} ; how old is {k}|how old is {k}|what age is {k}|tell me the age of {k}|~how many years old is {k} ; {w} is {v}|{w} is {v} years old|{w} turned {v} ; who is older / who is the oldest|who is younger / who is the youngest
who ; job ; {k} is {v}|{k} works as {v} ; {k} {v}|{k} is {v} ; what does {k} do|what is the job of {k}|what does {k} work as|what does {k} do for a living|~how does {k} earn money ; {w} is {v}|{w} works as {v} ; -
who ; food ; {k} wants {v}|{k} ordered {v}|{k} will have {v}|{k} always takes {v} ; {k} {v}|{k} wants {v} ; what does {k} want|what did {k} order|what will {k} have|what does {k} always take|~what is for {k} ; {w} wants {v}|{w} ordered {v}|{w} will have {v} ; -
who ; food ; {k} likes {v}|{k} prefers {v}|{k} loves {v}|{k} always chooses {v} ; {k} {v}|{k} prefers {v} ; what does {k} like|what does {k} prefer|what does {k} love|~with what can one please {k} ; {w} likes {v}|{w} prefers {v}|{w} loves {v} ; -
who ; taste ; {k} loves {v}|{k} likes {v}|{k} prefers {v} ; {k} {v}|{k} loves {v} ; what does {k} love|what does {k} like|what does {k} prefer|~what is dear to {k} ; {w} loves {v}|{w} likes {v}|{w} prefers {v} ; -
who ; taste ; {k} hates {v}|{k} can't stand {v}|{k} doesn't like {v} ; {k} {v} ; what does {k} hate|what can't {k} stand|what doesn't {k} like|~what does {k} avoid ; {w} hates {v}|{w} can't stand {v}|{w} doesn't like {v} ; -
who ; instrument ; {k} plays {v}|{k} learns {v} ; {k} {v}|{k} plays {v} ; what does {k} play|what does {k} learn|~what is the hobby of {k} ; {w} plays {v}|{w} learns {v} ; -
who ; title ; {k} is reading {v}|{k} reads {v} ; {k} {v}|{k} is reading {v} ; what is {k} reading|which book does {k} read|what does {k} read|~what lies on the bedside table of {k} ; {w} is reading {v}|{w} reads {v} ; -
who ; brought ; {k} brings {v}|{k} will bring {v}|{k} is bringing {v} ; {k} {v}|{k} brings {v} ; what does {k} bring|what will {k} bring|what is {k} bringing|~what comes with {k} ; {w} brings {v}|{w} will bring {v}|{w} is bringing {v} ; -
who ; gift ; {k} gave me {v}|{k} sent me {v}|I got {v} from {k} ; {k} {v}|{k} gave me {v} ; what did {k} give me|what did {k} send me|what did I get from {k}|~what is the present from {k} ; {w} gave me {v}|{w} sent me {v} ; -
who ; gift ; I gave {k} {v}|I got {k} {v}|I bought {k} {v} ; {k} {v} ; what did I give {k}|what did I buy {k}|what did I get {k}|~what does {k} have from me ; - ; -
who ; weekday ; {k} comes on {v}|{k} arrives on {v}|{k} is here on {v} ; {k} on {v}|{k} on {v} ; when does {k} come|on which day does {k} come|when does {k} arrive|when is {k} here|~for what day do I expect {k} ; {w} comes on {v}|{w} arrives on {v} ; -
who ; hour ; {k} comes at {v}|{k} arrives at {v}|{k} starts at {v} ; {k} at {v}|{k} at {v} ; when does {k} come|at what time does {k} come|what time does {k} arrive|when does {k} start|~for when do I expect {k} ; {w} comes at {v}|{w} arrives at {v} ; -
who ; shade ; {k} has the {v} one|{k} takes the {v} one|{k} chose the {v} one ; {k} the {v} one ; which one does {k} have|what colour does {k} have|which one did {k} choose|~what colour is the one of {k} ; {w} has the {v} one|{w} took the {v} one ; -
who ; 2-200 ; {k} owes me {v} euros|{k} has to pay me {v} euros ; {k} {v}|{k} owes me {v} ; how much does {k} owe me|what does {k} owe me|how much does {k} have to pay me|~how high are the debts of {k} ; {w} owes me {v}|{w} has to pay me {v} euros ; who owes me more / who owes me most|who owes me less / who owes me least
who ; 2-200 ; I owe {k} {v} euros|I have to pay {k} {v} euros ; {k} {v} ; how much do I owe {k}|what do I owe {k}|how much do I have to pay {k}|~how high are my debts with {k} ; who do I owe {v} euros|who do I owe {v}|to whom do I owe {v} ; who do I owe more / who do I owe most|who do I owe less / who do I owe least
who ; 2-200 ; I lent {k} {v} dollars|{k} got {v} dollars from me ; {k} {v} ; how much did I lend {k}|how many dollars did {k} get from me|~what must {k} give back ; who did I lend {v}|who did I lend {v} dollars ; who did I lend more / who did I lend most|who did I lend less / who did I lend least
who ; 2-99 ; {k} has {v} points|{k} scored {v}|{k} got {v} points ; {k} {v}|{k} has {v} ; how many points does {k} have|what did {k} score|how many points did {k} get|~what is the score of {k} ; {w} has {v} points|{w} scored {v} ; who has more points / who has the most points|who has fewer points / who has the fewest points
who ; 140-210 ; {k} is {v} cm tall|{k} is {v} cm ; {k} {v}|{k} is {v} ; how tall is {k}|what is the height of {k}|~how many cm has {k} ; {w} is {v} cm tall ; who is taller / who is the tallest|who is shorter / who is the shortest
who ; tongue ; {k} speaks {v}|{k} learns {v} ; {k} {v}|{k} speaks {v} ; what language does {k} speak|which language does {k} learn|what does {k} speak|~in what language can one talk to {k} ; {w} speaks {v}|{w} learns {v} ; -
who ; car ; {k} drives a {v}|{k} has a {v}|{k} bought a {v} ; {k} a {v} ; what does {k} drive|which car does {k} have|what car did {k} buy|~in what does {k} come ; {w} drives a {v}|{w} has a {v} ; -
who ; seat ; {k} sits in seat {v}|{k} has seat {v} ; {k} in {v}|{k} {v} ; where does {k} sit|which seat does {k} have|~on which chair is {k} ; {w} has seat {v}|{w} sits in {v} ; -
name ; name ; {k} sits next to {v}|{k} sits next to {v} ; {k} next to {v}|{k} sits next to {v} ; who does {k} sit next to|where does {k} sit|next to whom does {k} sit|~who is at the side of {k} ; {w} sits next to {v} ; -
who ; name ; {k} is married to {v}|{k} got married to {v} ; {k} to {v}|{k} is married to {v} ; who is {k} married to|to whom is {k} married|who did {k} marry|~who is at the side of {k} ; {w} is married to {v}|{w} got married to {v} ; -
who ; name ; {k} lives with {v}|{k} shares a room with {v} ; {k} with {v} ; who does {k} live with|with whom does {k} live|who does {k} share a room with|~who is at the side of {k} ; {w} lives with {v}|{w} shares a room with {v} ; -
name ; diet ; {k} is {v} ; - ; what did I say about {k}|what do you know about {k}|~what is special about {k} ; {w} is {v}|who did I say is {v} ; -
who ; spot ; {k} is {v}|{k} waits {v}|{k} sits {v} ; {k} {v} ; where is {k}|where does {k} wait|where does {k} sit|~at what place is {k} ; {w} is {v}|{w} sits {v} ; -
kept ; spot ; {k} is {v}|I put {k} {v}|I keep {k} {v}|you find {k} {v}|I left {k} {v} ; {k} {v}|{k} {v}|{k} is {v} ; where is {k}|where did I put {k}|where do I keep {k}|where's {k}|where did I say {k} is|~in what place do I look for {k} ; what is {v}|what did I put {v}|what do I keep {v} ; -
thing ; spot ; {k} is {v}|I put {k} {v}|I left {k} {v} ; {k} {v}|{k} is {v} ; where is {k}|where did I put {k}|where did I leave {k}|where's {k}|~in what place do I look for {k} ; what is {v}|what did I put {v} ; -
box ; content ; {k} has {v} in it|{k} holds {v}|there are {v} in {k}|{k} is full of {v} ; {k} {v}|{k} has {v}|{v} in {k} ; what is in {k}|what does {k} hold|what's in {k}|what did I put in {k}|~of what is {k} full ; where are the {v}|what holds the {v}|in what are the {v} ; -
coloured ; lock ; {k} is for {v}|{k} opens {v}|{k} belongs to {v} ; {k} for {v} ; what is {k} for|what does {k} open|what does {k} belong to|~which lock fits {k} ; which key is for {v}|which key opens {v}|what opens {v} ; -
order ; person ; {k} is for {v}|{k} goes to {v}|{k} belongs to {v} ; {k} for {v} ; who is {k} for|whose is {k}|who gets {k}|to whom does {k} go|~what name is on {k} ; which one is for {v}|which one goes to {v}|what belongs to {v} ; -
where ; seat ; my seat {k} is {v}|I have seat {v} {k}|I sit in {v} {k} ; {v} {k}|{k} {v} ; what is my seat {k}|which seat do I have {k}|where do I sit {k}|~what seat is mine {k} ; where do I have seat {v}|where is my seat {v} ; -
room ; 2-99 ; there are {v} chairs in {k}|we have {v} chairs in {k}|I counted {v} chairs in {k} ; {v} in {k}|{v} in {k} ; how many chairs are in {k}|how many chairs are there in {k}|how many chairs do we have in {k}|~what number of chairs is in {k} ; which room has {v} chairs|where are {v} chairs ; which room has more chairs / which room has the most chairs|which room has fewer chairs / which room has the fewest chairs
room ; 2-99 ; there are {v} people in {k}|{v} people fit in {k}|{v} people are in {k} ; {v} in {k} ; how many people are in {k}|how many people fit in {k}|how many people are there in {k}|~what number of people is in {k} ; where are {v} people|which room is for {v} people ; which room has more people / which room has the most people|which room has fewer people / which room has the fewest people
room ; shade ; {k} is {v}|{k} will be {v}|we paint {k} {v} ; {k} {v} ; what colour is {k}|what color will {k} be|how do we paint {k}|~which paint is for {k} ; what is {v}|which room is {v} ; -
subject ; 2-99 ; I scored {v} in {k}|I got {v} points in {k}|I have {v} in {k} ; {v} in {k}|{v} in {k} ; what did I score in {k}|how many points did I get in {k}|what did I get in {k}|what do I have in {k}|~how did I do in {k} ; in what did I score {v}|where did I get {v} points ; in what did I score more / in what did I score best|in what did I score less / in what did I score worst
subject ; grade ; I got {v} in {k}|I have {v} in {k} ; {v} in {k} ; what did I get in {k}|which grade do I have in {k}|what's my grade in {k}|~how did I do in {k} ; in what did I get {v}|which subject is {v} ; -
subject ; titled ; {v} teaches {k}|I have {v} in {k}|my {k} teacher is {v} ; {v} {k} ; who teaches {k}|who is my {k} teacher|who do I have in {k}|~whose lesson is {k} ; what does {v} teach|which subject do I have with {v} ; -
class ; weekday ; {k} is on {v}|I have {k} on {v} ; {k} on {v}|{k} on {v}|{k} is on {v} ; when is {k}|on which day is {k}|what day is {k}|when do I have {k}|~which day is for {k} ; what is on {v}|what do I have on {v} ; -
class ; hour ; {k} is at {v}|{k} starts at {v}|I have {k} at {v} ; {k} at {v}|{k} at {v} ; when is {k}|what time is {k}|when does {k} start|at what time is {k}|~which hour is for {k} ; what is at {v}|what do I have at {v}|what starts at {v} ; -
meal ; hour ; {k} is at {v}|we have {k} at {v}|{k} starts at {v} ; {k} at {v}|{k} at {v} ; when is {k}|what time is {k}|at what time do we have {k}|~which hour is for {k} ; what is at {v}|what do we have at {v} ; -
meal ; dish ; for {k} we have {v}|we eat {v} for {k}|{k} is {v} ; {v} for {k}|for {k} {v} ; what do we have for {k}|what do we eat for {k}|what is for {k}|~what's on the table at {k} ; for which meal do we have {v}|when do we eat {v} ; -
onday ; dish ; {k} we eat {v}|{k} we have {v}|we cook {v} {k} ; {k} {v}|{v} {k} ; what do we eat {k}|what do we have {k}|what do we cook {k}|~what's on the table {k} ; when do we eat {v}|on which day do we have {v} ; -
onday ; place ; {k} I'm in {v}|{k} I go to {v}|I am in {v} {k} ; {k} in {v}|{v} {k} ; where am I {k}|where do I go {k}|~in what place am I {k} ; when am I in {v}|on which day do I go to {v} ; -
onday ; person ; {k} I meet {v}|I see {v} {k}|I have lunch with {v} {k} ; {k} {v}|{v} {k} ; who do I meet {k}|who do I see {k}|with whom do I have lunch {k}|~who is it {k} ; when do I meet {v}|when do I see {v}|on which day do I see {v} ; -
inmonth ; place ; {k} I go to {v}|I travel to {v} {k}|we fly to {v} {k} ; {k} to {v}|to {v} {k} ; where do I go {k}|where do I travel {k}|where do we fly {k}|~what is the trip {k} ; when do I go to {v}|in which month do I travel to {v}|when do we fly to {v} ; -
bill ; nth ; {k} is due on the {v}|I pay {k} on the {v}|{k} must be paid by the {v} ; {k} on the {v}|{k} the {v} ; when is {k} due|when do I pay {k}|on which day is {k} due|by when must {k} be paid|~what date is {k} for ; what is due on the {v}|what do I pay on the {v} ; -
bill ; 2-2000 ; {k} is {v} euros|{k} costs {v} euros|I pay {v} euros for {k} ; {k} {v}|{k} is {v} ; how much is {k}|what does {k} cost|how much do I pay for {k}|~how high is {k} ; what is {v} euros|what costs {v} euros|for what do I pay {v} ; what costs more / what costs the most|what costs less / what costs the least
goods ; 2-99 ; {k} costs {v} euros|{k} is {v} euros|{k} cost me {v} euros ; {k} {v}|{k} is {v} ; how much is {k}|what does {k} cost|how much did {k} cost me|~how expensive is {k} ; what costs {v} euros|what is {v} euros ; what costs more / what is the most expensive|what is cheaper / what is the cheapest
team ; 2-99 ; {k} has {v} points|{k} scored {v} points|{k} got {v} ; {k} {v}|{k} has {v} ; how many points does {k} have|what did {k} score|how many did {k} get|~what is the score of {k} ; which team has {v} points|who scored {v} points ; who has more points / who has the most points|who has fewer points / who has the fewest points
team ; order ; {k} is at {v}|{k} plays at {v}|{k} meets at {v} ; {k} at {v} ; where is {k}|where does {k} play|where does {k} meet|~what is the place of {k} ; who is at {v}|which team is at {v} ; -
shopname ; hour ; {k} opens at {v}|{k} is open from {v} on ; {k} at {v} ; when does {k} open|at what time does {k} open|what time does {k} open|~from when on is {k} open ; what opens at {v} ; -
shopname ; hour ; {k} closes at {v}|{k} is open until {v}|{k} shuts at {v} ; {k} at {v} ; when does {k} close|at what time does {k} close|until when is {k} open|~how late is {k} open ; what closes at {v} ; -
shopname ; weekday ; {k} is closed on {v}|on {v} {k} is closed ; {k} on {v} ; when is {k} closed|on which day is {k} closed|~on what day should I not go to {k} ; what is closed on {v} ; -
route ; hour ; {k} leaves at {v}|{k} is at {v}|{k} goes at {v} ; {k} at {v}|{k} leaves at {v} ; when does {k} leave|what time is {k}|at what time does {k} leave|~for when do I need to be at {k} ; what leaves at {v}|which one goes at {v} ; -
route ; gate ; {k} leaves from {v}|{k} goes from {v} ; {k} from {v} ; from where does {k} leave|where does {k} leave from|where does {k} go from|~to what place do I go for {k} ; what leaves from {v}|which one goes from {v} ; -
codeplace ; code ; the code for {k} is {v}|{k} has the code {v}|the password for {k} is {v}|{v} opens {k} ; {k} {v}|for {k} it's {v} ; what is the code for {k}|what's the code for {k}|which code has {k}|what is the password for {k}|~with what do I open {k} ; what is {v} the code for|what does {v} open ; -
codeplace ; 1000-9999 ; the code for {k} is {v}|{k} has the code {v}|the pin for {k} is {v} ; {k} {v}|for {k} it's {v} ; what is the code for {k}|what's the code for {k}|which code has {k}|what is the pin for {k}|~with what do I open {k} ; what is {v} the code for|what has the code {v} ; -
plural ; 2-60 ; I have {v} {k}|I've got {v} {k}|I own {v} {k} ; {v} {k}|{v} {k} ; how many {k} do I have|how many {k} have I got|how many {k} do I own|~what number of {k} is mine ; - ; -
plural ; 2-60 ; I bought {v} {k}|I got {v} {k}|I paid for {v} {k} ; {v} {k} ; how many {k} did I buy|how many {k} did I get|how many {k} did I pay for|~what number of {k} is in my bag ; - ; -
plural ; 2-60 ; we need {v} {k}|we have to get {v} {k}|we ordered {v} {k} ; {v} {k} ; how many {k} do we need|how many {k} do we have to get|how many {k} did we order|~what number of {k} is on the list ; - ; -
plural ; 2-60 ; there are {v} {k}|I saw {v} {k}|I counted {v} {k} ; {v} {k} ; how many {k} are there|how many {k} did I see|how many {k} did I count|~what number of {k} was it ; - ; -
daytime ; 2-9 ; I take {v} pills {k}|I have to take {v} pills {k} ; {v} {k}|{k} {v} ; how many pills do I take {k}|how many pills do I have to take {k}|~what number of pills is for me {k} ; when do I take {v} pills ; -
daytime ; drink ; {k} I drink {v}|I have {v} {k}|I always take {v} {k} ; {k} {v} ; what do I drink {k}|what do I have {k}|what do I always take {k}|~what is in my glass {k} ; when do I drink {v}|when do I have {v} ; -
past ; 2-60 ; I ran {v} km {k}|{k} I ran {v} km|I cycled {v} km {k}|I walked {v} km {k} ; {k} {v}|{v} {k} ; how far did I run {k}|how many km did I run {k}|how far did I go {k}|~what distance was it {k} ; when did I go {v} km ; -
past ; 2-900 ; I spent {v} euros {k}|{k} I spent {v} euros|{k} I earned {v} euros ; {k} {v} ; how much did I spend {k}|how many euros was it {k}|how much was it {k}|~what sum was it {k} ; when was it {v} euros ; -
taken ; how ; I like {k} {v}|I take {k} {v}|I want {k} {v} ; {k} {v}|{k} {v} ; how do I like {k}|how do I take {k}|how do I want {k}|how should {k} be|~in what way is {k} good for me ; - ; -
event ; years ; I {k} in {v}|I {k} in {v}|in {v} I {k} ; {k} in {v}|I {k} in {v} ; when did I {b}|in which year did I {b}|what year did I {b}|~since when is it that I {k} ; what did I do in {v}|what happened in {v} ; -
event ; months ; I {k} in {v}|in {v} I {k} ; {k} in {v}|I {k} in {v} ; when did I {b}|in which month did I {b}|what month did I {b}|~what month was it that I {k} ; what did I do in {v} ; -
budget ; 2-999 ; I spend {v} euros on {k}|I planned {v} euros for {k}|I have {v} euros for {k} ; {v} on {k}|{v} for {k} ; how much do I spend on {k}|how much did I plan for {k}|how much do I have for {k}|~what is my budget for {k} ; for what do I have {v} euros|on what do I spend {v} ; on what do I spend more / on what do I spend most|on what do I spend less / on what do I spend least
""")

# What one did, and the word that questions have for it.
BASES = {past: f"{base}{past[len(past.split(' ', maxsplit=1)[0]):]}" for past in POOLS["event"] for base in [{"graduated": "graduate", "got": "get", "moved": "move", "bought": "buy", "started": "start", "learned": "learn", "opened": "open", "quit": "quit", "broke": "break", "adopted": "adopt", "left": "leave", "retired": "retire", "met": "meet", "sold": "sell", "joined": "join", "stopped": "stop", "finished": "finish"}[past.split(" ", maxsplit=1)[0]]]}  # fmt: skip
# One of a group ; several ; whose.
GROUPS = lines("""
brother ; brothers ; my|sister ; sisters ; my|daughter ; daughters ; my|son ; sons ; my|kid ; kids ; my|child ; children ; my|cousin ; cousins ; my|friend ; friends ; my|cat ; cats ; my|dog ; dogs ; my|roommate ; roommates ; my|colleague ; colleagues ; my|niece ; nieces ; my|nephew ; nephews ; my|guest ; guests ; the|player ; players ; the|student ; students ; the|teacher ; teachers ; the|helper ; helpers ; the|driver ; drivers ; the|neighbour ; neighbours ; my|horse ; horses ; my|singer ; singers ; the|flatmate ; flatmates ; my|team member ; team members ; the|pupil ; pupils ; the
""")[0].split("|")  # fmt: skip

# What one has, and its kind of value.
OWN = lines("""
seat ; seat
shoe size ; 30-50
birthday ; date
birthday ; date
birthday ; months
appointment ; day
wedding ; months
exam ; months
exam ; day
flight ; hour
locker number ; 1-999
room number ; 1-999
PIN ; 1000-9999
phone number ; phone
favourite colour ; colour
favourite food ; dish
favorite color ; shade
email ; email
car ; shade
bike ; shade
lucky number ; 1-99
number ; 1-9999
order number ; code
middle name ; name
dog's name ; name
cat's name ; name
boss ; name
score ; 1-200
ticket ; seat
table ; 1-60
jacket ; shade
username ; code
shift ; day
interview ; day
favourite animal ; pet2
start number ; 1-999
star sign ; sign
team ; club
hotel ; hotel
weight ; kilos
height ; height
hobby ; hobby
password ; code
turn ; day
""")
POOLS["pet2"] = [f"the {pet}" for pet in POOLS["pet"]]
POOLS["sign"] = "Aries|Taurus|Gemini|Cancer|Leo|Virgo|Libra|Scorpio|Capricorn|Aquarius|Pisces|Sagittarius".split("|")

# Titles ; of what ; kind of value ; how it is asked ; the answer.
LABELS = lines("""
Budget|My budget|Our budget|Plan for this month|Costs ; budget ; 2-2000 ; how much did I plan for {k}|how much is for {k}|what's the budget for {k}|how much do I have for {k}|~what may I spend on {k} ; the budget for {k} is {v}
My pets|Pets|Our pets|Our animals ; pet ; name ; what's the {k}'s name|what is the {k} called|what's my {k} called|what is the name of my {k}|~which name has the {k} ; your {k} is called {v}
Scores|Results|Points|Final scores ; name ; 2-200 ; what did {k} score|how many points does {k} have|what is the result of {k}|what's {k}'s score|~how did {k} do ; {k} has {v} points
Birthdays|Our birthdays|Dates of birth ; name ; date ; when is {k}'s birthday|what is {k}'s birthday|which day is {k}'s birthday|~when does {k} celebrate ; {k}'s birthday is {v}
Phone numbers|Contacts|Numbers ; name ; phone ; what's {k}'s number|what is {k}'s phone number|which number has {k}|~what do I dial for {k} ; {k}'s number is {v}
Codes|Door codes|Passwords|Pins ; codeplace ; code ; what is the code for {k}|what's the code for {k}|which code is for {k}|what is the password for {k}|~with what do I open {k} ; the code for {k} is {v}
Prices|Menu|Price list|Today's prices ; goods ; 2-99 ; how much is {k}|what does {k} cost|what's the price of {k}|~how expensive is {k} ; {k} is {v}
My week|Schedule|This week|Timetable|Plan ; class ; weekday ; when is {k}|on which day is {k}|what day is {k}|~which day is for {k} ; {k} is on {v}
Rooms|Room plan|Who sleeps where ; name ; room ; where is {k}|which room is {k} in|in which room is {k}|~to what room was {k} put ; {k} is in {v}
Ages|The kids' ages|Our ages ; name ; 2-99 ; how old is {k}|what is {k}'s age|what age is {k}|~how many years old is {k} ; {k} is {v}
Orders|Drinks|Our order|For the table ; name ; food ; what does {k} get|what did {k} order|what is for {k}|what will {k} have|~what goes to {k} ; {k} gets {v}
Jobs|Tasks|Who does what|Duties ; name ; brought ; what does {k} bring|what is {k}'s part|what should {k} bring|~what comes with {k} ; {k} brings {v}
Meals|Menu of the day|Meal plan ; meal ; dish ; what's for {k}|what is for {k}|what do we have for {k}|what do we eat for {k}|~what's on the table at {k} ; for {k} there is {v}
Seats|Seating plan|Our seats ; name ; seat ; where does {k} sit|which seat does {k} have|what's {k}'s seat|~on which chair is {k} ; {k} has seat {v}
Homes|Where my friends live|Addresses ; name ; place ; where does {k} live|which city does {k} live in|what is {k}'s city|~in what place does {k} live ; {k} lives in {v}
Sizes|Shoe sizes|Shoes ; name ; 28-49 ; what is {k}'s size|what size does {k} have|which size does {k} need|~which shoes fit {k} ; {k} has size {v}
Grades|My grades|School report ; subject ; grade ; what did I get in {k}|what is my grade in {k}|which grade do I have in {k}|~how did I do in {k} ; in {k} you have {v}
Colours|Team colours|Paint ; room ; shade ; what colour is {k}|which colour is for {k}|what color is {k}|~how do we paint {k} ; {k} is {v}
""")
