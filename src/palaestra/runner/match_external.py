"""A seat of a match whose policy is not of our making: another process plays it, in an environment of its own."""

from __future__ import annotations

import os
import select
import time
from typing import TYPE_CHECKING, Any

from palaestra.core.errors import RunFailed
from palaestra.evaluation.pool import EvaluatorProcess

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.evaluation.targets import ExternalTarget

ANSWER_SECONDS = 120.0  # to load libraries and networks, or to take one step


class ExternalSeat:
    """Has the interface of `palaestra.runner.match_seat.Seat`; its process writes the frames by itself."""

    def __init__(self, slot: int, frame_buffer: Path) -> None:
        self.seed = 0
        self.length = 0
        self.total_reward = 0.0
        self.is_over = True
        self._slot = slot
        self._frame_buffer = frame_buffer
        self._found: ExternalTarget | None = None
        self._process: EvaluatorProcess | None = None

    def load(self, found: ExternalTarget) -> None:
        """Its process is started anew when the checkpoint is another one."""
        if self._found is not None and self._found.checkpoint.epoch == found.checkpoint.epoch:
            return
        self.close()
        start, program = found.policy.match_player()
        place = {"frame_buffer": str(self._frame_buffer), "slot": self._slot, "parent": os.getpid()}
        self._found, self._process = found, EvaluatorProcess(self._slot, {**start, **place}, program)

    def begin(self, seed: int, *, deterministic: bool) -> None:
        assert self._found is not None, "it was loaded"
        self.seed, self.is_over = seed, False
        env_id = str(self._found.checkpoint.env["id"])
        self._ask({"begin": {"env_id": env_id, "seeds": [seed], "deterministic": deterministic}})

    def step(self, _persons_action: int) -> bool:
        """Whether that was the end of the episode."""
        self._ask({"step": True})
        return self.is_over

    def show(self) -> None:
        """Once more, for a viewer who came later."""
        if self._process is not None and not self.is_over:
            self._process.send({"show": True})

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
        self._process = self._found = None

    def _ask(self, command: dict[str, Any]) -> None:
        assert self._process is not None, "it was loaded"
        self._process.send(command)
        answer = self._answer(self._process)
        if "error" in answer:
            raise RunFailed(answer["error"], answer["hint"])
        now = answer["at"]
        self.total_reward, self.length, self.is_over = now["total_reward"], now["length"], now["is_over"]

    def _answer(self, process: EvaluatorProcess) -> dict[str, Any]:
        """Of an episode that was broken off nothing is left: each command has one answer."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while (left := deadline - time.monotonic()) > 0:
            if not select.select([process.messages], [], [], left)[0]:
                break
            answers = process.receive()
            if answers is None:
                raise RunFailed("The process that plays the script's policy has ended.", "Its output tells more.")
            if answers:
                return answers[-1]
        raise RunFailed(f"The script's policy did not take a step within {ANSWER_SECONDS:g} s.")
