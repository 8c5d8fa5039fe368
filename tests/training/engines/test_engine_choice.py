"""Which engine computes an algorithm."""

from __future__ import annotations

import pytest

from palaestra.algorithms.group import ALONE, Group
from palaestra.config.train import TrainConfig
from palaestra.core.errors import UsageError
from palaestra.training.engines.engine_choice import choose_engine
from palaestra.training.engines.network_plan import Unsupported


def torch(description):
    return description


def native():
    return "native"


def unfit():
    raise Unsupported("policy=cnn")


class WithUnfitPeer(Group):
    def max_over_ranks(self, *values):
        return tuple(1 for _ in values)


@pytest.mark.parametrize(
    ("engine", "build", "expected"),
    [
        ("torch", native, "torch"),
        ("auto", native, "native"),
        ("native", native, "native"),
        ("auto", unfit, "torch; native cannot take it: policy=cnn"),
    ],
)
def test_auto_takes_native_where_it_fits_and_says_why_not(engine, build, expected):
    assert choose_engine(TrainConfig(engine=engine), ALONE, torch, build) == expected


def test_a_named_engine_that_does_not_fit_is_refused():
    with pytest.raises(UsageError, match="engine=native cannot take policy=cnn"):
        choose_engine(TrainConfig(engine="native"), ALONE, torch, unfit)


def test_all_ranks_take_torch_if_one_must():
    description = choose_engine(TrainConfig(), WithUnfitPeer(), torch, native)
    assert description == "torch; native cannot take it: another rank's machine"
