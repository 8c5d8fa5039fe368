import json

import numpy as np
import pytest

from palaestra.apps.matmul.agent_demonstrations import target_bits
from palaestra.apps.matmul.agent_episode import Played, encode_played, play_episode
from palaestra.apps.matmul.contractions import outer_bits
from palaestra.apps.matmul.format import Format
from palaestra.apps.matmul.game_settings import GameSettings
from palaestra.apps.matmul.masks import from_masks, to_masks
from palaestra.apps.matmul.verification import verify

SMALL = Format(2, 2, 2)


class Script:
    """A planner that knows its moves by heart."""

    def __init__(self, moves):
        self.moves = np.array(moves, np.int64).reshape(-1, 3)

    def play(self, tensor, most_moves):
        made = self.moves[:most_moves]
        return made, tensor ^ np.bitwise_xor.reduce(outer_bits(made, SMALL.sizes), axis=0)


def test_a_solved_episode_costs_its_moves_and_teaches_them(strassen_bits):
    masks = to_masks(strassen_bits)
    played, lessons = play_episode(Script(masks), GameSettings(max_rank=7), 5)
    assert (played.is_solved, played.moves, played.residual, played.reward) == (True, 7, 0, -7.0)
    assert sorted(played.scheme) == sorted(masks)
    assert lessons.remaining.tolist() == [7, 6, 5, 4, 3, 2, 1]
    assert lessons.are_good.all()
    assert (lessons.tensors[0] == target_bits(SMALL)).all()
    last = lessons.tensors[-1] ^ outer_bits(lessons.moves[-1:], SMALL.sizes)[0]
    assert not last.any()


def test_an_episode_out_of_moves_is_completed_to_a_scheme_that_multiplies():
    school = [[1, 1, 1], [2, 4, 1], [15, 15, 15]]
    played, lessons = play_episode(Script(school), GameSettings(max_rank=3), 5)
    assert not played.is_solved
    assert played.residual > 0
    assert verify(from_masks(played.scheme, SMALL)).rank == -played.reward
    assert lessons.remaining.tolist() == [-played.reward, -played.reward - 1, -played.reward - 2]
    assert not lessons.are_good.any()


@pytest.mark.parametrize("seed", [1, 2])
def test_in_another_basis_the_scheme_is_still_one_of_the_products_own(seed):
    played, _ = play_episode(Script([[1, 2, 3]]), GameSettings(max_rank=1, change_of_basis=True), seed)
    assert verify(from_masks(played.scheme, SMALL)).rank == len(played.scheme)


def test_an_episode_travels_between_processes_as_json():
    played = Played(2**62, 7, 0, -7.0, [[1, 2, 3]])
    assert Played(**json.loads(json.dumps(encode_played(played)))) == played
