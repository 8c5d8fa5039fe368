import pytest
from torch import nn

from palaestra.core import plugins
from palaestra.core.errors import UsageError
from palaestra.policies.components.base import Component
from palaestra.policies.components.registry import SHIPPED, component_names, find_component


class Strange(Component):
    """Brought by somebody else."""


@pytest.fixture
def plugin(monkeypatch):
    found = {"strange": Strange, "wrong": nn.Linear}
    monkeypatch.setattr(plugins, "names", lambda kind: sorted(found) if kind == "components" else [])
    monkeypatch.setattr(plugins, "load", lambda kind, name: found[name])


def test_every_component_says_in_a_line_what_it_is_and_describes_every_setting():
    for name, component in SHIPPED.items():
        assert component.__doc__, name
        assert all(field.description for field in component.Settings.model_fields.values()), name


def test_components_of_other_packages_come_through_the_same_door(plugin):
    assert find_component("strange") is Strange
    assert component_names()[-2:] == ["strange", "wrong"]


def test_something_else_than_a_component_is_refused(plugin):
    with pytest.raises(UsageError, match="'wrong' is not a palaestra.policies.components.base.Component"):
        find_component("wrong")


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(UsageError, match="no component named 'linaer' Did you mean 'linear'"):
        find_component("linaer")
