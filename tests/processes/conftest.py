"""Real processes: the command line as a subprocess, and trainers forked from one that has torch already."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from palaestra.algorithms.buffers.replay_buffer import ReplayBuffer
from palaestra.algorithms.buffers.replay_rows import load_block, read_blocks
from palaestra.checkpoints.files import is_temporary, model_name
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.config.train import TrainConfig
from palaestra.core.spaces import decode_interface
from palaestra.runs.documents import read_config
from palaestra.runs.journal import read_journal
from palaestra.runs.metrics.reader import MetricsReader
from palaestra.runs.status import read_record
from palaestra.runs.store import RunStore

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

    from palaestra.runs.directory import RunDirectory

PATIENCE_SECONDS = 120.0  # far beyond what anything here takes, also on a machine that is busy with other things
LONGEST_TURN_SECONDS = 1.0  # of one look; what takes longer was stopped with SIGSTOP, or the machine slept


def wait_until(condition: Callable[[], Any], what: str) -> Any:
    """The condition's first true answer. Time in which we were stopped ourselves is not counted."""
    left, before = PATIENCE_SECONDS, time.monotonic()
    while left > 0:
        reply = condition()
        if reply:
            return reply
        time.sleep(0.002)
        now = time.monotonic()
        left, before = left - min(now - before, LONGEST_TURN_SECONDS), now
    raise AssertionError(f"waited {PATIENCE_SECONDS:g} s in vain for {what}")


@dataclass(frozen=True)
class Finished:
    code: int
    out: str
    err: str


class Palaestra:
    """`python -m palaestra` in a directory of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.runs = home / "runs"
        lanes = home / "lanes"  # whatever the machine's shared memory is like
        lanes.mkdir()
        own = {"NO_COLOR": "1", "PALAESTRA_RUNS_DIR": str(self.runs), "PALAESTRA_FRAME_BUFFERS_DIR": str(lanes)}
        self.variables = {**os.environ, **own}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "palaestra", *arguments]

    def __call__(self, *arguments: str, variables: dict[str, str] | None = None) -> Finished:
        done = subprocess.run(
            self.command(*arguments),
            cwd=self.home,
            env={**self.variables, **(variables or {})},
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )
        return Finished(done.returncode, done.stdout, done.stderr)

    def run(self, name: str) -> RunDirectory:
        found = RunStore(self.runs).named(name)
        assert found is not None, f"no run {name} in {self.runs}"
        return found


class Trainer:
    """One forked training process."""

    def __init__(self, server: ForkServer, pid: int, out: Path, err: Path) -> None:
        self._server = server
        self.pid = pid
        self.out = out
        self.err = err

    def send(self, *signals: signal.Signals) -> None:
        """All at once: the process is held still until every one of them is pending."""
        if len(signals) > 1:
            os.kill(self.pid, signal.SIGSTOP)
        for number in signals:
            os.kill(self.pid, number)
        if len(signals) > 1:
            os.kill(self.pid, signal.SIGCONT)

    def is_over(self) -> bool:
        """A zombie until somebody waits for it, so the pid cannot be another's."""
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"

    def wait(self) -> int:
        wait_until(self.is_over, f"the end of process {self.pid}")
        return self._server.ask(wait=self.pid)["code"]


