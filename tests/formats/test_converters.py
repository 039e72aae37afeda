import pytest

from orchard.formats.converters import converter


@pytest.mark.parametrize("name", ["minimax", "MiniMax-M2", "glm4_moe", "qwen3_coder"])
def test_most_take_arguments_as_objects(name: str) -> None:
    assert converter(name) == {"calls": True, "text_arguments": False}


def test_an_unknown_name_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ValueError, match=r"'x' is no message_converter that is known: they are .*hermes.*minimax"):
        converter("x")
