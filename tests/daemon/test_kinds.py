import pytest
from daemon_scripts import ScriptKind

from palaestra.core.errors import NotFound
from palaestra.daemon.kinds import Kinds


def test_kinds_are_those_handed_in_and_the_installed_ones():
    kinds = Kinds({"script": ScriptKind()})
    assert {"evaluate", "native", "script"} <= set(kinds.names())
    assert kinds.get("script").name == "script"
    assert kinds.get("native").name == "native"


def test_an_unknown_kind_is_refused_with_the_nearest():
    with pytest.raises(NotFound, match="Did you mean 'native'"):
        Kinds().get("nativ")


def test_every_installed_kind_has_its_own_name_and_a_schema():
    kinds = Kinds()
    for name in ("native", "evaluate"):
        assert kinds.get(name).name == name
        assert kinds.get(name).schema()["properties"]
