"""The process that speaks with Ray (see `driver_process`), as seen by who started it: told, listened to, ended.

No call but `wait` waits. What it prints and what Ray prints goes to a log.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from palaestra.core.clock import Clock, SystemClock
from palaestra.core.errors import RunFailed
from palaestra.runs.environment import RANK_VARIABLES

if TYPE_CHECKING:
    from pathlib import Path

    from palaestra.config.distributed import ClusterConfig

logger = logging.getLogger(__name__)

OPEN_SECONDS = 120.0  # a busy machine takes its time to start Ray; a cluster that does not answer is known much sooner
SILENT_SECONDS = 60.0  # without a sign of life
SETTLE_SECONDS = 10.0  # for Ray to be put away
DRIVER = "palaestra.cluster.driver_process"


class Link:
    """Raises `RunFailed` from `hear` when there is nobody to be heard any more; a link that failed is closed."""

    def __init__(self, cluster: ClusterConfig, log: Path | None = None, clock: Clock | None = None) -> None:
        self._cluster = cluster
        self._clock = clock or SystemClock()
        self._text = b""
        self._to_say = b""
        self._is_ready = False
        self.answers, told = os.pipe()
        os.set_blocking(self.answers, False)
        variables = {name: value for name, value in os.environ.items() if name not in RANK_VARIABLES}
        with tempfile.TemporaryFile() if log is None else log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", DRIVER, str(told)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env={**variables, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                pass_fds=(told,),
                start_new_session=True,  # Ctrl-C is for who started it
            )
        os.close(told)
        assert self._process.stdin is not None
        self._input = self._process.stdin.fileno()
        os.set_blocking(self._input, False)
        self._heard_at = self._clock.monotonic()
        self.say({"cluster": cluster.model_dump(), "parent": os.getpid()})

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def name(self) -> str:
        return f"Ray at {self._cluster.address}" if self._cluster.address else "Ray on this machine"

    def say(self, message: dict[str, Any]) -> None:
        """At once or, when it is busy, with the next call."""
        self._to_say += json.dumps(message).encode() + b"\n"
        self._push()

    def hear(self) -> list[dict[str, Any]]:
        """Whole messages that have come since; those that only say that it lives are left out."""
        self._push()
        messages = [json.loads(line) for line in self._lines()]
        for message in messages:
            if "error" in message and "id" not in message:
                raise self._failed(message["error"], message["hint"], message["exit_code"])
            if "note" in message:
                logger.warning("%s", message["note"])
        self._is_ready = self._is_ready or any("ready" in message for message in messages)
        limit = SILENT_SECONDS if self._is_ready else OPEN_SECONDS
        if self._clock.monotonic() - self._heard_at > limit:
            self._process.kill()
            raise self._failed(f"{self.name} has not answered for {limit:g} s.", "Is it overloaded?")
        return [message for message in messages if "id" in message]

    def wait(self, seconds: float) -> None:
        """Until there may be something to hear, and no longer than that."""
        select.select([self.answers], [], [], seconds)

    def close(self) -> None:
        """What is under way is given up; a Ray of our own is put away."""
        if self._process.stdin is None or self._process.stdin.closed:
            return
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(SETTLE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self.answers)

    def _lines(self) -> list[bytes]:
        whole: list[bytes] = []
        while True:
            try:
                data = os.read(self.answers, 1 << 20)
            except BlockingIOError:
                return whole
            if not data:
                if whole:  # said before it ended; the end is told the next time
                    return whole
                raise self._failed(f"{self.name} is gone: {self._fate()}.", "Ask again when it is back.")
            self._heard_at = self._clock.monotonic()
            *lines, self._text = (self._text + data).split(b"\n")
            whole.extend(lines)

    def _fate(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(SETTLE_SECONDS)
        code = self._process.returncode
        if code is None:
            return "whoever spoke with it fell silent"
        how = f"by {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        return f"the process that spoke with it was ended {how}"

    def _push(self) -> None:
        """A pipe holds 64 kB; the rest waits here, not in `write`."""
        while self._to_say:
            try:
                self._to_say = self._to_say[os.write(self._input, self._to_say) :]
            except BlockingIOError:
                return
            except BrokenPipeError:  # it is gone; `hear` says so
                self._to_say = b""

    def _failed(self, message: str, hint: str, exit_code: int = 1) -> RunFailed:
        self.close()
        error = RunFailed(message, hint)
        error.exit_code = exit_code
        return error
