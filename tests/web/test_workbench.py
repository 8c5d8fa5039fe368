import asyncio
import os
import threading

import pytest
from starlette.responses import Response

from palaestra.web import workbench
from palaestra.web.workbench import CLIENT_LEFT, NICENESS, Workbench, step_back


class Asking:
    """A request of somebody who may have left."""

    def __init__(self, has_left=False):
        self.has_left = has_left

    async def is_disconnected(self):
        return self.has_left


def niceness():
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_what_is_worked_on_there_steps_back_and_nobody_else_does():
    before = niceness()
    answer = asyncio.run(Workbench().work(Asking(), lambda: Response(str(niceness()))))
    assert answer.body == str(NICENESS).encode()
    assert niceness() == before


@pytest.mark.parametrize(("cores", "places"), [(1, 1), (2, 1), (3, 1), (8, 4)])
def test_half_of_the_cores_are_for_others(monkeypatch, cores, places):
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    assert Workbench().places == places


def test_nothing_is_worked_out_for_somebody_who_left_while_waiting(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    done = []

    async def play():
        bench, patient, gone = Workbench(), Asking(), Asking()
        is_working, may_end = threading.Event(), threading.Event()

        def first():
            is_working.set()
            assert may_end.wait(60)
            return Response()

        busy = asyncio.create_task(bench.work(patient, first))
        await asyncio.to_thread(is_working.wait)
        waiting = asyncio.create_task(bench.work(gone, lambda: done.append(1) or Response()))
        await asyncio.sleep(0)  # it has taken its place in the queue
        gone.has_left = True
        may_end.set()
        return (await busy).status_code, (await waiting).status_code

    assert asyncio.run(play()) == (200, CLIENT_LEFT)
    assert done == []


def test_where_threads_have_no_priority_of_their_own_nothing_changes(monkeypatch):
    class Elsewhere:
        sysname = "Darwin"

    before = niceness()
    monkeypatch.setattr(workbench.os, "uname", Elsewhere)
    step_back()
    assert niceness() == before
