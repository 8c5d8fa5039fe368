"""The actor of one trial: a run in a process of its own, `python -m palaestra.workers`, as if somebody had typed it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from palaestra.cluster.rank import rank_variables
from palaestra.workers.account import PIPE, Account, read
from palaestra.workers.launch import IN_ORDER
from palaestra.workers.parent import LAUNCHER

ACCOUNT_BYTES = 1 << 20


class TrialActor:
    """`run` lasts as long as the trial, in a thread of its own; `stop` is called beside it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._is_stopped = False

    def run(self, job: str, log: str, folder: str) -> tuple[int, str]:
        """Exit code, and in one sentence what went wrong. The thread that starts the process waits for its end."""
        if self._is_stopped:
            return 128 + signal.SIGTERM, ""
        pipe, told = os.pipe()
        try:
            with Path(log).open("ab") as output:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "palaestra.workers"],
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=output,
                    env={**rank_variables(os.environ), LAUNCHER: str(os.getpid()), PIPE: str(told)},
                    cwd=folder if Path(folder).is_dir() else None,
                    pass_fds=(told,),
                    process_group=0,
                )
            os.close(told)
            self._process.communicate(job.encode())
            account = read(os.read(pipe, ACCOUNT_BYTES))
        finally:
            os.close(pipe)
        return self._process.returncode, _sentence(self._process.returncode, account)

    def stop(self) -> None:
        self._is_stopped = True
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)


def _sentence(code: int, account: Account | None) -> str:
    if account is not None:
        return f"{account.error} {account.hint}".strip()
    if code < 0:
        return f"Its process was ended by {signal.Signals(-code).name}."
    return "" if code in IN_ORDER else f"It ended with exit code {code} and without a word."
