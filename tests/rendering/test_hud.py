from palaestra.rendering.frame_format import Heartbeat, Numbers
from palaestra.rendering.hub import Status
from palaestra.rendering.hud import evaluation_line, run_line, tile_line

HEARTBEAT = Heartbeat(0.0, 12_288, 40, 100, 0.12, 10.0)


def test_the_status_line_of_a_training():
    status = Status("connected", "", 8, HEARTBEAT, 4941.3)
    assert run_line("first", status) == "first | step 12,288 | 4,941 steps/s | live view 1.2%"


def test_the_line_of_an_evaluation_says_so():
    assert run_line("first", Status("connected"), is_evaluation=True) == "first (Eval)"


def test_a_condition_other_than_connected_is_named():
    line = run_line("first", Status("stale", "No step for 15 s.", 8, HEARTBEAT))
    assert line == "first | stale: No step for 15 s. | step 12,288 | live view 1.2%"
    assert run_line("first", Status("unavailable")) == "first | unavailable"


def test_a_tile_has_its_own_numbers():
    assert tile_line(Numbers(5, 1.0, 61.0, 61)) == "reward 1 | return 61 | length 61"


def test_the_line_of_the_last_evaluation_batch_has_the_promised_format():
    batches = [
        {"batch": 2, "episodes": 50, "avg": 1.0, "min": 1.0, "max": 1.0},
        {"batch": 3, "episodes": 50, "avg": 112.34, "min": 90.1, "max": 142.6},
    ]
    assert evaluation_line(batches) == "eval batch 3 | episodes=50 avg=112.3 min=90.1 max=142.6"


def test_a_missing_summary_is_reported():
    assert evaluation_line([]) == "eval | no batch is complete yet"


def test_figures_that_are_missing_are_left_out():
    assert evaluation_line([{"batch": 1, "episodes": 2, "avg": None}]) == "eval batch 1 | episodes=2"
