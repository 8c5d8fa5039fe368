import dataclasses
import math
import subprocess
import sys

import pytest

from palaestra.apps.arena.game import ArenaGame
from palaestra.apps.arena.replay import ArenaReplay
from palaestra.core import plugins
from palaestra.core.app import App, CommandPlugin, CommandResult, Game, Replay, resolve_reference


def test_apps_commands_and_results_are_frozen():
    plugin = CommandPlugin("says it", ("palaestra a", "palaestra b", "palaestra c"), lambda _parser: None, "a:b")
    for value, name in ((plugin, "work"), (CommandResult({}), "exit_code"), (App(), "games")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(value, name, "other")


def test_a_result_without_an_exit_code_is_a_success():
    assert CommandResult({"a": 1}).exit_code == 0


def public(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


def test_arenas_replay_and_game_implement_the_protocols():
    game = plugins.load("games", "palaestra/Arena-v0")({"width": 9, "height": 9}, 0, 0, None)
    assert isinstance(game, ArenaGame)
    assert public(Game) <= public(game)
    made_in_init = {"length"}
    assert public(Replay) <= public(ArenaReplay) | made_in_init


def test_arenas_replay_and_game_are_found_by_name():
    assert "arena" in plugins.names("replays")
    assert "palaestra/Arena-v0" in plugins.names("games")


def test_a_reference_is_imported_and_an_object_is_used_as_it_is():
    assert resolve_reference("math:pi") == resolve_reference(math.pi) == math.pi
    assert resolve_reference("math") is math


def test_the_modules_of_our_apps_import_no_torch():
    apps = [point.value for point in plugins._group("apps").values()]
    assert len(apps) >= 3
    program = f"""
import sys
from importlib import import_module
for app in {apps}:
    import_module(app.partition(":")[0])
heavy = {{"torch", "gymnasium", "numpy"}} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", program], check=True)
