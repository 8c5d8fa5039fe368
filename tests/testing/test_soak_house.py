"""What the house of a soak waits for, and how long."""

import pytest

from palaestra.contracts.errors import NotFound, RunFailed
from palaestra.testing.soak_house import RUNS, VIEWERS, Viewer, is_answered, until


def test_waiting_ends_with_the_condition():
    answers = iter([False, False, True])
    until("the third answer", lambda: next(answers))
    assert list(answers) == []


def test_waiting_in_vain_is_a_finding_with_what_was_waited_for():
    with pytest.raises(RunFailed, match="After 0 s it is still not so that pigs fly"):
        until("pigs fly", lambda: False, seconds=0.0)


def test_a_refusal_or_a_closed_door_is_no_answer():
    def refuses(error):
        def question():
            raise error

        return question

    assert is_answered(lambda: None)
    assert not is_answered(refuses(NotFound("no daemon")))
    assert not is_answered(refuses(ConnectionRefusedError()))
    with pytest.raises(ZeroDivisionError):
        is_answered(refuses(ZeroDivisionError()))


def test_a_viewer_without_a_daemon_waits_and_can_be_stopped(tmp_path):
    viewer = Viewer(tmp_path, RUNS[0])
    viewer.start()
    viewer.stop()
    viewer.join(10)
    assert not viewer.is_alive()
    assert (viewer.frames, viewer.entries) == (0, 0)


def test_there_are_as_many_viewers_as_promised():
    assert VIEWERS == 8
