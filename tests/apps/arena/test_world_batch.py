"""The interface itself is checked by mypy; here, that the reference gives each of its promises a body."""

import inspect

from palaestra.apps.arena.reference_batch import ReferenceBatch
from palaestra.apps.arena.world_batch import WorldBatch

METHODS = ("reset", "step", "step_api", "counters", "returns", "world_state", "capture", "restore")


def test_the_interface_is_what_the_tests_of_batches_cover():
    named = {name for name, _ in inspect.getmembers(WorldBatch, inspect.isfunction) if not name.startswith("_")}
    assert named == set(METHODS)


def test_the_reference_takes_the_same_arguments_in_the_same_order():
    for name in METHODS:
        asked = list(inspect.signature(getattr(WorldBatch, name)).parameters)
        given = list(inspect.signature(getattr(ReferenceBatch, name)).parameters)
        assert given == asked, name
    assert list(inspect.signature(ReferenceBatch).parameters) == ["tasks", "world_count", "threads"]
