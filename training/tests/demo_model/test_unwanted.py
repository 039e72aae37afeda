"""A request that the user does not want carried out calls no tool."""

from random import Random

import pytest

from demo_model.skills import about, define, unwanted


@pytest.mark.parametrize("ask", ["Play the song Blue Hour, please.", "please play the song Blue Hour!"])
def test_the_answer_is_plain_or_what_the_user_asks_for_instead(ask: str) -> None:
    offer = define.Offer("play_song", define.definition(Random(1), "play_song", "", []), ask, {})
    answers: set[str] = set()
    for seed in range(60):
        made = unwanted.make(Random(seed), [offer])
        assert made is not None
        request, answer = made.messages
        assert " play the song Blue Hour" in request["content"]
        assert "tool_calls" not in answer
        assert answer["content"] == unwanted.ANSWER or answer["content"] in request["content"]
        answers.add(answer["content"])
    assert unwanted.ANSWER in answers
    assert "hello" in answers
    assert unwanted.ANSWER in {said for said, _ in about.CHAT_LIST}


@pytest.mark.parametrize("ask", ["Blue Hour by nobody", "Play it.\nThen stop", "What time is it in Rome?", "Play"])
def test_a_request_that_is_no_plain_order_is_left_alone(ask: str) -> None:
    offer = define.Offer("play_song", define.definition(Random(1), "play_song", "", []), ask, {})
    assert unwanted.make(Random(1), [offer]) is None
