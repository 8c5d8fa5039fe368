"""Sums over gloo among real processes, against additions written out and against shared memory."""

import hashlib

import numpy as np
import pytest
import torch

from palaestra.config.train import TrainConfig
from palaestra.testing.two_engines import run_on
from palaestra.training.distributed import ordered_sum
from palaestra.training.distributed.ordered_sum import ONE_ROUND_BYTES, add_rows, chunk_sizes
from palaestra.training.distributed.reports import weights_digest
from palaestra.training.engines import native_engine
from palaestra.training.state import new_training_state

needs_native = pytest.mark.skipif(native_engine.native_learner is None, reason="built without a C++ compiler")

TWO_ROUNDS = ONE_ROUND_BYTES // 8  # numbers of a sum among three ranks that takes two rounds, also of float32
SETTINGS = {
    "env": {"id": "CartPole-v1", "max_episode_steps": 16},
    "total_steps": 10**6,
    "policy": {"normalize_observations": True, "normalize_returns": True},
    "ppo": {"env_count": 4, "horizon": 16, "minibatch_size": 32, "update_epochs": 2, "target_kl": 1.0},
}


def numbers_of(rank, count, dtype):
    """Of very different sizes: in another order almost every sum has other bits."""
    rng = np.random.default_rng(rank)
    return (rng.standard_normal(count) * 10.0 ** rng.integers(-3, 4, count)).astype(dtype)


def added_one_by_one(rows):
    total = rows[0].copy()
    for row in rows[1:]:
        total = total + row
    return total


def digest_of(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_sum_has_the_bits_of_an_addition_in_the_order_of_ranks(together, ranks, dtype):
    counts = [1, 2, 5, 1000, TWO_ROUNDS, TWO_ROUNDS + 1]

    def work(group):
        return [digest_of(group.sum_(torch.from_numpy(numbers_of(group.rank, count, dtype)))) for count in counts]

    expected = [added_one_by_one([numbers_of(rank, count, dtype) for rank in range(ranks)]) for count in counts]
    assert together(work, count=ranks) == [[digest_of(array) for array in expected]] * ranks


@pytest.mark.parametrize("ranks", [3, 5])
def test_two_rounds_also_serve_fewer_numbers_than_ranks_and_none_at_all(together, monkeypatch, ranks):
    counts = [0, 1, 2, ranks - 1, ranks, ranks + 1]

    def work(group):
        monkeypatch.setattr(ordered_sum, "ONE_ROUND_BYTES", 0)
        return [group.sum_(torch.from_numpy(numbers_of(group.rank, count, np.float32))).tolist() for count in counts]

    expected = [added_one_by_one([numbers_of(rank, count, np.float32) for rank in range(ranks)]) for count in counts]
    assert together(work, count=ranks) == [[array.tolist() for array in expected]] * ranks


def test_every_kind_of_tensor_is_summed_in_place(together):
    def work(group):
        transposed = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).mul(group.rank + 1).t()
        scalar, whole_numbers = torch.tensor(2.0), torch.tensor([1 + group.rank, 1 << 40])
        tensors = [transposed, scalar, whole_numbers, torch.empty(0)]
        assert all(group.sum_(tensor) is tensor for tensor in tensors)
        return [tensor.tolist() for tensor in tensors]

    assert together(work, count=3) == [[[[6.0, 18.0], [12.0, 24.0]], 6.0, [6, 3 << 40], []]] * 3


def test_stacks_are_in_the_order_of_ranks_whatever_their_shape(together):
    def work(group):
        square = torch.full((2, 2), group.rank, dtype=torch.uint8)
        return [
            group.stack(square).tolist(),
            list(group.stack(torch.empty(0, 3)).shape),
            group.max_over_ranks(-group.rank),
        ]

    stacked = [[[rank] * 2] * 2 for rank in range(3)]
    assert together(work, count=3) == [[stacked, [3, 0, 3], [0]]] * 3


@pytest.mark.parametrize("columns", [1, 2, 3, 7, 8, 40, 1025])
def test_rows_are_added_one_after_another_however_many_there_are(columns):
    for count in (2, 3, 8, 9, 17, 64, 129, 256):
        rows = np.stack([numbers_of(rank, columns, np.float32) for rank in range(count)])
        assert add_rows(torch.from_numpy(rows)).numpy().tobytes() == added_one_by_one(rows).tobytes()


@pytest.mark.parametrize("columns", [1, 3])
def test_negative_zeros_stay_negative(columns):
    assert np.signbit(add_rows(torch.full((5, columns), -0.0)).numpy()).all()


@pytest.mark.parametrize(
    ("count", "ranks", "sizes"), [(10, 4, [3, 3, 2, 2]), (2, 3, [1, 1, 0]), (0, 2, [0, 0]), (6, 3, [2, 2, 2])]
)
def test_chunks_cover_everything_and_differ_by_one_at_most(count, ranks, sizes):
    assert chunk_sizes(count, ranks) == sizes


@needs_native
@pytest.mark.parametrize("engine", ["torch", "native"])
def test_three_ranks_over_gloo_learn_the_same_bits_as_in_shared_memory(on_one_machine, together, engine):
    """As on three machines: the native engine's reducer is then a function that sums over gloo."""

    def train_over_gloo(group):
        assert native_engine.native_learner is not None
        group.__dict__["reducer"] = native_engine.native_learner.CallbackReducer(group._sum_array, group.world_size)
        return train_ten_updates(group)

    def train_ten_updates(group):
        state = new_training_state(TrainConfig.model_validate({**SETTINGS, "engine": engine}), group)
        run_on(state, 10)
        return [state.algorithm.engine, weights_digest(state.algorithm.policy())]

    results = [*together(train_over_gloo, count=3), *on_one_machine(train_ten_updates, count=3)]
    assert results == [[engine, results[0][1]]] * 6
