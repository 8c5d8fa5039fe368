import pytest

from palaestra.cli.playback import SPEEDS, Playback


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
