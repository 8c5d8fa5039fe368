"""Real processes that play: what they bring, what happens when one of them is killed, and that none is left."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from palaestra.config.env import EnvConfig
from palaestra.core.errors import RunFailed
from palaestra.evaluation.local import LocalEvaluator
from palaestra.evaluation.plans import make_plan, merge_episodes
from palaestra.evaluation.pool import PolicyPoolEvaluator
from palaestra.evaluation.session import evaluate_target
from palaestra.evaluation.targets import load_policy_target

pytestmark = pytest.mark.slow  # each process imports torch


def is_gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


@pytest.fixture
def target(trained_run):
    return load_policy_target("judged:3", trained_run.root)


def plan_of(trained_run, episodes=12, **settings):
    return make_plan("judged:3", trained_run.env, **{"episodes": episodes, "seed": 30, **settings})


def test_two_processes_give_the_results_of_one_also_after_a_kill(trained_run, target, caplog):
    plan = plan_of(trained_run, episodes=40, deterministic=False)
    alone = tuple(LocalEvaluator(target.loaded).evaluate(plan))
    with PolicyPoolEvaluator(target, 2) as pool:
        pids = pool.pids
        assert merge_episodes(plan, pool.evaluate(plan, lambda: False), 1.0).episodes == alone
        coming = pool.evaluate(plan, lambda: False)
        came = [next(coming)]
        os.kill(pids[0], signal.SIGKILL)
        came += list(coming)
        assert sorted(episode.seed for episode in came) == sorted(plan.seeds), "each exactly once"
        assert merge_episodes(plan, came, 1.0).episodes == alone
        assert [record.getMessage() for record in caplog.records] == [
            "Evaluation process 1 of 2 died; the others play its episodes."
        ]
        assert is_gone(pids[0])
    assert all(is_gone(pid) for pid in pids)


def test_the_death_of_all_processes_is_an_error_and_a_stop_leaves_none(trained_run, target):
    plan = plan_of(trained_run)
    with PolicyPoolEvaluator(target, 1) as pool:
        (pid,) = pool.pids
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(RunFailed, match="All 1 processes .* died without an error message"):
            list(pool.evaluate(plan, lambda: False))
    with PolicyPoolEvaluator(target, 1) as pool:
        (pid,) = pool.pids
        came = []
        for episode in pool.evaluate(plan_of(trained_run, episodes=2000), lambda: len(came) > 0):
            came.append(episode)  # noqa: PERF402  looked at while it grows
        assert 1 <= len(came) < 2000
        assert is_gone(pid)


def test_an_environment_that_raises_in_a_process_is_named_as_in_one(trained_run, target):
    odd = EnvConfig(id="CartPole-v1", kwargs={"nonsense": 1})
    with PolicyPoolEvaluator(target, 1) as pool, pytest.raises(RunFailed, match="nonsense") as raised:
        list(pool.evaluate(make_plan("judged:3", odd, episodes=2, seed=0), lambda: False))
    assert raised.value.exit_code == 2


@pytest.mark.full
def test_an_evaluation_by_two_processes_is_written_down_like_any_other(trained_run):
    one = evaluate_target("judged:3", trained_run.root, episodes=5, seed=10)
    two = evaluate_target("judged:3", trained_run.root, episodes=5, seed=10, workers=2)
    assert one.episodes == two.episodes
    assert trained_run.score(3) == two.mean
