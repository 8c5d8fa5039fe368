import pytest

from palaestra.algorithms.group import Group
from palaestra.config.train import TrainConfig
from palaestra.core.errors import UsageError
from palaestra.training.engines import native_engine
from palaestra.training.state import new_training_state

SMALL = {"env_count": 2, "horizon": 8, "minibatch_size": 8}
compiled = pytest.mark.skipif(native_engine.native_learner is None, reason="built without a C++ compiler")


def settings(engine, **other):
    ppo = {**SMALL, **other.pop("ppo", {})}
    return TrainConfig(engine=engine, ppo=ppo, **other)


def algorithm_for(engine, **other):
    return new_training_state(settings(engine, **other)).algorithm


EVEN = """
schema_version: 1
summary: an average, and a memory
nodes:
  input:  {type: vector, source: observation}
  even:   {type: merge, source: [input, input], how: mean}
  memory: {type: gru, source: even, size: 4}
  action: {type: action_head, source: memory}
  value:  {type: value_head, source: memory}
"""
ONLY_TORCH = [
    ({"ppo": {"optimizer": "muon"}}, "ppo.optimizer=muon"),
    ({"ppo": {"regularize": {"l2": 0.1}}}, "ppo.regularize.l2=0.1"),
    ({"ppo": {"regularize": {"l2_init": 0.2}}}, "ppo.regularize.l2_init=0.2"),
    ({"ppo": {"regularize": {"clip_range": 3.0}}}, "ppo.regularize.clip_range=3.0"),
    ({"ppo": {"vtrace": {"enabled": True}}}, "ppo.vtrace.enabled=true"),
    ({"ppo": {"prioritized": {"enabled": True}}}, "ppo.prioritized.enabled=true"),
    ({"policy": {"compile": True}}, "policy.compile=true"),
    ({"policy": {"graph": EVEN}}, "node 'even', of type merge"),
    ({"policy": {"graph": "mlp", "settings": {"activation": "silu"}}}, "the activation silu"),
]


@compiled
def test_auto_takes_native_where_it_fits():
    algorithm = algorithm_for("auto")
    assert algorithm.engine == "native"
    assert "inside" in algorithm.description


@compiled
def test_native_where_it_fits_is_what_one_gets_without_asking():
    assert new_training_state(TrainConfig(ppo=SMALL)).algorithm.engine == "native"
    assert new_training_state(TrainConfig(ppo=SMALL, policy="memory")).algorithm.engine == "native"


def test_torch_can_be_asked_for_and_needs_no_reason():
    assert algorithm_for("torch").description == "torch"


@compiled
@pytest.mark.parametrize(
    ("asked", "began_with", "goes_on_with"),
    [
        ("auto", "torch", "torch"),
        ("auto", "native", "native"),
        ("native", "torch", "native"),
        ("torch", "native", "torch"),
    ],
)
def test_auto_stays_with_the_engine_that_the_run_began_with(asked, began_with, goes_on_with):
    saved = new_training_state(settings(began_with)).capture()
    state = new_training_state(settings(asked))
    state.restore(saved)
    assert state.algorithm.engine == goes_on_with
    assert state.capture()["engine"] == goes_on_with


@compiled
def test_a_state_from_before_there_were_engines_goes_on_with_torch_and_says_why():
    state = new_training_state(settings("auto"))
    saved = state.capture()
    del saved["engine"]
    state.restore(saved)
    assert state.algorithm.description == "torch, with which the run began"


@compiled
@pytest.mark.parametrize(("other", "named"), ONLY_TORCH, ids=[named for _, named in ONLY_TORCH])
def test_auto_takes_torch_elsewhere_and_says_why(other, named):
    algorithm = algorithm_for("auto", **other)
    assert algorithm.engine == "torch"
    assert algorithm.description == f"torch; native cannot take it: {named}"


@compiled
@pytest.mark.parametrize(("other", "named"), ONLY_TORCH, ids=[named for _, named in ONLY_TORCH])
def test_native_is_refused_by_name_where_it_does_not_fit(other, named):
    with pytest.raises(UsageError, match="engine=native cannot take") as refusal:
        algorithm_for("native", **other)
    assert named in refusal.value.message
    assert "engine=auto" in refusal.value.hint


class Two(Group):
    world_size = 2


@compiled
def test_several_processes_train_natively_too():
    assert new_training_state(settings("auto"), Two()).algorithm.engine == "native"


def test_without_a_compiler_auto_is_torch_and_native_is_refused(monkeypatch):
    monkeypatch.setattr(native_engine, "native_learner", None)
    assert "not compiled" in algorithm_for("auto").description
    with pytest.raises(UsageError, match="not compiled"):
        algorithm_for("native")
