import logging
import tomllib
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


def test_the_error_for_an_unknown_name_suggests_the_nearest_one(own_group):
    with pytest.raises(NotFound, match=r"No thing named 'god'\. Did you mean 'good'\?"):
        plugins.load("things", "god")
    with pytest.raises(NotFound, match="Known: broken, good"):
        plugins.load("things", "zzz")


def test_the_error_for_a_plugin_that_cannot_be_imported_names_its_module(own_group):
    with pytest.raises(UsageError, match=r"'broken' \(no_such_module:thing\) cannot be imported"):
        plugins.load("things", "broken")


def test_the_installed_packages_are_searched_once_for_all_kinds(monkeypatch):
    searches = []
    search = plugins.entry_points
    monkeypatch.setattr(plugins, "entry_points", lambda: searches.append(1) or search())
    monkeypatch.setattr(plugins, "_all", cache(plugins._all.__wrapped__))
    own = cache(plugins._group.__wrapped__)
    monkeypatch.setattr(plugins, "_group", own)
    for kind in ("recipes", "workers", "envs"):
        assert plugins.names(kind) == sorted(point.name for point in entry_points(group=f"palaestra.{kind}"))
    assert searches == [1]


def test_errors_name_the_kind_in_the_singular():
    with pytest.raises(NotFound, match="No policy named"):
        plugins.load("policies", "zzz")
    with pytest.raises(NotFound, match="No recipe named"):
        plugins.load("recipes", "zzz")
    with pytest.raises(NotFound, match="No external policy named"):
        plugins.load("external_policies", "zzz")


def test_parts_of_apps_are_found_by_kind_and_name():
    assert {"bench", "discover", "discoveries", "verify"} <= set(plugins.names("commands"))
    assert "palaestra/Arena-v0" in plugins.names("games")
    assert plugins.references("replays")["arena"] == "palaestra.apps.arena.replay:open_replay"


def test_another_package_adds_parts_through_an_app(install_package):
    install_package(
        "shop",
        "from palaestra.core.app import App\nAPP = App(suites={'hard': 'math:pi', 'easy': {'episodes': 3}})\n",
        "[palaestra.apps]\nshop = shop:APP\n",
    )
    assert {"easy", "hard"} <= set(plugins.names("suites"))
    assert plugins.load("suites", "hard") == pytest.approx(3.14159, abs=1e-4)
    assert plugins.load("suites", "easy") == {"episodes": 3}


def test_a_broken_app_takes_no_other_away_and_is_named_when_something_is_missing(install_package):
    install_package("broken_shop", "import no_such_module\n", "[palaestra.apps]\nbroken = broken_shop:APP\n")
    install_package("wrong_shop", "APP = 5\n", "[palaestra.apps]\nwrong = wrong_shop:APP\n")
    assert "discover" in plugins.names("commands")
    with pytest.raises(NotFound, match="No game named 'shop-v0'") as failed:
        plugins.load("games", "shop-v0")
    assert "The app 'broken' (broken_shop:APP) cannot be imported" in failed.value.hint
    assert "The app 'wrong' (wrong_shop:APP) is a int, not an App." in failed.value.hint


@pytest.mark.parametrize(
    ("old", "kind", "new"),
    [
        ("sinks", "loggers", "'palaestra.loggers'"),
        ("suites", "suites", "'suites' of an App"),
        ("guests", "external_policies", "'external_policies' of an App"),
    ],
)
def test_an_old_group_is_still_read_and_the_note_names_the_new_one(install_package, caplog, old, kind, new):
    install_package("old_shop", "", f"[palaestra.{old}]\nmine = math:pi\n")
    with caplog.at_level(logging.WARNING):
        assert plugins.load(kind, "mine") == pytest.approx(3.14159, abs=1e-4)
        assert "mine" in plugins.names(kind)
    (note,) = [record.getMessage() for record in caplog.records]
    assert f"'palaestra.{old}' is deprecated: use" in note
    assert new in note


def test_our_own_plugins_use_no_other_groups(request):
    project = tomllib.loads((request.config.rootpath / "pyproject.toml").read_text())["project"]
    assert {group.removeprefix("palaestra.") for group in project["entry-points"]} <= set(plugins.GROUPS)
    assert len(plugins.GROUPS) <= 8
