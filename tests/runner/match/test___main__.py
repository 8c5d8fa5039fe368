from __future__ import annotations

import io
import json
import queue

import palaestra.testing.crowd  # noqa: F401  registers it, as the entry point does
from palaestra.config.env import EnvConfig
from palaestra.rendering.frame_buffer import VARIABLE, all_frame_buffers
from palaestra.runner.match.__main__ import MatchController, main, read_commands

POLE = EnvConfig(id="CartPole-v1", max_episode_steps=40)


class CountingDisplay:
    """A display that only counts."""

    shown = 0

    def show(self, _seats):
        self.shown += 1

    def refresh(self, _seats):
        pass


def control(match, pace, *given):
    commands = queue.SimpleQueue()
    for command in [*given, None]:
        commands.put(command)
    display = CountingDisplay()
    MatchController(match, display, pace, commands).run()
    return display.shown


def test_without_a_pace_the_environment_waits_for_each_key(runs):
    runs.save("first", POLE, 3)
    match = runs.match({"player": "person", "others": "first:3"}, seed=1)
    assert control(match, 0, {"action": 1}, {"action": 0}, {"action": 1}) == 3
    assert match.seats[0].length == 3
    match.close()


def test_a_paused_match_does_not_step_and_again_restarts_it_with_that_seed(runs):
    runs.save("first", POLE, 3)
    match = runs.match({"player": "first:3"}, seed=1)
    control(match, 0, {"paused": True}, {"pace": 60}, {"again": 9}, {})
    assert match.seats[0].seed == 9
    assert match.seats[0].length <= 1
    match.close()


def test_with_a_pace_the_environment_steps_by_itself(runs):
    runs.save("first", POLE, 3)
    match = runs.match({"player": "first:3"}, seed=1)
    assert control(match, 60.0, *({} for _ in range(5))) >= 1
    assert match.seats[0].length >= 1
    match.close()


def test_reading_commands_ends_with_the_input():
    given = queue.SimpleQueue()
    read_commands(io.StringIO('{"action": 1}\n'), given)
    assert [given.get(), given.get()] == [{"action": 1}, None]


def test_the_process_reports_why_it_cannot_play_and_leaves_no_frame_buffer(runs, tmp_path, monkeypatch):
    (tmp_path / "buffers").mkdir()
    monkeypatch.setenv(VARIABLE, str(tmp_path / "buffers"))
    out = io.StringIO()
    start = {"frame_buffer": "m1", "runs": str(runs.root), "plan": {"seats": [{"player": "nobody:best"}]}}
    assert main(io.StringIO(json.dumps(start) + "\n"), out) == 3
    assert "nobody" in json.loads(out.getvalue().splitlines()[-1])["error"]["message"]
    assert all_frame_buffers() == []


def test_the_process_plays_until_its_input_ends_and_leaves_no_frame_buffer(runs, tmp_path, monkeypatch):
    runs.save("first", POLE, 3)
    (tmp_path / "buffers").mkdir()
    monkeypatch.setenv(VARIABLE, str(tmp_path / "buffers"))
    out = io.StringIO()
    plan = {"seats": [{"player": "person", "others": "first:3"}], "pace": 0}
    start = json.dumps({"frame_buffer": "m1", "runs": str(runs.root), "plan": plan})
    assert main(io.StringIO(f'{start}\n{{"action": 1}}\n'), out) == 0
    assert "ready" in out.getvalue()
    assert all_frame_buffers() == []
