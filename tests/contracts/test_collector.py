import gc

import pytest

from palaestra.contracts.collector import NEW_OBJECTS, search_as_usual, search_seldom


@pytest.fixture(autouse=True)
def _own_wishes():
    before = gc.get_threshold()
    gc.set_threshold(701, 11, 12)
    yield
    search_as_usual()
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
