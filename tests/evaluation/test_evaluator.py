import inspect

import pytest

from palaestra.cluster.evaluation.evaluator import RayEvaluator
from palaestra.evaluation.background import ProcessEvaluator, RemoteCheckpointEvaluator
from palaestra.evaluation.evaluator import BackgroundEvaluator, CheckpointEvaluation, Evaluator
from palaestra.evaluation.local import LocalEvaluator
from palaestra.evaluation.pool import PoolEvaluator


def members(protocol):
    return [name for name in vars(protocol) if not name.startswith("_") or name in {"__enter__", "__exit__"}]


def parameters(function):
    return list(inspect.signature(function).parameters)


@pytest.mark.parametrize("evaluator", [LocalEvaluator, PoolEvaluator, RayEvaluator])
def test_local_pool_and_ray_implement_the_evaluator(evaluator):
    for name in members(Evaluator):
        assert hasattr(evaluator, name), name
    assert parameters(evaluator.evaluate) == parameters(Evaluator.evaluate)


@pytest.mark.parametrize("evaluator", [ProcessEvaluator, RemoteCheckpointEvaluator])
def test_a_process_and_a_cluster_implement_the_background_evaluator(evaluator):
    for name in members(BackgroundEvaluator):
        found = getattr(evaluator, name)
        assert isinstance(found, property) or parameters(found) == parameters(getattr(BackgroundEvaluator, name))


def test_a_result_without_an_error_has_metrics_at_a_step():
    result = CheckpointEvaluation(3, 96, {"eval/episodic_return": 1.0})
    assert (result.epoch, result.step, result.error) == (3, 96, "")
