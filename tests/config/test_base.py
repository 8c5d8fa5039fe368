import pytest
from pydantic import ValidationError

from palaestra.config.base import Frozen


class Example(Frozen):
    count: int = 1
    ratio: float | None = None
    flag: bool = False
    word: str = "a"


def test_a_configuration_cannot_be_changed():
    with pytest.raises(ValidationError, match="frozen"):
        Example().count = 2


def test_an_unknown_key_is_an_error():
    with pytest.raises(ValidationError, match="extra_forbidden"):
        Example.model_validate({"cuont": 2})


@pytest.mark.parametrize("key", ["count", "ratio"])
def test_a_truth_is_not_a_number(key):
    with pytest.raises(ValidationError, match="a number is wanted"):
        Example.model_validate({key: True})
    assert Example(flag=True).flag is True


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_are_finite(value):
    with pytest.raises(ValidationError):
        Example(ratio=value)


def test_a_plain_section_takes_overrides_as_they_are():
    assert Example.settle({"count": 2}, {"count": 1}) == {"count": 2}
    assert Example.shorthand == ""
