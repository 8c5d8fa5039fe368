from __future__ import annotations

from dataclasses import replace

import pytest

from palaestra.config.sweep import SweepConfig
from palaestra.core.errors import NotFound, UsageError
from palaestra.core.run import RunState
from palaestra.runs.documents import read_request
from palaestra.runs.store import RunStore
from palaestra.sweeps import search as module
from palaestra.sweeps.methods import open_method
from palaestra.sweeps.plan import plan_sweep
from palaestra.sweeps.scheduler import run_trials
from palaestra.sweeps.search import Search, find_trial, run_sweep
from palaestra.sweeps.store import SweepStore, Trial, TrialState

FINISHED, FAILED = RunState.FINISHED, RunState.FAILED


def plan(**requested):
    return plan_sweep(
        SweepConfig(
            **{
                "name": "lr",
                "parameters": {"ppo.gamma": "0.1,0.2,0.3,0.4"},
                "settings": {"total_steps": 1000},
                **requested,
            }
        )
    )


def good(_name, config):
    """Worth what its discount is."""
    return FINISHED, config.ppo.gamma, 0


@pytest.fixture
def swept(tmp_path, fake_slots, monkeypatch):
    """Run a plan with trials that end as `fate` says; gives the outcome and the slots."""

    def run(requested, fate=good, slots=2, **options):
        runner = fake_slots(tmp_path / "runs", fate, slots)
        monkeypatch.setattr(module, "find_slots", lambda executor: lambda wanted: runner)
        return run_sweep(requested, tmp_path / "runs", **options), runner

    return run


def test_every_trial_is_an_ordinary_run_that_knows_where_it_comes_from(swept, tmp_path):
    outcome, runner = swept(plan())
    assert outcome.exit_code == 0
    assert [trial.value for trial in outcome.trials] == [0.1, 0.2, 0.3, 0.4]
    assert outcome.best.settings == {"ppo.gamma": 0.4}
    assert runner.started == ["lr-t1", "lr-t2", "lr-t3", "lr-t4"]
    assert runner.most == 2
    request = read_request(RunStore(tmp_path / "runs").named("lr-t3"))
    assert request.submitted_by == "sweep:lr:3"
    assert "run=lr-t3" in request.command
    assert "ppo.gamma=0.3" in request.command


def test_the_lowest_is_best_where_that_is_requested(swept):
    assert swept(plan(direction="minimize"))[0].best.number == 1


def test_a_failed_trial_is_stored_with_its_reason_and_the_others_go_on(swept):
    outcome, _ = swept(plan(), lambda name, config: (FAILED, 0.0, 1) if name == "lr-t2" else good(name, config))
    assert [trial.state for trial in outcome.trials] == ["finished", "failed", "finished", "finished"]
    assert outcome.trials[1].reason == "it broke"
    assert outcome.exit_code == 0


def test_a_sweep_in_which_all_fails_has_failed(swept):
    outcome, _ = swept(plan(), lambda name, config: (None, 0.0, 2))
    assert {trial.reason for trial in outcome.trials} == {"no luck"}
    assert (outcome.best, outcome.exit_code) == (None, 1)


def test_a_trial_that_is_lost_for_good_is_named_fails_the_sweep_and_goes_on_the_next_time(swept):
    lines = []

    def lost(name, config):
        return (None, 0.0, -9) if name == "lr-t2" else good(name, config)

    outcome, runner = swept(plan(), lost, say=lines.append)
    assert [trial.state for trial in outcome.trials] == ["finished", "lost", "finished", "finished"]
    assert outcome.trials[1].reason == "no luck"
    assert (outcome.best.number, outcome.exit_code) == (4, 1)
    assert runner.started.count("lr-t2") == 4
    assert lines.count("trial 2 starts again from its last checkpoint: no luck") == 3
    again, runner = swept(plan())
    assert runner.started == ["lr-t2"]
    assert ({trial.state for trial in again.trials}, again.exit_code) == ({"finished"}, 0)


