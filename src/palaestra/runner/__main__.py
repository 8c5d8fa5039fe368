"""One rank of a training that `--nproc` started: `python -m palaestra.runner`, with a job on standard input."""

from __future__ import annotations

import signal
import sys
import time
from typing import TYPE_CHECKING

from palaestra.algorithms.group import PeerLost
from palaestra.core.errors import PalaestraError
from palaestra.core.lazy_import import lazy_import
from palaestra.runner.launcher import ExitReport, die_with_launcher, report_of, send_report
from palaestra.runner.signals import STOPPING

if TYPE_CHECKING:
    from palaestra.runner import job as jobs
    from palaestra.runner import train
else:  # seconds on a busy machine, in which the launcher may be killed
    jobs = lazy_import("palaestra.runner.job")
    train = lazy_import("palaestra.runner.train")

INTERRUPTED = 130


def main() -> int:
    """The launcher reports the error once for all ranks; only unexpected exceptions keep their traceback here."""
    die_with_launcher()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPPING)  # Ray blocks SIGINT in all of its own, and a mask is inherited
    try:
        job = jobs.TrainingJob.from_json(sys.stdin.read())
        outcome = train.run_training(job)
    except PalaestraError as error:
        send_report(report_of(error, is_consequence=isinstance(error, PeerLost)))
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BaseException as error:
        send_report(report_of(error, is_consequence=False))
        raise
    send_report(ExitReport(outcome.exit_code, time.monotonic(), directory=str(outcome.directory.path)))
    return outcome.exit_code


if __name__ == "__main__":
    sys.exit(main())
