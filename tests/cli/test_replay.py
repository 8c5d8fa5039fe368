from __future__ import annotations

import gzip
import json
import re
import shutil
import sys

import numpy as np
import pytest

from palaestra.apps.arena.reference import World
from palaestra.apps.arena.replay import ReplayRecorder
from palaestra.apps.arena.settings import ArenaSettings
from palaestra.cli.replay import SPEEDS, Playback

STEPS = 30


@pytest.fixture(scope="session")
def recorded(tmp_path_factory):
    """Two agents at random; the last state as text is known from the world itself."""
    settings = ArenaSettings(agents=2, width=9, height=7, max_steps=STEPS, altar={"count": 0}, generator={"count": 1})
    world, rng = World(settings, 3), np.random.default_rng(0)
    with ReplayRecorder(tmp_path_factory.mktemp("replay") / "4-seed3.json.gz", settings, 3, {"epoch": 4}) as recorder:
        recorder.add(world.state())
        while not world.is_over:
            rewards = world.step(rng.integers(0, 6, 2).tolist())
            recorder.add(world.state(), rewards)
    return recorder.path


@pytest.fixture
def in_run(runs, recorded):
    """The run called first has one replay."""
    target = (runs / "by-name" / "first").resolve() / "replays" / recorded.name
    shutil.copy(recorded, target)
    return target


@pytest.fixture
def watch(terminal_of, tmp_path):
    def start(*words, **settings):
        return terminal_of([sys.executable, "-m", "palaestra", "replay", *map(str, words)], tmp_path, **settings)

    return start


def test_without_a_terminal_it_is_summed_up_and_its_last_state_shown(call, recorded):
    code, out, err = call("replay", str(recorded))
    assert (code, err) == (0, "")
    assert re.search(r"^steps +30$", out, re.MULTILINE)
    assert re.search(r"^agents +2$", out, re.MULTILINE)
    assert re.search(r"^heart_held +0$", out, re.MULTILINE)
    assert out.count("##################") == 2
    assert "\x1b" not in out


def test_another_state_can_be_requested(call, recorded):
    first, last = (call("replay", str(recorded), *step)[1] for step in (["--step", "0"], []))
    assert first != last
    assert call("replay", str(recorded), "--step", str(STEPS))[1] == last


def test_json_is_one_object(call, recorded):
    code, out, _ = call("replay", str(recorded), "--json")
    summary = json.loads(out)
    assert code == 0
    assert (summary["steps"], summary["agents"], summary["seed"], summary["epoch"]) == (STEPS, 2, 3, 4)
    assert summary["file"] == str(recorded)


def test_of_a_run_the_newest_is_taken(call, in_run):
    for target in ("first", "runs/by-name/first", str(in_run.parent.parent)):
        assert json.loads(call("replay", target, "--json")[1])["file"] == str(in_run)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["replay"], 2, "arguments are required"),
        (["replay", "nobody"], 3, "No run named 'nobody'"),
        (["replay", "second"], 3, "has no replay"),
        (["replay", "nothing.json.gz"], 3, "does not exist: nothing.json.gz"),
        (["replay", "first", "--step", "31"], 2, "has steps 0 to 30"),
        (["replay", "first", "--speed", "0"], 2, "Invalid value for --speed: 0"),
        (["replay", "first", "--speed", "nan"], 2, "Invalid value for --speed: nan"),
        (["replay", "notes.txt"], 1, "cannot be unpacked"),
    ],
)
def test_what_cannot_be_shown_is_refused(call, in_run, workplace, words, code, message):
    (workplace / "notes.txt").write_text("hello")
    got, out, err = call(*words)
    assert (got, out) == (code, "")
    assert message in err


def test_a_replay_of_a_kind_that_nobody_reads_is_refused_by_its_kind(call, recorded, tmp_path):
    text = gzip.decompress(recorded.read_bytes()).replace(b'"kind":"arena"', b'"kind":"aren"', 1)
    other = tmp_path / "other.json.gz"
    other.write_bytes(gzip.compress(text))
    code, _, err = call("replay", str(other))
    assert code == 3
    assert "No replay named 'aren'. Did you mean 'arena'?" in " ".join(err.split())


