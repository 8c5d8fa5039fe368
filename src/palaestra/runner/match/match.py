"""A match: seats with environments of their own, which take their steps together."""

from __future__ import annotations

import os
import time
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from palaestra.config.env import EnvConfig
from palaestra.core.errors import UsageError
from palaestra.core.spaces import DiscreteSpec
from palaestra.evaluation.targets import ExternalTarget, LoadedTarget, load_target
from palaestra.policies.features import refuse_other_spaces
from palaestra.rendering.frame_format import Heartbeat
from palaestra.rendering.images import fit
from palaestra.runner.match.plan import PERSON, MatchPlan, SeatPlan
from palaestra.runner.match.seats import ExternalSeat, Seat, make_match_env

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from palaestra.rendering.frame_format import Condition, Demand
    from palaestra.rendering.frame_writer import FrameWriter
    from palaestra.runner.match.plan import MatchMessage, MatchResult, MatchSeat
    from palaestra.runner.match.seats import MatchEnv

    Publish = Callable[[MatchMessage], None]


HEARTBEAT_SECONDS = 0.1
SHOW_AGAIN_SECONDS = 0.5  # while nothing moves, for viewers that connect later or want a larger frame


class Display:
    """The tiles of one match."""

    def __init__(self, writer: FrameWriter, largest_side: int) -> None:
        self._writer = writer
        self._largest_side = largest_side
        self._steps = 0
        self._heartbeat_at = self._shown_at = 0.0
        self._spent = 0.0  # seconds on drawing

    def show(self, seats: Sequence[Seat | ExternalSeat]) -> None:
        """Call it after every step."""
        self._steps += sum(not seat.is_over for seat in seats)
        self._draw([(slot, seat) for slot, seat in enumerate(seats) if not isinstance(seat, ExternalSeat)])

    def refresh(self, seats: Sequence[Seat | ExternalSeat]) -> None:
        """Call it between steps, as often as convenient."""
        now = monotonic()
        if now - self._shown_at >= SHOW_AGAIN_SECONDS:
            self.show_again(seats)
        if now - self._heartbeat_at >= HEARTBEAT_SECONDS:
            self._write_heartbeat("open")

    def show_again(self, seats: Sequence[Seat | ExternalSeat]) -> None:
        """Renders again while nothing moves: for viewers that connect later or want a larger frame."""
        for seat in seats:
            if isinstance(seat, ExternalSeat):
                seat.show()
        self._draw([(slot, seat) for slot, seat in enumerate(seats) if not isinstance(seat, ExternalSeat)])

    def close(self) -> None:
        self._write_heartbeat("closed")

    def _draw(self, seats: Sequence[tuple[int, Seat]]) -> None:
        """The seats that do not write their frames by themselves."""
        self._shown_at = began_at = monotonic()
        demand = self._writer.demand(began_at)
        for slot, seat in seats:
            if demand is not None and slot in demand.slots:
                self._write(slot, seat, demand)
        self._spent += monotonic() - began_at

    def _write(self, slot: int, seat: Seat, demand: Demand) -> None:
        content, numbers = seat.view()
        if not isinstance(content, bytes):
            content = fit(content, demand.largest_side, self._largest_side)
        self._writer.write(slot, content, numbers)
        self._writer.notify(demand, slot)

    def _write_heartbeat(self, condition: Condition) -> None:
        self._heartbeat_at = monotonic()
        self._writer.write_heartbeat(
            Heartbeat(self._heartbeat_at, self._steps, 0, self._writer.total_frames(), self._spent, 0.0, condition)
        )


CHECK_SECONDS = 2.0  # between two looks for a newer checkpoint; loading one takes its time


