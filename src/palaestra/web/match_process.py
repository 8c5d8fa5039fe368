"""The process that plays a match, for as long as the one who asked for it looks on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from typing import TYPE_CHECKING, Any

import anyio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from palaestra.runner.match_plan import MatchPlan

PROGRAM = ("-P", "-m", "palaestra.runner.match")
END_SECONDS = 2.0
KEPT_BYTES = 4096  # of what it complains of
OUTPUT = 1  # what it says; its complaints come by the other


class MatchProcess(asyncio.SubprocessProtocol):
    """Made by `played`."""

    def __init__(self) -> None:
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._gone = asyncio.Event()
        self._begun = self._complaints = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd != OUTPUT:
            self._complaints = (self._complaints + data)[-KEPT_BYTES:]
            return
        *lines, self._begun = (self._begun + data).split(b"\n")
        for line in lines:
            self._lines.put_nowait(line)

    def connection_lost(self, _error: Exception | None) -> None:
        """It has ended, and all that it said was read."""
        self._lines.put_nowait(None)
        self._gone.set()

    def say(self, word: dict[str, Any]) -> None:
        """What is said to one that has ended is lost."""
        pipe = self._transport.get_pipe_transport(0)
        assert isinstance(pipe, asyncio.WriteTransport)
        if not pipe.is_closing():
            pipe.write(json.dumps(word).encode() + b"\n")

    async def words(self) -> AsyncIterator[dict[str, Any]]:
        """What it says, until it ends; the last word is why, unless it was asked to."""
        has_told = False
        while (line := await self._lines.get()) is not None:
            word = json.loads(line)
            has_told = has_told or "error" in word
            yield word
        code = self._transport.get_returncode()
        if code and not has_told:
            why = self._complaints.decode("utf-8", "replace").strip().splitlines()[-1:] or ["it said nothing"]
            yield {"error": {"message": f"The match ended with exit code {code}: {why[0][:300]}", "hint": ""}}

    async def end(self) -> None:
        """Gently: its input ends, and it takes its lane away. Then at once."""
        pipe = self._transport.get_pipe_transport(0)
        assert pipe is not None
        pipe.close()
        try:
            await asyncio.wait_for(self._gone.wait(), END_SECONDS)
        except TimeoutError:
            self._transport.kill()
            await self._gone.wait()
        finally:
            self._transport.close()


@contextlib.asynccontextmanager
async def played(plan: MatchPlan, runs_root: Path, lane: str) -> AsyncIterator[MatchProcess]:
    """While this lasts the match goes on; its pictures are in the lane of that name."""
    _, match = await asyncio.get_running_loop().subprocess_exec(
        MatchProcess,
        *(sys.executable, *PROGRAM),
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        start_new_session=True,  # Ctrl-C at the daemon is for the daemon
    )
    try:
        match.say({"lane": lane, "runs": str(runs_root), "plan": plan.model_dump(mode="json")})
        yield match
    finally:
        with anyio.CancelScope(shield=True):  # a viewer who goes must not leave a process behind
            await match.end()
