import base64
import json
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from orchard.core.errors import OrchardError
from orchard.core.events import Collected, Output, Usage
from orchard.core.media import MediaOptions, MediaPart
from orchard.core.tasks.embed import Embed, Embedding, MixedInput
from orchard.core.tasks.generate import Generate, Message, TextPart
from orchard.dialects.openai.embeddings import EmbeddingsCall, parse

CAT = "data:image/png;base64,Y2F0"


def picture(param: str, detail: Literal["low"] | None = None) -> MediaPart:
    return MediaPart("image", CAT, param, options=MediaOptions(detail=detail))


def mixed(param: str, *texts: str, detail: Literal["low"] | None = None) -> MixedInput:
    """An input of texts and then a picture."""
    return MixedInput((*map(TextPart, texts), picture(param, detail)))


def conversation(part: TextPart | MediaPart) -> Generate:
    return Generate((Message("user", (part,)),))


def read(**fields: Any) -> EmbeddingsCall:
    return parse(json.dumps({"model": "m", "input": "a"} | fields).encode(), "req_1")


@pytest.mark.parametrize(
    ("fields", "task"),
    [
        ({}, Embed(("a",))),
        ({"input": ["a", "b"]}, Embed(("a", "b"))),
        ({"input": [5, 6]}, Embed(((5, 6),))),
        ({"input": [[5], [6, 7]]}, Embed(((5,), (6, 7)))),
        ({"input": ["x"] * 2048}, Embed(("x",) * 2048)),
        ({"input": {"text": "a"}}, Embed(("a",))),
        ({"input": [[{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"}], "c"]}, Embed(("ab", "c"))),
        ({"input": {"image_url": CAT}}, Embed((mixed("input.image_url"),))),
        ({"input": [{"type": "input_image", "image_url": {"url": CAT}}]}, Embed((mixed("input[0].image_url.url"),))),
        (
            {"input": ["a", [{"text": "b"}, {"type": "image_url", "image_url": CAT, "detail": "low"}]]},
            Embed(("a", mixed("input[1][1].image_url", "b", detail="low"))),
        ),
        (
            {"input": [{"image_url": CAT}] * 64 + ["a"] * 9},
            Embed((*(mixed(f"input[{n}].image_url") for n in range(64)), *"a" * 9)),
        ),
        ({"input": None, "messages": [{"role": "user", "content": "a"}]}, Embed((conversation(TextPart("a")),))),
        (
            {
                "input": None,
                "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": CAT}}]}],
                "continue_final_message": True,
            },
            Embed((replace(conversation(picture("messages[0].content[0].image_url.url")), continue_last=True),)),
        ),
        ({"dimensions": 4, "prompt_name": "q", "truncate": True}, Embed(("a",), 4, "q", True)),
        ({"truncate": False}, Embed(("a",), truncate=False)),
        ({"user": 7, "unknown": [1]}, Embed(("a",))),
    ],
)
def test_what_is_asked(fields: dict[str, Any], task: Embed) -> None:
    call = read(**fields)
    assert (call.request.task, call.request.model, call.base64) == (task, "m", False)


