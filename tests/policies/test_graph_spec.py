from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaestra.core.errors import UsageError
from palaestra.policies.graph_spec import Problems, find_cycle, reach, read_graph, sorted_nodes

NODES = {
    "input": {"type": "vector", "source": "observation"},
    "hidden": {"type": "linear", "source": "input", "size": 8},
    "action": {"type": "action_head", "source": "hidden"},
    "value": {"type": "value_head", "source": "hidden"},
}
SHARED = {"width": ["hidden.size"]}


def read(overrides=None, shared=None, **changes):
    """NODES with changes; a node given as None is left out."""
    nodes = {name: node for name, node in {**NODES, **changes}.items() if node is not None}
    data = {"schema_version": 1, "summary": "s", "settings": shared or SHARED, "nodes": nodes}
    return read_graph("mine", data, overrides or {})


def complaint(*arguments, **changes):
    with pytest.raises(UsageError) as refused:
        read(*arguments, **changes)
    return str(refused.value)


def settings_of(spec, name):
    return next(node.settings for node in spec.nodes if node.name == name)


def test_a_good_graph_is_read_in_the_order_written():
    spec = read()
    assert [node.name for node in spec.nodes] == list(NODES)
    assert spec.sources["action"] == ("hidden",)
    assert settings_of(spec, "hidden").size == 8


def test_settings_can_be_overridden_by_node_and_by_shared_name():
    assert settings_of(read({"hidden": {"size": 5}}), "hidden").size == 5
    assert settings_of(read({"width": 6}), "hidden").size == 6
    assert settings_of(read({"width": 6, "hidden": {"size": 5}}), "hidden").size == 5, "the nearer one wins"
    assert settings_of(read({"hidden": {"activation": "relu"}}), "hidden").size == 8


def test_even_the_type_of_a_node_can_be_overridden():
    spec = read(
        {"memory": {"type": "gru"}},
        memory={"type": "lstm", "source": "input"},
        hidden={**NODES["hidden"], "source": "memory"},
    )
    assert {node.name: node.kind for node in spec.nodes}["memory"] == "gru"


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"widht": 3}, "policy.settings.widht is not a setting of this policy. Did you mean 'width'?"),
        ({"hiden": {}}, "Did you mean 'hidden'?"),
        ({"qqq": 1}, "Known: width, input.…, hidden.…, action.…, value.…."),
        ({"hidden": 3}, "policy.settings.hidden=3: 'hidden' is a node of the graph 'mine'."),
        ({"hidden": {"sise": 3}}, "node 'hidden': 'sise' is not a setting of linear. Did you mean 'size'?"),
        ({"hidden": {"size": 0}}, "node 'hidden': size=0: Input should be greater than or equal to 1."),
        ({"hidden": {"size": "big"}}, "policy.settings.hidden.size"),
    ],
)
def test_overrides_that_cannot_be_are_refused(overrides, words):
    assert words in complaint(overrides)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"value": None}, "there is no node called 'value'"),
        ({"action": None}, "there is no node called 'action'"),
        ({"hidden": {"type": "linaer", "source": "input"}}, "no component named 'linaer'. Did you mean 'linear'?"),
        (
            {"hidden": {"type": "linear", "source": "inptu", "size": 3}},
            "its source 'inptu' does not exist. Did you mean 'input'?",
        ),
        ({"hidden": {"type": "linear", "source": "input"}}, "node 'hidden': size: Field required"),
        ({"hidden": {"type": "linear", "size": 3}}, "node 'hidden': has 0 sources, needs 1"),
        ({"hidden": {"type": "merge", "source": "input"}}, "node 'hidden': has 1 sources, needs at least 2"),
        ({"hidden": {"type": "linear", "source": ["input", "value"], "size": 3}}, "has 2 sources, needs 1"),
        ({"spare": {"type": "flatten", "source": "hidden"}}, "node 'spare': neither action nor value depends on it"),
        ({"keys": {"type": "flatten", "source": "hidden"}}, "a node cannot be called 'keys'"),
        ({"Big.one": {"type": "flatten", "source": "hidden"}}, "a node cannot be called 'Big.one'"),
        ({"observation": {"type": "flatten", "source": "hidden"}}, "a node cannot be called 'observation'"),
    ],
)
def test_graphs_that_cannot_be_are_refused_by_name(changes, words):
    assert words in complaint(**changes)


def test_a_cycle_is_told_node_by_node():
    text = complaint(
        input={"type": "merge", "source": ["observation", "late"], "how": "add"},
        late={"type": "flatten", "source": "hidden"},
    )
    assert "these nodes wait for each other: input -> hidden -> late -> input" in text


def test_everything_wrong_is_said_at_once():
    text = complaint(
        hidden={"type": "linear", "source": "inptu", "size": 0, "activaton": "relu"}, value=None, odd={"type": "x"}
    )
    for words in ("for 4 reasons", "activaton", "size=0", "no node called 'value'", "no component named 'x'"):
        assert words in text


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([], "has no nodes"),
        ({"schema_version": 1, "nodes": {}}, "has no nodes"),
        ({"schema_version": 1, "nodes": {"a": 3}}, "node 'a' is 3"),
        ({"schema_version": 2, "nodes": NODES}, "has schema_version 2; this version reads 1"),
        ({"schema_version": 1, "node": {}, "nodes": NODES}, "unknown key 'node'. Did you mean 'nodes'?"),
    ],
)
def test_files_that_are_no_graphs_are_refused(data, words):
    with pytest.raises(UsageError) as refused:
        read_graph("mine", data, {})
    assert words in str(refused.value)


@pytest.mark.parametrize(
    "shared", [{"width": "hidden.size"}, {"width": ["hiden.size"]}, {"hidden": ["hidden.size"]}, {"width": ["hidden"]}]
)
def test_shared_settings_must_name_nodes(shared):
    assert "shared setting" in complaint(shared=shared)


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


def test_nothing_found_is_no_error():
    Problems("The graph 'x'").raise_if_any()


def test_one_problem_is_one_sentence_with_its_hint():
    problems = Problems("The graph 'x'")
    problems.add("node 'a': is broken", "Mend it.")
    with pytest.raises(UsageError) as refused:
        problems.raise_if_any()
    assert refused.value.message == "The graph 'x' cannot be built: node 'a': is broken."
    assert refused.value.hint == "Mend it."


def test_several_problems_are_all_said():
    problems = Problems("The graph 'x'")
    problems.add("first", "Try this.")
    problems.add("second")
    with pytest.raises(UsageError, match=r"for 2 reasons:\n  - first\. Try this\.\n  - second\."):
        problems.raise_if_any()
