"""`python -m palaestra.runner.worker RUN_DIRECTORY`: does the work of a run that a daemon has created.

The directory holds the checked request and configuration. After an interruption the same call continues the run.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from palaestra.config.train import TrainConfig
from palaestra.core.clock import SystemClock
from palaestra.core.errors import DamagedFile, PalaestraError, UsageError
from palaestra.core.lazy_import import lazy_import
from palaestra.core.run import RunState
from palaestra.policies.shipped import self_contained
from palaestra.runner.job import TrainingJob, launcher_of
from palaestra.runs.directory import RunDirectory
from palaestra.runs.documents import read_config, read_request, write_config
from palaestra.runs.journal import Journal
from palaestra.runs.status import read_written_record, with_state, write_record

if TYPE_CHECKING:
    from collections.abc import Callable

    from palaestra.core.run import RunRequest
    from palaestra.runner import evaluation_run
else:
    evaluation_run = lazy_import("palaestra.runner.evaluation_run")

INTERRUPTED = 130


def main(directory: RunDirectory) -> int:
    """A failure before the work begins is recorded in the run's files, and printed for the log."""
    try:
        request = read_request(directory)
        return _find_work(request.kind)(directory, request)
    except PalaestraError as error:
        record_refusal(directory, error)
        if error.user_traceback:
            print(error.user_traceback, file=sys.stderr)
        print(f"palaestra: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED


def train(directory: RunDirectory, request: RunRequest) -> int:
    """Continues the run that the daemon has created; from the first step if it has no checkpoint yet."""
    config = stored_config(directory)
    asked = replace(request, name=read_written_record(directory).name)
    job = TrainingJob(asked, config, directory.path.parent, resume_only=True)
    return launcher_of(job)(job).exit_code


def evaluate(directory: RunDirectory, request: RunRequest) -> int:
    return evaluation_run.run_evaluation(directory, request)


def stored_config(directory: RunDirectory) -> TrainConfig:
    """The configuration, with a policy file included as text; it is written back if that changes it."""
    try:
        stored = TrainConfig.model_validate(read_config(directory))
    except ValidationError as error:
        raise DamagedFile(f"{directory.config_file} is not a training configuration: {error}.") from error
    config = stored.model_copy(update={"policy": self_contained(stored.policy)})
    if config != stored:
        write_config(directory, config.model_dump(mode="json"))
    return config


def record_refusal(directory: RunDirectory, error: PalaestraError) -> None:
    """Does nothing for a run that had begun: it has recorded its failure itself."""
    record = read_written_record(directory)
    if record.state.is_over:
        return
    now = SystemClock().now()
    code = error.exit_code
    failed = with_state(record, RunState.FAILED, ended_at=now, updated_at=now, exit_code=code, failure=str(error))
    write_record(directory, failed, durable=True)
    Journal(directory).record(
        "run.failed",
        epoch=record.epoch,
        step=record.agent_step,
        error=str(error),
        kind=type(error).__name__,
        exit_code=error.exit_code,
    )


def _find_work(kind: str) -> Callable[[RunDirectory, RunRequest], int]:
    works: dict[str, Callable[[RunDirectory, RunRequest], int]] = {"native": train, "evaluate": evaluate}
    if kind not in works:
        raise UsageError(f"Unknown kind of run: '{kind}'.", f"Known: {', '.join(works)}.")
    return works[kind]


if __name__ == "__main__":
    sys.exit(main(RunDirectory(Path(sys.argv[1]))))
