"""Words for tools that questions call for; see ``questions``.

``{n}`` is what the subject is, ``{s}`` the subject as one says it, ``{x}`` and ``{y}`` any nouns, ``{p}`` a state and
``{w}`` a time. Lines that start with ``~`` are held out of training.
"""

# ruff: noqa: E501 - lists read best unbroken

from demo_model.text import lines

# subjects ; names of the tool ; what it does ; what may be so ; whether a day may be asked for
STATES = lines("""
room numbered venue ; check_availability|is_free|{n}_availability|availability|is_{n}_free|free_check|{n}_free|occupancy ; Tell whether a {n} is free. ; free|available|open|taken|occupied|booked|in use|reserved|vacant|empty|full|bookable ; yes
goods code thing ; check_stock|in_stock|stock_check|stock_level|{n}_stock|has_stock|inventory|availability ; Tell whether a {n} is in stock. ; in stock|available|sold out|on the shelf|back in stock|out of stock|in the warehouse|on sale|to be had ; no
person ; presence|is_present|whereabouts|who_is_in|check_presence|staff_status|person_status ; Tell whether somebody is there. ; in|here|at work|on duty|on call|away|on holiday|back|in the office|free|busy|at home|on leave|working ; yes
person ; is_online|online_status|presence|user_state|check_user|status_of ; Tell whether a {n} is there right now. ; online|offline|on the phone|active|logged in|idle|connected|reachable|asleep|ill|there ; no
service ; health|status|is_up|service_status|check_health|ping|uptime_check|{n}_status|alive ; Tell whether a {n} runs. ; up|down|running|online|offline|alive|reachable|healthy|slow|back up|broken|responding ; no
handle ; name_check|is_taken|check_{n}|{n}_available|lookup_{n}|whois|claimable ; Tell whether a {n} can be had. ; free|taken|available|registered|gone|in use|used|unclaimed ; no
code ; {n}_state|{n}_status|check_{n}|get_{n}_status|status_of_{n}|track_{n} ; Tell the state of a {n}. ; paid|shipped|ready|on its way|late|here|done|finished|packed|lost|valid|delayed|on time|closed|approved|expired ; no
thing ; sensor|state_of|{n}_state|read_{n}|get_state|check_{n}|{n}_sensor ; Tell the state of a {n}. ; open|closed|locked|shut|on|off|warm|charged|clean|broken|full|empty|switched on|plugged in|wet|dry ; no
venue ; opening_hours|is_open|opening_times|check_hours|hours_of|place_hours|business_hours ; Tell when a place is open. ; open|closed|shut|open late ; yes
title ; find_{n}|library_lookup|{n}_status|check_{n}|is_out|availability|catalog_lookup ; Tell whether a {n} can be had. ; out|available|on loan|back|streaming|sold out|there|finished|lent ; no
""")
IS = lines("""
[Is|Is|Is|is] {s} [||still |already |]{p}{w}
[Is|is] {s} {p}{w} [or not|or is it not]
[Do you know|Can you tell me|Could you tell me|Tell me|I wonder|I'd like to know|Find out|Please check|Check|See] [if|whether] {s} is [still |already |]{p}{w}
{s}[, is it| - is it|: is it| -|:|,] {p}{w}
[Will|Won't] {s} be {p}{w}
Isn't {s} {p}{w}
[Any chance|Any idea if|Any idea whether|Have you seen whether|Please see if|Do we know if] {s} is {p}{w}
~May I ask whether {s} is {p}{w}
~Could it be that {s} is {p}{w}
""")
STOCKED = lines("""
[Do you|Do we|Do they] [still |]have {s} [in stock|left|on the shelf]
[Have you got|Got|Do you carry|Do you sell] {s}
[Is there|Is there still] [any|one] of {s} left
How many of {s} [are|do we have] left
[What's|What is] the stock of {s}
~Would there be {s} left
""")
# names ; about ; what the place of a person is, and names of the argument ; asks
DUTIES = lines("""
roster|duty_roster|who_is_on|on_duty|staff_on_duty|rota|shift_plan|get_roster ; Tell who works where. ; post|duty|shift|position|station ; reception|the bar|the front desk|night shift|the late shift|kitchen duty|door duty|the help desk|support|the {x} desk|{x} duty|the {x} shift|the early shift|the {x} counter|security|the {x} team|the info point|call for {x}s
room_owner|responsible|person_in_charge|who_leads|contact_for|owner_of|get_owner|lookup_owner ; Tell who is responsible for something. ; area|thing|subject|what|topic|domain ; the {x}|{x}s|the {x} project|the {a} {x}|{x} {y}s|the {x} budget|our {x}s
programme|lineup|whats_on|who_plays|event_line_up|show_schedule|gig_list ; Tell who performs where. ; venue|place|stage|location|hall ; {V}|the {x} stage|the main stage|the {a} {x}|{V}|{V}|the {x} festival|the {x} tent
teaching_plan|timetable|who_teaches|teacher_lookup|class_teacher|course_lookup ; Tell who teaches what. ; course|class|subject|lesson ; {x} drawing|the {x} class|maths|beginners' {x}|French|the {x} course|yoga|pottery|advanced {x}s
""")
WHO = lines("""
[Who|who|Who] [is|is|is going to be|works|stands in] on {s}{w}
[Who's|Who is|who's] [on|down for|doing|covering|scheduled for|there for] {s}{w}
[Who|Who] [does|has|covers|takes|fills] {s}{w}
[Tell me|Do you know|Can you see|I need to know] who [is on|does|has|covers|takes] {s}{w}
{s}[,|:| -] who[ is it|'s that|]{w}
[Whose turn is it|Whose turn] [for|with] {s}{w}
~Which of us is on {s}{w}
""")
WHO_CARES = lines("""
[Who|who] [is|is] [responsible for|in charge of|the contact for|answerable for] {s}{w}
[Who's|who's] [responsible for|in charge of|looking after|doing|leading|running] {s}{w}
[Who|Who] [runs|leads|handles|looks after|takes care of|deals with|does|decides on] {s}{w}
[Tell me|Do you know|Can you see|I need to know] who [runs|leads|handles|is responsible for] {s}{w}
{s}[,|:| -] who[ is in charge| does that| looks after that|]{w}
Whose job is {s}{w}
~Which of us is in charge of {s}{w}
""")
WHO_PLAYS = "[Who|who] [plays|performs|is|sings|is playing|appears|is on|speaks] at {s}{w}|Who [can I see|will I hear] at {s}{w}|Who's [on|playing|performing|singing] at {s}{w}|What's on at {s}{w}"
WHO_TEACHES = "[Who|who] [teaches|gives|takes|holds|runs] {s}{w}|Who [is the teacher of|is giving|is teaching] {s}{w}|Whose class is {s}{w}"
# What is done by whom to what: verb, third person.
DOERS = lines("""
who_owns|owner_of|get_owner|lookup_owner|{n}_owner ; Tell who owns a {n}. ; owns|has|keeps|possesses
assigned_to|get_assignee|who_works_on|{n}_assignee ; Tell who works on a {n}. ; does|works on|handles|is assigned to|deals with|is on|takes care of
who_changed|last_editor|audit|change_log|{n}_history ; Tell who changed a {n}. ; changed|edited|touched|updated|opened|deleted|last used|moved|closed
keyholder|who_borrowed|loan_record|{n}_loan|checked_out_by ; Tell who has a {n} at the moment. ; has|borrowed|took|holds|is using|checked out|last had
maker_of|author_of|get_author|credits|{n}_credits ; Tell who made a {n}. ; made|wrote|designed|built|painted|is behind|created
""")
# plural things ; names ; about ; preds ; argument of the place
LISTED = lines("""
{y}s ; list_{y}s|find_{y}s|get_{y}s|{y}_list|{y}s_at|which_{y}s|search_{y}s ; List the {y}s of a place. ; open|free|there|available|left|running|shown|sold|on|on offer|in use|on display|allowed|waiting
ferries|buses|trains|trams|boats|flights|coaches|shuttles|night trains ; departures|list_{y}s|timetable|connections|get_departures|{y}_schedule|next_{y}s ; List the departures at a stop. ; running|leaving|due|going|late|cancelled|scheduled
films|plays|bands|concerts|shows|operas|matches|talks|exhibitions|workshops ; whats_on|listings|programme|event_search|list_events|{y}_listings|showtimes ; List what is on at a place. ; on|showing|playing|run|scheduled|planned|starting
doctors|nurses|drivers|guides|waiters|guards|coaches|plumbers ; staff_list|roster|list_{y}s|who_works|{y}_roster|on_shift ; List who works at a place. ; working|on duty|free|there|on shift|available
shops|stalls|bars|museums|cafés|pharmacies|counters|kiosks ; open_places|places_open|list_{y}s|{y}_hours|find_open ; List the {y} of a place that are open. ; open|closed|still open|open late
""")
WHICH = lines("""
[Which|What|which] {ys} [are|are] {p} {i} {s}{w}
[Which|What] {ys} [do they|does one] have {i} {s}{w}
[Are there|Are there any|Any] {ys} {p} {i} {s}{w}
[Show me|List|Tell me|I want to know] [which|what] {ys} are {p} {i} {s}{w}
[What|Which] {ys} [can I find|are to be found] {i} {s}{w}
How many {ys} are {p} {i} {s}{w}
{ys} {i} {s}{w}
~May I know which {ys} are {p} {i} {s}{w}
""")
# asks ; names ; about: times of a place
TIMES = lines("""
[When|when|What time|At what time] does {s}{in} [open|close|shut]{w}|[Until when|How long|Till when] is {s}{in} open{w}|[From when|Since when] is {s}{in} open{w}|What are the opening [hours|times] of {s}{in}{w}|Opening hours of {s}{in}{w}|When [can I|may we] [visit|go to] {s}{in}{w}|[When|What time] is {s}{in} [open|closed]{w}|~By what time does {s}{in} close{w} ; opening_hours|hours|opening_times|business_hours|place_hours|when_open ; Tell when a place is open. ; venue
[When|when|What time] [does|does] {s}{in} [start|begin|end|finish|take place]{w}|[How long|Until when] does {s}{in} [last|run|take]{w}|[When is|When's] {s}{in} [on|over]{w}|[What time|When] is {s}{in}{w} ; event_times|showtimes|start_time|schedule_of|when_is|event_lookup ; Tell when something takes place. ; event
[When|when|What time|At what time] [does|will] {s}{in} [leave|arrive|get in|depart]{w}|[When|What time] is {s}{in} [due|leaving]{w}|[When's|When is] the [departure|arrival] of {s}{in}{w} ; {n}_times|timetable|{n}_schedule|times_of|get_{n}|{n}_info ; Tell when something leaves and arrives. ; vehicle
""")
# a quality: names of tools, how it is asked for
ATTRIBUTES = lines("""
price|cost ; [What's|What is] the price of {s}|How [much|expensive] is {s}|[What|How much] does {s} cost|{s}, how much[ is it|]|What do [you|they] [want|charge|ask] for {s} ; goods code thing title
weight|mass ; [What's|What is] the weight of {s}|How heavy is {s}|[What|How much] does {s} weigh|{s} - how heavy ; goods code thing
length|size|height ; How [long|big|tall|high] is {s}|[What's|What is] the [size|length|height] of {s}|{s}[:|,] how [long|tall|big] ; goods thing code
age|year_built|birthday ; How old is {s}|[What's|What is] the age of {s}|When was {s} [born|made] ; person thing
phone|phone_number|extension|contact ; [What's|What is] [{g} phone number|the phone number of {s}|the number of {s}]|[How|On what number] can I [reach|call] {s}|Which [number|extension] does {s} have|[What|Which] number [do I dial|is it] for {s} ; person venue
address|location|position ; Where [is|lives|sits] {s}|[What's|What is] the address of {s}|[Where do I|Where can I] find {s}|{s}[,|:] where[ is it| is that|] ; person venue
email|mail_address|contact ; [What's|What is] the [email|e-mail address|mail address] of {s}|Which [email|address] does {s} [have|use]|[Where|To what address] do I write to {s} ; person venue
color|colour|paint ; [What|Which] [colour|color] is {s}|What's the [colour|color] of {s} ; goods thing code
owner|holder|keeper ; Who [owns|has] {s}|Whose is {s}|[Who's|Who is] the owner of {s}|{s} - whose is it ; thing code
rating|score|stars ; How [good|well rated] is {s}|[What's|What is] the [rating|score] of {s}|How many stars does {s} have ; title venue goods
temperature|heat|reading ; How [warm|hot|cold] is it in {s}|[What's|What is] the temperature [in|of] {s}|{s}[,|:] how many degrees ; room city
population|inhabitants|size ; How many [people live|inhabitants are there] in {s}|[What's|What is] the population of {s}|How big is {s}|How many live in {s} ; city
job|role|profession ; What does {s} do|[What's|What is] [{g} job|the job of {s}]|What is {s} by trade ; person
department|workplace|team ; [In which department|Where|In which team] does {s} work|Which [department|team] is {s} in|[What's|What is] {g} department ; person
deadline|due_date|end_date ; When is {s} due|[What's|What is] the deadline [of|for] {s}|By when must {s} be [done|in|back]|Until when is {s} [valid|good] ; code title
{x}|{x}_name|{x}_number ; [What's|What is] the {x} of {s}|[What|Which] {x} does {s} have|[What's|What is] {g} {x}|Tell me the {x} of {s}|{s}[:|,] which {x}|The {x} of {s} ; person thing code goods venue room numbered
{x}_count|{x}s|number_of_{x}s ; How many {x}s does {s} have|How many {x}s [are there|are] [in|at|on] {s}|[What's|What is] the number of {x}s [in|of] {s}|How many {x}s has {s} got ; room venue thing code numbered
""")
# comparative ; names of the tool ; what is compared
COMPARED = lines("""
larger|bigger|smaller ; compare_size|larger_of|bigger|size_compare ; city thing goods number
heavier|lighter ; compare_weight|heavier_of|weigh_both ; thing goods
older|younger ; compare_age|older_of|age_compare ; person city
cheaper|dearer|more expensive ; compare_prices|cheaper_of|price_compare ; goods venue title code
closer|nearer|further away|farther ; nearer_of|compare_distance|distance_compare ; city venue
better|better rated|worse|more popular ; compare_ratings|better_of|compare ; title venue goods
longer|shorter ; compare_length|longer_of|length_compare ; title thing
faster|slower|quicker ; compare_speed|faster_of|race ; service thing person code
taller|higher|lower ; compare_height|taller_of|height_compare ; thing person
warmer|colder|hotter|sunnier|wetter ; compare_weather|warmer_of|climate_compare ; city
newer|more recent ; compare_dates|newer_of|which_is_newer ; title code service
greater|smaller|higher|lower ; compare|compare_numbers|max_of|bigger_number|greater_of ; number number
""")
COMPARE = lines("""
[Which|Which one|What|Which of the two] is {c}[,|:] {a} or {b}
[Which|What]'s {c}[,|:] {a} or {b}
Is {a} {c} than {b}
[Is|is] {a} or {b} {c}
{a} or {b}[,| -|:] which [one |]is {c}
[Tell me|I wonder|Do you know|Find out] [which|what] is {c}, {a} or {b}
[Compare|Please compare] {a} [and|with|to] {b}[,|:] which is {c}
{a} [vs|versus|vs.|against] {b}[,|:] [which|what] is {c}
~Between {a} and {b}, which is {c}
""")
PERSON_COMPARE = "[Who|who] is {c}[,|:] {a} or {b}|Who's {c}[,|:] {a} or {b}|Is {a} {c} than {b}|{a} or {b}[,| -] who is {c}|[Tell me|Do you know] who is {c}, {a} or {b}"
# names ; about ; names of the two ; what stands between them ; asks
PAIRED = lines("""
match_result|result|game_score|score_of|final_score|get_result ; Tell how a match ended. ; home|team_a|team1|first_team|team_1 ; away|team_b|team2|second_team|team_2 ; team ; [Who won|Who lost|Who scored|What's the score|What was the score|How did it end|What's the result|How is it going|Who is winning|Who leads] [between|in] {a} [and|against|vs] {b}{w}|[Who won|Who lost|How was|What about|Any goals in] {a} [against|vs|v|versus|-] {b}{w}|{a} [against|vs|versus|v] {b}[,|:] [who won|how did it end|what's the score]{w}|How did {a} [do|play|get on] against {b}{w}|Did {a} beat {b}{w}|~And the winner of {a} against {b}{w}
fixture|match_time|next_match|kick_off|game_schedule ; Tell when two teams meet. ; home|team_a|team1|first_team ; away|team_b|team2|second_team ; team ; [When|What time|Where] does {a} [play|meet|face] {b}{w}|[When|Where] is {a} [against|vs|versus] {b}{w}|When's the [match|game] between {a} and {b}{w}|[When do|Where do] {a} and {b} [meet|play]{w}
distance|how_far|distance_between|get_distance|km_between ; Tell how far apart two places are. ; from|start|origin|place_a|from_city ; to|end|destination|place_b|to_city ; city ; [How far is it|How far|What's the distance|How many km|How long is the way] [from {a} to {b}|between {a} and {b}]|How far [apart are {a} and {b}|is {a} from {b}]|{a} to {b}[,|:] how far[ is it|]
connection|next_train|trains_between|find_connection|route_times ; Find how one gets from one place to another. ; from|start|origin|departure|from_stop ; to|end|destination|arrival|to_stop ; city ; [When's|When is|What time is] the [next|last|first] [train|bus|ferry|flight] from {a} to {b}{w}|[Is there a train|Is there a bus|Are there any flights|Is there a ferry|Are there trains] from {a} to {b}{w}|[Which|What] [trains|buses|ferries|flights] [run|go|are there] [from {a} to {b}|between {a} and {b}]{w}|How do I get from {a} to {b}{w}|How [often|late] do [trains|buses] run between {a} and {b}{w}
related|relation|how_related|connection_between|know_each_other ; Tell how two people are related. ; person_a|first|first_person|one ; person_b|second|second_person|other ; person ; How [are {a} and {b} related|is {a} related to {b}|do {a} and {b} know each other]|[What is|Who is] {a} to {b}|Are {a} and {b} [related|married|siblings|friends]|Do {a} and {b} know each other
rate_of|exchange_rate|fx_rate|conversion_rate ; Tell the rate between two currencies. ; from|base|source|from_currency ; to|quote|target|to_currency ; money ; [What's|What is] the rate [between {a} and {b}|from {a} to {b}|of {a} to {b}]|[How many|How much] {b} [is|do I get for] one {a}|How does {a} stand against {b}|{a} to {b}[,|:] what's the rate
""")
# names ; about ; optional filters ; asks, with nothing in them for a filter
OPEN = lines("""
online_users|who_is_online|list_online|active_users ; List who is online. ; room limit role since ; [Who|who] is [online|there|logged in|connected|active][ right now||]|Who's [on|online|around|logged in]|Anybody [online|there|around]|[How many|Which] people are [online|logged in]
list_{x}s|all_{x}s|get_{x}s|{x}_list|{x}s ; List the {x}s. ; status limit sort owner since color ; [Which|What] {x}s [are there|do we have|exist|have we got|do I have]|[Show me|List|Give me|Let me see] [all the|the|our|my|all] {x}s|What {x}s [can I see|have we]|[Any|Are there any|Do we have any] {x}s|How many {x}s [are there|do we have]|[Are there|Got] any {x}s
running_jobs|list_jobs|job_queue|what_runs|show_queue ; List what is running. ; user limit state queue ; [What's|What is|What] [running|going on|in the queue|being worked on|runs][ right now| at the moment||]|[Which|What] jobs [are running|run|are queued]|[Anything|Is anything] [running|in the queue]|How long is the queue
latest_news|headlines|news|get_news ; Show the news. ; topic country limit source ; [What's|What is] [new|the news|going on in the world]|[Any|Is there any|Got any] news|What happened[ in the world|]|[Which|What] are the headlines|[What's|Anything] new
whats_on|programme|events|event_list|showtimes ; List what is on. ; genre venue limit category ; [What's|What is] on|What can [I|we] [see|watch]|[Which|What] [films|shows|events] are [on|there]|[Anything|Is anything] [good |]on
menu|get_menu|show_menu|what_to_eat|food_list ; Show the menu. ; category vegan max_price language ; [What's|What is] [for lunch|for dinner|on the menu|there to eat]|[Show me|Let me see|Can I see] the menu|What [do you have|can I order|do they serve]|What is there to [eat|drink]
my_agenda|agenda|my_day|calendar_view|schedule_today ; Show the agenda. ; calendar owner limit timezone ; [What's|What is] [on my agenda|coming up|next]|What do I have to do|[Am I|Are we] busy|[Do I|Do we] have [anything|something] planned|[What's|Anything] on my [plate|schedule|calendar]
who_am_i|current_user|profile|my_account|session_info ; Tell who is logged in. ; fields verbose ; [Who|who] am I|[As whom|With which account] am I logged in|Which user am I|What's my account|[Show|Open] my [profile|account]
winner|contest_result|leaderboard|ranking|standings ; Show who leads. ; league limit season ; [Who|who] [leads|is first|is winning|won|is in the lead|is on top]|Who's [first|winning|leading]|[Show me|What's|How is] the [ranking|leaderboard|table]
battery|battery_level|power_state|charge_state ; Tell how full the battery is. ; device unit ; How [full|charged] is the battery|[What's|How is] the battery[ level|]|[Do I|Do we] need to charge|How much [battery|charge|power] is left
next_departure|departures|next_bus|next_train ; Tell what leaves next. ; line direction limit platform ; [What|Which] [bus|train|tram] [leaves|goes|comes|runs] next|[When's|When is|When does] the next [one|bus|train]|What leaves next|[Which|What] trains run
on_call|whos_on_call|duty_now|oncall_lookup ; Tell who is on call. ; team region ; [Who|who] is [on call|on duty]|Who's [on call|on duty]|Whom [can I|do I] [call|page]|Who [has the pager|takes calls]|Anyone on call
weather_here|local_weather|outside|weather_now ; Tell the weather outside. ; units language hours ; [How's|How is|What's] [the weather|it outside|the weather like]|Is it [raining|cold|warm|snowing|windy][ outside|]|[Do I|Will I] need [an umbrella|a coat|a jacket]|Will it [rain|snow]
ip_address|my_ip|public_ip|network_info ; Tell the address of this machine. ; interface format ; [What's|What is] [my|our|the] IP[ address|]|[Which|What] address [do I|does this machine] have
clock|current_time|time_now|get_time ; Tell the time. ; timezone format ; [What|what] time is it|[What's|What is] the [time|hour]|How late is it|Got the time
""")
