from palaestra.cli.kinds import is_other_kind
from palaestra.core import plugins


def test_only_kinds_that_have_no_command_of_their_own_are_meant(monkeypatch):
    names = plugins.names
    strangers = {"workers": ["sleepy", "cartpole"]}
    monkeypatch.setattr(plugins, "names", lambda group: [*names(group), *strangers.get(group, [])])
    assert is_other_kind("sleepy")
    assert not any(map(is_other_kind, ("native", "evaluate", "cartpole", "", "absent")))
