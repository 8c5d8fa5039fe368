import pytest
import script_mosaic

RESULT = {
    "script": "ppo.py",
    "env": "CartPole-v1",
    "cores": 2,
    "load_before": 0.1,
    "segment": 15.0,
    "slots": 2,
    "first_frames": {0: 1.5, 1: 2.5},
    "rounds": [{"alone": 101.0, "watched": 100.0, "frames_per_second": 9.0}] * 3,
    "own_cost": 0.002,
}


def test_the_page_says_when_all_tiles_are_there_how_often_they_change_and_what_it_costs():
    text = script_mosaic.page(RESULT)
    assert "| every tile has a frame after | 2.5 s |" in text
    assert "| frames/s, all tiles together | 9.0 |" in text
    assert "| slower with a viewer | +1.00% (+1.00% to +1.00%) |" in text
    assert "| by the run's own account | 0.20% of its time |" in text


def test_segments_are_compared_with_their_neighbours():
    """A machine that becomes slower by half between two rounds is no cost of watching."""
    rounds = [{"alone": 110.0, "watched": 100.0}, {"alone": 55.0, "watched": 50.0}]
    assert script_mosaic.slower(rounds)[0] == pytest.approx(0.1)


@pytest.mark.slow
@pytest.mark.full
def test_a_small_try_with_a_script_of_the_tests(tmp_path, monkeypatch):
    monkeypatch.setattr(script_mosaic, "SETTLE_SECONDS", 0.5)
    script = script_mosaic.ROOT / "tests" / "apps" / "scripts" / "scripts" / "ppo.py"
    found = script_mosaic.measure(script, "", {"num_envs": 3}, rounds=1, segment=3.0)
    assert (found["slots"], set(found["first_frames"])) == (3, {0, 1, 2})
    assert found["rounds"][0]["alone"] > 0
