"""What people have tools for, and how they ask: the words of it, as lists.

An action is a line ``verbs ; what it is done to ; slots ; how people say it``. A place in what people say is a slot that
the tool always has; the slots of the third part are added after it. ``{n}`` is what the action is done to.
"""

# ruff: noqa: E501 - phrases read best unbroken

from demo_model.text import lines

ACTIONS = lines("""
book|reserve|arrange ; room|table|hotel|court|desk|cabin|venue ; date time people nights city person bounds ; [Book|Reserve|Get|Find|Organise] [me |us |]a {n}|[I need|I'd like|We need|We want|I am looking for] a {n}|Can I have a {n}|Is there a {n}|Could you hold a {n}|We are {people} and want a {n}|[Book|Reserve] a {n} for {people}[ people|] at {title}|[Book|Get] {people} seats at {title}
book|reserve|find|search ; flight|train|bus|trip|ride|ferry ; from to date time class people ; [Book|Get|Find|Search] [me |us |]a {n}|[I need|I want|We need] a {n}|[I want to|I have to|We must] [travel|go] by {n}|Which {n} can I take
book|find|search|plan|get ; flights|route|trip|journey|connection|directions ; date time class people ; [Find|Show me|Search|Look for|Get] [me |]{n} {route}|How do I get {route}|I [need|want] to [go|travel|fly] {route}|{n} {route}|[We're|I'm] [going|travelling] {route}|Take me {route}
schedule|create|add|plan ; meeting|appointment|event|call|interview|lesson|party ; date time minutes people_list title city repeat bounds ; [Schedule|Plan|Set up|Arrange|Organise|Put in my calendar] a {n}|[I need|I have|Let's have|We should have] a {n}|[Make|Block] time for a {n}|[Schedule|Set up|Plan] a {n} with {person}|{n} with {person}|[Let's meet|I want to meet] {person}|I'm meeting {person}
send|write|deliver ; email|message|letter|note|invitation|report|postcard ; email text title priority style ; [Send|Write|Drop|Fire off|Get] a {n}|[I want to|Please|Can you] send a {n}|Let's send a {n}|A {n} should go out|[Email|Mail|Write to] {email}|[Send|Write] {email} a {n}|[Send|Shoot] an email to {email} and [say|tell them] {text}|[E-mail|Email] {email}: {text}
send|write|post ; sms|text|whatsapp|notification|alert|message ; phone text person ; [Send|Shoot|Write] a {n}|[I want to|Please|Can you] send a {n}|A {n} must go|[Text|Message] {recipient} that {text}|Tell {recipient} {text}|Tell {recipient} that {text}|Let {recipient} know {text}|[Send|Drop] {recipient} a {n}: {text}|[Message|Text|Ping] {recipient}: {text}|Write to {recipient} that {text}
order|buy|purchase|get ; pizza|coffee|shirt|book|lamp|bike|cake|sandwich|bag ; quantity size color price person phone ; [Order|Buy|Get|Fetch] [me |us |]a {n}|[I'd like|I want|I'll have|I feel like] a {n}|Can I get a {n}|One {n}
order|buy|purchase|add|order_item|add_to_cart ; items|cart|product|groceries|goods|basket ; price person address date ; [Order|Buy|Get|Fetch|Add|Put in|Pick up] {pieces} {plural}|[I need|I want|We need|I'd like|Let's get|Get me] {pieces} {plural}|{pieces} {plural}[ to my cart| please| for me|]|[Put|Add] {pieces} {plural} [in|into|to] [the|my] [cart|basket|order]
add|buy|order|put ; ingredient|groceries|food|stock|pantry|item ; price city date ; [Add|Buy|Get|Order|Put down|I need|We need|Bring] {dose} [of |]{thing}|{dose} of {thing}[ please|]|I'm out of {thing}, [get|order] {dose}
remove|take|reduce|sell|withdraw ; stock|inventory|units|goods|supply ; reason date ; [Remove|Take|Take out|Sell|Withdraw] {quantity} [units|pieces|boxes|items] of {thing}|[Remove|Take|Withdraw] {quantity} [units |]of {code}|Reduce the stock of {code} by {quantity}|{pieces} {plural} [are gone|were sold|have been sold]
create|add|open|new ; task|ticket|todo|issue|reminder|bug|card|job ; title due priority tags person repeat ; [Create|Add|Make|Open|Note|Put down|Write down] a {n}|[I need|There should be|We need] a [new |]{n}|Put a {n} on my list|[Create|Add|Open|File|Make] a {n}[: | called | titled | named ]{title}|[New|Another] {n}: {title}
remind|add_reminder|create|set ; reminder|todo|task|note|alert ; date time repeat priority ; Remind me to {task}|[Don't let me forget|I must not forget|Make sure I don't forget] to {task}|[Add|Put] "{task}" [on|to] my [list|todo list|tasks]|I [have to|need to|must] {task}|[Add|Create|Set] a {n} to {task}|Please remind {person} to {task}
convert|export|transform|render ; file|document|report|table|picture|log ; path format output ; [Convert|Turn|Change|Transform|Export] the {n}|I need the {n}|[Can|Could] I have the {n}|Make me the {n}|[Convert|Export|Save|Turn] {path} [to|into|as] {format}|I need {path} as {format}|[Make|Give me] a {format} of {path}
read|open|load|parse|show|analyze|cat|view ; file|document|log|config|script|sheet ; path limit format lines ; [Read|Open|Load|Show me|Look into|Have a look at] the {n}|What is in the {n}|[Can|Could] you check the {n}|I want to see the {n}|[Read|Open|Show|View|Display|Load|cat|Print] {path}|What's in {path}|[What does|What is in] {path}[ say|]|Let me see {path}|[Show|Give] me {path}
tail|head|read|show ; file|log|lines|output ; folder host ; [Show|Give|Read|Get] [me |]the [last|first|top] {lines} lines of {path}|[Tail|Head] {path}, {lines} lines|The last {lines} lines of {path}|I want {lines} lines from {path}
delete|remove|trash|erase ; file|record|entry|backup|draft|copy ; path id ; [Delete|Remove|Erase|Throw away|Get rid of] the {n}|I don't need the {n} any more:|Please drop the {n}|The {n} can go:|[Delete|Remove|Erase|Trash|Get rid of|rm|Drop|Throw away] {path}|{path} can [go|be deleted]|I don't need {path} any more|[Delete|Remove] {n} {id}
write|save|create|append|store ; file|text|document|note|content ; flag ; [Write|Save|Put|Store] {text} [to|in|into] {path}|[Create|Make] [a file|the file] {path} [with the text|with|containing|that says] {text}|[Append|Add] {text} to {path}|[Save|Store] {text} as {path}|[Make|Create] {path} and write {text} [in it|into it]
move|rename|copy|backup|link|mv|cp ; file|document|folder|item|path ; flag ; [Move|Copy|Rename|Transfer|Back up|Relocate] {files}|[I want to|Please|Could you|Let's] [move|copy|rename] {files}|[mv|cp] {files}
search|grep|find|scan ; files|code|text|folder|logs|documents ; limit flag ; [Search|grep|Look|Scan|Check] for {topic} in {folder}|Find {topic} in {folder}|Where [does|do] {topic} [appear|occur] in {folder}|Which files in {folder} contain {topic}|[grep|Search] {folder} for {topic}
list|ls|show|count ; files|folder|directory|documents|contents ; flag sort limit ; [List|Show|Show me|Count] [the |all |all the |]{n} in {folder}|[What|Which] {n} [are|is] in {folder}|What's in [the folder |]{folder}|ls {folder}|[Look|Have a look] into {folder}
resize|crop|scale|render|make ; image|picture|photo|thumbnail|canvas ; format output ; [Resize|Scale|Crop|Shrink|Enlarge] {path}{pixels}|[Make|Turn] {path} {pixels}|I need {path}{pixels}
fetch|download|scrape|crawl|summarize|check|open|visit ; page|site|article|feed|link|url ; url output limit format ; [Fetch|Download|Get|Grab|Check|Sum up|Load] the {n}|What does the {n} say|I want the {n}|Is anything new on the {n}|[Fetch|Download|Open|Get|Visit|Summarise|Go to|Check] {url}|What's [on|at] {url}|Is {url} [up|online|down]|[Save|Bookmark] {url}
track|check|locate|find ; parcel|shipment|order|delivery|suitcase|package ; code ; [Where is|Track|Check|Locate|What happened to] [my|the] {n}|Has [my|the] {n} arrived:|I'm waiting for my {n}|When does my {n} come:|[Where is|Track|Find|Locate] [{n} |my {n} |]{code}|[What's the status of|How is] {n} {text_id}|Has {n} {text_id} [arrived|shipped|left]|When [will|does] {n} {text_id} [arrive|come]
cancel|stop|refund|return ; order|booking|subscription|reservation|contract ; code reason ; [Cancel|Stop|Call off|Undo] [my|the] {n}|I no longer want [my|the] {n}|[I have to|I want to] cancel the {n}|[Cancel|Refund|Stop|Return|Call off] [the |my |]{n} [number |#|]{text_id}|[Cancel|Return] {text_id}|I want [my money back|a refund] for {n} {text_id}
get|find|lookup|show|fetch|load ; user|customer|ticket|invoice|employee|product|account|patient|student ; flag format ; [Get|Look up|Find|Show|Show me|Fetch|Pull up|Load|Open] [the |]{n} [with id |with the id |number |id |#|no. |]{id}|[Who|What] is {n} {id}|[Give me|I need|Tell me] the [details|data|record] of {n} {id}|[Look up|Find|Show me] {n} {code}|[I'm looking for|Do we have] {n} {text_id}
find|lookup|get|search|show ; user|customer|contact|employee|profile|person ; email city ; [Find|Look up|Search for|Show me|Get|Pull up] [the |]{n} {person}|Who is {person}|[What do we know|Tell me] about {person}|[Is there|Do we have] a {n} [called|named] {person}|[Show me|Get] {person}'s [profile|details|data]
ship|mail|dispatch ; package|parcel|box|crate ; weight to from person measure address ; [Ship|Send|Mail|Dispatch] a {n}|I want to ship a {n}|A {n} has to go out|What does it take to send a {n}
set|adjust|change|dim ; light|volume|heating|brightness|blinds|fan ; percent room ; [Set|Turn|Change|Bring|Put] the {n}|[I want|I'd like] the {n}|The {n} should go|Could you put the {n}|[Set|Turn|Change] [the |]{n} to {percent}[%| percent|]|{n} [at|to] {percent}[%| percent|]|[Dim|Lower|Raise] the {n} to {percent}[%| percent]|[Dim|Set|Turn] the {room} {n} to {percent}[%| percent|]
set|adjust|change|regulate ; thermostat|temperature|heating|oven|freezer|boiler|heater ; room time ; [Set|Turn|Put|Change] the {n} to {degrees}[ degrees|°C|°|]|Make it {degrees} degrees|[Heat|Warm|Cool] [the {room}|it|the place] to {degrees}[ degrees|°|]|I [want|need] {degrees} degrees|It should be {degrees} degrees in the {room}|[Heat|Preheat] the {n} to {degrees}
call|dial|phone|ring ; number|person|contact|line ; phone person time ; [Call|Dial|Ring|Phone] the {n}|I want to call a {n}|Get me the {n} on the line|[Call|Ring|Phone|Dial] {person}|[Call|Dial|Ring] {phone}|Get me {person} on the [phone|line]|I [need|want|have] to [talk|speak] to {person}|[Give|Make] {person} a [call|ring]
search|find|look_up|list ; restaurant|museum|doctor|shop|job|apartment|concert|park|pharmacy ; city price limit date distance sort ; [Find|Look for|Search|Show me|Recommend] a {n}|[I need|I'm looking for|Is there|Do you know] a {n}|Where can I find a {n}|Any {n}|[Find|Show me|List] {n}s in {city}|Which {n}s are in {city}|Any good {n} in {city}
search|find|lookup|google|query ; web|internet|news|docs|wiki|papers|videos|products|books ; limit sort date ; [Search|Look|Google|Look up|Hunt] [the {n} |]for {topic}|[Google|Look up|Search|Find] {topic}|[Find|Get|Show] [me |us |][something|{n}|results|articles|everything] [about|on] {topic}|What [does the {n} say|do people say|is new] about {topic}|I [want|need] to [know|read] about {topic}|[Anything|Something|News] about {topic}
get|fetch|check|show|current|lookup ; weather|forecast|temperature|time|air_quality|traffic|population|news|events|sunrise|rain|wind|tides|humidity|local_time ; degree_unit date ; [What's|What is|How is|How's|Tell me|Check|Show me|Get] the {n} in {city}|{n} in {city}|[Give me|I want|I need] the {n} [for|of] {city}|I'm in {city}, what's the {n}|[What|How] about the {n} in {city}|[I'm flying|I'm going|I travel] to {city}, how is the {n}
get|fetch|check|forecast ; weather|forecast|conditions ; degree_unit days ; [Will|Does|Is] it [rain|snow|freeze|be hot|be cold|be sunny|going to rain|get warm] in {city}|[How|Is it] [hot|cold|warm|windy|wet] in {city}|[Do|Will] I need [an umbrella|a coat|sunglasses|boots] in {city}|[Is|Will] {city} [be |][sunny|rainy|snowy|hot]
pay|transfer|charge|send_money|invoice ; bill|invoice|rent|fee|donation ; id currency person due ; [Pay|Settle|Transfer] the {n}|I have to pay the {n}|Take care of the {n}|The {n} must be paid
transfer|send|pay|wire|give|send_money ; money|payment|transfer|funds ; text reason date ; [Transfer|Send|Wire|Pay] {cash} to {recipient}|[Send|Pay|Give|Wire] {recipient} {cash}|I [owe|want to give|have to pay] {recipient} {cash}|{cash} [to|for] {recipient}|[Charge|Bill] {person} {cash}|[Charge|Debit] [my card|the card|my account] {cash}|Refund {cash} to {person}
convert|exchange|change|calculate ; currency|money|amount|rate ; date ; [Convert|Change|Exchange] {cash} [to|into] {target}|How much is {cash} in {target}|What's {cash} in {target}|[I have|I've got] {cash}, how much is that in {target}
order|buy|place|create|submit ; order|purchase|cart|basket ; person address date email ; [Order|Buy|Get|I want|I need|We need|I'd like|Please bring] {basket}|[Place|Make|Create] an order for {basket}|{basket}[, please| for me|]|[Put|Add] {basket} [in|to] the [cart|basket]
order|buy|get|order_food ; pizza|food|drinks|meal|burgers ; address time phone ; [Order|Get|Bring|I want|I'd like|We'll have] {pieces} {size} {plural}|{pieces} {size} {plural} with {thing}|[Order|Get] {pieces} {plural} with {goods}
remind|add|schedule|create|set ; reminder|event|alert|task|alarm ; repeat priority ; Remind me {moment} to {task}|Remind me to {task} {moment}|[Add|Create|Set] a {n} {moment}: {task}|{task} {moment}, [add it|put it down|remind me]|[Schedule|Plan|Put in] {title} {moment}
transfer|send|pay|wire|give ; money|payment|funds|cash|amount ; text reason date ; [Transfer|Send|Wire|Pay] {sum} to {recipient}|[Send|Pay|Give|Wire] {recipient} {sum}|I [owe|want to give|have to pay] {recipient} {sum}|{sum} [to|for] {recipient}|{recipient} [gets|should get] {sum}
charge|log|record|add|enter|book ; expense|payment|cost|receipt|card|purchase|income ; date tags ; [Log|Record|Add|Enter|Note] [an expense of|a cost of|] {sum} for {thing}|I [spent|paid] {sum} [on|for] {thing}|[Charge|Bill] {person} {sum}|{sum} for {thing}|[Charge|Put] {sum} [to|on] [my|the] card
make|draw|design|generate ; poster|logo|card|chart|banner|flyer ; title color size style format pixels ; [Make|Draw|Design|Create|Do] [me |]a {n}|I need a {n}|[I'd like|We want] a {n}
draw|paint|generate|make|create ; image|picture|photo|drawing|illustration ; pixels style format ; [Draw|Paint|Make|Generate|Create] [me |][a picture of|an image of|] {thing}|I want [a picture|an image] of {thing}|[A picture|An image|{n}] of {topic}
pack|fill|prepare|stock ; basket|box|cart|bag|drawer ; goods person date ; [Pack|Fill|Prepare|Get ready] a {n}|I need a {n}|Let's prepare a {n}
add|put|append|insert ; list|items|shopping|cart|playlist|groceries ; date ; [Add|Put] {goods} [to|on] [my|the] [list|shopping list|cart]|[We need|I need|Get|Buy|Don't forget] {goods}|[Put|Write] {goods} on the list|{goods} [should go|go] on the list
start|set|run|countdown ; timer|countdown|stopwatch|alarm|clock ; title ; [Set|Start|Run] a {n} [for|of] {minutes}|{minutes}[ please| timer|, go|]|[Wake|Call|Alert|Tell] me in {minutes}|[Start|Begin] {minutes} now|Let me know in {minutes}|[Set|Start] a {n} for {seconds}|Count down {seconds}
set|create|add|wake ; alarm|wakeup|alert|bell ; repeat title date ; [Wake|Get] me [up |]at {time}|[Set|Create|Put] an alarm [for|at] {time}|I [have to|must|need to] [get up|wake up|be up|leave] at {time}|Alarm [at|for] {time}
play|start|queue|watch|stream ; song|music|movie|album|playlist|podcast|video|track ; room percent ; [Play|Put on|Start|Queue|Let me hear] {title}[ by {person}||]|I [want|would like] to [hear|listen to|watch|see] {title}|[Put|Turn] {title} on|[Can we|Let's] [hear|watch|play] {title}|[Play|Put on] [something|music] by {person}|[Play|Start] the {n} {title}
run|execute|exec|start|launch ; command|shell|script|query|sql|terminal|code|job ; folder host seconds ; [Run|Execute|Start|Launch] {command}|[Run|Execute|Try] [the {n} |this: |]{command}|[What does|What is the output of] {command}[ say| print|]|Please do {command}|{command} in the [shell|terminal]
ping|scan|check|restart|reboot|connect|monitor ; host|server|machine|port|device ; seconds quantity ; [Ping|Scan|Check|Restart|Reboot|Connect to|Monitor] {host}|Is {host} [up|alive|reachable|down|online]|[Restart|Reboot] the {n} {host}|Can you [reach|ping] {host}
deploy|restart|list|scale|rollback|get ; pods|service|app|release|containers|jobs|build ; quantity code ; [Deploy|Restart|Roll back|Check|List|Show] the {n} [on|in|to] {env}|Which {n} [are|is] [running|up|there] in {env}|[What's|What is] the state of {env}|[Scale|Set] the {n} [on|in] {env} to {quantity}|Push it to {env}
commit|push|tag|merge|branch|create ; git|changes|branch|release|code|repo ; flag ; [Commit|git commit|Check in] with [the message |]{text}|[Commit|Save] [my|the|all] changes[:| with] {text}|[Create|Make|Start] [a|the] branch [called |named |]{code}|[Merge|Push|Tag|Check out] {code}
translate|localize|translate_text ; text|sentence|phrase|message|words ; style ; [Translate|Put] {text} [to|into|in] {language}|[How do you say|What is|What's] {text} in {language}|{text} in {language}[ please|]|I need {text} in {language}|Say in {language}: {text}
summarize|analyze|classify|check|proofread|count ; text|sentiment|words|article|review|grammar ; language style ; [Summarise|Analyse|Check|Classify|Proofread] [this|the text|the following]: {text}|What is the [mood|sentiment|tone|meaning] of {text}|[Is|Would you say] {text} [positive|negative|friendly|correct]|How many words are in {text}
add|create|save|store|new ; contact|customer|person|member|friend ; email age city full_name ; [Add|Save|Store|Put] {person}, {phone}, [to|in] my contacts|[Save|Store] {phone} as {person}|[Add|Create] a [new |]{n} [named|called] {person} with [the |]number {phone}|{person}'s [number|phone number] is {phone}, [save it|add it|please save that]|New {n}: {person}, {phone}
add|create|new|open|onboard ; customer|user|account|member|employee|subscriber ; phone city date full_name address ; [Register|Add|Create|Sign up|Enrol] [a new |the |]{n}[:| named| called|] {person}, {age} years old, {email}|[Register|Add|Sign up] {person} [with|using|at] {email}|[Create|Open] an account for {person}, {email}|New {n} {person}, e-mail {email}[, age {age}|]|[Subscribe|Add|Invite] {email}|[Put|Add] {email} on the [list|newsletter]
log|record|track|add|save ; workout|run|walk|ride|training|exercise|swim ; date ; [Log|Record|Save|Add] a {distance} km {n} in {minutes}|I [ran|walked|cycled|swam|did] {distance} km in {minutes}|[Log|Record|Track] a {n} of {distance} km|I did {minutes} of {activity}|{distance} km {n}[, {minutes}|]
calculate|compute|get|measure|find ; area|volume|perimeter|distance|tip|tax|interest|speed|bmi|average ; flag ; [Calculate|Compute|Work out|Find|What's|What is] the {n}{dims}|[What's|Give me|I need] the {n} of a [circle|box|field|loan|room|triangle|trip|person]{dims}|[Calculate|Compute] the {n} of {numbers}|What's the [average|mean|median|largest] of {numbers}
apply|give|set|add ; discount|coupon|bonus|voucher|rebate ; due reason ; [Give|Grant|Offer] {person} a {discount}[%| percent] {n}|[Apply|Use|Add] a {discount}[%| percent] {n} [for|to] {person}|{person} gets {discount}[%| percent] off|[Apply|Use|Redeem] the {n} {code}
assign|give|delegate|hand ; task|ticket|issue|job|case ; due priority ; [Assign|Give|Hand] [{n} |ticket |#]{id} to {person}|{person} should [take|do|handle] {n} {id}|Let {person} [handle|have|take] {n} {id}|[Make|Set] {person} the owner of {n} {id}
update|set|change|mark|close ; ticket|order|task|issue|record|status ; reason person ; [Mark|Set|Change|Put] {n} {id} [to|as] {status}|{n} {id} is [now |]{status}|[Set|Change] the status of {n} {id} to {status}|[Close|Resolve|Finish] {n} {id}
enable|disable|set|toggle|switch ; setting|feature|option|mode|preference|flag ; room ; {toggled}|please {toggled}|{toggled}|can you {toggled}|{toggled} in the {room}
get|check|quote|lookup|price ; stock|price|rate|share|coin|crypto ; currency date ; [What's|What is|How much is|Check|Show me|Get|Look up] [the |][stock price|price|share price|value|rate] of {code}|How is {code} doing|{code} price|[Quote|Check] {code}|[What|How much] does {thing} cost|[How much is|What's the price of] {thing}
roll|flip|draw|pick|generate|random ; dice|coins|cards|number|password|die ; flag ; [Roll|Throw] {dice}|[Roll|Throw] {dice}[ please| for me|]|[Roll|Throw] {quantity} dice|[Flip|Toss] {quantity} coins|[Draw|Pick|Give me|Generate] {pieces} {plural}|[Pick|Give me|Generate|Choose] a [random |]number{bounds}
water|feed|clean|walk|brush|charge ; plants|dog|cat|pool|garden|robot|car|battery ; time repeat ; [Water|Feed|Give] the {n} {dose}|[Give|Pour] {dose} [to|into] the {n}|[Water|Feed|Clean|Charge] the {n} for {minutes}|[Start|Begin] to [water|feed|clean] the {n} in {minutes}
drive|walk|move|go|fly|turn|navigate ; robot|drone|car|rover|forward|position ; flag ; [Drive|Walk|Move|Go|Fly] {dose} {direction}|[Move|Drive|Send] the {n} {direction} [by|for] {dose}|[Turn|Go] {direction}|[Fly|Move|Go] {route}
rate|review|grade|score ; movie|book|product|restaurant|hotel|service|app ; date ; [Rate|Give] {title} {stars} [stars|out of 5|points]|{title} [gets|deserves] {stars} stars|{stars} stars for {title}|I [loved|liked|hated] {title}, [give it|that's] {stars} stars[: {text}|]
post|send|publish|write ; message|announcement|update|notice|reply ; date person ; [Post|Send|Publish|Write] {text} [in|to|on] {channel}|[Post|Announce|Tell] {channel}: {text}|[Let|Tell] {channel} know that {text}|[Send|DM|Message] {handle} {text}|[Post|Share] {text}
create|open|file|close|list|get ; issue|pull_request|bug|branch|release|milestone ; tags priority person ; [Open|File|Create] an issue [in|on|for] {repo}[: | titled | called ]{title}|[List|Show] the {n}s [of|in] {repo}|[Close|Reopen|Get|Show|Merge] {n} {id} [in|of] {repo}|[Clone|Fork|Star|Archive] {repo}|[What|Which] {n}s are open in {repo}
create|make|mkdir|add ; folder|directory|project|workspace|album ; path person ; [Create|Make|Add] a [new |]{n} [called|named] {stem}|[mkdir|New folder] {stem}|I need a {n} {stem} in {folder}|[Make|Create] the {n} {stem} under {folder}
zip|compress|extract|unzip|unpack|pack ; archive|folder|files|zip ; flag output ; [Zip|Compress|Pack|Archive] {folder}|[Unzip|Extract|Unpack] {path}[ to {folder}| into {folder}||]|[Compress|Zip] {path}
split|divide|calculate|compute ; bill|tip|check|cost ; flag ; [Split|Divide] {sum} [between|among|by] {people} people|[Split|Divide] a bill of {sum} [between|among] {people}[ people|] with a {discount}[%| percent] tip|What's a {discount}[%| percent] tip on {sum}|[Add|Calculate] a {discount}[%| percent] tip [to|on] {sum}
calculate|compute|get|estimate ; loan|mortgage|interest|payment|savings ; repeat ; [Calculate|Compute|What's|What is] the {n} [for|on|of] {sum} at {discount}[%| percent] [over|for] {years} years|{sum} at {discount}%, {years} years[, what's the {n}|]|I [borrow|save|invest] {sum} for {years} years at {discount}[%| percent]
calculate|compute|get ; bmi|body_mass_index|health_score ; age ; [Calculate|What's|What is|Work out] [my|the] {n} [for|with|given] {body}|I'm {body}, what's my {n}|{body}: {n}
convert|change|convert_unit|transform ; units|unit|measure|quantity ; flag ; [Convert|Change|Turn] {change}|How much is {change}|[What's|What is] {change}|{change}[, please|]
find|get|search|nearby|locate ; place|address|restaurant|station|weather|elevation ; distance limit ; [What|Which] {n} is{coordinates}|[Find|Get|Show] the {n}{coordinates}|[Nearest|Closest] {n}{coordinates}
~rent|hire|lease ; car|boat|scooter|tent|camera ; date city price person ; [Rent|Hire|Get] [me |]a {n}|I would like to have a {n}|We could use a {n}|[Rent|Lease] a {n} in {city}|Get us a {n} for {days}
~register|enroll|sign_up ; student|runner|guest|patient ; person email phone city ; [Register|Enrol|Sign up] a {n}|There is a new {n}|[Put|Take] {person} down as a {n}
~relay|pass_on|redirect ; document|letter|offer|quote ; email recipient text ; [Forward|Relay|Pass on] the {n}|{recipient} should have the {n}|[Get|Pass] the {n} to {email}
~brew|bake|cook|boil ; tea|coffee|bread|soup|eggs ; minutes quantity degrees ; [Brew|Bake|Cook|Boil] [the |some |]{n}|I could do with some {n}|[Boil|Cook] {quantity} eggs for {minutes}
""")

