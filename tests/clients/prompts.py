"""What the demo model surely answers, so that the tests can be about the clients."""

from typing import Literal

from pydantic import BaseModel

SUM = "What is 12 + 30?"
SUM_ANSWER = "42"
COUNT = "Count from 1 to 20"
ASK_WEATHER = "What's the weather in Paris?"
WEATHER = "21 degrees and sunny"
WEATHER_SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ASK_VERDICT = "Is the sky blue?"


class Verdict(BaseModel):
    """A verdict."""

    # No free text: the demo model, forced to write what it never learnt, may not find a string's end.
    answer: Literal["yes", "no"]
    sure: bool
