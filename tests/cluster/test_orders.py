import pytest

from palaestra.cluster.orders import Status, make_orders
from palaestra.core.errors import NotFound
from palaestra.evaluation.plans import weights_of
from palaestra.evaluation.session import EvaluationOptions, evaluate_target

OWN = EvaluationOptions(episodes=2)


def orders_of(run, *targets, asked=(OWN,), **how):
    return make_orders(targets, run.root, asked, **how)


def test_every_target_is_asked_for_in_every_suite(trained_run):
    trained_run.save(epoch=10, seed=1)
    orders = orders_of(
        trained_run,
        "judged:all",
        asked=[EvaluationOptions(suite="default", episodes=2), EvaluationOptions(suite="cartpole")],
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


def test_what_was_judged_before_is_known_with_its_mean_unless_it_is_wanted_again(trained_run):
    before = evaluate_target("judged:3", trained_run.root, episodes=2)
    (known,) = orders_of(trained_run, "judged:3")
    assert (known.status, known.mean) == (Status.KNOWN, before.mean)
    assert [order.status for order in orders_of(trained_run, "judged:3", again=True)] == [Status.NEW]
    (longer,) = orders_of(trained_run, "judged:3", asked=[EvaluationOptions(episodes=3)])
    assert longer.status is Status.NEW


def test_a_judgement_in_the_runs_own_simulations_counts_as_its_score_and_another_does_not(trained_run):
    own, other = orders_of(
        trained_run, "judged:3", asked=[OWN, EvaluationOptions(overrides={"env": {"max_episode_steps": 9}})]
    )
    assert (own.options.is_own_suite, other.options.is_own_suite) == (True, False)


def test_a_run_that_does_not_exist_or_has_no_checkpoint_is_refused(trained_run):
    with pytest.raises(NotFound, match="juged"):
        orders_of(trained_run, "juged:all")
    for path in trained_run.directory.checkpoints.iterdir():
        path.unlink()
    with pytest.raises(NotFound, match="no checkpoint"):
        orders_of(trained_run, "judged:all")
