"""Hand-drawn worlds, so that a rule can be shown in a few lines."""

from __future__ import annotations

import numpy as np
import pytest

from palaestra.apps.arena.maps import WorldRng
from palaestra.apps.arena.reference import World
from palaestra.apps.arena.settings import ArenaSettings
from palaestra.apps.arena.state import ENDLESS, WorldState
from palaestra.apps.arena.tables import ITEMS, STATIONS

FACINGS = "^>v<"
LETTERS = "MGAUC"  # mine, generator, altar, armoury, charger


def world_from_text(text, items=(), first=None, last_action=-1, **settings):
    """`#` wall, `.` floor, `^>v<` agents, numbered in reading order, with `items[k]`; stations by letter.

    `first` is the agent that acts first in the first step, of two.
    """
    rows = text.split()
    indices = [(y, x, sign) for y, row in enumerate(rows) for x, sign in enumerate(row)]
    agents = [(y, x, FACINGS.index(sign)) for y, x, sign in indices if sign in FACINGS]
    stations = [(y, x, LETTERS.index(sign)) for y, x, sign in indices if sign in LETTERS]
    settings = ArenaSettings(agents=len(agents), **settings)
    stocks = [getattr(settings, STATIONS[kind]).stock for _, _, kind in stations]
    carried = [items[number] if number < len(items) else {} for number in range(len(agents))]
    state = WorldState(
        step=0,
        max_steps=settings.max_steps,
        walls=np.array([[sign == "#" for sign in row] for row in rows], np.uint8),
        stations=np.array(
            [(*index, 0, ENDLESS if stock is None else stock) for index, stock in zip(stations, stocks, strict=True)],
            np.int32,
        ).reshape(-1, 5),
        agents=np.array(
            [(*agent, 0, number % settings.teams, last_action) for number, agent in enumerate(agents)], np.int32
        ),
        inventories=np.array([[each.get(item, 0) for item in ITEMS] for each in carried], np.int32),
    )
    return World.from_state(settings, state, 0 if first is None else dice_that_let_begin(first))


def dice_that_let_begin(agent):
    """Of two agents: the order 0, 1 is turned round when the dice show 0."""
    return next(state for state in range(100) if WorldRng(state).below(2) == (1 if agent == 0 else 0))


@pytest.fixture
def world_of():
    return world_from_text


class Episode:
    """Random play of everything that the rules know, by the reference: settings, seed, states and rewards."""

    def __init__(self, steps=150, agents=8, seed=5):
        self.seed = seed
        self.settings = ArenaSettings(
            agents=agents,
            teams=2,
            width=13,
            height=11,
            walls=3,
            combat=True,
            max_steps=steps,
            freeze=3,
            mine={"count": 3, "cost": 0, "cooldown": 2},
            generator={"count": 2, "stock": 4},
            altar={"count": 1, "cost": 1},
            armoury={"count": 1, "cost": 1},
            charger={"count": 2, "cooldown": 0},
            inventory={"ore": 1, "charge": 1},
            rewards={"heart": 1.0, "ore": 0.1, "battery": 0.3},
        )
        world = World(self.settings, seed)
        rng = np.random.default_rng(seed)
        self.states, self.rewards = [world.state()], [None]
        while not world.is_over:
            self.rewards.append(world.step(rng.integers(0, 6, agents).tolist()))
            self.states.append(world.state())


@pytest.fixture(scope="session")
def episode():
    return Episode()


def same(first, second):
    """Two states, part by part"""
    parts = ("walls", "stations", "agents", "inventories")
    assert (first.step, first.max_steps) == (second.step, second.max_steps)
    for part in parts:
        np.testing.assert_array_equal(getattr(first, part), getattr(second, part), err_msg=part)
    return True


@pytest.fixture
def same_state():
    return same
