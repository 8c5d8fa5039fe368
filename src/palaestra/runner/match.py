"""`python -m palaestra.runner.match`: worlds side by side on the same seeds, step by step together, to be watched.

The first line of standard input says what is played (`lane`, `runs`, `plan`), further ones what a viewer does:
`{"action": 2}`, `{"pace": 5}`, `{"paused": true}`, `{"again": 7}`. Answers go to standard output, a line of JSON each.
The process ends with its input. It takes what others leave of the processor, and its pictures go through a lane.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import torch

from palaestra.config.env import EnvConfig
from palaestra.core.errors import PalaestraError, UsageError
from palaestra.core.spaces import DiscreteSpec
from palaestra.evaluation.targets import ExternalTarget, LoadedTarget, load_target
from palaestra.policies.features import refuse_other_spaces
from palaestra.rendering.frame_buffer import FrameBufferOwner, frame_buffer_path, remove_dead_frame_buffers
from palaestra.rendering.frame_writer import FrameWriter
from palaestra.runner.match_external import ExternalSeat
from palaestra.runner.match_plan import PERSON, ROLE, MatchPlan, SeatPlan
from palaestra.runner.match_screen import Screen
from palaestra.runner.match_seat import Seat, make_world
from palaestra.runs.processes import is_alive, process_started_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from palaestra.runner.match_plan import MatchMessage, MatchResult, MatchSeat
    from palaestra.runner.match_seat import World

    Tell = Callable[[MatchMessage], None]
    Words = queue.SimpleQueue[dict[str, Any] | None]  # None is the end of them

NICENESS = 10
LARGEST_SIDE = 640  # pixels
PAUSE_SECONDS = 1.2  # at the end of a round, so that it can be seen
LOOK_SECONDS = 2.0  # between two looks for a newer checkpoint; loading one takes its time
WAIT_SECONDS = 0.25  # for a word, while nothing moves


class Match:
    def __init__(self, plan: MatchPlan, runs_root: Path, tell: Tell, frame_buffer: Path | None = None) -> None:
        """`frame_buffer`: where seats that are played by other processes write their frames"""
        self._plan = plan
        self._frame_buffer = frame_buffer or Path(os.devnull)
        self._runs_root = runs_root
        self._tell = tell
        self._loaded: dict[str, LoadedTarget | ExternalTarget] = {}
        self._looked_at: dict[str, float] = {}  # when each was loaded, or found to be the newest still
        env = EnvConfig.model_validate(self._judged(plan.env_target).checkpoint.env)
        self._worlds: list[World] = []
        self.seats = [self._make_seat(number, seat, env) for number, seat in enumerate(plan.seats)]
        self._seed = plan.seed
        self._begin_round()
        self._introduce(env)

    @property
    def is_over(self) -> bool:
        return all(seat.is_over for seat in self.seats)

    def step(self, action: int) -> None:
        """All that still play take one step."""
        for number, seat in enumerate(self.seats):
            if seat.is_over or not seat.step(action):
                continue
            result: MatchResult = {
                "seat": number,
                "seed": seat.seed,
                "return": seat.total_reward,
                "length": seat.length,
            }
            self._tell({"ended": result})
            if self._plan.rounds == "apart":
                self._begin(number, self._seed)
                self._seed += 1

    def next_round(self, seed: int | None = None) -> None:
        self._seed = self._seed + 1 if seed is None else seed
        self._begin_round()

    def close(self) -> None:
        for world in self._worlds:
            world.close()
        for seat in self.seats:
            if isinstance(seat, ExternalSeat):
                seat.close()

    def _make_seat(self, number: int, seat: SeatPlan, env: EnvConfig) -> Seat | ExternalSeat:
        found = None if seat.target is None else self._judged(seat.target)
        if not isinstance(found, ExternalTarget):
            self._worlds.append(make_world(env))
            return Seat(self._worlds[-1], seat.agent if seat.player == PERSON else None)
        if seat.player == PERSON:
            raise UsageError(
                f"{found.name} is a script's policy, which plays in an environment of its own.",
                "Beside a person, let 'random' or a policy of a Palaestra run play the others.",
            )
        made = ExternalSeat(number, self._frame_buffer)
        made.load(found)  # now, so that several of them load at the same time
        return made

    def _begin_round(self) -> None:
        for number in range(len(self.seats)):
            self._begin(number, self._seed)
            if self._plan.rounds == "apart":
                self._seed += 1
        self._tell({"round": {"seed": self._seed}})

    def _begin(self, number: int, seed: int) -> None:
        target, seat = self._plan.seats[number].target, self.seats[number]
        found = None if target is None else self._judged(target, anew=self._plan.follow)
        if isinstance(seat, ExternalSeat):
            assert isinstance(found, ExternalTarget), "a run does not change its kind"
            seat.load(found)
        elif found is not None:
            assert isinstance(found, LoadedTarget), "a run does not change its kind"
            policy = found.loaded.policy
            refuse_other_spaces(policy.interface, seat.world.interface)
            seat.policy = policy.playing_in(seat.world.interface)
        seat.begin(seed, deterministic=self._plan.deterministic)

    def _judged(self, target: str, *, anew: bool = False) -> LoadedTarget | ExternalTarget:
        now = time.monotonic()
        if target not in self._loaded or (anew and now - self._looked_at[target] >= LOOK_SECONDS):
            self._looked_at[target] = now
            before = self._loaded.get(target)
            found = self._loaded[target] = load_target(target, self._runs_root)
            if before is not None and before.checkpoint.epoch != found.checkpoint.epoch:
                self._tell({"newer": {"target": target, "epoch": found.checkpoint.epoch}})
        return self._loaded[target]

    def _introduce(self, env: EnvConfig) -> None:
        world = next(iter(self._worlds), None)
        space = None if world is None else world.interface.action_space
        self._tell(
            {
                "ready": {
                    "env": env.id,
                    "players": 1 if world is None else world.players,
                    "actions": space.count if isinstance(space, DiscreteSpec) else None,
                    "seats": [self._describe(number) for number in range(len(self.seats))],
                }
            }
        )

    def _describe(self, number: int) -> MatchSeat:
        seat = self._plan.seats[number]
        target = None if seat.target is None else self._loaded[seat.target].checkpoint
        return {
            "player": seat.player,
            "agent": seat.agent if seat.player == PERSON else None,
            "run": None if target is None else target.run_name,
            "epoch": None if target is None else target.epoch,
        }


class Conductor:
    """Reads what the viewer does and keeps the time."""

    def __init__(self, match: Match, screen: Screen, pace: float, words: Words) -> None:
        self._match = match
        self._screen = screen
        self._words = words
        self._pace = pace
        self._is_paused = False
        self._action = 0  # that is held, or 0
        self._due = time.monotonic()

    def run(self) -> None:
        """Until the input ends."""
        while self._hear():
            now = time.monotonic()
            if self._match.is_over:
                if now >= self._due:
                    self._match.next_round()
                    self._screen.show(self._match.seats)
                    self._due = now + self._interval
            elif self._pace and not self._is_paused and now >= self._due:
                self._step(self._action)
                self._due = max(self._due + self._interval, now)
            self._screen.keep(self._match.seats)

    @property
    def _interval(self) -> float:
        return 1 / self._pace if self._pace else WAIT_SECONDS

    def _step(self, action: int) -> None:
        self._match.step(action)
        self._screen.show(self._match.seats)
        if self._match.is_over:
            self._due = time.monotonic() + PAUSE_SECONDS

    def _hear(self) -> bool:
        """Wait for a word, at most until something is due; False at the end of them."""
        moves = self._match.is_over or (self._pace and not self._is_paused)
        patience = min(WAIT_SECONDS, max(0.0, self._due - time.monotonic())) if moves else WAIT_SECONDS
        try:
            word = self._words.get(timeout=patience)
        except queue.Empty:
            return True
        if word is None:
            return False
        self._obey(word)
        return True

    def _obey(self, word: dict[str, Any]) -> None:
        if "pace" in word:
            self._pace = float(word["pace"])
            self._due = time.monotonic()
        if "paused" in word:
            self._is_paused = bool(word["paused"])
            self._due = time.monotonic()
        if "again" in word:
            self._match.next_round(int(word["again"]))
            self._screen.show(self._match.seats)
        if "action" in word:
            self._action = int(word["action"])
            if not self._pace and not self._match.is_over:
                self._step(self._action)


def listen(stream: IO[str], words: Words) -> None:
    for line in stream:
        words.put(json.loads(line))
    words.put(None)


def main(stream: IO[str], out: IO[str]) -> int:
    def tell(message: MatchMessage) -> None:
        print(json.dumps(message), file=out, flush=True)

    asked = json.loads(stream.readline())
    plan = MatchPlan.model_validate(asked["plan"])
    words: Words = queue.SimpleQueue()
    threading.Thread(target=listen, args=(stream, words), daemon=True).start()
    remove_dead_frame_buffers(is_alive)
    path = frame_buffer_path(asked["lane"], ROLE)
    started_at = process_started_at(os.getpid()) or 0.0
    try:
        with (
            closing(Match(plan, Path(asked["runs"]), tell, path)) as match,
            FrameBufferOwner(path, len(plan.seats), 3 * LARGEST_SIDE**2, started_at) as owner,
            closing(FrameWriter(owner.descriptor, owner.about)) as writer,
            closing(Screen(writer, LARGEST_SIDE)) as screen,
        ):
            Conductor(match, screen, plan.pace, words).run()
    except PalaestraError as error:
        tell({"error": {"message": error.message, "hint": error.hint}})
        return error.exit_code
    return 0


if __name__ == "__main__":
    os.nice(NICENESS)
    torch.set_num_threads(1)
    sys.exit(main(sys.stdin, sys.stdout))
