import subprocess
import sys

import pytest

from palaestra.analysis.report import find_and_analyze
from palaestra.core.errors import UsageError


def test_a_policy_is_traced_to_what_made_it(make_run):
    run = make_run("first")
    run.save(3, score=2.0)
    run.judge(3, [1.0, 3.0])
    analysis = find_and_analyze(["first"])
    (policy,) = analysis.policies
    assert (policy.label, policy.run, policy.epoch, policy.agent_step) == ("first:3", run.directory.id, 3, 300)
    assert (policy.seed, policy.score, policy.env, policy.git_commit) == (7, 2.0, "CartPole-v1", "abc123")
    assert analysis.scores.policies[0].mean.value == 2.0
    assert analysis.notes == ()


def test_a_run_that_was_never_evaluated_has_a_note_and_its_curves(make_run):
    run = make_run("first")
    run.save(3)
    run.measure("charts/episodic_return", [(1, 2.0), (2, 3.0)])
    analysis = find_and_analyze(["first"])
    assert analysis.scores.policies == ()
    assert len(analysis.charts) == 1
    assert "first:3: It was never evaluated; its curves are shown." in analysis.notes[0]
    assert "palaestra eval first:3" in analysis.notes[0]


def test_a_run_that_has_saved_nothing_is_reported_plainly(make_run):
    make_run("first")
    assert "saved no checkpoint" in find_and_analyze(["first"]).notes[0]


def test_what_was_left_out_is_reported(make_run):
    run = make_run("first")
    run.judge(1, [1.0, float("nan")])
    assert "1 episodes of 'default' have no finite return" in find_and_analyze(["first"]).notes[0]


def test_policies_without_a_common_simulation_have_no_overall_figures(make_run):
    make_run("one", a=1).judge(1, [1.0], env="A-v0")
    make_run("two", a=2).judge(1, [1.0], env="B-v0")
    assert "No simulation was played by all policies" in find_and_analyze(["one", "two"]).notes[-1]


def test_a_note_names_the_simulations_of_the_overall_figures(make_run):
    run = make_run("one", a=1)
    run.judge(1, [1.0], env="A-v0")
    run.judge(1, [1.0], env="B-v0")
    make_run("two", a=2).judge(1, [1.0], env="B-v0")
    assert find_and_analyze(["one", "two"]).notes[-1].endswith("the simulations that all policies have played: B-v0.")


def test_nothing_is_not_analyzed():
    with pytest.raises(UsageError, match="nothing to analyze"):
        find_and_analyze([])


def test_torch_is_not_loaded_for_what_needs_none():
    code = "import sys, palaestra.analysis.report; sys.exit('torch' in sys.modules or 'gymnasium' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
