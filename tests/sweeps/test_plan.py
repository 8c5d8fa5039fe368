import pytest

from palaestra.config.sweep import SweepConfig
from palaestra.config.train import TrainConfig
from palaestra.core.errors import NotFound, UsageError
from palaestra.sweeps.plan import evaluation_interval, plan_sweep
from palaestra.sweeps.space import Range


def plan(*, recipe="cartpole", settings=None, **requested):
    parameters = requested.pop("parameters", {"ppo.gamma": "0.9,0.99"})
    return plan_sweep(SweepConfig(recipe=recipe, parameters=parameters, settings=settings or {}, **requested))


@pytest.mark.parametrize(
    ("requested", "error", "said"),
    [
        ({"parameters": {}}, UsageError, "No key of the sweep has several values"),
        ({"parameters": {"ppo.gama": "0.9,0.99"}}, UsageError, "Did you mean 'ppo.gamma'?"),
        ({"parameters": {"pp.gamma": "0.9,0.99"}}, UsageError, "No key named 'pp'"),
        ({"parameters": {"ppo.gamma": "0.9..1.5"}}, UsageError, "Invalid value for ppo.gamma: 1.5 "),
        ({"parameters": {"ppo.gamma": "-1..1.5"}}, UsageError, "2 invalid settings"),
        ({"parameters": {"ppo.gamma": "0.9,high"}}, UsageError, "Invalid value for ppo.gamma: 'high' "),
        ({"parameters": {"ppo.env_count": "1.5..8"}}, UsageError, "Invalid value for ppo.env_count: 1.5 "),
        ({"parameters": {"ppo.gamma": "0.9..0.99"}, "method": "grid"}, UsageError, "needs a number of points"),
        ({"parameters": {"ppo.gamma": [0.9]}}, UsageError, "belongs under 'settings'"),
        ({"parameters": {"ppo.gamma": 0.9}}, UsageError, "belongs under 'settings'"),
        ({"settings": {"ppo.gamma": 0.9}}, UsageError, "ppo.gamma"),
        ({"settings": {"ppo": {"gamma": 0.9}}}, UsageError, "ppo.gamma"),
        ({"settings": {"total_stps": 5}}, UsageError, "Did you mean 'total_steps'?"),
        ({"recipe": "cartpol"}, NotFound, "Did you mean 'cartpole'?"),
        ({"metric": "scroe"}, UsageError, "Did you mean 'score'?"),
        ({"settings": {"evaluate_interval": 0}}, UsageError, "metric=score needs evaluations"),
        ({"method": "grid", "trials": 1}, UsageError, "has 2 points, and trials=1 is fewer"),
        ({"method": "random", "trials": 3}, UsageError, "only 2 different trials"),
        ({"name": "a/b"}, UsageError, "contains '/'"),
        ({"name": "x" * 78}, UsageError, "characters"),
        (
            {"parameters": {"ppo.horizon": "32,48", "ppo.minibatch_size": "256,128"}},
            UsageError,
            "Trial 3 (ppo.horizon=48, ppo.minibatch_size=256) is invalid",
        ),
    ],
)
def test_a_sweep_with_an_invalid_trial_is_refused(requested, error, said):
    with pytest.raises(error) as caught:
        plan(**requested)
    assert said in str(caught.value)


def test_values_that_only_fit_together_are_not_refused_one_by_one():
    """Horizon 48 does not go with the recipe's minibatch of 256, but with the one that is tried beside it."""
    found = plan(parameters={"ppo.horizon": "48,96"}, settings={"ppo.minibatch_size": 384})
    assert [one["ppo.horizon"] for one in found.listed] == [48, 96]


def test_keys_that_want_whole_numbers_get_them():
    found = plan(parameters={"ppo.update_epochs": "1..20"}, trials=10)
    assert found.parameters == (Range("ppo.update_epochs", 1, 20, is_whole=True),)
    assert all(isinstance(one["ppo.update_epochs"], int) for one in found.listed)


@pytest.mark.parametrize(
    ("parameters", "trials", "method", "count"),
    [
        ({"ppo.gamma": "0.9,0.99", "seed": "1,2,3"}, None, "grid", 6),
        ({"ppo.gamma": "0.9,0.99", "seed": "1,2,3"}, 4, "random", 4),
        ({"ppo.gamma": "0.9,0.99", "seed": "1,2,3"}, 40, "grid", 6),
        ({"ppo.gamma": "0.9..0.99:4"}, None, "grid", 4),
        ({"ppo.gamma": "0.9..0.99"}, None, "random", 20),
        ({"ppo.gamma": "0.9..0.99"}, 3, "random", 3),
    ],
)
def test_the_method_follows_from_what_is_requested(parameters, trials, method, count):
    found = plan(parameters=parameters, trials=trials)
    assert (found.config.method, found.trial_count, len(found.listed)) == (method, count, count)


def test_the_same_request_has_the_same_name_and_another_has_another():
    assert plan().name == plan().name
    assert (
        plan(parameters={"ppo.gamma": "0.9..0.99"}, trials=3).name
        == plan(parameters={"ppo.gamma": "0.9..0.99"}, trials=9).name
    )
    assert plan().name != plan(settings={"total_steps": 5}).name
    assert plan(name="lr").name == "lr"


def test_where_the_score_decides_evaluations_are_arranged_for():
    settings = plan(settings={"total_steps": 100_000}).settings_of({"ppo.gamma": 0.9})
    assert settings == {"total_steps": 100_000, "ppo.gamma": 0.9, "evaluate_interval": settings["evaluate_interval"]}
    assert settings["evaluate_interval"] > 0
    assert "evaluate_interval" not in plan(metric="return").settings_of({})
    assert plan(settings={"evaluate_interval": 7}).settings_of({})["evaluate_interval"] == 7


@pytest.mark.parametrize("steps", [1, 256, 1024, 4096, 100_000, 123_457, 1_000_000])
def test_evaluations_are_few_and_the_last_is_near_the_end(steps):
    config = TrainConfig.model_validate({"total_steps": steps})
    iterations = -(-steps // config.ppo.batch_size)
    interval = evaluation_interval(config)
    assert 1 <= iterations // interval <= 10
    assert iterations % interval <= max(1, iterations // 50)


def test_a_trial_has_a_run_for_each_seed_or_one():
    assert plan(name="lr").run_names(3) == [("lr-t3", None)]
    assert plan(name="lr", seeds="1..2").run_names(3) == [("lr-t3-s1", 1), ("lr-t3-s2", 2)]


def test_what_a_trial_needs_of_a_machine_is_known_beforehand():
    assert plan(settings={"torch_threads": 2}).example().torch_threads == 2
    odd = {"ppo.horizon": "100,128", "ppo.minibatch_size": "128,100"}  # the first two do not go together
    assert plan(parameters=odd, method="optuna").example().torch_threads == 1
