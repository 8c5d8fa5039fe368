from __future__ import annotations

import itertools
from dataclasses import fields, replace

import pytest

from palaestra.config.train import TrainConfig
from palaestra.core.evaluation import EvaluationPlan, EvaluationReport, SuiteReport
from palaestra.core.reports import PpoStats
from palaestra.loggers.samples import evaluation_sample_of, sample_of, task_metric
from palaestra.training.state import new_training_state
from palaestra.training.trainer import train


def test_episode_means_are_means_over_the_episodes_that_ended(report_maker, episode_maker):
    report = report_maker(3, (episode_maker(10.0, 1100, length=4), episode_maker(20.0, 1200, length=8)))
    sample = sample_of(report, steps_per_second=99.0, at=5.0)
    assert sample.step == 1536
    assert sample.metrics["charts/episodic_return"] == 15.0
    assert sample.metrics["charts/episodic_length"] == 6.0
    assert sample.episodes == report.episodes
    assert sample.at == 5.0


def test_without_an_episode_its_metrics_are_absent_not_zero(report_maker):
    sample = sample_of(report_maker(1), steps_per_second=1.0, at=0.0)
    assert not [name for name in sample.metrics if "episodic" in name]


def test_every_statistic_of_an_update_becomes_a_metric(report_maker):
    sample = sample_of(report_maker(1), steps_per_second=1.0, at=0.0)
    expected = {field.name for field in fields(PpoStats)} - {"minibatches"}
    assert {name.split("/")[1] for name in sample.metrics} == expected
    assert sample.metrics["charts/learning_rate"] == 2.5e-4
    assert sample.metrics["losses/approx_kl"] == 0.003


def test_what_differs_between_two_equal_runs_is_stored_out_of_the_metrics(report_maker):
    slow = sample_of(report_maker(1), steps_per_second=1.0, at=0.0)
    fast = sample_of(report_maker(1), steps_per_second=1e6, at=9.0)
    assert slow.metrics == fast.metrics
    assert set(slow.timings) == {"charts/SPS", "time/rollout", "time/learn", "time/other"}


def test_an_evaluation_is_a_sample_at_the_step_that_was_evaluated(episode_maker):
    plan = EvaluationPlan(checkpoint="x:1", env_id="CartPole-v1", env_kwargs={}, seeds=(1, 2))
    report = EvaluationReport(plan, (episode_maker(400.0, 0), episode_maker(500.0, 0)), seconds=2.0)
    sample = evaluation_sample_of(SuiteReport((report,), 2.0), step=77, at=1.0)
    assert (sample.step, sample.metrics["eval/episodic_return"]) == (77, pytest.approx(450.0))
    assert sample.timings == {"time/evaluation": 2.0}


def test_a_task_is_known_by_its_place_in_the_name_and_not_by_what_the_name_contains():
    """Trap 27: `shared` is no share, and a task may be called like a figure."""
    assert task_metric("tasks/shared/return", "share") == ""
    assert task_metric("tasks/share/return", "share") == ""
    assert task_metric("tasks/share/share", "share") == "share"
    assert task_metric("my_tasks/easy/share", "share") == ""


def test_a_tasks_name_is_read_off_its_metric():
    assert task_metric("tasks/easy/share", "share") == "easy"
    assert task_metric("tasks/easy/return", "share") == ""
    assert task_metric("charts/easy/share", "share") == ""
    assert task_metric("tasks/completed", "share") == ""


def judgement(*simulations, episode_maker):
    """A suite of (name, returns); the figure `heart` is a tenth of a return."""
    reports = []
    for name, returns in simulations:
        plan = EvaluationPlan("x:1", "CartPole-v1", {}, tuple(range(len(returns))), simulation=name)
        episodes = tuple(replace(episode_maker(value, 0, length=5), extras={"heart": value / 10}) for value in returns)
        reports.append(EvaluationReport(plan, episodes, 1.0))
    return SuiteReport(tuple(reports), 2.0)


