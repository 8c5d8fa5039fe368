"""What a training process does: prepare the run, consume the trainer, and record how it ends."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from palaestra.algorithms.group import PeerLost
from palaestra.core.errors import NonFinite, PalaestraError
from palaestra.core.tracebacks import user_errors_reported
from palaestra.runner.context import RunContext, run_context
from palaestra.runner.failure_record import record_dead_leader
from palaestra.runner.job import TrainOutcome, last_metrics
from palaestra.runner.launcher import LAUNCHER
from palaestra.runner.logs import log_traceback, this_rank
from palaestra.runner.loop import TrainingLoop
from palaestra.runner.prepare import prepare_run
from palaestra.runner.signals import StopNow, exit_code_of, stop_on_signals
from palaestra.runner.watchdog import StepTimeout

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palaestra.runner.job import TrainingJob


def run_training(job: TrainingJob) -> TrainOutcome:
    """Trains in this process until all steps are taken or a signal stops it; continues a run of that name."""
    with ExitStack() as stack:
        run = prepare_run(job, stack)
        if isinstance(run, TrainOutcome):
            return run
        session = run.session
        try:
            with stop_on_signals() as stop:
                run.watchdog.stop = stop
                with run_context(run, stop) as context:
                    with _failures_recorded(context):
                        is_complete = TrainingLoop(context).run()
                    _record_end(context, is_complete=is_complete)
        except StopNow as now:
            if not session.record.state.is_over:  # it may also come while the loggers are closed
                session.cancelled(now.reason, now.exit_code)
        group = run.state.group
        metrics = last_metrics(session.directory) if group.is_leader else {}
        return TrainOutcome(session.record, session.directory, session.record.exit_code or 0, metrics, group.rank)


def _record_end(context: RunContext, *, is_complete: bool) -> None:
    if is_complete:
        context.session.finished()
        return
    number = context.stop.signal
    assert number is not None, "only a signal ends the loop early"
    context.session.cancelled(signal.Signals(number).name, exit_code_of(number))


@contextmanager
def _failures_recorded(context: RunContext) -> Iterator[None]:
    """Whatever ends the block with an error is the run's failure: in its status, journal and log."""
    session = context.session
    try:
        with user_errors_reported():
            yield
    except StopNow:
        raise
    except StepTimeout as timeout:
        log_traceback(timeout)
        session.failed(timeout.failure, timeout.failure.exit_code)
        raise timeout.failure from timeout
    except BaseException as error:
        log_traceback(error)
        if isinstance(error, PeerLost):
            error.message = context.state.group.explain_loss(error.message)
        _add_hint(error, context)
        session.failed(error, error.exit_code if isinstance(error, PalaestraError) else 1)
        if isinstance(error, PeerLost) and this_rank() and LAUNCHER not in os.environ:
            record_dead_leader(session.directory, str(error))
        raise


def _add_hint(error: BaseException, context: RunContext) -> None:
    """Hints that need this process: the command that resumes the run, and the log to read."""
    if isinstance(error, NonFinite):
        last = f"The last good checkpoint is epoch {context.saver.saved_epoch}"
        if context.saver.saved_epoch < 0:
            last = "No checkpoint was saved before it"
        error.hint = f"{last}. {error.hint}" if error.hint else f"{last}; try a smaller ppo.learning_rate."
    elif isinstance(error, PalaestraError) and error.user_traceback and not error.hint:
        error.hint = f"The whole traceback is in {context.directory.log_file(this_rank())}."
