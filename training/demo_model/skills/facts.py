"""What the model knows of Orchard: the blocks of ``demo_model/facts/*.txt``.

A block is the answer, then the ways to ask for it, one a line: a phrase of the grammar in ``text``, or a frame's name and
what stands in it (``how: install it|set it up``). ``{m}`` is the name of some model. Lines that start with ``~`` are for
evaluation only.
"""

# ruff: noqa: E501, SIM905 - phrases read best unbroken

from pathlib import Path
from random import Random

from demo_model.exchange import Exchange, assistant, user
from demo_model.text import Split, choose, coin, expand, lines, typo, wording

FOLDER = Path(__file__).parent.parent / "facts"
THOUGHT = "This is a question about Orchard."

# {x} is one of the phrases that follow the frame's name.
FRAMES: dict[str, list[str]] = {
    "how": lines("""
[How do I|How can I|How do you|How does one|How would I|How should I|how do i|how can i|How could I|How do we|how do you] {x}[?||][ please| exactly|]
[How to|how to|What is the way to|What's the easiest way to|What do I do to|What must I do to|What do I need to do to|What do I type to|Is there a way to|Is it possible to|Which command do I need to|what do i do to] {x}[?||]
[I want to|I'd like to|I need to|I am trying to|I'm trying to|Help me|Please help me|Show me how to|Tell me how to|Explain how to|Can you tell me how to|Do you know how to|Could you explain how to|i want to|tell me how to] {x}[.|?||]
[Can you help me|Can I|Could I|Where do I begin to|Let me|I wonder how to|I have to|I don't know how to|I would like to know how to|My plan is to] {x}[.|?||][ How?| Help!|]
[What's the command to|What command do I use to|Which command lets me|What is needed to|What are the steps to|Any way to|Explain how I can|How exactly do I|How do people|In Orchard, how do I|With Orchard, how can I|How would one|Could you show me how to|I'm stuck, how do I|What's the right way to|What do I have to do to|how to|How'd I|Where do I find how to|Tutorial on how to|What should I do to|Is there an easy way to] {x}[?||][ please| in Orchard| here|||]
[As a beginner,|On my Mac,|On Linux,|Quick question:|Sorry,|Hey,|One thing:|I wonder,] how [do|can|would] I {x}[?||]
"""),
    "can": lines("""
[Can|can|Could|Does|does|Will|Would] [Orchard|orchard|it|the server|this server|this thing] {x}[?||]
[Is Orchard able to|Is it able to|Is it possible for Orchard to|Do you know if Orchard can|I wonder whether Orchard can|Tell me whether Orchard can|Am I right that Orchard can|Is Orchard made to|is it able to] {x}[?|.||]
[Orchard can|So Orchard can|It can] {x}[?|, right?|, can't it?]
[Is there a way that|Does Orchard let me|Does Orchard allow me to|Can I let it|Is Orchard good enough to|Does Orchard know how to|Would it be able to|Can one|Can I have it|Are you sure it can|Could this server|Do you think it can|Might Orchard] {x}[?| with Orchard?||]
[Tell me if|Let me know if|Please say if|I'd like to know if|I want to know whether|Not sure if] [Orchard|it|the server] can {x}[.|?||]
"""),
    "support": lines("""
[Does|does|Will] [Orchard|orchard|it|the server|this server] [support|have|offer|know|handle|work with|understand|do|come with] {x}[?||]
[Is|Are|is] {x} [supported|possible|available|there|included|implemented][?| in Orchard?| here?||]
[Is there|Are there|Do you have|Have you got|is there] {x}[?| in Orchard?| here?||]
[Can I|Can we|Could I|can i] [use|have|get] {x}[?| with Orchard?| here?||]
{x}[?|: supported?|: is it there?|, does it work?|, possible?]
[Any support for|Is there support for|What about support for|Does Orchard come with|Does your server do|Will it work with|I'd like to use|I want to use|Is it okay to use|Do you offer|Do you support|Do you guys support|Are you able to handle|Got support for|Does it have support for|Is Orchard ready for|Can Orchard handle] {x}[?||]
[Tell me if|Let me know if|I'd like to know if|I want to know whether|Not sure if] [Orchard|it|the server] supports {x}[.|?||]
"""),
    "what": lines("""
[What is|What's|Whats|what is|what's|whats|What exactly is|Which is] {x}[?||]
[Tell me|Give me|Show me|Say|I need|I want to know|Remind me of|tell me|Please tell me|Can you tell me|Could you tell me|Do you know|I'd like to know|I forgot|Let me know|What was] {x}[.|?||]
[And|So|Now|Quick question:] [what is|what's] {x}[?||]
{x}[?|, please|, please?||!]
[Could you remind me of|What would be|How do I find|I can't find|I need to know|I am looking for|I'm looking for|Help me find|Quickly,|What again was|Any idea what is] {x}[?|.||]
"""),
    "about": lines("""
[Tell me about|Say something about|Explain|What do you know about|What can you say about|I have a question about|More about|Info on|tell me about|Teach me about|Something about|I need help with|Can you explain|Describe] {x}[.|?||]
[What about|How about|what about|And|What of|Anything on|Anything about] {x}[?||]
How [does Orchard deal with|does it do|does Orchard handle|is it with|do things stand with] {x}[?||]
{x}[?|, please|: tell me||...]
[What's the deal with|What should I know about|I'm curious about|I'd like to hear about|Let's talk about|Details on|Can you say a few words about|Facts about|I want to know more about|Tell me something about|Give me some information on|Please explain|What does Orchard say about|I'd like to understand|A word on|Information about] {x}[.|?||]
"""),
    "command": lines("""
[What does|what does] [{x}|the command {x}|`{x}`|'{x}'] do[?||]
[What is|What's|what is|whats] [{x}|`{x}`|the command {x}][?| for?| good for?||]
[Tell me about|Explain|Describe|Tell me what is|Help with|explain|How does one use|How do I use|how do i use|When do I use|What happens with] [{x}|`{x}`|the command {x}][.|?||]
[{x}|`{x}`][?| what?|: what is it?||]
[What is the point of|When should I run|Why would I run|What happens if I run|What do I get from|What's the purpose of|What is the meaning of|Can you explain|How does one run|What's the use of|Please explain|I don't understand] [{x}|`{x}`|the command {x}][?|.||]
"""),
}


