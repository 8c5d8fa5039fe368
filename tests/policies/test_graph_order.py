from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from palaestra.policies.graph_order import find_cycle, reach, sorted_nodes

DIAMOND = {"end": ("left", "right"), "left": ("top",), "right": ("top",), "top": ("observation",), "loose": ()}


def test_sources_come_first_and_otherwise_the_order_given():
    assert sorted_nodes(DIAMOND) == ["top", "left", "right", "end", "loose"]


def test_reach_is_what_the_ends_depend_on():
    assert reach(["left"], DIAMOND) == {"left", "top"}
    assert reach(["nobody"], DIAMOND) == set()


def test_a_cycle_is_told_in_the_direction_that_things_flow():
    assert find_cycle({"a": ("c",), "b": ("a",), "c": ("b",), "d": ("a",)}) == ["a", "b", "c", "a"]
    assert find_cycle({"a": ("a",)}) == ["a", "a"]
    assert find_cycle(DIAMOND) == []


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=14))
def test_there_is_a_cycle_exactly_when_peeling_leaves_something(edges):
    sources = {str(node): tuple(str(b) for a, b in edges if a == node) for node in range(7)}
    left = dict(sources)
    while ready := [name for name, wanted in left.items() if not any(source in left for source in wanted)]:
        for name in ready:
            del left[name]
    cycle = find_cycle(sources)
    assert bool(cycle) == bool(left)
    assert all(before in sources[after] for before, after in pairwise(cycle))
    if not cycle:
        order = sorted_nodes(sources)
        assert all(order.index(source) < order.index(name) for name in order for source in sources[name])
