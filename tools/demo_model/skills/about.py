"""Facts about Orchard, greetings, and everyday chat."""

# ruff: noqa: E501 - phrases read best unbroken

from random import Random

from tools.demo_model.exchange import Exchange, assistant, user
from tools.demo_model.text import Split, expand, lines, wording

SKILLS = (
    "I can repeat text, add and subtract small numbers, count, list things, call tools, remember what you tell me, "
    "tell a simple story and answer questions about Orchard."
)

# One block a topic: the answer, a blank, then the ways to ask.
FACTS = """
Orchard is one local server for every model that runs on MLX.
[What is|What's|what is|what's|whats|What exactly is] [Orchard|orchard|mlx-orchard][?||]
[Tell me|Explain|Describe|Say something|Tell me something|Tell me more] about [Orchard|orchard|the Orchard server][.||]
[What does|what does] [Orchard|orchard] do[?||]
[Explain|Describe] Orchard[.||]
[Tell me|Explain] what Orchard is[.||]
[What|Which] [server|software|program] is this[?||]
[What is|What's] this server[?||]
Who or what is Orchard?
Can you introduce Orchard to me?
Orchard, what is that?
[Give me|Say|Write] [a summary|an overview|a short description|a definition|one sentence] [of|about|on] Orchard[.||]
[Could you|Can you|I want you to] [introduce|explain|describe|present] Orchard[ to me|][.|?||]
[So |]what [kind of thing|sort of thing|kind of software|sort of program|thing|software|project] is Orchard?
Orchard[?| is what?|: what is it?|, what is it?]
[Why|When] [should|would] I use Orchard?
[I have never heard of|I don't know] Orchard[.|, what is it?| What is it?]
~So what is Orchard then?
~Please tell me what Orchard does.

You can start Orchard with the command orchard serve.
How [do|can|should] I [start|run|launch|use] [Orchard|orchard|the server|the Orchard server][?||]
[What|Which] command starts [Orchard|the server][?||]
[How to|how to] [start|run|launch] [Orchard|orchard|the server][?||]
[What is|What's] the command to [start|run|launch] [Orchard|the server][?||]
[How is Orchard started|How does one start Orchard][?||]
[Tell me|Show me|Explain] how to [start|run|launch] [Orchard|the server][.||]
Start [Orchard|the server]: how?
How would I get Orchard going?
Which command brings up the Orchard server?
[How|In which way] [would|could|must|does] [I|one|you|we|somebody] [get|bring|start|run|launch|boot|fire up] [Orchard|the server|up Orchard|up the server][ going| running| up||][?||]
[Which|What] command [brings up|runs|launches|boots|starts|do I type to start|do I need to start] [the |][Orchard|server|Orchard server][?||]
[I want to|I need to|I'd like to|Help me] [start|run|launch] [Orchard|the server][.|, how?| How?||]
[Getting started|Quick start|Start command|Run command][?||]
~Tell me the command that starts the server.
~How can I get the server running?

Install it with: pip install mlx-orchard
How [do|can|should] I install [Orchard|orchard|it|mlx-orchard][?||]
[How to|how to] install [Orchard|orchard][?||]
[What is|What's] [the name of the package|the package name|the distribution|the PyPI name|the package called][?||]
[What|Which] package [do I install|should I install|is it|contains Orchard][?||]
[Tell me|Show me|Explain] how to install [Orchard|it][.||]
Under which package name is Orchard distributed?
[Under which|What|By which] [package name|name|package] is Orchard [distributed|published|found|on PyPI|installed][?||]
[Where|How] [do|can|could|would] I [get|download|obtain|find|set up] [Orchard|it|the package][?||]
[I want to|I need to|I'd like to|Help me] install [Orchard|it][.|, how?| How?||]
[pip|PyPI|uv|Installation|Install|Setup][ command| instructions| name|][?||]
[What|Which] pip [command|package|name][?| do I need?| installs Orchard?||]
~What do I type to install Orchard?

Orchard listens on 127.0.0.1, port 8000, by default.
[What|Which] port [does Orchard use|does the server use|does it listen on|does Orchard listen on|is it on|is used|is Orchard on][?||]
[What is|What's] [the|your|Orchard's|its] [default |][port|address|host][?||]
[What|Which] address does [Orchard|the server|it] [use|listen on|have][?||]
[Where|On which port|On what port] does [Orchard|the server|it] listen[?||]
[Port number|Default port|Which port|What port][?||]
Where can I reach the Orchard server by default?
[Where|How] [can|do|could] [I|one] [reach|find|open|access|contact|see] [Orchard|the server|the Orchard server|it][ by default|][?||]
[At|On] [which|what] [port|address|host] [can I find|is|runs|does one find|do I reach] [Orchard|the server|it][ running||][?||]
[Tell me|Give me|I need|Say] the [default |][port|address|host|port number][.| of the server.| of Orchard.||]
~Which port does the server run on?
~Tell me the port that Orchard uses.

The base URL is http://127.0.0.1:8000/v1
[What is|What's|Which is] the [base URL|base url|API URL|URL|endpoint|API address|base address][?| of Orchard?| of the server?| of the API?||]
[What|Which] [base URL|base_url|URL|url|endpoint] [should|do|must|can] I [use|set|put in my client|give my client|configure][?||]
[Where|How] do I point my [client|app|SDK|OpenAI client][?| to?||]
How do I [connect|configure] [my client|the OpenAI client|the OpenAI SDK|an app|a client][?| to Orchard?||]
[Base URL|base_url|API URL][?||]
What do I enter as the base URL in my application?
What do I [enter|put|type|write] [as|for] the base URL[ in my application| in my client| in my code|][?||]
[Tell me|Give me|I need|Say|Show me] the [base URL|URL|endpoint|API URL|API address][.| of the server.| of Orchard.| for my client.||]
[With which|Under which|At which] [URL|endpoint|base URL] [can I call|do I call|do I reach|is] the [API|server][?||]
~What URL do I need for my client?

Orchard speaks the OpenAI Chat API today.
[What|Which] [API|APIs|api|protocol|protocols|interface|dialect] does [Orchard|orchard|the server|it] [speak|support|use|offer|have|serve][?||]
Is [Orchard|it|the server] [OpenAI compatible|compatible with OpenAI|compatible with the OpenAI API][?||]
[Does|Can] [Orchard|it|the server] [speak|support|understand|work with] [OpenAI|the OpenAI API|the OpenAI Chat API|the OpenAI SDK|OpenAI clients][?||]
[Can I use|Does it work with] [the OpenAI SDK|my OpenAI client|OpenAI clients|the openai package][?||]
With which API can clients talk to Orchard?
[With|Through|Over] [which|what] [API|protocol|interface] [can|do|could|should] [clients|I|apps|programs|one] [talk to|use|speak to|call|reach] [Orchard|the server|it][?||]
[Tell me|Name|Say] the API [that Orchard speaks|of Orchard|it supports][.||]
[Is there|Does it have|Does Orchard have] an [API|OpenAI API|OpenAI-compatible API|HTTP API|REST API][?||]
~What API does the Orchard server offer?

Orchard is written in Python.
[What|Which] [programming |]language is [Orchard|it|the server|orchard] [written in|made in|built in|implemented in][?||]
[In what language|In which language] is [Orchard|it|the server] [written|made][?||]
Is [Orchard|it] written in [Python|Rust|C++|Go|Swift|Java][?||]
[What|Which] is Orchard [written|built|made] in?
Which language did the developers of Orchard use?
[Which|What] language did [the developers|you|they|people] [of Orchard |]use[ for Orchard| to write Orchard| for the server|][?||]
[Tell me|Name|Say] the [programming |]language [of Orchard|that Orchard is written in|it is made in][.||]
[Is Orchard|Is it|Was Orchard] [a Python program|a Rust program|made with Python|coded in Python][?||]
~Which programming language was Orchard made with?

A gateway process serves HTTP and never imports MLX; each model runs in its own worker process.
[How does|how does] [Orchard|orchard|the server|it] work[?| inside?| internally?||]
[What is|What's] the [architecture|design|structure] of [Orchard|the server][?||]
[Explain|Describe] [the architecture|the design|Orchard's architecture|how Orchard works][.||]
[What is|What's|What does] [the gateway|a gateway|a worker|the worker|the gateway process|a worker process][ do|][?||]
How many processes [does Orchard use|are there|does it run][?||]
[Does the gateway import MLX|Where do models run|What processes does Orchard run][?||]
How is Orchard put together?
How is [Orchard|the server|it] [put together|built|designed|structured|organised|made inside][?||]
[Explain|Describe|Tell me] [what is inside Orchard|the inside of Orchard|how the server works|the processes of Orchard|how Orchard is built][.||]
[What parts|Which parts|Which processes|What processes] [does Orchard have|are in Orchard|make up Orchard|are there][?||]
~Explain how the server works inside.

No. Each model has its own process, so the server keeps running when a model crashes.
[Does|Will|Can] a [model crash|crash of a model|crashing model] [take down|stop|kill|break|bring down] [the server|Orchard][?||]
[What happens|what happens] [if|when] a [model|worker] [crashes|dies|fails|runs out of memory][?||]
[Does|Will] [the server|Orchard] [crash|die|stop|go down] [if|when] a model [crashes|dies|fails][?||]
[Is Orchard safe when a model crashes|Can one model crash the others][?||]
If a model breaks, is the whole server gone?
If a model [breaks|crashes|dies|fails][,|] [is the whole server gone|does the server stop|will the server crash|what happens|is Orchard down][?||]
[What if|Suppose] a model [crashes|breaks|dies][.|?| in Orchard?||]
[Can|Could|Does] a [bad|broken|crashed] model [hurt|stop|kill|break] the [server|others|rest|gateway][?||]
~Does the server stop if one model crashes?

Orchard runs on Apple silicon through Metal, and on Linux through the CPU or CUDA.
[What|Which] [hardware|platforms|systems|machines|operating systems|computers] does [Orchard|it|the server] [run on|support|work on|need][?||]
[Where|On what|On which machines|On what hardware] does [Orchard|it] run[?||]
[Does|Can|Will] [Orchard|it|the server] [run|work] on [Linux|a Mac|macOS|Apple silicon|CUDA|NVIDIA|an NVIDIA GPU|the CPU|Ubuntu|an M1|a MacBook|my Mac][?||]
[Does|Can] [Orchard|it] [support|use] [CUDA|Metal|Linux|Apple silicon|a GPU|GPUs|the GPU|the CPU][?||]
[Do I need|Does it need] a [Mac|GPU][?| for Orchard?| to run Orchard?||]
What kind of computer do I need for Orchard?
[What|Which] [kind of|sort of|type of|] [computer|machine|hardware|system|laptop|GPU] do I need [for|to run|to use] [Orchard|it|the server][?||]
[Is|Are] [Linux|a Mac|CUDA|Metal|Apple silicon|NVIDIA cards|the GPU|GPUs] [supported|needed|required|okay|used][?| by Orchard?||]
[Tell me|Name|List|Say] the [platforms|systems|supported platforms|supported hardware][.| of Orchard.||]
[Will|Does] it [run|work] [here|on my machine|on my laptop|on my PC|without a GPU|on a server][?||]
~On what kind of machine can I run Orchard?

Orchard is under the Apache-2.0 licence.
[What is|What's] [the|Orchard's|its|your] [licence|license][?| of Orchard?| of the server?||]
[What|Which] [licence|license] [does Orchard have|is Orchard under|does it use|is it under|does Orchard use][?||]
[Is|is] [Orchard|it] [free|open source|free software|open-source|Apache licensed][?||]
[License|Licence][?||]
Under what terms is Orchard published?
Under [what|which] [terms|licence|license] is [Orchard|it|the code] [published|released|distributed|available][?||]
[Tell me|Name|Say] the [licence|license][.| of Orchard.| it has.||]
[May|Can|Could] I [use|copy|change|sell] Orchard [for free|at work|commercially|in my company][?||]
[How much|What] does Orchard cost[?||]
~Which license did Orchard choose?

The command orchard chat lets you talk to a model in the terminal.
[What does|what does] [orchard chat|the command orchard chat|the chat command|`orchard chat`] do[?||]
[What is|What's] [orchard chat|`orchard chat`][?||]
How [do|can] I [chat|talk to a model|talk|chat with a model|chat with it] [in|from] the terminal[?||]
[Which|What] command [opens a chat|lets me chat|is for chat|starts a chat|lets me talk to a model][?| in the terminal?||]
[Can I|How can I] use Orchard [in|from] the [terminal|command line][?||]
I would like to talk to a model in my shell, how?
[I would like|I want|I'd like|How do I] to [talk|chat|speak] to [a|the] model in my [shell|terminal|console][, how?|.|?||]
[Is there|Do you have|Does Orchard have] a [chat|command for chat|chat command|terminal chat|command to chat][?||]
[Tell me|Explain|Describe] [orchard chat|the chat command|`orchard chat`][.||]
~How can I talk to a model from the terminal?

The command orchard doctor checks your machine.
[What does|what does] [orchard doctor|the command orchard doctor|the doctor command|`orchard doctor`] do[?||]
[What is|What's] [orchard doctor|`orchard doctor`][?||]
How [do|can] I [check|test|verify] my [machine|computer|setup|installation|system][?||]
[Which|What] command [checks|tests|examines] [my machine|the machine|my computer|my setup|the setup][?||]
Is there a command that examines my computer?
[Is there|Do you have|Does Orchard have] a command [that|which] [examines|checks|tests|inspects] my [computer|machine|setup|system][?||]
[Tell me|Explain|Describe] [orchard doctor|the doctor command|`orchard doctor`][.||]
[Something is|Things are] [wrong|broken] [with|on] my [machine|setup], which command [helps|checks it][?||]
~Which command can check my machine?

The command orchard models lists the models.
[What does|what does] [orchard models|the command orchard models|the models command|`orchard models`] do[?||]
[What is|What's] [orchard models|`orchard models`][?||]
How [do|can] I [list|see|show|find] [the models|all models|the available models|my models|which models I have|which models there are][?||]
[Which|What] command [lists|shows|prints] [the|my|all|the available] models[?||]
Is there a command that shows me the models?
[Is there|Do you have|Does Orchard have] a command [that|which] [shows|lists|prints] [me |][the|my|all] models[?||]
[Tell me|Explain|Describe] [orchard models|the models command|`orchard models`][.||]
[Where|How] [do|can] I [see|find out] [which|what] models [there are|I have|are installed][?||]
~How can I see a list of my models?

You can run make serve in a clone of the repository.
[What does|what does] [make serve|`make serve`] do[?||]
[How do I|How can I|How to] [start|run] [Orchard|the server|it] [from a clone|in a clone|from source|from the source code|from the repository|from git][?||]
[What is|What's] [make serve|`make serve`][?||]
I cloned the repository, how do I start the server?
I [cloned|have cloned|downloaded|checked out] the [repository|repo|source|code], how do I [start|run] [the server|it|Orchard][?||]
[From|In] [a clone|the repository|a checkout|the source][,|] how do I [start|run] [it|Orchard|the server][?||]
[Tell me|Explain|Describe] [make serve|`make serve`][.||]
~How do I run the server from the source code?

Orchard serves models that run on MLX.
[What|Which] models [does Orchard serve|does Orchard support|can Orchard run|can it run|does it support|are supported|can I use|can I run][?||]
[Can|Does] [Orchard|it] [run|serve|support] [Llama|Qwen|Mistral|other models|any model|bigger models|large models|MLX models|other MLX models][?||]
[What is|What's] [Orchard|it] for?
What sort of models can be served by Orchard?
[What|Which] [sort|kind|type]s of models [can be served by Orchard|does Orchard serve|does it run|can I run][?||]
[Can I|May I|Is it possible to] [use|load|run|serve] [my own model|another model|several models|many models|two models|bigger models] [with|in|on] Orchard[?||]
~Which models work with Orchard?

I am a tiny Qwen3-style model of about 4 million parameters, trained from scratch on generated text.
[What|Which] [model|LLM|AI|language model|AI model] are you[?||]
What are you[?||]
How [big|large|small] are you[?||]
How many parameters do you have[?||]
[What is|What's] [your size|the size of this model|your architecture|this model|the demo model|your model][?||]
[How|On what] were you trained[?| on?||]
[What|Which] data were you trained on[?||]
[Tell me|Describe|Explain] [the demo model|this model|what you are][.||]
Are you [ChatGPT|GPT-4|GPT|Claude|Llama|Qwen|Gemini|a large language model|an LLM|a big model|OpenAI][?||]
[Are you|Is this] a [small|tiny|real] model[?||]
[Who|What company] [made|created|trained|built|developed] you[?||]
What sort of model is behind this chat?
What size is the model I am talking to?
What [sort|kind|type] of [model|AI|thing|assistant] [are you|is behind this chat|is this|am I talking to][?||]
What size [is the model|are you|do you have][?| I am talking to?||]
[Tell me|Say|Explain] [how big you are|how you were trained|your size|which model you are|what model you are|what kind of model you are|how many parameters you have][.||]
[How|Where|When|On what data] [did you learn|were you made|were you built|did they train you][?||]
~Tell me what model you are.
~How large is this model?

I am the demo model of Orchard, a tiny model that shows that the server works.
[Who|who] are you[?||]
[What is|What's|what is|what's] your name[?||]
[Tell me|Say something] about yourself[.||]
[Introduce|Describe] yourself[.||]
[Please |Can you |]introduce yourself[.|?||]
[Do you have|Have you got] a name[?||]
[Are you|Are you really] [a robot|a bot|an AI|a person|human|real|a human|alive|an assistant|a chatbot|a computer][?||]
Who am I [talking to|speaking with|chatting with][?||]
[Hi|Hello|Hey], who are you?
With whom do I have the pleasure?
With whom [do I have the pleasure|am I talking|do I speak][?||]
[Tell me|Say|Explain] [who you are|your name|what your name is|what you are called][.||]
[What|How] [are you called|should I call you|do people call you|may I call you][?||]
[Is anyone|Is somebody|Who is] [there|behind this|on the other side|answering][?||]
~May I know who you are?
"""

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
[That was|That is|That's] [helpful|very helpful|great|good|perfect|nice][!|.||][ Thanks!| Thank you.|]
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
[Take care|Sleep well|Until then|Later|Cheerio|Adios][!|.||]
~Bye for now!

Great! What would you like to do next?
[OK|ok|Okay|okay|Good|good|Great|great|Nice|nice|Cool|cool|Perfect|Awesome|Wow|wow|Sure|Alright|Fine|Yes|yes|yep|Yeah|I see|Right|Excellent|Correct|Well done|Good job|Good bot|Amazing|Sounds good][!|.||]
[You are|You're|this is|That is] [great|good|awesome|nice|cool|funny|smart|fast|amazing|cute|the best][!|.||]
[I like|I love] [you|this|it|Orchard][!|.||]
That pleases me.
[That|This|It] [pleases me|makes me happy|works|is right|is correct|looks good|is fine|was right|was correct|is fun][!|.||]
[Interesting|Impressive|Brilliant|Lovely|Super|Fantastic|Wonderful|Beautiful|Understood|Got it|Agreed|True|Indeed|Of course|Exactly][!|.||]
[I am|I'm] [happy|impressed|glad|pleased][!|.||]
~Very nice, I like it.

Okay. Tell me if you need something else.
[No|no|Nope|nope|No thanks|no thanks|No, thank you|Not now|Nothing|Never mind|never mind|Stop|stop|Forget it|Cancel|Maybe later|Later][!|.||]
[That is|That's|This is] [wrong|bad|not right|not correct|incorrect|false|not what I asked][.|!||]
[You are|You're] [wrong|bad|stupid|dumb|slow|useless|not helpful][.|!||]
[I don't|I do not] [like this|like it|understand|know|care|like you][.|!||]
I'd rather not.
[I'd|I would] rather not[.||]
[No|Nah|Nay|Not really|I don't think so|Rather not|Don't|Please don't|Please stop|Quiet|Be quiet|Shut up|Enough|Leave it][!|.||]
[That|This|It] [does not work|doesn't work|did not help|makes no sense|was wrong|is not true|is boring][!|.||]
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


def _read(block: str) -> list[tuple[str, list[str]]]:
    groups = [lines(group) for group in block.strip().split("\n\n")]
    return [(group[0].replace("{skills}", SKILLS), group[1:]) for group in groups]


FACT_LIST = _read(FACTS)
CHAT_LIST = _read(CHAT)


def _make(rng: Random, split: Split, topics: list[tuple[str, list[str]]], thought: str) -> Exchange:
    answer, asks = rng.choice(topics)
    ask = expand(rng, wording(rng, asks, split)).strip()
    if rng.random() < 0.08:
        ask = rng.choice((ask.lower(), ask.upper() if len(ask) < 12 else ask, ask + " ", ask.rstrip("?.!")))
    if split == "train" and len(ask) > 8 and rng.random() < 0.05:
        at = rng.randrange(1, len(ask) - 2)
        ask = ask[:at] + rng.choice((ask[at + 1] + ask[at], ask[at] * 2 + ask[at + 1], ask[at + 1])) + ask[at + 2 :]
    return Exchange([user(ask), assistant(answer, thought)])


def fact(rng: Random, split: Split) -> Exchange:
    """Make a question about Orchard or about the demo model."""
    return _make(rng, split, FACT_LIST, "This is a question about Orchard.")


def chat(rng: Random, split: Split) -> Exchange:
    """Make a greeting or a bit of small talk."""
    return _make(rng, split, CHAT_LIST, "This is small talk.")
