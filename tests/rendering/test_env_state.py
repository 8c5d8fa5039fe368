import logging
import random
from collections import deque

import gymnasium
import numpy as np
import pytest

from palaestra.rendering.env_state import (
    LARGEST_VALUE,
    NotDescribable,
    StateEncoder,
    digest,
    encode_value,
    recipe_of,
    require_describable,
)


class Board(gymnasium.Env):
    """Everything that stands in it can be sent, or need not be."""

    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(2)
    render_mode = None

    def __init__(self):
        self.position = 3
        self.grid = np.zeros((2, 2), np.int8)
        self.trail = deque([(1, 2)], maxlen=3)
        self.names = {"a": [1, 2], 5: {7}}
        self.rng = np.random.default_rng(1)
        self.twister = random.Random(1)
        self.space = gymnasium.spaces.Discrete(3)
        self.moves = {0: self.reset}
        self.logger = logging.getLogger("board")


@pytest.fixture
def board():
    return Board()


@pytest.fixture
def encoder(board):
    return StateEncoder(board, {"spec": "…"})


def test_the_first_message_is_complete_and_holds_nothing_that_is_not_rendered(encoder):
    message = encoder.encode()
    assert set(message["set"]) == {"position", "grid", "trail", "names"}
    assert message["recipe"] == {"spec": "…"}


def test_afterwards_only_what_changed_is_sent(encoder, board):
    encoder.encode()
    assert encoder.encode() == {"set": {}}
    board.position = 4
    board.grid[0, 1] = 7
    board.trail.append((3, 4))
    board.names["a"].append(3)
    message = encoder.encode()
    assert set(message["set"]) == {"position", "grid", "trail", "names"}
    assert message["set"]["trail"] == {"$deque": [{"$tuple": [1, 2]}, {"$tuple": [3, 4]}], "limit": 3}
    assert "recipe" not in message


def test_an_attribute_that_is_gone_is_named(encoder, board):
    encoder.encode()
    del board.trail
    assert encoder.encode() == {"set": {}, "gone": ["trail"]}
    assert encoder.encode() == {"set": {}}


def test_it_can_start_over(encoder):
    first = encoder.encode()
    encoder.start_over()
    again = encoder.encode()
    assert again.keys() == first.keys()
    assert again["set"].keys() == first["set"].keys()


def test_one_attribute_that_nobody_knows_is_enough_to_refuse(board):
    board.friend = object()
    with pytest.raises(NotDescribable, match=r"Board\.friend is a builtins\.object"):
        StateEncoder(board, {})
    board.friend = [{"deep": object()}]
    with pytest.raises(NotDescribable, match=r"Board\.friend\[0\]\[0\] is a builtins\.object"):
        StateEncoder(board, {})


def test_an_attribute_that_becomes_indescribable_is_refused(encoder, board):
    encoder.encode()
    board.friend = object()
    with pytest.raises(NotDescribable, match="friend"):
        encoder.encode()


def test_of_what_is_too_large_only_a_hash_is_sent_as_long_as_it_does_not_change(board):
    board.table = list(range(LARGEST_VALUE))
    encoder = StateEncoder(board, {})
    assert encoder.encode()["set"]["table"] == {"$digest": digest(list(range(LARGEST_VALUE)))}
    assert encoder.encode() == {"set": {}}
    board.table[0] = -1
    with pytest.raises(NotDescribable, match=r"table has \d+ bytes and changes"):
        encoder.encode()


def test_arrays_of_objects_and_endless_nesting_are_refused():
    with pytest.raises(NotDescribable, match="array of object"):
        encode_value(np.array([object()]), "x")
    endless = []
    endless.append(endless)
    with pytest.raises(NotDescribable, match="nested deeper"):
        encode_value(endless, "x")


def test_a_set_has_one_order_whatever_its_own():
    assert digest(encode_value({3, 1, 2}, "x")) == digest(encode_value({2, 3, 1}, "x"))


class Frame(gymnasium.Wrapper):
    def render(self):
        return None


def test_a_wrapper_that_changes_the_image_is_refused_and_gymnasiums_own_are_not(board):
    made = gymnasium.make("CartPole-v1")
    require_describable(made)
    made.close()
    with pytest.raises(NotDescribable, match="Frame has a `render` of its own"):
        require_describable(Frame(board))


class Keeper(Board):
    def get_state(self):
        return {}

    def set_state(self, state):
        pass


class Slotted(Board):
    __slots__ = ("hidden",)


@pytest.mark.parametrize(("kind", "reason"), [(Keeper, "keeps its state itself"), (Slotted, "__slots__")])
def test_hidden_state_is_refused(kind, reason):
    with pytest.raises(NotDescribable, match=reason):
        require_describable(kind())


def test_a_recipe_is_the_spec_of_a_registered_environment():
    made = gymnasium.make("CartPole-v1", max_episode_steps=7)
    assert '"max_episode_steps": 7' in recipe_of(made)["spec"]
    made.close()
    with pytest.raises(NotDescribable, match="Board was not made from a registered id"):
        recipe_of(Board())


def test_rendering_a_simulation_is_known_to_be_costly(board):
    pytest.importorskip("mujoco")
    assert not StateEncoder(board, {}).is_costly
    made = gymnasium.make("InvertedPendulum-v5")
    made.reset(seed=1)
    assert StateEncoder(made, {}).is_costly
    made.close()
