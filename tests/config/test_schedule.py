import pytest
from pydantic import ValidationError

from palaestra.config.schedule import Schedule, constant, linear


def test_a_bare_number_is_constant():
    assert Schedule.model_validate(3e-4) == constant(3e-4) == Schedule(start=3e-4, kind="constant")


@pytest.mark.parametrize(("start", "end"), [(0.0, 1.0), (1.0, 0.0)])
def test_an_exponential_schedule_never_reaches_zero(start, end):
    with pytest.raises(ValidationError, match="above 0"):
        Schedule(start=start, end=end, kind="exponential")


def test_nothing_below_zero():
    with pytest.raises(ValidationError):
        constant(-1.0)


def test_it_reads_as_one_would_say_it():
    assert str(constant(0.2)) == "0.2"
    assert str(linear(1e-3)) == "linear 0.001 to 0"


def test_a_bare_number_forgets_what_stood_before():
    standing = {"start": 1.0, "end": 0.5, "kind": "cosine"}
    settled = Schedule.normalize_override(2.0, standing)
    assert standing | settled == {"start": 2.0, "kind": "constant"}


def test_end_alone_makes_only_a_constant_one_linear():
    assert Schedule.normalize_override({"end": 0.1}, {"kind": "constant"}) == {"end": 0.1, "kind": "linear"}
    assert Schedule.normalize_override({"end": 0.1}, {"kind": "cosine"}) == {"end": 0.1}
    both = {"end": 0.1, "kind": "exponential"}
    assert Schedule.normalize_override(both, {"kind": "constant"})["kind"] == "exponential"
