"""Medians, ratios, page and picture of a comparison that was made up."""

from xml.etree import ElementTree as ET

from peers.catalogue import CATALOGUE, OURS, PEERS, Target
from peers.page import page
from peers.plot import plot
from peers.running import Measurement
from peers.settings import SETTINGS
from peers.summary import TARGETS, Block, ratio, rows_of

MACHINE = {"cpu": "a processor", "cores": 2, "python": "3.11"}


def measured(peer, speed, setting="cleanrl", **more):
    given = {"start_seconds": 2.0, "memory_mb": 100.0, "cpu_seconds": 10.0, "process_seconds": 5.0, **more}
    return Measurement(peer, setting, speed, **given)


def block(*rounds, setting="cleanrl", **more):
    return Block(setting, "2026-01-02", 0.1, 10.0, tuple(rounds), **more)


def three_rounds():
    """A machine that is half as fast in the second round: speeds say little, ratios the same each time."""
    return block(
        (measured(OURS, 6000.0), measured("sb3", 100.0)),
        (measured(OURS, 3000.0), measured("sb3", 50.0)),
        (measured(OURS, 8000.0), measured("sb3", 100.0)),
    )


def test_ratios_are_taken_within_a_round():
    assert ratio(three_rounds(), Target("sb3", "cleanrl", 1)) == 60.0


def test_medians_extremes_and_cores_of_a_peer():
    ours, theirs = rows_of(three_rounds())
    assert (ours.steps_per_second, ours.slowest, ours.fastest) == (6000.0, 3000.0, 8000.0)
    assert (theirs.ours_over, theirs.cores_used, theirs.failed) == (60.0, 2.0, "")


def test_a_round_in_which_one_failed_counts_for_neither():
    failed = Measurement("sb3", "cleanrl", failed="ended with 1: out of memory")
    made_up = block((measured(OURS, 900.0), failed), (measured(OURS, 100.0), measured("sb3", 50.0)))
    assert ratio(made_up, Target("sb3", "cleanrl", 1)) == 2.0
    assert rows_of(made_up)[1].failed == "ended with 1: out of memory"
    assert "Stable-Baselines3 failed at least once: ended with 1: out of memory" in page([made_up], MACHINE)


def test_of_times_to_a_score_the_smaller_is_the_better():
    made_up = block(
        (measured(OURS, None, solved_seconds=2.0), measured("jax", None, solved_seconds=24.0)), setting="solve"
    )
    assert ratio(made_up, Target("jax", "solve", 10, quantity="solved_seconds")) == 12.0
    assert "| JAX, whole loop compiled | **24.0** | - | 1 of 1 | 12.0 |" in page([made_up], MACHINE)


def test_one_that_never_solved_it_has_no_ratio():
    made_up = block((measured(OURS, None, solved_seconds=2.0), measured("jax", None)), setting="solve")
    assert ratio(made_up, Target("jax", "solve", 10, quantity="solved_seconds")) is None
    assert "0 of 1" in page([made_up], MACHINE)


def test_the_page_evaluates_every_promise():
    text = page([three_rounds()], MACHINE)
    lines = [line for line in text.splitlines() if line.endswith((" reached |", "missed** |", "not measured |"))]
    assert len(lines) == len(TARGETS)
    assert "| Palaestra | Stable-Baselines3 | cleanrl | 60 | 60.00 | reached |" in lines
    slow = block((measured(OURS, 590.0), measured("sb3", 10.0)))
    assert "| cleanrl | 60 | 59.00 | **missed** |" in page([slow], MACHINE)


def test_a_peer_that_could_not_be_installed_stands_there_with_the_reason():
    made_up = block((measured(OURS, 100.0),), absent={"puffer": "it cannot be installed: no compiler"})
    assert "PufferLib 3.0 did not take part: it cannot be installed: no compiler" in page([made_up], MACHINE)


def test_the_frame_is_xml_with_a_bar_for_every_speed_longer_for_the_faster():
    frame = ET.fromstring(plot([three_rounds()]))
    bars = [float(one.get("width")) for one in frame.iter("{http://www.w3.org/2000/svg}rect")]
    assert len(bars) == 2
    assert bars[0] > 2 * bars[1]
    ET.fromstring(plot([]))


def test_promises_and_peers_name_what_there_is():
    assert {name for peer in CATALOGUE for name in peer.settings} == set(SETTINGS)
    for target in TARGETS:
        assert target.setting in PEERS[target.side].settings & PEERS[target.against].settings
