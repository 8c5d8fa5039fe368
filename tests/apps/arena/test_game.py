import numpy as np
import pytest

from palaestra.apps.arena.game import KEYS, open_game, random_players
from palaestra.apps.arena.observe import interface_of_agent
from palaestra.apps.arena.reference import World
from palaestra.apps.arena.settings import ArenaSettings
from palaestra.apps.arena.tables import ACTIONS
from palaestra.core.errors import UsageError

SMALL = {"width": 9, "height": 9, "max_steps": 12, "altar": {"count": 1}, "mine": {"count": 1, "cost": 0}}


def test_every_action_has_a_key_and_arrows_mean_what_letters_mean():
    assert set(KEYS.values()) == set(range(len(ACTIONS)))
    assert [KEYS[key] for key in ("up", "right", "down", "left")] == [KEYS[key] for key in "wdsa"] == [1, 2, 3, 4]


def test_ones_own_keys_move_ones_own_agent():
    """The same actions in a world of one, stepped by hand"""
    game = open_game(SMALL, agent=0, seed=3)
    world = World(ArenaSettings(**SMALL), 3)
    for action in (1, 2, 2, 3, 4, 5, 0):
        game.play(action)
        world.step([action])
        np.testing.assert_array_equal(game._state.agents, world.state().agents)


@pytest.mark.parametrize("agent", [0, 2])
def test_the_others_play_too_and_only_one_is_held_by_hand(agent):
    game = open_game({**SMALL, "agents": 3}, agent=agent, seed=3)
    index = game._state.agents[agent, :2].tolist()
    before = game._state.agents.copy()
    for _ in range(6):
        game.play(0)
    assert game._state.agents[agent, :2].tolist() == index
    others = [number for number in range(3) if number != agent]
    assert (game._state.agents[others] != before[others]).any()


def test_chance_takes_every_action_and_the_seed_decides():
    first, second = random_players(500, 3), random_players(500, 3)
    actions = first({})
    assert sorted(set(actions.tolist())) == list(range(len(ACTIONS)))
    np.testing.assert_array_equal(actions, second({}))
    assert not np.array_equal(first({}), actions)


def test_other_players_get_every_row_and_act_for_all_but_the_persons_agent():
    """Everybody else walks north; what they see comes from the world itself."""
    kwargs = {**SMALL, "agents": 3}
    requested = []

    def make_others(interface, players, seed):
        requested.append((interface, players, seed))

        def act(observations):
            last_actions = observations["self"][:, 7].tolist()  # plus one
            assert last_actions == [0] * 3 if not requested[1:] else [2, 1, 2]
            requested.append(None)
            return np.ones(3, np.int64)

        return act

    game = open_game(kwargs, agent=1, seed=4, make_others=make_others)
    game.play(0)
    assert requested[0] == (interface_of_agent(ArenaSettings(**kwargs)), 3, 4)
    assert game._state.agents[:, 5].tolist() == [1, 0, 1]


def test_an_agent_that_there_is_not_is_refused_with_the_numbers():
    with pytest.raises(UsageError, match="No agent 3: the arena has agents 0 to 2"):
        open_game({**SMALL, "agents": 3}, agent=3, seed=0)


def test_the_episode_ends_with_its_time_and_is_summed_up():
    game = open_game({**SMALL, "inventory": {"ore": 2}}, agent=0, seed=0)
    steps = 0
    while not game.is_over:
        game.play(0)
        steps += 1
    assert steps == 12
    assert game.summary() == {"steps": 12, "reward": 0.0, "mean reward of all": 0.0, "ore": 2}


def test_the_lines_say_where_one_is_what_one_has_and_what_it_earned(world_of):
    game = open_game({**SMALL, "rewards": {"ore": 0.5}}, agent=0, seed=0)
    assert game.status() == "step 0/12  reward 0  nothing carried"
    game._state = world_of("##### #>.A# #####", items=[{"ore": 3, "heart": 1}], max_steps=12).state()
    game._state.agents[0, 3] = 4
    game._rewards[0] = 0.5
    assert game.status() == "step 0/12  reward 0 (+0.5)  ore 3  heart 1  frozen for 4"
    assert "@" in game.text(color=False, columns=80, lines=24)
