from palaestra.apps.arena.game import ArenaGame
from palaestra.apps.arena.replay import ArenaReplay
from palaestra.core import plugins
from palaestra.core.screen import Game, Replay


def public(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


def test_our_own_replay_and_game_offer_what_the_screen_asks_for(tmp_path):
    game = plugins.load("games", "palaestra/Arena-v0")({"width": 9, "height": 9}, 0, 0, None)
    assert isinstance(game, ArenaGame)
    assert public(Game) <= public(game)
    made_in_init = {"length"}
    assert public(Replay) <= public(ArenaReplay) | made_in_init


def test_the_doors_are_found_by_name():
    assert "arena" in plugins.names("replays")
    assert "palaestra/Arena-v0" in plugins.names("games")
