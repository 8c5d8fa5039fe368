import pytest

from palaestra.core.errors import UsageError
from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, EnvInterface, MultiDiscreteSpec
from palaestra.policies.components.base import Signal
from palaestra.policies.components.shaping import Merge, MergeSettings
from palaestra.policies.graph_nodes import ACTIONS, NodeBuilder, Purpose, build_nodes, observation_signal, space_shape
from palaestra.policies.graph_spec import NodeSpec, read_graph

INTERFACE = EnvInterface(BoxSpec((4,)), DiscreteSpec(3))
NODES = {
    "hidden": {"type": "linear", "source": "observation", "size": 5},
    "action": {"type": "action_head", "source": "hidden"},
    "value": {"type": "value_head", "source": "hidden"},
}


def spec_of(**nodes):
    return read_graph("mine", {"schema_version": 1, "nodes": {**NODES, **nodes}}, {})


def test_shapes_flow_from_node_to_node():
    built = build_nodes(spec_of(), INTERFACE)
    assert {name: node.output.shape for name, node in built.items()} == {"hidden": (5,), "action": (3,), "value": (1,)}


def test_the_node_value_gives_as_many_numbers_as_asked_for():
    built = build_nodes(spec_of(), INTERFACE, Purpose("stochastic_actor", values=3))
    assert built["value"].output.shape == (3,)


def test_actions_are_a_source_where_there_are_some():
    builder = NodeBuilder("mine", INTERFACE, Purpose("deterministic_actor", actions=Signal(ACTIONS, (2,))))
    builder.add(NodeSpec("both", "merge", Merge, ("observation", ACTIONS), MergeSettings(how="concat")))
    assert builder.built["both"].output.shape == (6,)
    with pytest.raises(UsageError, match=r"its source '\(actions\)' does not exist"):
        spec_of(hidden={"type": "linear", "source": ACTIONS, "size": 5})


def test_what_follows_a_node_that_does_not_fit_is_not_blamed():
    picture = {"type": "image", "source": "observation"}
    with pytest.raises(UsageError) as caught:
        build_nodes(spec_of(hidden={"type": "flatten", "source": "seen"}, seen=picture), INTERFACE)
    assert "node 'seen'" in caught.value.message
    assert "node 'hidden'" not in caught.value.message


@pytest.mark.parametrize(
    ("space", "shape"),
    [
        (BoxSpec((3, 4)), (3, 4)),
        (DiscreteSpec(5), ()),
        (MultiDiscreteSpec((2, 3)), (2,)),
        (DictSpec((("a", DiscreteSpec(2)),)), ()),
    ],
)
def test_the_signal_of_an_observation_has_its_shape(space, shape):
    assert space_shape(space) == shape
    assert observation_signal(EnvInterface(space, DiscreteSpec(2))).shape == shape
