"""How a search ends, told in status and journal: finished, stopped, or failed, and with which code."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

from palaestra.core.errors import PalaestraError
from palaestra.runner.signals import StopNow, exit_code_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from palaestra.runner.session import RunSession
    from palaestra.runner.signals import StopRequest


@contextmanager
def ending_told(session: RunSession, stop: StopRequest) -> Iterator[None]:
    """Of the search in the block. A second signal leaves at once, as Ctrl-C does."""
    try:
        yield
    except StopNow as error:
        session.cancelled(str(error), error.exit_code)
        raise KeyboardInterrupt from error
    except BaseException as error:
        session.failed(error, error.exit_code if isinstance(error, PalaestraError) else 1)
        raise
    if stop.signal is None:
        session.finished()
    else:
        session.cancelled(signal.Signals(stop.signal).name, exit_code_of(stop.signal))
