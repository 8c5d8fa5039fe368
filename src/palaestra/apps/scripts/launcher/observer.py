"""What is known of the script while it runs: its step, its episodes, whether it shall stop, when to save."""

from __future__ import annotations

import sys
import time
import weakref
from typing import TYPE_CHECKING, Any

from .messages import FORKS, generation

if TYPE_CHECKING:
    from collections.abc import Callable

LOOK_SECONDS = 0.1  # how often a step looks at anything but the clock, at most


def _unseen(_probes: dict[int, Any], _now: float) -> float:
    """Of a run that cannot be watched."""
    return float("inf")


class Stopped(SystemExit):
    """Raised inside `env.step`, where no update is half done; a script's `except Exception` does not hold it up."""


class Observer:
    def __init__(self, say: Callable[..., None], save_seconds: float) -> None:
        self.say = say
        self.script: dict[str, Any] = {}  # the globals of the script
        self.steps = 0  # of single environments, as far as this process hears of them
        self.episodes = 0
        self.next_index = 0  # of the next environment that is made
        self.is_gathering = False  # those that are made now are stepped together: one word counts for all of them
        self.due = 0.0  # when to look next, as `time.monotonic` counts
        self._stop_signal = 0
        self.env_id = ""  # of the first environment
        self.warm: Any = None  # what the script begins with; None once it has begun
        self.save: Callable[[str], None] | None = None
        self.remember: Callable[[Any], None] | None = None  # called with what is stepped, first and before it is closed
        self.show: Callable[[dict[int, Any], float], float] = _unseen  # gives when to call it again
        self.show_at = 0.0  # as `due`
        self._probes: dict[int, Any] = {}
        self._owner = generation()
        self._save_seconds = save_seconds
        self._has_begun = False  # to step
        self._save_at = time.monotonic() + save_seconds if save_seconds else float("inf")

    @property
    def is_owner(self) -> bool:
        """False in an environment's own process."""
        return FORKS[0] == self._owner

    @property
    def global_step(self) -> int:
        """As the script counts; -1 where it cannot be known."""
        if FORKS[0] != self._owner:
            return -1
        reported = self.script.get("global_step")
        return reported if isinstance(reported, int) and reported > 0 else self.steps

    def made(self, probe: Any, env_id: str) -> None:
        """An environment, in whichever process."""
        self.env_id = self.env_id or env_id
        self._probes[probe.index] = weakref.ref(probe)
        self.say("env", probe.index)

    @property
    def probes(self) -> dict[int, Any]:
        """Of this process, by number; those that are in an episode."""
        found = {index: probe() for index, probe in self._probes.items()}
        return {index: probe for index, probe in found.items() if probe is not None and probe.is_open}

    def begins(self, *, is_step: bool = False) -> None:
        """Before a reset, and before a step: the last moment at which the script's networks must be there."""
        if self.warm is None or not self.is_owner:
            return
        names = names_in_scope(self.script)
        if is_step or self.warm.is_ready(names):
            warm, self.warm = self.warm, None
            warm.fill_in(names, self.script)

    @property
    def stop_signal(self) -> int:
        """That shall end the script; 0: none."""
        return self._stop_signal

    @stop_signal.setter
    def stop_signal(self, number: int) -> None:
        self._stop_signal, self.due = number, 0.0

    def stepped(self, count: int = 1) -> None:
        """After every step: of one environment, or of `count` at once, whose members may be in processes of their own.
        It must cost next to nothing."""
        self.steps += count
        if time.monotonic() >= self.due:
            self.look()

    def look(self) -> None:
        """Between two steps, ten times a second and when a picture is due."""
        self.stop_if_asked()
        now = time.monotonic()
        self.due = now + LOOK_SECONDS
        self.save_if_due(now)
        probes = self.probes
        for probe in probes.values():
            probe.add_up()
            probe.look_for_shortcut()
        if now >= self.show_at:
            self.show_at = self.show(probes, now)
        self.due = min(self.due, self.show_at)

    def stop_if_asked(self) -> None:
        if self._stop_signal and self.is_owner:
            raise Stopped(128 + self._stop_signal)

    def episode_left(self, total: float, length: int) -> None:
        """Reset before it ended: what the script does not count is not counted."""

    def episode_ended(self, index: int, total: float, length: int, *, terminated: bool) -> None:
        self.episodes += 1
        self.say("episode", index, total, length, terminated, self.global_step, time.time())

    def beat(self) -> None:
        self.say("beat", self.global_step, time.time())

    def take_index(self) -> int:
        self.next_index += 1
        return self.next_index - 1

    def save_if_due(self, now: float) -> None:
        if not self._has_begun:
            self._has_begun = True
            if self.remember is not None and self.is_owner:
                self.remember(None)
        if now >= self._save_at and self.save is not None and self.is_owner:
            self.save("periodic")
            self._save_at = time.monotonic() + self._save_seconds


ARGUMENTS = ("args", "cfg", "config")  # as scripts call what their command line said


def names_in_scope(script: dict[str, Any]) -> dict[str, Any]:
    """`script`: its globals. Of functions that call one another, what the outermost has counts most."""
    found: dict[str, Any] = {}
    frame: Any = sys._getframe(1)
    while frame is not None:
        if frame.f_globals is script and frame.f_locals is not script:
            found.update(frame.f_locals)
        frame = frame.f_back
    return {**script, **found}


def find_arguments(names: dict[str, Any]) -> Any:
    """None when there are none."""
    return next((names[name] for name in ARGUMENTS if hasattr(names.get(name), "__dict__")), None)
