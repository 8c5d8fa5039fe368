"""Constants of the game: items, stations, actions, codes and features. Both implementations use them.

Ids are stored in checkpoints and replays: entries are only appended.
"""

from __future__ import annotations

from palaestra.core.spaces import FeatureSpec

ITEMS = ("ore", "battery", "heart", "armour", "charge")
STATIONS = ("mine", "generator", "altar", "armoury", "charger")
PRODUCT = {"mine": "ore", "generator": "battery", "altar": "heart", "armoury": "armour", "charger": "charge"}
INGREDIENT = {"generator": "ore", "altar": "battery", "armoury": "ore", "charger": "battery"}  # a mine needs nothing

ACTIONS = ("rest", "north", "east", "south", "west", "attack")
REST, NORTH, EAST, SOUTH, WEST, ATTACK = range(len(ACTIONS))
STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))  # (dy, dx) by facing: 0 north, 1 east, 2 south, 3 west

# Codes of a cell in the observation `bytes`, as an agent of a given team sees it.
FLOOR, WALL, UNSEEN = 0, 1, 2
FIRST_STATION = 3  # + 3 x kind + state
READY, COOLING, EXHAUSTED = 0, 1, 2
FRIEND, FROZEN_FRIEND, FOE, FROZEN_FOE = 18, 19, 20, 21
CODE_COUNT = 22

# Features of the agent itself, in the order of the byte vector "self".
SELF = (
    *(f"inventory.{item}" for item in ITEMS),
    "self.facing",  # 1 north to 4 west
    "self.frozen",  # steps left
    "self.last_action",  # 1 + action; 0 in the first step
    "self.progress",  # 255 x step // max_steps
)

# Features of a cell. `wall` to `charger` are 0 or 1; a cell without any of them is floor.
CELL = (
    "wall",
    *STATIONS,
    "station.cooldown",  # steps until it is ready
    "station.exhausted",  # 1 when its stock is used up
    "agent.friend",  # 1 for an agent of the same team, also for oneself
    "agent.foe",  # 1 for an agent of another team
    "agent.facing",  # 1 north to 4 west
    "agent.frozen",  # steps left
    "agent.armour",  # pieces it carries
    "agent.heart",  # hearts it carries
)
_SCALES = {
    "station.cooldown": 32.0,
    "agent.facing": 4.0,
    "agent.frozen": 16.0,
    "agent.armour": 4.0,
    "agent.heart": 16.0,
    "self.facing": 4.0,
    "self.frozen": 16.0,
    "self.last_action": 6.0,
    "self.progress": 255.0,
} | {f"inventory.{item}": 16.0 for item in ITEMS}

FEATURES = tuple(
    FeatureSpec(name, number, _SCALES.get(name, 1.0)) for number, name in enumerate((*CELL, *SELF))
)  # the ids of tokens, and the channels of the box
FEATURE_ID = {feature.name: feature.id for feature in FEATURES}

# Counters per agent and episode, in this order.
COUNTERS = (
    *ITEMS,  # produced at stations
    "attacks",  # charges spent
    "hits",  # attacks that froze an agent
    "blocked",  # attacks that broke a piece of armour
    "stolen",  # items taken from others
    "lost",  # items taken by others
    "frozen_steps",
    "moves",  # steps that changed the cell
    "dropped_tokens",  # beyond the limit of the observation
)
