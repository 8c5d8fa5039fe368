"""Environments whose pictures can be watched while they are stepped.

Nobody watches: one word is looked at, ten times a second. Somebody watches: pictures are drawn within a budget. What
goes wrong with them ends the live view, once and with a message, and nothing else.
"""

from __future__ import annotations

import logging
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any

from palaestra.envs.easel import fitted
from palaestra.envs.painter import Way
from palaestra.envs.vector import VectorStep
from palaestra.frames.beat import Beat
from palaestra.frames.note import Numbers
from palaestra.frames.pacing import Pacing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from palaestra.contracts.spaces import EnvInterface
    from palaestra.envs.painter import Painter
    from palaestra.envs.scene import AnyScene, Scene
    from palaestra.envs.vector import Arrays, VectorEnvs
    from palaestra.frames.beat import Condition
    from palaestra.frames.demand import Demand
    from palaestra.frames.writer import FrameWriter

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.1  # between two looks for viewers
# Of the budget, where a painter draws. What it does on another core is felt on this one, where the two share caches
# and units: by the clock a pose that is told costs three to four times the moment that it takes to tell.
TOLD_SHARE = 0.15


class Publisher:
    """Writes what a scene shows into a lane. `look` is to be called once `due` has come, between two steps."""

    def __init__(
        self,
        writer: FrameWriter,
        budget: float,
        largest_side: int,
        *,
        first_slot: int = 0,
        on_failure: Callable[[str], None] = lambda _reason: None,
        painter: Painter | None = None,
    ) -> None:
        """`painter`: who draws elsewhere what the scene shows, as long as that goes well."""
        self.due = 0.0  # on the machine's monotonic clock
        self.env_steps = 0  # of the run
        self.episodes = 0
        self._writer = writer
        self._budget = budget
        self._pacing = Pacing(budget)
        self._largest_side = largest_side
        self._first_slot = first_slot
        self._on_failure = on_failure
        self._painter = painter
        self._looked_at: float | None = None  # when there was a viewer, the last time
        self._seconds_spent = self._seconds_watched = 0.0
        self._has_drawn = False

    @property
    def is_watched(self) -> bool:
        """Whether somebody watched at the last look"""
        return self._looked_at is not None and self.due < inf

    def look(self, scene: Scene, env_step: int, bring_up_to_date: Callable[[], None] = lambda: None) -> None:
        """`env_step`: of each environment. `bring_up_to_date`: the scene, before anything of it is shown."""
        now = monotonic()
        demand = self._writer.demand(now)
        if demand is None:
            self._looked_at = None
            self.due = now + LOOK_SECONDS
            if self._painter is not None:
                self._painter.rest(now)
        else:
            try:
                self._publish(scene, demand, env_step, now, bring_up_to_date)
            except Exception as error:  # noqa: BLE001  what draws may raise anything, and training must not notice
                self._fail(error)
                return
        self._beat("open")

    def close(self) -> None:
        if self._painter is not None:
            self._painter.close()
        if self.due < inf:
            self._beat("closed")
        self.due = inf

    def _publish(
        self, scene: Scene, demand: Demand, env_step: int, now: float, bring_up_to_date: Callable[[], None]
    ) -> None:
        if self._looked_at is not None:
            self._seconds_watched += now - self._looked_at
        self._looked_at = now
        tiles = [slot - self._first_slot for slot in demand.slots]
        wanted = [tile for tile in tiles if 0 <= tile < min(scene.tiles, self._writer.about.slot_count)]
        self._pacing.begin(now)
        way = Way.DRAW if self._painter is None else self._painter.attend(now)
        if way is Way.TELL and self._painter is not None:
            self._tell(self._painter, wanted, demand.frames_per_second, env_step, now, bring_up_to_date)
        elif way is Way.DRAW:
            self._draw(scene, wanted, demand, env_step, now, bring_up_to_date)
        else:
            self.due = now + LOOK_SECONDS

    def _tell(
        self,
        painter: Painter,
        wanted: Sequence[int],
        frames_per_second: float,
        env_step: int,
        now: float,
        bring_up_to_date: Callable[[], None],
    ) -> None:
        """All tiles in one round, however far apart they were drawn before: what a round needs beforehand (worlds that
        an engine hands back, a process woken) is needed once. It is paid for when it is over."""
        self._pacing.budget = self._budget * TOLD_SHARE
        is_up_to_date = False
        while (tile := self._pacing.next_slot(wanted, now)) is not None:
            if not is_up_to_date:
                bring_up_to_date()
                is_up_to_date = True
            if not painter.tell(tile, env_step, now):
                break  # how it goes on is decided at the next look
            self._pacing.drawn(tile, now, 0.0, frames_per_second)
        if is_up_to_date:
            self._pacing.pay(self._spent(now))
        self.due = min(max(self._pacing.due_at(wanted, now), now + 1 / frames_per_second), now + LOOK_SECONDS)

    def _draw(
        self,
        scene: Scene,
        wanted: Sequence[int],
        demand: Demand,
        env_step: int,
        now: float,
        bring_up_to_date: Callable[[], None],
    ) -> None:
        """One after the other as the budget allows, seldom two in one go"""
        self._pacing.budget = self._budget
        began_at = now
        while (tile := self._pacing.next_slot(wanted, now)) is not None:
            bring_up_to_date()
            self._show(scene, tile, demand, env_step)
            self._pacing.drawn(tile, now, self._spent(began_at), demand.frames_per_second)
            began_at = monotonic()
        self.due = min(self._pacing.due_at(wanted, now), now + LOOK_SECONDS)

    def _spent(self, began_at: float) -> float:
        """Seconds since then, counted, and how many of them must be earned: the first picture loads what draws it; that
        happens once and is not paid off by standing still."""
        cost = monotonic() - began_at
        self._seconds_spent += cost
        owed, self._has_drawn = cost if self._has_drawn else 0.0, True
        return owed

    def _show(self, scene: Scene, tile: int, demand: Demand, env_step: int) -> None:
        view = scene.view(tile)
        content = view.content
        if not isinstance(content, bytes):
            content = fitted(content, demand.largest_side, self._largest_side)
        slot = self._first_slot + tile
        self._writer.write(slot, content, Numbers(env_step, view.reward, view.total_reward, view.length))
        self._writer.ring(demand, slot)

    def _fail(self, error: Exception) -> None:
        self.due = inf
        if self._painter is not None:
            self._painter.close()
        reason = f"{type(error).__name__}: {error}".strip().removesuffix(".")
        self._beat("failed", reason)
        logger.warning("The live view is off from here on; the run goes on as before. %s.", reason)
        self._on_failure(reason)

    def _beat(self, condition: Condition, reason: str = "") -> None:
        if self._first_slot:  # there is one beat for all who write into a lane
            return
        frames = self._writer.frames_in_lane()
        spent = (self._seconds_spent, self._seconds_watched)
        self._writer.beat(Beat(monotonic(), self.env_steps, self.episodes, frames, *spent, condition, reason))


