import pytest

from palaestra.cluster import nodes
from palaestra.cluster.heartbeat import Node
from palaestra.cluster.nodes import Answers, LeftOut, check_code, no_node_left, selector
from palaestra.core.errors import RunFailed, UsageError
from palaestra.runs.code_identity import code_identity, package_files


class FakeRay:
    def nodes(self):
        return [
            {"NodeID": name, "NodeManagerAddress": f"10.0.0.{name}", "Alive": True, "Resources": {"CPU": 4.0}}
            for name in "ab"
        ]


def node(name):
    return Node(name, f"10.0.0.{name}", 4.0, 0.0)


@pytest.fixture
def answered(monkeypatch):
    """What the nodes say: `answered(a=None, b=other_code)`; a text is why a node did not answer."""

    def answer(**by_node):
        said = {name: (f"host-{name}", what) for name, what in by_node.items() if not isinstance(what, str)}
        silent = tuple(LeftOut(node(name), what) for name, what in by_node.items() if isinstance(what, str))
        monkeypatch.setattr(nodes, "ask_nodes", lambda ray, question, *arguments: Answers(said, {}, silent))

    return answer


EDITED = {"versions": [], "package": {**package_files(), "envs/make.py": "edited"}, "modules": {}}


def test_nodes_with_the_same_code_are_all_used(answered):
    answered(a=None, b=None)
    assert check_code(FakeRay()) == ()


def test_a_node_with_edited_code_is_left_out_with_its_files(answered, caplog):
    answered(a=None, b=EDITED)
    (left_out,) = check_code(FakeRay())
    assert left_out.node.id == "b"
    assert [record.getMessage() for record in caplog.records] == [
        "Node left out: 10.0.0.b: its code differs: palaestra/envs/make.py"
    ]


def test_other_code_can_be_accepted_and_is_said(answered, caplog):
    answered(a=None, b=EDITED)
    assert check_code(FakeRay(), allow_different_code=True) == ()
    assert "The code on host-b differs (palaestra/envs/make.py)" in caplog.text


def test_one_dead_node_does_not_block_the_others(answered, caplog):
    answered(a=None, b="it did not answer in time")
    assert [one.node.id for one in check_code(FakeRay())] == ["b"]
    assert "it did not answer in time" in caplog.text


def test_when_no_node_is_left_it_is_an_error_that_names_each(answered):
    answered(a=EDITED, b="it did not answer in time")
    with pytest.raises(UsageError) as refusal:
        check_code(FakeRay())
    assert "10.0.0.a: its code differs: palaestra/envs/make.py" in refusal.value.message
    assert "10.0.0.b: it did not answer in time" in refusal.value.message
    assert isinstance(no_node_left([LeftOut(node("b"), "gone")]), RunFailed)


def test_a_node_says_what_differs_there(monkeypatch):
    code = code_identity()
    fields = {"python": code.python, "packages": code.packages, "package": code.package, "modules": {}}
    assert nodes.describe(fields)[1] is None
    assert nodes.describe({**fields, "package": "other"})[1]["package"] == package_files()


def test_left_out_nodes_are_avoided_by_their_label():
    assert selector(()) == {}
    assert selector(["b", "a"]) == {"ray.io/node-id": "!in(a, b)"}
