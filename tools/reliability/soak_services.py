"""The services of a soak test, and their recovery: a daemon, two trainings, a repeated evaluation and viewers."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import psutil
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect as open_socket

from palaestra.checkpoints.files import epoch_of_data
from palaestra.client.calls import connect
from palaestra.client.daemon_address import read_daemon_address, token_file
from palaestra.core.errors import PalaestraError, RunFailed
from palaestra.daemon.monitor_handle import is_running, read_monitor_record
from palaestra.daemon.process_tree import find_members, send_signal
from palaestra.evaluation.summary import read_batches
from palaestra.rendering.frame_buffer import all_frame_buffers
from palaestra.runs.directory import RunDirectory
from palaestra.runs.metrics.reader import MetricsReader
from tools.reliability.soak_audit import RunAudit

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RUNS = ("soak-a", "soak-b")
VIEWERS = 8
RECOVERY_SECONDS = 120.0  # a fault from which recovery takes longer is a failure
PROGRAM = (sys.executable, "-m", "palaestra")
EVALUATION = ("eval", f"{RUNS[1]}:latest", "--episodes", "2", "--repeat")
# The audit checks every iteration, so none of them may be combined with others.
TRAINING = {"total_steps": 10**9, "checkpoints.save_interval": 20, "seed": 1, "loggers.downsample": False}
TRACKED = {"loggers.wandb.enabled": True, "loggers.wandb.mode": "offline"}


class Viewer(threading.Thread):
    """Watches one run and reconnects when the connection is closed."""

    def __init__(self, root: Path, run: str) -> None:
        super().__init__(daemon=True)
        self.frames, self.entries = 0, 0
        self._root, self._run_name, self._is_over, self._leave = root, run, threading.Event(), threading.Event()

    def run(self) -> None:
        while not self._is_over.wait(0.3):
            with contextlib.suppress(OSError, WebSocketException, TimeoutError):
                self._watch()

    def _watch(self) -> None:
        daemon_address = read_daemon_address(self._root)
        if daemon_address is None or not daemon_address.is_current:
            return
        bearer = {"authorization": f"Bearer {token_file(self._root).read_text().strip()}"}
        address = f"{daemon_address.url.replace('http', 'ws', 1)}/api/runs/{self._run_name}/frames"
        with open_socket(address, additional_headers=bearer, proxy=None, open_timeout=5) as socket:
            self.entries += 1
            self._leave.clear()
            socket.send(json.dumps({"fps": 15, "side": 128}))
            while not (self._is_over.is_set() or self._leave.is_set()):
                if isinstance(socket.recv(timeout=10), bytes):
                    self.frames += 1
                    socket.send('{"ack": 1}')

    def leave(self) -> None:
        self._leave.set()

    def stop(self) -> None:
        self._is_over.set()


class SoakServices:
    """Everything that runs during a soak test, under one directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.ids: dict[str, str] = {}
        self.run_audits: dict[str, RunAudit] = {}
        self.viewers = [Viewer(root, RUNS[number % len(RUNS)]) for number in range(VIEWERS)]
        self._variables = {**os.environ, "PALAESTRA_RUNS_DIR": str(root), "OMP_NUM_THREADS": "1"}
        self.daemon = self._start("serve", "--port", "0", "--json")
        self.evaluation: subprocess.Popen[bytes] | None = None

    def _start(self, *words: str) -> subprocess.Popen[bytes]:
        with (self.root / "soak.log").open("ab") as log:
            return subprocess.Popen(  # Ctrl-C in a terminal reaches the soak test only, which then stops them
                [*PROGRAM, *words], stdout=log, stderr=log, env=self._variables, process_group=0
            )

    def open(self) -> None:
        """Start both trainings, the evaluation and the viewers, and wait for the first checkpoints."""
        self.restore()
        for number, name in enumerate(RUNS):
            config = {**TRAINING, "seed": number, **(TRACKED if number == 0 else {})}
            with connect(self.root) as client:
                self.ids[name] = client.submit("cartpole", config, name=name)["id"]
            self.run_audits[name] = RunAudit(self.directory(name))
        until("both trainings have saved", lambda: all(map(self.newest_weights, RUNS)))
        for viewer in self.viewers:
            viewer.start()
        self.restore()

    def ask(self, question: Callable[[Any], Any]) -> Any:
        with connect(self.root) as client:
            return question(client)

    def state(self, name: str) -> str:
        return str(self.ask(lambda client: client.run(name))["run"]["state"])

    def directory(self, name: str) -> RunDirectory:
        return RunDirectory(self.root / self.ids[name])

    def newest_weights(self, name: str) -> Path | None:
        found = self.directory(name).checkpoints.glob("model_*.safetensors")
        return max(found, key=lambda path: epoch_of_data(path.name) or -1, default=None)

    def restore(self) -> None:
        """Restart what the last fault ended and wait until every service has made progress."""
        since = time.time()
        if self.daemon.poll() is not None:
            self.daemon = self._start("serve", "--port", "0", "--json")
        until("the daemon answers", lambda: self.ask(lambda client: client.system()))
        for name in self.ids:
            until(f"{name} is at work", partial(self._at_work, name, since))
        if self.ids:
            before = len(read_batches(self.directory(RUNS[1])))
            until(f"{RUNS[1]} is evaluated", lambda: self._count_evaluations() > before)

    def _at_work(self, name: str, since: float) -> bool:
        """True, or RunFailed with the reason."""
        state = self.state(name)
        if state in {"failed", "lost", "cancelled", "finished"}:
            self.ask(lambda client: client.retry(name))
        record = read_monitor_record(self.directory(name))
        if state != "running" or record is None or record.worker is None or not is_running(record.worker):
            raise RunFailed(f"{name} is {state}.")
        with MetricsReader(self.directory(name).metrics_file) as reader:
            newest = reader.sample(reader.newest_sample())
        if newest is None or newest.at <= since:
            raise RunFailed(f"{name} has made no progress.")
        return True

    def _count_evaluations(self) -> int:
        if self.evaluation is None or self.evaluation.poll() is not None:
            self.evaluation = self._start(*EVALUATION)
        return len(read_batches(self.directory(RUNS[1])))

    def members(self, name: str) -> list[Any]:
        note = read_monitor_record(self.directory(name))
        return find_members(self.ids[name], note.monitor.pid if note else None)

    def sample(self) -> dict[str, float]:
        """Memory, descriptors and threads of the current daemon."""
        process = psutil.Process(self.daemon.pid)
        return {
            "rss_mb": round(process.memory_info().rss / 2**20, 2),
            "descriptors": process.num_fds(),
            "threads": process.num_threads(),
            "lanes": sum(len(all_frame_buffers(run_id)) for run_id in self.ids.values()),
            "frames": sum(viewer.frames for viewer in self.viewers),
        }

    def close(self) -> dict[str, list[str]]:
        """Stop everything and list what is left behind."""
        for viewer in self.viewers:
            viewer.stop()
        if self.evaluation is not None and self.evaluation.poll() is None:
            self.evaluation.send_signal(signal.SIGTERM)
            self.evaluation.wait(RECOVERY_SECONDS)
        for name in self.ids:
            with connect(self.root) as client:
                client.stop(name)
        until("both trainings have ended", lambda: all(self.state(name) == "cancelled" for name in self.ids))
        self.daemon.send_signal(signal.SIGTERM)
        self.daemon.wait(RECOVERY_SECONDS)
        halves = [*self.root.rglob(".tmp-*"), *self.root.glob(".new-*")]
        return {
            "processes left": [str(one.pid) for run_id in self.ids.values() for one in find_members(run_id, None)],
            "lanes left": [lane.name for run_id in self.ids.values() for lane in all_frame_buffers(run_id)],
            "temporary files left": [str(path.relative_to(self.root)) for path in halves],
        }

    def kill_everything(self) -> None:
        """Kill all processes of the soak test."""
        for process in filter(None, (self.daemon, self.evaluation)):
            process.kill()
            process.wait()
        for run_id in self.ids.values():
            note = read_monitor_record(RunDirectory(self.root / run_id))
            for member in find_members(run_id, note.monitor.pid if note else None):
                send_signal(member, signal.SIGKILL)


def until(what: str, condition: Callable[[], object], seconds: float = RECOVERY_SECONDS) -> None:
    """Wait for a condition. An error counts as not yet; the last one is part of the message."""
    deadline = time.monotonic() + seconds
    while True:
        reason = ""
        try:
            if condition():
                return
        except (PalaestraError, OSError) as error:
            reason = f" ({error})"
        if time.monotonic() > deadline:
            raise RunFailed(f"Timed out after {seconds:.0f} s waiting until {what}{reason}.")
        time.sleep(0.1)
