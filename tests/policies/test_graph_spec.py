import pytest

from palaestra.core.errors import UsageError
from palaestra.policies.graph_spec import read_graph

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
