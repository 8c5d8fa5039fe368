import json
import math
import zipfile
from collections import OrderedDict
from io import BytesIO

import numpy as np
import pytest
import torch
from torch import nn

from palaestra.checkpoints.weights import (
    policy_to_bytes,
    trainer_state_from_bytes,
    trainer_state_to_bytes,
    weights_from_bytes,
    weights_to_bytes,
)
from palaestra.core.errors import DamagedFile, UsageError


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(3, 4),
        torch.randn(3, 4).t(),
        torch.randn(1).expand(5),
        torch.randn(10)[3:7],
        torch.tensor(2.5),
        torch.zeros(0, 3),
        torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last),
        torch.randn(3).bfloat16(),
        torch.tensor([True, False]),
        torch.tensor([math.nan, math.inf, -0.0]),
        torch.arange(3, dtype=torch.uint8),
        torch.randn(3, requires_grad=True),
    ],
    ids=range(12),
)
def test_tensors_of_every_make_come_back_bit_for_bit(tensor):
    back = weights_from_bytes(weights_to_bytes({"t": tensor}))["t"]
    assert back.dtype == tensor.dtype
    assert back.shape == tensor.shape
    assert back.is_contiguous()
    assert back.numel() == 0 or torch.equal(
        back.reshape(-1).view(torch.uint8), tensor.detach().contiguous().reshape(-1).view(torch.uint8)
    )


def test_tied_weights_are_saved_and_stay_tied_when_loaded():
    def tied():
        model = nn.Sequential(nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False))
        model[1].weight = model[0].weight
        return model

    source, target = tied(), tied()
    target.load_state_dict(weights_from_bytes(policy_to_bytes(source)))
    assert torch.equal(target[0].weight, source[0].weight)
    assert target[1].weight is target[0].weight


def test_loaded_weights_can_be_trained_on(policy):
    back = weights_from_bytes(policy_to_bytes(policy))
    back["0.weight"].add_(1)
    assert torch.equal(back["0.weight"], policy[0].weight + 1)


def test_the_same_weights_give_the_same_bytes(policy):
    assert policy_to_bytes(policy) == policy_to_bytes(policy)


def test_a_policy_acts_the_same_after_its_round_trip(policy):
    """Buffers (here the running statistics of BatchNorm) travel with the weights."""
    for _ in range(5):
        policy(torch.randn(16, 4) * 3 + 1)
    fresh = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    fresh.load_state_dict(weights_from_bytes(policy_to_bytes(policy)))
    observation = torch.randn(7, 4)
    assert torch.equal(fresh.eval()(observation), policy.eval()(observation))


@pytest.mark.parametrize(
    ("state", "named"),
    [
        ({"a": 5}, "'a' is a int"),
        ({"s": torch.eye(3).to_sparse()}, "'s' is sparse"),
        ({"c": torch.zeros(2, dtype=torch.complex128)}, "complex128"),
    ],
)
def test_what_cannot_be_saved_is_named(state, named):
    with pytest.raises(UsageError, match=named):
        weights_to_bytes(state)


@pytest.mark.parametrize("name", ["_orig_mod", "module"])
def test_what_torch_wraps_around_a_policy_is_refused(policy, name):
    wrapper = nn.Module()
    wrapper.add_module(name, policy)
    with pytest.raises(UsageError, match=r"torch\.compile"):
        policy_to_bytes(wrapper)


def test_a_trainer_state_comes_back_with_its_types():
    state = {
        "optimizer": {
            "state": {0: {"exp_avg": torch.randn(3), "step": torch.tensor(4.0)}},
            "param_groups": [{"betas": (0.9, 0.999)}],
        },
        "rng": {"python": (3, tuple(range(5)), None), "numpy": 2**127 + 1, "torch": torch.get_rng_state()},
        "flag": True,
        "bytes": b"\x00\xff",
        "nothing": None,
        "number": math.inf,
    }
    back = trainer_state_from_bytes(trainer_state_to_bytes(state))
    exp_avg = back["optimizer"]["state"][0].pop("exp_avg")
    assert torch.equal(exp_avg, state["optimizer"]["state"][0].pop("exp_avg"))
    assert torch.equal(back["rng"].pop("torch"), state["rng"].pop("torch"))
    assert back == state
    assert type(back["optimizer"]["param_groups"][0]["betas"]) is tuple


