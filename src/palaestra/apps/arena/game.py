"""Arena for a person: one agent is played with the keyboard, the others by a policy or at random."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from palaestra.apps.arena.ansi import world_text
from palaestra.apps.arena.batch import make_batch
from palaestra.apps.arena.observe import empty_rows, interface_of_agent
from palaestra.apps.arena.settings import read_settings
from palaestra.apps.arena.tables import ACTIONS, ATTACK, EAST, ITEMS, NORTH, REST, SOUTH, WEST
from palaestra.core.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from palaestra.apps.arena.batch import Arrays
    from palaestra.apps.arena.settings import ArenaSettings
    from palaestra.core.app import OtherPlayers, PlayerFactory

ARROWS = {"up": NORTH, "right": EAST, "down": SOUTH, "left": WEST}
LETTERS = {"w": NORTH, "d": EAST, "s": SOUTH, "a": WEST}
KEYS = {**ARROWS, **LETTERS, "space": ATTACK, ".": REST}


def open_game(kwargs: dict[str, Any], agent: int, seed: int, make_others: PlayerFactory | None = None) -> ArenaGame:
    """Starts a game; see `palaestra.apps.arena.app`."""
    settings = read_settings(kwargs)
    if agent >= settings.agents:
        raise UsageError(
            f"No agent {agent}: the arena has agents 0 to {settings.agents - 1}.",
            "Choose another with --agent, or set env.kwargs.agents=N.",
        )
    if make_others is None:
        others = random_players(settings.agents, seed)
    else:
        others = make_others(interface_of_agent(settings), settings.agents, seed)
    return ArenaGame(settings, agent, seed, others)


def random_players(agents: int, seed: int) -> OtherPlayers:
    rng = np.random.default_rng(seed)

    def act(observations: Arrays) -> np.ndarray:
        del observations
        return rng.integers(len(ACTIONS), size=agents, dtype=np.int64)

    return act


class ArenaGame:
    help = "arrows or wasd walk and use  space attack  . rest"

    def __init__(self, settings: ArenaSettings, agent: int, seed: int, others: OtherPlayers) -> None:
        self._agent = agent
        self._others = others
        self._worlds = make_batch([settings], 1)
        self._observations = empty_rows(settings, settings.agents)
        self._rewards = np.zeros(settings.agents, np.float32)
        self._worlds.reset([0], [seed], [0], self._observations)
        self._state = self._worlds.world_state(0)
        self.is_over = False

    @property
    def keys(self) -> Mapping[str, int]:
        return KEYS

    def play(self, action: int) -> None:
        """Steps the world with the person's action; a frozen agent ignores it."""
        actions = self._others(self._observations)
        actions[self._agent] = action
        self.is_over = bool(self._worlds.step(actions, self._observations, self._rewards))
        self._state = self._worlds.world_state(0)

    def text(self, *, color: bool, columns: int, lines: int) -> str:
        return world_text(self._state, color=color, own=self._agent, columns=columns, lines=lines)

    def status(self) -> str:
        frozen = int(self._state.agents[self._agent, 3])
        reward = float(self._rewards[self._agent])
        parts = [
            f"step {self._state.step}/{self._state.max_steps}",
            f"reward {self._return():g}" + (f" ({reward:+g})" if reward else ""),
            "  ".join(f"{name} {count}" for name, count in self._carried().items() if count) or "nothing carried",
            f"frozen for {frozen}" if frozen else "",
        ]
        return "  ".join(part for part in parts if part)

    def summary(self) -> dict[str, Any]:
        mean = float(self._worlds.returns(0).mean())
        return {
            "steps": self._state.step,
            "reward": self._return(),
            "mean reward of all": mean,
            **{name: count for name, count in self._carried().items() if count},
        }

    def _return(self) -> float:
        return float(self._worlds.returns(0)[self._agent])

    def _carried(self) -> dict[str, int]:
        return dict(zip(ITEMS, self._state.inventories[self._agent].tolist(), strict=True))
