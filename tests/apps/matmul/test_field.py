import pytest

from palaestra.apps.matmul.field import Field, parse_field
from palaestra.core.errors import UsageError


def test_fields_are_known_by_more_than_one_name():
    assert parse_field("GF2") is Field.GF2
    assert parse_field("ternary") is Field.ZT
    assert all(field.meaning for field in Field)


def test_an_unknown_field_is_refused_with_the_nearest():
    with pytest.raises(UsageError, match="Did you mean 'gf2'"):
        parse_field("gf3")