def test_of_several_simulations_each_has_its_names_and_the_score_weighs_them_alike(episode_maker):
    report = judgement(("plain", [10.0]), ("rooms", [20.0, 40.0, 60.0]), episode_maker=episode_maker)
    assert evaluation_sample_of(report, step=7, at=0.0).metrics == {
        "eval/episodic_return": 25.0,
        "eval/episodic_length": 5.0,
        "eval/plain/episodic_return": 10.0,
        "eval/plain/episodic_length": 5.0,
        "eval/plain/heart": 1.0,
        "eval/rooms/episodic_return": 40.0,
        "eval/rooms/episodic_length": 5.0,
        "eval/rooms/heart": 4.0,
    }


def test_a_single_simulation_has_the_plain_names_whatever_it_is_called(episode_maker):
    report = judgement(("plain", [10.0, 30.0]), episode_maker=episode_maker)
    metrics = evaluation_sample_of(report, step=7, at=0.0).metrics
    assert metrics == {"eval/episodic_return": 20.0, "eval/episodic_length": 5.0, "eval/heart": 2.0}


def test_figures_of_episodes_are_means_over_those_that_have_them(report_maker, episode_maker):
    messages = [{"heart": 1.0, "ore": 4.0}, {"heart": 2.0}, {}]
    episodes = tuple(replace(episode_maker(1.0, 10), extras=extras) for extras in messages)
    metrics = sample_of(report_maker(1, episodes), steps_per_second=1.0, at=0.0).metrics
    assert (metrics["episode/heart"], metrics["episode/ore"]) == (1.5, 4.0)
    silent = sample_of(report_maker(1, (episode_maker(1.0, 10),)), steps_per_second=1.0, at=0.0).metrics
    assert not [name for name in silent if name.startswith("episode/")]


def test_a_figure_that_is_called_like_one_of_ours_does_not_take_its_place(episode_maker):
    report = judgement(("plain", [10.0]), episode_maker=episode_maker)
    (one,) = report.reports
    odd = replace(one, episodes=(replace(one.episodes[0], extras={"episodic_return": -1.0}),))
    assert evaluation_sample_of(SuiteReport((odd,), 1.0), 7, 0.0).metrics["eval/episodic_return"] == 10.0


# Tags of CleanRL's dqn.py, pqn.py, sac_continuous_action.py and td3_continuous_action.py, without SPS and episodes.
CLEANRL_TAGS = {
    "dqn": {"losses/td_loss", "losses/q_values"},
    "pqn": {"losses/td_loss", "losses/q_values"},
    "sac": {
        *(f"losses/qf{number}_{figure}" for number in (1, 2) for figure in ("values", "loss")),
        "losses/qf_loss",
        "losses/actor_loss",
        "losses/alpha",
        "losses/alpha_loss",
    },
    "td3": {
        *(f"losses/qf{number}_{figure}" for number in (1, 2) for figure in ("values", "loss")),
        "losses/qf_loss",
        "losses/actor_loss",
    },
}


@pytest.mark.parametrize("algorithm", CLEANRL_TAGS)
def test_metrics_have_the_tags_of_cleanrls_script_of_the_same_algorithm(algorithm):
    settings = {"learning_starts": 8, "steps_per_iteration": 16, "batch_size": 4, "train_interval": 1}
    if algorithm == "pqn":
        settings = {"env_count": 2, "horizon": 8, "minibatch_size": 8}
    config = TrainConfig(
        algorithm=algorithm,
        total_steps=64,
        env={"id": "CartPole-v1" if algorithm in ("dqn", "pqn") else "Pendulum-v1"},
        policy={"graph": "mlp", "settings": {"hidden": [8]}},
        engine="torch",
        **{algorithm: settings},
    )
    state = new_training_state(config)
    (report,) = itertools.islice(train(state), 1)
    state.envs.close()
    assert CLEANRL_TAGS[algorithm] <= set(sample_of(report, 1.0, 0.0).metrics)
