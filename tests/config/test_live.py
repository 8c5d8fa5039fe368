import pytest
from pydantic import ValidationError

from palaestra.config.live import LiveConfig
from palaestra.rendering.layout import MAX_SIDE, MAX_SLOTS


@pytest.mark.parametrize("bad", [{"budget": 0.0}, {"budget": 1.5}, {"tiles": 0}, {"largest_side": 0}, {"fps": 5}])
def test_what_cannot_be_is_refused(bad):
    with pytest.raises(ValidationError):
        LiveConfig.model_validate(bad)


def test_the_usual_budget_keeps_the_promise_of_two_percent():
    assert LiveConfig().enabled
    assert LiveConfig().budget < 0.02


def test_the_largest_that_can_be_asked_for_fits_into_a_lane():
    LiveConfig(tiles=MAX_SLOTS)
    with pytest.raises(ValidationError):
        LiveConfig(tiles=MAX_SLOTS + 1)
    with pytest.raises(ValidationError):
        LiveConfig(largest_side=MAX_SIDE + 1)
