import pytest

from palaestra.apps.matmul.format import Format, parse_format
from palaestra.core.errors import UsageError


def test_a_format_is_read_as_it_is_written():
    assert parse_format("3x4x5") == Format(3, 4, 5)
    assert str(parse_format(" 3X4X5 ")) == "3x4x5"


def test_sizes_are_those_of_the_three_matrices():
    assert Format(3, 4, 5).sizes == (12, 20, 15)
    assert Format(3, 4, 5).schoolbook_rank == 60
    assert Format(5, 3, 4).ascending == Format(3, 4, 5)


@pytest.mark.parametrize("text", ["3x3", "0x2x2", "3x3x99", "3x3x3x3", "axbxc", "", "-1x2x2", "2x2x2\n2x2x2", "²x2x2"])
def test_what_is_no_format_is_refused_with_its_text(text):
    with pytest.raises(UsageError) as caught:
        parse_format(text)
    assert caught.value.hint
    assert text in caught.value.message or "side" in caught.value.message