def _phrases(line: str) -> list[str]:
    """Return the phrases of one line of a block."""
    name, _, rest = line.partition(": ")
    if name not in FRAMES:
        return [line]
    return [frame.replace("{x}", part) for part in rest.split("|") for frame in FRAMES[name]]


def read(text: str) -> list[tuple[str, list[str]]]:
    """Read blocks: for each, the answer and the phrases that ask for it."""
    groups = [lines(group) for group in text.strip().split("\n\n")]
    return [(group[0], [phrase for line in group[1:] for phrase in _phrases(line)]) for group in groups]


FACT_LIST = [fact for path in sorted(FOLDER.glob("*.txt")) for fact in read(path.read_text(encoding="utf-8"))]


_MAKERS = "mlx-community|Qwen|google|meta-llama|mistralai|lmstudio-community|deepseek-ai|microsoft".split("|")
_SIZES = "0.6B 1B 1.7B 3B 4B 7B 8B 14B 27B 32B 70B 30B-A3B".split()
_FAMILIES = "Qwen3|Qwen2.5|Llama-3.2|Llama-3.3|gemma-3|Mistral|DeepSeek-R1|Phi-4|SmolLM3|Qwen3-Coder|gpt-oss|GLM-4.5|Granite-4".split(
    "|"
)


def model_name(rng: Random) -> str:
    """Name a model as people do, at times with its maker, its size and its bits, as Hugging Face has it."""
    name = choose(rng, _FAMILIES) if rng.random() < 0.7 else f"{coin(rng).capitalize()}-{rng.randint(1, 9)}"
    if rng.random() < 0.8:
        name += f"-{choose(rng, _SIZES)}"
    if rng.random() < 0.5:
        name += choose(rng, ("-4bit", "-8bit", "-Instruct", "-Instruct-4bit", "-it-4bit", "-bf16", "-mxfp4"))
    if rng.random() < 0.4:
        return f"{choose(rng, _MAKERS)}/{name}"
    return choose(rng, (name, name, name, name.lower(), name.replace("-", " ")))


def asked(rng: Random, split: Split, asks: list[str]) -> str:
    """Draw a way to ask, at times in lower case, without its mark, or with a slip of the finger."""
    pattern = wording(rng, asks, split)
    ask = expand(rng, pattern, m=model_name(rng) if "{m}" in pattern else "").strip()
    if rng.random() < 0.12:
        ask = choose(
            rng, (ask.lower(), ask.lower(), ask.upper() if len(ask) < 12 else ask, ask + " ", ask.rstrip("?.!"))
        )
    if split == "train" and rng.random() < 0.1:
        ask = typo(rng, ask)
    return ask


def make(rng: Random, split: Split) -> Exchange:
    """Make a question about Orchard or about the demo model."""
    answer, asks = choose(rng, FACT_LIST)
    return Exchange([user(asked(rng, split, asks)), assistant(answer, THOUGHT)], topic="facts")
