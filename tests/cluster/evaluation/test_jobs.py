from __future__ import annotations

import fcntl

import pytest

from palaestra.cluster.evaluation import jobs as requesting_module
from palaestra.cluster.evaluation.client import EvaluationResult
from palaestra.cluster.evaluation.jobs import JobRunner, Status, make_jobs, request_evaluations
from palaestra.core.errors import NotFound, RunFailed
from palaestra.core.evaluation import Stopped, SuiteReport
from palaestra.evaluation.local import LocalEvaluator
from palaestra.evaluation.plans import merge_episodes, weights_of
from palaestra.evaluation.session import EvaluationOptions, evaluate_target
from palaestra.evaluation.summary import read_batches
from palaestra.evaluation.targets import load_policy_target
from palaestra.runs.journal import read_journal

RAY_PREFIX = EvaluationOptions(episodes=2)


def orders_of(run, *targets, options=(RAY_PREFIX,), **how):
    return make_jobs(targets, run.root, options, **how)


def test_every_target_is_requested_in_every_suite(trained_run):
    trained_run.save(epoch=10, seed=1)
    orders = orders_of(
        trained_run,
        "judged:all",
        options=[EvaluationOptions(suite="default", episodes=2), EvaluationOptions(suite="cartpole")],
    )
    assert [(order.target.checkpoint.epoch, order.suite) for order in orders] == [
        (3, "default"),
        (3, "cartpole"),
        (10, "default"),
        (10, "cartpole"),
    ]
    assert [order.number for order in orders] == [0, 1, 2, 3]
    assert {order.status for order in orders} == {Status.NEW}
    assert orders[2].request.weights == weights_of(orders[2].target.checkpoint)
    assert [plan.seeds for plan in orders[0].request.plans] == [(1_000_000, 1_000_001)]
    assert (orders[0].episodes, orders[1].episodes) == (2, 20)


def test_the_same_twice_is_sent_once(trained_run):
    trained_run.save(epoch=10, seed=0)  # the weights of epoch 3
    orders = orders_of(trained_run, "judged:3", "judged", "judged:all")
    assert [order.status for order in orders] == [Status.NEW, Status.TWICE, Status.TWICE, Status.TWICE]


def test_what_was_evaluated_before_is_known_with_its_mean_unless_it_is_wanted_again(trained_run):
    before = evaluate_target("judged:3", trained_run.root, episodes=2)
    (known,) = orders_of(trained_run, "judged:3")
    assert (known.status, known.mean) == (Status.KNOWN, before.mean)
    assert [order.status for order in orders_of(trained_run, "judged:3", again=True)] == [Status.NEW]
    (longer,) = orders_of(trained_run, "judged:3", options=[EvaluationOptions(episodes=3)])
    assert longer.status is Status.NEW


def test_an_evaluation_in_the_runs_own_simulations_counts_as_its_score_and_another_does_not(trained_run):
    own, other = orders_of(
        trained_run, "judged:3", options=[RAY_PREFIX, EvaluationOptions(overrides={"env": {"max_episode_steps": 9}})]
    )
    assert (own.options.is_own_suite, other.options.is_own_suite) == (True, False)


def test_a_run_that_does_not_exist_or_has_no_checkpoint_is_refused(trained_run):
    with pytest.raises(NotFound, match="juged"):
        orders_of(trained_run, "juged:all")
    for path in trained_run.directory.checkpoints.iterdir():
        path.unlink()
    with pytest.raises(NotFound, match="no checkpoint"):
        orders_of(trained_run, "judged:all")


class Elsewhere:
    """A RayEvaluator that plays here, when it is asked for answers; what it does to each, `spoil` says."""

    def __init__(self, run, spoil=lambda number, result: result):
        self.run, self.spoil = run, spoil
        self.waiting, self.dropped, self.most, self.count = [], [], 0, 0

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def send(self, request, sidecar, *, trust_module, on_episodes):
        self.count += 1
        self.waiting.append((self.count, request, on_episodes))
        self.most = max(self.most, len(self.waiting))
        return self.count

    def wait(self, seconds):
        pass

    def responses(self):
        played, self.waiting = self.waiting, []
        return [self.spoil(number, self._answer(number, request, observed)) for number, request, observed in played]

    def _answer(self, number, request, on_episodes):
        loaded = load_policy_target(f"judged:{request.epoch}", self.run.root).loaded
        reports = []
        for plan in request.plans:
            episodes = list(LocalEvaluator(loaded).evaluate(plan))
            on_episodes(episodes)
            reports.append(merge_episodes(plan, episodes, 1.0))
        return EvaluationResult(number, request, SuiteReport(tuple(reports), 1.0))

    def cancel(self, number):
        self.dropped.append(number)


@pytest.fixture
def run(trained_run):
    trained_run.save(epoch=10, seed=1)
    return trained_run


def sent_orders_of(run, *suites):
    return make_jobs(
        ["judged:all"], run.root, [EvaluationOptions(suite=suite, episodes=2) for suite in suites or ("",)]
    )


def events_of(run):
    return [entry.event for entry in read_journal(run.directory.journal_file) if entry.event.startswith("eval.")]


