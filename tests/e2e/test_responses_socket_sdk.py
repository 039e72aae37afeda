"""Responses over a WebSocket by the official openai SDK, against a real server with the demo model."""

from typing import Any

from openai import AsyncOpenAI, OpenAI
from openai.lib.responses_websocket import ResponsesWebSocketLimits, ResponsesWebSocketSession
from openai.resources.responses.responses import ResponsesConnection
from openai.types.responses import Response, ResponsesServerEvent

from tests.e2e.test_responses_sdk import ASKED, WEATHER, result, the_call


def events(connection: ResponsesConnection, **fields: Any) -> list[ResponsesServerEvent]:
    """Ask for a response, and read to its end."""
    connection.response.create(model="demo", temperature=0, **fields)
    found = []
    for event in connection:
        found.append(event)
        if event.type in ("response.completed", "error"):
            break
    return found


def ask(connection: ResponsesConnection, **fields: Any) -> Response:
    last = events(connection, **fields)[-1]
    assert last.type == "response.completed", last
    return last.response


def test_the_same_answer_as_by_http(client: OpenAI) -> None:
    whole = client.responses.create(model="demo", temperature=0, input="Count from 1 to 12")
    with client.responses.connect() as connection:
        told = events(connection, input="Count from 1 to 12")
        assert told[-1].type == "response.completed"
        assert told[-1].response.output_text == whole.output_text
    deltas = [event.delta for event in told if event.type == "response.output_text.delta"]
    assert "".join(deltas) == whole.output_text


def test_an_agents_turns_that_are_not_stored(client: OpenAI) -> None:
    tools: Any = {"tools": [WEATHER], "store": False}
    with client.responses.connect() as connection:
        warm = ask(connection, generate=False, instructions="Be brief.", **tools)
        asked = ask(connection, input=ASKED, previous_response_id=warm.id, **tools)
        told = ask(connection, input=[result(the_call(asked))], previous_response_id=asked.id, **tools)
        assert "21" in told.output_text
        (error,) = events(connection, input="Again", previous_response_id=warm.id, **tools)
        assert error.type == "error"
        assert error.to_dict()["error"]["code"] == "previous_response_not_found"  # type: ignore[index]


def test_the_sdks_sessions(client: OpenAI) -> None:
    limits = ResponsesWebSocketLimits(
        max_lanes=1, max_events_per_lane=500, max_events=500, max_bytes_per_lane=10**7, max_bytes=10**7
    )
    with client.responses.connect() as connection, ResponsesWebSocketSession(connection, limits=limits) as session:
        lane = session.default
        lane.send({"type": "response.create", "model": "demo", "temperature": 0, "input": "Say this is a test"})
        assert "this is a test" in lane.get_final_response().output_text.lower()


async def test_the_async_client(async_client: AsyncOpenAI) -> None:
    async with async_client.responses.connect() as connection:
        await connection.response.create(model="demo", temperature=0, input="Say this is a test")
        async for event in connection:
            if event.type == "response.completed":
                assert "this is a test" in event.response.output_text.lower()
                break
