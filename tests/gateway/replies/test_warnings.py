"""Warnings: whatever callers send, the header is one short line."""

from orchard.gateway.replies.warnings import unserved_tools_warning, warning_header


def test_a_header_is_one_line_of_ascii() -> None:
    assert warning_header('it\'s "é"') == {"warning": "199 orchard \"it's '?'\""}


def test_names_that_callers_choose_are_short_and_printable() -> None:
    assert unserved_tools_warning(["a", "b", "a"]).endswith(" see them: 'a', 'b'")
    assert unserved_tools_warning(["a\r\nset-cookie: é"]).endswith(r": 'a\r\nset-cookie: \xe9'")
    many = unserved_tools_warning([f"{number}{'x' * 10_000}" for number in range(100)])
    assert many.endswith(" and 84 more")
    assert len(many) < 2000
