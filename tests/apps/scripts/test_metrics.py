import pytest

from palaestra.apps.scripts.metrics import ScriptMetrics


def test_scalars_of_one_step_are_one_sample_and_timings_are_separated():
    samples = ScriptMetrics().take(
        [
            ["scalar", "losses/a", 1.0, 8, 1.0],
            ["scalar", "charts/SPS", 99.0, 8, 2.0],
            ["scalar", "losses/a", 2.0, 16, 3.0],
        ]
    )
    assert [(one.step, one.metrics, one.timings) for one in samples] == [
        (8, {"losses/a": 1.0}, {"charts/SPS": 99.0}),
        (16, {"losses/a": 2.0}, {}),
    ]


def test_episodes_are_stored_with_the_number_of_their_environment():
    metrics = ScriptMetrics()
    (sample,) = metrics.take([["episode", 3, 20.0, 20, True, 40, 1.0]])
    (episode,) = sample.episodes
    assert (episode.env_index, episode.total_reward, episode.length, episode.terminated) == (3, 20.0, 20, True)
    assert (metrics.episodes, metrics.average_return, metrics.step) == (1, 20.0, 40)
    assert sample.metrics == {"charts/episodic_return": 20.0, "charts/episodic_length": 20.0}


def test_a_return_that_the_script_logs_itself_is_not_logged_twice():
    metrics = ScriptMetrics()
    metrics.take([["scalar", "charts/episodic_return", 5.0, 8, 1.0]])
    (sample,) = metrics.take([["episode", 0, 7.0, 7, False, 16, 1.0]])
    assert sample.metrics == {}
    assert len(sample.episodes) == 1


def test_an_episode_from_another_process_has_the_last_known_step():
    metrics = ScriptMetrics()
    (sample,) = metrics.take([["heartbeat", 64, 1.0], ["episode", 0, 1.0, 1, True, -1, 1.0]])
    assert sample.step == 64


def test_the_pace_is_that_of_the_last_seconds():
    metrics = ScriptMetrics()
    metrics.take([["heartbeat", 100 * second, float(second)] for second in range(20)])
    assert metrics.steps_per_second == pytest.approx(100)
    metrics.take([["heartbeat", 1900, 19.0 + second] for second in range(1, 20)])
    assert metrics.steps_per_second == 0


def test_numbers_that_are_not_finite_are_left_out_and_remembered():
    metrics = ScriptMetrics()
    assert (
        metrics.take([["scalar", "losses/a", float("nan"), 8, 1.0], ["episode", 0, float("inf"), 3, True, 8, 1.0]])
        == []
    )
    assert metrics.not_finite == {"losses/a", "the return of an episode"}


def test_the_last_step_is_the_one_at_which_the_script_ended():
    metrics = ScriptMetrics()
    assert (
        metrics.take([["heartbeat", 90, 1.0], ["saved", "finished", "/x", 96, {}], ["ended", "finished", "", 100, 4]])
        == []
    )
    assert metrics.step == 100