# Names of tools begin with the first words; the others are how people say it. Lines are different enough that a tool
# of one is not meant by a request for another.
VERBS = lines("""
create|add|new|make|insert ; create|add|make|set up|put in|enter|prepare
delete|remove|erase|drop|purge ; delete|remove|erase|get rid of|drop|throw away|wipe
update|edit|modify|change|revise|patch ; update|edit|change|modify|alter|correct
get|fetch|show|read|retrieve|view|lookup|load|check|inspect|describe ; show me|get|fetch|look up|pull up|give me|let me see|check|display|bring up|tell me|open|what is|what's
send|deliver|forward|dispatch|share ; send|forward|share|pass on|deliver|hand over
start|run|launch|begin|trigger|boot ; start|run|launch|kick off|begin|fire up|set off
stop|end|halt|terminate|kill|abort|shutdown ; stop|end|halt|shut down|kill|abort|terminate
book|reserve|request ; book|reserve|ask for
cancel|revoke|undo|withdraw ; cancel|call off|revoke|withdraw|undo
buy|order|purchase ; buy|order|purchase|pick up
move|relocate|shift ; move|shift|relocate|bring
copy|duplicate|clone ; copy|duplicate|clone|make a copy of
convert|transform|export ; convert|transform|export|turn
lock|secure|protect ; lock|secure|protect
unlock|release ; unlock|release|free
approve|accept|confirm ; approve|accept|confirm|sign off|say yes to
reject|decline|refuse ; reject|decline|turn down|say no to
archive|store|file ; archive|put away|file away|store
upload|import|push ; upload|import|push
download|pull ; download|pull
calculate|compute|estimate|measure ; calculate|compute|work out|estimate|measure
schedule|plan|arrange ; schedule|plan|arrange
play|stream|queue ; play|put on|stream|queue
rate|score|grade|rank ; rate|score|grade|rank
test|validate|verify|probe ; test|validate|verify|try out
deploy|release|publish|ship ; deploy|publish|roll out|ship
sync|refresh|reload ; sync|refresh|reload
merge|combine|join ; merge|combine|join
split|divide|cut ; split|cut up|break up
assign|delegate|allocate ; assign|delegate|allocate
rename|relabel ; rename|give a new name to|relabel
invite|call|summon ; invite|call in|summon
translate|localize ; translate|localise
summarize|digest ; summarise|sum up|condense
print|scan ; print|scan
repair|fix|restore|heal ; repair|fix|restore|mend
paint|draw|render|plot ; paint|draw|render|plot
log|record|track ; log|record|keep track of
pay|settle ; pay|settle
open|unfold ; open|unfold
close|shut ; close|shut
enable|activate ; enable|activate|switch on
disable|deactivate ; disable|deactivate|switch off
count|tally ; count|tally up|add up
clean|wash|tidy ; clean|wash|tidy up
~harvest|collect|gather ; harvest|collect|gather
~freeze|suspend|pause ; freeze|suspend|pause
""")

