from __future__ import annotations

import json

import numpy as np
import pytest

from palaestra.apps.matmul.agent.census import outer_bits
from palaestra.apps.matmul.agent.config import GameSettings
from palaestra.apps.matmul.agent.demonstrations import scheme_examples, target_bits
from palaestra.apps.matmul.agent.episode import (
    Episode,
    complete_by_slices,
    encode_episode,
    play_episode,
    verified_masks,
)
from palaestra.apps.matmul.agent.tensor_game import slice_rank
from palaestra.apps.matmul.schemes.bit_masks import from_masks, to_masks
from palaestra.apps.matmul.schemes.factorization import Format, naive_factorization
from palaestra.apps.matmul.schemes.fields import Field
from palaestra.apps.matmul.schemes.symmetry import are_equivalent
from palaestra.apps.matmul.schemes.transformations import random_equivalent
from palaestra.apps.matmul.schemes.verification import NotAnAlgorithm, verify

SMALL = Format(2, 2, 2)


class Script:
    """A planner with fixed moves."""

    def __init__(self, moves):
        self.moves = np.array(moves, np.int64).reshape(-1, 3)

    def play(self, tensor, most_moves):
        made = self.moves[:most_moves]
        return made, tensor ^ np.bitwise_xor.reduce(outer_bits(made, SMALL.sizes), axis=0)


def test_a_solved_episode_has_policy_targets(strassen_bits):
    masks = to_masks(strassen_bits)
    episode, examples = play_episode(Script(masks), GameSettings(max_rank=7), 5)
    assert (episode.is_solved, episode.moves, episode.residual, episode.reward) == (True, 7, 0, -7.0)
    assert sorted(episode.scheme) == sorted(masks)
    assert examples.remaining.tolist() == [7, 6, 5, 4, 3, 2, 1]
    assert examples.has_policy_target.all()
    assert (examples.tensors[0] == target_bits(SMALL)).all()
    last = examples.tensors[-1] ^ outer_bits(examples.moves[-1:], SMALL.sizes)[0]
    assert not last.any()


def test_an_unsolved_episode_is_completed_to_a_valid_scheme():
    school = [[1, 1, 1], [2, 4, 1], [15, 15, 15]]
    episode, examples = play_episode(Script(school), GameSettings(max_rank=3), 5)
    assert not episode.is_solved
    assert episode.residual > 0
    assert verify(from_masks(episode.scheme, SMALL)).rank == -episode.reward
    assert examples.remaining.tolist() == [-episode.reward, -episode.reward - 1, -episode.reward - 2]
    assert not examples.has_policy_target.any()


@pytest.mark.parametrize("seed", [1, 2])
def test_in_a_random_basis_the_scheme_is_transformed_back(seed):
    episode, _ = play_episode(Script([[1, 2, 3]]), GameSettings(max_rank=1, change_of_basis=True), seed)
    assert verify(from_masks(episode.scheme, SMALL)).rank == len(episode.scheme)


def test_an_episode_round_trips_as_json():
    episode = Episode(2**62, 7, 0, -7.0, [[1, 2, 3]])
    assert Episode(**json.loads(json.dumps(encode_episode(episode)))) == episode


def summed(moves, sizes=(4, 4, 4)):
    return np.bitwise_xor.reduce(outer_bits(np.array(moves), sizes), axis=0)


def test_a_random_equivalent_is_valid_and_has_the_same_fingerprint(strassen_bits):
    rng = np.random.default_rng(1)
    seen = [random_equivalent(strassen_bits, rng) for _ in range(30)]
    assert all(are_equivalent(verify(strassen_bits), verify(other)) for other in seen[:5])
    assert all(verify(other).rank == 7 for other in seen)
    assert len({str(sorted(to_masks(other))) for other in seen}) > 10


def test_random_equivalents_keep_the_format():
    rng = np.random.default_rng(2)
    claim = naive_factorization(Format(2, 3, 4), Field.GF2)
    assert verify(random_equivalent(claim, rng)).format == Format(2, 3, 4)


def test_examples_of_a_scheme_are_subsets_of_its_rows(strassen_bits):
    examples = scheme_examples([to_masks(strassen_bits)], SMALL, 60, np.random.default_rng(3))
    whole = examples.remaining == 7
    assert whole.any()
    assert (examples.tensors[whole] == target_bits(SMALL)).all()
    single = examples.remaining == 1
    assert single.any()
    left = examples.tensors ^ outer_bits(examples.moves, SMALL.sizes)
    assert not left[single].any()


@pytest.mark.parametrize("format_", [SMALL, Format(2, 3, 3)])
def test_a_completion_has_as_many_moves_as_the_slice_rank(format_):
    rng = np.random.default_rng(4)
    for _ in range(10):
        left = rng.integers(0, 2, format_.sizes, dtype=np.uint8)
        moves = complete_by_slices(left)
        assert (summed(moves, format_.sizes) == left).all()
        assert len(moves) == slice_rank(left.astype(np.int64), Field.GF2)


def test_a_zero_residual_needs_no_completion():
    assert complete_by_slices(np.zeros((4, 4, 4), np.uint8)).shape == (0, 3)


def test_equal_rows_of_a_scheme_cancel(strassen_bits):
    masks = to_masks(strassen_bits)
    double = from_masks([*masks, [1, 2, 3], [1, 2, 3]], SMALL)
    assert sorted(verified_masks(double)) == sorted(masks)


def test_an_invalid_scheme_is_refused(strassen_bits):
    with pytest.raises(NotAnAlgorithm):
        verified_masks(from_masks(to_masks(strassen_bits)[:6], SMALL))
