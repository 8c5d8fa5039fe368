import pytest

from palaestra.contracts.errors import NotFound, UsageError
from palaestra.policies.shipped import is_file, is_text, parse_graph, read_text, shipped_graph, shipped_names


def test_the_graphs_are_there_and_say_what_they_are():
    assert shipped_names() == ["attention", "cnn", "fast", "grid", "memory", "mlp"]
    assert all(shipped_graph(name)["summary"] for name in shipped_names())


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