# {v} is a verb, {n} what it is done to.
LEADS = lines("""
{V} [the|a|my|our|this|that|one|] {n}
{V} [the|a|my|our|this|that|] {n}
[I want|I need|I'd like|I have|We have|We want|We need|I would like|It's time|I'm asking you|Time|I'd love] to {v} [the|a|my|our|this] {n}
[Can|Could|Would|Will] [you|we|I] [please |quickly |now |]{v} [the|a|my|our|this] {n}
[Let's|Let us|Let me|Go ahead and|Help me|You should|We should|Please|Make sure to|Try to|Be so kind and|Now] {v} [the|a|my|our|this] {n}
[My boss|The team|{p}|My wife|A customer|Everybody] [wants|asked|told] [me|us|you] to {v} [the|a|this] {n}
[Your task is|I'm going to ask you|The job is|Next you have] to {v} [the|a|my|our|this] {n}
[Is it possible|Are you able|Any chance] to {v} [the|a|my|our|this] {n}
[{n}: {v} it|There's a {n} to {v}|{n}, please {v} it|I have a {n} to {v}]
~[Do me a favour and|It would help me if you could|I beg you to] {v} [the|a|my|our|this] {n}
~[Somebody has to|The next step is to] {v} [the|a|my|our|this] {n}
""")
BEFORE = lines("""
{s}
[I|We] [just |][moved|got back|woke up|had lunch|finished work|bought a {a} {n}|lost my {n}|sold the {n}|broke the {n}|got a new {n}|found the {n}].
[The {n} [is broken|is gone|works again|is {a}|arrived]|My [sister|boss|friend|neighbour] [is here|has a new {n}|likes {n}s]|It's [raining|late|quiet here]|This is the second time|I don't know what to do|Nobody told me].
[I'm|I am] [quite |very |]{a} today.
[My|Our] {n} is {a}.
[It was a long day.|We are in a hurry.|I have a favour to ask.|Listen.|OK, here is the thing.|I've been thinking.|My boss wants it.|It's for work.|I forgot to do it yesterday.|Quick one.|Hope you're well.|Good morning!|Hi!|Hello there.|Hey.|One more thing.|Alright.|Next.|Sorry to bother you.]
""")
AFTERWARDS = " [Thanks!|Thank you.|thanks|Please.|That's all.|Many thanks in advance!|It's for a friend.|Hurry, please.|Ta!|I'll wait.|Thx|thank you so much!|Cheers|That would be great.|if you can|when you have time|:)|right away|asap|now|right now|pls|pls!|plz|please|if possible|please and thank you]"
POLITE = lines(
    """
please|pls|hey,|hi,|hello,|okay,|so,|um,|now|ok|and|quick:|yo,|also,|then|well,|right,
""".replace("|", "\n")
)
# Before what is said as an order only.
ASKING = [
    "could you",
    "can you",
    "would you",
    "can you please",
    "hey can you",
    "kindly",
    "could you please",
    "will you",
]
ORDERS = {way.split()[0] for line in VERBS for way in line.split(" ; ")[1].split("|")} - {"what", "what's", "how"}
