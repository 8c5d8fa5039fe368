from functools import cache
from importlib.metadata import EntryPoint, entry_points

import pytest

from palaestra.core import plugins
from palaestra.core.errors import NotFound, UsageError


@pytest.fixture
def own_group(monkeypatch):
    """Entry points that no installed package brings."""
    points = {
        "good": EntryPoint("good", "math:pi", "palaestra.things"),
        "broken": EntryPoint("broken", "no_such_module:thing", "palaestra.things"),
    }
    monkeypatch.setattr(plugins, "_group", lambda kind: points if kind == "things" else {})


def test_names_are_sorted_and_nothing_is_imported(own_group):
    assert plugins.names("things") == ["broken", "good"]
    assert plugins.names("nothing") == []


def test_a_plugin_is_loaded_by_name(own_group):
    assert plugins.load("things", "good") == pytest.approx(3.14159, abs=1e-4)


def test_an_unknown_name_is_told_with_the_nearest(own_group):
    with pytest.raises(NotFound, match=r"No thing is called 'god'\. Did you mean 'good'\?"):
        plugins.load("things", "god")
    with pytest.raises(NotFound, match="Known: broken, good"):
        plugins.load("things", "zzz")


def test_a_plugin_that_cannot_be_imported_is_named_with_its_place(own_group):
    with pytest.raises(UsageError, match=r"'broken' \(no_such_module:thing\) cannot be imported"):
        plugins.load("things", "broken")


def test_the_installed_packages_are_looked_at_once_for_all_kinds(monkeypatch):
    looks = []
    really_look = plugins.entry_points
    monkeypatch.setattr(plugins, "entry_points", lambda: looks.append("look") or really_look())
    monkeypatch.setattr(plugins, "_all", cache(plugins._all.__wrapped__))
    own = cache(plugins._group.__wrapped__)
    monkeypatch.setattr(plugins, "_group", own)
    for kind in ("commands", "workers", "envs"):
        assert plugins.names(kind) == sorted(point.name for point in entry_points(group=f"palaestra.{kind}"))
    assert looks == ["look"]


def test_kinds_are_named_in_the_singular():
    with pytest.raises(NotFound, match="No policy is called"):
        plugins.load("policies", "zzz")
    with pytest.raises(NotFound, match="No recipe is called"):
        plugins.load("recipes", "zzz")