def test_an_ordered_dict_is_a_dict():
    assert trainer_state_from_bytes(trainer_state_to_bytes({"a": OrderedDict(b=1)})) == {"a": {"b": 1}}


def test_a_view_does_not_drag_its_storage_along():
    data = trainer_state_to_bytes({"view": torch.zeros(1_000_000)[:2]})
    assert len(data) < 10_000


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (np.float64(1.0), "numpy.float64"),
        (np.zeros(3), "numpy.ndarray"),
        (nn.Linear(1, 1), "Linear"),
        ({1, 2}, "builtins.set"),
        (lambda: 0, "function"),
    ],
)
def test_what_could_not_be_loaded_again_is_refused_when_saved(value, named):
    with pytest.raises(UsageError, match=named) as caught:
        trainer_state_to_bytes({"rng": [0, value]})
    assert "trainer_state['rng'][1]" in caught.value.message


def test_a_state_that_contains_itself_is_refused():
    state = {}
    state["self"] = state
    with pytest.raises(UsageError, match="contains itself"):
        trainer_state_to_bytes(state)


def nested(wrap, times):
    value = 0
    for _ in range(times):
        value = wrap(value)
    return value


@pytest.mark.parametrize(
    "state_of",
    [
        lambda times: {"state": nested(lambda value: [value], times)},
        lambda times: {"state": nested(lambda value: {"inner": value}, times)},
        lambda times: {nested(lambda value: (value,), times): "key"},
    ],
    ids=["lists", "dicts", "keys"],
)
def test_a_state_may_be_nested_32_levels_deep_and_no_deeper(state_of):
    assert trainer_state_from_bytes(trainer_state_to_bytes(state_of(31))) == state_of(31)
    with pytest.raises(UsageError, match="nested deeper than 32 levels"):
        trainer_state_to_bytes(state_of(32))


def test_the_header_of_weights_is_bounded_before_the_library_reads_it():
    entry = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    header = json.dumps({f"t{index}": entry for index in range(20_001)}).encode()
    with pytest.raises(DamagedFile, match="at most 20000 are read"):
        weights_from_bytes(len(header).to_bytes(8, "little") + header)


def test_a_kind_of_number_that_the_library_does_not_know_is_refused():
    header = json.dumps({"t": {"dtype": "F33", "shape": [1], "data_offsets": [0, 4]}}).encode()
    with pytest.raises(DamagedFile, match="F33"):
        weights_from_bytes(len(header).to_bytes(8, "little") + header + bytes(4))


@pytest.mark.fault("C12")
def test_a_pickle_in_place_of_a_state_is_not_executed(tmp_path):
    class Payload:
        def __reduce__(self):
            return (open, (str(tmp_path / "canary"), "w"))

    stream = BytesIO()
    torch.save({"x": Payload()}, stream)
    with pytest.raises(DamagedFile):
        trainer_state_from_bytes(stream.getvalue())
    assert not (tmp_path / "canary").exists()


@pytest.mark.parametrize("data", [b"", b"nonsense", b"PK\x03\x04 but no zip"])
def test_bytes_that_are_no_state_are_refused(data):
    with pytest.raises(DamagedFile):
        trainer_state_from_bytes(data)


def test_a_compressed_archive_is_refused_before_it_is_unpacked():
    stream = BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(50 << 20))
    assert len(stream.getvalue()) < 1 << 20
    with pytest.raises(DamagedFile, match="compressed"):
        trainer_state_from_bytes(stream.getvalue())


def test_a_state_that_is_not_a_dict_is_refused():
    stream = BytesIO()
    torch.save([1, 2], stream)
    with pytest.raises(DamagedFile, match="holds a list"):
        trainer_state_from_bytes(stream.getvalue())
