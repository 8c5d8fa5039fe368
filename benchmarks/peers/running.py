"""One measurement: a peer in a process of its own, on so many cores, looked at from outside while it trains."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from select import select
from typing import TYPE_CHECKING, Any

import psutil

from peers.protocol import JOB, Job

if TYPE_CHECKING:
    from collections.abc import Iterator

    from peers.catalogue import Peer
    from peers.off_policy_settings import OffPolicySetting
    from peers.settings import Setting

BENCHMARKS = Path(__file__).parents[1]
POLL_SECONDS = 1.0  # between two looks at memory and processor time; each costs some milliseconds
PATIENCE_SECONDS = 240.0  # beyond what was asked for: starting, compiling, one long update
GRACE_SECONDS = 30.0
REASON_LETTERS = 300


@dataclass(frozen=True)
class Measurement:
    peer: str
    setting: str
    steps_per_second: float | None = None  # after warming up
    measured_steps: int = 0
    measured_seconds: float = 0.0
    start_seconds: float | None = None  # of the process, to the first finished update
    solved_seconds: float | None = None  # with starting
    solved_steps: int | None = None
    memory_mb: float = 0.0  # peak, over all its processes
    cpu_seconds: float = 0.0  # of all its processes, start to end
    process_seconds: float = 0.0
    versions: dict[str, str] = field(default_factory=dict)
    failed: str = ""  # why there is nothing to tell

    def plain(self) -> dict[str, Any]:
        return asdict(self)


class Tree:
    """The most that a process and all below it held, and the processor time they took."""

    def __init__(self, pid: int) -> None:
        self._root = pid
        self._seen: dict[int, psutil.Process] = {}
        self._cpu: dict[int, float] = {}
        self.memory_mb = 0.0

    @property
    def cpu_seconds(self) -> float:
        return sum(self._cpu.values())

    def look(self) -> None:
        try:
            root = psutil.Process(self._root)
            processes = [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return
        held = 0
        for one in processes:
            try:
                held += one.memory_info().rss
                self._cpu[one.pid] = sum(one.cpu_times()[:2])
                self._seen[one.pid] = one
            except psutil.NoSuchProcess:
                continue
        self.memory_mb = max(self.memory_mb, held / 2**20)

    def kill(self) -> None:
        """psutil leaves a stranger alone that got the number of one that ended."""
        for one in self._seen.values():
            with suppress(psutil.NoSuchProcess):
                one.kill()


def measure(
    peer: Peer, setting: Setting | OffPolicySetting, seconds: float, seed: int, python: Path, *more: str
) -> Measurement:
    """What a peer said, as figures; of one that failed, the reason."""
    cores = max(setting.cores, peer.cores)
    with tempfile.TemporaryDirectory(prefix="palaestra-peer-", ignore_cleanup_errors=True) as folder:
        errors = Path(folder, "stderr.txt")
        began = time.time()
        job = Job(setting, seconds, seed, began)
        environment = {
            **os.environ,
            JOB: job.text(),
            "PYTHONPATH": str(BENCHMARKS),
            "OMP_NUM_THREADS": str(setting.cores),
            "MKL_NUM_THREADS": str(setting.cores),
        }
        words = [str(python), "-m", peer.module, *peer.arguments, *more]
        with errors.open("w") as stream, only_cores(cores):
            child = subprocess.Popen(
                words, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=stream, start_new_session=True
            )
        tree = Tree(child.pid)
        limit = PATIENCE_SECONDS + (PATIENCE_SECONDS if setting.until_solved else seconds)
        lines = follow(child, tree, limit)
        reason = "" if child.returncode == 0 else why(child.returncode, errors.read_text(errors="replace"), limit)
    return understand(peer.name, setting.name, lines, tree, time.time() - began, reason)


@contextmanager
def only_cores(count: int) -> Iterator[None]:
    """What is started inside has the last `count` cores that we have; the first is left to whoever looks on."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[-count:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def follow(child: subprocess.Popen[bytes], tree: Tree, limit: float) -> list[str]:
    """Its stdout to the end; one that takes longer than the limit is killed with all below it."""
    assert child.stdout is not None
    said, deadline = b"", time.monotonic() + limit
    with child.stdout as pipe:
        while time.monotonic() < deadline:
            ready, _, _ = select([pipe], [], [], POLL_SECONDS)
            if not ready:
                tree.look()
                if child.poll() is not None:  # its own children may still hold the pipe
                    break
            elif data := os.read(pipe.fileno(), 1 << 16):
                said += data
            else:
                break
        else:
            child.kill()
            tree.kill()
    try:
        child.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:  # it closed its stdout and stays
        child.kill()
        child.wait()
    return said.decode(errors="replace").splitlines()


def why(code: int, errors: str, limit: float) -> str:
    if code == -signal.SIGKILL:
        return f"killed after {limit:.0f} s"
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    return f"ended with {code}: {lines[-1][:REASON_LETTERS] if lines else 'and said nothing'}"


def understand(
    peer: str, setting: str, lines: list[str], tree: Tree, process_seconds: float, reason: str
) -> Measurement:
    told = {one["event"]: one for one in map(read_line, lines) if one}
    nothing: dict[str, Any] = {}
    measured, used = told.get("measured", nothing), told.get("used", nothing)
    steps, seconds = measured.get("steps", 0), measured.get("seconds", 0.0)
    return Measurement(
        peer=peer,
        setting=setting,
        steps_per_second=steps / seconds if seconds else None,
        measured_steps=steps,
        measured_seconds=seconds,
        start_seconds=told.get("started", nothing).get("seconds"),
        solved_seconds=told.get("solved", nothing).get("seconds"),
        solved_steps=told.get("solved", nothing).get("steps"),
        memory_mb=max(tree.memory_mb, used.get("memory_mb", 0.0)),
        cpu_seconds=max(tree.cpu_seconds, used.get("cpu_seconds", 0.0)),
        process_seconds=process_seconds,
        versions={name: text for name, text in told.get("versions", nothing).items() if name != "event"},
        failed=reason or ("" if told.get("started") else "it ended without a single update"),
    )


def read_line(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        found = json.loads(line)
    except json.JSONDecodeError:
        return None
    return found if isinstance(found, dict) and "event" in found else None
