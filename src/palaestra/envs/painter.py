"""The process that draws for this one, seen from here: how it is started, told poses, missed and ended.

It is never waited for. Where it cannot be had, or is lost twice, that is said once, and pictures are drawn here.
"""

from __future__ import annotations

import logging
import signal
import subprocess
import time
from contextlib import suppress
from enum import Enum, auto
from typing import TYPE_CHECKING

from palaestra.envs.child_process import start_child
from palaestra.envs.painter_line import PainterLine, TooLong, Word, connected
from palaestra.envs.pose import NoPose, Poser
from palaestra.envs.scene import EnvsScene
from palaestra.envs.wire import LineClosed

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.config.env import EnvConfig

logger = logging.getLogger(__name__)

START_SECONDS = 60.0  # to be ready; it has the lowest priority, so on a busy machine that may take long
REST_SECONDS = 10.0  # without anybody who watches, until it is sent away
STUCK_SECONDS = 10.0  # without taking what it is told
GOODBYE_SECONDS = 1.0  # for the kernel to end what was killed
NEW_ONES = 1  # after one that was lost


class Way(Enum):
    """What to do about pictures now"""

    TELL = auto()  # the painter takes poses
    DRAW = auto()  # they are to be drawn here
    WAIT = auto()  # the painter comes soon, and drawing here would cost too much


class Painter:
    def __init__(self, scene: EnvsScene, env: EnvConfig, lane: Path, largest_side: int) -> None:
        """`env`: as those of the scene were made. Nothing is started yet."""
        self.reason = ""  # why it is not asked any more
        self._scene = scene
        self._start_words = {"env": env.model_dump(mode="json"), "lane": str(lane), "largest_side": largest_side}
        self._poser: Poser | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._line: PainterLine | None = None
        self._is_ready = False
        self._started_at = self._wanted_at = 0.0  # on the machine's monotonic clock
        self._full_since: float | None = None
        self._lost = 0

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def attend(self, now: float) -> Way:
        """Somebody watches: it is started if it is not there, and heard if it has something to say."""
        self._wanted_at = now
        if not self.reason and self._process is None:
            self._start(now)
        if self._line is not None:
            self._hear(self._line, now)
        if self._is_ready:
            return Way.TELL
        is_coming = self._poser is not None and self._poser.has_simulation and not self.reason
        return Way.WAIT if is_coming else Way.DRAW

    def tell(self, tile: int, env_step: int, now: float) -> bool:
        """How environment `tile` stands now; when there is no room for that, there is one picture less.

        False when the painter takes no more poses.
        """
        assert self._poser is not None
        assert self._line is not None
        env, reward, total_reward, length = self._scene.sitter(tile)
        numbers = {"env_step": env_step, "reward": reward, "total_reward": total_reward, "length": length}
        try:
            pose = self._poser.take(tile, env)
            taken = self._line.say(Word.POSE, {"slot": tile, "at": time.time(), "pose": pose, **numbers})
        except NoPose as error:
            self._give_up(str(error))
        except TooLong as error:
            self._give_up(f"a pose has {error}")
        except LineClosed:
            self._lose()
        else:
            self._notice_whether_it_is_stuck(taken, now)
        return self._is_ready

    def rest(self, now: float) -> None:
        """Nobody watches."""
        if self._process is not None and now - self._wanted_at > REST_SECONDS:
            self._dismiss()

    def close(self) -> None:
        self._dismiss()

    def _start(self, now: float) -> None:
        ours, theirs = connected()
        with theirs:
            try:
                self._poser = Poser(self._scene.sitter(0).env)
                words = {**self._start_words, "digests": self._poser.digests()}
                self._process = start_child("palaestra.envs.painter_process", (theirs.fileno(),))
                self._line = PainterLine(ours)
                self._line.say(Word.START, words)
            except (NoPose, TooLong) as error:
                ours.close()
                self._give_up(str(error), logging.DEBUG)
            except (OSError, LineClosed) as error:
                ours.close()
                self._give_up(f"it cannot be started: {error}")
        self._started_at, self._full_since = now, None

    def _hear(self, line: PainterLine, now: float) -> None:
        try:
            said = line.hear()
        except LineClosed:
            self._lose()
            return
        if said is None:
            if not self._is_ready and now - self._started_at > START_SECONDS:
                self._give_up(f"it was not ready after {START_SECONDS:g} s")
        elif said.word is Word.READY:
            assert self._poser is not None
            self._poser.agree(said.content["alike"])
            self._is_ready = True
        else:
            self._give_up(str(said.content["reason"]))

    def _notice_whether_it_is_stuck(self, taken: bool, now: float) -> None:
        if taken:
            self._full_since = None
        elif self._full_since is None:
            self._full_since = now
        elif now - self._full_since > STUCK_SECONDS:
            self._lose()

    def _lose(self) -> None:
        """Another is started when the next picture is due, unless it was not the first."""
        code = self._dismiss()
        self._lost += 1
        if self._lost > NEW_ONES:
            self._give_up(f"it was lost {self._lost} times, at last {_ending(code)}")

    def _give_up(self, reason: str, level: int = logging.WARNING) -> None:
        self._dismiss()
        self.reason = reason.removesuffix(".")
        logger.log(level, "Pictures are drawn by the training itself, not beside it: %s.", self.reason)

    def _dismiss(self) -> int | None:
        """It has nothing to save: whatever it writes is whole or was never there. Its exit code, if it has one."""
        if self._line is not None:
            self._line.close()
        code = None
        if self._process is not None:
            code = self._process.poll()
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(GOODBYE_SECONDS)
        self._process, self._line, self._is_ready = None, None, False
        return code


def painter_for(scene: object, env: EnvConfig, lane: Path, largest_side: int) -> Painter | None:
    """None for environments that do not live in this process, or are no copies of one class."""
    return Painter(scene, env, lane, largest_side) if isinstance(scene, EnvsScene) else None


def _ending(code: int | None) -> str:
    if code is None:
        return "because it did nothing any more"
    if code < 0:
        return f"by {next((one.name for one in signal.Signals if one == -code), f'signal {-code}')}"
    return f"with exit code {code}"