class Match:
    """Plays what `plan` says; everything that happens is published as a `MatchMessage`."""

    def __init__(self, plan: MatchPlan, runs_root: Path, publish: Publish, frame_buffer: Path | None = None) -> None:
        """`frame_buffer`: where seats that other processes play write their frames."""
        self._plan = plan
        self._frame_buffer = frame_buffer or Path(os.devnull)
        self._runs_root = runs_root
        self._publish = publish
        self._loaded: dict[str, LoadedTarget | ExternalTarget] = {}
        self._checked_at: dict[str, float] = {}  # when each was loaded, or found to be the newest
        env = EnvConfig.model_validate(self._load(plan.env_target).checkpoint.env)
        self._envs: list[MatchEnv] = []
        self.seats = [self._make_seat(number, seat, env) for number, seat in enumerate(plan.seats)]
        self._seed = plan.seed
        self._begin_round()
        self._publish_ready(env)

    @property
    def is_over(self) -> bool:
        return all(seat.is_over for seat in self.seats)

    def step(self, action: int) -> None:
        """Every seat whose episode is not over takes one step."""
        for number, seat in enumerate(self.seats):
            if seat.is_over or not seat.step(action):
                continue
            result: MatchResult = {
                "seat": number,
                "seed": seat.seed,
                "return": seat.total_reward,
                "length": seat.length,
            }
            self._publish({"ended": result})
            if self._plan.rounds == "apart":
                self._begin(number, self._seed)
                self._seed += 1

    def next_round(self, seed: int | None = None) -> None:
        self._seed = self._seed + 1 if seed is None else seed
        self._begin_round()

    def close(self) -> None:
        for env in self._envs:
            env.close()
        for seat in self.seats:
            if isinstance(seat, ExternalSeat):
                seat.close()

    def _make_seat(self, number: int, seat: SeatPlan, env: EnvConfig) -> Seat | ExternalSeat:
        found = None if seat.target is None else self._load(seat.target)
        if not isinstance(found, ExternalTarget):
            self._envs.append(make_match_env(env))
            return Seat(self._envs[-1], seat.agent if seat.player == PERSON else None)
        if seat.player == PERSON:
            raise UsageError(
                f"{found.name} is a script's policy, which plays in an environment of its own.",
                "Beside a person, let 'random' or a policy of a Palaestra run play the others.",
            )
        made = ExternalSeat(number, self._frame_buffer)
        made.load(found)  # at once, so that several load at the same time
        return made

    def _begin_round(self) -> None:
        for number in range(len(self.seats)):
            self._begin(number, self._seed)
            if self._plan.rounds == "apart":
                self._seed += 1
        self._publish({"round": {"seed": self._seed}})

    def _begin(self, number: int, seed: int) -> None:
        target, seat = self._plan.seats[number].target, self.seats[number]
        found = None if target is None else self._load(target, refresh=self._plan.follow)
        if isinstance(seat, ExternalSeat):
            assert isinstance(found, ExternalTarget), "a run does not change its kind"
            seat.load(found)
        elif found is not None:
            assert isinstance(found, LoadedTarget), "a run does not change its kind"
            policy = found.loaded.policy
            refuse_other_spaces(policy.interface, seat.env.interface)
            seat.policy = policy.playing_in(seat.env.interface)
        seat.begin(seed, deterministic=self._plan.deterministic)

    def _load(self, target: str, *, refresh: bool = False) -> LoadedTarget | ExternalTarget:
        now = time.monotonic()
        if target not in self._loaded or (refresh and now - self._checked_at[target] >= CHECK_SECONDS):
            self._checked_at[target] = now
            before = self._loaded.get(target)
            found = self._loaded[target] = load_target(target, self._runs_root)
            if before is not None and before.checkpoint.epoch != found.checkpoint.epoch:
                self._publish({"newer": {"target": target, "epoch": found.checkpoint.epoch}})
        return self._loaded[target]

    def _publish_ready(self, config: EnvConfig) -> None:
        env = next(iter(self._envs), None)
        space = None if env is None else env.interface.action_space
        self._publish(
            {
                "ready": {
                    "env": config.id,
                    "players": 1 if env is None else env.players,
                    "actions": space.count if isinstance(space, DiscreteSpec) else None,
                    "seats": [self._describe(number) for number in range(len(self.seats))],
                }
            }
        )

    def _describe(self, number: int) -> MatchSeat:
        seat = self._plan.seats[number]
        checkpoint = None if seat.target is None else self._loaded[seat.target].checkpoint
        return {
            "player": seat.player,
            "agent": seat.agent if seat.player == PERSON else None,
            "run": None if checkpoint is None else checkpoint.run_name,
            "epoch": None if checkpoint is None else checkpoint.epoch,
        }