class ForkServer:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.runs = home / "runs"
        self._count = 0
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("fork_server.py"))],
            cwd=home,
            env={**os.environ, "NO_COLOR": "1", "PALAESTRA_RUNS_DIR": str(self.runs)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, **question: Any) -> dict[str, Any]:
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        reply = self._process.stdout.readline()
        assert reply, f"the fork server ended with {self._process.wait(timeout=PATIENCE_SECONDS)}"
        return json.loads(reply)

    def start(self, *arguments: str, plant: str = "", variables: dict[str, str] | None = None) -> Trainer:
        self._count += 1
        out, err = (self.home / f"{self._count}.{which}" for which in ("out", "err"))
        reply = self.ask(arguments=list(arguments), out=str(out), err=str(err), plant=plant, variables=variables or {})
        return Trainer(self, reply["pid"], out, err)

    def __call__(self, *arguments: str, plant: str = "") -> Finished:
        """Like `Palaestra`, without the seconds that importing torch takes."""
        trainer = self.start(*arguments, plant=plant)
        return Finished(trainer.wait(), trainer.out.read_text(), trainer.err.read_text())

    def run(self, name: str) -> RunDirectory | None:
        return RunStore(self.runs).named(name)

    def saved_epochs(self, name: str) -> list[int]:
        return saved_epochs(self.run(name))

    def kill_again_and_again(
        self, arguments: list[str], name: str, kills: int, chance: random.Random, plant: str = ""
    ) -> Tally:
        """Kill -9 at random instants of a run, `kills` times, then let it come to its end.

        On a full machine it may come to its end before its killer does: then they are fewer.
        """
        tally = Tally()
        for _ in range(kills):
            trainer = self.start(*arguments, plant=plant)
            goal = len(self.saved_epochs(name)) + chance.choice([0, 1, 1, 1])
            wait_until(
                lambda: len(self.saved_epochs(name)) >= goal or trainer.is_over(),  # noqa: B023  waited for at once
                f"{goal} checkpoints",
            )
            time.sleep(chance.uniform(0.0, seconds_per_epoch(self.run(name))))  # not a condition: any instant will do
            trainer.send(signal.SIGKILL)
            code = trainer.wait()
            tally.look_at(self.run(name), is_killed=code != 0)
            if code == 0:
                return tally
            assert code == -signal.SIGKILL, trainer.err.read_text()
        last = self.start(*arguments, plant=plant)
        assert last.wait() == 0, last.err.read_text()
        return tally

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(timeout=PATIENCE_SECONDS)
        self._process.stdout.close()


@dataclass
class Tally:
    """What is printed of a series of kills; all but `kills` and `mid_save` must stay 0."""

    kills: int = 0
    mid_save: int = 0  # killed while a checkpoint was half written
    unreadable: int = 0
    lost: int = 0  # a checkpoint that the journal acknowledged, and that is not there

    def look_at(self, directory: RunDirectory | None, *, is_killed: bool) -> None:
        self.kills += is_killed
        if directory is None:
            return
        manager = CheckpointManager(directory)
        is_temporary_there = any(is_temporary(path.name) for path in directory.checkpoints.iterdir())
        self.mid_save += is_temporary_there or bool(manager.uncommitted_files())
        found = manager.survey()
        self.unreadable += len(found.refused)
        newest = max((checkpoint.epoch for checkpoint in found.checkpoints), default=0)
        self.lost += newest < max(saved_epochs(directory), default=0)


def saved_epochs(directory: RunDirectory | None) -> list[int]:
    """Epochs whose checkpoints the journal acknowledged, in order."""
    if directory is None:
        return []
    return [entry.data["epoch"] for entry in read_journal(directory.journal_file) if entry.event == "checkpoint.saved"]


def seconds_per_epoch(directory: RunDirectory | None) -> float:
    """As it was between the last two checkpoints; a tenth of a second while there are none."""
    entries = read_journal(directory.journal_file) if directory is not None else []
    times = [entry.at for entry in entries if entry.event == "checkpoint.saved"]
    return min(1.0, times[-1] - times[-2]) if len(times) > 1 else 0.1


@pytest.fixture(name="differences")
def differences_fixture() -> Callable[[RunDirectory, RunDirectory], list[str]]:
    return differences


@pytest.fixture(scope="session")
def beside_the_tests() -> str:
    """PYTHONPATH with which processes also find the modules in this directory."""
    return os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))


@pytest.fixture(name="wait_until")
def wait_until_fixture() -> Callable[[Callable[[], Any], str], Any]:
    return wait_until


def differences(one: RunDirectory, other: RunDirectory) -> list[str]:
    """What two finished runs do not have in common, by name; empty when they are the same to the last bit."""
    found = []
    epochs = [read_record(run).epoch for run in (one, other)]
    if epochs[0] != epochs[1]:
        return [f"epochs {epochs}"]
    weights = [(run.checkpoints / model_name(epochs[0])).read_bytes() for run in (one, other)]
    if weights[0] != weights[1]:
        found.append("weights")
    rows = []
    for run in (one, other):
        with MetricsReader(run.metrics_file) as reader:
            rows.append(reader.rows())
    assert rows[0], "a run without metrics proves nothing"
    if rows[0] != rows[1]:
        found.append("metrics")
    states = [CheckpointManager(run).load_trainer_state("latest") for run in (one, other)]
    for state in states:
        del state["session"]["seconds"]  # of wall time
    found.extend(_state_differences(states[0], states[1], "state"))
    buffers = [replay_buffers(run, state) for run, state in zip((one, other), states, strict=True)]
    found.extend(_state_differences(buffers[0], buffers[1], "replay buffer"))
    return found