def test_what_comes_back_is_written_down_as_if_evaluated_here(run):
    replied = list(JobRunner(Elsewhere(run)).run(sent_orders_of(run)))
    assert [order.status for order in replied] == [Status.DONE, Status.DONE]
    remote = {line["epoch"]: line for line in read_batches(run.directory)}
    for order in replied:
        at_home = evaluate_target(f"judged:{order.target.checkpoint.epoch}", run.root, episodes=2)
        assert order.report.episodes == at_home.episodes
        assert remote[order.target.checkpoint.epoch]["mean"] == at_home.mean == order.mean
        assert run.score(order.target.checkpoint.epoch) == at_home.mean
    assert [line["submitted_by"] for line in read_batches(run.directory)][:2] == ["eval", "eval"]
    assert events_of(run)[:4] == ["eval.started", "eval.started", "eval.batch", "eval.batch"]
    assert len(list(run.directory.tensorboard_eval.iterdir())) == 3, "one for all that came back, one for each at home"


def test_every_order_is_known_the_next_time(run):
    list(JobRunner(Elsewhere(run)).run(sent_orders_of(run, "default", "cartpole")))
    assert {order.status for order in sent_orders_of(run, "default", "cartpole")} == {Status.KNOWN}


def test_a_failure_concerns_one_order_and_is_in_the_journal(run):
    def spoil(number, result):
        return EvaluationResult(1, result.request, None, 0, RunFailed("No luck.")) if number == 1 else result

    failed, done = JobRunner(Elsewhere(run, spoil)).run(sent_orders_of(run))
    assert (failed.status, failed.error, failed.exit_code) == (Status.FAILED, "No luck.", 1)
    assert done.status is Status.DONE
    assert events_of(run).count("eval.failed") == 1
    assert [line["epoch"] for line in read_batches(run.directory)] == [10]


def test_a_part_is_written_down_as_a_part(run):
    def spoil(number, result):
        plan = result.request.plans[0]
        part = merge_episodes(plan, result.report.episodes[:1], 1.0)
        return EvaluationResult(number, result.request, SuiteReport((part,), 1.0), 3, RunFailed("One was lost."))

    for order in JobRunner(Elsewhere(run, spoil)).run(sent_orders_of(run)):
        assert (order.status, order.error, order.exit_code, order.retries) == (Status.PARTIAL, "One was lost.", 1, 3)
    assert [line["complete"] for line in read_batches(run.directory)] == [False, False]
    assert {order.status for order in sent_orders_of(run)} == {Status.NEW}


def test_when_ray_is_lost_nobody_is_requested_any_more(run, monkeypatch):
    monkeypatch.setattr(requesting_module, "AT_ONCE", 1)
    elsewhere = Elsewhere(
        run, lambda n, result: EvaluationResult(n, result.request, None, 0, RunFailed("Ray is away."), True)
    )
    replied = list(JobRunner(elsewhere).run(sent_orders_of(run)))
    assert [order.error for order in replied] == ["Ray is away."] * 2
    assert elsewhere.count == 1


def test_only_so_many_are_under_way_and_their_checkpoints_are_held(run, monkeypatch):
    monkeypatch.setattr(requesting_module, "AT_ONCE", 1)
    held = []

    def spoil(number, result):
        held.append(_is_held(run, result.request.epoch))
        return result

    elsewhere = Elsewhere(run, spoil)
    list(JobRunner(elsewhere).run(sent_orders_of(run)))
    assert (elsewhere.most, held) == (1, [True, True])
    assert not _is_held(run, 3)


def test_a_stop_drops_what_is_under_way_and_lets_go(run):
    elsewhere = Elsewhere(run)
    with pytest.raises(Stopped):
        list(JobRunner(elsewhere, is_stopped=lambda: True).run(sent_orders_of(run)))
    assert elsewhere.dropped == [1, 2]
    assert read_batches(run.directory) == []
    assert not _is_held(run, 3)


def test_a_checkpoint_that_was_removed_meanwhile_is_named(run):
    orders = sent_orders_of(run)
    for path in run.directory.checkpoints.glob("model_0003*"):
        path.unlink()
    failed, done = JobRunner(Elsewhere(run)).run(orders)
    assert "No checkpoint of epoch 3" in failed.error
    assert done.status is Status.DONE


def test_ray_is_not_even_thought_of_when_there_is_nothing_new(run, monkeypatch):
    list(JobRunner(Elsewhere(run)).run(sent_orders_of(run)))
    monkeypatch.setattr(requesting_module, "RayClient", lambda where: pytest.fail("it was opened"))
    assert list(request_evaluations(sent_orders_of(run))) == []


def test_the_address_is_handed_on(run, monkeypatch):
    locations = []

    def opened(where):
        locations.append(where.address)
        return Elsewhere(run)

    monkeypatch.setattr(requesting_module, "RayClient", opened)
    assert len(list(request_evaluations(sent_orders_of(run), {"address": "head:1"}))) == 2
    assert locations == ["head:1"]


def _is_held(run, epoch):
    """Whether retention would leave it alone."""

    with (run.directory.checkpoints / f"model_{epoch:04d}.safetensors").open("rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
