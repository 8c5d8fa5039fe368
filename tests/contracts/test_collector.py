import gc

import pytest

from palaestra.contracts.collector import NEW_OBJECTS, search_as_usual, search_seldom


@pytest.fixture(autouse=True)
def _own_wishes():
    before = gc.get_threshold()
    gc.set_threshold(701, 11, 12)
    yield
    search_as_usual()
    gc.unfreeze()
    gc.set_threshold(*before)


def test_while_something_starts_there_are_few_searches():
    search_seldom()
    assert gc.get_threshold()[0] == NEW_OBJECTS


def test_afterwards_it_is_as_it_was_before():
    search_seldom()
    search_seldom()
    search_as_usual()
    assert gc.get_threshold() == (701, 11, 12)


def test_who_never_asked_for_less_keeps_his_own():
    search_as_usual()
    gc.set_threshold(5, 5, 5)
    search_as_usual()
    assert gc.get_threshold() == (5, 5, 5)


def test_what_a_start_has_made_is_not_searched_again():
    search_seldom()
    search_as_usual()
    assert gc.get_freeze_count() > 10_000
    ring = []
    ring.append(ring)
    del ring
    assert gc.collect() > 0  # but what comes after it is


def test_who_never_asked_for_less_is_searched_whole():
    search_as_usual()
    assert gc.get_freeze_count() == 0
