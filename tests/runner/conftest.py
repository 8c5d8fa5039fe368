"""Small trainings in this process, with a clock that a test moves by hand."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import pytest
import torch

from palaestra.algorithms.group import Group
from palaestra.checkpoints.manager import CheckpointManager
from palaestra.config.train import TrainConfig
from palaestra.core.run import RunRequest
from palaestra.loggers.fanout import LoggerFanout
from palaestra.runner.context import RunContext
from palaestra.runner.evaluation_scheduler import EvaluationScheduler
from palaestra.runner.saving import Saver
from palaestra.runner.session import RunSession
from palaestra.runner.signals import StopRequest
from palaestra.runs.journal import read_journal
from palaestra.runs.store import RunStore
from palaestra.training.state import new_training_state

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palaestra.core.checkpoint import Checkpoint
    from palaestra.core.metrics_logger import Sample
    from palaestra.core.run import JournalEntry
    from palaestra.evaluation.evaluator import BackgroundEvaluator
    from palaestra.runs.directory import RunDirectory
    from palaestra.training.state import TrainingState


class HandClock:
    """Time that moves only when a test says so."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return 1_700_000_000.0 + self.seconds

    def monotonic(self) -> float:
        return self.seconds


class Poisoned(gymnasium.Env):
    """Pays 1 a step for ever, and NaN from step `at` on; it can be captured, so nothing else is wrong with it."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, at: int) -> None:
        self.at, self.taken = at, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.taken += 1
        return np.zeros(1, np.float32), float("nan") if self.taken >= self.at else 1.0, False, False, {}


if "PoisonedForTests-v0" not in gymnasium.registry:
    gymnasium.register("PoisonedForTests-v0", Poisoned)


class RecordingLogger:
    """Remembers what it was told, and in which order."""

    name = "recording"

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.samples: list[Sample] = []

    def write(self, sample: Sample) -> None:
        self.calls.append(f"write {sample.step}")
        self.samples.append(sample)

    def flush(self) -> None:
        self.calls.append("flush")

    def checkpoint_saved(self, checkpoint: Checkpoint) -> None:
        self.calls.append(f"checkpoint {checkpoint.epoch}")

    def close(self) -> None:
        self.calls.append("close")


@dataclass
class Bench:
    """A run with everything that a loop around a trainer needs, and nothing started."""

    directory: RunDirectory
    state: TrainingState
    session: RunSession
    metrics_logger: RecordingLogger
    loggers: LoggerFanout
    manager: CheckpointManager
    saver: Saver
    clock: HandClock

    def evaluations(self, *evaluators: BackgroundEvaluator) -> EvaluationScheduler:
        return EvaluationScheduler(evaluators, self.manager, self.session, self.loggers, self.clock)

    def context(
        self, *evaluators: BackgroundEvaluator, stop: StopRequest | None = None, saver: Any = None
    ) -> RunContext:
        return RunContext(
            state=self.state,
            session=self.session,
            loggers=self.loggers,
            saver=self.saver if saver is None else saver,
            evaluations=self.evaluations(*evaluators),
            stop=StopRequest() if stop is None else stop,
            clock=self.clock,
        )

    def entries(self, event: str) -> list[JournalEntry]:
        return [entry for entry in read_journal(self.directory.journal_file) if entry.event == event]


class TwoRanks(Group):
    """A rank of two; a test gives what the collectives bring from the other one."""

    world_size = 2

    def __init__(self, rank: int = 0, others: tuple[bytes, ...] = (), told: bytes = b"") -> None:
        self.rank = rank
        self.others = others
        self.told = told
        self.given = b""

    def gather_bytes(self, data):
        self.given = data
        return [data, *self.others] if self.is_leader else []

    def broadcast_bytes(self, data):
        self.given = data
        return data if self.is_leader else self.told


def small_config(**changes: Any) -> TrainConfig:
    """Batches of 32 steps, four of them."""
    settings: dict[str, Any] = {
        "total_steps": 128,
        "ppo": {"env_count": 2, "horizon": 16, "minibatch_size": 16, "update_epochs": 1},
        "checkpoints": {"save_interval": 1},
        "loggers": {"console": False, "tensorboard": False},
    }
    return TrainConfig.model_validate({**settings, **changes})


def make_bench(root: Path, clock: HandClock, config: TrainConfig) -> Bench:
    request = RunRequest(kind="native", recipe="", config={}, name="small")
    directory = RunStore(root).create(request, config.model_dump(mode="json"), total_steps=config.total_steps)
    session = RunSession(directory, config.total_steps, clock)
    metrics_logger = RecordingLogger()
    loggers = LoggerFanout(lambda name, error: pytest.fail(f"{name}: {error}"))
    loggers.add(metrics_logger.name, lambda: metrics_logger)
    manager = CheckpointManager(directory, config.checkpoints)
    saver = Saver(manager, session, loggers, clock, git_commit="abc")
    return Bench(directory, new_training_state(config), session, metrics_logger, loggers, manager, saver, clock)


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """In memory where that can be had: these tests save often, and none of them asks what a disk does."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with TemporaryDirectory(prefix="palaestra-", dir=memory) as path:
        yield Path(path)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """As every run has it; several threads that wait for each other on a busy machine take seconds for nothing."""
    torch.set_num_threads(1)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def config() -> TrainConfig:
    return small_config()


@pytest.fixture
def request_of():
    return lambda name: RunRequest(kind="native", recipe="", config={}, name=name)


@pytest.fixture(name="two_ranks")
def two_ranks_fixture():
    return TwoRanks


@pytest.fixture(name="small_config")
def small_config_fixture():
    return small_config


@pytest.fixture
def bench(tmp_path: Path, clock: HandClock, config: TrainConfig) -> Bench:
    return make_bench(tmp_path / "runs", clock, config)


@pytest.fixture(name="make_bench")
def make_bench_fixture(tmp_path: Path, clock: HandClock):
    return lambda config: make_bench(tmp_path / "runs", clock, config)
