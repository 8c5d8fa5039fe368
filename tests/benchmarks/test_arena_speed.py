"""The figure is only worth its name while the worlds it counts are really played."""

import json
import sys

import arena_speed
import numpy as np
import pytest


@pytest.mark.parametrize("form", arena_speed.FORMS)
def test_a_game_plays_what_it_counts(form):
    game = arena_speed.Game(form, world_count=1, threads=1)
    before = game.worlds.world_state(0)
    game.play(steps=5)
    after = game.worlds.world_state(0)
    assert after.step == before.step + 5
    assert not np.array_equal(before.agents, after.agents)


def test_actions_change_with_every_step():
    actions = arena_speed.Game("bytes", world_count=1, threads=1).actions
    assert len({each.tobytes() for each in actions}) == arena_speed.PREPARED


def test_the_world_is_the_one_that_the_page_names():
    state = arena_speed.Game("bytes", world_count=1, threads=1).worlds.world_state(0)
    assert (len(state.agents), state.height, state.width, len(state.stations)) == (24, 25, 25, 20)


def test_a_median_is_not_moved_by_one_slow_repeat():
    game = arena_speed.Game("bytes", world_count=1, threads=1)
    found = [{"per_second": speed, "per_cpu_second": speed, "episodes": 1} for speed in (9e6, 1e6, 10e6)]
    assert arena_speed.summary(game, found) == {
        "form": "bytes",
        "threads": 1,
        "per_second": 9e6,
        "slowest": 1e6,
        "fastest": 10e6,
        "per_cpu_second": 9e6,
        "episodes": 3,
    }


def test_the_table_and_the_numbers_are_written_side_by_side(tmp_path, monkeypatch, capsys):
    arguments = ["--worlds", "1", "--steps", "2", "--repeats", "1", "--threads", "1", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["arena_speed.py", *arguments])
    monkeypatch.setattr(arena_speed, "PREPARED", 2)
    arena_speed.main()
    data = json.loads((tmp_path / "arena_speed.json").read_text())
    assert [row["form"] for row in data["rows"]] == ["bytes", "tokens", "box"]
    written = (tmp_path / "arena_speed.md").read_text()
    assert f"**{data['rows'][0]['per_second'] / 1e6:.2f}**" in written
    assert written in capsys.readouterr().out
