import pytest

from palaestra.core.control_characters import escape_controls


def test_ordinary_text_is_not_changed():
    assert escape_controls("größer 模 100 % \\x1b") == "größer 模 100 % \\x1b"


@pytest.mark.fault("W11")
def test_control_and_direction_characters_are_shown_as_escapes():
    assert escape_controls("\x1b[31m\n\u202e\u2028\x9b\0") == r"\x1b[31m\n\u202e\u2028\x9b\x00"


def test_characters_to_keep_stay_as_they_are():
    assert escape_controls("a\n\tb\r\x07", keep="\n\t") == "a\n\tb\\r\\x07"
