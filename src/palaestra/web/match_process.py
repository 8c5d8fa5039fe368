"""The process that plays a match, for as long as the one who asked for it looks on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from palaestra.workers.match_plan import MatchPlan

END_SECONDS = 2.0
LONGEST_LINE = 1 << 16  # bytes that it may say at once
KEPT_LINES = 20  # of what it complains of


class MatchProcess:
    """Made by `played`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._complaints: list[str] = []
        self._reading = asyncio.create_task(self._read_complaints())

    def say(self, word: dict[str, Any]) -> None:
        """What is said to one that has ended is lost."""
        assert self._process.stdin is not None
        if not self._process.stdin.is_closing():
            self._process.stdin.write(json.dumps(word).encode() + b"\n")

    async def words(self) -> AsyncIterator[dict[str, Any]]:
        """What it says, until it ends; the last word is why, unless it was asked to."""
        assert self._process.stdout is not None
        has_told = False
        while line := await self._process.stdout.readline():
            word = json.loads(line)
            has_told = has_told or "error" in word
            yield word
        code = await self._process.wait()
        if code and not has_told:
            await self._reading
            why = self._complaints[-1] if self._complaints else "it said nothing"
            yield {"error": {"message": f"The match ended with exit code {code}: {why[:300]}", "hint": ""}}

    async def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), END_SECONDS)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        self._reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._reading

    async def _read_complaints(self) -> None:
        assert self._process.stderr is not None
        while line := await self._process.stderr.readline():
            self._complaints = [*self._complaints[1 - KEPT_LINES :], line.decode("utf-8", "replace").strip()]


@contextlib.asynccontextmanager
async def played(plan: MatchPlan, runs_root: Path, lane: str) -> AsyncIterator[MatchProcess]:
    """While this lasts the match goes on; its pictures are in the lane of that name."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "palaestra.workers.match"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        start_new_session=True,  # Ctrl-C at the daemon is for the daemon
        limit=LONGEST_LINE,
    )
    match = MatchProcess(process)
    try:
        match.say({"lane": lane, "runs": str(runs_root), "plan": plan.model_dump(mode="json")})
        yield match
    finally:
        await match.end()