def test_a_run_without_the_metric_is_a_failed_trial_not_a_zero(swept):
    outcome, _ = swept(plan(metric="charts/elsewhere"))
    assert {trial.state for trial in outcome.trials} == {TrialState.FAILED}
    assert "charts/elsewhere" in outcome.trials[0].reason


def test_requested_again_nothing_is_run_again(swept):
    first, _ = swept(plan())
    second, runner = swept(plan())
    assert second.trials == first.trials
    assert runner.started == []


def test_more_trials_go_on_where_it_ended(swept):
    requested = {"parameters": {"ppo.gamma": "0.1..0.9"}}
    first, _ = swept(plan(trials=2, **requested))
    more, runner = swept(plan(trials=4, **requested))
    assert more.trials[:2] == first.trials
    assert runner.started == ["lr-t3", "lr-t4"]


def test_the_value_of_a_trial_is_the_mean_over_its_seeds(swept):
    def by_seed(_name, config):
        return FINISHED, float(config.seed), 0

    outcome, runner = swept(plan(seeds="1,2,6"), by_seed)
    assert [trial.value for trial in outcome.trials] == [3.0] * 4
    assert runner.started[:4] == ["lr-t1-s1", "lr-t1-s2", "lr-t1-s6", "lr-t2-s1"]


def test_when_one_seed_of_a_trial_fails_its_others_are_not_begun(swept):
    _, runner = swept(plan(seeds="1..3"), lambda name, config: (FAILED, 0.0, 1), slots=1)
    assert runner.started == ["lr-t1-s1", "lr-t2-s1", "lr-t3-s1", "lr-t4-s1"]


def test_after_a_crash_each_trial_is_there_once(tmp_path, swept, leave, trials_on_disk):
    """Drawn and written down, but: 1 finished meanwhile, 2 half way, 3 never begun."""
    requested = plan()
    directory = SweepStore(tmp_path / "runs").enter(requested.config)
    directory.write_trials([Trial(number, requested.listed[number - 1]) for number in (1, 2, 3)])
    settings = [{"ppo": {"gamma": gamma}, "evaluate_interval": 1} for gamma in (0.1, 0.2)]
    leave("lr-t1", value=0.1, **settings[0])
    leave("lr-t2", RunState.CANCELLED, value=0.2, reached=0.5, **settings[1])
    outcome, runner = swept(requested)
    assert runner.started == ["lr-t2", "lr-t3", "lr-t4"]
    assert [trial.value for trial in outcome.trials] == [0.1, 0.2, 0.3, 0.4]
    assert [one["number"] for one in trials_on_disk(directory)] == [1, 2, 3, 4]


def test_a_stopped_trial_is_still_to_be_done(tmp_path, fake_slots):
    requested = plan()
    directory = SweepStore(tmp_path / "runs").enter(requested.config)
    search = Search(requested, directory, open_method(requested), tmp_path / "runs", lambda _line: None)
    order = search.next_order()
    runner = fake_slots(tmp_path / "runs", lambda name, config: (RunState.CANCELLED, 0.0, 143))
    runner.start(order)
    (end,) = runner.finished(0)
    search.on_result(order, end, was_stopped=True)
    assert directory.read_trials() == [Trial(1, {"ppo.gamma": 0.1})]


def test_another_run_with_the_name_of_a_trial_is_refused_before_anything_starts(tmp_path, swept, leave):
    leave("lr-t2")
    with pytest.raises(UsageError, match="run 'lr-t2' exists"):
        swept(plan())
    assert len(RunStore(tmp_path / "runs").list()) == 1


