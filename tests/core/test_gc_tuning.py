import gc

import pytest

from palaestra.core.gc_tuning import NEW_OBJECTS, collect_rarely, default_collection


@pytest.fixture(autouse=True)
def _own_wishes():
    before = gc.get_threshold()
    gc.set_threshold(701, 11, 12)
    yield
    with default_collection():
        pass
    gc.set_threshold(*before)


def test_while_something_starts_there_are_few_searches():
    collect_rarely()
    assert gc.get_threshold()[0] == NEW_OBJECTS


def test_afterwards_it_is_as_it_was_before():
    collect_rarely()
    collect_rarely()
    with default_collection():
        assert gc.get_threshold() == (701, 11, 12)
    assert gc.get_threshold() == (701, 11, 12)


def test_what_a_start_has_made_is_left_out_until_the_end():
    collect_rarely()
    with pytest.raises(ZeroDivisionError), default_collection():
        assert gc.get_freeze_count() > 10_000
        ring = []
        ring.append(ring)
        del ring
        assert gc.collect() > 0  # what comes after it is found
        raise ZeroDivisionError
    assert gc.get_freeze_count() == 0


def test_who_never_requested_less_keeps_his_own():
    gc.set_threshold(5, 5, 5)
    with default_collection():
        assert (gc.get_threshold(), gc.get_freeze_count()) == ((5, 5, 5), 0)
    assert gc.get_threshold() == (5, 5, 5)
