import inspect

import pytest

from palaestra.algorithms.base import Algorithm, Progress
from palaestra.algorithms.ppo.torch_ppo import TorchPpo
from palaestra.training.engines.native_ppo import NativePpo

METHODS = {"iterate", "policy", "weights", "reset_envs", "export_env_state", "capture", "clear_buffer", "restore"}
PROPERTIES = {"name", "engine", "description", "replicated", "interface", "replay_buffer"}


def test_the_protocol_is_what_the_trainer_may_use():
    public = {name: part for name, part in vars(Algorithm).items() if not name.startswith("_")}
    assert {name for name, part in public.items() if inspect.isfunction(part)} == METHODS
    assert {name for name, part in public.items() if isinstance(part, property)} == PROPERTIES


@pytest.mark.parametrize(("kind", "engine"), [(TorchPpo, "torch"), (NativePpo, "native")])
def test_every_engine_implements_the_whole_protocol_with_the_same_parameters(kind, engine):
    for name in METHODS:
        wanted = inspect.signature(getattr(Algorithm, name))
        assert list(inspect.signature(getattr(kind, name)).parameters) == list(wanted.parameters)
    assert (kind.name, kind.engine) == ("ppo", engine)


def test_progress_goes_from_0_to_1():
    assert [Progress(0, steps, 200).fraction for steps in (0, 50, 200)] == [0.0, 0.25, 1.0]
