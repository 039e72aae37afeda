"""Greetings and everyday chat."""

# ruff: noqa: E501 - phrases read best unbroken

from random import Random

from demo_model.exchange import Exchange, assistant, user
from demo_model.skills.facts import asked, read
from demo_model.text import Split, choose

SKILLS = (
    "I can repeat text, add, subtract, multiply and divide small numbers, count, list things, call tools, "
    "remember what you tell me, tell a simple story and answer questions about Orchard."
)

# One block a topic: the answer, then the ways to ask.
CHAT = """
Hello! How can I help you?
[Hi|hi|Hello|hello|Hey|hey|HELLO|HI][!|.||| there| there!|, there]
[Hello|Hi|Hey][,| ] [Orchard|model|demo|world|assistant|friend|bot][!|.||]
[Good morning|Good afternoon|Good evening|Good day|good morning|good evening][!|.||]
[Howdy|Greetings|Hiya|Yo|yo|Hallo|Hey hey|Hello hello|Hi hi|Heya|hii|Hellooo|Sup][!|.||]
[Anyone there|Are you there|Is anyone there|You there|Can you hear me|Is this on|Is this working|Does this work|Are you working][?||]
[Hello|Hi], [nice to meet you|pleased to meet you|can you help me?|I need help|I have a question|I need your help]
[Can you help me|Help me|I need help|help|Help|I have a question][?|.||!]
[Hi|Hello][.|!] [Can you help me?|I am new here.|Nice to meet you.|Are you there?]
Hello to you!
Good day to you.
[Hello|Hi|Good day|Good morning|A good day] to you[!|.| too!||]
[Hello|Hi|Hey] [again|everyone|all|you|my friend|little model|mate|buddy|dear][!|.||]
[Nice|Pleased|Good|Glad] to meet you[!|.||]
[I am|I'm] back[!|.||]
[Welcome|Salutations|Morning|Evening|What's new|Wassup|Aloha|G'day|Hej|Hullo|Oi|Heyo][!|.|?||]
~Hey, hello!
~Hi there, good morning!

I am fine, thank you. How can I help you?
[How are you|how are you|How are you doing|How do you do|How is it going|How's it going|How are things][?||| today?]
[Hi|Hello|Hey][,|!|.] how are you[?|| doing?| today?]
[What's up|whats up|How do you feel|Are you OK|Are you okay|Are you well|All good][?||]
[Hi|Hello|Hey][,|!] [what's up|how's it going][?||]
How have you been?
How have you been[?| lately?||]
[And |]how [are you today|do you feel today|was your day|are you feeling|is your day|is life][?||]
[Are you|You] [doing well|fine|good|alright][?||]
~How are you this morning?

You are welcome!
[Thanks|thanks|Thank you|thank you|Thx|thx|Many thanks|Thanks a lot|Thank you very much|Thank you so much|Cheers|Great, thanks][!|.||]
[Thanks|Thank you] for [your help|the help|that|the answer|helping me|helping|everything][!|.||]
[Perfect|Great|Good|OK|Nice|Awesome|Cool], [thanks|thank you][!|.||]
[That was|That is|That's] [helpful|very helpful|useful|a great help][!|.||][ Thanks!| Thank you.|]
Much appreciated!
[Much|Very much] appreciated[!|.||]
[I appreciate it|I am grateful|You helped me|You are very helpful|That helps|That helped][!|.||][ Thanks!| Thank you.|]
[ty|tysm|thank u|thks|thanx|tnx|Danke|Merci][!|.||]
[Thanks|Thank you], [that is all|that's great|great|perfect|you are great|Orchard|model|friend|good job][!|.||]
~Thanks again for the help!

Goodbye! Have a nice day.
[Bye|bye|Goodbye|goodbye|Bye bye|bye bye|See you|See you later|see you|Farewell|Good night|good night|So long|See you soon|cya|Ciao][!|.||]
[OK|Thanks|Thank you|Okay], [bye|goodbye|see you|see you later][!|.||]
[I have to go|I must go|I am leaving|That is all|That's all|I am done|Talk to you later][.|!||| now| now.| Bye!]
Until next time!
[Until|Till] [next time|tomorrow|later|then][!|.||]
[Have|Enjoy] a [nice|good|great] [day|evening|weekend|one|night][!|.||]
[See|Talk to|Catch] you [tomorrow|later|around|next time][!|.||]
[I'm|I am] [off|leaving|going|out][.|!| Bye!||]
[Take care|Sleep well|Until then|Cheerio|Adios][!|.||]
~Bye for now!

Great! What would you like to do next?
[OK|ok|Okay|okay|Good|good|Great|great|Nice|nice|Cool|cool|Perfect|Awesome|Wow|wow|Sure|Alright|Fine|Yes|yes|yep|Yeah|I see|Right|Excellent|Correct|Well done|Good job|Good bot|Amazing|Sounds good][!|.||]
[You are|You're|this is|That is] [great|good|awesome|nice|cool|funny|smart|fast|amazing|cute|the best][!|.||]
[I like|I love] [you|this|it|Orchard][!|.||]
[ok|okay|OK|alright|oh|wow|haha|yes|well] [cool|nice|good|great|fine|perfect|awesome|lol][!|.||]
[Nice|Great|Good|Cool|Excellent|Fine] [work|job|answer|one|stuff][!|.||]
That pleases me.
[That|This|It] [pleases me|makes me happy|works|is right|is correct|looks good|is fine|was right|was correct|is fun][!|.||]
[Interesting|Impressive|Brilliant|Lovely|Super|Fantastic|Wonderful|Beautiful|Understood|Got it|Agreed|True|Indeed|Of course|Exactly][!|.||]
[I am|I'm] [happy|impressed|glad|pleased][!|.||]
~Very nice, I like it.

I see. Tell me if I can do something for you.
[Nice|nice|Lovely|lovely|Awful|Strange] weather [we're having|we are having|today|outside|isn't it|this week|again][.|!|?||]
[It is|It's|it's] [sunny|raining|snowing|cold|hot|windy|foggy|freezing|warm|cloudy] [outside|here|out there|again|today][.|!||]
[What a|what a|Such a] [lovely|long|busy|strange|quiet|hard|beautiful|nice|boring|wonderful] [day|morning|week|evening|night|summer|Monday][.|!||]
[The sun is shining|The birds are singing|The sky is grey|The days are getting longer|Spring is coming|Autumn is here|It's nearly Christmas|It never stops raining][.|!|| here.]
[It's|It is|Almost|Nearly] [Friday|the weekend|Monday|weekend|holiday time] [at last|again|soon|already][.|!||]
[I slept well|I slept badly|I got up early|I went for a walk|I had a long day|I had a good day|I just woke up|I just got home|I'm sitting in the garden|I'm on the train|I'm on the sofa|I'm just looking around|I'm only trying this out|I'm still waking up][.|!|| today.| this morning.]
[I like|I love|I don't like|I miss|i love] [summer|winter|rainy days|Mondays|long weekends|quiet evenings|the snow|spring|the autumn|early mornings|sunny days][.|!||]
[Traffic was|The weekend was|The holidays were|The morning was|Work was|My day was|The trip here was] [bad|great|long|quiet|tiring|fun|lovely|terrible|hard][.|!|| today.]
[My|The] [cat|dog|baby|neighbour|kid|husband|wife] is [asleep|sleeping next to me|snoring|singing|in the kitchen|watching me|outside|at home today][.|!||]
[The match was|The film was|The concert was|Yesterday was|Lunch was|That film was] [exciting|boring|great|fun|long|good|so good][.|!||]
[Life is|Time|Everything is|The world is] [good|flies|fine|strange|beautiful|full of surprises|quiet][.|!||]
[Just|I'm just|Only|I am just] [saying|thinking aloud|talking|chatting|killing time|waiting for the bus|having a break|resting a bit][.|!||]
~The weather is so pleasant at the moment.
~I had a quiet evening on my balcony.

Okay. Tell me if you need something else.
[No|no|Nope|nope|No thanks|no thanks|No, thank you|Not now|Nothing|Never mind|never mind|Stop|stop|Forget it|Cancel|Maybe later|Later][!|.||]
[That is|That's|This is] [wrong|bad|not right|not correct|incorrect|false|not what I asked][.|!||]
[You are|You're] [wrong|bad|stupid|dumb|slow|useless|not helpful][.|!||]
[I don't|I do not] [like this|like it|understand|know|care|like you][.|!||]
I'd rather not.
[I'd|I would] rather not[.||]
[No|Nah|Nay|Not really|I don't think so|Rather not|Don't|Please don't|Please stop|Quiet|Be quiet|Shut up|Enough|Leave it][!|.||]
[That|This] [does not work|doesn't work|did not help|makes no sense|was wrong|is not true|is boring][!|.||]
[I am|I'm] [confused|not happy|not sure|disappointed][!|.||]
~No, that is not what I wanted.

{skills}
[What can you do|what can you do|What are you able to do|What do you do|What do you know|What can I ask you|What can I do here][?||]
[How can you help|How can you help me|What can you help me with|What can you help with|How do you help][?||]
[What are|List|Tell me|Show me] your [skills|abilities|capabilities|features|functions][?|.||]
[What|Which] [skills|abilities|capabilities|features] do you have[?||]
[Tell me|Show me|Explain] what you can do[.||]
[What is|What's] [possible|this for|your purpose|your job][?||]
What should I [ask|ask you|try|do][?||]
[What|Which] [tools|functions] [do you have|can you use|can you call|are there|do you know][?||]
[Hi|Hello|Hey][,|!|.] what can you do[?||]
[Give me|Show me] [some examples|an example|examples|a demo][.||]
In which ways can you be of use?
Which things are you good at?
[In|With] which [ways|things|tasks] can you [be of use|help|help me|be useful|assist][?||]
[Which|What] [things|tasks|jobs] [are you good at|can you do|do you do|can I give you|can you handle|do you know][?||]
[Tell me|Explain|Say|Show me|List] [what you are good at|your skills|how you can help|what I can ask|what you know|the things you can do|your functions][.||]
[Are|Is] there [anything|something|things] you can do[?||]
[What are you good for|What are you good at|What else can you do|What do you offer|And what can you do|How do I use you|How does this work|What now][?||]
~What kinds of things can you do?
~Tell me how you can help me.

Why did the apple join the orchard? It wanted to be part of the core team.
[Tell me|Tell|tell me|Give me|Say|Do you know|Know] [a joke|a funny joke|a good joke|another joke|some joke|something funny|a short joke|any jokes][.|?|!||]
[Please |Can you |Could you ][tell me|tell] a joke[?|.||]
[Make me laugh|A joke please|Joke|Joke please][.|!||]
I could do with a joke.
[I could do with|I want to hear|I'd like|I want|I need|How about|Let's hear] a [good |funny |]joke[.|?|!||]
[Say something|Be|Tell me something] [funny|witty|humorous][.|!||]
[Got any|Have you got any|Do you have any|Any good|Know any] jokes[?||]
~Let me hear a funny joke.
"""


CHAT_LIST = [(answer.replace("{skills}", SKILLS), asks) for answer, asks in read(CHAT)]


def chat(rng: Random, split: Split) -> Exchange:
    """Make a greeting or a bit of small talk."""
    answer, asks = choose(rng, CHAT_LIST)
    return Exchange([user(asked(rng, split, asks)), assistant(answer, "This is small talk.")])