def test_how_it_is_served() -> None:
    call = parse(b'{"input": "a", "priority": "background", "ttl": 9}', "req_1", "interactive", default="only")
    assert (call.request.model, call.request.priority, call.request.ttl) == ("only", "background", 9)
    call = parse(b'{"input": "a", "model": 7}', "req_1", "interactive", model="deployed")
    assert (call.request.model, call.request.priority) == ("deployed", "interactive")


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"input": None}, "input", "`input` is required: a string, up to 2048 strings, a list of token ids, up"),
        ({"input": ""}, "input", "must not be empty"),
        ({"input": []}, "input", "`input` must be a string, up to 2048 strings, a list of token ids, up to 2048 l"),
        ({"input": [""]}, "input", "must not be empty"),
        ({"input": ["a", ""]}, "input[1]", "must not be empty"),
        ({"input": [[5], []]}, "input[1]", "must not be empty"),
        ({"input": ["a", 5]}, "input", "parts of text and images; tokens don't mix"),
        ({"input": ["a", [5]]}, "input", "parts of text and images; tokens don't mix"),
        (
            {"input": [-1]},
            "input[0]",
            "must be a string, a token id, a list of token ids, or parts of text and images.",
        ),
        ({"input": [1.5]}, "input[0]", "or parts of text and images, got a number with"),
        ({"input": [[-1]]}, "input[0][0]", "an integer from 0"),
        ({"input": 5}, "input", "`input` must be a string, up to 2048 strings,"),
        ({"input": {"a": 1}}, "input", "must have `text` or `image_url`"),
        ({"input": ["a", {}]}, "input[1]", "must have `text` or `image_url`"),
        ({"input": {"type": "text"}}, "input.text", "is required"),
        ({"input": [{"type": "image_url"}]}, "input[0].image_url", "is required"),
        ({"input": [[{"text": ""}]]}, "input", "must not be empty"),
        ({"input": ["a", [{"text": ""}, {"text": ""}]]}, "input[1]", "must not be empty"),
        ({"input": [[{"text": "a"}, 5]]}, "input[0]", "token ids or parts, not both"),
        ({"input": [{"text": "a"}, 5]}, "input", "parts of text and images; tokens don't mix"),
        ({"input": [{"text": "a"}, [5]]}, "input", "parts of text and images; tokens don't mix"),
        ({"input": [["a"]]}, "input[0][0]", "must be"),
        ({"input": ["a", {"image_url": "cat.png"}]}, "input[1].image_url", "must be a data: URL"),
        ({"input": [["a", {"image_url": {"url": "cat.png"}}]]}, "input[0][0]", "must be"),
        ({"input": [[{"text": "a"}, {"image_url": {"url": "x"}}]]}, "input[0][1].image_url.url", "must be a data: URL"),
        ({"input": {"image_url": {"url": "x"}}}, "input.image_url.url", "must be a data: URL"),
        ({"input": {"type": "video_url"}}, "input.type", "must be one of 'image_url'"),
        ({"input": {"image_url": CAT, "detail": "huge"}}, "input.detail", "must be one of"),
        ({"input": [{"image_url": CAT}] * 65}, "input", "holds 65 inputs with images; at most 64"),
        ({"input": ["x"] * 2049}, "input", "holds 2049 inputs; at most 2048"),
        ({"messages": [{"role": "user", "content": "a"}]}, "messages", "and `input` can't be combined"),
        ({"input": None, "messages": []}, "messages", "a non-empty array"),
        ({"input": None, "messages": [{"role": "cat"}]}, "messages[0].role", "must be one of"),
        ({"encoding_format": "int8"}, "encoding_format", "'base64', 'float'"),
        ({"dimensions": 0}, "dimensions", "an integer from 1"),
        ({"truncate": "END"}, "truncate", "true or false"),
        ({"prompt_name": ""}, "prompt_name", "a non-empty string"),
    ],
)
def test_bad_fields(fields: dict[str, Any], param: str, words: str) -> None:
    with pytest.raises(OrchardError) as caught:
        read(**fields)
    assert (caught.value.kind, caught.value.param) == ("invalid_request", param)
    assert words in caught.value.message


VECTORS = st.lists(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=3, max_size=3))


@given(VECTORS)
def test_vectors_are_the_same_in_both_formats(vectors: list[list[float]]) -> None:
    made = [Output.from_struct(Embedding(np.array(one, "<f4").tobytes()), index) for index, one in enumerate(vectors)]
    result = Collected([], Usage(7, 0), outputs=made[::-1])  # batches end in any order
    plain = json.loads(read(encoding_format="float").complete(result))
    coded = json.loads(read(encoding_format="base64").complete(result))
    assert (plain["object"], plain["model"], plain["usage"]) == ("list", "m", {"prompt_tokens": 7, "total_tokens": 7})
    assert [(one["object"], one["index"]) for one in plain["data"]] == [("embedding", at) for at in range(len(vectors))]
    assert [one["embedding"] for one in plain["data"]] == vectors
    decoded = [np.frombuffer(base64.b64decode(one["embedding"]), "<f4").tolist() for one in coded["data"]]
    assert decoded == vectors
