"""The compiled core as a WorldBatch. Importing this module fails if the core was not built."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from palaestra.apps.arena import native_core
from palaestra.apps.arena.settings import ObservationForm
from palaestra.apps.arena.state import ENDLESS, WorldState
from palaestra.apps.arena.tables import COUNTERS, ITEMS
from palaestra.envs.vector.batch import MASK

if TYPE_CHECKING:
    from collections.abc import Sequence

    from palaestra.apps.arena.batch import Arrays
    from palaestra.apps.arena.settings import ArenaSettings

FORMS = get_args(ObservationForm)  # in the order of the core's numbers
NANOSECONDS = {"bytes": 30, "tokens": 150, "box": 500}  # approximate cost of a row
MIN_THREAD_WORK = 100_000  # nanoseconds of work per thread; waking a thread and waiting for it costs about as much
UNCAPPED = -1
SHARED_FIELDS = (
    *("agents", "teams", "team_share", "width", "height", "room", "walls", "limit", "combat", "reach", "freeze"),
    *("steal", "view", "show_state", "tokens", "max_steps"),
)  # fields of the settings that the core takes unchanged

Tables = dict[str, np.ndarray]

RNG_KEYS = ("rng", "dice")  # of a captured world; the latter up to version 0.1


class NativeBatch:
    """See WorldBatch. ValueError for arrays whose dtype, shape or memory order differs from it.

    `threads` is the maximum: small batches use fewer, because they are faster with one.
    """

    def __init__(self, tasks: Sequence[ArenaSettings], world_count: int, threads: int = 1) -> None:
        useful = min(threads, _useful_threads(tasks, world_count))
        self._core = native_core.Batch([_core_task(task) for task in tasks], world_count, useful)
        self._max_steps = [task.max_steps for task in tasks]
        self.world_count = world_count
        self.agents = tasks[0].agents

    def reset(self, worlds: Sequence[int], seeds: Sequence[int], tasks: Sequence[int], out: Arrays) -> None:
        views, selves = _parts(out)
        bits = [int(seed) & MASK for seed in seeds]
        self._core.reset([int(world) for world in worlds], bits, [int(task) for task in tasks], views, selves)

    def step(self, actions: np.ndarray, out: Arrays, rewards: np.ndarray) -> list[int]:
        views, selves = _parts(out)
        return self._core.step(actions, views, selves, rewards)

    def step_api(self) -> Any:
        return self._core.step_api()

    def counters(self, world: int) -> np.ndarray:
        tables: Tables = {"counters": np.empty((self.agents, len(COUNTERS)), np.int64)}
        self._core.read(world, tables)
        return tables["counters"]

    def returns(self, world: int) -> np.ndarray:
        tables: Tables = {"returns": np.empty(self.agents, np.float64)}
        self._core.read(world, tables)
        return tables["returns"]

    def world_state(self, world: int) -> WorldState:
        tables = self._state_tables(world)
        task, step, _ = self._core.read(world, tables)
        return WorldState(step=step, max_steps=self._max_steps[task], **tables)

    def capture(self) -> dict[str, Any]:
        """The same format as ReferenceBatch.capture, so that either can restore it."""
        tasks: list[int] = []
        worlds: list[dict[str, Any]] = []
        returns = np.zeros((self.world_count, self.agents), np.float64)
        for number in range(self.world_count):
            if not self._core.has_world(number):
                tasks.append(0)
                worlds.append({})
                continue
            tables = self._state_tables(number) | {
                "accounts": np.empty((self.agents, len(ITEMS)), np.int64),
                "counters": np.empty((self.agents, len(COUNTERS)), np.int64),
            }
            task, step, rng = self._core.read(number, tables | {"returns": returns[number]})
            tasks.append(task)
            worlds.append({"rng": rng, "step": step, **tables})
        return {"tasks": tasks, "returns": returns, "worlds": worlds}

    def restore(self, state: dict[str, Any]) -> None:
        """Restores all worlds; ValueError for a missing or invalid entry, and then nothing has changed."""
        try:
            tasks, returns, worlds = state["tasks"], state["returns"], state["worlds"]
            if not len(tasks) == len(returns) == len(worlds) == self.world_count:
                raise ValueError(f"the state holds {len(worlds)} worlds, and there are {self.world_count} here")
            self._core.restore([_world_tables(*parts) for parts in zip(tasks, returns, worlds, strict=True)])
        except (KeyError, TypeError, IndexError, OverflowError, AttributeError) as error:
            raise ValueError(f"the state of these worlds is damaged: {type(error).__name__} {error}") from error

    def check(self) -> None:
        """RuntimeError if an invariant is violated, such as two agents in one cell. For tests."""
        self._core.check()

    def _state_tables(self, world: int) -> Tables:
        height, width, stations = self._core.shapes(world)
        return {
            "walls": np.empty((height, width), np.uint8),
            "stations": np.empty((stations, 5), np.int32),
            "agents": np.empty((self.agents, 6), np.int32),
            "inventories": np.empty((self.agents, len(ITEMS)), np.int32),
        }


def _useful_threads(tasks: Sequence[ArenaSettings], world_count: int) -> int:
    """Number of threads that save time; results do not depend on it."""
    work = sum(world_count * task.agents * NANOSECONDS[task.observation] for task in tasks[:1])
    return max(1, work // MIN_THREAD_WORK)


def _parts(out: Arrays) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Cells and self vectors, or the array and None. The core reports what is missing."""
    return (out.get("cells"), out.get("self")) if isinstance(out, dict) else (out, None)


def _world_tables(task: int, returns: np.ndarray, world: dict[str, Any]) -> tuple[int, int, int, Tables] | None:
    if not world:
        return None
    tables = {name: np.ascontiguousarray(part) for name, part in world.items() if name not in {*RNG_KEYS, "step"}}
    return (
        int(task),
        int(world["step"]),
        int(world["rng"] if "rng" in world else world["dice"]),
        tables | {"returns": np.ascontiguousarray(returns)},
    )


def _core_task(settings: ArenaSettings) -> native_core.Task:
    task = native_core.Task()
    for name in SHARED_FIELDS:
        setattr(task, name, getattr(settings, name))
    task.inventory = [settings.inventory.get(item, 0) for item in ITEMS]
    task.rewards = [settings.rewards.get(item, 0.0) for item in ITEMS]
    task.reward_caps = [settings.reward_caps.get(item, UNCAPPED) for item in ITEMS]
    task.form = FORMS.index(settings.observation)
    task.sight = settings.radius if settings.sight is None else settings.sight
    for kind, station in enumerate(settings.stations):
        stock = ENDLESS if station.stock is None else station.stock
        task.set_station(kind, station.count, station.cost, station.cooldown, stock)
    return task
