"""Where a replay stands and how it goes on: a value that keys and time change, without any terminal."""

from __future__ import annotations

from dataclasses import dataclass, replace

SPEEDS = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)  # steps per second
HELP = "space pause  \u2190 \u2192 step  + - speed  home end  tab follow  q quit"


@dataclass(frozen=True)
class Playback:
    length: int  # steps of the replay
    step: int = 0
    speed: float = 8.0
    is_paused: bool = False
    follow: int | None = None
    is_over: bool = False  # the person has left

    @property
    def seconds_until_next(self) -> float | None:
        """None: nothing moves until a key is pressed"""
        return None if self.is_paused or self.step >= self.length else 1 / self.speed

    def ticked(self) -> Playback:
        return replace(self, step=min(self.step + 1, self.length))

    def pressed(self, key: str) -> Playback:
        match key:
            case "space":
                at_end = self.step >= self.length
                return replace(self, is_paused=False, step=0) if at_end else replace(self, is_paused=not self.is_paused)
            case "right":
                return replace(self.ticked(), is_paused=True)
            case "left":
                return replace(self, step=max(self.step - 1, 0), is_paused=True)
            case "home":
                return replace(self, step=0)
            case "end":
                return replace(self, step=self.length)
            case "+" | "=" | "up":
                return replace(self, speed=min((speed for speed in SPEEDS if speed > self.speed), default=self.speed))
            case "-" | "_" | "down":
                return replace(self, speed=max((speed for speed in SPEEDS if speed < self.speed), default=self.speed))
            case "tab":
                return replace(self, follow=0 if self.follow is None else self.follow + 1)
            case "q" | "escape" | "gone":
                return replace(self, is_over=True)
        return self

    def bar(self, columns: int) -> str:
        """`▶ [#####-----] 120/256  8/s`"""
        state = "=" if self.is_paused else ">"
        tail = f" {self.step}/{self.length}  {self.speed:g}/s"
        room = max(columns - len(tail) - 4, 1)
        filled = room if self.length == 0 else round(room * self.step / self.length)
        return f"{state} [{'#' * filled}{'-' * (room - filled)}]{tail}"
