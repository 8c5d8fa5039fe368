import pytest

from palaestra.config.policy import PolicyConfig
from palaestra.core.errors import NotFound, UsageError
from palaestra.core.spaces import BoxSpec, DictSpec, DiscreteSpec, EnvInterface
from palaestra.policies.shipped import (
    is_file,
    is_image,
    is_text,
    notes_on_network,
    parse_graph,
    read_text,
    shipped_graph,
    shipped_names,
    with_chosen_network,
)

BREAKOUT = BoxSpec((210, 160, 3), "uint8")


def test_the_graphs_are_there_and_say_what_they_are():
    assert shipped_names() == ["attention", "cnn", "fast", "grid", "memory", "mlp"]
    assert all(shipped_graph(name)["summary"] for name in shipped_names())


@pytest.mark.parametrize(
    ("space", "graph"),
    [
        (BREAKOUT, "cnn"),
        (BoxSpec((4, 84, 84), "uint8"), "cnn"),
        (BoxSpec((84, 84), "uint8"), "cnn"),
        (BoxSpec((64, 64, 3), "float32"), "cnn"),
        (BoxSpec((8,)), "mlp"),
        (BoxSpec((20, 12)), "mlp"),  # a table of numbers
        (BoxSpec((3, 3, 2), "uint8"), "mlp"),  # a board
        (BoxSpec((200, 3), "uint8"), "mlp"),  # tokens
        (DiscreteSpec(500), "mlp"),
        (DictSpec((("camera", BREAKOUT), ("speed", BoxSpec((1,))))), "mlp"),
    ],
)
def test_images_take_a_cnn_by_default_and_everything_else_an_mlp(space, graph):
    chosen = with_chosen_network(PolicyConfig(normalize_returns=True), EnvInterface(space, DiscreteSpec(2)))
    assert (chosen.graph, chosen.normalize_returns) == (graph, True)


def test_a_network_that_is_named_is_the_one_that_is_taken():
    interface = EnvInterface(BREAKOUT, DiscreteSpec(2))
    for named in (PolicyConfig(graph="mlp"), PolicyConfig(module="mine:Net")):
        assert with_chosen_network(named, interface) == named


def test_a_note_says_which_network_reads_images():
    interface = EnvInterface(DictSpec((("camera", BREAKOUT),)), DiscreteSpec(2))
    assert is_image(BREAKOUT)
    assert notes_on_network(PolicyConfig(graph="mlp"), EnvInterface(BoxSpec((4,)), DiscreteSpec(2))) == []
    assert "cnn" in notes_on_network(PolicyConfig(graph="cnn"), EnvInterface(BREAKOUT, DiscreteSpec(2)))[0]
    assert "camera 210x160x3" in notes_on_network(PolicyConfig(graph="mlp"), interface)[0]


def test_a_name_a_file_and_a_text_are_told_apart():
    assert not is_file("mlp")
    assert is_file("mine.yaml")
    assert is_file("graphs/mine.yml")
    assert is_text("nodes:\n  a: {}\n")
    assert not is_file("# see a/b.yaml\nnodes: {}")


def test_a_file_that_is_not_there_is_said_with_the_names_that_are(tmp_path):
    with pytest.raises(NotFound, match="no such file.*attention, cnn, fast, grid, memory, mlp"):
        read_text(tmp_path / "mine.yaml")


def test_a_file_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "mine.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot be read"):
        read_text(tmp_path / "mine.yaml")


def test_a_text_that_is_no_yaml_is_refused():
    with pytest.raises(UsageError, match=r"policy\.graph=mine\.yaml cannot be read"):
        parse_graph("nodes: [", "mine.yaml")