class PublishedEnvs:
    """A `palaestra.envs.vector.VectorEnvs` that plays exactly as the one that it is given, and can be watched."""

    def __init__(self, envs: VectorEnvs, scene: AnyScene, publisher: Publisher, steps_taken: int, rows: int) -> None:
        """`steps_taken`: of the run so far. `rows`: that one step counts for, over all processes."""
        self.count = envs.count
        self.interface: EnvInterface = envs.interface
        self.inner = envs
        self._step = envs.step
        self._scene = scene
        self._publisher = publisher
        self._steps_taken = steps_taken
        self._rows = rows
        self._steps = 0

    def step(self, actions: np.ndarray, out: Arrays) -> VectorStep:
        result = self._step(actions, out)
        self._count(1, len(result.endings))
        if monotonic() >= self._publisher.due:
            self._look(result)
        return result

    @property
    def is_watched(self) -> bool:
        return self._publisher.is_watched

    def played(
        self,
        steps: int,
        endings: int,
        rewards: NDArray[np.float32],
        bring_up_to_date: Callable[[], None] = lambda: None,
    ) -> None:
        """Somebody else took `steps` steps of each; the copies here are brought up to date when they are looked at.

        `rewards`: of the last step, [B].
        """
        self._count(steps, endings)
        if monotonic() >= self._publisher.due:
            self._look(VectorStep(rewards, []), bring_up_to_date)

    def _count(self, steps: int, endings: int) -> None:
        self._steps += steps
        self._publisher.episodes += endings

    def _look(self, last: VectorStep, bring_up_to_date: Callable[[], None] = lambda: None) -> None:
        self._scene.last = last
        self._publisher.env_steps = self._steps_taken + self._steps * self._rows
        self._publisher.look(self._scene, self._steps, bring_up_to_date)

    def reset(self, seeds: Sequence[int], out: Arrays) -> None:
        self.inner.reset(seeds, out)

    def why_inexact(self) -> str:
        return self.inner.why_inexact()

    def capture(self) -> dict[str, Any] | None:
        return self.inner.capture()

    def restore(self, state: dict[str, Any]) -> None:
        self.inner.restore(state)

    def close(self) -> None:
        self.inner.close()
