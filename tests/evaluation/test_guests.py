from types import SimpleNamespace

import pytest

from palaestra.core import plugins
from palaestra.core.errors import RefusedFile
from palaestra.evaluation.guests import find_guest


@pytest.fixture
def opened(monkeypatch):
    monkeypatch.setattr(plugins, "names", lambda group: ["foreign"])
    monkeypatch.setattr(plugins, "load", lambda group, name: lambda *given: (group, name, *given))
    checkpoint = SimpleNamespace(policy={"kind": "foreign"}, path=None)
    return SimpleNamespace(checkpoint=checkpoint)


def test_the_kind_that_saved_a_checkpoint_brings_who_can_play_it(opened):
    assert find_guest(opened, "run", is_own=True) == ("external_policies", "foreign", opened, "run")


def test_a_policy_of_ours_has_no_guest(opened):
    opened.checkpoint.policy = {"graph": "fast"}
    assert find_guest(opened, "run", is_own=True) is None


@pytest.mark.parametrize(("directory", "is_own"), [("run", False), (None, True)])
def test_code_that_came_from_elsewhere_is_not_run(opened, directory, is_own):
    with pytest.raises(RefusedFile, match="kind 'foreign'; playing it would run"):
        find_guest(opened, directory, is_own=is_own)