def replay_buffers(run: RunDirectory, state: dict[str, Any]) -> list[dict[str, Any]]:
    """All transitions in the last checkpoint, of each rank; empty when there are none."""
    captures = [one["replay_buffer"] for one in (state["training"], *state["others"]) if "replay_buffer" in one]
    if not captures:
        return []
    config = TrainConfig.model_validate(read_config(run))
    manager = CheckpointManager(run)
    checkpoint = manager.list_all_checkpoints()[-1]
    settings = config.algorithm_settings
    found = []
    for rank, capture in enumerate(captures):
        interface = decode_interface(checkpoint.interface)
        buffer = ReplayBuffer(interface, settings.buffer_size, settings.env_count)
        buffer.restore(capture)
        for header, payload in manager.read_replay_rows(checkpoint, rank, partial(read_blocks, buffer)):
            load_block(buffer, header, payload)
        buffer.finish_loading()
        assert buffer.transitions, "an empty buffer proves nothing"
        first = buffer.total_rows - buffer.size
        rows = np.arange(first, buffer.total_rows) % buffer.rows
        indices = (rows[:, None] * buffer.env_count + np.arange(buffer.env_count)).ravel()
        batch = vars(buffer.gather(indices, 1, 0.9))
        found.append(
            {name: torch.from_numpy(part) for name, part in batch.items()} | {"ends": buffer.ends[rows].tolist()}
        )
    return found


def _state_differences(one: Any, other: Any, path: str) -> list[str]:
    if type(one) is not type(other):
        return [f"{path}: {type(one).__name__} and {type(other).__name__}"]
    if isinstance(one, torch.Tensor):
        return [] if one.dtype == other.dtype and torch.equal(one, other) else [path]
    if isinstance(one, dict):
        if one.keys() != other.keys():
            return [f"{path}: {sorted(map(str, one.keys() ^ other.keys()))}"]
        return [text for key in one for text in _state_differences(one[key], other[key], f"{path}.{key}")]
    if isinstance(one, list | tuple):
        if len(one) != len(other):
            return [f"{path}: {len(one)} and {len(other)} entries"]
        return [
            text
            for index, pair in enumerate(zip(one, other, strict=True))
            for text in _state_differences(*pair, f"{path}[{index}]")
        ]
    return [] if one == other else [path]


@contextmanager
def quick_directory() -> Iterator[Path]:
    """In memory where that can be had: kill -9 loses nothing that was written, so no test here needs a real disk."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(prefix="palaestra-", dir=memory if os.access(memory, os.W_OK) else None) as path:
        yield Path(path)


@pytest.fixture
def palaestra() -> Iterator[Palaestra]:
    with quick_directory() as home:
        yield Palaestra(home)


@pytest.fixture(scope="module")
def shared_palaestra() -> Iterator[Palaestra]:
    """For tests that look at one run and leave it as it was."""
    with quick_directory() as home:
        yield Palaestra(home)


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with quick_directory() as home:
        started = ForkServer(home)
        yield started
        started.close()


@pytest.fixture(scope="module")
def together(server):
    """Start ranks of one group, each a process; `own` are the words, `variables` those, that only one of them gets."""

    held = ExitStack()

    def start(*arguments, count=2, own=None, port=None, variables=None):
        if port is None:
            port = held.enter_context(hold_port()).getsockname()[1]
        location = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        return [
            server.start(
                *arguments,
                *(own or {}).get(rank, []),
                variables={**location, "RANK": str(rank), "LOCAL_RANK": str(rank), **(variables or {}).get(rank, {})},
            )
            for rank in range(count)
        ]

    with held:
        yield start


def hold_port() -> socket.socket:
    """Bound to a port at which rank 0 may still listen, and nobody else.

    A port that is only known to be free becomes the local end of somebody's connection once in a while (the web tests
    open hundreds). Then rank 0 cannot listen and leaves, and the others wait for it until their time-out.
    """
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as rank 0 does: both may have it until one listens
    found.bind(("127.0.0.1", 0))
    return found
