"""A training as one value: what a command asks for, what a launcher sends to its ranks, how it is carried out."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from palaestra.config.train import TrainConfig
from palaestra.core.executor import LOCAL, load_service
from palaestra.core.lazy_import import lazy_import
from palaestra.core.run import RunRequest
from palaestra.runs.metrics.reader import MetricsReader
from palaestra.runs.status import read_record

if TYPE_CHECKING:
    from collections.abc import Callable

    from palaestra.core.run import RunRecord
    from palaestra.runner import train
    from palaestra.runs.directory import RunDirectory
else:
    train = lazy_import("palaestra.runner.train")


@dataclass(frozen=True)
class TrainingJob:
    """Everything that decides what a training process does; `to_json` and `from_json` carry it between processes."""

    request: RunRequest
    config: TrainConfig
    runs_root: Path
    resume_only: bool = False  # the run must exist already
    accept_changes: frozenset[str] = frozenset()  # keys in which the configuration may differ from the run's own
    without_replay_buffer: bool = False  # resume, but do not read the transitions of the checkpoint
    quiet: bool = False
    profile: bool = False
    restart: int = 0  # how often a launcher has restarted the ranks after a failure
    takes_settings: bool = False  # a rank that gets its settings from rank 0: `config` only says how to join

    def to_json(self) -> str:
        """One line."""
        return json.dumps(
            {
                "request": asdict(self.request),
                "config": self.config.model_dump(mode="json"),
                "runs_root": str(self.runs_root),
                "resume_only": self.resume_only,
                "accept_changes": sorted(self.accept_changes),
                "without_replay_buffer": self.without_replay_buffer,
                "quiet": self.quiet,
                "profile": self.profile,
                "restart": self.restart,
                "takes_settings": self.takes_settings,
            },
            default=str,
        )

    @staticmethod
    def from_json(text: str) -> TrainingJob:
        data = json.loads(text)
        return TrainingJob(
            request=RunRequest(**data["request"]),
            config=TrainConfig.model_validate(data["config"]),
            runs_root=Path(data["runs_root"]),
            resume_only=data["resume_only"],
            accept_changes=frozenset(data["accept_changes"]),
            without_replay_buffer=data["without_replay_buffer"],
            quiet=data["quiet"],
            profile=data["profile"],
            restart=data["restart"],
            takes_settings=data["takes_settings"],
        )


def launcher_of(job: TrainingJob) -> Callable[[TrainingJob], TrainOutcome]:
    """The function that carries out `job`: in this process, or by the executor plugin that starts its ranks."""
    request = job.request
    if request.nproc == 1 and request.executor == LOCAL:
        return train.run_training
    launch: Callable[[TrainingJob, int], TrainOutcome] = load_service(request.executor, "launch")
    return lambda job: launch(job, request.nproc)


@dataclass(frozen=True)
class TrainOutcome:
    record: RunRecord
    directory: RunDirectory
    exit_code: int
    metrics: dict[str, float]  # the last value of each; reproducible, so without timings
    rank: int = 0  # of the reporting process; only the leader has metrics


def outcome_on_disk(directory: RunDirectory, exit_code: int) -> TrainOutcome:
    return TrainOutcome(read_record(directory), directory, exit_code, last_metrics(directory))


def last_metrics(directory: RunDirectory) -> dict[str, float]:
    with closing(MetricsReader(directory.metrics_file)) as reader:
        last = {name: reader.last(name) for name in reader.names(timings=False)}
    return {name: point.value for name, point in last.items() if point is not None}
