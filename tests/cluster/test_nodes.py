from importlib.metadata import version

import pytest

from palaestra.cluster import nodes
from palaestra.contracts.errors import UsageError


class FakeRay:
    def nodes(self):
        return [
            {"NodeID": "a", "NodeManagerAddress": "10.0.0.1", "Alive": True, "Resources": {"CPU": 4.0, "GPU": 1.0}},
            {"NodeID": "b", "NodeManagerAddress": "10.0.0.2", "Alive": False, "Resources": {}},
            {"NodeID": "c", "NodeManagerAddress": "10.0.0.3", "Alive": True, "Resources": {}},
        ]


def test_the_dead_are_not_counted_and_a_machine_may_have_nothing():
    assert nodes.nodes(FakeRay()) == [nodes.Node("a", "10.0.0.1", 4.0, 1.0), nodes.Node("c", "10.0.0.3", 0.0, 0.0)]


def test_another_version_of_palaestra_is_refused_with_its_machine(monkeypatch):
    monkeypatch.setattr(nodes, "ask_each", lambda ray, question: [("one", version("palaestra")), ("two", "9.9.9")])
    with pytest.raises(UsageError, match="two: 9.9.9"):
        nodes.demand_same_palaestra(FakeRay())


def test_a_machine_sees_a_witness_only_where_it_is(tmp_path):
    (tmp_path / "witness").touch()
    assert nodes.sees(str(tmp_path), "witness")[1]
    assert not nodes.sees(str(tmp_path), "other")[1]
    assert nodes.describe()[1] == version("palaestra")
