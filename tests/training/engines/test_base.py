import inspect

import pytest

from palaestra.training.engines.base import Engine
from palaestra.training.engines.native_engine import NativeEngine
from palaestra.training.engines.torch_engine import TorchEngine


@pytest.mark.parametrize("kind", [TorchEngine, NativeEngine])
def test_every_engine_answers_all_that_is_asked_of_one_and_in_the_same_words(kind):
    asked = {name: call for name, call in vars(Engine).items() if callable(call) and not name.startswith("_")}
    assert set(asked) == {"iterate", "export_env_state", "invalidate"}
    for name, call in asked.items():
        assert list(inspect.signature(getattr(kind, name)).parameters) == list(inspect.signature(call).parameters)
    assert kind.name in ("torch", "native")