def test_the_hopeless_are_stopped_and_stay_stopped(tmp_path, fake_slots, leave):
    requested = plan(prune=True)
    directory = SweepStore(tmp_path / "runs").enter(requested.config)
    trials = [Trial(number, requested.listed[number - 1]) for number in (1, 2, 3, 4)]
    curves = {1: 5.0, 2: 6.0, 3: 7.0}
    for number, value in curves.items():
        trials[number - 1] = replace(trials[number - 1], state=TrialState.FINISHED, value=value, curve={2: value})
    directory.write_trials(trials)
    search = Search(requested, directory, open_method(requested), tmp_path / "runs", lambda _line: None)
    assert search.next_order().name == "lr-t4"
    leave("lr-t4", RunState.CANCELLED, value=1.0, reached=0.2, ppo={"gamma": 0.4}, evaluate_interval=1)
    assert "lr-t4" in search.names_to_stop()
    last = directory.read_trials()[3]
    assert (last.state, last.value, list(last.curve)) == (TrialState.PRUNED, pytest.approx(0.2), [1, 2])
    runner = fake_slots(tmp_path / "runs", good)
    again = Search(requested, directory, open_method(requested), tmp_path / "runs", lambda _line: None)
    assert run_trials(runner, again) == 0
    assert runner.started == []


def test_suggestions_that_do_not_go_together_fail_alone(swept):
    """Optuna is not told of the rule between horizon and minibatch; trials that break it are no runs."""
    requested = plan(
        method="optuna",
        trials=4,
        parameters={"ppo.horizon": "128,100", "ppo.minibatch_size": "128,100"},
    )
    outcome, runner = swept(requested)
    states = {
        (trial.settings["ppo.horizon"], trial.settings["ppo.minibatch_size"]): trial.state for trial in outcome.trials
    }
    assert states == {(128, 128): "finished", (128, 100): "failed", (100, 128): "failed", (100, 100): "finished"}
    assert len(runner.started) == 2


@pytest.fixture
def root(tmp_path):
    for name, values in (("lr", (5.0, 9.0, None)), ("unfinished", (None, None, None))):
        requested = SweepConfig(
            name=name, recipe="cartpole", parameters={"ppo.gamma": "0.1,0.2,0.3"}, settings={"total_steps": 1000}
        )
        plan = plan_sweep(requested)
        SweepStore(tmp_path).enter(plan.config).write_trials(
            [
                Trial(number, plan.listed[number - 1], TrialState.FINISHED if value else TrialState.FAILED, value)
                for number, value in enumerate(values, start=1)
            ]
        )
    return tmp_path


@pytest.mark.parametrize(
    ("selector", "sweep", "trial", "gamma"),
    [
        ("lr:best", "", "lr:2", 0.2),
        ("best", "lr", "lr:2", 0.2),
        ("lr:3", "", "lr:3", 0.3),
        ("1", "lr", "lr:1", 0.1),
        ("lr:1", "lr", "lr:1", 0.1),
        ("2", "", "unfinished:2", 0.2),
    ],
)
def test_a_trial_is_found_with_all_its_settings(root, selector, sweep, trial, gamma):
    origin = find_trial(root, selector, sweep)
    assert (origin.trial, origin.recipe) == (trial, "cartpole")
    assert origin.settings == {"total_steps": 1000, "ppo.gamma": gamma}


@pytest.mark.parametrize(
    ("selector", "sweep", "error", "said"),
    [
        ("lr:4", "", NotFound, "has no trial '4'"),
        ("lr:0", "", NotFound, "has no trial '0'"),
        ("lr:bets", "", NotFound, "has no trial 'bets'"),
        ("ls:1", "", NotFound, "No sweep named 'ls'"),
        ("bets", "", UsageError, "Invalid trial: 'bets'"),
        ("unfinished:best", "", NotFound, "is finished"),
        ("lr:1", "unfinished", UsageError, "names one sweep"),
    ],
)
def test_a_missing_trial_is_refused(root, selector, sweep, error, said):
    with pytest.raises(error) as caught:
        find_trial(root, selector, sweep)
    assert said in str(caught.value)
