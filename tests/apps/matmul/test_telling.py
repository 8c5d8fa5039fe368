import signal
from types import SimpleNamespace

import pytest

from palaestra.apps.matmul.telling import ending_told
from palaestra.core.errors import UsageError
from palaestra.runner.signals import StopNow


class Session:
    def __init__(self):
        self.told = []

    def finished(self):
        self.told.append("finished")

    def cancelled(self, reason, code):
        self.told.append(("cancelled", reason, code))

    def failed(self, error, code):
        self.told.append(("failed", str(error), code))


def told(number=None, error=None):
    """What a session is told of a search that ends like this, and what comes out of it."""
    session = Session()
    try:
        with ending_told(session, SimpleNamespace(signal=number)):
            if error is not None:
                raise error
    except BaseException as left:  # noqa: BLE001  also what is no Exception
        return session.told, type(left)
    return session.told, None


def test_a_search_that_ends_by_itself_is_finished():
    assert told() == (["finished"], None)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_cancels_with_the_code_that_shells_know(number, code):
    assert told(number) == ([("cancelled", number.name, code)], None)


def test_a_second_signal_leaves_at_once():
    assert told(signal.SIGINT, StopNow(signal.SIGINT)) == ([("cancelled", "SIGINT", 130)], KeyboardInterrupt)


def test_an_error_of_ours_has_its_own_code_and_any_other_has_1():
    assert told(error=UsageError("no")) == ([("failed", "no", 2)], UsageError)
    assert told(error=MemoryError("none left")) == ([("failed", "none left", 1)], MemoryError)
