"""MiniLM finds the passage that a question is about, and SmolLM2 answers from it."""

from collections.abc import Iterator

import numpy as np
import pytest
from openai import OpenAI

from tests.support.serving import Server

PASSAGES = (
    "The harbour lighthouse of Port Elm was built in 1874. It is painted red and white.",
    "Aunt Greta's bakery opens at six in the morning. Its best cake is made of plums.",
    "The football club of Oakfield plays in green shirts. Its stadium has room for nine thousand people.",
    "Doctor Ruiz keeps bees on the roof of the hospital. The honey is sold in the cafeteria.",
    "The night train to Vienna leaves from platform seven. It has a restaurant car.",
)
ASKED = (
    ("When was the lighthouse built?", 0, "1874"),
    ("What is the bakery's best cake made of?", 1, "plum"),
    ("What colour are the shirts of the football club?", 2, "green"),
    ("Who keeps bees on a roof?", 3, "Ruiz"),
    ("From which platform does the train to Vienna leave?", 4, "seven"),
)


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=350) as client:
        yield client


@pytest.mark.timeout(400)
def test_questions_are_answered_from_the_passage_that_is_nearest(client: OpenAI) -> None:
    questions = [question for question, _, _ in ASKED]
    made = client.embeddings.create(model="minilm", input=[*PASSAGES, *questions]).data
    vectors = np.array([one.embedding for one in made])
    nearest = (vectors[len(PASSAGES) :] @ vectors[: len(PASSAGES)].T).argmax(axis=1)
    assert nearest.tolist() == [place for _, place, _ in ASKED]
    right = 0
    for question, place, fact in ASKED:
        content = f"{PASSAGES[place]}\n\nAnswer in one short sentence: {question}"
        answer = client.chat.completions.create(
            model="smollm2", messages=[{"role": "user", "content": content}], temperature=0, max_tokens=32
        )
        right += fact.lower() in str(answer.choices[0].message.content).lower()
    assert right >= len(ASKED) - 1