def test_in_a_terminal_it_plays_and_keys_steer_it(watch, recorded):
    with watch(recorded, "--speed", "60") as terminal:
        terminal.wait_for(rf"> \[#*-*\] ([1-9]|1\d)/{STEPS}  60/s")
        terminal.wait_for(rf"{STEPS}/{STEPS}  60/s")
        terminal.press("\x1b[D\x1b[D")
        terminal.wait_for(rf"= \[#+-+\] {STEPS - 2}/{STEPS}")
        terminal.press("\x1b[C")
        terminal.wait_for(f"{STEPS - 1}/{STEPS}")
        terminal.press("\x1b[H")
        terminal.wait_for(f" 0/{STEPS}")
        terminal.press("-")
        terminal.wait_for("30/s")
        terminal.press("\t")
        terminal.wait_for("@ followed")
        terminal.press("q")
        assert terminal.wait_for_end() == 0
        assert terminal.is_as_before()


def test_it_begins_at_the_step_requested_and_pauses(watch, recorded):
    with watch(recorded, "--step", "7", "--speed", "0.1") as terminal:
        terminal.wait_for(f"> .* 7/{STEPS}")
        terminal.press(" ")
        terminal.wait_for(f"= .* 7/{STEPS}")
        terminal.press("\x03")
        assert terminal.wait_for_end() == 130
        assert terminal.is_as_before()


@pytest.mark.parametrize(("environment", "has_colors"), [({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True)])
def test_colours_are_left_out_when_nobody_wants_them(watch, recorded, environment, has_colors):
    with watch(recorded, "--speed", "0.1", **environment) as terminal:
        terminal.wait_until(lambda: "q quit" in terminal.text, "a frame")
        assert ("48;2;" in terminal.text) is has_colors


def test_on_a_small_terminal_the_keys_are_still_observed(watch, recorded):
    with watch(recorded, "--speed", "0.1", lines=8, columns=30) as terminal:
        terminal.wait_until(lambda: "q quit" in terminal.text and terminal.text.endswith("\x1b[J"), "a frame")
        assert terminal.text.count("\r\n") <= 7


def after(*keys, **start):
    playback = Playback(**{"length": 10, **start})
    for key in keys:
        playback = playback.pressed(key)
    return playback


def test_time_moves_it_on_to_its_end_and_there_it_rests():
    playback = Playback(length=2)
    assert playback.seconds_until_next == pytest.approx(1 / 8)
    playback = playback.ticked().ticked().ticked()
    assert playback.step == 2
    assert playback.seconds_until_next is None


def test_space_pauses_goes_on_and_begins_anew_at_the_end():
    assert after("space").is_paused
    assert after("space").seconds_until_next is None
    assert not after("space", "space").is_paused
    assert after("space", step=10).step == 0
    assert not after("space", step=10, is_paused=True).is_paused


def test_arrows_step_and_pause_and_stay_within_the_replay():
    assert (after("right").step, after("right").is_paused) == (1, True)
    assert after("right", "right", "left").step == 1
    assert after("left").step == 0
    assert after("right", step=10).step == 10
    assert after("end").step == 10
    assert after("end", "home").step == 0


def test_plus_and_minus_walk_through_the_speeds():
    assert after("+", speed=8).speed == 15
    assert after("-", speed=8).speed == 4
    assert after(*"+" * 20).speed == SPEEDS[-1]
    assert after(*"-" * 20).speed == SPEEDS[0]
    assert after("+", speed=5).speed == 8
    assert after("+", speed=1000).speed == 1000


def test_tab_follows_one_after_the_other():
    assert after().follow is None
    assert after("tab").follow == 0
    assert after("tab", "tab").follow == 1


@pytest.mark.parametrize("key", ["q", "escape", "gone"])
def test_there_is_a_way_out(key):
    assert after(key).is_over


@pytest.mark.parametrize("key", ["x", "redraw", "", "7"])
def test_other_keys_do_nothing(key):
    assert after(key) == after()


@pytest.mark.parametrize("columns", [10, 40, 80])
def test_the_bar_fills_the_line_and_shows_where_one_is(columns):
    for step in (0, 5, 10):
        bar = after(step=step).bar(columns)
        assert f" {step}/10" in bar
        assert len(bar) == max(columns, len(f" {step}/10  8/s") + 5)
    assert "-" not in after(step=10).bar(80).split("]")[0]
    assert "#" not in after(step=0).bar(80).split("]")[0]
    assert after("space").bar(40).startswith("=")


def test_a_replay_of_no_steps_has_a_bar():
    assert "0/0" in Playback(length=0).bar(40)
