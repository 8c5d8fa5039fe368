"""The state of a running script: step and episode counts, requests to stop, and when to save and to render."""

from __future__ import annotations

import sys
import time
import weakref
from typing import TYPE_CHECKING, Any

from .messages import FORKS, fork_count

if TYPE_CHECKING:
    from collections.abc import Callable

CHECK_SECONDS = 0.1  # shortest time between two checks; other steps only read the clock


def _no_live_view(_probes: dict[int, Any], _now: float) -> float:
    """Default for `Observer.update_live_view`: never due."""
    return float("inf")


class Stopped(SystemExit):
    """Raised inside `env.step`, where no update is in progress. A script's `except Exception` does not catch it."""


class Observer:
    """Counts steps and episodes of the script; saves, renders and stops between two environment steps."""

    def __init__(self, send: Callable[..., None], save_seconds: float) -> None:
        self.send = send
        self.script: dict[str, Any] = {}  # the globals of the script
        self.steps = 0  # steps of single environments, counted in this process
        self.episodes = 0
        self.next_index = 0  # index of the next environment
        self.in_vector_env = False  # environments made now belong to a SyncVectorEnv, which counts their steps
        self.next_check = 0.0  # in `time.monotonic` seconds
        self._stop_signal = 0
        self.env_id = ""  # id of the first environment
        self.warm_start: Any = None  # weights to start from; None once they are loaded
        self.save: Callable[[str], None] | None = None
        self.collect_statistics: Callable[[Any], None] | None = None  # called at the first step and before a close
        self.update_live_view: Callable[[dict[int, Any], float], float] = _no_live_view  # returns when it is due next
        self.live_view_due = 0.0  # in `time.monotonic` seconds
        self._probes: dict[int, Any] = {}
        self._owner = fork_count()
        self._save_seconds = save_seconds
        self._has_stepped = False
        self._save_at = time.monotonic() + save_seconds if save_seconds else float("inf")

    @property
    def is_main_process(self) -> bool:
        """False in a worker process of AsyncVectorEnv."""
        return FORKS[0] == self._owner

    @property
    def global_step(self) -> int:
        """The script's own `global_step`, else the steps counted here; -1 in a worker process."""
        if FORKS[0] != self._owner:
            return -1
        reported = self.script.get("global_step")
        return reported if isinstance(reported, int) and reported > 0 else self.steps

    def add_env(self, probe: Any, env_id: str) -> None:
        """Registers an environment of this process and reports its index."""
        self.env_id = self.env_id or env_id
        self._probes[probe.index] = weakref.ref(probe)
        self.send("env", probe.index)

    @property
    def probes(self) -> dict[int, Any]:
        """Open environments of this process by index."""
        found = {index: probe() for index, probe in self._probes.items()}
        return {index: probe for index, probe in found.items() if probe is not None and probe.is_open}

    def apply_warm_start(self, *, is_step: bool = False) -> None:
        """Loads the initial weights once all networks exist; at the first step they must exist."""
        if self.warm_start is None or not self.is_main_process:
            return
        names = names_in_scope(self.script)
        if is_step or self.warm_start.is_ready(names):
            warm, self.warm_start = self.warm_start, None
            warm.fill_in(names, self.script)

    @property
    def stop_signal(self) -> int:
        """The signal that requested a stop; 0: none."""
        return self._stop_signal

    @stop_signal.setter
    def stop_signal(self, number: int) -> None:
        self._stop_signal, self.next_check = number, 0.0

    def count_steps(self, count: int = 1) -> None:
        """Called after every step of one environment, or of a vector of `count`. On the hot path of the script."""
        self.steps += count
        if time.monotonic() >= self.next_check:
            self.check()

    def check(self) -> None:
        """Stops, saves and renders what is due. Runs between two steps, ten times a second or when a frame is due."""
        self.stop_if_requested()
        now = time.monotonic()
        self.next_check = now + CHECK_SECONDS
        self.save_if_due(now)
        probes = self.probes
        for probe in probes.values():
            probe.sum_rewards()
            probe.find_shortcut()
        if now >= self.live_view_due:
            self.live_view_due = self.update_live_view(probes, now)
        self.next_check = min(self.next_check, self.live_view_due)

    def stop_if_requested(self) -> None:
        if self._stop_signal and self.is_main_process:
            raise Stopped(128 + self._stop_signal)

    def episode_abandoned(self, total: float, length: int) -> None:
        """An episode that was reset before its end is not counted, as in the script."""

    def episode_ended(self, index: int, total: float, length: int, *, terminated: bool) -> None:
        self.episodes += 1
        self.send("episode", index, total, length, terminated, self.global_step, time.time())

    def send_heartbeat(self) -> None:
        self.send("heartbeat", self.global_step, time.time())

    def take_index(self) -> int:
        self.next_index += 1
        return self.next_index - 1

    def save_if_due(self, now: float) -> None:
        if not self._has_stepped:
            self._has_stepped = True
            if self.collect_statistics is not None and self.is_main_process:
                self.collect_statistics(None)
        if now >= self._save_at and self.save is not None and self.is_main_process:
            self.save("periodic")
            self._save_at = time.monotonic() + self._save_seconds


ARGUMENTS = ("args", "cfg", "config")  # usual names of a script's parsed arguments


def names_in_scope(script: dict[str, Any]) -> dict[str, Any]:
    """Globals of the script and locals of its active functions. Globals win over locals, outer functions over inner."""
    found: dict[str, Any] = {}
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_globals is script and frame.f_locals is not script:
            found.update(frame.f_locals)
        frame = frame.f_back
    return {**script, **found}


def find_arguments(names: dict[str, Any]) -> Any:
    """The script's parsed arguments; None without any."""
    return next((names[name] for name in ARGUMENTS if hasattr(names.get(name), "__dict__")), None)
