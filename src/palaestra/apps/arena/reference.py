"""The reference implementation of one world: the rules of docs/arena.md, which the compiled core is tested against."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.apps.arena.maps import WorldRng, generate_map
from palaestra.apps.arena.state import ENDLESS, WorldState
from palaestra.apps.arena.tables import ATTACK, COUNTERS, INGREDIENT, ITEMS, PRODUCT, REST, STATIONS, STEPS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palaestra.apps.arena.maps import Cell
    from palaestra.apps.arena.settings import ArenaSettings

CAN_BE_STOLEN = ("ore", "battery", "heart")


@dataclass
class Station:
    y: int
    x: int
    kind: str
    cooldown: int
    stock: int  # uses left, or ENDLESS
    was_used: bool = False  # in this step


@dataclass
class Agent:
    number: int
    team: int
    y: int
    x: int
    facing: int  # 0 north to 3 west
    frozen: int  # steps left
    last_action: int  # -1 before the first
    items: dict[str, int]
    rewarded_items: dict[str, int]  # items that have been rewarded and not been lost again
    counters: dict[str, int]
    reward: float = 0.0  # of this step, before sharing
    was_hit: bool = False  # in this step


class World:
    """`World(settings, seed)` starts an episode; `step` until `is_over`."""

    def __init__(self, settings: ArenaSettings, seed: int) -> None:
        self.settings = settings
        self.rng = WorldRng(seed)
        self.clock = 0
        drawn = generate_map(settings, self.rng)
        self.walls = drawn.walls
        self.stations = [self._new_station(y, x, STATIONS[kind]) for y, x, kind in drawn.stations]
        self.agents = self._spawn_agents(list(drawn.floor))
        self._index_positions()

    @classmethod
    def from_state(cls, settings: ArenaSettings, state: WorldState, rng_state: int) -> World:
        """A world in the given state; rewarded items and counters start at 0."""
        world = cls.__new__(cls)
        world.settings = settings
        world.rng = WorldRng(rng_state)
        world.clock = state.step
        world.walls = state.walls.copy()
        world.stations = [Station(y, x, STATIONS[kind], *rest) for y, x, kind, *rest in state.stations.tolist()]
        world.agents = [
            world._new_agent(number, y, x, facing, frozen, last_action, dict(zip(ITEMS, items, strict=True)))
            for number, ((y, x, facing, frozen, _, last_action), items) in enumerate(
                zip(state.agents.tolist(), state.inventories.tolist(), strict=True)
            )
        ]
        world._index_positions()
        return world

    @property
    def is_over(self) -> bool:
        return self.clock >= self.settings.max_steps

    def step(self, actions: Sequence[int]) -> np.ndarray:
        """Takes one action per agent; returns their rewards, float32 [agents]."""
        for agent in self.agents:
            agent.reward = 0.0
        for number in self._draw_order():
            self._act(self.agents[number], int(actions[number]))
        self._advance_clock()
        return self._share()

    def state(self) -> WorldState:
        return WorldState(
            step=self.clock,
            max_steps=self.settings.max_steps,
            walls=self.walls.copy(),
            stations=_table([(s.y, s.x, STATIONS.index(s.kind), s.cooldown, s.stock) for s in self.stations], 5),
            agents=_table([(a.y, a.x, a.facing, a.frozen, a.team, a.last_action) for a in self.agents], 6),
            inventories=_table([tuple(a.items.values()) for a in self.agents], len(ITEMS)),
        )

    def counters(self) -> np.ndarray:
        """int64 [agents, COUNTERS]"""
        return np.array([list(agent.counters.values()) for agent in self.agents], np.int64)

    def rewarded_items(self) -> np.ndarray:
        """int64 [agents, ITEMS]"""
        return np.array([list(agent.rewarded_items.values()) for agent in self.agents], np.int64)

    def capture(self) -> dict[str, Any]:
        state = self.state()
        return {
            "rng": self.rng.state,
            "step": self.clock,
            "walls": state.walls,
            "stations": state.stations,
            "agents": state.agents,
            "inventories": state.inventories,
            "accounts": self.rewarded_items(),
            "counters": self.counters(),
        }

    @classmethod
    def from_capture(cls, settings: ArenaSettings, captured: dict[str, Any]) -> World:
        parts = {name: captured[name] for name in ("step", "walls", "stations", "agents", "inventories")}
        rng_state = captured["rng"] if "rng" in captured else captured["dice"]  # the latter up to version 0.1
        world = cls.from_state(settings, WorldState(max_steps=settings.max_steps, **parts), rng_state)
        for agent, rewarded_items, counters in zip(
            world.agents, captured["accounts"].tolist(), captured["counters"].tolist(), strict=True
        ):
            agent.rewarded_items = dict(zip(ITEMS, rewarded_items, strict=True))
            agent.counters = dict(zip(COUNTERS, counters, strict=True))
        return world

    # ---- a new episode

    def _new_station(self, y: int, x: int, kind: str) -> Station:
        stock = getattr(self.settings, kind).stock
        return Station(y, x, kind, cooldown=0, stock=ENDLESS if stock is None else stock)

    def _spawn_agents(self, floor: list[Cell]) -> list[Agent]:
        agents = []
        for number in range(self.settings.agents):
            other = number + self.rng.below(len(floor) - number)
            floor[number], floor[other] = floor[other], floor[number]
            y, x = floor[number]
            items = {item: self.settings.inventory.get(item, 0) for item in ITEMS}
            agents.append(self._new_agent(number, y, x, self.rng.below(4), 0, -1, items))
        return agents

    def _new_agent(
        self, number: int, y: int, x: int, facing: int, frozen: int, last_action: int, items: dict[str, int]
    ) -> Agent:
        return Agent(
            number,
            number % self.settings.teams,
            y,
            x,
            facing,
            frozen,
            last_action,
            items,
            rewarded_items=dict.fromkeys(ITEMS, 0),
            counters=dict.fromkeys(COUNTERS, 0),
        )

    def _index_positions(self) -> None:
        self._station_at: dict[Cell, Station] = {(station.y, station.x): station for station in self.stations}
        self._agent_at: dict[Cell, Agent] = {(agent.y, agent.x): agent for agent in self.agents}

    # ---- a step

    def _draw_order(self) -> list[int]:
        order = list(range(len(self.agents)))
        for index in range(len(order) - 1, 0, -1):
            other = self.rng.below(index + 1)
            order[index], order[other] = order[other], order[index]
        return order

    def _act(self, agent: Agent, action: int) -> None:
        agent.last_action = action
        if agent.frozen > 0:
            agent.counters["frozen_steps"] += 1
        elif action == ATTACK:
            self._attack(agent)
        elif action != REST:
            self._walk(agent, facing=action - 1)

    def _walk(self, agent: Agent, facing: int) -> None:
        agent.facing = facing
        ahead = self._cell_ahead(agent, 1)
        if self.walls[ahead] or ahead in self._agent_at:
            return
        station = self._station_at.get(ahead)
        if station is not None:
            self._use(agent, station)
            return
        del self._agent_at[agent.y, agent.x]
        agent.y, agent.x = ahead
        self._agent_at[ahead] = agent
        agent.counters["moves"] += 1

    def _cell_ahead(self, agent: Agent, distance: int) -> Cell:
        dy, dx = STEPS[agent.facing]
        return agent.y + distance * dy, agent.x + distance * dx

    def _use(self, agent: Agent, station: Station) -> None:
        if station.cooldown > 0 or station.stock == 0:
            return
        settings = getattr(self.settings, station.kind)
        ingredient, product = INGREDIENT.get(station.kind), PRODUCT[station.kind]
        if ingredient is not None and agent.items[ingredient] < settings.cost:
            return
        if agent.items[product] >= self.settings.limit:
            return
        if ingredient is not None:
            agent.items[ingredient] -= settings.cost
        agent.items[product] += 1
        agent.counters[product] += 1
        self._reward_gain(agent, product)
        if station.stock != ENDLESS:
            station.stock -= 1
        station.cooldown = settings.cooldown
        station.was_used = True

    def _attack(self, agent: Agent) -> None:
        if not self.settings.combat or agent.items["charge"] == 0:
            return
        other = self._first_agent_ahead(agent)
        if other is None or other.frozen > 0 or (self.settings.teams > 1 and other.team == agent.team):
            return
        agent.items["charge"] -= 1
        agent.counters["attacks"] += 1
        if other.items["armour"] > 0:
            other.items["armour"] -= 1
            agent.counters["blocked"] += 1
            return
        other.frozen = self.settings.freeze
        other.was_hit = True
        agent.counters["hits"] += 1
        self._steal(agent, other)

    def _first_agent_ahead(self, agent: Agent) -> Agent | None:
        for distance in range(1, self.settings.reach + 1):
            cell = self._cell_ahead(agent, distance)
            if self.walls[cell] or cell in self._station_at:
                return None
            if cell in self._agent_at:
                return self._agent_at[cell]
        return None

    def _steal(self, thief: Agent, other: Agent) -> None:
        for item in CAN_BE_STOLEN:
            amount = min(self.settings.steal, other.items[item], self.settings.limit - thief.items[item])
            for _ in range(amount):
                thief.items[item] += 1
                other.items[item] -= 1
                self._reward_gain(thief, item)
                self._penalize_loss(other, item)
            thief.counters["stolen"] += amount
            other.counters["lost"] += amount

    def _advance_clock(self) -> None:
        for station in self.stations:
            if station.cooldown > 0 and not station.was_used:
                station.cooldown -= 1
            station.was_used = False
        for agent in self.agents:
            if agent.frozen > 0 and not agent.was_hit:
                agent.frozen -= 1
            agent.was_hit = False
        self.clock += 1

    # ---- rewards

    def _reward_gain(self, agent: Agent, item: str) -> None:
        cap = self.settings.reward_caps.get(item)
        if cap is None or agent.rewarded_items[item] < cap:
            agent.rewarded_items[item] += 1
            agent.reward += self.settings.rewards.get(item, 0.0)

    def _penalize_loss(self, agent: Agent, item: str) -> None:
        if agent.rewarded_items[item] > 0:
            agent.rewarded_items[item] -= 1
            agent.reward -= self.settings.rewards.get(item, 0.0)

    def _share(self) -> np.ndarray:
        own = [agent.reward for agent in self.agents]
        share, teams = self.settings.team_share, self.settings.teams
        if share > 0:
            means = [_mean(own[team::teams]) for team in range(teams)]
            own = [(1 - share) * reward + share * means[number % teams] for number, reward in enumerate(own)]
        return np.array(own, np.float32)


def _mean(rewards: list[float]) -> float:
    """0 for a team without agents. Without `sum`, which rounds differently from Python 3.12 on."""
    total = 0.0
    for reward in rewards:
        total += reward
    return total / len(rewards) if rewards else 0.0


def _table(rows: list[tuple[int, ...]], columns: int) -> np.ndarray:
    return np.array(rows, np.int32).reshape(len(rows), columns)
