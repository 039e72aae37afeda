"""What may be told of one person, animal, event, journey, place or thing, sentence by sentence.

A line is ``key ; kind of value ; how it is told ; how it is asked ; the answer``. ``{v}`` is the value, ``{s}`` who or
what it is about (a pronoun where it was named before) and ``{p}`` the same as an owner; ``{is}``, ``{was}``, ``{has}``,
``{do}``, ``{z}`` and the like agree with it. ``!`` marks a question that is only clear if no other line of the same
group was told, ``~`` one that is kept for evaluation.
"""

# ruff: noqa: E501 - phrases read best unbroken

from demo_model.text import lines

PERSON = lines("""
name ; name ; {s} {is} called {v}|{p} name is {v}|{p} name is {v} ; what is {p} name|what's {p} name|what {is} {s} called|do you remember {p} name|tell me {p} name|do you know what {s} {is} called|what did I say {p} name was|~which name did I give for {s} ; {S} {is} called {v}.
age ; age ; {s} {is} {v} years old|{s} {is} {v}|{s} {is} {v}|{s} turned {v} ; how old {is} {s}|how old {is} {s}|what is {p} age|tell me how old {s} {is}|do you know how old {s} {is}|what did I say {p} age was|~what age {is} {s} ; {S} {is} {v} years old.
city ; city ; {s} live{z} in {v}|{s} live{z} in {v}|{p} home is in {v}|{s} moved to {v}|{s} moved from {x} to {v} ; where {do} {s} live|where {do} {s} live now|which city {do} {s} live in|what town {do} {s} live in|where is {p} home|tell me where {s} live{z}|where did I say {s} live{z}|~in what place {do} {s} live ; {S} live{z} in {v}.
origin ; city ; {s} come{z} from {v}|{s} {is} from {v}|{s} {is} from {v}|{s} grew up in {v}|{s} {was} born in {v} ; where {is} {s} from|where {do} {s} come from|where did {s} grow up|where {was} {s} born|tell me where {s} {is} from|~from what place {is} {s} ; {S} {is} from {v}.
job ; a job ; {s} {is} {v}|{s} work{z} as {v}|{s} became {v} ; what {do} {s} do|what is {p} job|what {do} {s} work as|what {do} {s} do for a living|what kind of work {do} {s} do|tell me {p} job|what's {p} profession|~how {do} {s} earn money ; {S} work{z} as {v}.
company ; company ; {s} work{z} at {v}|{s} work{z} for {v}|{s} got a job at {v}|{p} company is {v} ; where {do} {s} work|which company {do} {s} work for|who {do} {s} work for|what is the name of {p} company|at which company {is} {s}|what firm {is} {s} with|~who pays {o} ; {S} work{z} at {v}.
department ; department ; {s} work{z} in {v}|{s} {is} in {v}|{p} department is {v} ; which department {is} {s} in|what department {do} {s} work in|in which department {is} {s}|what is {p} department ; {S} work{z} in {v}.
like ; like ; {s} love{z} {v}|{s} like{z} {v}|{s} {is} crazy about {v}|{s} {is} into {v} ; what {do} {s} like|what {do} {s} love|what {is} {s} crazy about|what {is} {s} into|tell me what {s} like{z}|~with what can one please {o} ; {S} like{z} {v}.
hate ; like ; {s} hate{z} {v}|{s} can't stand {v}|{s} {dont} like {v} ; what {do} {s} hate|what can't {s} stand|what {dont} {s} like|tell me what {s} hate{z}|~what {do} {s} avoid ; {S} hate{z} {v}.
allergy ; allergen ; {s} {is} allergic to {v}|{s} can't have {v}|{s} get{z} sick from {v} ; what {is} {s} allergic to|what can't {s} have|what {do} {s} get sick from|what is {p} allergy|~what is bad for {o} ; {S} {is} allergic to {v}.
birthday ; date ; {p} birthday is on {v}|{p} birthday is {v}|{s} {was} born on {v} ; when is {p} birthday|when's {p} birthday|when {was} {s} born|what date is {p} birthday|on which day is {p} birthday|~when {do} {s} celebrate ; {P} birthday is on {v}.
phone ; phone ; {p} number is {v}|you can reach {o} at {v}|{p} phone number is {v}|call {o} at {v} ; what is {p} number|what's {p} phone number|do you remember {p} phone number|which number do I call for {o}|~what do I dial for {o} ; {P} number is {v}.
email ; email ; {p} email is {v}|you can write to {o} at {v}|you can reach {o} at {v}|{p} email address is {v} ; what is {p} email|what's {p} email address|do you remember {p} email|give me {p} email address|~to which address are mails for {o} sent ; {P} email is {v}.
car ; car ; {s} drive{z} a {v}|{p} car is a {v}|{s} {has} a {v} ; what car {do} {s} drive|what {do} {s} drive|what is {p} car|which car {do} {s} have|~in what {do} {s} come ; {S} drive{z} a {v}.
height ; height ; {s} {is} {v} tall|{p} height is {v} ; how tall {is} {s}|what is {p} height|tell me how tall {s} {is}|~how high {is} {s} ; {S} {is} {v} tall.
instrument ; instrument ; {s} play{z} the {v}|{p} instrument is the {v} ; which instrument {do} {s} play|what instrument {do} {s} play|what {do} {s} play|~on what {do} {s} make music ; {S} play{z} the {v}.
tongue ; tongue ; {s} speak{z} {v}|{p} mother tongue is {v} ; which language {do} {s} speak|what language {do} {s} speak|what is {p} mother tongue|~in what language does one talk to {o} ; {S} speak{z} {v}.
subject ; like2 ; {s} stud{ies} {v}|{p} subject is {v}|{s} teach{es} {v} ; what {do} {s} study|what is {p} subject|which subject is {p} main one|~what is {s} busy with at university ; {P} subject is {v}.
hobby ; hobby ; {p} hobby is {v}|{s} go{es} in for {v}|for fun {s} do{es} {v} ; what is {p} hobby|what {do} {s} go in for|which hobby {do} {s} have|what's {p} hobby|~what {do} {s} do for fun ; {P} hobby is {v}.
colour ; colour ; {p} favourite colour is {v}|{p} favorite color is {v} ; what is {p} favourite colour|what's {p} favorite color|which colour {do} {s} like best|~in what colour {do} {s} paint ; {P} favourite colour is {v}.
dish ; dish ; {p} favourite food is {v}|{p} favorite dish is {v} ; what is {p} favourite food|what's {p} favorite dish|which dish {do} {s} like best|~what should one cook for {o} ; {P} favourite food is {v}.
drink ; drink ; {s} drink{z} {v}|{s} always order{z} {v} ; what {do} {s} drink|what {do} {s} always order|which drink {do} {s} take|~what is in {p} glass ; {S} drink{z} {v}.
dog ; pet ; {s} {has} a dog called {v}|{p} dog is called {v}|{p} dog's name is {v} ; what is {p} dog called|what's {p} dog's name|what is the name of {p} dog|~how {do} {s} call the dog ; {P} dog is called {v}.
partner ; name ; {s} {is} married to {v}|{p} partner is {v} ; who {is} {s} married to|who is {p} partner|what's the name of {p} partner|~with whom {do} {s} live ; {S} {is} married to {v}.
shoes ; small2 ; {p} shoe size is {v}|{s} wear{z} size {v} ; what is {p} shoe size|which size {do} {s} wear|what size {do} {s} wear|~which shoes fit {o} ; {P} shoe size is {v}.
hair ; hair ; {s} {has} {v} hair|{p} hair is {v} ; what colour is {p} hair|what hair colour {do} {s} have|which hair colour {has} {s}|~how does {p} hair look ; {P} hair is {v}.
diet ; diet ; {s} follow{z} a {v} diet|{s} eat{z} only {v} food|{p} diet is {v} ; what diet {is} {s} on|what is {p} diet|how {do} {s} eat|~what does a cook need to know about {o} ; {P} diet is {v}.
since ; year ; {s} got married in {v}|{p} wedding was in {v} ; when did {s} get married|in which year did {s} get married|when was {p} wedding|~what year is on {p} wedding ring ; {P} wedding was in {v}.
come ; moment ; {s} come{z} {v}|{s} arrive{z} {v}|{s} will be here {v} ; when {do} {s} come|when {do} {s} arrive|when will {s} be here|what time {do} {s} arrive|tell me when {s} come{z}|~when can one expect {o} ; {S} come{z} {v}.
team ; club ; {s} support{z} {v}|{p} team is {v} ; which team {do} {s} support|what is {p} team|which club {do} {s} support|~for whom {do} {s} cheer ; {S} support{z} {v}.
""")
ANIMAL = lines("""
name ; pet ; {s} {is} called {v}|{p} name is {v}|{p} name is {v}|we call {o} {v} ; what is {p} name|what's {p} name|what {is} {s} called|do you remember {p} name|tell me {p} name|what did I say {p} name was|~which name did I give {o} ; {S} {is} called {v}.
age ; age ; {s} {is} {v} years old|{s} {is} {v}|{s} turned {v} ; how old {is} {s}|what is {p} age|tell me how old {s} {is}|~what age {is} {s} ; {S} {is} {v} years old.
colour ; colour ; {s} {is} {v}|{p} fur is {v}|{s} {is} all {v} ; what colour {is} {s}|what color {is} {s}|which colour is {p} fur|~how {is} {s} coloured ; {S} {is} {v}.
like ; treat ; {s} love{z} {v}|{s} like{z} {v}|{s} {is} crazy about {v}|{p} favourite food is {v} ; what {do} {s} love|what {do} {s} like|what {is} {s} crazy about|what is {p} favourite food|~with what can one please {o} ; {S} love{z} {v}.
fear ; fear ; {s} {is} afraid of {v}|{s} {is} scared of {v} ; what {is} {s} afraid of|what {is} {s} scared of|~what frightens {o} ; {S} {is} afraid of {v}.
weight ; kilos ; {s} weigh{z} {v}|{p} weight is {v} ; how much {do} {s} weigh|what is {p} weight|how heavy {is} {s}|~what do the scales say for {o} ; {S} weigh{z} {v}.
sleep ; spot2 ; {s} sleep{z} {v}|{p} bed is {v} ; where {do} {s} sleep|where is {p} bed|~what place is {p} for the night ; {S} sleep{z} {v}.
vet ; titled ; {p} vet is {v}|{v} is {p} vet ; who is {p} vet|what's the name of {p} vet|what is {p} vet called|~who treats {o} ; {P} vet is {v}.
birthday ; date ; {p} birthday is on {v}|{p} birthday is {v}|{s} {was} born on {v} ; when is {p} birthday|when {was} {s} born|what date is {p} birthday|~when is the cake for {o} ; {P} birthday is on {v}.
origin ; city ; {s} come{z} from {v}|{s} {is} from a shelter in {v}|we got {o} in {v} ; where {do} {s} come from|where {is} {s} from|where did we get {o}|~in what place did we find {o} ; {S} come{z} from {v}.
chip ; code ; {p} chip number is {v}|the number on {p} collar is {v} ; what is {p} number|what's {p} chip number|which number did I give for {o}|~by what number is {s} known ; {P} number is {v}.
""")
EVENT = lines("""
soon ; soon ; {s} {is} {v}|{s} {is} {v} ; !when {is} {s}|!when's {s}|what day {is} {s}|tell me the day of {s}|~for when {is} {s} planned ; {S} {is} {v}.
date ; day ; {s} {is} on {v}|{s} {is} on {v}|{s} {was} moved from {x} to {v}|{s} take{z} place on {v} ; !when {is} {s}|!when's {s}|what date {is} {s}|on which day {is} {s}|what day {is} {s}|tell me the day of {s}|~for what day {is} {s} planned ; {S} {is} on {v}.
clock ; hour ; {s} {is} at {v}|{s} start{z} at {v}|{s} begin{z} at {v}|{s} {was} moved from {x} to {v} ; !when {is} {s}|what time {is} {s}|at what time {do} {s} start|when {do} {s} start|what time {do} {s} begin|~how early should one be at {s} ; {S} start{z} at {v}.
place ; where ; {s} {is} {v}|{s} {is} {v}|{s} take{z} place {v} ; where {is} {s}|where's {s}|where {do} {s} take place|in which place {is} {s}|where did I say {s} {is}|~to what place do I go for {s} ; {S} {is} {v}.
guests ; small3 ; we invited {v} guests|{v} people will come|we expect {v} people|there will be {v} guests ; how many guests did we invite|how many people will come|how many guests will there be|how many people do we expect|~what is the number of guests ; There will be {v} guests.
end ; clock ; {s} end{z} at {v}|{s} {is} over at {v} ; when {do} {s} end|what time {do} {s} end|when {is} {s} over|until when {is} {s}|~how late {is} {s} over ; {S} end{z} at {v}.
price ; money ; {s} cost{z} {v}|a ticket costs {v}|tickets are {v} ; how much {is} {s}|what {do} {s} cost|what does a ticket cost|how much is a ticket|what is the price|~what must I pay for {s} ; It costs {v}.
bring ; bring ; I have to bring {v}|I'll bring {v}|I promised to bring {v}|my part is to bring {v} ; what do I have to bring|what will I bring|what did I promise to bring|what should I bring|~what must I not leave at home ; You bring {v}.
with ; person ; I'm going with {v}|{v} is coming with me|I'll go there with {v} ; who am I going with|who is coming with me|who is going with me|with whom am I going|~who is at my side there ; You are going with {v}.
host ; name ; {v} organises it|the host is {v}|{v} is in charge|{v} runs it ; who organises it|who organises {s}|who is the host|who is in charge|who runs {s}|~whose idea {is} {s} ; {v} organises it.
long ; long ; {s} take{z} {v}|{s} last{z} {v}|it lasts {v} ; how long {is} {s}|how long {do} {s} take|how long {do} {s} last|~what time must I plan for {s} ; {S} take{z} {v}.
topic ; like2 ; {s} {is} about {v}|the topic is {v} ; what {is} {s} about|what is the topic|what's the topic of {s}|~with what {do} {s} deal ; {S} {is} about {v}.
food ; dish ; there will be {v} to eat|we will eat {v} there|they serve {v} ; what will there be to eat|what will we eat there|what do they serve|~what's on the plates at {s} ; There will be {v}.
seat ; seat ; my seat is {v}|I have seat {v}|I sit in {v} ; what is my seat|which seat do I have|where do I sit|what's my seat number|~on which chair do I sit ; Your seat is {v}.
wear ; wear ; I will wear {v}|I'm going to wear {v}|I want to wear {v} ; what will I wear|what am I going to wear|what do I want to wear|~in what do I show up ; You will wear {v}.
""")
TRIP = lines("""
soon ; soon ; {s} {is} {v}|{s} {is} {v} ; !when {is} {s}|!when's {s}|what day {is} {s}|tell me the day of {s}|~for when {is} {s} planned ; {S} {is} {v}.
to ; city ; {s} go{es} to {v}|{s} {is} to {v}|my destination is {v} ; where {do} {s} go|where am I going|where am I travelling to|what is my destination|to which city am I going|~what place do I travel to ; {S} go{es} to {v}.
date ; day ; {s} {is} on {v}|{s} leave{z} on {v} ; !when {is} {s}|!when's {s}|what date {is} {s}|on which day {is} {s}|what day {is} {s}|on what day do I travel|~on which date do I set off ; {S} {is} on {v}.
clock ; hour ; {s} leave{z} at {v}|{s} {is} at {v}|{s} depart{z} at {v}|departure is at {v} ; !when {is} {s}|what time {is} {s}|at what time {do} {s} leave|when {do} {s} leave|what time {do} {s} depart|~how early do I set off ; {S} leave{z} at {v}.
arrive ; hour ; {s} arrive{z} at {v}|we get there at {v}|we arrive at {v}|arrival is at {v} ; when {do} {s} arrive|what time {do} {s} arrive|at what time do we arrive|when do we get there|~for when is the arrival planned ; {S} arrive{z} at {v}.
platform ; gate ; {s} leave{z} from {v}|{s} {is} from {v}|{s} go{es} from {v}|I have to be at {v} ; where {do} {s} leave from|from where {do} {s} leave|which {g} {do} {s} leave from|which {g} is it|what's my {g}|~at what {g} do I board ; {S} leave{z} from {v}.
seat ; seat ; my seat is {v}|I have seat {v}|I sit in {v} ; what is my seat|which seat do I have|where do I sit|what's my seat number|~on which place do I sit ; Your seat is {v}.
change ; city ; I change in {v}|I have to change in {v}|with a change in {v}|I change trains in {v} ; where do I change|where do I have to change|in which city do I change|where is my change|where do I change trains|~in what place do I get out in between ; You change in {v}.
number ; flight ; {p} number is {v}|the number is {v}|I'm on {v} ; what is {p} number|what's the number|which number {has} {s}|which one am I on|~what stands on the board for {s} ; The number is {v}.
price ; money ; {s} cost{z} {v}|the ticket was {v}|I paid {v} for the ticket ; how much {was} {s}|what {do} {s} cost|how much was the ticket|what did I pay for the ticket|~how expensive is the ticket ; The ticket costs {v}.
with ; person ; I travel with {v}|I'm going with {v}|{v} is coming along|I go there with {v} ; who am I travelling with|who is coming along|who am I going with|with whom do I travel|~who is at my side on the way ; You travel with {v}.
long ; long ; {s} take{z} {v}|it takes {v} ; how long {do} {s} take|how long does it take|how long will I be on the way|~what time do I spend on the way ; It takes {v}.
hotel ; hotel ; I stay at the {v}|I'll sleep at the {v}|I booked the {v} ; where do I stay|which hotel did I book|what is my hotel called|where will I sleep|~under what roof do I sleep ; You stay at the {v}.
back ; day ; I come back on {v}|I return on {v}|I'm back on {v} ; when do I come back|when do I return|on which day am I back|when am I back|~until when am I away ; You come back on {v}.
bags ; small ; I have {v} bags|I take {v} bags with me ; how many bags do I have|how many bags do I take|~what number of bags do I carry ; You have {v} bags.
""")
VENUE = lines("""
opens ; hour ; {s} open{z} at {v}|{s} {is} open from {v} on ; when {do} {s} open|what time {do} {s} open|at what time {do} {s} open|from when {is} {s} open|~how early can one go to {s} ; {S} open{z} at {v}.
closes ; hour ; {s} close{z} at {v}|{s} shut{z} at {v}|{s} {is} open until {v} ; when {do} {s} close|what time {do} {s} close|at what time {do} {s} close|until when {is} {s} open|~how late can one go to {s} ; {S} close{z} at {v}.
closed ; weekday ; {s} {is} closed on {v}s|on {v}s {s} {is} closed ; on which day {is} {s} closed|when {is} {s} closed|which day {is} {s} closed|~on what day should I not go to {s} ; {S} {is} closed on {v}s.
street ; street ; {s} {is} at {v}|{p} address is {v}|you find {o} at {v} ; where {is} {s}|what is {p} address|what's the address of {s}|where do I find {s}|~to what address do I go for {s} ; {S} {is} at {v}.
phone ; phone ; {p} number is {v}|{p} phone number is {v} ; what is {p} number|what's the phone number of {s}|which number {has} {s}|~what do I dial for {s} ; {P} number is {v}.
price ; money ; the entry is {v}|a ticket costs {v}|I pay {v} there|a visit costs {v} ; how much is the entry|what does a ticket cost|how much do I pay there|what does a visit cost|~what must I pay at {s} ; It costs {v}.
owner ; name ; {p} owner is {v}|{s} belong{z} to {v}|{v} runs {o} ; who is {p} owner|who runs {s}|who owns {s}|to whom {do} {s} belong|~whose is {s} ; {P} owner is {v}.
name ; firm ; {s} {is} called {v}|{p} name is {v} ; what {is} {s} called|what's the name of {s}|what is {p} name|do you remember the name of {s}|~which name has {s} ; {S} {is} called {v}.
dish ; dish ; {p} best dish is {v}|they are famous for {v}|I always have {v} there ; what do I always have there|what is {p} best dish|what are they famous for|~what is good at {s} ; It is {v}.
floor ; small ; {s} {is} on floor {v}|you find {o} on floor {v} ; which floor {is} {s} on|on which floor {is} {s}|what floor {is} {s} on|~how high up {is} {s} ; {S} {is} on floor {v}.
""")
OBJECT = lines("""
colour ; shade ; {s} {is} {v}|{s} {is} {v}|{p} colour is {v} ; what colour {is} {s}|what color {is} {s}|which colour {is} {s}|what is {p} colour|~how {is} {s} painted ; {S} {is} {v}.
price ; money ; {s} cost {v}|I paid {v} for {o}|{p} price was {v}|{o} was {v} ; how much was {s}|what did {s} cost|what did I pay for {s}|how much did I pay for {s}|what was {p} price|~how expensive was {s} ; {S} cost {v}.
maker ; firm ; {s} {is} made by {v}|{s} {is} from {v}|{p} brand is {v} ; who makes {s}|which brand {is} {s}|what brand {is} {s}|what make {is} {s}|~which company built {s} ; {S} {is} made by {v}.
age ; age ; {s} {is} {v} years old|{p} age is {v} years ; how old {is} {s}|what is {p} age|tell me how old {s} {is}|~what age {has} {s} ; {S} {is} {v} years old.
weight ; kilos ; {s} weigh{z} {v}|{p} weight is {v} ; how much {do} {s} weigh|how heavy {is} {s}|what is {p} weight|~what do the scales say for {s} ; {S} weigh{z} {v}.
place ; spot2 ; {s} {is} {v}|I keep {o} {v}|I left {o} {v}|I put {o} {v} ; where {is} {s}|where did I put {s}|where do I keep {s}|where did I leave {s}|where's {s}|~in what place should one look for {s} ; {S} {is} {v}.
bought ; city ; I bought {o} in {v}|I got {o} in {v} ; where did I buy {s}|where did I get {s}|in which city did I buy {s}|~in what place was {s} sold to me ; You bought it in {v}.
from ; name ; I got {o} from {v}|{v} gave {o} to me|{v} sold {o} to me ; who gave me {s}|who did I get {s} from|from whom {is} {s}|~who had {s} before me ; It was {v}.
when ; year ; I bought {o} in {v}|I've had {o} since {v}|I got {o} in {v} ; when did I buy {s}|since when do I have {s}|in which year did I buy {s}|~from what year {is} {s} ; It was in {v}.
serial ; code ; {p} serial number is {v}|{p} number is {v}|the code for {o} is {v} ; what is {p} number|what's {p} serial number|which number {has} {s}|~what number stands on {s} ; {P} number is {v}.
size ; size ; {s} {is} {v} long|{s} {is} {v} wide|{p} size is {v} ; how big {is} {s}|what is {p} size|how long {is} {s}|what size {is} {s}|~how much does {s} measure ; {P} size is {v}.
has ; parts ; {s} {has} {v}|{s} come{z} with {v} ; what {do} {s} have|what {do} {s} come with|~with what {is} {s} equipped ; {S} {has} {v}.
stuff ; stuff ; {s} {is} made of {v}|{s} {is} of {v} ; what {is} {s} made of|which material {is} {s}|of what {is} {s} made|~from what did they make {s} ; {S} {is} made of {v}.
broken ; day ; {s} broke on {v}|it stopped working on {v} ; when did {s} break|on which day did {s} break|when did it stop working|~since when {is} {s} out of order ; {S} broke on {v}.
""")
WORK = lines("""
deadline ; day ; {p} deadline is {v}|{s} {is} due on {v}|{s} must be done by {v} ; when {is} {s} due|what is {p} deadline|what's the deadline|by when must {s} be done|~what day must I not miss ; The deadline is {v}.
budget ; money ; {p} budget is {v}|we have {v} for {o}|the budget is {v} ; what is {p} budget|how much do we have for {s}|what's the budget|how big is the budget|~what may we spend on {s} ; The budget is {v}.
client ; company ; the client is {v}|{s} {is} for {v}|{v} ordered it ; who is the client|who {is} {s} for|for which company {is} {s}|what is the client called|~who pays for {s} ; The client is {v}.
lead ; name ; {v} leads {o}|the lead is {v}|{v} is in charge of {o} ; who leads {s}|who is the lead|who is in charge of {s}|who's leading {s}|~who decides in {s} ; {v} leads it.
people ; small ; we are {v} people|there are {v} of us in it|{v} people work on {o} ; how many people work on {s}|how many of us are in it|how many people are we|~how big is our group ; There are {v} people.
name ; title ; {s} {is} called {v}|{p} name is {v} ; what {is} {s} called|what is {p} name|what's the name of {s}|~under what name does {s} run ; {S} {is} called {v}.
start ; day ; {s} start{z} on {v}|we start on {v} ; when {do} {s} start|on which day do we start|when do we start|~on what day do we begin ; {S} start{z} on {v}.
room ; room ; we work in {v}|we meet in {v}|our place is {v} ; where do we work|where do we meet|in which room are we|which room is ours|~to what room do I go ; It is {v}.
""")
STAY = lines("""
room ; number3 ; {p} number is {v}|I'm in room {v}|my room is {v}|they gave me room {v} ; what is my room number|which room am I in|what's my room|what room did they give me|~on which door is my key ; Your room is {v}.
name ; hotel ; {s} {is} called {v}|{p} name is {v}|{s} {is} the {v} ; what {is} {s} called|what is {p} name|what's the name of {s}|~under what name do I find {s} ; {S} {is} called {v}.
nights ; small ; I stay for {v} nights|I booked {v} nights|we stay {v} nights ; how many nights do I stay|how many nights did I book|for how many nights {is} {s}|~how many times do I sleep there ; You stay {v} nights.
breakfast ; clock ; breakfast is at {v}|they serve breakfast at {v} ; when is breakfast|what time is breakfast|at what time do they serve breakfast|~when do I get coffee there ; Breakfast is at {v}.
checkout ; hour ; check-out is at {v}|I have to leave by {v}|I check out at {v} ; when is check-out|what time is check-out|when do I check out|by when do I have to leave|~until when may I keep the key ; Check-out is at {v}.
price ; money ; a night costs {v}|I pay {v} a night|the price is {v} a night ; how much is a night|what does a night cost|what do I pay for a night|~how expensive is it to sleep there ; A night costs {v}.
wifi ; code ; the wifi password is {v}|the wifi code is {v} ; what is the wifi password|what's the wifi password|which code does the wifi have|~with what do I get online there ; The wifi password is {v}.
booking ; code ; the booking number is {v}|my booking code is {v} ; what is my booking number|what's the booking code|which booking code do I have|~what do I show at the desk ; The booking number is {v}.
city ; city ; {s} {is} in {v}|it's in {v} ; where {is} {s}|in which city {is} {s}|which city {is} {s} in|~to what city do I go ; {S} {is} in {v}.
from ; day ; I arrive on {v}|I check in on {v} ; when do I arrive|on which day do I check in|when do I check in|~from when on is the bed mine ; You arrive on {v}.
""")
